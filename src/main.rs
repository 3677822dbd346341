//! Arguments in, exit status out. The one place that prints an error.
#![forbid(unsafe_code)]

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

use vote_status::cli::{self, Exit};

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Negative) => ExitCode::from(1),
        Err(error) => {
            tell(&format!("vote-status: {error}"));
            ExitCode::from(2)
        }
    }
}

/// How long a failed service waits for standard error to take its last words. If the reader has stopped reading, the
/// service ends all the same, to be started anew.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);

fn tell(line: &str) {
    let (told, until_told) = sync_channel::<()>(0);
    let words = line.to_owned();
    let work = move || {
        let _told = told;
        // If standard error is closed, the status alone tells of the failure.
        let _closed = writeln!(stderr(), "{words}");
    };
    match Builder::new().name("last-words".into()).spawn(work) {
        Ok(_running) => drop(until_told.recv_timeout(TELL_TIMEOUT)),
        Err(_no_thread) => {
            let _closed = writeln!(stderr(), "{line}");
        }
    }
}
