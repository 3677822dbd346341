//! What the log tells of changes: which server, and never its token. Votes are counted, not told.

use super::reply::Asked;
use crate::recorder::command::{Reply, ServerOutcome};

/// Tells of what the recorder has changed.
pub(super) fn note(asked: Asked, reply: &Reply) {
    match (asked, reply) {
        (Asked::Server(server), Reply::Servers(outcomes)) => match outcomes.first() {
            Some(ServerOutcome::Created(_)) => log::info!("server {server} is listed"),
            Some(ServerOutcome::Changed(_)) => log::info!("server {server} has another token"),
            _ => {}
        },
        (Asked::Remove(server), Reply::Removed(true)) => {
            log::info!("server {server} is struck off, and its cooldowns with it");
        }
        _ => {}
    }
}
