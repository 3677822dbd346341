//! `vote-status export`: everything into a file, whole or not at all, or through to where it goes on.

use std::io::{ErrorKind, Read, Write, stdout};
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use super::client::ControlClient;
use super::progress::Progress;
use super::sink::{Sink, unwritable};
use super::{CliError, Exit, one};

const BUFFER_BYTES: usize = 64 * 1024;

/// Streams the export to where it was asked for.
///
/// # Errors
/// Where the service cannot be asked, the stream is cut, or the file cannot be written. There is
/// no file then, or the one that was there before.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let path = one::<PathBuf>(options, "file")?;
    let is_standard_output = path.as_os_str() == "-";
    // Opened before the service is asked, because opening a pipe waits for its reader.
    let mut sink = if is_standard_output { Sink::Through(Box::new(stdout())) } else { Sink::open(&path)? };
    let client = ControlClient::new(options)?;
    let mut stream = client.stream("/v1/export")?;
    let lines = copy(&client, &mut stream, &mut sink, &path)?;
    let is_file = matches!(sink, Sink::Whole(_));
    sink.finish()?;
    if is_file {
        eprintln!("vote-status: {lines} lines exported to {}", path.display());
    }
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
