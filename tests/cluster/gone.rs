//! Redis goes away and comes back: status goes on, votes are refused and nowhere recorded, readiness
//! follows its option, it is said once, and no secret is.

use crate::cluster::util::engine::{Engine, connections};
use crate::cluster::util::node::{Node, client, folder, init};
use crate::cluster::util::oracle::{Truth, settle};
use crate::cluster::util::resp::Redis;
use crate::util::answers::NOT_READY;
use crate::util::client::get;
use crate::util::endpoint::Endpoint;
use crate::util::ledger::{Pair, address, next_votes};
use crate::util::wait_until;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const META: &str = "vs:{0}:meta";
const PASSWORD: &str = "a-password-that-nobody-may-see";
/// What the log says of the time without Redis.
const STATUS_MEANWHILE: &str = "status requests are answered by what is known";
/// From the moment that Redis answers until votes are taken.
const AGAIN_MAX: Duration = Duration::from_secs(5);

#[test]
fn status_goes_on_without_redis() {
    let Some(mut engine) = Engine::try_store(&[]) else { return };
    let patient = Node::start(&engine.url(), &[]);
    let strict = Node::start(&engine.url(), &["--stale-max", "1"]);
    patient.add_servers(1);
    let pairs: Vec<Pair> = (0..50).map(|number| (1, address(number))).collect();
    for (server, ip) in &pairs {
        assert_eq!(strict.control().cast(*server, *ip).status, 201);
    }
    let nodes = [&patient, &strict];
    patient.wait_until_recording(1);
    let before = settle(&mut engine.connect(), &nodes, "with Redis");
    let shown = next_votes(patient.server(), &pairs);

    for round in 0..2_u32 {
        let said = nodes.map(|node| node.server().stderr().lines().count());
        engine.kill();
        let refused = 100 + round * 1_000;
        let killed_at = Instant::now();
        while killed_at.elapsed() < Duration::from_millis(2_500) {
            for (number, node) in (refused..).zip(nodes) {
                let response = node.control().cast(1, address(number));
                assert_eq!(response.status, 503, "{response:?}");
                assert_eq!(response.json()["error"], "store_unavailable", "{response:?}");
                assert_eq!(next_votes(node.server(), &pairs), shown, "status goes on as it was");
                let cancel = node.control().delete(&format!("/v1/votes/1/{}", address(0)));
                assert_eq!(cancel.status, 503, "{cancel:?}");
            }
            sleep(Duration::from_millis(50));
        }
        assert_eq!(patient.readiness().status, 200, "{:?}", patient.readiness());
        assert_eq!(strict.readiness().status, 503, "{:?}", strict.readiness());
        assert_eq!(strict.readiness().json()["reason"], "stale");
        assert_eq!(patient.readiness().json()["reason"], "unreachable");
        for node in nodes {
            let body = node.readiness().json();
            assert_eq!(body["votes"], false, "{body}");
            assert!(body["message"].as_str().is_some_and(|message| message.contains("the store at ")), "{body}");
        }
        let balancers = |node: &Node| get(node.server().public(), "/readyz");
        assert_eq!(balancers(&strict).text(), r#"{"status":"not_ready"}"#);
        assert_eq!(balancers(&patient).text(), r#"{"status":"ready"}"#);
        let silent_s = killed_at.elapsed().as_secs_f64();
        assert!(patient.metric("vote_status_store_staleness_seconds") >= silent_s - 0.01, "{silent_s} s at least");
        assert_eq!(nodes.map(Truth::in_node), [before.clone(), before.clone()]);
        for (node, said) in nodes.iter().zip(said) {
            let all = node.server().stderr();
            let told: Vec<&str> =
                all.lines().skip(said).filter(|line| line.contains("until it is well again")).collect();
            assert!(told.iter().any(|line| line.contains(STATUS_MEANWHILE)), "{all}");
            // Behind the instant, which is the first word.
            let kinds: BTreeSet<&str> = told.iter().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
            assert_eq!(kinds.len(), told.len(), "said once, not for every try:\n{all}");
        }

        engine.run();
        let back_at = Instant::now();
        for node in nodes {
            node.wait_until_recording(1);
        }
        println!("votes are taken {:?} after Redis answers", back_at.elapsed());
        assert!(back_at.elapsed() < AGAIN_MAX, "{:?}", back_at.elapsed());
        wait_until("it is ready", || strict.readiness().status == 200);
        for node in nodes {
            wait_until("it says that votes are taken", || {
                let body = node.readiness().json();
                ["votes", "message", "reason"].iter().all(|name| body[*name].is_null())
            });
        }
        for (node, said) in nodes.iter().zip(said) {
            let all = node.server().stderr();
            let new: Vec<&str> = all.lines().skip(said).filter(|line| line.contains(" store")).collect();
            let faults = new.iter().filter(|line| line.contains("ERROR") || line.contains("WARN")).count();
            // Of status, of votes, and of votes while what may be lost is given back.
            assert!((1..=3).contains(&faults), "said once, not for every try:\n{}", new.join("\n"));
            assert!(new.len() <= 7, "said once, and once more when it is over:\n{}", new.join("\n"));
        }
        let over = format!("s in which {STATUS_MEANWHILE}");
        nodes.iter().for_each(|node| node.server().wait_for_lines(&over, round as usize + 1));
    }
    let truth = settle(&mut engine.connect(), &nodes, "with Redis again");
    let mut expected: BTreeSet<Pair> = pairs.iter().copied().collect();
    expected.insert((1, [192, 0, 2, 1].into()));
    assert_eq!(truth.votes.into_keys().collect::<BTreeSet<_>>(), expected, "what was refused is nowhere");
}

/// A node that starts without Redis waits for it, and answers meanwhile.
#[test]
fn a_node_without_redis_at_its_start_waits() {
    let Some(mut engine) = Engine::try_store(&[]) else { return };
    let first = Node::start(&engine.url(), &[]);
    first.add_servers(1);
    assert_eq!(first.control().cast(1, address(1)).status, 201);
    engine.kill();
    let (url, folder) = (engine.url(), folder());
    let socket = folder.path().join("public.sock");
    let listen = format!("unix:{}", socket.display());
    let starting = spawn(move || Node::start_in(folder, &url, &["--listen", &listen]));
    let status = format!("/api/vote/1/status/{}", address(1));
    wait_until("it listens", || UnixStream::connect(&socket).is_ok());
    let answer = get(Endpoint::Unix(socket), &status);
    assert_eq!((answer.status, answer.text()), (503, NOT_READY.body), "{answer:?}");
    assert!(!starting.is_finished(), "it is not ready without its state");
    engine.run();
    let node = starting.join().expect("the node starts");
    node.wait_until_following();
    let told = node.server().stderr();
    assert!(told.contains("until it is well again status requests are answered 503"), "{told}");
    assert!(!told.contains(STATUS_MEANWHILE), "nothing was known yet:\n{told}");
    settle(&mut engine.connect(), &[&first, &node], "a node that waited");
}

/// A fresh node has no id to compare by: what a store that is being filled holds so far is no state.
#[test]
fn a_fresh_node_waits_for_a_store_that_is_being_filled() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let mut redis = engine.connect();
    redis.ask(&["HSET", META, "store", "reseed-abc", "schema", "2", "cd", "5400", "v6", "64"]);
    let store = engine.url();
    let made = client(&["cluster", "init", "--store", &store]);
    assert_eq!((made.status.code(), made.stdout.as_str()), (Some(2), ""), "{}", made.stderr);
    assert!(made.stderr.contains("is being filled, as store abc"), "{}", made.stderr);
    let (folder, asked) = (folder(), connections(&mut redis));
    let id_path = folder.path().join("store.id");
    let starting = spawn(move || Node::start_in(folder, &store, &[]));
    wait_until("it has looked, and looked again", || connections(&mut redis) >= asked + 3);
    assert!(!id_path.exists(), "it follows a store that is being filled");
    redis.ask(&["HSET", META, "store", "abc"]);
    let node = starting.join().expect("the node starts");
    assert_eq!(fs::read_to_string(&id_path).expect("an id").trim(), "abc");
    assert!(node.server().stderr().contains("it is being filled"), "{}", node.server().stderr());
}

/// A Redis that drops keys to make room forgets votes, and would take them again.
#[test]
fn a_store_that_drops_votes_when_it_is_full_takes_none() {
    let Some(engine) = Engine::try_start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    let mut redis = engine.connect();
    let made = client(&["cluster", "init", "--store", &engine.url()]);
    assert_eq!((made.status.code(), made.stderr.lines().count()), (Some(2), 1), "{}", made.stderr);
    assert!(made.stderr.contains("maxmemory-policy allkeys-lru"), "{}", made.stderr);
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    init(&engine.url());
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let node = Node::start(&engine.url(), &[]);
    let listed = node.control().put("/v1/servers/1", r#"{"token":"token-1"}"#);
    assert_eq!((listed.status, &listed.json()["error"]), (503, &"store_unavailable".into()), "{listed:?}");
    assert!(node.server().stderr().contains("EVICTING store at"), "{}", node.server().stderr());
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    wait_until("changes are taken", || node.control().put("/v1/servers/1", r#"{"token":"token-1"}"#).status == 201);
    assert_eq!(node.control().cast(1, address(1)).status, 201);
    // Without a limit nothing is dropped yet; a limit may come at any moment.
    let without = Engine::start(&["--maxmemory-policy", "allkeys-random"]);
    let made = client(&["cluster", "init", "--store", &without.url()]);
    assert!(made.status.code() == Some(2) && made.stderr.contains("allkeys-random"), "{}", made.stderr);
}

/// A vote that was dropped while nodes ran was taken again: nobody looked at the policy after the start.
#[test]
fn votes_that_are_dropped_while_nodes_run_are_not_taken_again() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    nodes[0].add_servers(40);
    let pairs: Vec<Pair> = (1..=40).map(|server| (server, address(1))).collect();
    for (server, ip) in &pairs {
        assert_eq!(nodes[0].control().cast(*server, *ip).status, 201);
    }
    let before = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "before");
    let mut redis = engine.connect();
    // Votes alone have a time to live: servers and the log stay.
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "volatile-random"]);
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    redis.try_ask(&["SET", "another-key", "1"]).expect("it answers");
    let gone = |redis: &mut Redis| {
        let mut count = |key: &String| redis.ask(&["EXISTS", key]).number();
        pairs.iter().map(|(server, _)| format!("vs:{{0}}:s:{server}")).filter(|key| count(key) == 0).count()
    };
    let dropped = gone(&mut redis);
    for node in &nodes {
        wait_until("votes stop, with the reason", || {
            let votes = &node.readiness().json()["store"]["votes"];
            votes["reason"] == "eviction"
                && votes["message"].as_str().is_some_and(|why| why.contains("volatile-random"))
        });
        let name = r#"vote_status_store_reason{connection="votes",reason="eviction"}"#;
        assert!((node.metric(name) - 1.0).abs() < f64::EPSILON);
        for (server, ip) in &pairs {
            let again = node.control().cast(*server, *ip);
            assert_eq!(again.status, 503, "{again:?}");
        }
        assert!(next_votes(node.server(), &pairs).iter().all(Option::is_some), "status goes on as it was");
        assert!(node.server().stderr().contains("EVICTING store at"), "{}", node.server().stderr());
    }
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    for node in &nodes {
        node.wait_until_recording(1);
        for (server, ip) in &pairs {
            assert_eq!(node.control().cast(*server, *ip).status, 409, "it has voted");
        }
    }
    let after = settle(&mut redis, &[&nodes[0], &nodes[1]], "what was dropped is given back");
    let mut expected = before.votes.clone();
    let tried = (1, [192, 0, 2, 1].into());
    expected.insert(tried, after.votes[&tried]);
    assert_eq!(after.votes, expected, "no vote is gone, and none has come but the one that tried it out");
    println!("{dropped} of 40 keys were dropped");
    assert!(dropped > 0, "nothing was dropped");
}

#[test]
fn no_password_is_ever_told() {
    let Some(mut engine) = Engine::try_start(&["--requirepass", PASSWORD]) else { return };
    let addr = engine.addr();
    let store = format!("redis://:{PASSWORD}@{addr}");
    let mut told = init(&store);
    let node = Node::start(&store, &[]);
    node.add_servers(1);
    assert_eq!(node.control().cast(1, address(1)).status, 201);
    engine.kill();
    wait_until("the node says something", || node.control().cast(1, address(2)).status == 503);
    engine.run();
    node.wait_until_recording(1);
    told += &node.server().stderr();
    told += &node.server().stdout();
    for path in ["/metrics", "/readyz", "/healthz", "/v1/cluster", "/v1/cluster/digest"] {
        told += node.control().get(path).text();
    }
    // Wrong ones, in every place that takes one.
    for wrong in [
        format!("redis://:{PASSWORD}x@{addr}"),
        format!("redis://user:{PASSWORD}@{addr}"),
        format!("redis://:{PASSWORD}@"),
    ] {
        for args in [
            vec!["cluster", "init", "--store", &wrong],
            vec!["cluster", "check", "--store", &wrong, "--control-url", &node.control_url()],
            vec!["reseed", "--store", &wrong, "--control-url", &node.control_url()],
        ] {
            let ended = client(&args);
            assert_eq!(ended.status.code(), Some(2), "{args:?}: {}", ended.stderr);
            assert_eq!(ended.stderr.lines().count(), 1, "{args:?}: {}", ended.stderr);
            told += &ended.stdout;
            told += &ended.stderr;
        }
    }
    assert!(told.contains(&addr.to_string()), "it is told which Redis that is");
    assert!(!told.contains(PASSWORD), "a password is told:\n{told}");
}
