//! What the recorder needs of a store, and nothing of how one does it.
//!
//! [`embedded`] keeps everything in one file of a data directory; [`memory`] keeps nothing, for
//! demonstrations. [`disk`] is the one way to files, and [`directory`] the real one.

use std::fmt;

use crate::vote::id::{ServerId, Token};
use crate::vote::settings::Settings;
use crate::vote::table::{Cooling, Pair};
use crate::vote::time::{Cooldown, UnixSeconds, VOTE_AHEAD_MAX_S};

pub mod commit_marker;
pub mod directory;
pub mod disk;
pub mod embedded;
pub mod memory;
mod room;
pub mod row;
mod store_file;
mod tables;

pub use tables::SCHEMA;

/// A vote as it is kept. Both together are its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredVote {
    /// For which server, and from where.
    pub pair: Pair,
    /// When.
    pub voted_at: UnixSeconds,
}

impl StoredVote {
    /// The vote of an entry in the table.
    #[must_use]
    pub const fn of(entry: Cooling, cooldown: Cooldown) -> Self {
        Self { pair: entry.pair, voted_at: cooldown.voted_at(entry.expires_at) }
    }

    /// The entry in the table that it makes.
    #[must_use]
    pub const fn cooling(&self, cooldown: Cooldown) -> Cooling {
        Cooling { pair: self.pair, expires_at: cooldown.expires_at(self.voted_at) }
    }
}

/// One change of what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A vote was recorded.
    Vote(StoredVote),
    /// A recorded vote counts no longer: cancelled, replaced by a later one, or removed with its server.
    VoteRemoved(StoredVote),
    /// A vote that counts no longer had this instant: no later vote of the pair gets it.
    Spent(StoredVote),
    /// A server is listed, or has another token.
    Server(ServerId, Token),
    /// A server is listed no longer.
    ServerRemoved(ServerId),
}

/// Why a store could not do what it was asked.
#[derive(Debug)]
pub enum StoreError {
    /// Another process has it open.
    InUse(String),
    /// It cannot be read or written now; what is there is whole as far as is known.
    Unavailable(String),
    /// Its file is no longer at its path: what is written there would be forgotten.
    Gone(String),
    /// There is no room for more; as [`StoreError::Unavailable`] else.
    Full(String),
    /// The sync of a commit failed, or what comes after it: it may have been kept. The store is void now.
    InDoubt(String),
    /// It is damaged, no store of ours, or of another version.
    Unusable(String),
    /// It was made with other settings than this start has.
    Settings(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::InUse(what)
        | Self::Unavailable(what)
        | Self::Gone(what)
        | Self::Full(what)
        | Self::InDoubt(what)
        | Self::Unusable(what)
        | Self::Settings(what)) = self;
        formatter.write_str(what)
    }
}

/// A step back of the clock, as it cuts rows that do not say so yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Votes from after this moment were cast before the step: it cuts them.
    pub beyond: UnixSeconds,
    /// They end a length after this.
    pub to: UnixSeconds,
}

/// What is written with every commit besides its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The latest time of the service, in milliseconds since 1970.
    pub shown_ms: u64,
    /// The same without a provisional step forward.
    pub settled_ms: u64,
    /// What the rows are kept by.
    pub settings: Settings,
    /// Steps back, in their order.
    pub cuts: Vec<Cut>,
}

impl Kept {
    /// The instant that a row of a vote stands for, by the steps back that the rows do not know of.
    pub(crate) fn cut(&self, voted_at: UnixSeconds) -> UnixSeconds {
        let by_step = |at, step: &Cut| if at > step.beyond.plus(VOTE_AHEAD_MAX_S) { step.to } else { at };
        self.cuts.iter().fold(voted_at, by_step)
    }
}

/// What a store knows of the time that it was used in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// What was written last; `None` where nothing was ever kept.
    pub kept: Option<Kept>,
    /// When the newest vote was cast.
    pub newest: Option<UnixSeconds>,
}

/// Keeps votes and servers over restarts.
pub trait Store: Send {
    /// Makes all of `events`, in their order, durable with what is `kept` besides, or nothing. What came back without
    /// an error survives a crash and a power cut.
    ///
    /// # Errors
    /// [`StoreError::InDoubt`]: it may have been kept. Any other: nothing was.
    fn commit(&mut self, events: &[Event], kept: &Kept) -> Result<(), StoreError>;

    /// Gives every listed server, then every vote cast after `since`, and every instant after it that is spent.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] where what is there cannot be believed.
    fn replay(&mut self, since: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError>;

    /// What is known of the time before this start.
    ///
    /// # Errors
    /// As [`Store::replay`].
    fn past(&mut self) -> Result<Past, StoreError>;

    /// Whether anything is kept beyond the end of the process.
    fn is_lasting(&self) -> bool {
        true
    }

    /// Drops up to `rows_max` votes cast until `until`, itself included, in one commit; how many were dropped.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: to be tried again later.
    fn drop_cast(&mut self, until: UnixSeconds, rows_max: usize, kept: &Kept) -> Result<usize, StoreError>;

    /// Whether nothing that is kept counts any more, because a sync has failed or something else wrote to the
    /// file: no commit is taken until [`Store::renew`].
    fn is_void(&self) -> bool {
        false
    }

    /// Keeps `rows`, each a server, a vote or an instant that is spent, and what is `kept` besides, in place of all that was kept.
    ///
    /// # Errors
    /// As with a commit. The store is as void as it was, and this can be tried again.
    fn renew(&mut self, _rows: &mut dyn Iterator<Item = Event>, _kept: &Kept) -> Result<(), StoreError> {
        Ok(())
    }

    /// Bytes taken on disk, as far as is known.
    fn size_bytes(&self) -> u64;

    /// After [`StoreError::Full`]: whether there is more room now than there was then. Cheap, and
    /// not the last word: a limit on the size of files is not seen.
    fn has_more_room(&self) -> bool {
        true
    }

    /// What needs looking after besides commits; to be called twice a second.
    ///
    /// # Errors
    /// [`StoreError::Gone`]: no change is taken until this is well again.
    fn tend(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
