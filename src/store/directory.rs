//! The data directory: one process at a time, files for their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError};

use super::embedded::EmbeddedStore;
use super::witness::Witness;
use super::{Event, Store, StoreError};
use crate::vote::time::UnixSeconds;

/// Memory for pages of the file, in bytes: what is asked is answered from the table, not from here.
const CACHE_BYTES: usize = 16 << 20;
/// The store's file.
const STORE_FILE: &str = "votes.redb";
/// See [`Witness`].
const WITNESS_FILE: &str = "votes.sequence";
/// Locked while a process uses the directory.
const LOCK_FILE: &str = "lock";

/// The embedded store of a data directory.
pub struct DirectoryStore {
    store: EmbeddedStore,
    path: PathBuf,
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
                _ => make(directory, &path).map_err(|error| fail("make the store", error))?,
            },
        }
        let opened = path.clone();
        let store = EmbeddedStore::new(Box::new(move || open_existing(&opened)), name, witness)?;
        Ok(Self { store, path, _lock: lock })
    }
}

impl Store for DirectoryStore {
    fn commit(&mut self, events: &[Event]) -> Result<(), StoreError> {
        self.store.commit(events)
    }

    fn replay(&mut self, since: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        self.store.replay(since, visit)
    }

    fn drop_expired(&mut self, until: UnixSeconds, rows_max: usize) -> Result<usize, StoreError> {
        self.store.drop_expired(until, rows_max)
    }

    fn size_bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
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

/// Never makes anything: an empty or missing file is damage, not a new store.
fn open_existing(path: &PathBuf) -> Result<Database, DatabaseError> {
    Builder::new().set_cache_size(CACHE_BYTES).open(path)
}

/// Makes an empty store whole under another name before it gets its own: a start that is cut
/// short leaves no half file behind.
fn make(directory: &Path, path: &Path) -> io::Result<()> {
    let new = path.with_extension("new");
    remove(&new)?;
    let file = owned(&new)?;
    let database = Builder::new().set_cache_size(CACHE_BYTES).create_file(file).map_err(io::Error::other)?;
    drop(database);
    File::open(&new)?.sync_all()?;
    fs::rename(&new, path)?;
    File::open(directory)?.sync_all()
}
