//! What is queued, dropped, and told in which order.

use super::{QUEUE_SIGHTINGS_MAX, Seen, TokenBeginning, WATCHERS_MAX, WatchBoard, WatchFilter};
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
    let seat = board.sit(WatchFilter::default());
    assert!(post.look());
    post.note(AT, registration(1));
    assert_eq!(board.take().sightings.len(), 1);
    drop(seat);
    assert!(!post.look());
    post.note(AT, registration(1));
    assert_eq!(board.take().sightings, []);
}

#[test]
fn what_does_not_fit_is_counted_for_whom_it_was() {
    let board = WatchBoard::default();
    let mut post = board.post();
    let _seats = [board.sit(of(1)), board.sit(WatchFilter::default())];
    assert!(post.look());
    for server in [1, 2] {
        for _ in 0..QUEUE_SIGHTINGS_MAX {
            post.note(AT, registration(server));
        }
    }
    post.note(AT, registration(1));
    let taken = board.take();
    assert_eq!(taken.sightings.len(), QUEUE_SIGHTINGS_MAX);
    assert_eq!(taken.dropped[..3], [1, QUEUE_SIGHTINGS_MAX as u64 + 1, 0]);
    assert_eq!(board.take().dropped, [0; WATCHERS_MAX]);
    // The same for what is staged.
    for _ in 0..=QUEUE_SIGHTINGS_MAX {
        post.stage(AT, registration(1));
    }
    assert_eq!(board.take().sightings, []);
    post.finish_staged(true);
    let taken = board.take();
    assert_eq!((taken.sightings.len(), taken.dropped[0]), (QUEUE_SIGHTINGS_MAX, 1));
    post.stage(AT, registration(1));
    post.finish_staged(false);
    post.finish_staged(true);
    assert_eq!(board.take().sightings, []);
}

#[test]
fn the_order_is_that_in_which_it_was_seen() {
    let board = WatchBoard::default();
    let mut posts = [board.post(), board.post(), board.post()];
    let _seat = board.sit(WatchFilter::default());
    assert!(posts.iter_mut().all(|post| post.look()));
    // Staged until the second half is seen.
    posts[0].stage(AT, registration(50));
    for number in 0..100 {
        if number == 50 {
            posts[0].finish_staged(true);
        } else {
            posts[1 + number % 2].note(AT, registration(number));
        }
    }
    let expected: Vec<Seen> = (0..100).map(registration).collect();
    let seen: Vec<Seen> = board.take().sightings.into_iter().map(|sighting| sighting.seen).collect();
    assert_eq!(seen, expected);
}

#[test]
fn of_a_token_that_nobody_has_there_is_a_beginning() {
    let mut servers = Snapshot::default();
    assert!(servers.insert(ServerId(28), Token::new("ab").expect("a token")));
    for (token, expected) in [
        ("0123456789", "0123"),
        ("01234567", "0123"),
        ("0123456", "012"),
        ("x", ""),
        ("", ""),
        ("0\"\n34567890", "0"),
        ("é123456789", ""),
        // Longer ones, where a server has so short a token.
        ("abc", "a"),
        ("abcd", ""),
        ("abcdefghij", ""),
    ] {
        assert_eq!(TokenBeginning::of(token.as_bytes(), &servers).as_str(), expected, "{token}");
    }
}
