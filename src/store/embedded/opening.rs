//! How a store is opened, made, and written anew.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use redb::{Database, DatabaseError};

use super::{EmbeddedStore, LOCK_FILE, STORE_FILE, StorePlace, Wanted};
use crate::store::commit_marker::{CommitMarker, MARKER_FILE};
use crate::store::disk::{Disk, is_full};
use crate::store::room::Room;
use crate::store::store_file::{Repair, StoreFile};
use crate::store::tables::{self, CommitName, SCHEMA, SCHEMA_OF_FIRST_RELEASE};
use crate::store::{CommitNote, Store, StoreContent, StoreError};
use crate::vote::directory::Snapshot;

impl EmbeddedStore {
    /// Opens the store of a directory, and checks all of it. Makes a missing directory and store with [`Wanted::Any`].
    /// `export_options` are the further options of `vote-status export`, which saves the state in memory once the
    /// directory has gone. Each commit bears the number of its `writer`, which no other process may have.
    ///
    /// # Errors
    /// Where another process uses the store, or it cannot be used, or it is missing and must exist.
    pub fn open(
        disk: Arc<dyn Disk>,
        wanted: Wanted,
        export_options: Arc<OnceLock<String>>,
        writer: u64,
    ) -> Result<Self, StoreError> {
        let name = disk.path(STORE_FILE).display().to_string();
        // Before anything is made: the directory may be the mount point of a volume that is not mounted.
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
            place: StorePlace::of(&disk),
            disk,
            name,
            lock,
            export_options,
            marker,
            identity: None,
            held: None,
            writer,
            database: None,
            file: None,
            used_bytes: 0,
            is_cut: false,
            sequence: 0,
            is_of_first_release: false,
            free_when_full_bytes: 0,
        };
        if store.disk.is_taken(STORE_FILE).map_err(|error| fail("look for the store", error))? {
            let opened = store.guarded(|store| store.open_checked(acknowledged));
            opened.map_err(|error| store.unless_it_changes(error))?;
        } else {
            store.guarded(|store| store.make(acknowledged))?;
        }
        store.keep_back();
        Ok(store)
    }

    /// Makes an empty store, which is right only where no commit was ever acknowledged.
    fn make(&mut self, acknowledged: Option<u64>) -> Result<(), StoreError> {
        match acknowledged {
            Some(acknowledged) if acknowledged > 0 => Err(StoreError::Unusable(format!(
                "the store {} is gone, and {} says that {acknowledged} commits were acknowledged: put it back, or remove that file too to start empty, which forgets every cooldown",
                self.name,
                self.disk.path(MARKER_FILE).display(),
            ))),
            _ => {
                let nothing = StoreContent { servers: &Snapshot::default(), votes: &|_| (), slice_rows: 1 };
                self.write_anew(&nothing, 0, None)
            }
        }
    }

    /// Writes the whole store under another name, and then renames it over the present file. The order has reasons. The bytes
    /// are durable before the name leads to them. The file is locked before another process can find it. The name is durable
    /// before any commit to the file is acknowledged. Until then the store is void, also for a start after a kill.
    pub(super) fn write_anew(
        &mut self,
        content: &StoreContent<'_>,
        sequence: u64,
        note: Option<&CommitNote>,
    ) -> Result<(), StoreError> {
        self.refuse_foreign()?;
        self.marker.void();
        let name = CommitName { sequence, writer: self.writer };
        let system = |store: &Self, error: io::Error| store.failed(redb::Error::Io(error));
        let StorePlace { disk, new_name, .. } = &self.place;
        let make = || disk.remove(new_name).and_then(|()| disk.open_or_make(new_name));
        let new = make().map_err(|error| system(self, error))?;
        let identity = new.identity().map_err(|error| system(self, error))?;
        let file = StoreFile::new(Arc::clone(&new), &self.room, &self.marker).map_err(|error| self.failed(error))?;
        // Closed in order while it is empty, the file begins short and grows with its content.
        drop(file.library().map_err(|error| self.failed(error))?);
        let database = file.library().map_err(|error| self.failed(error))?;
        tables::make(&database, content, name, note).map_err(|error| self.failed(error))?;
        self.check_path()?;
        let StorePlace { disk, name, new_name } = &self.place;
        disk.rename(new_name, name).map_err(|error| system(self, error))?;
        self.close();
        (self.database, self.file) = (Some(database), Some(file));
        (self.identity, self.held) = (Some(identity), Some(new));
        (self.sequence, self.is_of_first_release) = (sequence, false);
        self.place.disk.sync().map_err(|error| system(self, error))?;
        self.marker.renew(sequence);
        Ok(())
    }

    /// Opens the file for the first time, and checks all of it before anything is written to it.
    fn open_checked(&mut self, acknowledged: Option<u64>) -> Result<(), StoreError> {
        // A file left by an interrupted rewrite takes room.
        let _for_room = self.place.disk.remove(&self.place.new_name);
        let (mut database, repair) = self.open_file()?;
        // After a kill the library has just done the same check, which takes a second for many votes.
        let is_as_left =
            repair != Repair::None || database.check_integrity().map_err(|error| self.open_error(error))?;
        (self.sequence, self.is_of_first_release) = self.find(&database)?;
        match acknowledged {
            Some(acknowledged) if acknowledged > self.sequence => return Err(self.lacking(acknowledged)),
            None if !is_as_left => return Err(self.damaged("part of it was undone")),
            _ => {}
        }
        if !is_as_left {
            self.refuse_changing()?;
        }
        if self.settle(repair)? && acknowledged != Some(self.sequence) {
            // After a power cut the number may be missing, and a later start without the store's file would make an
            // empty store.
            self.marker.note(self.sequence);
        }
        self.database = Some(database);
        Ok(())
    }

    /// Lets the library write to the file from now on, unless the file is void; gives whether it may.
    pub(super) fn settle(&mut self, repair: Repair) -> Result<bool, StoreError> {
        let Some(file) = self.file.clone() else { return Ok(false) };
        if repair == Repair::Undone {
            self.refuse_changing()?;
        }
        if self.is_void() {
            return Ok(false);
        }
        match file.is_as_looked_at() {
            Ok(true) => {}
            Ok(false) => return Err(self.changing()),
            Err(error) => return Err(self.failed(redb::Error::Io(error))),
        }
        file.settle().map_err(|error| self.failed(redb::Error::Io(error)))?;
        Ok(true)
    }

    /// Fails while something else writes to the file: half of a file may look like one whose last commit was cut short.
    fn refuse_changing(&self) -> Result<(), StoreError> {
        match self.file.as_ref().map(|file| file.is_changing()) {
            Some(Ok(true)) => Err(self.changing()),
            Some(Err(error)) => Err(self.failed(redb::Error::Io(error))),
            Some(Ok(false)) | None => Ok(()),
        }
    }

    /// Replaces an error of damage while something else writes to the file, as it proves nothing then.
    fn unless_it_changes(&self, error: StoreError) -> StoreError {
        let is_changing = || self.file.as_ref().is_some_and(|file| matches!(file.is_changing(), Ok(true)));
        if matches!(error, StoreError::Unusable(_)) && is_changing() { self.changing() } else { error }
    }

    pub(super) fn changing(&self) -> StoreError {
        StoreError::Unavailable(format!(
            "something else is writing to the store {}: it is opened once it has stopped changing",
            self.name
        ))
    }

    /// Opens the library on the existing file, and writes nothing to the file; gives the library's repair too. Never
    /// makes a file: an empty or missing one is damage, not a new store.
    pub(super) fn open_file(&mut self) -> Result<(Database, Repair), StoreError> {
        self.close();
        let open = |store: &mut Self| -> Result<_, DatabaseError> {
            let found = store.disk.identity(STORE_FILE)?;
            let file = match &store.held {
                Some(held) => Arc::clone(held),
                None => store.disk.open(STORE_FILE)?,
            };
            if *store.identity.get_or_insert(file.identity()?) != found {
                // An error with a number is reported as the system's, not as damage.
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::STALE.raw_os_error()).into());
            }
            let opened = StoreFile::new(Arc::clone(&file), &store.room, &store.marker)?;
            store.file = Some(Arc::clone(&opened));
            if file.bytes_len()? == 0 {
                return Err(io::Error::new(ErrorKind::InvalidData, "it is empty").into());
            }
            store.held = Some(file);
            opened.look_at(if store.is_cut { store.used_bytes } else { u64::MAX })
        };
        open(self).map_err(|error| self.open_error(error))
    }

    /// Closes the file.
    pub(super) fn close(&mut self) {
        if let Some(file) = &self.file {
            file.end();
        }
        self.drop_database();
        if let Some(file) = self.file.take() {
            self.used_bytes = file.used();
        }
    }

    /// Closes the library. It may panic where something else has written to the file, or where a sync has failed.
    pub(super) fn drop_database(&mut self) {
        let database = self.database.take();
        let _closed = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }

    /// Runs `work` on the file. The library may panic on a damaged file; here a panic is an error like any other. A
    /// read error of the disk is no damage.
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

    /// The number of the last commit in a store of ours, and whether 1.0.0 wrote the store.
    pub(super) fn find(&self, database: &Database) -> Result<(u64, bool), StoreError> {
        let name = &self.name;
        match tables::find(database).map_err(|error| self.failed(error))? {
            Some((SCHEMA, last)) => Ok((last.sequence, false)),
            Some((SCHEMA_OF_FIRST_RELEASE, last)) => Ok((last.sequence, true)),
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
