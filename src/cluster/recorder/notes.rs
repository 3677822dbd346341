//! What the log says of a node and its store.

use crate::cluster::address::Host;
use crate::cluster::keys::{self, SCHEMA};
use crate::cluster::link::{LinkError, refusal};
use crate::cluster::node::Unfit;
use crate::cluster::reason::Reason;
use crate::vote::settings::Settings;

/// What the log says of status requests while the store fails.
pub(super) const MEANWHILE: &str = "status requests are answered by what is known";
/// The same before the first state.
pub(super) const NOT_READY: &str = "status requests are answered 503";
/// What the log says of votes while the store is given none.
pub(super) const WITHOUT_VOTES: &str = "votes and changes are answered 503";

/// What a store is called in messages.
pub(super) fn at(host: Option<&Host>) -> String {
    host.map_or_else(|| "the store".to_owned(), |host| format!("the store at {host}"))
}

/// A reply did not come in time.
pub(super) fn late(host: Option<&Host>) -> LinkError {
    LinkError::Lost(Reason::TimeOut, format!("{} does not answer: it takes too long", at(host)))
}

/// The store says this where it refuses, or the node does, by a code of its own.
pub(super) fn refused(host: Option<&Host>, text: &str) -> LinkError {
    let reason = refusal(text);
    let is_own = matches!(reason, Reason::Unsettled | Reason::Unreachable);
    let why = if is_own { text.to_owned() } else { format!("{} refuses: {text}", at(host)) };
    LinkError::Refused(reason, why)
}

/// Why the store cannot be followed, with what to do.
pub(super) fn unfit(
    why: &Unfit,
    host: Option<&Host>,
    own: Option<&str>,
    settings: Settings,
    id_path: &std::path::Path,
) -> LinkError {
    let place = host.map_or_else(String::new, |host| format!(" at {host}"));
    let (reason, line) = match (why, own) {
        (Unfit::Empty, None) => (
            Reason::WrongStore,
            format!("EMPTY store{place}: it has no id yet; run `vote-status cluster init` once, for all nodes"),
        ),
        (Unfit::Empty, Some(own)) => (
            Reason::WrongStore,
            format!(
                "EMPTY store{place}: it has lost all of store {own}; run `vote-status reseed`, which fills it from a node"
            ),
        ),
        (Unfit::Filling, _) => (Reason::WrongStore, format!("EMPTY store{place}: it is being filled")),
        (Unfit::Other(store), own) => (
            Reason::WrongStore,
            format!(
                "OTHER store{place}: it has the id {store}, and this node follows {}; to follow it all the same stop the node and remove {}",
                own.unwrap_or_default(),
                id_path.display()
            ),
        ),
        (Unfit::Schema(schema), _) => (
            Reason::Unfit,
            format!(
                "{} has schema {schema}, and this version knows {SCHEMA}: run the version that made it, or make a new store in an empty Redis",
                at(host)
            ),
        ),
        (Unfit::Cooldown(seconds), _) => {
            let minutes = seconds / 60;
            (
                Reason::Unfit,
                format!(
                    "{} has a cooldown of {minutes} minutes, and this node was started with {}: give --cooldown-minutes {minutes}",
                    at(host),
                    settings.cooldown.minutes()
                ),
            )
        }
        (Unfit::Prefix(bits), _) => (Reason::Unfit, prefix(*bits, host, settings)),
        (Unfit::Refused(text), _) => return refused(host, text),
    };
    LinkError::Refused(reason, line)
}

fn prefix(bits: u64, host: Option<&Host>, settings: Settings) -> String {
    if !(32..=64).contains(&bits) {
        return format!("{} has no IPv6 prefix from 32 to 64: see HGET {} v6", at(host), keys::META);
    }
    format!(
        "{} tells IPv6 voters apart by {bits} bits, and this node was started with {}: give --ipv6-prefix {bits}",
        at(host),
        settings.ipv6_prefix.bits()
    )
}
