//! Whether the files that are open are still those at their paths.
//!
//! A file that was deleted, moved, or covered by a mount takes what is written to it all the same, and
//! after a restart it is not there. What is open is compared with what the path names by device and
//! inode.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;

/// The key to the control interface, if it is in the data directory: without it there is no export.
const KEY_FILE: &str = "control.key";

/// Device and inode.
pub type FileId = (u64, u64);

/// The place of the store's file.
pub(super) struct FilePlace {
    path: PathBuf,
    identity: OnceLock<FileId>,
    key: OnceLock<File>,
}

impl FilePlace {
    /// The place at `path`; its file is the known one, or the first that is opened there.
    pub(super) fn new(path: PathBuf, known: Option<FileId>) -> Self {
        Self { path, identity: known.map_or_else(OnceLock::new, OnceLock::from), key: OnceLock::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file was opened here.
    ///
    /// # Errors
    /// Where it is another one than before.
    pub(super) fn expect(&self, file: &File) -> io::Result<()> {
        let found = identity(&file.metadata()?);
        if *self.identity.get_or_init(|| found) == found {
            return Ok(());
        }
        // With a number, it is told as the system's and not as damage.
        Err(io::Error::from_raw_os_error(rustix::io::Errno::STALE.raw_os_error()))
    }

    /// Which file it is, once it was opened.
    pub(super) fn identity(&self) -> Option<FileId> {
        self.identity.get().copied()
    }

    /// Whether another file than the open one is at the path, or none. Cheap: before and after each
    /// commit.
    pub(super) fn is_lost(&self) -> bool {
        let here = fs::metadata(&self.path).map(|metadata| identity(&metadata));
        self.identity().is_some_and(|open| here.map_or(true, |here| here != open))
    }

    /// What has become of the file, and what to do.
    pub(super) fn describe_loss(&self) -> String {
        let path = self.path.display();
        let what = match fs::metadata(&self.path) {
            Ok(_) => "another file is in its place".to_owned(),
            Err(error) => error.to_string(),
        };
        let key = self.key.get().map(|key| {
            let (pid, descriptor) = (process::id(), key.as_raw_fd());
            format!(" --control-key-file /proc/{pid}/fd/{descriptor}")
        });
        format!(
            "the store {path} is no longer at its path ({what}): votes and changes are answered 503, status goes on \
             from memory. Put the same file back, by mv or mount, and all goes on; if it is gone, run vote-status \
             export FILE{} while this process runs, start anew, and import FILE",
            key.unwrap_or_default()
        )
    }

    /// Keeps the control key's file open, if it is beside the store: it can be read through the process
    /// when the directory is gone.
    pub(super) fn hold_key(&self) {
        let path = self.path.with_file_name(KEY_FILE);
        // To open a pipe is to wait for whoever writes to it.
        if self.key.get().is_none()
            && path.is_file()
            && let Ok(file) = File::open(path)
        {
            self.key.get_or_init(|| file);
        }
    }
}

/// Whether `file` is what `path` names.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let open = file.metadata().map(|metadata| identity(&metadata));
    let here = fs::metadata(path).map(|metadata| identity(&metadata));
    matches!((open, here), (Ok(open), Ok(here)) if open == here)
}

fn identity(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}
