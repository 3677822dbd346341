//! `vote-status export`: everything into a file, whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use super::client::ControlClient;
use super::progress::Progress;
use super::{CliError, Exit, one};

const BUFFER_BYTES: usize = 64 * 1024;

/// Streams the export to where it was asked for.
///
/// # Errors
/// Where the service cannot be asked, the stream is cut, or the file cannot be written. There is
/// no file then, or the one that was there before.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let path = one::<PathBuf>(options, "file")?;
    let client = ControlClient::new(options)?;
    let mut stream = client.stream("/v1/export")?;
    if path.as_os_str() == "-" {
        copy(&client, &mut stream, &mut stdout().lock(), Path::new("standard output"))?;
        return Ok(Exit::Success);
    }
    let mut partial = Partial::create(&path)?;
    let lines = copy(&client, &mut stream, &mut partial.file, &partial.path)?;
    partial.finish()?;
    eprintln!("vote-status: {lines} lines exported to {}", path.display());
    Ok(Exit::Success)
}

/// Copies to the end of the stream; how many lines that were.
fn copy(client: &ControlClient, stream: &mut impl Read, out: &mut impl Write, path: &Path) -> Result<u64, CliError> {
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

/// The file under a name of its own until it is whole; removed if it never gets so far.
struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    /// Tokens are secrets: the file is for its owner only, from its first byte on.
    fn create(target: &Path) -> Result<Self, CliError> {
        let mut name = OsString::from(target);
        name.push(".partial");
        let path = PathBuf::from(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(&path, &error)),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| unwritable(&path, &error))?;
        Ok(Self { file, path, target: target.to_owned() })
    }

    fn finish(self) -> Result<(), CliError> {
        let finished = self.file.sync_all().and_then(|()| fs::rename(&self.path, &self.target));
        finished.map_err(|error| unwritable(&self.target, &error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After the rename it is not there any more, which is what is wanted.
        let _renamed = fs::remove_file(&self.path);
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> CliError {
    CliError::new(format_args!("cannot write {}: {error}", path.display()))
}
