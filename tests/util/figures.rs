//! The system's figures of a process, memory and descriptors, and the server that tests
//! measure. Must not know what the tests do to it.

use crate::util::server::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt::Arguments;
use std::fs::read_to_string;
use std::io::Write;

/// A service in memory with the one server that the tests ask for, on one worker: there the
/// effect of one connection on the others shows best.
pub(crate) fn one_worker(args: &[&str]) -> Server {
    let all: Vec<&str> = ["--workers", "1"].iter().chain(args).copied().collect();
    let server = Server::in_memory(&all);
    server.control_client().add_server(1, "t");
    server
}

/// Resident memory in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    memory_kib(pid, "VmRSS:")
}

/// The peak of resident memory in KiB.
pub(crate) fn peak_kib(pid: u32) -> u64 {
    memory_kib(pid, "VmHWM:")
}

fn memory_kib(pid: u32, name: &str) -> u64 {
    let status = read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a running process has it");
    let number = line.trim().strip_suffix(" kB").expect("it is in kB");
    number.parse().expect("it is a number")
}

/// Raises this process's soft descriptor limit to the hard one. Gives the number of connections
/// that it may open beside other tests, at most `wanted`.
pub(crate) fn connections_affordable(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("the soft limit may be raised");
    let most = limit.maximum.unwrap_or(u64::MAX) / 5 * 4;
    wanted.min(usize::try_from(most).unwrap_or(wanted))
}

/// Prints figures past the test harness, which hides the output of a passing test.
pub(crate) fn report(figures: Arguments) {
    writeln!(std::io::stderr(), "{figures}").expect("standard error can be written to");
}
