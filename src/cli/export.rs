//! `vote-status export`: everything into a file, whole or not at all, or as a stream into a pipe.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read, Write, stderr, stdout};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::{process, thread};

use clap::ArgMatches;
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::client::ControlClient;
use super::progress::Progress;
use super::{CliError, Exit, is_store, note, one, unwritable};
use crate::whole_file::WholeFile;

const BUFFER_BYTES: usize = 64 * 1024;

/// Streams the export to the target of the options.
///
/// # Errors
/// Where the service cannot be reached, the stream is cut, or the file cannot be written. There is
/// no file then, or the one that was there before.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let path = one::<PathBuf>(options, "file")?;
    let client = ControlClient::new(options)?;
    let fail = |error: io::Error| unwritable(&path, &error);
    if path.as_os_str() == "-" {
        if is_closed_from_the_start().map_err(fail)? {
            return Err(CliError::new("standard output is closed"));
        }
        copy(&client, &mut stdout(), &path)?;
    } else if let Some(target) = regular(&path).map_err(fail)? {
        into_file(client, &path, &target)?;
    } else {
        // Opening a pipe waits for its reader.
        let mut out = OpenOptions::new().write(true).open(&path).map_err(fail)?;
        copy(&client, &mut out, &path)?;
    }
    Ok(Exit::Success)
}

/// The path of the regular file that `path` means, without links; the file may be new. `None` for anything else. A store
/// is refused: an export in its place would take the name of a running service's store.
fn regular(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(there) if there.is_file() && is_store(path)? => {
            Err(io::Error::new(ErrorKind::AlreadyExists, "it is a store: give the export another name"))
        }
        Ok(there) if there.is_file() => fs::canonicalize(path).map(Some),
        Ok(_) => Ok(None),
        // A link that leads nowhere is a mistake: no new file is made there.
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => Ok(Some(path.to_owned())),
        Err(error) => Err(error),
    }
}

/// Whether standard output was closed when the process began. The standard library opens `/dev/null` in its place, for
/// reading as well, and the export would be lost without an error.
fn is_closed_from_the_start() -> io::Result<bool> {
    let out = stdout();
    let is_null = fstat(&out)?.st_rdev == fs::metadata("/dev/null")?.rdev();
    Ok(is_null && fcntl_getfl(&out)?.contains(OFlags::RDWR))
}

/// Exports into a file, and removes its part if a signal or a failure ends the export.
fn into_file(client: ControlClient, path: &Path, target: &Path) -> Result<(), CliError> {
    let fail = |error| unwritable(path, &error);
    // Before the file is made: otherwise a signal would leave it behind.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(fail)?;
    // Two exports into one file have a temporary name each: the last one that is whole stays.
    let whole = WholeFile::create(target, &format!(".{}.partial", process::id())).map_err(fail)?;
    let mut out = whole.writer().map_err(fail)?;
    // The result of the copy; `None` if a signal came first.
    let (ended, received) = channel();
    let (stopped, name) = (ended.clone(), path.to_owned());
    // Both threads end with the process. The copy may wait for the service when the signal comes.
    thread::spawn(move || signals.forever().next().map(|_| stopped.send(None)));
    thread::spawn(move || ended.send(Some(copy(&client, &mut out, &name))));
    match received.recv() {
        Ok(Some(lines)) => {
            let lines = lines?;
            whole.finish().map_err(fail)?;
            note(format_args!("vote-status: {lines} lines exported to {}", path.display()));
            Ok(())
        }
        Ok(None) | Err(_) => {
            if stderr().is_terminal() {
                // The progress and "^C" are on this line.
                note("");
            }
            Err(CliError::new(format_args!("interrupted: nothing is exported to {}", path.display())))
        }
    }
}

/// Copies the export to its end. Gives the number of lines.
fn copy(client: &ControlClient, out: &mut impl Write, path: &Path) -> Result<u64, CliError> {
    let mut stream = client.stream("/v1/export")?;
    let mut progress = Progress::new(None);
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut bytes, mut lines) = (0, 0);
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                let url = client.url();
                return Err(CliError::new(format_args!("the export from {url} was cut off: {error}; try again")));
            }
        };
        out.write_all(&buffer[..count]).map_err(|error| unwritable(path, &error))?;
        let ended = memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
        (bytes, lines) = (bytes + count as u64, lines + ended);
        progress.advance(bytes, ended);
    }
    out.flush().map_err(|error| unwritable(path, &error))?;
    Ok(lines)
}
