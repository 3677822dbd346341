//! A service under a manager, restarted again and again while all kinds of clients ask.

mod load;
pub(crate) mod manager;

use crate::util::endpoint::Endpoint;
use crate::util::figures::report;
use crate::util::load::Load;
use crate::util::server::Server;
use crate::util::wait_until;
use load::{Habit, Seen};
use manager::Manager;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Restarts in a row.
const RESTARTS: usize = 3;
/// The fewest requests between two restarts.
const REQUESTS_BETWEEN: u64 = 500;
/// A pause of idle clients within the time that an ending process gives them to ask once more.
const SHORT_PAUSE: Duration = Duration::from_millis(200);
/// A longer pause than that: the process closes these clients in order.
const LONG_PAUSE: Duration = Duration::from_millis(1_500);

const HABITS: [Habit; 12] = [
    Habit::Kept,
    Habit::Kept,
    Habit::Kept,
    Habit::Kept,
    Habit::Fresh,
    Habit::Fresh,
    Habit::Fresh,
    Habit::FreshSaid,
    Habit::Dribbling,
    Habit::Pausing(SHORT_PAUSE),
    Habit::Pausing(LONG_PAUSE),
    Habit::Waiting,
];

/// Restarts again and again while all kinds of clients ask at `public`, then checks every vote.
pub(crate) fn under_load(way: &str, manager: &Manager, public: &Endpoint) {
    let load = Load::asking(&HABITS, public, manager.server.control_endpoint());
    let wait_for_more = |what| {
        let enough = load.known().requests + REQUESTS_BETWEEN;
        wait_until(what, || load.known().requests >= enough);
    };
    for _ in 0..RESTARTS {
        wait_for_more("they ask");
        manager.restart();
    }
    wait_for_more("they ask on");
    let Seen { requests, longest, votes, failures, .. } = load.stop();
    report(format_args!(
        "{RESTARTS} restarts, {way}: {requests} answers, {} votes, {} failures, longest new connection {} ms",
        votes.len(),
        failures.len(),
        longest.as_millis(),
    ));
    assert_eq!(failures, [""; 0], "{way}");
    assert!(!votes.is_empty(), "{way}: nobody has voted");
    assert_all_kept(&manager.server, &votes);
}

/// Every vote that was answered 201 is there, and nothing else is.
#[track_caller]
fn assert_all_kept(server: &Server, votes: &[Ipv4Addr]) {
    let export = server.control_client().exported();
    let lines = export.iter().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        line.get("ip").map(|ip| ip.as_str().expect("a text").parse().expect("an address"))
    });
    let kept: Vec<Ipv4Addr> = lines.collect();
    let distinct: BTreeSet<Ipv4Addr> = kept.iter().copied().collect();
    assert_eq!(kept.len(), distinct.len(), "a vote is there twice");
    assert_eq!(distinct, votes.iter().copied().collect());
}
