//! A real directory on a disk that a test makes full, unreadable, or used by something else.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::directory::DataDirectory;
use super::disk::{Disk, DiskFile, DiskRoom, FileId, FileLook};

/// Bytes of a large disk.
pub(super) const LARGE_BYTES: u64 = 1 << 30;

/// The directory. Its disk is large.
pub(super) struct TestDisk {
    directory: Arc<dyn Disk>,
    pub(super) state: Arc<DiskState>,
}

/// What a test sets.
#[derive(Default)]
pub(super) struct DiskState {
    /// Bytes by which files can still grow.
    pub(super) free_bytes: AtomicU64,
    /// Whether something else writes to each file.
    pub(super) is_changing: AtomicBool,
    /// Whether no file can be read.
    pub(super) is_unreadable: AtomicBool,
}

struct TestFile {
    file: Arc<dyn DiskFile>,
    disk: Arc<DiskState>,
}

impl TestDisk {
    pub(super) fn at(folder: &Path, free_bytes: u64) -> Arc<Self> {
        let state = DiskState { free_bytes: AtomicU64::new(free_bytes), ..DiskState::default() };
        Arc::new(Self { directory: DataDirectory::at(folder), state: Arc::new(state) })
    }

    fn with_faults(&self, file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(TestFile { file: file?, disk: Arc::clone(&self.state) }))
    }
}

impl Disk for TestDisk {
    fn make(&self) -> io::Result<()> {
        self.directory.make()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.with_faults(self.directory.open(name))
    }

    fn open_or_make(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.with_faults(self.directory.open_or_make(name))
    }

    fn identity(&self, name: &str) -> io::Result<FileId> {
        self.directory.identity(name)
    }

    fn is_taken(&self, name: &str) -> io::Result<bool> {
        self.directory.is_taken(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.directory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.directory.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.directory.sync()
    }

    fn room(&self) -> Option<DiskRoom> {
        let free_bytes = self.state.free_bytes.load(Ordering::Relaxed);
        Some(DiskRoom { total_bytes: LARGE_BYTES, free_bytes, file_bytes_max: LARGE_BYTES })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path(name)
    }
}

impl DiskFile for TestFile {
    fn identity(&self) -> io::Result<FileId> {
        self.file.identity()
    }

    fn look(&self) -> io::Result<FileLook> {
        self.file.look()
    }

    fn is_changing(&self) -> io::Result<bool> {
        Ok(self.disk.is_changing.load(Ordering::Relaxed))
    }

    fn bytes_len(&self) -> io::Result<u64> {
        self.file.bytes_len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        if self.disk.is_unreadable.load(Ordering::Relaxed) {
            return Err(Errno::IO.into());
        }
        self.file.read_exact_at(out, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let more_bytes = (offset + bytes.len() as u64).saturating_sub(self.file.bytes_len()?);
        let take = |free: u64| free.checked_sub(more_bytes);
        match self.disk.free_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => self.file.write_all_at(bytes, offset),
            Err(_) => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
}
