//! Redis goes away and comes back: status goes on, votes are refused and nowhere recorded, and readiness
//! follows its option. The log tells of it once, and never a secret.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, client, folder, init};
use crate::cluster::util::oracle::{Truth, settle};
use crate::util::answers::NOT_READY;
use crate::util::client::get;
use crate::util::endpoint::Endpoint;
use crate::util::ledger::{Pair, address, next_votes};
use crate::util::wait_until;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

const META: &str = "vs:{0}:meta";
const PASSWORD: &str = "a-password-that-nobody-may-see";
/// The log's words for status requests without Redis.
const STATUS_MEANWHILE: &str = "status requests are answered by what is known";

#[test]
fn status_goes_on_without_redis() {
    let Some(mut engine) = Engine::try_store(&[]) else { return };
    let patient = Node::start(&engine.url(), &[]);
    let strict = Node::start(&engine.url(), &["--stale-max", "1"]);
    patient.add_servers(1);
    strict.wait_until_recording(1);
    let pairs: Vec<Pair> = (0..50).map(|number| (1, address(number))).collect();
    for (server, ip) in &pairs {
        strict.record_at_once(*server, *ip);
    }
    let nodes = [&patient, &strict];
    patient.wait_until_recording(1);
    let before = settle(&mut engine.connect(), &nodes, "with Redis");
    let shown = next_votes(patient.server(), &pairs);

    let said = nodes.map(|node| node.server().stderr().lines().count());
    engine.kill();
    let killed_at = Instant::now();
    wait_until("the state is stale", || {
        for (number, node) in (100..).zip(nodes) {
            let response = node.control().cast(1, address(number));
            assert_eq!(
                (response.status, &response.json()["error"]),
                (503, &"store_unavailable".into()),
                "{response:?}"
            );
            assert_eq!(next_votes(node.server(), &pairs), shown, "status goes on as it was");
            let cancel = node.control().delete(&format!("/v1/votes/1/{}", address(0)));
            assert_eq!(cancel.status, 503, "{cancel:?}");
        }
        strict.readiness().status == 503 && killed_at.elapsed() > Duration::from_secs(2)
    });
    assert_eq!(patient.readiness().status, 200, "{:?}", patient.readiness());
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

    engine.run();
    for (node, said) in nodes.iter().zip(said) {
        // Regression: a node said so only once a vote came.
        wait_until("it says that votes are taken", || node.readiness().json()["votes"].is_null());
        node.wait_until_recording(1);
        wait_until("it says that votes are taken", || {
            let body = node.readiness().json();
            node.readiness().status == 200 && ["votes", "message", "reason"].iter().all(|name| body[*name].is_null())
        });
        node.server().wait_for_lines(&format!("s in which {STATUS_MEANWHILE}"), 1);
        let all = node.server().stderr();
        let told: Vec<&str> = all.lines().skip(said).filter(|line| line.contains("until it is well again")).collect();
        assert!(told.iter().any(|line| line.contains(STATUS_MEANWHILE)), "{all}");
        // The first word of a line is its instant.
        let kinds: BTreeSet<&str> = told.iter().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
        assert_eq!(kinds.len(), told.len(), "said once, not for every try:\n{all}");
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
    first.record_vote(1, address(1));
    engine.kill();
    let (url, folder) = (engine.url(), folder());
    let socket = folder.path().join("public.sock");
    let listen = format!("unix:{}", socket.display());
    let node = Node::start_in(folder, &url, &["--listen", &listen]);
    let status = format!("/api/vote/1/status/{}", address(1));
    let answer = get(Endpoint::Unix(socket), &status);
    assert_eq!((answer.status, answer.text()), (503, NOT_READY.body), "{answer:?}");
    assert_eq!(node.readiness().status, 503, "it is not ready without its state");
    engine.run();
    node.wait_until_following();
    node.server().wait_for_lines("until it is well again status requests are answered 503", 1);
    let told = node.server().stderr();
    assert!(!told.contains(STATUS_MEANWHILE), "nothing was known yet:\n{told}");
    settle(&mut engine.connect(), &[&first, &node], "a node that waited");
}

/// A fresh node has no id to compare with: it must not take a half-filled store for a state.
#[test]
fn a_fresh_node_waits_for_a_store_that_is_being_filled() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let mut redis = engine.connect();
    redis.ask(&["HSET", META, "store", "reseed-abc", "schema", "3", "cd", "5400", "v6", "64"]);
    let store = engine.url();
    let made = client(&["cluster", "init", "--store", &store]);
    assert_eq!((made.status.code(), made.stdout.as_str()), (Some(2), ""), "{}", made.stderr);
    assert!(made.stderr.contains("is being filled, as store abc"), "{}", made.stderr);
    let (folder, asked) = (folder(), redis.calls("fcall_ro"));
    let id_path = folder.path().join("store.id");
    let node = Node::start_in(folder, &store, &[]);
    wait_until("it has looked, and looked again", || redis.calls("fcall_ro") >= asked + 6);
    assert!(!id_path.exists(), "it follows a store that is being filled");
    redis.ask(&["HSET", META, "store", "abc"]);
    wait_until("it follows the store", || fs::read_to_string(&id_path).is_ok_and(|id| id.trim() == "abc"));
    node.server().wait_for_lines("it is being filled", 1);
}

#[test]
fn no_password_is_ever_told() {
    let Some(mut engine) = Engine::try_start(&["--requirepass", PASSWORD]) else { return };
    let addr = engine.addr();
    let store = format!("redis://:{PASSWORD}@{addr}");
    let mut told = init(&store);
    let node = Node::start(&store, &[]);
    node.add_servers(1);
    node.record_vote(1, address(1));
    engine.kill();
    wait_until("the node says something", || node.control().cast(1, address(2)).status == 503);
    engine.run();
    node.wait_until_recording(1);
    told += &node.server().stderr();
    told += &node.server().stdout();
    for path in ["/metrics", "/readyz", "/healthz", "/v1/cluster", "/v1/cluster/digest"] {
        told += node.control().get(path).text();
    }
    // Wrong passwords, in every place that takes one.
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
