//! Why the shared store does not do what it is asked, and why its state has to be read whole. Each reason has a kind,
//! so that the log can tell a new trouble from one that it has told. Knows no store.

/// A kind of thing that has a label: on `/readyz`, in the log and on the metrics page.
macro_rules! labelled {
    ($(#[$about:meta])* $name:ident { $($(#[$one:meta])* $kind:ident = $label:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$one])* $kind,)*
        }

        impl $name {
            /// Every one, in the order of declaration.
            pub const ALL: [Self; [$($label),*].len()] = [$(Self::$kind),*];

            /// Its label.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$kind => $label,)*
                }
            }
        }
    };
}

labelled! {
    /// A kind of reason.
    Reason {
        /// No machine answers there, or it has hung up.
        Unreachable = "unreachable",
        /// It is there and says nothing in time.
        TimeOut = "timeout",
        /// User or password are not what it wants.
        Authentication = "authentication",
        /// The two ends do not trust each other, or one of them speaks no TLS.
        Tls = "tls",
        /// It is no primary, or not the one that it was.
        Role = "role",
        /// Too few sentinels agree on where the primary is.
        Sentinels = "sentinels",
        /// The keys are another machine's, or on their way to one.
        Slot = "slot",
        /// The user may not do it, or the store knows no such command.
        Rights = "rights",
        /// It takes no writes, since it is a replica.
        ReadOnly = "read_only",
        /// It is reading its file.
        Loading = "loading",
        /// It has too few replicas to take a write.
        NoReplicas = "no_replicas",
        /// It has no memory left.
        Memory = "memory",
        /// It cannot write its file.
        Disk = "disk",
        /// It drops keys to make room.
        Eviction = "eviction",
        /// It has not the functions of this version.
        Functions = "functions",
        /// It is empty, or another one than this node follows.
        WrongStore = "wrong_store",
        /// What it may have lost is not given back yet, or this node is not as far as it is.
        Unsettled = "unsettled",
        /// This node was started with other settings than the store has.
        Unfit = "unfit",
        /// It says what makes no sense.
        Garbled = "garbled",
        /// Anything else that it refuses.
        Refused = "refused",
    }
}

impl Reason {
    /// Whether it passes by itself, as a step on the way back: the log tells it only where it lasts.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Loading | Self::Unsettled)
    }
}

labelled! {
    /// Why the state was read whole.
    RebuildCause {
        /// The node has none yet.
        Start = "start",
        /// Entries of the log are gone that it had not seen.
        Gap = "gap",
        /// The store has another history than the one that it followed.
        History = "history",
        /// The store had been empty, or another one.
        Store = "store",
        /// The store's clock went back.
        Clock = "clock",
        /// The store has dropped keys to make room.
        Eviction = "eviction",
    }
}

impl RebuildCause {
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

#[cfg(test)]
mod tests {
    use super::RebuildCause;

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
