//! What the recorder needs of a store, and nothing of how one does it.
//!
//! [`embedded`] keeps everything in one file of a data directory; [`memory`] keeps nothing, for
//! demonstrations. [`disk`] is the one way to files, and [`directory`] the real one.

use std::fmt;

use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::lines::TimeNote;
use crate::vote::settings::Settings;
use crate::vote::table::{Cooling, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};

pub mod commit_marker;
pub mod directory;
pub mod disk;
pub mod embedded;
pub mod memory;
mod private_view;
mod room;
pub mod row;
mod store_file;
mod tables;

pub use tables::SCHEMA;

/// In the data directory of a node: the id of the store that the nodes share.
pub const SHARED_STORE_FILE: &str = "store.id";

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

/// What is written with every commit besides its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitNote {
    /// The lines of time, and the time shown.
    pub time: TimeNote,
    /// Votes that were taken away have instants before this one: no later vote of their pairs gets these. 0 for none.
    pub spent_until: UnixSeconds,
    /// What the votes are read by.
    pub settings: Settings,
}

/// Is shown votes, one after the other.
pub type VoteVisitor<'v> = dyn FnMut(StoredVote) + 'v;

/// All that a store is to hold.
pub struct StoreContent<'c> {
    /// The listed servers.
    pub servers: &'c Snapshot,
    /// Visits every vote, in no order. It is called more than once, and visits the same votes each time.
    pub votes: &'c dyn Fn(&mut VoteVisitor<'_>),
    /// Votes are put in order in slices of about so many, so that the memory for it has a bound.
    pub slice_rows: usize,
}

/// The room for more in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomLeft {
    /// None for a commit of a few votes.
    Little,
    /// Enough for one, and about as much as when [`StoreError::Full`] was told.
    Unchanged,
    /// More than when [`StoreError::Full`] was told.
    More,
}

/// Keeps votes and servers over restarts.
pub trait Store: Send {
    /// Makes all of `events`, in their order, durable with the `note`, or nothing. What came back without an error
    /// survives a crash and a power cut.
    ///
    /// # Errors
    /// [`StoreError::InDoubt`]: it may be durable. Any other: nothing is.
    fn commit(&mut self, events: &[Event], note: &CommitNote) -> Result<(), StoreError>;

    /// Gives every listed server, then every vote cast at `first` or later.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] where what is there cannot be believed.
    fn replay(&mut self, first: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError>;

    /// The note of the last commit; `None` where nothing was ever committed.
    ///
    /// # Errors
    /// As [`Store::replay`].
    fn note(&mut self) -> Result<Option<CommitNote>, StoreError>;

    /// Whether a listed server has a vote cast at `first` or later.
    ///
    /// # Errors
    /// As [`Store::replay`].
    fn has_vote(&mut self, first: UnixSeconds) -> Result<bool, StoreError>;

    /// Drops up to `rows_max` votes cast before `first`, in one commit; how many were dropped. A store that is void has
    /// none: it is written anew without them.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: to be tried again later.
    fn drop_before(&mut self, first: UnixSeconds, rows_max: usize, note: &CommitNote) -> Result<usize, StoreError>;

    /// Whether the file is to be written anew before the next commit: a sync has failed, something else wrote to it, or
    /// an earlier version made it. No commit is taken until [`Store::renew`].
    fn is_void(&self) -> bool {
        false
    }

    /// Makes `content` durable, with the `note`, in place of all that was there.
    ///
    /// # Errors
    /// As with a commit. The store is as void as it was, and this can be tried again.
    fn renew(&mut self, _content: &StoreContent<'_>, _note: &CommitNote) -> Result<(), StoreError> {
        Ok(())
    }

    /// Number of the last commit. It rises over restarts too, and falls only where another store takes the place.
    fn commit_number(&self) -> u64 {
        0
    }

    /// Bytes taken on disk, as far as is known.
    fn size_bytes(&self) -> u64;

    /// The room that there is, as far as the disk tells. Cheap, and not the last word: a quota and a limit on the size of
    /// files are not seen.
    fn room(&self) -> RoomLeft {
        RoomLeft::More
    }

    /// What needs looking after besides commits; to be called twice a second.
    ///
    /// # Errors
    /// [`StoreError::Gone`]: no change is taken until this is well again.
    fn tend(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
