//! The data directory: one process at a time, files for their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::commit_marker::CommitMarker;
use super::disk;
use super::embedded::EmbeddedStore;
use super::place::{FileId, FilePlace, is_at};
use super::room::Room;
use super::{Event, Past, Store, StoreError};
use crate::vote::lengths::Lengths;
use crate::vote::time::UnixSeconds;

/// The store's file.
const STORE_FILE: &str = "votes.redb";
/// See [`CommitMarker`].
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
    place: Arc<FilePlace>,
    room: Arc<Room>,
    /// What was free on the disk when it was last found full, in bytes.
    free_when_full_bytes: u64,
    directory: PathBuf,
    /// Locked while the store is open.
    lock: File,
}

/// Which store is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The store that is there, or an empty one that is made.
    Any,
    /// The store that is there. Where none is, a volume may not be mounted, so none is made.
    Existing,
    /// The one that was open before.
    This(FileId),
}

impl DirectoryStore {
    /// Opens the store of `directory`; makes both where they are not there and any is wanted.
    ///
    /// # Errors
    /// Where another process uses it, or what is there cannot be used or is not what is wanted.
    pub fn open(directory: &Path, wanted: Wanted) -> Result<Self, StoreError> {
        let fail = |what: &str, error: io::Error| {
            StoreError::Unavailable(format!("cannot {what} in the data directory {}: {error}", directory.display()))
        };
        let path = directory.join(STORE_FILE);
        // Before anything is made: what is here may be the place of a volume that is not mounted.
        if wanted != Wanted::Any && fs::symlink_metadata(&path).is_err_and(|error| is_nothing_there(&error)) {
            let remedy = match wanted {
                Wanted::This(_) => "the one that was open has gone: put it back",
                _ => "none is made (--require-store): is the volume mounted? vote-status init makes an empty one, once",
            };
            return Err(StoreError::Unavailable(format!("there is no store {}, and {remedy}", path.display())));
        }
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
        let name = path.display().to_string();
        let note = directory.join(WITNESS_FILE);
        let marker = CommitMarker::open(&note).map_err(|error| fail("open the sequence note", error))?;
        match fs::symlink_metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail("look for the store", error)),
            // An empty store is right only where nothing was ever kept.
            Err(_) => match marker.read() {
                Some(acknowledged) if acknowledged > 0 => {
                    return Err(StoreError::Unusable(format!(
                        "the store {name} is gone, and {} says that {acknowledged} commits were acknowledged: put it back, or remove that file too to start empty, which forgets every cooldown",
                        note.display()
                    )));
                }
                _ => make(directory, &path, &room).map_err(|error| fail("make the store", error))?,
            },
        }
        let place = Arc::new(FilePlace::new(path, if let Wanted::This(known) = wanted { Some(known) } else { None }));
        let (its_place, its_room) = (Arc::clone(&place), Arc::clone(&room));
        let open = Box::new(move |stage: &Arc<_>| disk::open(&its_place, &its_room, stage));
        let store = EmbeddedStore::new(open, name, marker)?;
        room.keep_back();
        place.hold_key();
        Ok(Self { store, place, room, free_when_full_bytes: 0, directory: directory.to_owned(), lock })
    }

    /// Which store it is.
    #[must_use]
    pub fn identity(&self) -> Option<FileId> {
        self.place.identity()
    }

    /// Makes an empty store in `directory`, once.
    ///
    /// # Errors
    /// Where there is one, was one, or none can be made.
    pub fn init(directory: &Path) -> Result<(), StoreError> {
        let path = directory.join(STORE_FILE);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(StoreError::Unusable(format!("there is a store already: {}", path.display())));
        }
        Self::open(directory, Wanted::Any).map(drop)
    }
}

impl Store for DirectoryStore {
    fn commit(&mut self, events: &[Event]) -> Result<(), StoreError> {
        if self.place.is_lost() {
            return Err(StoreError::Gone(self.place.describe_loss()));
        }
        let committed = self.store.commit(events);
        self.note_room(&committed);
        // The file may have gone while it was written to: nobody is told 201 for what a restart forgets.
        if committed.is_ok() && self.place.is_lost() {
            let loss = self.place.describe_loss();
            return Err(match self.store.take_back() {
                Ok(()) => StoreError::Gone(loss),
                Err(_) => StoreError::InDoubt(loss),
            });
        }
        committed
    }

    fn replay(&mut self, since: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        self.store.replay(since, visit)
    }

    fn latest_gone(&mut self) -> Result<Option<UnixSeconds>, StoreError> {
        self.store.latest_gone()
    }

    fn past(&mut self) -> Result<Past, StoreError> {
        self.store.past()
    }

    fn keep(&mut self, known_ms: u64, lengths: &Lengths) {
        self.store.keep(known_ms, lengths);
    }

    fn drop_cast(&mut self, since: UnixSeconds, until: UnixSeconds, rows_max: usize) -> Result<usize, StoreError> {
        let dropped = self.store.drop_cast(since, until, rows_max);
        self.note_room(&dropped);
        dropped
    }

    fn size_bytes(&self) -> u64 {
        fs::metadata(self.place.path()).map_or(0, |metadata| metadata.len())
    }

    fn has_more_room(&self) -> bool {
        self.room.free_bytes() > self.free_when_full_bytes.saturating_add(MORE_ROOM_BYTES)
    }

    fn tend(&mut self) -> Result<(), StoreError> {
        if self.place.is_lost() {
            return Err(StoreError::Gone(self.place.describe_loss()));
        }
        self.room.keep_back();
        self.place.hold_key();
        self.replace_small_files();
        Ok(())
    }
}

impl DirectoryStore {
    /// The store is at its place; what lies beside it and is not is made again: without the note a
    /// start after a crash takes the store for damaged, without the lock it takes it for free.
    fn replace_small_files(&mut self) {
        let (note, lock) = (self.directory.join(WITNESS_FILE), self.directory.join(LOCK_FILE));
        if let Err(error) = self.store.keep_marker_at(&note) {
            log::debug!("{} could not be made again: {error}", note.display());
        }
        if !is_at(&self.lock, &lock)
            && let Ok(file) = owned(&lock)
            && file.try_lock().is_ok()
        {
            self.lock = file;
        }
    }

    fn note_room<T>(&mut self, outcome: &Result<T, StoreError>) {
        if matches!(outcome, Err(StoreError::Full(_))) {
            self.free_when_full_bytes = self.room.free_bytes();
        }
    }
}

fn is_nothing_there(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
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
