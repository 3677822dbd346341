//! The model of votes, by hand: the answer to each request, and the state that it leaves.

use super::time::{Lines, Reading};
use super::world::{Moment, Seen, World};
use super::{Answer, Asked, Listed, Named, Request, Settings};
use std::net::IpAddr;
use std::sync::Arc;

const NOW_S: i64 = 1_000_000;
const SERVER: u32 = 1;
const SETTINGS: Settings = Settings { cooldown_s: 300, prefix: 64 };

fn at(now_s: i64) -> Moment {
    Moment {
        now_s,
        certain_ms: (now_s * 1_000, now_s * 1_000),
        ended_by_ms: 0,
        spent_up_to_s: None,
        is_after_start: (false, false),
    }
}

fn voter() -> IpAddr {
    "203.0.113.7".parse().expect("an address")
}

fn vote(voted_at: Option<i64>, is_record: bool) -> Request {
    let asked = Asked { server: Named::Id(SERVER), addresses: vec![voter()], voted_at };
    Request::Votes { asked: vec![asked], is_record }
}

fn recorded(voted_at: i64) -> Answer {
    Answer::Recorded { voted_at, next_vote_at: voted_at + SETTINGS.cooldown_s }
}

/// A state with one server.
fn world() -> World {
    let listed = Listed { server: SERVER, token: Some(Arc::from("token")) };
    asked(&World::new(SETTINGS), &Request::List { servers: vec![listed], keeps: false }, at(NOW_S)).1
}

/// The only way in which the request is answered.
fn asked(world: &World, request: &Request, moment: Moment) -> (Answer, World) {
    let mut ways = world.asked(request, 0, moment);
    assert_eq!(ways.len(), 1, "{ways:?}");
    ways.remove(0)
}

fn seen(world: &World, now_s: i64, seen: Seen) -> bool {
    world.may_see(SERVER, None, world.voter(voter()), now_s, seen)
}

#[test]
fn a_cooldown_ends_in_the_second_that_it_names() {
    let (answer, world) = asked(&world(), &vote(None, false), at(NOW_S));
    assert_eq!(answer, recorded(NOW_S));
    let next_vote_at = NOW_S + 300;
    assert!(seen(&world, next_vote_at - 1, Seen::InCooldown { next_vote_at }));
    assert!(!seen(&world, next_vote_at - 1, Seen::CanVote));
    assert!(seen(&world, next_vote_at, Seen::CanVote));
    assert_eq!(asked(&world, &vote(None, false), at(next_vote_at - 1)).0, Answer::InCooldown { next_vote_at });
    assert_eq!(asked(&world, &vote(None, false), at(next_vote_at)).0, recorded(next_vote_at));
}

#[test]
fn an_instant_is_not_given_twice_and_six_are_too_many() {
    let mut world = world();
    for later in 0..=5 {
        let (answer, voted) = asked(&world, &vote(None, false), at(NOW_S));
        assert_eq!(answer, recorded(NOW_S + later));
        let (answer, cancelled) = asked(&voted, &Request::Cancel(SERVER, voter()), at(NOW_S));
        assert_eq!(answer, Answer::Cancelled);
        world = cancelled;
    }
    assert_eq!(asked(&world, &vote(None, false), at(NOW_S)).0, Answer::TooManyChanges);
    assert_eq!(asked(&world, &vote(None, false), at(NOW_S + 1)).0, recorded(NOW_S + 6));
    // An explicit instant ahead of the clock is refused as well. The caller's own records keep their instant.
    assert_eq!(asked(&world, &vote(Some(NOW_S + 5), false), at(NOW_S)).0, Answer::TooManyChanges);
    assert_eq!(asked(&world, &vote(Some(NOW_S), true), at(NOW_S)).0, recorded(NOW_S));
}

#[test]
fn of_two_records_the_later_stays() {
    let (_, world) = asked(&world(), &vote(Some(NOW_S - 10), true), at(NOW_S));
    assert_eq!(asked(&world, &vote(Some(NOW_S - 11), true), at(NOW_S)).0, Answer::Unchanged);
    assert_eq!(asked(&world, &vote(Some(NOW_S - 10), true), at(NOW_S)).0, Answer::Unchanged);
    assert_eq!(asked(&world, &vote(Some(NOW_S - 9), true), at(NOW_S)).0, recorded(NOW_S - 9));
    assert_eq!(asked(&world, &vote(Some(NOW_S + 5), true), at(NOW_S)).0, recorded(NOW_S + 5));
    assert_eq!(asked(&world, &vote(Some(NOW_S + 6), true), at(NOW_S)).0, Answer::InFuture);
    assert_eq!(asked(&world, &vote(Some(NOW_S - 300), true), at(NOW_S)).0, Answer::Expired);
    // A vote that only the later line has ended is taken.
    let apart = Moment { certain_ms: ((NOW_S - 200) * 1_000, (NOW_S - 200) * 1_000), ..at(NOW_S) };
    assert_eq!(asked(&world, &vote(Some(NOW_S - 300), true), apart).0, Answer::Unchanged);
}

#[test]
fn a_time_that_goes_back_leaves_out_what_has_ended_and_brings_the_rest_near() {
    let (_, mut world) = asked(&world(), &vote(None, false), at(NOW_S));
    let mut ended = world.clone();
    // It stays ended with a longer cooldown.
    ended.goes_back((NOW_S + 300) * 1_000 + 1_000, NOW_S - 3_600, (300, 600));
    assert!(seen(&ended, NOW_S - 3_600, Seen::CanVote));
    world.goes_back((NOW_S + 100) * 1_000, NOW_S - 3_600, (300, 300));
    assert!(seen(&world, NOW_S - 3_600, Seen::InCooldown { next_vote_at: NOW_S - 3_300 }));
}

#[test]
fn other_settings_keep_the_instants_and_leave_out_what_has_ended() {
    let (_, world) = asked(&world(), &vote(None, false), at(NOW_S));
    let longer = Settings { cooldown_s: 600, ..SETTINGS };
    let mut live = world.clone();
    live.settle(longer, (NOW_S + 100) * 1_000, (NOW_S + 100) * 1_000, (NOW_S + 100) * 1_000);
    assert!(seen(&live, NOW_S + 100, Seen::InCooldown { next_vote_at: NOW_S + 600 }));
    let mut ended = world;
    ended.settle(longer, (NOW_S + 301) * 1_000, (NOW_S + 301) * 1_000, (NOW_S + 301) * 1_000);
    assert!(seen(&ended, NOW_S + 301, Seen::CanVote));
}

#[test]
fn a_removed_server_is_unknown_and_comes_back_without_votes() {
    let (_, world) = asked(&world(), &vote(None, false), at(NOW_S));
    let (answer, world) = asked(&world, &Request::Remove(SERVER), at(NOW_S));
    assert_eq!(answer, Answer::Removed);
    assert!(seen(&world, NOW_S, Seen::UnknownServer));
    let lines = Lines::new(Reading { wall_ms: NOW_S * 1_000, boot_ms: 0 });
    assert_eq!(world.held(lines.certain_ms()), 1);
    let listed = Listed { server: SERVER, token: Some(Arc::from("other")) };
    let (_, world) = asked(&world, &Request::List { servers: vec![listed], keeps: true }, at(NOW_S));
    assert!(seen(&world, NOW_S, Seen::CanVote));
    // The instant of a vote that went is not given again.
    assert_eq!(asked(&world, &vote(None, false), at(NOW_S)).0, recorded(NOW_S + 1));
}
