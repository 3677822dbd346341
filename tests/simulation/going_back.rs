//! Regressions: a clock that is behind becomes certain, at a start or behind 10 minutes.

use super::disk::Strike;
use super::operations::{Ask, Ballot, End, Operation, Trouble, When};
use super::{Settings, holds_under, list, votes};

/// A new vote for the second server.
fn vote(address: usize) -> Operation {
    votes(vec![Ballot { server: 1, by_token: false, addresses: vec![address], when: When::Now }], false)
}

/// A start with this cooldown that accepts the clock. It accepts the settings where `accepts` says so.
fn accepts_clock(cooldown_s: Option<i64>, accepts: bool, off_ms: i64) -> Operation {
    Operation::OtherOptions { cooldown_s, prefix: None, accepts, accepts_clock: true, off_ms }
}

/// The wall clock is accepted, and the time shown stands still. The certain line has gone on by a minute before, and ended a
/// vote that is not older than the time shown. The next vote of the pair gets another second, or has to wait for one.
#[test]
fn the_instant_of_a_vote_that_ended_in_a_standstill_is_not_given_again() {
    let removal = Operation::Ask(vec![Ask::Remove { server: 1 }]);
    for removal in [&[removal][..], &[]] {
        let before = [list(&[1]), Operation::Step { ms: -601_000 }, vote(1)];
        let behind = [accepts_clock(None, true, 130_000), list(&[1]), vote(1), accepts_clock(None, true, 0), vote(1)];
        holds_under(Settings { cooldown_s: 60, prefix: 64 }, 0, &[&before, removal, &behind].concat());
    }
}

/// A vote ends while the service is off, by a certain line that goes back at the start. With a longer cooldown the vote would
/// count again.
#[test]
fn what_has_ended_stays_ended_with_a_longer_cooldown_as_the_time_goes_back() {
    for cooldown_s in [300, 600] {
        let ends = Operation::ToEnd { server: 1, address: 1, off_ms: -1_000 };
        let back =
            [Operation::Step { ms: -7_200_000 }, vote(7), accepts_clock(Some(cooldown_s), true, 50_000), vote(1)];
        holds_under(Settings { cooldown_s: 300, prefix: 64 }, 0, &[&[list(&[1]), vote(1), ends][..], &back].concat());
    }
}

/// Votes have ended for good, and their rows are in the store still. The clock comes back, and a start accepts it: no vote
/// is live, so other settings need no option.
#[test]
fn what_has_ended_before_an_accepted_clock_refuses_no_settings() {
    let ends = Operation::Restart { end: End::Stop, off_ms: 61_000, step_ms: 0, accepts_clock: true };
    // More rows than one sweep takes. The change behind the restart says which note the store has.
    let votes = [0, 1, 4, 5, 7, 8].map(vote);
    let ended = [Operation::Step { ms: 600_000 }, ends, Operation::Ask(vec![Ask::Rotate { server: 1 }])];
    let back = [Operation::Step { ms: -7_200_000 }, accepts_clock(Some(86_400), false, 0), vote(1)];
    let operations = [&[list(&[1])], &votes[..], &ended, &back].concat();
    holds_under(Settings { cooldown_s: 60, prefix: 64 }, 97_569_805, &operations);
}

/// A start waits for its clock, goes on, and its first sync fails. The next try finds a void file, which is written anew
/// soon after the service is ready.
#[test]
fn a_start_that_goes_on_behind_a_failed_sync_is_ready_before_its_file_is_written_anew() {
    holds_under(
        Settings { cooldown_s: 600, prefix: 64 },
        97_418_941,
        &[
            Operation::Pass { ms: 320_000 },
            Operation::Step { ms: 601_000 },
            list(&[0]),
            Operation::Restart { end: End::Stop, off_ms: 3_000, step_ms: -7_200_000, accepts_clock: false },
            Operation::Step { ms: 662_000 },
            Operation::ComeBack,
            Operation::Strikes(vec![(16, Strike::SyncsFail(1))]),
            Operation::Pass { ms: 300 },
            Operation::Pass { ms: 31_000 },
        ],
    );
}

/// The recorder goes by its own reading of the clocks, a few milliseconds behind the wall clock's, and then syncs. The time
/// goes back to the second of that reading.
#[test]
fn the_time_goes_back_to_the_second_in_which_the_commit_began() {
    holds_under(
        Settings { cooldown_s: 86_400, prefix: 64 },
        96_019_765,
        &[
            list(&[1]),
            Operation::Step { ms: 40_000 },
            Operation::Restart { end: End::Kill, off_ms: 3_000, step_ms: -1_500, accepts_clock: false },
            vote(0),
            Operation::Step { ms: 600_000 },
            Operation::Step { ms: -300 },
            Operation::Pass { ms: 1_900_000 },
            Operation::ToEnd { server: 1, address: 0, off_ms: 1_000 },
            vote(7),
            Operation::Drift { ppm: 30 },
            Operation::Restart { end: End::Stop, off_ms: 0, step_ms: 0, accepts_clock: false },
            Operation::ComeBack,
            Operation::Disk(Trouble::SyncTakes(20)),
            Operation::Pass { ms: 5_300_000 },
        ],
    );
}
