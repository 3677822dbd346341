//! The interface of a store, as the recorder needs it; nothing of how a store works.
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
#[cfg(test)]
mod test_disk;

pub use tables::SCHEMA;

/// The file in a node's data directory that has the id of the shared store.
pub const SHARED_STORE_FILE: &str = "store.id";

/// A vote in the store. Pair and instant together are its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredVote {
    /// The server and the voter's address.
    pub pair: Pair,
    /// When the vote was cast.
    pub voted_at: UnixSeconds,
}

impl StoredVote {
    /// The vote of an entry in the table.
    #[must_use]
    pub const fn of(entry: Cooling, cooldown: Cooldown) -> Self {
        Self { pair: entry.pair, voted_at: cooldown.voted_at(entry.expires_at) }
    }

    /// The table entry of this vote.
    #[must_use]
    pub const fn cooling(&self, cooldown: Cooldown) -> Cooling {
        Cooling { pair: self.pair, expires_at: cooldown.expires_at(self.voted_at) }
    }
}

/// One change of a store.
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
    /// Another process has the store open.
    InUse(String),
    /// The store cannot be read or written now; its content is whole as far as is known.
    Unavailable(String),
    /// The store's file is no longer at its path: a restart would forget what is written to it.
    Gone(String),
    /// There is no room for more; otherwise as [`StoreError::Unavailable`].
    Full(String),
    /// A commit failed at its sync or after it, and may have been kept. The store is void now.
    InDoubt(String),
    /// The file is damaged, no store of ours, or of another version.
    Unusable(String),
    /// The store was made with other settings than this start has.
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

/// The note that every commit writes besides its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitNote {
    /// The lines of time, and the time shown.
    pub time: TimeNote,
    /// The instants of votes that were taken away lie before this one: no later vote of their pairs gets them. 0 for none.
    pub spent_until: UnixSeconds,
    /// The settings that the votes are read with.
    pub settings: Settings,
}

/// Called with one vote after the other.
pub type VoteVisitor<'v> = dyn FnMut(StoredVote) + 'v;

/// The whole content of a store.
pub struct StoreContent<'c> {
    /// The listed servers.
    pub servers: &'c Snapshot,
    /// Visits every vote, in no order. It is called more than once, and visits the same votes each time.
    pub votes: &'c dyn Fn(&mut VoteVisitor<'_>),
    /// Votes are sorted in slices of about this many, which bounds the memory for it.
    pub slice_rows: usize,
}

/// The room for more in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomLeft {
    /// Too little for a commit of a few votes.
    Little,
    /// Enough for such a commit, and about as much as at the last [`StoreError::Full`].
    Unchanged,
    /// More than at the last [`StoreError::Full`].
    More,
}

/// Keeps votes and servers over restarts.
pub trait Store: Send {
    /// Makes all of `events`, in their order, durable with the `note`, or nothing. A commit that returns without an
    /// error survives a crash and a power cut.
    ///
    /// # Errors
    /// [`StoreError::InDoubt`]: the commit may be durable. Any other: nothing of it is.
    fn commit(&mut self, events: &[Event], note: &CommitNote) -> Result<(), StoreError>;

    /// Gives every listed server, then every vote cast at `first` or later.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] where the content cannot be trusted.
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

    /// Drops up to `rows_max` votes cast before `first`, in one commit; gives their number. A void store drops none: it
    /// is written anew without them.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: to be tried again later.
    fn drop_before(&mut self, first: UnixSeconds, rows_max: usize, note: &CommitNote) -> Result<usize, StoreError>;

    /// Whether the file must be written anew before the next commit: a sync has failed, something else wrote to the
    /// file, or an earlier version made it. The store takes no commit until [`Store::renew`].
    fn is_void(&self) -> bool {
        false
    }

    /// Makes `content` durable, with the `note`, in place of everything before.
    ///
    /// # Errors
    /// As with a commit. The store stays as void as it was, and a retry is allowed.
    fn renew(&mut self, _content: &StoreContent<'_>, _note: &CommitNote) -> Result<(), StoreError> {
        Ok(())
    }

    /// The number of the last commit. It rises over restarts too, and falls only where another store takes this one's place.
    fn commit_number(&self) -> u64 {
        0
    }

    /// Bytes taken on disk, as far as is known.
    fn size_bytes(&self) -> u64;

    /// The free room, as far as the disk tells. Cheap, and not the last word: a quota is not seen.
    fn room(&self) -> RoomLeft {
        RoomLeft::More
    }

    /// Does the upkeep besides commits; to be called twice a second.
    ///
    /// # Errors
    /// [`StoreError::Gone`]: the store takes no change until this succeeds again.
    fn tend(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
