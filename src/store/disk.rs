//! The store's file, as the library reads and writes it: locked, and written with the room that is
//! kept back where the disk is full and the commit makes room.

use std::fmt::{self, Debug, Formatter};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use redb::{Builder, Database, DatabaseError, StorageBackend};

use super::place::FilePlace;
use super::room::{Extent, Room};
use super::stage::{CommitStage, Watched};

/// Memory for pages of the file, in bytes. Little: questions are answered from the table.
const CACHE_BYTES: usize = 16 << 20;

/// Opens the library on a file that is there. Never makes anything: an empty or missing file is
/// damage, not a new store.
///
/// # Errors
/// What the system or the library says; [`DatabaseError::DatabaseAlreadyOpen`] where another
/// process has it.
pub(super) fn open(place: &FilePlace, room: &Arc<Room>, stage: &Arc<CommitStage>) -> Result<Database, DatabaseError> {
    let file = OpenOptions::new().read(true).write(true).open(place.path())?;
    place.expect(&file)?;
    if file.metadata()?.len() == 0 {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is empty").into());
    }
    on(file, room, stage)
}

/// Makes an empty store in `file`.
///
/// # Errors
/// As [`open`].
pub(super) fn make(file: File, room: &Arc<Room>) -> Result<(), DatabaseError> {
    on(file, room, &Arc::default()).map(drop)
}

fn on(file: File, room: &Arc<Room>, stage: &Arc<CommitStage>) -> Result<Database, DatabaseError> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(DatabaseError::DatabaseAlreadyOpen),
        // A file system without locks: the lock on the directory has to do.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let extent = Arc::new(Extent::new(file)?);
    room.watch(&extent);
    let file = StoreFile { extent, room: Arc::clone(room), stage: Arc::clone(stage) };
    Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(Watched::new(file, stage))
}

struct StoreFile {
    extent: Arc<Extent>,
    room: Arc<Room>,
    stage: Arc<CommitStage>,
}

impl StoreFile {
    /// Does `work` that takes `bytes`, and where the disk is full does it again with so much of what is
    /// kept back, as long as there is any for it. No more at a time, and at once: whoever else writes
    /// takes what is free.
    fn with_reserve(&self, bytes: usize, work: impl Fn() -> io::Result<()>) -> io::Result<()> {
        loop {
            match work() {
                Err(error) if is_disk_full(&error) && self.room.give(bytes as u64, self.stage.reserved_percent()) => {}
                outcome => return outcome,
            }
        }
    }
}

impl Debug for StoreFile {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("the store's file")
    }
}

impl StorageBackend for StoreFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.extent.used())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.extent.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_reserve(0, || self.extent.set_used(len, self.room.is_scarce()))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.extent.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_reserve(data.len(), || self.extent.file.write_all_at(data, offset))
    }

    fn close(&self) -> io::Result<()> {
        let trimmed = self.extent.set_used(self.extent.used(), self.room.is_scarce());
        // Where the file system has no locks, there is none to give back.
        trimmed.and(self.extent.file.unlock().or_else(|error| match error.kind() {
            ErrorKind::Unsupported => Ok(()),
            _ => Err(error),
        }))
    }
}

/// Whether an error says that there is no room: on the disk, for this user, or in one file.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    is_disk_full(error) || error.kind() == ErrorKind::FileTooLarge
}

fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
