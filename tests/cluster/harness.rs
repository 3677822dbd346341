//! What the other tests stand on does what they think it does: Redis is started, killed, started
//! again with its data, replicated, and failed over by Sentinels.

use crate::cluster::util::engine::{Engine, program};
use crate::cluster::util::resp::{Redis, Value};
use crate::util::wait_until;

/// A run that was asked to be on Valkey is on Valkey.
#[test]
fn the_server_is_the_one_that_was_asked_for() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let said = engine.connect().ask(&["INFO", "server"]).text().to_owned();
    let is_valkey = said.lines().any(|line| line.trim() == "server_name:valkey");
    let version =
        said.lines().find(|line| line.starts_with(if is_valkey { "valkey_version" } else { "redis_version" }));
    println!("{}", version.expect("it says its version"));
    assert_eq!(is_valkey, program().contains("valkey"), "{said}");
}

#[test]
fn a_redis_keeps_what_it_was_told_over_a_kill() {
    let Some(mut engine) = Engine::try_start(&["--appendfsync", "always"]) else { return };
    let addr = engine.addr();
    let mut redis = engine.connect();
    assert_eq!(redis.ask(&["SET", "a", "1"]), Value::Text("OK".to_owned()));
    engine.kill();
    assert!(Redis::try_connect(addr).is_err(), "it is gone");
    redis.try_ask(&["GET", "a"]).expect_err("its connections are gone");
    engine.run();
    assert_eq!(engine.addr(), addr);
    assert_eq!(engine.connect().ask(&["GET", "a"]).text(), "1");
    assert!(engine.appendonly_folder().is_dir(), "it keeps an append-only file");
}

#[test]
fn a_replica_has_what_its_primary_has() {
    let Some(primary) = Engine::try_start(&[]) else { return };
    primary.connect().ask(&["SET", "a", "1"]);
    let replica = Engine::replica_of(primary.addr(), &[]);
    assert_eq!(replica.connect().ask(&["GET", "a"]).text(), "1");
    assert_eq!(primary.connect().ask(&["WAIT", "1", "1000"]).number(), 1);
    let refused = replica.connect().try_ask(&["SET", "a", "2"]).expect("it answers");
    assert!(matches!(&refused, Value::Refused(why) if why.starts_with("READONLY")), "{refused:?}");
}

#[test]
fn sentinels_name_another_primary() {
    let Some(mut primary) = Engine::try_start(&[]) else { return };
    let replica = Engine::replica_of(primary.addr(), &[]);
    let sentinels: Vec<Engine> = (0..3).map(|_| Engine::sentinel(primary.addr(), 2, 1_000, &[])).collect();
    let named = |sentinel: &Engine| {
        let words = ["SENTINEL", "get-master-addr-by-name", "votes"];
        u16::try_from(sentinel.connect().ask(&words).list()[1].number()).expect("a port")
    };
    let knows = |sentinel: &Engine| {
        let mut redis = sentinel.connect();
        let count = |redis: &mut Redis, what| redis.ask(&["SENTINEL", what, "votes"]).list().len();
        count(&mut redis, "replicas") == 1 && count(&mut redis, "sentinels") == 2
    };
    wait_until("the Sentinels know of each other", || sentinels.iter().all(knows));
    primary.kill();
    wait_until("another primary is named", || {
        sentinels.iter().all(|sentinel| named(sentinel) == replica.addr().port())
    });
    wait_until("the replica takes writes", || {
        replica.connect().try_ask(&["SET", "a", "1"]).is_ok_and(|said| said == Value::Text("OK".to_owned()))
    });
}
