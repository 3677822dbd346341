//! Why the feed has to begin anew, whatever part of it has met the trouble.

use super::link::LinkError;
use super::reason::{Reason, RebuildCause};

/// Why a session with the store has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedError {
    /// The recorder is gone.
    Gone,
    /// The store does not answer as it should. Where it is refused with [`Reason::WrongStore`] it is empty, or not
    /// the one that is followed; with [`Reason::Unfit`] it is not for this node as it was started.
    Link(LinkError),
    /// What is known does not go on from here.
    Broken(RebuildCause),
}

impl FeedError {
    /// The store is not for this node as it was started.
    #[must_use]
    pub const fn unfit(why: String) -> Self {
        Self::Link(LinkError::Refused(Reason::Unfit, why))
    }
}

impl From<LinkError> for FeedError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<FeedError> for LinkError {
    fn from(error: FeedError) -> Self {
        let lost = |what: &str| {
            Self::Lost(Reason::Garbled, format!("the log of the store does not go on ({what}); try again"))
        };
        match error {
            FeedError::Link(error) => error,
            FeedError::Broken(cause) => lost(cause.label()),
            FeedError::Gone => lost("nobody takes it"),
        }
    }
}
