//! Why the feed has to begin anew: the errors of everything that it uses, as one type.

use super::link::LinkError;
use super::reoffer::NotOffered;
use super::snapshot::NoState;
use super::stream::NoEntries;
use crate::recorder::follower::RecorderGone;
use crate::recorder::follower::status::RebuildCause;

/// Why a session with the store has ended.
pub enum End {
    /// The recorder is gone.
    Gone,
    /// The store does not answer as it should.
    Link(LinkError),
    /// What is known does not go on from here.
    Broken(RebuildCause),
    /// The store is empty, or not the one that is followed.
    Foreign(LinkError),
    /// The store is not for this node as it was started.
    Unfit(String),
}

impl From<RecorderGone> for End {
    fn from(_gone: RecorderGone) -> Self {
        Self::Gone
    }
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<NotOffered> for End {
    fn from(none: NotOffered) -> Self {
        match none {
            NotOffered::Link(error) => Self::Link(error),
            NotOffered::Gone => Self::Gone,
        }
    }
}

impl From<NoEntries> for End {
    fn from(none: NoEntries) -> Self {
        NoState::from(none).into()
    }
}

impl From<NoState> for End {
    fn from(none: NoState) -> Self {
        match none {
            NoState::Link(error) => Self::Link(error),
            NoState::Broken(cause) => Self::Broken(cause),
            NoState::Unfit(why) => Self::Unfit(why),
        }
    }
}
