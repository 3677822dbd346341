//! How a store is opened, made, and written anew.

use std::io::{self, ErrorKind};
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use redb::{Database, DatabaseError};

use super::{EmbeddedStore, LOCK_FILE, NEW_FILE, STORE_FILE, Wanted};
use crate::store::commit_marker::{CommitMarker, MARKER_FILE};
use crate::store::disk::{Disk, is_full};
use crate::store::room::Room;
use crate::store::store_file::StoreFile;
use crate::store::tables::{self, SCHEMA};
use crate::store::{Event, Kept, Store, StoreError};

impl EmbeddedStore {
    /// Opens the store of a directory, and checks all of it. Makes directory and store where they are not there
    /// and any is wanted. `export_options` are what `vote-status export` needs besides to save what is in memory once
    /// the directory has gone.
    ///
    /// # Errors
    /// Where another process uses it, or what is there cannot be used or is not what is wanted.
    pub fn open(
        disk: Arc<dyn Disk>,
        wanted: Wanted,
        export_options: Arc<OnceLock<String>>,
    ) -> Result<Self, StoreError> {
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
        let (marker, acknowledged) = CommitMarker::open(&*disk).map_err(|error| {
            let path = disk.path(MARKER_FILE);
            StoreError::Unavailable(format!("the note {} cannot be read: {error}", path.display()))
        })?;
        let mut store = Self {
            room: Arc::new(Room::new(Arc::clone(&disk))),
            disk,
            name,
            lock,
            export_options,
            marker,
            identity: None,
            database: None,
            file: None,
            used_bytes: 0,
            sequence: 0,
            rows_free: 0,
            free_when_full_bytes: 0,
        };
        if store.disk.is_taken(STORE_FILE).map_err(|error| fail("look for the store", error))? {
            store.guarded(|store| store.open_checked(acknowledged))?;
        } else {
            store.guarded(|store| store.make(acknowledged))?;
        }
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
        Self::open(disk, Wanted::Any, Arc::default()).map(drop)
    }

    /// Makes an empty store. It is right only where nothing was ever kept.
    fn make(&mut self, acknowledged: Option<u64>) -> Result<(), StoreError> {
        match acknowledged {
            Some(acknowledged) if acknowledged > 0 => Err(StoreError::Unusable(format!(
                "the store {} is gone, and {} says that {acknowledged} commits were acknowledged: put it back, or remove that file too to start empty, which forgets every cooldown",
                self.name,
                self.disk.path(MARKER_FILE).display(),
            ))),
            _ => self.write_anew(&mut iter::empty(), 0, None),
        }
    }

    /// Writes all of the store under another name before it takes the place of the file that is there. The order,
    /// and why: the bytes last before the name leads to them; the file is locked before anybody can find it; and
    /// the name lasts before anything that is kept there is acknowledged. Until then the store is void, for a start after
    /// a kill too.
    pub(super) fn write_anew(
        &mut self,
        rows: &mut dyn Iterator<Item = Event>,
        sequence: u64,
        kept: Option<&Kept>,
    ) -> Result<(), StoreError> {
        self.marker.void();
        let system = |store: &Self, error: io::Error| store.failed(redb::Error::Io(error));
        let make = |disk: &dyn Disk| disk.remove(NEW_FILE).and_then(|()| disk.open_or_make(NEW_FILE));
        let new = make(&*self.disk).map_err(|error| system(self, error))?;
        let identity = new.identity().map_err(|error| system(self, error))?;
        let file = StoreFile::new(new, &self.room, &self.marker).map_err(|error| self.failed(error))?;
        // Closed in order while it is empty, it begins short: it grows with what is in it.
        drop(file.library().map_err(|error| self.failed(error))?);
        let database = file.library().map_err(|error| self.failed(error))?;
        tables::make(&database, rows, sequence, kept).map_err(|error| self.failed(error))?;
        self.check_path()?;
        self.disk.rename(NEW_FILE, STORE_FILE).map_err(|error| system(self, error))?;
        self.close();
        (self.database, self.file, self.identity) = (Some(database), Some(file), Some(identity));
        (self.sequence, self.rows_free) = (sequence, 0);
        self.disk.sync().map_err(|error| system(self, error))?;
        self.marker.renew(sequence);
        Ok(())
    }

    /// Opens the file for the first time, and checks all of it.
    fn open_checked(&mut self, acknowledged: Option<u64>) -> Result<(), StoreError> {
        // What was left by one that was cut short takes room.
        let _for_room = self.disk.remove(NEW_FILE);
        let mut database = self.open_file()?;
        let is_as_left = database.check_integrity().map_err(|error| self.open_error(error))?;
        self.sequence = self.sequence_of(&database)?;
        match acknowledged {
            Some(acknowledged) if acknowledged > self.sequence => return Err(self.lacking(acknowledged)),
            None if !is_as_left => {
                // Opened once more the file looks whole. With this note it is refused then as well.
                self.marker.note(self.sequence + 1);
                return Err(self.damaged("part of it was undone"));
            }
            Some(acknowledged) if acknowledged == self.sequence => {}
            // What is in a file that is void may be gone after a power cut.
            _ if self.is_void() => {}
            // After a power cut there may be none, and a start without the file would make an empty store.
            _ => self.marker.note(self.sequence),
        }
        self.database = Some(database);
        Ok(())
    }

    /// Opens the library on the file that is there. Never makes anything: an empty or missing file is
    /// damage, not a new store.
    pub(super) fn open_file(&mut self) -> Result<Database, StoreError> {
        self.close();
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
            let file = StoreFile::new(file, &store.room, &store.marker)?;
            store.file = Some(Arc::clone(&file));
            if store.is_void() { file.copy() } else { file.library() }
        };
        open(self).map_err(|error| self.open_error(error))
    }

    /// Closes the file.
    pub(super) fn close(&mut self) {
        if let Some(file) = &self.file {
            file.end();
        }
        self.database = None;
        if let Some(file) = self.file.take() {
            self.used_bytes = file.used();
        }
    }

    /// Runs what touches the file. The library may panic on a damaged one; that is an error like
    /// any other here. What the disk did not give is no damage.
    pub(super) fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let done = catch_unwind(AssertUnwindSafe(|| work(self)))
            .unwrap_or_else(|_panic| Err(self.damaged("it cannot be read as it is")));
        match (done, self.file.as_ref().and_then(|file| file.read_error())) {
            (Err(StoreError::Unusable(_)), Some(error)) => {
                Err(StoreError::Unavailable(format!("the store {} cannot be read: {error}", self.name)))
            }
            (done, _) => done,
        }
    }

    pub(super) fn damaged(&self, how: &str) -> StoreError {
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

    pub(super) fn failed(&self, error: impl Into<redb::Error>) -> StoreError {
        let (name, error) = (&self.name, error.into());
        match &error {
            redb::Error::Io(system) if is_full(system) => {
                StoreError::Full(format!("there is no room on the disk for the store {name}: {system}"))
            }
            _ => StoreError::Unavailable(format!("the store {name} fails: {error}")),
        }
    }

    /// The number of the last commit in a file of ours.
    pub(super) fn sequence_of(&self, database: &Database) -> Result<u64, StoreError> {
        let name = &self.name;
        match tables::find(database).map_err(|error| self.failed(error))? {
            Some((SCHEMA, sequence)) => Ok(sequence),
            Some((other, _)) => {
                let (version, remedy) = if other > SCHEMA {
                    ("a newer version", "use that version")
                } else {
                    ("a build before the first release", "export with that build and import into an empty store")
                };
                Err(StoreError::Unusable(format!(
                    "the store {name} was written by {version} (schema {other}, this one reads {SCHEMA}): {remedy}"
                )))
            }
            None => Err(StoreError::Unusable(format!(
                "{name} is no store of vote-status: move it away, or give another --data-dir"
            ))),
        }
    }
}

/// Whether an error is the system's (no permission, no space) and says nothing of the content.
fn is_of_the_system(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}
