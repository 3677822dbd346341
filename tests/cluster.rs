//! Many nodes on one Redis, each test with servers and nodes of its own: real processes, real
//! faults, and a proxy where a network would fail. What the nodes show is compared with what is in
//! Redis, by a client of the tests' own.
//!
//! `VOTE_STATUS_TEST_ROUNDS=N` has the counting ones try N times as often, `VOTE_STATUS_TEST_LONG=1`
//! runs the long ones at their full length. Without `redis-server` all of them are left out, and say so.
//! `VOTE_STATUS_TEST_REDIS_SERVER=PATH` has all of them run on another server: a `valkey-server`.

mod access;
mod bootstrap;
mod check;
mod checker;
mod clock;
mod contention;
mod crash;
mod engine;
mod fork;
mod gone;
mod harness;
mod library;
mod load;
pub(crate) mod node;
mod oracle;
mod promotion;
mod proxy;
mod reasons;
mod recovery;
mod resp;
mod resurrection;
#[cfg(feature = "tls")]
mod secure;
mod sentinels;
mod shards;
mod slow_disk;
mod split;
mod strange;
mod tokens;
mod versions;
mod watching;
mod wipe;

use std::io::{Write, stderr};
use std::process::{Command, Stdio};

/// Whether the Debian packages that a test needs are there; says so where not, and fails where
/// `VOTE_STATUS_TEST_ALL` asks for every test.
fn has(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !runs(program)).collect();
    let is_all_asked = std::env::var_os("VOTE_STATUS_TEST_ALL").is_some();
    assert!(missing.is_empty() || !is_all_asked, "all tests were asked for, and {missing:?} cannot be run");
    if !missing.is_empty() {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        // Not by a macro: those are shown with a test that fails, and this one will not.
        let line = format!("left out: {test} needs {missing:?}\n");
        stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    }
    missing.is_empty()
}

fn runs(program: &str) -> bool {
    let program = if program == "redis-server" { engine::program() } else { program.to_owned() };
    let mut command = Command::new(&program);
    // Of all of them it alone has a command in place of an option.
    command
        .arg(if program == "openssl" { "version" } else { "--version" })
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// So many, or as many times more as the environment asks for.
fn rounds(usual: usize) -> usize {
    let factor = std::env::var("VOTE_STATUS_TEST_ROUNDS").map_or(1, |factor| factor.parse().expect("a number"));
    usual * factor
}

/// Whether the environment asks for full lengths.
fn is_long() -> bool {
    std::env::var_os("VOTE_STATUS_TEST_LONG").is_some()
}
