//! Why the shared store does not do what it is asked, and why its state has to be read whole. Each reason has a kind,
//! so that the log can tell a new trouble from one that it has told. Knows no store.

use parking_lot::Mutex;

/// A kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No machine answers there, or it has hung up.
    Unreachable,
    /// It is there and says nothing in time.
    TimeOut,
    /// User or password are not what it wants.
    Authentication,
    /// The two ends do not trust each other, or one of them speaks no TLS.
    Tls,
    /// It is no primary, or not the one that it was.
    Role,
    /// Too few sentinels agree on where the primary is.
    Sentinels,
    /// The keys are another machine's, or on their way to one.
    Slot,
    /// The user may not do it, or the store knows no such command.
    Rights,
    /// It takes no writes, since it is a replica.
    ReadOnly,
    /// It is reading its file.
    Loading,
    /// It has too few replicas to take a write.
    NoReplicas,
    /// It has no memory left.
    Memory,
    /// It cannot write its file.
    Disk,
    /// It drops keys to make room.
    Eviction,
    /// It has not the functions of this version.
    Functions,
    /// It is empty, or another one than this node follows.
    WrongStore,
    /// What it may have lost is not given back yet, or this node is not as far as it is.
    Unsettled,
    /// This node was started with other settings than the store has.
    Unfit,
    /// It says what makes no sense.
    Garbled,
    /// Anything else that it refuses.
    Refused,
}

impl Reason {
    /// Every kind, in the order of declaration, with its label.
    pub const ALL: [(Self, &str); 20] = [
        (Self::Unreachable, "unreachable"),
        (Self::TimeOut, "timeout"),
        (Self::Authentication, "authentication"),
        (Self::Tls, "tls"),
        (Self::Role, "role"),
        (Self::Sentinels, "sentinels"),
        (Self::Slot, "slot"),
        (Self::Rights, "rights"),
        (Self::ReadOnly, "read_only"),
        (Self::Loading, "loading"),
        (Self::NoReplicas, "no_replicas"),
        (Self::Memory, "memory"),
        (Self::Disk, "disk"),
        (Self::Eviction, "eviction"),
        (Self::Functions, "functions"),
        (Self::WrongStore, "wrong_store"),
        (Self::Unsettled, "unsettled"),
        (Self::Unfit, "unfit"),
        (Self::Garbled, "garbled"),
        (Self::Refused, "refused"),
    ];

    /// Its label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether it says something of the way to the store, and nothing of what the store takes.
    #[must_use]
    pub const fn is_of_connection(self) -> bool {
        !matches!(
            self,
            Self::Rights
                | Self::ReadOnly
                | Self::NoReplicas
                | Self::Memory
                | Self::Disk
                | Self::Functions
                | Self::Refused
        )
    }

    /// Whether it passes by itself, as a step on the way back: the log tells it only where it lasts.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Loading | Self::Unsettled)
    }
}

/// Why the state was read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildCause {
    /// The node has none yet.
    Start,
    /// Entries of the log are gone that it had not seen.
    Gap,
    /// The store has another history than the one that it followed.
    History,
    /// The store had been empty, or another one.
    Store,
    /// The store's clock went back.
    Clock,
    /// The store has dropped keys to make room.
    Eviction,
}

impl RebuildCause {
    /// Every cause, in the order of declaration, with its label.
    pub const ALL: [(Self, &str); 6] = [
        (Self::Start, "start"),
        (Self::Gap, "gap"),
        (Self::History, "history"),
        (Self::Store, "store"),
        (Self::Clock, "clock"),
        (Self::Eviction, "eviction"),
    ];

    /// Its label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether the store may have lost votes that this node has seen in it.
    #[must_use]
    pub const fn may_have_lost(self) -> bool {
        matches!(self, Self::History | Self::Store | Self::Eviction)
    }

    /// Of two causes, the one that asks for more to be done.
    #[must_use]
    pub fn graver(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        if other.is_some_and(Self::may_have_lost) { other } else { one.or(other) }
    }
}

/// What is wrong at this moment, if anything. One writes, everybody may look.
#[derive(Debug, Default)]
pub struct Current(Mutex<Option<(Reason, String)>>);

impl Current {
    /// Says what is wrong, in one line; `None` where all is well.
    pub fn set(&self, reason: Option<(Reason, String)>) {
        *self.0.lock() = reason;
    }

    /// What is wrong, and the line that says it.
    #[must_use]
    pub fn get(&self) -> Option<(Reason, String)> {
        self.0.lock().clone()
    }

    /// Forgets a reason that was only of a connection: another connection to the same store works.
    pub fn forget_connection(&self) {
        let mut current = self.0.lock();
        if current.as_ref().is_some_and(|(reason, _)| reason.is_of_connection()) {
            *current = None;
        }
    }

    /// What kind of thing is wrong.
    #[must_use]
    pub fn kind(&self) -> Option<Reason> {
        self.0.lock().as_ref().map(|(reason, _)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::{Reason, RebuildCause};

    #[test]
    fn every_reason_and_every_cause_has_its_place() {
        for (index, (reason, label)) in Reason::ALL.into_iter().enumerate() {
            assert_eq!((reason as usize, reason.label()), (index, label));
        }
        for (index, (cause, label)) in RebuildCause::ALL.into_iter().enumerate() {
            assert_eq!((cause as usize, cause.label()), (index, label));
        }
    }

    #[test]
    fn a_hole_is_no_reason_to_forget_that_something_may_be_lost() {
        use RebuildCause::{Clock, Gap, History, Start, Store};
        let graver = RebuildCause::graver;
        assert_eq!(graver(None, None), None);
        assert_eq!(graver(Some(Gap), Some(History)), Some(History));
        assert_eq!(graver(Some(Store), Some(Gap)), Some(Store));
        assert_eq!(graver(Some(Clock), None), Some(Clock));
        assert_eq!(graver(None, Some(Start)), Some(Start));
    }
}
