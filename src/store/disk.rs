//! The files of one data directory, as the store sees them: the seam at which a simulated disk stands
//! in for the real one ([`super::directory`]). Knows names, bytes and syncs; nothing of votes.
//!
//! What lasts over a power cut:
//! * The bytes and the length of a file, up to the last [`DiskFile::sync_data`] that succeeded. Any part of later
//!   writes may last.
//! * The names, up to the last [`Disk::sync`] that succeeded. A file that was made or renamed later may be
//!   found under its old name, its new one, or none.
//!
//! A kill of the process loses only the locks. After a failed [`DiskFile::sync_data`], nothing written since the last
//! successful one is reliable. Reads may show it for a while, and a later sync may succeed without having written it.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

/// The identity of a file: device and inode. Two files that exist at one time differ.
pub type FileId = (u64, u64);

/// A directory of files. Names are relative to it and have no separator.
pub trait Disk: Send + Sync {
    /// Makes the directory for its owner only, unless it is there.
    ///
    /// # Errors
    /// The system's error.
    fn make(&self) -> io::Result<()>;

    /// Opens the file of this name; makes none.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none, or the system's error.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens the file of this name for reading only.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open(name)
    }

    /// Opens the file of this name, or makes an empty one, for its owner only.
    ///
    /// # Errors
    /// The system's error.
    fn open_or_make(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// The identity of the file that has this name now.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none, or the system's error.
    fn identity(&self, name: &str) -> io::Result<FileId>;

    /// Whether anything has this name, a link that leads nowhere included.
    ///
    /// # Errors
    /// The system's error where it cannot tell.
    fn is_taken(&self, name: &str) -> io::Result<bool>;

    /// Renames `from` to `to` in one step; a file that had that name loses it.
    ///
    /// # Errors
    /// The system's error; then nothing has changed.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes the name away, if a file has it.
    ///
    /// # Errors
    /// The system's error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all names durable.
    ///
    /// # Errors
    /// The system's error; then none of the changes since the last sync is reliable.
    fn sync(&self) -> io::Result<()>;

    /// The room on the disk; `None` where it is unknown.
    fn room(&self) -> Option<DiskRoom>;

    /// The path of the file of this name, as people know it; without a name, that of the directory.
    fn path(&self, name: &str) -> PathBuf;

    /// If the name is a link: the directory of the file that it leads to, and that file's name there. A rename to that
    /// name leaves the link as it is.
    fn target(&self, _name: &str) -> Option<(Arc<dyn Disk>, String)> {
        None
    }
}

/// An open file. It stays the same file when its name is taken away or given to another.
pub trait DiskFile: Send + Sync {
    /// The identity of the file.
    ///
    /// # Errors
    /// The system's error.
    fn identity(&self) -> io::Result<FileId>;

    /// The file's length and time of the last write. Two looks that differ have a write between them.
    ///
    /// # Errors
    /// The system's error.
    fn look(&self) -> io::Result<FileLook>;

    /// Whether something else is writing to the file: looks twice, with a pause between.
    ///
    /// # Errors
    /// The system's error.
    fn is_changing(&self) -> io::Result<bool>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// The system's error.
    fn bytes_len(&self) -> io::Result<u64>;

    /// Cuts the file to this length, or extends it with zeros.
    ///
    /// # Errors
    /// The system's error, such as [`ErrorKind::StorageFull`].
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] where the file ends before, or the system's error.
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` from `offset` on. After an error, a part of them may be there.
    ///
    /// # Errors
    /// The system's error, such as [`ErrorKind::StorageFull`].
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the file's bytes and length durable, but not its name.
    ///
    /// # Errors
    /// The system's error; then see the head of this file.
    fn sync_data(&self) -> io::Result<()>;

    /// Locks the file until it is closed, against every other opening of it, also in this process. Gives whether the
    /// file is locked now. On a file system without locks nothing is locked, and the result is `true`.
    ///
    /// # Errors
    /// The system's error.
    fn try_lock(&self) -> io::Result<bool>;
}

/// The length of a file and the time of its last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLook {
    /// The file's length, in bytes.
    pub bytes_len: u64,
    /// The time of the last write, in nanoseconds of some clock.
    pub written_ns: i128,
}

/// The room on a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// The size of the disk.
    pub total_bytes: u64,
    /// Room that this process may still use, as far as the disk tells.
    pub free_bytes: u64,
    /// The largest size of one file.
    pub file_bytes_max: u64,
}

/// Whether an error says that there is no room: on the disk, for this user, or in one file.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    is_disk_full(error) || error.kind() == ErrorKind::FileTooLarge
}

/// Whether an error says that there is no room on the disk or for this user.
pub(super) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::{is_disk_full, is_full};
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_full_disk_is_told_from_a_file_at_its_bound() {
        let told = |kind: ErrorKind| (is_full(&Error::from(kind)), is_disk_full(&Error::from(kind)));
        assert_eq!(told(ErrorKind::StorageFull), (true, true));
        assert_eq!(told(ErrorKind::QuotaExceeded), (true, true));
        assert_eq!(told(ErrorKind::FileTooLarge), (true, false));
        assert_eq!(told(ErrorKind::PermissionDenied), (false, false));
    }
}
