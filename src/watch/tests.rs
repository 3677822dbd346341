//! Which lines are queued and dropped, and in which order they are told.

use super::{Seen, WAITING_BYTES_MAX, WatchBoard, WatchFilter, token_beginning};
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::time::UnixSeconds;

const AT: UnixSeconds = UnixSeconds(1_795_178_096);

fn of(server: u32) -> WatchFilter {
    WatchFilter { server: Some(ServerId(server)), ..WatchFilter::default() }
}

fn registration(server: usize) -> Seen {
    Seen::Registration(ServerId(u32::try_from(server).expect("small")))
}

#[test]
fn nothing_is_kept_where_nobody_watches() {
    let board = WatchBoard::default();
    let mut post = board.post();
    assert!(!post.look());
    let seat = board.sit(WatchFilter::default(), 0, 0).expect("a seat");
    assert!(post.look());
    post.note(AT, registration(1));
    assert_eq!(seat.take(AT, 0).lines().count(), 1);
    drop(seat);
    assert!(!post.look());
    post.note(AT, registration(1));
    assert_eq!(board.counted(), [0, 1, 0]);
}

#[test]
fn what_does_not_fit_is_counted_for_whom_it_was() {
    let board = WatchBoard::default();
    let mut post = board.post();
    let [first, all] = [of(1), WatchFilter::default()].map(|filter| board.sit(filter, 0, 0).expect("a seat"));
    assert!(post.look());
    post.note(AT, registration(1));
    let fit = WAITING_BYTES_MAX / first.take(AT, 0).len();
    assert_eq!(all.take(AT, 0).lines().count(), 1);
    for server in [1, 2] {
        (0..fit).for_each(|_| post.note(AT, registration(server)));
    }
    post.note(AT, registration(1));
    for (seat, dropped) in [(first, 1), (all, fit + 1)] {
        let told = seat.take(AT, 0);
        assert_eq!(told.lines().count(), fit + 1);
        assert_eq!(told.lines().last(), Some(&*format!(r#"{{"kind":"dropped","lines":{dropped}}}"#)));
        assert_eq!(seat.take(AT, 0), "");
    }
}

#[test]
fn the_order_is_that_in_which_it_was_seen() {
    let board = WatchBoard::default();
    let mut posts = [board.post(), board.post()];
    let seat = board.sit(WatchFilter::default(), 0, 0).expect("a seat");
    assert!(posts.iter_mut().all(|post| post.look()));
    (0..100).for_each(|number| posts[number % 2].note(AT, registration(number)));
    let told = seat.take(AT, 0);
    let expected = (0..100).map(|number| format!(r#"{{"at":"{AT}",{}}}"#, registration(number)));
    assert!(told.lines().eq(expected), "{told}");
}

#[test]
fn of_a_token_that_nobody_has_there_is_a_beginning() {
    let mut servers = Snapshot::default();
    assert!(servers.insert(ServerId(28), Token::new("ab").expect("a token")));
    for (token, expected) in [
        ("0123456789", "0123"),
        ("01234567", "0123"),
        ("+/=012345", "+"),
        ("a+b=012345", "a+b="),
        ("0123456", "012"),
        ("x", ""),
        ("", ""),
        ("0\"\n34567890", "0"),
        ("é123456789", ""),
        // A server has the token `ab`: no beginning that contains it is shown.
        ("abc", "a"),
        ("abcd", ""),
        ("abcdefghij", ""),
    ] {
        assert_eq!(token_beginning(token.as_bytes(), &servers).unwrap_or_default(), expected, "{token}");
    }
}
