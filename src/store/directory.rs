//! The data directory: one process at a time, files for their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk;
use super::embedded::EmbeddedStore;
use super::room::Room;
use super::witness::Witness;
use super::{Event, Store, StoreError};
use crate::vote::time::UnixSeconds;

/// The store's file.
const STORE_FILE: &str = "votes.redb";
/// See [`Witness`].
const WITNESS_FILE: &str = "votes.sequence";
/// See [`Room`].
const RESERVE_FILE: &str = "votes.reserve";
/// Locked while a process uses the directory.
const LOCK_FILE: &str = "lock";
/// What a commit of a few votes takes, in bytes, and what another writer leaves by chance is less.
const MORE_ROOM_BYTES: u64 = 128 << 10;

/// The embedded store of a data directory.
pub struct DirectoryStore {
    store: EmbeddedStore,
    path: PathBuf,
    room: Arc<Room>,
    /// Free on the disk when it was last found full.
    free_when_full_bytes: u64,
    /// Held until the end: the lock goes with it.
    _lock: File,
}

impl DirectoryStore {
    /// Opens the store of `directory`; makes both where they are not there.
    ///
    /// # Errors
    /// Where another process uses it, or what is there cannot be used.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let fail = |what: &str, error: io::Error| {
            StoreError::Unavailable(format!("cannot {what} in the data directory {}: {error}", directory.display()))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| fail("make files", error))?;
        let lock = owned(&directory.join(LOCK_FILE)).map_err(|error| fail("make the lock", error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse(format!(
                    "the data directory {} is in use by another process: end it, or give another --data-dir",
                    directory.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(fail("take the lock", error)),
        }
        let room = Arc::new(Room::new(directory, directory.join(RESERVE_FILE)));
        let path = directory.join(STORE_FILE);
        let name = path.display().to_string();
        let note = directory.join(WITNESS_FILE);
        let witness = Witness::open(&note).map_err(|error| fail("open the sequence note", error))?;
        match fs::symlink_metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail("look for the store", error)),
            // Only where nothing was ever kept is an empty store the truth.
            Err(_) => match witness.read() {
                Some(acknowledged) if acknowledged > 0 => {
                    return Err(StoreError::Unusable(format!(
                        "the store {name} is gone, and {} says that {acknowledged} commits were acknowledged: put it back, or remove that file too to start empty, which forgets every cooldown",
                        note.display()
                    )));
                }
                _ => make(directory, &path, &room).map_err(|error| fail("make the store", error))?,
            },
        }
        let (opened, its_room) = (path.clone(), Arc::clone(&room));
        let open = Box::new(move |stage: &Arc<_>| disk::open(&opened, &its_room, stage));
        let store = EmbeddedStore::new(open, name, witness)?;
        room.keep_back();
        Ok(Self { store, path, room, free_when_full_bytes: 0, _lock: lock })
    }
}

impl Store for DirectoryStore {
    fn commit(&mut self, events: &[Event]) -> Result<(), StoreError> {
        let committed = self.store.commit(events);
        self.note_room(&committed);
        committed
    }

    fn replay(&mut self, since: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        self.store.replay(since, visit)
    }

    fn latest_gone(&mut self) -> Result<Option<UnixSeconds>, StoreError> {
        self.store.latest_gone()
    }

    fn drop_expired(&mut self, until: UnixSeconds, rows_max: usize) -> Result<usize, StoreError> {
        let dropped = self.store.drop_expired(until, rows_max);
        self.note_room(&dropped);
        dropped
    }

    fn size_bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    fn has_more_room(&self) -> bool {
        self.room.free_bytes() > self.free_when_full_bytes.saturating_add(MORE_ROOM_BYTES)
    }

    fn tend(&mut self) {
        self.room.keep_back();
    }
}

impl DirectoryStore {
    fn note_room<T>(&mut self, outcome: &Result<T, StoreError>) {
        if matches!(outcome, Err(StoreError::Full(_))) {
            self.free_when_full_bytes = self.room.free_bytes();
        }
    }
}

fn owned(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes an empty store whole under another name before it gets its own: a start that is cut
/// short leaves no half file behind.
fn make(directory: &Path, path: &Path, room: &Arc<Room>) -> io::Result<()> {
    let new = path.with_extension("new");
    remove(&new)?;
    let file = owned(&new)?;
    disk::make(file, room).map_err(io::Error::other)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, path)?;
    File::open(directory)?.sync_all()
}
