//! What the log tells of changes: which server, and never its token. Votes are counted, not told.

use crate::recorder::command::{Reply, ServerOutcome};

/// Tells of what the recorder has changed.
pub(super) fn note(reply: &Reply) {
    match reply {
        Reply::Servers(outcomes) => match outcomes.first() {
            Some(ServerOutcome::Created(server, _)) => log::info!("server {server} is listed"),
            Some(ServerOutcome::Changed(server, _)) => log::info!("server {server} has another token"),
            _ => {}
        },
        Reply::Removed(Some(server)) => log::info!("server {server} is removed, and its cooldowns with it"),
        _ => {}
    }
}
