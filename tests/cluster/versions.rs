//! The keys of each version are read: see [`crate::util::kept`].

use crate::cluster::clock::give_clock;
use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, init};
use crate::util::kept::{LATER_S, MOMENT_S, expect_all, furnish, kept};
use crate::util::needs::has;
use crate::util::time::now_unix;
use std::fs;
use std::path::Path;

const FILE: &str = "redis.rdb";

/// A Redis whose clock is at the moment of the dump loads it, as nodes follow that clock.
#[test]
fn keys_of_every_version_are_read() {
    if !has(&["redis-server", "cc"]) {
        return;
    }
    let redis_at = |moment_s: i64, dump: Option<&Path>| {
        let mut engine = Engine::stopped(&["--appendonly", "no", "--dbfilename", FILE]);
        give_clock(&mut engine, moment_s - now_unix());
        if let Some(dump) = dump {
            fs::copy(dump, engine.folder().join(FILE)).expect("the dump can be copied");
        }
        engine.run();
        engine
    };
    let kept = kept(|own| {
        let engine = redis_at(MOMENT_S, None);
        init(&engine.url());
        furnish(&Node::start(&engine.url(), &[]).control());
        engine.connect().ask(&["SAVE"]);
        fs::copy(engine.folder().join(FILE), own.join(FILE)).expect("the dump can be kept");
    });
    for version in kept {
        let what = version.display().to_string();
        let engine = redis_at(MOMENT_S + LATER_S, Some(&version.join(FILE)));
        // The dump has the functions of its version: the node replaces them and takes the keys over.
        expect_all(Node::start(&engine.url(), &[]).server(), &what, &[]);
    }
}
