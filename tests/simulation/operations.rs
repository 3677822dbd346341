//! What happens to a service, drawn from a seed: scenes of requests, clocks, faults of the disk, stops and starts.

use super::disk::{Kill, Strike};

mod drawing;

pub(crate) use drawing::draw;

/// Servers and addresses are told by number.
pub(crate) const SERVERS: usize = 3;
pub(crate) const ADDRESSES: usize = 12;

/// One thing that happens. Plain data, so that a case can be cut down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Requests that the recorder meets in one step.
    Ask(Vec<Ask>),
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
    /// Time passes, and the process does not run: it is stopped, or the machine is suspended.
    Pause {
        ms: i64,
    },
    /// Time passes until the cooldown of a pair ends, and so much longer.
    ToEnd {
        server: usize,
        address: usize,
        off_ms: i64,
    },
    /// Where the lines are apart, time passes until the wall line is taken, and so much longer.
    ToTaken {
        off_ms: i64,
    },
    /// The wall clock is set.
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
    /// The process is killed in the midst of its work, and the power may go with it.
    Kill {
        kill: Kill,
        cuts_power: bool,
    },
    Disk(Trouble),
    /// Faults to come, each so many operations of the disk behind the one before it.
    Strikes(Vec<(u32, Strike)>),
    /// The process is stopped, somebody does this to its files, and another one starts.
    Swap(Swap),
    /// Somebody starts a second process.
    SecondProcess,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    Kill,
    PowerCut,
}

/// What happens to the disk.
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

/// What is done to the files of a stopped process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    /// An older copy takes the store's place; the newer one comes back when that was refused.
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
    /// None is said.
    Not,
    /// The newest, or the one before it, that this server has had.
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
    /// None.
    Now,
    /// So many seconds before the service's time.
    Ago(i64),
    /// So many seconds and a cooldown before it.
    OldBy(i64),
    /// That of the latest vote of its first address, and so many seconds.
    Again(i64),
}
