//! The rights of the nodes' user: the commands that the functions call, that they say a node needs, and that the documents give.

use std::collections::BTreeSet;

use crate::facts::{items, text};
use crate::join::called;
use vote_status_nodes::commands::COMMANDS;
use vote_status_nodes::functions::{CODE, Functions};
use vote_status_nodes::store::Store;

const DOCUMENT: &str = include_str!("../../docs/CLUSTER.md");
/// The rights of the nodes' user in 1.0.0. An upgrade wants no more.
const OF_1_0_0: &str = "connection info role wait time fcall fcall_ro function|list function|load cluster|slots exists xadd xread \
                        xrevrange hget hmget hset hdel hexists hgetall hscan zadd zrem zscore zrange zrangebyscore zremrangebyscore \
                        pexpire unlink";

#[test]
fn the_functions_name_every_right_that_the_documents_give() {
    let functions = Functions::load(CODE).expect("the library loads");
    let mut store = Store::new(1_800_000_000_000_000);
    let keys = ["log", "s:0", "dir", "tok", "meta", "gone", "nodes"].map(|key| format!("vs:{{0}}:{key}"));
    let mut missing = |denied: &dyn Fn(&str) -> bool| {
        store.denied =
            COMMANDS.iter().map(|command| command.name).filter(|name| denied(name)).map(str::to_owned).collect();
        let call =
            ["FCALL_RO", "vs3_rights", "7"].map(str::to_owned).into_iter().chain(keys.clone()).collect::<Vec<_>>();
        let reply = functions.ask(&mut store, &call);
        let rights: BTreeSet<_> = items(&reply)[2..]
            .iter()
            .map(|right| text(right).split(' ').next().unwrap_or_default().to_owned())
            .collect();
        rights
    };
    assert_eq!(missing(&|_| false), BTreeSet::new());
    let named = missing(&|name| name != "time");
    let called: BTreeSet<_> = (0..20).flat_map(|seed| called(&functions, seed)).map(str::to_owned).collect();
    let unnamed: Vec<_> = called.difference(&named).filter(|name| *name != "time").collect();
    assert!(unnamed.is_empty() && called.len() > 10, "{unnamed:?} of {called:?}");
    let user = DOCUMENT.lines().find(|line| line.starts_with("user vote-status on")).expect("the user");
    let given: BTreeSet<_> = user.split([' ', '(']).filter_map(|word| word.strip_prefix('+')).collect();
    for given in [given, OF_1_0_0.split(' ').collect()] {
        let ungiven: Vec<_> = named.iter().filter(|name| !given.contains(name.as_str())).collect();
        assert!(ungiven.is_empty(), "{ungiven:?} of {given:?}");
    }
}
