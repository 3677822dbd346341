//! Votes and servers in one file of a data directory, by `redb`.
//!
//! Rows of votes are in order of time: replay reads what is still in cooldown, expiry drops what
//! comes first. A commit is one transaction and one sync of the file.
//!
//! The library undoes its last commit where it finds it damaged, because a power cut in the middle
//! of one looks the same. A commit that was acknowledged must not go that way in silence, so each
//! has a number, and the last acknowledged one is noted beside the file: see [`super::commit_marker`].
//!
//! A file that was deleted, moved, or covered by a mount takes what is written to it all the same, and
//! after a restart it is not there. So the file that is open is compared with the one of its name.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use redb::{Database, DatabaseError};

use super::commit_marker::{CommitMarker, MARKER_FILE, is_in_place};
use super::disk::{Disk, DiskFile, FileId, is_full};
use super::room::Room;
use super::store_file::{Purpose, StoreFile};
use super::tables::{self, Dropped, Found, SCHEMA_OF_BOTH};
use super::{Event, Kept, Past, Store, StoreError};
use crate::vote::time::UnixSeconds;

/// The store's file.
pub const STORE_FILE: &str = "votes.redb";
/// Its name while it is made: a start that is cut short leaves no half file behind.
const NEW_FILE: &str = "votes.new";
/// Locked while a process uses the directory.
const LOCK_FILE: &str = "lock";
/// The key to the control interface, if it is in the data directory: without it there is no export.
const KEY_FILE: &str = "control.key";
/// What a commit of a few votes takes, in bytes, and what another writer leaves by chance is less.
const MORE_ROOM_BYTES: u64 = 128 << 10;

/// Which store is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The store that is there, or an empty one that is made.
    Any,
    /// The store that is there. Where none is, a volume may not be mounted, so none is made.
    Existing,
}

/// The store of a data directory.
pub struct EmbeddedStore {
    disk: Arc<dyn Disk>,
    /// How the file is called in messages.
    name: String,
    /// Locked while the store is open.
    lock: Arc<dyn DiskFile>,
    room: Arc<Room>,
    marker: CommitMarker,
    /// Which file it is, once it was opened.
    identity: Option<FileId>,
    /// `None` after a failure: opened again when it is next needed.
    open: Option<(Database, Arc<StoreFile>)>,
    /// Bytes of the file that the library used when it was last open.
    used_bytes: u64,
    sequence: u64,
    /// What is kept with the next commit besides its changes.
    kept: Option<Kept>,
    /// Rows of votes that were dropped, and whose room in the file no later vote has taken yet.
    rows_free: usize,
    /// What would undo the last commit. One that failed may be in the file all the same, and one that went well
    /// may have to be taken back.
    undo: Vec<Event>,
    /// What was free on the disk when it was last found full, in bytes.
    free_when_full_bytes: u64,
}

/// The opening.
impl EmbeddedStore {
    /// Opens the store of a directory, and checks all of it. Makes directory and store where they are not there
    /// and any is wanted.
    ///
    /// # Errors
    /// Where another process uses it, or what is there cannot be used or is not what is wanted.
    pub fn open(disk: Arc<dyn Disk>, wanted: Wanted) -> Result<Self, StoreError> {
        let name = disk.path(STORE_FILE).display().to_string();
        // Before anything is made: what is here may be the place of a volume that is not mounted.
        if wanted != Wanted::Any && matches!(disk.is_taken(STORE_FILE), Ok(false)) {
            return Err(StoreError::Unavailable(format!(
                "there is no store {name}, and none is made (--require-store): is the volume mounted? vote-status init makes an empty one, once"
            )));
        }
        let directory = disk.path("").display().to_string();
        let fail = |what: &str, error: io::Error| {
            StoreError::Unavailable(format!("cannot {what} in the data directory {directory}: {error}"))
        };
        disk.make().map_err(|error| fail("make files", error))?;
        let lock = disk.open_or_make(LOCK_FILE).map_err(|error| fail("make the lock", error))?;
        if !lock.try_lock().map_err(|error| fail("take the lock", error))? {
            return Err(StoreError::InUse(format!(
                "the data directory {directory} is in use by another process: end it, or give another --data-dir"
            )));
        }
        let marker = CommitMarker::open(&*disk).map_err(|error| fail("open the sequence note", error))?;
        let mut store = Self {
            room: Arc::new(Room::new(Arc::clone(&disk))),
            disk,
            name,
            lock,
            marker,
            identity: None,
            open: None,
            used_bytes: 0,
            sequence: 0,
            kept: None,
            rows_free: 0,
            undo: Vec::new(),
            free_when_full_bytes: 0,
        };
        if !store.disk.is_taken(STORE_FILE).map_err(|error| fail("look for the store", error))? {
            store.make(fail)?;
        }
        store.guarded(Self::open_checked)?;
        store.keep_back();
        Ok(store)
    }

    /// Makes an empty store, once.
    ///
    /// # Errors
    /// Where there is one, was one, or none can be made.
    pub fn init(disk: Arc<dyn Disk>) -> Result<(), StoreError> {
        if !matches!(disk.is_taken(STORE_FILE), Ok(false)) {
            let path = disk.path(STORE_FILE);
            return Err(StoreError::Unusable(format!("there is a store already: {}", path.display())));
        }
        Self::open(disk, Wanted::Any).map(drop)
    }

    /// Makes an empty store whole under another name before it gets its own. It is right only where nothing was
    /// ever kept.
    fn make(&self, fail: impl Fn(&str, io::Error) -> StoreError) -> Result<(), StoreError> {
        if let Some(acknowledged) = self.marker.read().filter(|acknowledged| *acknowledged > 0) {
            return Err(StoreError::Unusable(format!(
                "the store {} is gone, and {} says that {acknowledged} commits were acknowledged: put it back, or remove that file too to start empty, which forgets every cooldown",
                self.name,
                self.disk.path(MARKER_FILE).display(),
            )));
        }
        let make = || -> io::Result<()> {
            self.disk.remove(NEW_FILE)?;
            let file = self.disk.open_or_make(NEW_FILE)?;
            drop(StoreFile::open(Arc::clone(&file), &self.room).map_err(io::Error::other)?);
            file.sync_data()?;
            self.disk.rename(NEW_FILE, STORE_FILE)?;
            self.disk.sync()
        };
        make().map_err(|error| fail("make the store", error))
    }

    /// Opens the file for the first time, checks all of it, and makes the tables where it is new.
    fn open_checked(&mut self) -> Result<(), StoreError> {
        let (mut database, file) = self.open_file()?;
        let is_as_left = database.check_integrity().map_err(|error| self.open_error(error))?;
        self.sequence = match tables::find(&database) {
            Ok(Found::Nothing) => tables::make(&database).map(|()| 0).map_err(|error| self.failed(error))?,
            found => self.sequence_of(found)?,
        };
        match self.marker.read() {
            Some(acknowledged) if acknowledged > self.sequence => return Err(self.lacking(acknowledged)),
            None if !is_as_left => {
                // Opened once more the file looks whole. With this note it is refused then as well.
                self.marker.note(self.sequence + 1);
                return Err(self.damaged("part of it was undone"));
            }
            _ => {}
        }
        self.open = Some((database, file));
        Ok(())
    }

    /// Opens the library on the file that is there. Never makes anything: an empty or missing file is
    /// damage, not a new store.
    fn open_file(&mut self) -> Result<(Database, Arc<StoreFile>), StoreError> {
        let open = |store: &mut Self| -> Result<_, DatabaseError> {
            let file = store.disk.open(STORE_FILE)?;
            let found = file.identity()?;
            if *store.identity.get_or_insert(found) != found {
                // With a number, it is told as the system's and not as damage.
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::STALE.raw_os_error()).into());
            }
            if file.bytes_len()? == 0 {
                return Err(io::Error::new(ErrorKind::InvalidData, "it is empty").into());
            }
            StoreFile::open(file, &store.room)
        };
        open(self).map_err(|error| self.open_error(error))
    }

    /// Runs what touches the file. The library may panic on a damaged one; that is an error like
    /// any other here.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        catch_unwind(AssertUnwindSafe(|| work(self)))
            .unwrap_or_else(|_panic| Err(self.damaged("it cannot be read as it is")))
    }

    fn damaged(&self, how: &str) -> StoreError {
        let name = &self.name;
        StoreError::Unusable(format!(
            "the store {name} is damaged ({how}): put back a copy, or move it and votes.sequence away to start empty, which forgets every cooldown"
        ))
    }

    fn lacking(&self, acknowledged: u64) -> StoreError {
        let (name, found) = (&self.name, self.sequence);
        StoreError::Unusable(format!(
            "the store {name} is damaged: its last commit is {found}, and votes.sequence beside it says that {acknowledged} was acknowledged: put back a newer copy, or remove votes.sequence to serve this one as it is"
        ))
    }

    fn open_error(&self, error: DatabaseError) -> StoreError {
        let name = &self.name;
        match error {
            DatabaseError::DatabaseAlreadyOpen => {
                StoreError::InUse(format!("the store {name} is open in another process"))
            }
            DatabaseError::UpgradeRequired(version) => StoreError::Unusable(format!(
                "the store {name} has file format {version}, which this version does not read: use the version that wrote it"
            )),
            DatabaseError::Storage(redb::StorageError::Io(error)) if is_of_the_system(&error) => {
                StoreError::Unavailable(format!("the store {name} cannot be opened: {error}"))
            }
            error => self.damaged(&error.to_string()),
        }
    }

    fn failed(&self, error: impl Into<redb::Error>) -> StoreError {
        let (name, error) = (&self.name, error.into());
        match &error {
            redb::Error::Io(system) if is_full(system) => {
                StoreError::Full(format!("there is no room on the disk for the store {name}: {system}"))
            }
            _ => StoreError::Unavailable(format!("the store {name} fails: {error}")),
        }
    }

    /// The number of the last commit in a file of ours.
    fn sequence_of(&self, found: Result<Found, redb::Error>) -> Result<u64, StoreError> {
        let name = &self.name;
        match found.map_err(|error| self.failed(error))? {
            Found::Sequence(sequence) => Ok(sequence),
            Found::Newer(newer) => Err(StoreError::Unusable(format!(
                "the store {name} was written by a newer version (schema {newer}, this one reads {SCHEMA_OF_BOTH}): use that version"
            ))),
            Found::Nothing | Found::Foreign => Err(StoreError::Unusable(format!(
                "{name} is no store of vote-status: move it away, or give another --data-dir"
            ))),
        }
    }
}

/// Changes.
impl EmbeddedStore {
    /// The database, opened again after a failure. What had failed is undone where it is found in
    /// the file after all: it was answered as not recorded.
    fn database(&mut self) -> Result<&Database, StoreError> {
        if self.open.is_none() {
            let (database, file) = self.open_file()?;
            let found = self.sequence_of(tables::find(&database))?;
            if found < self.sequence {
                return Err(self.lacking(self.sequence));
            }
            if found > self.sequence {
                tables::write(&database, &self.undo, found + 1, None, self.kept).map_err(|error| self.failed(error))?;
                self.sequence = found + 1;
                self.marker.note(self.sequence);
            }
            self.undo.clear();
            self.open = Some((database, file));
        }
        let closed = || StoreError::Unavailable("the store is closed".into());
        self.open.as_ref().map(|(database, _)| database).ok_or_else(closed)
    }

    /// One transaction; one that fails before its sync is not in the file. After a failure the file is opened
    /// anew, as the library refuses to go on with a handle that has failed: at once if it can be, so that what
    /// failed is undone before the process may end, and else when it is next needed.
    fn transact(&mut self, events: &[Event], dropped: Option<Dropped>) -> Result<usize, StoreError> {
        let votes = events.iter().filter(|event| matches!(event, Event::Vote(_))).count();
        let purpose = match dropped {
            Some(_) => Purpose::Drop,
            None if votes < self.rows_free => Purpose::InPlace,
            None => Purpose::More,
        };
        let mut is_begun = false;
        let committed = self.guarded(|store| {
            let undo = tables::inverse(store.database()?, events).map_err(|error| store.failed(error))?;
            store.undo = undo;
            let sequence = store.sequence + 1;
            let Some((database, file)) = &store.open else {
                return Err(StoreError::Unavailable("the store is closed".into()));
            };
            file.begin(purpose);
            is_begun = true;
            let rows =
                tables::write(database, events, sequence, dropped, store.kept).map_err(|error| store.failed(error))?;
            store.sequence = sequence;
            store.rows_free = store.rows_free.saturating_sub(votes) + rows;
            store.marker.note(sequence);
            Ok(rows)
        });
        let file = self.open.as_ref().map(|(_, file)| Arc::clone(file));
        let is_in_doubt = is_begun && file.as_ref().is_some_and(|file| file.is_in_doubt());
        if let Some(file) = file {
            file.end();
            self.used_bytes = file.used();
        }
        let Err(error) = committed else { return committed };
        self.open = None;
        // Where this fails the next call tries it again, and tells why.
        let reopened = self.guarded(|store| store.database().map(drop));
        if matches!(error, StoreError::Full(_)) && reopened.is_ok() {
            // The file was made longer than there is room for: closed in order, it ends behind its
            // last page in use again, and what is free before that is taken first.
            self.open = None;
            let _reopened = self.guarded(|store| store.database().map(drop));
        }
        if matches!(error, StoreError::Full(_)) {
            self.free_when_full_bytes = self.free_bytes();
        }
        Err(if is_in_doubt { StoreError::InDoubt(error.to_string()) } else { error })
    }

    /// Reads from the tables.
    fn read<T>(&mut self, read: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, StoreError> {
        self.guarded(|store| {
            let outcome = read(store.database()?);
            outcome.map_err(|error| store.damaged(&error.to_string()))
        })
    }

    fn free_bytes(&self) -> u64 {
        self.room.free_bytes(self.open.as_ref().map_or(self.used_bytes, |(_, file)| file.used()))
    }

    fn keep_back(&self) {
        let own = self.open.as_ref().map(|(_, file)| file);
        self.room.keep_back(|kept, bytes| own.is_some_and(|own| own.cut_spare(kept, bytes)));
        let _for_later = self.disk.keep_open(KEY_FILE);
    }
}

/// The place.
impl EmbeddedStore {
    /// Whether the open file is still the one of its name. Cheap: asked before and after each commit.
    fn check_place(&self) -> Result<(), StoreError> {
        let what = match (self.disk.identity(STORE_FILE), self.identity) {
            (Ok(here), Some(open)) if here != open => "another file is in its place".to_owned(),
            (Err(error), Some(_)) => error.to_string(),
            _ => return Ok(()),
        };
        let (path, key) = (&self.name, self.disk.keep_open(KEY_FILE));
        let key = key.map(|key| format!(" --control-key-file {}", key.display()));
        Err(StoreError::Gone(format!(
            "the store {path} is no longer at its path ({what}): votes and changes are answered 503, status goes on \
             from memory. Put the same file back, by mv or mount, and all goes on; if it is gone, run vote-status \
             export FILE{} while this process runs, start anew, and import FILE",
            key.unwrap_or_default()
        )))
    }

    /// The store is at its place; what lies beside it and is not is made again: without the note a
    /// start after a crash takes the store for damaged, without the lock it takes it for free.
    fn replace_small_files(&mut self) {
        if !self.marker.is_in_place(&*self.disk) {
            match CommitMarker::open(&*self.disk) {
                Ok(marker) => {
                    self.marker = marker;
                    self.marker.note(self.sequence);
                }
                Err(error) => log::debug!("{MARKER_FILE} could not be made again: {error}"),
            }
        }
        if !is_in_place(&*self.lock, &*self.disk, LOCK_FILE)
            && let Ok(lock) = self.disk.open_or_make(LOCK_FILE)
            && matches!(lock.try_lock(), Ok(true))
        {
            self.lock = lock;
        }
    }
}

impl Store for EmbeddedStore {
    fn commit(&mut self, events: &[Event]) -> Result<(), StoreError> {
        self.check_place()?;
        self.transact(events, None)?;
        // The file may have gone while it was written to: nobody is told 201 for what a restart forgets.
        let Err(loss) = self.check_place() else { return Ok(()) };
        let undo = std::mem::take(&mut self.undo);
        Err(match self.transact(&undo, None) {
            Ok(_) => loss,
            Err(_) => StoreError::InDoubt(loss.to_string()),
        })
    }

    fn replay(&mut self, since: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        let is_whole = self.read(|database| tables::replay(database, since, visit))?;
        if is_whole { Ok(()) } else { Err(self.damaged("a row has no meaning")) }
    }

    fn latest_gone(&mut self) -> Result<Option<UnixSeconds>, StoreError> {
        self.read(tables::latest_gone)
    }

    fn past(&mut self) -> Result<Past, StoreError> {
        self.read(tables::past)
    }

    fn keep(&mut self, kept: Kept) {
        self.kept = Some(kept);
    }

    fn drop_cast(&mut self, since: UnixSeconds, until: UnixSeconds, rows_max: usize) -> Result<usize, StoreError> {
        let is_due = self.guarded(|store| {
            let is_due = tables::has_cast(store.database()?, since, until);
            is_due.map_err(|error| store.failed(error))
        });
        if is_due.is_err() {
            // The library goes on with no handle that has failed once.
            self.open = None;
        }
        if is_due? { self.transact(&[], Some((since, until, rows_max))) } else { Ok(0) }
    }

    fn size_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |(_, file)| file.bytes_len())
    }

    fn has_more_room(&self) -> bool {
        self.free_bytes() > self.free_when_full_bytes.saturating_add(MORE_ROOM_BYTES)
    }

    fn tend(&mut self) -> Result<(), StoreError> {
        self.check_place()?;
        self.keep_back();
        self.replace_small_files();
        Ok(())
    }
}

/// Whether an error is the system's (no permission, no space) and says nothing of the content.
fn is_of_the_system(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}
