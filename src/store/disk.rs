//! The files of one data directory, as the store sees them: the seam at which a simulated disk stands
//! in for the real one ([`super::directory`]). Knows names, bytes and syncs; nothing of votes.
//!
//! What lasts over a power cut:
//! * The bytes and the length of a file, up to the last [`DiskFile::sync_data`] that succeeded. Of what came
//!   later any part may last.
//! * The names, up to the last [`Disk::sync`] that succeeded. A file that was made or renamed later may be
//!   found under its old name, its new one, or none.
//!
//! A kill of the process loses nothing but the locks. After a failed [`DiskFile::sync_data`] nothing that was
//! written since the last one that succeeded may be relied on: reads may show it for a while, and a later sync
//! may succeed without having written it.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

/// Which file it is: device and inode. Two files that exist at one time differ.
pub type FileId = (u64, u64);

/// A directory of files. Names are relative to it and have no separator.
pub trait Disk: Send + Sync {
    /// Makes the directory for its owner only, unless it is there.
    ///
    /// # Errors
    /// What the system says.
    fn make(&self) -> io::Result<()>;

    /// Opens the file of this name; makes none.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none, and what the system says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// The same for reading only.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open(name)
    }

    /// Opens the file of this name. Where there is none it is made, empty and for its owner only.
    ///
    /// # Errors
    /// What the system says.
    fn open_or_make(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Which file the name stands for now.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none, and what the system says.
    fn identity(&self, name: &str) -> io::Result<FileId>;

    /// Whether anything has this name, a link that leads nowhere included.
    ///
    /// # Errors
    /// What the system says where it cannot tell.
    fn is_taken(&self, name: &str) -> io::Result<bool>;

    /// Gives the file `from` the name `to`, in one step; what had that name loses it.
    ///
    /// # Errors
    /// What the system says; then nothing has changed.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes the name away, if a file has it.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all names last.
    ///
    /// # Errors
    /// What the system says; then none of the changes since the last sync may be relied on.
    fn sync(&self) -> io::Result<()>;

    /// How much room there is; `None` where nobody knows.
    fn room(&self) -> Option<DiskRoom>;

    /// What a person calls the file of this name; without a name, the directory.
    fn path(&self, name: &str) -> PathBuf;

    /// Where the name is a link: the directory of the file that it leads to, and that file's name there. To give that name
    /// to another file leaves the link as it is.
    fn target(&self, _name: &str) -> Option<(Arc<dyn Disk>, String)> {
        None
    }
}

/// An open file. It stays what it is when its name is taken away or given to another.
pub trait DiskFile: Send + Sync {
    /// Which file it is.
    ///
    /// # Errors
    /// What the system says.
    fn identity(&self) -> io::Result<FileId>;

    /// How it looks from outside. Two looks that differ have a write between them.
    ///
    /// # Errors
    /// What the system says.
    fn look(&self) -> io::Result<FileLook>;

    /// Whether something else is writing to it: looks twice, with a pause between.
    ///
    /// # Errors
    /// What the system says.
    fn is_changing(&self) -> io::Result<bool>;

    /// Its length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn bytes_len(&self) -> io::Result<u64>;

    /// Cuts it to this length, or fills it with zeros up to it.
    ///
    /// # Errors
    /// What the system says, [`ErrorKind::StorageFull`] and the like among it.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Fills `out` with what stands from `offset` on.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] where it ends before, and what the system says.
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` from `offset` on. After an error a part of it may be there.
    ///
    /// # Errors
    /// What the system says, [`ErrorKind::StorageFull`] and the like among it.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes its bytes and its length last. Says nothing of its name.
    ///
    /// # Errors
    /// What the system says; then see the head of this file.
    fn sync_data(&self) -> io::Result<()>;

    /// Locks it until it is closed, against every other opening of the same file, in this process too. Gives
    /// whether it is locked now. A file system without locks locks nothing, and says that it did.
    ///
    /// # Errors
    /// What the system says.
    fn try_lock(&self) -> io::Result<bool>;
}

/// How a file looks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLook {
    /// Its length.
    pub bytes_len: u64,
    /// When it was written to last, in nanoseconds of some clock.
    pub written_ns: i128,
}

/// The room on a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// What fits on the disk in all.
    pub total_bytes: u64,
    /// What this process may still write, as far as the disk tells.
    pub free_bytes: u64,
    /// The longest that one file may become.
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
