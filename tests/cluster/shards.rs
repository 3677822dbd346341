//! Redis in cluster mode with three real shards. All keys are in one slot, so one shard has them all.
//! Nodes find that shard from any other, and follow the slot.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::load::SERVERS;
use crate::cluster::util::node::{Node, client, init};
use crate::cluster::util::oracle::settle;
use crate::cluster::util::resp::Value;
use crate::util::ledger::address;
use crate::util::load::Load;
use crate::util::needs::has;
use crate::util::wait_until;

/// The slot of all our keys, by the text between their braces.
const SLOT: &str = "13907";
const META: &str = "vs:{0}:meta";

/// Three shards, and a replica of the one that has our slot.
struct Shards {
    primaries: Vec<Engine>,
    replica: Engine,
}

impl Shards {
    fn new() -> Shards {
        // The others notice a failed shard after the node timeout, in milliseconds, and go on without it.
        let args =
            "--cluster-enabled yes --cluster-require-full-coverage no --cluster-node-timeout 1500 --cluster-port";
        let start = || {
            // The cluster bus has a port of its own: any free one.
            let bus = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
            let port = bus.to_string();
            (Engine::start(&args.split(' ').chain([port.as_str()]).collect::<Vec<_>>()), bus)
        };
        let mut all: Vec<(Engine, u16)> = (0..4).map(|_| start()).collect();
        for (engine, range) in all.iter().zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]]) {
            engine.0.connect().ask(&["CLUSTER", "ADDSLOTSRANGE", range[0], range[1]]);
        }
        for (engine, bus) in &all[1..] {
            let port = engine.addr().port().to_string();
            all[0].0.connect().ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus.to_string()]);
        }
        for (engine, _) in &all {
            wait_until("all know each other", || info(engine, "cluster_known_nodes") == "4");
        }
        let owner = id(&all[2].0);
        wait_until("the replica is taken", || {
            all[3]
                .0
                .connect()
                .try_ask(&["CLUSTER", "REPLICATE", &owner])
                .is_ok_and(|said| said == Value::Text("OK".into()))
        });
        for (engine, _) in &all {
            wait_until("the slots are served", || info(engine, "cluster_state") == "ok");
        }
        let replica = all.pop().expect("four").0;
        wait_until("the replica follows", || all[2].0.connect().info("slave0").contains("state=online"));
        Shards { primaries: all.into_iter().map(|(engine, _)| engine).collect(), replica }
    }

    /// Moves our slot with all its keys.
    fn migrate(&self, from: usize, to: usize) {
        let [source, target] = [&self.primaries[from], &self.primaries[to]];
        let (mut source_redis, mut target_redis) = (source.connect(), target.connect());
        target_redis.ask(&["CLUSTER", "SETSLOT", SLOT, "IMPORTING", &id(source)]);
        source_redis.ask(&["CLUSTER", "SETSLOT", SLOT, "MIGRATING", &id(target)]);
        let port = target.addr().port().to_string();
        loop {
            let keys = source_redis.ask(&["CLUSTER", "GETKEYSINSLOT", SLOT, "100"]);
            if keys.list().is_empty() {
                break;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.list().iter().map(Value::text));
            source_redis.ask(&words);
        }
        for engine in [target, source, &self.primaries[3 - from - to]] {
            engine.connect().ask(&["CLUSTER", "SETSLOT", SLOT, "NODE", &id(target)]);
        }
    }
}

fn id(engine: &Engine) -> String {
    engine.connect().ask(&["CLUSTER", "MYID"]).text().to_owned()
}

fn info(engine: &Engine, name: &str) -> String {
    let said = engine.connect().ask(&["CLUSTER", "INFO"]).text().to_owned();
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn owns(engine: &Engine) -> bool {
    engine.connect().try_ask(&["EXISTS", META]).is_ok_and(|said| said == Value::Number(1))
}

#[test]
fn nodes_go_with_the_slot_of_their_keys() {
    if !has(&["redis-server"]) {
        return;
    }
    let mut shards = Shards::new();
    // A shard without our keys, which stays up, names the owner.
    let store = shards.primaries[0].url();
    init(&store);
    assert!(owns(&shards.primaries[2]));
    let nodes = Node::start_many(2, &store, &[]);
    nodes[0].add_servers(SERVERS);
    let both = [&nodes[0], &nodes[1]];
    let load = |first, votes| {
        let load = Load::voting(&both, 4, 0, first);
        load.wait_for_more(votes);
        load
    };
    let before = load(0, 200).stop();
    assert_eq!((before.doubles.len(), before.unavailable), (0, 0));
    settle(&mut shards.primaries[2].connect(), &both, "on the third shard");

    // While votes come in, the slot moves to a shard that has never had our functions.
    let during = load(100_000, 50);
    shards.migrate(2, 1);
    assert!(owns(&shards.primaries[1]));
    during.wait_for_more(200);
    let tally = during.stop();
    assert_eq!(tally.doubles, []);
    let truth = settle(&mut shards.primaries[1].connect(), &both, "after the slot has moved");
    let kept = |recorded: &std::collections::BTreeMap<_, _>| recorded.keys().all(|pair| truth.votes.contains_key(pair));
    assert!(kept(&before.recorded) && kept(&tally.recorded), "a vote is gone");
    println!("{} tries, {} refused while the slot moved", tally.tries, tally.unavailable);

    // The slot moves back to the shard with a replica. Then its primary dies, and so does the shard of the nodes' option.
    shards.migrate(1, 2);
    for node in both {
        node.wait_until_recording(1);
    }
    shards.replica.wait_until_as_far_as(shards.primaries[2].addr());
    shards.primaries[2].kill();
    wait_until("the replica is promoted", || owns(&shards.replica));
    shards.primaries[0].kill();
    for (number, node) in (200_000..).zip(both) {
        node.wait_until_recording(1);
        // Of the shards that were named none is up.
        node.record_at_once(1, address(number));
    }
    let truth = settle(&mut shards.replica.connect(), &both, "after the failover of a shard");
    let kept = |recorded: &std::collections::BTreeMap<_, _>| recorded.keys().all(|pair| truth.votes.contains_key(pair));
    assert!(kept(&before.recorded) && kept(&tally.recorded), "a vote is gone");
}

/// Each shard has functions of its own: the node names the shard that lacks them.
#[test]
fn the_shard_that_lacks_the_functions_is_named() {
    if !has(&["redis-server"]) {
        return;
    }
    let shards = Shards::new();
    let store = shards.primaries[2].url();
    init(&store);
    let user = store.replace("redis://", "redis://node:of-the-node@");
    for engine in &shards.primaries {
        engine.connect().ask(&["ACL", "SETUSER", "node", "on", ">of-the-node", "~*", "&*", "+@all", "-function|load"]);
    }
    let node = Node::start(&user, &[]);
    node.add_servers(1);
    shards.migrate(2, 0);
    let owner = shards.primaries[0].addr();
    wait_until("the shard is named", || {
        let body = node.readiness().json();
        let feed = &body["store"]["feed"];
        feed["reason"] == "functions"
            && feed["message"].as_str().is_some_and(|why| why.contains(&format!("{owner} lacks the functions")))
    });
    let made = client(&["cluster", "init", "--store", &store]);
    assert!(made.status.success(), "{}", made.stderr);
    node.wait_until_recording(1);
}
