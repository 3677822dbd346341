//! Arguments in, exit status out. The one place that prints an error.
#![forbid(unsafe_code)]

use std::io::{Write, stderr};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

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
const TELL_TIMEOUT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Writes the last words. The system says whether standard error takes them: a thread that writes with a time limit would
/// lose them on a machine that stands still for that time.
fn tell(line: &str) {
    let stderr = stderr();
    let mut asked = [PollFd::new(&stderr, PollFlags::OUT)];
    if retry_on_intr(|| poll(&mut asked, Some(&TELL_TIMEOUT))) != Ok(0) {
        // If standard error is closed, the status alone tells of the failure.
        let _closed = writeln!(&stderr, "{line}");
    }
}
