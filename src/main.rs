//! Arguments in, exit status out. The one place that prints an error.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use vote_status::cli::{self, Exit};

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Negative) => ExitCode::from(1),
        Err(error) => {
            eprintln!("vote-status: {error}");
            ExitCode::from(2)
        }
    }
}
