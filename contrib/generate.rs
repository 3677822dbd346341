//! Writes the man pages and the shell completions from the definition of the command line:
//! `cargo run --example generate -- DIR`. Knows their places in a package, nothing of options.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::Shell;

/// Each shell, and the file that it looks for below the directory of the package.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "completions/bash/vote-status"),
    (Shell::Zsh, "completions/zsh/_vote-status"),
    (Shell::Fish, "completions/fish/vote-status.fish"),
];

fn main() -> ExitCode {
    let Some(directory) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("generate: name the directory to write to");
        return ExitCode::from(2);
    };
    match generate(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate: cannot write below {}: {error}", directory.display());
            ExitCode::from(2)
        }
    }
}

fn generate(directory: &Path) -> Result<(), Box<dyn Error>> {
    for (shell, name) in COMPLETIONS {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut vote_status::cli::command(), "vote-status", &mut text);
        fs::write(path, text)?;
    }
    let pages = directory.join("man");
    fs::create_dir_all(&pages)?;
    for (name, page) in vote_status::cli::manual_pages()? {
        fs::write(pages.join(name), page)?;
    }
    Ok(())
}
