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
    /// Opens the store of a directory, and checks all of it. Makes directory and store where they are not there
    /// and any is wanted. `export_options` are what `vote-status export` needs besides to save what is in memory once
    /// the directory has gone. Each commit bears the number of its `writer`, which no other process may have.
    ///
    /// # Errors
    /// Where another process uses it, or what is there cannot be used or is not what is wanted.
    pub fn open(
        disk: Arc<dyn Disk>,
        wanted: Wanted,
        export_options: Arc<OnceLock<String>>,
        writer: u64,
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

    /// Makes an empty store. It is right only where nothing was ever kept.
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

    /// Writes all of the store under another name before it takes the place of the file that is there. The order,
    /// and why: the bytes last before the name leads to them; the file is locked before anybody can find it; and
    /// the name lasts before anything that is kept there is acknowledged. Until then the store is void, for a start after
    /// a kill too.
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
        // Closed in order while it is empty, it begins short: it grows with what is in it.
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

    /// Opens the file for the first time, and checks all of it. Nothing is written to it before.
    fn open_checked(&mut self, acknowledged: Option<u64>) -> Result<(), StoreError> {
        // What was left by one that was cut short takes room.
        let _for_room = self.place.disk.remove(&self.place.new_name);
        let (mut database, repair) = self.open_file()?;
        // Behind a kill the library has just done the same: a file of many votes takes a second to read.
        let is_as_left =
            repair != Repair::None || database.check_integrity().map_err(|error| self.open_error(error))?;
        (self.sequence, self.is_of_first_release) = self.find(&database)?;
        match acknowledged {
            Some(acknowledged) if acknowledged > self.sequence => return Err(self.lacking(acknowledged)),
            None if !is_as_left => return Err(self.damaged("part of it was undone")),
            _ => {}
        }
        if !is_as_left && acknowledged != Some(self.sequence) {
            self.refuse_changing()?;
        }
        if self.settle(repair)? && acknowledged != Some(self.sequence) {
            // After a power cut there may be none, and a start without the file would make an empty store.
            self.marker.note(self.sequence);
        }
        self.database = Some(database);
        Ok(())
    }

    /// The file is written from now on, unless it is void; whether it is.
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

    /// Half of a file may look like one whose last commit was cut short: nothing is undone while something else writes.
    fn refuse_changing(&self) -> Result<(), StoreError> {
        match self.file.as_ref().map(|file| file.is_changing()) {
            Some(Ok(true)) => Err(self.changing()),
            Some(Err(error)) => Err(self.failed(redb::Error::Io(error))),
            Some(Ok(false)) | None => Ok(()),
        }
    }

    /// What is wrong with a file says nothing while something else writes to it.
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

    /// Opens the library on the file that is there, and writes nothing to it; with what the library had to do. Never makes
    /// anything: an empty or missing file is damage, not a new store.
    pub(super) fn open_file(&mut self) -> Result<(Database, Repair), StoreError> {
        self.close();
        let open = |store: &mut Self| -> Result<_, DatabaseError> {
            let found = store.disk.identity(STORE_FILE)?;
            let file = match &store.held {
                Some(held) => Arc::clone(held),
                None => store.disk.open(STORE_FILE)?,
            };
            if *store.identity.get_or_insert(file.identity()?) != found {
                // With a number, it is told as the system's and not as damage.
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
        // The library may panic where something else has written to the file.
        let database = self.database.take();
        let _closed = catch_unwind(AssertUnwindSafe(|| drop(database)));
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

    /// The number of the last commit in a file of ours, and whether 1.0.0 wrote it.
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
