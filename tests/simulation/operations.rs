//! The operations of a simulation, drawn from a seed: scenes of requests, clocks, faults of the disk, stops and starts.

use super::disk::{Kill, Strike};

mod drawing;
mod requests;

pub(crate) use drawing::draw;

/// Operations name servers and addresses by number, below these.
pub(crate) const SERVERS: usize = 3;
pub(crate) const ADDRESSES: usize = 12;

/// One operation. Plain data, so that `shrink` can cut a case down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Requests that the recorder meets in one step.
    Ask(Vec<Ask>),
    /// Requests of one step, and those of the next one: a listing may still take votes away in parts then.
    AskTwice(Vec<Ask>, Vec<Ask>),
    /// A vote and its cancellation, again and again.
    Flip {
        server: usize,
        address: usize,
        rounds: usize,
    },
    /// Time passes.
    Pass {
        ms: i64,
    },
    /// Time passes while the process does not run: it is stopped, or the machine is suspended.
    Pause {
        ms: i64,
    },
    /// Time passes until the cooldown of a pair ends, and `off_ms` longer.
    ToEnd {
        server: usize,
        address: usize,
        off_ms: i64,
    },
    /// Where the lines are apart, time passes until the service takes the wall line, and `off_ms` longer.
    ToTaken {
        off_ms: i64,
    },
    /// The wall clock steps.
    Step {
        ms: i64,
    },
    /// The wall clock is set back to what it was before the steps.
    ComeBack,
    Drift {
        ppm: i64,
    },
    /// The process ends, and another one starts.
    Restart {
        end: End,
        off_ms: i64,
        step_ms: i64,
        accepts_clock: bool,
    },
    /// A start with other options in between.
    OtherOptions {
        cooldown_s: Option<i64>,
        prefix: Option<u8>,
        accepts: bool,
        accepts_clock: bool,
        off_ms: i64,
    },
    /// The process is killed at its work, and the power may go with it.
    Kill {
        kill: Kill,
        cuts_power: bool,
    },
    Disk(Trouble),
    /// Faults to come, each with the number of disk operations between it and the one before.
    Strikes(Vec<(u32, Strike)>),
    /// The process stops, the operator does this to its files, and another process starts.
    Swap(Swap),
    /// The operator starts a second process.
    SecondProcess,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    Kill,
    PowerCut,
}

/// A fault of the disk, or an operator's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Strike(Strike),
    SyncTakes(i64),
    Heals,
    Evicts,
    Emptied,
    CutShort,
    BackedUp,
    Restored,
    MovedAway,
    AnotherAtPath,
    MovedBack,
    NoteDeleted,
}

/// An operator's change of the files of a stopped process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    /// An older copy takes the store's place. The newer one comes back once a start has refused the copy.
    Older,
    /// An older copy, and the note of the last commit is gone.
    OlderWithoutNote,
    NoNote,
    /// The store is gone, and comes back.
    Gone,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Votes { ballots: Vec<Ballot>, is_record: bool },
    Cancel { server: usize, address: usize },
    CancelAll { address: usize },
    List { servers: Vec<(usize, Named)>, keeps: bool },
    Rotate { server: usize },
    Remove { server: usize },
}

/// The token that a server is listed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    New,
    /// The request names none.
    Not,
    /// The newest token of this server, or the one before it.
    Newest(usize),
    Earlier(usize),
}

/// A vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    pub(crate) server: usize,
    /// By the newest token of the server, and not by its id.
    pub(crate) by_token: bool,
    pub(crate) addresses: Vec<usize>,
    pub(crate) when: When,
}

/// The instant that a vote brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// The vote brings none.
    Now,
    /// This many seconds before the service's time.
    Ago(i64),
    /// A cooldown and this many seconds before it.
    OldBy(i64),
    /// This many seconds after the latest vote of its first address.
    Again(i64),
}
