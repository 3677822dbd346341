//! What the log tells of changes: which server, and never its token. Votes are counted, not told.

use super::reply::CommandRequest;
use crate::recorder::command::{Reply, ServerOutcome};

/// Tells of what the recorder has changed.
pub(super) fn note(ask: CommandRequest, reply: &Reply) {
    match (ask, reply) {
        (CommandRequest::PutServer(server) | CommandRequest::RotateToken(server), Reply::Servers(outcomes)) => {
            match outcomes.first() {
                Some(ServerOutcome::Created(_)) => log::info!("server {server} is listed"),
                Some(ServerOutcome::Changed(_)) => log::info!("server {server} has another token"),
                _ => {}
            }
        }
        (CommandRequest::RemoveServer(server), Reply::Removed(true)) => {
            log::info!("server {server} is removed, and its cooldowns with it");
        }
        _ => {}
    }
}
