//! Why the shared store does not do what it is asked, and why its state has to be read whole. The log tells a new
//! failure from a reported one by its reason. This module knows no store.

/// An enum that has a label for each variant: on `/readyz`, in the log and on the metrics page.
macro_rules! labelled {
    ($(#[$about:meta])* $name:ident { $($(#[$one:meta])* $kind:ident = $label:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$one])* $kind,)*
        }

        impl $name {
            /// All variants, in the order of declaration.
            pub const ALL: [Self; [$($label),*].len()] = [$(Self::$kind),*];

            /// The label of this variant.
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
    /// Why the store does not do what it is asked.
    Reason {
        /// No machine answers, or it has closed the connection.
        Unreachable = "unreachable",
        /// The machine does not answer in time.
        TimeOut = "timeout",
        /// The store rejects the user or the password.
        Authentication = "authentication",
        /// The two ends do not trust each other, or one of them speaks no TLS.
        Tls = "tls",
        /// The machine is no primary, or no longer the primary.
        Role = "role",
        /// Too few sentinels agree on where the primary is.
        Sentinels = "sentinels",
        /// The keys are on another machine, or moving to one.
        Slot = "slot",
        /// The user may not run the command, or the store does not know it.
        Rights = "rights",
        /// The machine takes no writes, since it is a replica.
        ReadOnly = "read_only",
        /// The store is still loading its file.
        Loading = "loading",
        /// The store has too few replicas to take a write.
        NoReplicas = "no_replicas",
        /// The store has no memory left.
        Memory = "memory",
        /// The store cannot write its file.
        Disk = "disk",
        /// The store evicts keys when it is full.
        Eviction = "eviction",
        /// The store lacks the functions of this version.
        Functions = "functions",
        /// The store is empty, or not the one that this node follows.
        WrongStore = "wrong_store",
        /// Facts that the store may have lost are not given back yet, or this node is behind the store.
        Unsettled = "unsettled",
        /// The store does not fit this node: its settings, its schema, its mode or its `INFO`.
        Unfit = "unfit",
        /// A reply makes no sense.
        Garbled = "garbled",
        /// Any other refusal.
        Refused = "refused",
    }
}

impl Reason {
    /// Whether the reason passes by itself, as a step on the way back: the log reports it only if it lasts.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Loading | Self::Unsettled)
    }
}

labelled! {
    /// Why the state was read whole.
    RebuildCause {
        /// The node has no state yet.
        Start = "start",
        /// Entries of the log are gone that the node had not seen.
        Gap = "gap",
        /// The store has another history than the one that the node followed.
        History = "history",
        /// The store had been empty, or was another one.
        Store = "store",
        /// The store's clock went back.
        Clock = "clock",
        /// The store has evicted keys.
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
