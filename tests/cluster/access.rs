//! The documented access list allows nodes everything that they do, and nothing that would harm the
//! store.

use crate::cluster::util::engine::{Engine, add_documented_user};
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::oracle::settle;
use crate::cluster::util::resp::Value;
use std::fs;

/// Commands that a node's user must not be able to run.
const FORBIDDEN: &[&[&str]] = &[
    &["FLUSHALL"],
    &["FLUSHDB"],
    &["XTRIM", "vs:{0}:log", "MAXLEN", "0"],
    &["DEL", "vs:{0}:log"],
    &["UNLINK", "vs:{0}:log"],
    &["UNLINK", "vs:{0}:meta"],
    &["UNLINK", "vs:{0}:dir"],
    &["CONFIG", "SET", "appendonly", "no"],
    &["FUNCTION", "DELETE", "vote_status"],
    &["FUNCTION", "FLUSH"],
    &["SHUTDOWN"],
    &["SET", "another-key", "1"],
];

#[test]
fn the_documented_user_can_do_what_nodes_do_and_no_harm() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let mut redis = engine.connect();
    add_documented_user(&mut redis);
    // As documented: the password comes from a file, not from the command line.
    let store = format!("redis://vote-status@{}", engine.addr());
    let file = engine.folder().join("password");
    fs::write(&file, "of-the-node\n").expect("the folder takes a file");
    let password = ["--store-password-file", &file.to_string_lossy()];
    let run = |args: &[&str]| client(&[args, &["--store", &store], &password].concat());
    let made = run(&["cluster", "init"]);
    assert!(made.status.success(), "{}", made.stderr);
    let wait = ["--store-wait-replicas", "1", "--store-wait-ms", "1"];
    let node = Node::start(&store, &[&wait[..], &password].concat());
    node.add_servers(3);
    let control = node.control();
    for last in 1..=3 {
        node.record_at_once(1, [192, 0, 2, last]);
    }
    assert_eq!(control.delete("/v1/votes/1/192.0.2.1").status, 200);
    assert_eq!(control.post("/v1/servers/2/token", "").status, 200);
    assert_eq!(control.delete("/v1/servers/3").status, 200);
    let record = r#"{"server_id":2,"ip":"192.0.2.9"}"#;
    assert_eq!(control.post("/v1/votes/batch?mode=cast", record).json()["recorded"], 1);
    let ended = run(&["cluster", "check", "--control-url", &node.control_url()]);
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    let truth = settle(&mut redis, &[&node], "with a user of few rights");

    let mut limited = engine.connect();
    limited.ask(&["AUTH", "vote-status", "of-the-node"]);
    for words in FORBIDDEN {
        let said = limited.try_ask(words).expect("Redis answers");
        assert!(matches!(&said, Value::Refused(why) if why.starts_with("NOPERM")), "{words:?}: {said:?}");
    }

    // A user with more rights empties the store, and `reseed` fills it again.
    redis.ask(&["FLUSHALL"]);
    let ended = run(&["reseed", "--control-url", &node.control_url()]);
    assert!(ended.status.success(), "{}", ended.stderr);
    node.wait_until_recording(1);
    let again = run(&["reseed", "--control-url", &node.control_url()]);
    assert_eq!(again.status.code(), Some(2), "what is full is not filled: {}", again.stderr);
    let after = settle(&mut redis, &[&node], "after a reseed by this user");
    assert!(truth.votes.iter().all(|(pair, voted_at)| after.votes.get(pair) == Some(voted_at)));
    let log = redis.ask(&["ACL", "LOG", "128"]);
    let refused: i64 = log.list().iter().map(|entry| entry.list()[1].number()).sum();
    assert_eq!(refused, i64::try_from(FORBIDDEN.len()).expect("few"), "a node tried what it may not: {log:?}");
}

/// A provider may withhold or rename a command: `cluster init` names everything that is missing.
#[test]
fn what_a_store_lacks_is_said_before_the_first_node_is_started() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let mut redis = engine.connect();
    let store = format!("redis://limited:of-the-node@{}", engine.addr());
    let init = |store: &str| {
        let ended = client(&["cluster", "init", "--store", store]);
        assert_eq!(ended.stderr.lines().count(), usize::from(ended.status.code() != Some(0)), "{}", ended.stderr);
        (ended.status.code(), ended.stderr)
    };
    for (rules, missing) in [
        (vec!["-info"], vec!["INFO: "]),
        (vec!["-function"], vec!["FUNCTION LIST: "]),
        (vec!["-function|load"], vec!["lacks the functions vote_status", "cannot be loaded there"]),
        (vec!["-wait", "-hscan", "-xread"], vec!["WAIT: ", "HSCAN: ", "XREAD: "]),
        (vec!["resetkeys", "~other"], vec!["EXISTS: ", "HGET: "]),
    ] {
        redis.ask(
            &[&["ACL", "SETUSER", "limited", "reset", "on", ">of-the-node", "~*", "&*", "+@all"], &rules[..]].concat(),
        );
        let (code, said) = init(&store);
        assert_eq!(code, Some(2), "{rules:?}: {said}");
        assert!(missing.iter().all(|part| said.contains(part)), "{rules:?}: {said}");
    }
    let renamed = Engine::start(&["--rename-command", "FUNCTION", "", "--maxmemory-policy", "volatile-lru"]);
    let (code, said) = init(&renamed.url());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("FUNCTION LIST: ") && said.contains("maxmemory-policy volatile-lru"), "{said}");
    let volatile = Engine::start(&["--appendonly", "no"]);
    let ended = client(&["cluster", "init", "--store", &volatile.url()]);
    assert!(ended.status.success() && ended.stderr.contains("warning: appendonly is off"), "{}", ended.stderr);
}
