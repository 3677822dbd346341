//! A data directory belongs to its own store or to the shared one, and a start with the other is refused.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, command, folder};
use crate::util::ledger::{Ledger, serve, try_serve, voted};
use crate::util::server::{Server, expect_failure};

/// The package makes an empty store of its own at its installation. With an upgrade the address of the shared store may be
/// lost, and come back.
#[test]
fn the_store_of_a_directory_is_its_own_or_the_shared_one() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let own = folder();
    let server = serve(own.path(), &[]);
    server.control_client().add_server(28, "old");
    server.stop();
    // Without a live vote it may go to the shared store.
    let node = Node::start_in(own, &engine.url(), &[]);
    node.add_servers(1);
    node.wait_until_recording(1);
    let own = node.kill();
    for more in [&[][..], &["--check-config"]] {
        let ended = try_serve(own.path(), more).err().unwrap_or_else(|| panic!("{more:?} was taken"));
        expect_failure(&ended, &["--store", "store.id"]);
    }
    let node = Node::start_in(own, &engine.url(), &[]);
    assert_eq!(node.control().cast(1, [192, 0, 2, 1]).status, 409, "what was acknowledged is there");
    drop(node);
}

#[test]
fn a_directory_with_live_votes_does_not_start_with_a_shared_store() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let own = folder();
    let (server, ledger): (Server, Ledger) = voted(own.path(), 3);
    for more in [&[][..], &["--check-config"]] {
        let ended = Server::try_spawn(command(own.path(), &engine.url(), more));
        let ended = ended.err().unwrap_or_else(|| panic!("{more:?} was taken"));
        expect_failure(&ended, &["without --store", "votes.redb", "export", "import"]);
    }
    ledger.expect(&server, "it is not disturbed");
    drop(server);
    let ended = Server::try_spawn(command(own.path(), &engine.url(), &[])).err();
    assert!(ended.is_some(), "it was taken after a kill");
    ledger.expect(&serve(own.path(), &[]), "without the shared store");
}
