//! A data directory belongs to its own store or to the shared one. A start with the other one is refused.

use crate::cluster::util::engine::{Engine, copy_all, url};
use crate::cluster::util::load::body;
use crate::cluster::util::node::{Node, command, folder};
use crate::cluster::util::oracle::settle;
use crate::cluster::util::proxy::Proxy;
use crate::util::ledger::{Ledger, Pair, address, serve, try_serve, voted};
use crate::util::server::{Server, expect_failure};
use crate::util::wait_until;
use std::time::{Duration, Instant};

/// More votes than a node far away gives back within a few seconds.
const LOST: u32 = 4_000;

/// The package makes an empty store of its own at its installation. An upgrade may lose the address of the shared store, and
/// it may come back.
#[test]
fn the_store_of_a_directory_is_its_own_or_the_shared_one() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let own = folder();
    let server = serve(own.path(), &[]);
    server.control_client().add_server(28, "old");
    server.stop();
    // A directory without a live vote may go over to the shared store.
    let node = Node::start_in(own, &engine.url(), &[]);
    node.add_servers(1);
    node.wait_until_recording(1);
    let own = node.kill();
    for more in [&[][..], &["--check-config"]] {
        let ended = try_serve(own.path(), more).err().unwrap_or_else(|| panic!("{more:?} was taken"));
        expect_failure(&ended, &["--store", "store.id"]);
    }
    let node = Node::start_in(own, &engine.url(), &[]);
    node.record_vote(1, [192, 0, 2, 2]);
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

/// Regression: a node started with a copied directory, as from an image of a machine. It took the living original for its
/// own earlier process and did not wait for it, so it recorded votes that the original was still giving back.
#[test]
fn a_node_with_a_copied_directory_waits_for_the_original() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let far = Proxy::to(engine.addr());
    let original = Node::start(&url(far.addr()), &[]);
    original.add_servers(1);
    original.record_vote(1, address(LOST));
    let older = engine.copy();
    let lines: String = (0..LOST).map(|number| body(&[(1, address(number))]) + "\n").collect();
    let taken = original.control().post("/v1/votes/batch?mode=cast", &lines);
    assert_eq!(taken.json()["recorded"], LOST, "{taken:?}");
    let copied = folder();
    copy_all(original.folder(), copied.path());

    engine.kill();
    engine.put_back(&older);
    far.set_delays(Duration::from_millis(50), Duration::from_millis(50));
    engine.run();
    wait_until("the original gives back", || original.metric("vote_status_store_owed") > 0.5);
    let copy = Node::start_in(copied, &engine.url(), &[]);
    let pairs: Vec<Pair> = (0..20).map(|number| (1, address(LOST - 1 - number))).collect();
    let (since, mut refusals) = (Instant::now(), 0);
    for (server, ip) in pairs {
        let answer = loop {
            let answer = copy.control().cast(server, ip);
            if answer.status != 503 {
                break answer;
            }
            refusals += 1;
            assert!(since.elapsed() < Duration::from_secs(60), "it takes no votes:\n{}", copy.server().stderr());
        };
        assert_eq!(answer.status, 409, "a second vote after {:?}: {answer:?}", since.elapsed());
    }
    println!("{refusals} refusals in {:?}", since.elapsed());
    assert!(refusals > 0, "nothing was lost");
    far.set_delays(Duration::ZERO, Duration::ZERO);
    assert_eq!(settle(&mut engine.connect(), &[&original, &copy], "given back").votes.len(), LOST as usize + 1);
}
