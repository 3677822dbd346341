//! The public part of the contract, byte for byte: every path and method of the tables, every
//! error of HTTP, both outcomes from the first minute to the last.

pub(crate) mod cooldown;
mod pages;

use crate::util::answers::prepare;
use crate::util::checks;
use crate::util::server::Server;
use crate::util::watch::Watching;

#[test]
fn the_contract_holds() {
    let server = Server::in_memory(&[]);
    checks::whole_contract(&server.publics()[0], &prepare(&server));
}

#[test]
fn what_is_awaited_is_decided_when_it_is_answered() {
    let server = Server::in_memory(&["--workers", "1"]);
    for framed in [checks::BY_LENGTH].into_iter().chain(checks::OTHERWISE) {
        checks::decided_when_it_is_answered(&server, framed);
    }
}

/// Regression: the layer between the engine and the service kept nothing of such a request.
#[test]
fn what_is_awaited_is_decided_when_it_is_answered_while_somebody_watches_too() {
    let server = Server::in_memory(&["--workers", "1"]);
    let _watching = Watching::begin(&server, "");
    checks::decided_when_it_is_answered(&server, checks::BY_LENGTH);
}
