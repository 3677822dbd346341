//! A test's needs of the machine, and the amount of testing that the environment asks for.
//! `VOTE_STATUS_TEST_ALL=1` makes a failure of every test that cannot run here. With `VOTE_STATUS_TEST_ROUNDS=N`
//! the counting tests try N times as often. `VOTE_STATUS_TEST_LONG=1` runs long tests at full length.

use std::env::{var, var_os};
use std::ffi::OsStr;
use std::fs;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Whether the programs that a test needs are installed. Calls `left_out` where not.
pub(crate) fn has(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !is_installed(program)).collect();
    if !missing.is_empty() {
        left_out(&format!("it needs {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// Prints that the test of this thread cannot run here, and why.
pub(crate) fn left_out(why: &str) {
    assert!(var_os("VOTE_STATUS_TEST_ALL").is_none(), "left out, though all tests were asked for: {why}");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // Not by a macro: the test harness catches their output, and shows it for failed tests only.
    stderr().write_all(format!("left out: {test}: {why}\n").as_bytes()).expect("standard error takes a line");
    static SUMMARY: OnceLock<Mutex<ChildStdin>> = OnceLock::new();
    let mut summary = SUMMARY.get_or_init(|| Mutex::new(summary_at_the_end())).lock().expect("no test panics with it");
    writeln!(summary, "{why}").expect("the summary is read to its end");
}

/// A process that reads a line for each test that is left out. It prints the summary when this process has ended: the
/// harness calls nothing at the end of a run.
fn summary_at_the_end() -> ChildStdin {
    const PRINT: &str = r#"lines=$(cat)
        printf '\n%s tests or parts of tests were left out:\n' "$(printf '%s\n' "$lines" | wc -l)" >&2
        printf '%s\n' "$lines" | sort | uniq -c | sort -rn >&2"#;
    let mut command = Command::new("/bin/sh");
    let child = command.args(["-c", PRINT]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    child.expect("a shell").stdin.expect("it is piped")
}

fn is_installed(program: &str) -> bool {
    #[cfg(feature = "redis")]
    let own = crate::cluster::util::engine::program();
    #[cfg(feature = "redis")]
    let program = if program == "redis-server" { own.as_str() } else { program };
    let folders = var("PATH").unwrap_or_default() + ":/usr/sbin";
    folders.split(':').any(|folder| Path::new(folder).join(program).exists())
}

/// The library of Debian's `faketime`, which gives a process another clock. Calls `left_out` where it is not installed.
pub(crate) fn faketime_library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten();
    let mut paths = folders.filter_map(|folder| Some(folder.ok()?.path().join("faketime/libfaketime.so.1")));
    let found = paths.find(|path| path.exists());
    if found.is_none() {
        left_out("libfaketime is not installed here");
    }
    found
}

/// Gives `command` the wall clock that this variable of faketime sets. The monotonic clock stays.
pub(crate) fn fake_clock(command: &mut Command, library: &Path, variable: &str, value: impl AsRef<OsStr>) {
    command.env("LD_PRELOAD", library).env(variable, value);
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
}

/// Builds a library from these lines of C, to be loaded before the system's.
pub(crate) fn shim(folder: &Path, lines: &str) -> PathBuf {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    fs::write(&source, lines).expect("the folder takes a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-o"]).args([&library, &source]);
    assert!(compiler.status().expect("cc can be run").success(), "the shim is right");
    library
}

/// The usual number of rounds, times the factor in the environment.
pub(crate) fn rounds(usual: usize) -> usize {
    usual * var("VOTE_STATUS_TEST_ROUNDS").map_or(1, |factor| factor.parse().expect("a number"))
}

/// Whether the environment asks for full lengths.
pub(crate) fn is_long() -> bool {
    var_os("VOTE_STATUS_TEST_LONG").is_some()
}
