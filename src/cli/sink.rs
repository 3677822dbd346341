//! Where an export is written: a file, which is replaced as a whole, or whatever else has that name,
//! which is written through. Knows files, not what is written.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write, stderr, stdout};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use super::CliError;
use crate::random;
use crate::vote::id::Token;

/// Links that are followed one after the other: as many as the system follows.
const LINKS_MAX: usize = 40;

/// What is open for writing.
pub(super) enum Sink {
    /// A device, a pipe, a socket, or a descriptor of this process.
    Through(Box<dyn Write>),
    /// A file.
    Whole(Partial),
}

/// What a path means.
enum Target {
    /// `/dev/stdout`, `/dev/fd/N`, or a link to one: what the shell has opened, position and all.
    Descriptor(i32),
    /// A path that is no link.
    Path(PathBuf),
}

impl Sink {
    /// Opens what `path` names; a pipe waits for its reader. To be called before anything else is opened: else
    /// `/dev/fd/3` may name what this process has opened, and not what it was passed.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        let fail = |error: io::Error| unwritable(path, &error);
        let path = match resolve(path).map_err(fail)? {
            Target::Descriptor(number) => return descriptor(number).map(Self::Through).map_err(fail),
            Target::Path(path) => path,
        };
        match fs::metadata(&path) {
            Ok(there) if there.is_dir() => Err(fail(ErrorKind::IsADirectory.into())),
            Ok(there) if there.file_type().is_socket() => {
                UnixStream::connect(&path).map(|socket| Self::Through(Box::new(socket))).map_err(fail)
            }
            Ok(there) if !there.is_file() => {
                let file = OpenOptions::new().write(true).open(&path).map_err(fail)?;
                Ok(Self::Through(Box::new(file)))
            }
            _ => Partial::create(path).map(Self::Whole),
        }
    }

    /// Makes what was written the content of the file, if it is one.
    ///
    /// # Errors
    /// Where the file cannot be replaced.
    pub(super) fn finish(self) -> Result<(), CliError> {
        if let Self::Whole(partial) = self { partial.finish() } else { Ok(()) }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Through(out) => out.write(bytes),
            Self::Whole(partial) => partial.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Self::Through(out) = self { out.flush() } else { Ok(()) }
    }
}

/// Follows links: what is replaced is what they name, never one of them.
fn resolve(path: &Path) -> io::Result<Target> {
    let own = [fs::canonicalize("/proc/self/fd"), fs::canonicalize("/proc/thread-self/fd")];
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(name) = path.file_name() else { return Ok(Target::Path(path)) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = fs::canonicalize(folder)?;
        let number = name.to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number.filter(|_| own.iter().flatten().any(|own| *own == folder)) {
            return Ok(Target::Descriptor(number));
        }
        let resolved = folder.join(name);
        match fs::read_link(&resolved) {
            Ok(link) => path = folder.join(link),
            Err(_) => return Ok(Target::Path(resolved)),
        }
    }
    Err(io::Error::other("too many links"))
}

/// A second handle of a descriptor that was passed to this process: it has the same position in the file. Where the
/// system gives none, the file is opened anew, and appended to.
fn descriptor(number: i32) -> io::Result<Box<dyn Write>> {
    match number {
        1 => return Ok(Box::new(stdout())),
        2 => return Ok(Box::new(stderr())),
        _ => {}
    }
    let own = pidfd_open(getpid(), PidfdFlags::empty());
    if let Ok(passed) = own.and_then(|own| pidfd_getfd(own, number, PidfdGetfdFlags::empty())) {
        return Ok(Box::new(File::from(passed)));
    }
    let file = OpenOptions::new().append(true).open(Path::new("/proc/self/fd").join(number.to_string()))?;
    Ok(Box::new(file))
}

/// A file under another name until it is whole. Dropped before that, it is removed.
pub(super) struct Partial {
    file: File,
    /// Beside the target; none where that folder takes no file.
    path: Option<PathBuf>,
    target: PathBuf,
}

impl Partial {
    /// Tokens are secrets: the file is for its owner only, from its first byte on.
    fn create(target: PathBuf) -> Result<Self, CliError> {
        let mut name = OsString::from(&target);
        name.push(".partial");
        let path = PathBuf::from(name);
        let error = match create_new(&path) {
            Ok(file) => return Ok(Self { file, path: Some(path), target }),
            Err(error) => error,
        };
        let is_closed = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
        if !(is_closed && target.is_file()) {
            return Err(unwritable(&path, &error));
        }
        // The file may be written, but its folder takes no new one: the export is gathered elsewhere until it is
        // whole.
        OpenOptions::new().write(true).open(&target).map_err(|error| unwritable(&target, &error))?;
        let file = nameless().map_err(|error| unwritable(&std::env::temp_dir(), &error))?;
        Ok(Self { file, path: None, target })
    }

    fn finish(mut self) -> Result<(), CliError> {
        let finished = self.file.sync_all().and_then(|()| match &self.path {
            Some(path) => match fs::rename(path, &self.target) {
                // The target is a mount of its own, as a single file in a container may be: it cannot be replaced.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => write_in_place(&mut self.file, &self.target),
                renamed => renamed,
            },
            None => write_in_place(&mut self.file, &self.target),
        });
        finished.map_err(|error| unwritable(&self.target, &error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // After the rename it is not there any more, which is what is wanted.
            let _renamed = fs::remove_file(path);
        }
    }
}

/// A new file for its owner only. What is at `path` is removed, never written to: another user may be able to read
/// that file, or it may be a link.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// A file that nobody else finds, and that is gone with this process.
fn nameless() -> io::Result<File> {
    let name = Token::from_random(random::bits()?);
    let path = std::env::temp_dir().join(format!("vote-status-export-{}", name.as_str()));
    let file = create_new(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

fn write_in_place(whole: &mut File, target: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(target)?;
    whole.seek(SeekFrom::Start(0))?;
    let bytes = io::copy(whole, &mut file)?;
    file.set_len(bytes)?;
    file.sync_all()
}

/// Why it cannot be written.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::new(format_args!("cannot write {}: {error}", path.display()))
}
