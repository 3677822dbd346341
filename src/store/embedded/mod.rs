//! Votes and servers in one file of a data directory, by `redb`.
//!
//! Rows of votes are in order of time: replay reads the votes that are still in cooldown, and expiry drops the first
//! rows. A commit is one transaction and one sync of the file.
//!
//! The library undoes a damaged last commit, because a power cut in the middle of a commit looks the same. An
//! acknowledged commit must not vanish in silence. So each commit has a number, and the last acknowledged number is
//! noted beside the file: see [`super::commit_marker`].
//!
//! A file that was deleted, moved, or covered by a mount still takes writes, and is missing after a restart. So the
//! store compares the open file with the file of its name.
//!
//! After a failed sync the kernel takes pages for written that are not, and the file shows data that is not on the
//! disk. Nothing in the file counts from then on: it is void. The recorder has all of it in memory, and writes it anew,
//! to another file that takes the place of this one. The same file would not do: on ext4, a page whose first write has
//! failed may read as zeros after a power cut, whatever is written later. After a kill during a sync, or with a void
//! file, the next start takes the file for void too, reads it and never writes it. A file of 1.0.0 is void as well.

use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock};

use redb::Database;

use crate::store::commit_marker::{CommitMarker, MARKER_FILE, is_at_path};
use crate::store::disk::{Disk, DiskFile, FileId};
use crate::store::room::Room;
use crate::store::store_file::StoreFile;
use crate::store::tables::{self, CommitName, Dropped};
use crate::store::{CommitNote, Event, RoomLeft, Store, StoreContent, StoreError};
use crate::vote::time::UnixSeconds;

mod looking;
mod opening;

pub use looking::has_live_vote;

/// The store's file.
pub const STORE_FILE: &str = "votes.redb";
/// The name of the store's file while it is written: an interrupted process leaves no half store behind.
const NEW_FILE: &str = "votes.new";
/// Locked while a process uses the directory.
const LOCK_FILE: &str = "lock";
/// Room for a commit of a few votes, in bytes. By chance, another writer leaves less.
const MORE_ROOM_BYTES: u64 = 128 << 10;

/// Which store is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The existing store, or an empty one that is made.
    Any,
    /// The existing store. If it is missing, a volume may not be mounted, so none is made.
    Existing,
}

/// Where the store's file is, perhaps behind a link.
struct StorePlace {
    disk: Arc<dyn Disk>,
    name: String,
    /// The file's name while it is written.
    new_name: String,
}

impl StorePlace {
    fn of(disk: &Arc<dyn Disk>) -> Self {
        match disk.target(STORE_FILE) {
            Some((disk, name)) => Self { disk, new_name: format!("{name}.new"), name },
            None => Self { disk: Arc::clone(disk), name: STORE_FILE.to_owned(), new_name: NEW_FILE.to_owned() },
        }
    }
}

/// The store of a data directory.
pub struct EmbeddedStore {
    disk: Arc<dyn Disk>,
    place: StorePlace,
    /// The file's name in messages.
    name: String,
    /// Locked while the store is open.
    lock: Arc<dyn DiskFile>,
    /// The further options that `vote-status export` needs once the directory has gone; empty until they are known.
    export_options: Arc<OnceLock<String>>,
    room: Arc<Room>,
    marker: Arc<CommitMarker>,
    /// The file's identity, once it was opened.
    identity: Option<FileId>,
    /// The file, locked since it was opened: even while the store fails, no other process may commit to it.
    held: Option<Arc<dyn DiskFile>>,
    /// Names the commits of this process.
    writer: u64,
    /// `None` after a failure: opened again when it is next needed.
    database: Option<Database>,
    /// The file under the library, from its opening on, whether that succeeds or not.
    file: Option<Arc<StoreFile>>,
    /// Bytes of the file that the library used when it was last open.
    used_bytes: u64,
    /// Whether the library sees only the part of the file that it used: after a commit that found no room, until one succeeds.
    is_cut: bool,
    sequence: u64,
    /// Whether 1.0.0 wrote the file: it is read as that version would, and written anew.
    is_of_first_release: bool,
    /// Bytes that were free on the disk when it was last found full.
    free_when_full_bytes: u64,
}

/// Changes.
impl EmbeddedStore {
    /// The database, opened again after a failure. If the file does not end with the last acknowledged commit, it is
    /// void: the failed commit was answered as not recorded.
    fn database(&mut self) -> Result<&Database, StoreError> {
        if self.database.is_none() {
            if self.is_void() {
                return Err(self.void("a sync has failed"));
            }
            let (database, repair) = self.open_file()?;
            let (found, _) = self.find(&database)?;
            if found != self.sequence {
                self.marker.void();
                return Err(self.void(&format!("its last commit is {found}, not {}", self.sequence)));
            }
            self.settle(repair)?;
            self.database = Some(database);
        }
        self.database.as_ref().ok_or_else(|| self.void("it is closed"))
    }

    fn void(&self, why: &str) -> StoreError {
        let name = &self.name;
        StoreError::Unavailable(format!("nothing in the store {name} counts any more ({why}): it is written anew"))
    }

    /// Runs `work` on the file once all of it is in memory: a damaged file is then void.
    fn at_work<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let done = self.guarded(work);
        if let Err(StoreError::Unusable(_)) = &done {
            self.marker.void();
        }
        done
    }

    /// Makes one transaction. If it fails before its sync, it is taken back. After a failure the file is opened
    /// again, as the library does not continue with a failed handle: at once if possible, else at the next use.
    fn transact(&mut self, events: &[Event], dropped: Option<Dropped>, note: &CommitNote) -> Result<usize, StoreError> {
        let committed = self.at_work(|store| {
            store.database()?;
            let name = CommitName { sequence: store.sequence + 1, writer: store.writer };
            let (Some(database), Some(file)) = (&store.database, &store.file) else {
                return Err(store.void("it is closed"));
            };
            file.begin(dropped.is_some());
            let rows = tables::write(database, events, name, dropped, note).map_err(|error| store.failed(error))?;
            file.end();
            store.sequence = name.sequence;
            store.is_cut = false;
            store.marker.note(name.sequence);
            Ok(rows)
        });
        let Err(error) = committed else { return committed };
        let file = self.file.clone();
        self.close();
        let is_in_doubt = file.is_some_and(|file| file.take_back());
        if is_in_doubt {
            self.marker.void();
        }
        self.open_again(matches!(error, StoreError::Full(_)));
        let void = || format!("{error}, and nothing in the file counts until it is written anew from memory");
        Err(match error {
            _ if is_in_doubt => StoreError::InDoubt(void()),
            // More room does not help a void file, and fewer rows do not either.
            StoreError::Full(_) if self.is_void() => StoreError::Unavailable(void()),
            error => error,
        })
    }

    /// Opens the file again after a failure. Where this fails the next call tries it again, and tells why.
    fn open_again(&mut self, is_full: bool) {
        // Behind the last page in use lie pages that never had room, and the library takes them before the pages that ended
        // votes have left. There may also be more of the latter, so a failed try is followed by one that sees all pages.
        self.is_cut = is_full && !self.is_cut;
        let is_open = self.at_work(|store| store.database().map(drop)).is_ok();
        if is_full && is_open {
            // The file was made longer than there is room for. Closed in order, it ends behind its last page in use
            // again, and the library takes the free pages before that first.
            self.close();
            let _is_open = self.at_work(|store| store.database().map(drop)).is_ok();
        }
        if is_full {
            self.free_when_full_bytes = self.free_bytes();
        }
    }

    /// Reads from the tables.
    fn read<T>(&mut self, read: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, StoreError> {
        let done = self.guarded(|store| {
            let outcome = read(store.database()?);
            outcome.map_err(|error| store.damaged(&error.to_string()))
        });
        if done.is_err() {
            // The library does not continue with a failed handle.
            self.close();
        }
        done
    }

    fn free_bytes(&self) -> u64 {
        self.room.free_bytes(self.file.as_ref().map_or(self.used_bytes, |file| file.used()))
    }

    fn keep_back(&self) {
        let own = self.file.as_ref().filter(|_| !self.is_void());
        self.room.keep_back(|kept, bytes| own.is_some_and(|own| own.cut_spare(kept, bytes)));
    }
}

/// The path.
impl EmbeddedStore {
    /// Checks that the open file is still the one of its name. Cheap: done before and after each commit.
    fn check_path(&self) -> Result<(), StoreError> {
        let what = match (self.disk.identity(STORE_FILE), self.identity) {
            (_, None) => return Ok(()),
            (Ok(here), Some(open)) if here == open => return Ok(()),
            (Ok(_), Some(_)) => "another file is in its place".to_owned(),
            (Err(error), _) if is_nothing_there(&error) => error.to_string(),
            (Err(error), _) => {
                let name = &self.name;
                let message = format!("nobody can tell whether the store {name} is at its path: {error}");
                return Err(StoreError::Unavailable(message));
            }
        };
        let path = &self.name;
        Err(StoreError::Gone(format!(
            "the store {path} is no longer at its path ({what}): votes and changes are answered 503, status goes on \
             from memory. Put the same file back, by mv or mount, and all goes on; if it is gone, run vote-status \
             export FILE{} while this process runs, start anew, and import FILE",
            self.export_options.get().map_or("", String::as_str)
        )))
    }

    /// Checks that nothing else has written to the file, as far as its length and its header tell.
    fn check_content(&self) -> Result<(), StoreError> {
        match self.file.as_ref().filter(|_| !self.is_void()).map(|file| file.check()) {
            Some(Err(error)) if self.is_void() => Err(self.void(&error.to_string())),
            // A file that could not be read proves nothing.
            _ => Ok(()),
        }
    }

    /// Makes missing files beside the store again, while the store is at its path. Without the marker a start after a
    /// crash takes the store for damaged; without the lock it takes the store for free.
    fn replace_small_files(&mut self) {
        if let Err(error) = self.marker.keep_at_path(&*self.disk) {
            log::debug!("{MARKER_FILE} could not be made again: {error}");
        }
        if !is_at_path(&*self.lock, &*self.disk, LOCK_FILE)
            && let Ok(lock) = self.disk.open_or_make(LOCK_FILE)
            && matches!(lock.try_lock(), Ok(true))
        {
            self.lock = lock;
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for EmbeddedStore {
    fn commit(&mut self, events: &[Event], note: &CommitNote) -> Result<(), StoreError> {
        if self.is_void() {
            return Err(self.void("a sync has failed"));
        }
        // The path, then the content: a write behind the end of a file that was cut would hide the cut.
        self.check_path()?;
        self.check_content()?;
        self.transact(events, None, note)?;
        // The file may have gone or changed during the write: no client is told 201 for a vote that a restart forgets.
        self.check_path().and_then(|()| self.check_content()).map_err(|error| {
            self.marker.void();
            StoreError::InDoubt(error.to_string())
        })
    }

    fn replay(&mut self, first: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        let is_of_first_release = self.is_of_first_release;
        let is_whole = self.read(|database| {
            if is_of_first_release {
                tables::first_release::replay(database, visit)
            } else {
                tables::replay(database, first, visit)
            }
        })?;
        // Something else may have written to the file while it was read.
        self.check_content()?;
        if !self.file.as_ref().is_none_or(|file| matches!(file.is_as_looked_at(), Ok(true))) {
            return Err(self.changing());
        }
        if self.is_void() {
            // All of it is in memory now, and the file is not read any more.
            self.drop_database();
        }
        if is_whole { Ok(()) } else { Err(self.damaged("a row has no meaning")) }
    }

    fn note(&mut self) -> Result<Option<CommitNote>, StoreError> {
        let is_of_first_release = self.is_of_first_release;
        self.read(if is_of_first_release { tables::first_release::note } else { tables::note })
    }

    fn has_vote(&mut self, first: UnixSeconds) -> Result<bool, StoreError> {
        self.read(|database| tables::has_vote(database, first))
    }

    fn drop_before(&mut self, first: UnixSeconds, rows_max: usize, note: &CommitNote) -> Result<usize, StoreError> {
        if self.is_void() {
            return Ok(0);
        }
        let is_due = self.at_work(|store| {
            let is_due = tables::has_vote_before(store.database()?, first);
            is_due.map_err(|error| store.failed(error))
        });
        if is_due.is_err() {
            // See `read`.
            self.close();
        }
        if !is_due? {
            return Ok(0);
        }
        self.check_content()?;
        self.transact(&[], Some((first, rows_max)), note)
    }

    fn is_void(&self) -> bool {
        self.marker.is_void() || self.is_of_first_release
    }

    fn renew(&mut self, content: &StoreContent<'_>, note: &CommitNote) -> Result<(), StoreError> {
        // A failed commit may be in the present file: its number is skipped.
        let sequence = self.sequence + 2;
        let renewed = self.guarded(|store| store.write_anew(content, sequence, Some(note)));
        if let Err(error) = &renewed {
            let _for_room = self.place.disk.remove(&self.place.new_name);
            if matches!(error, StoreError::Full(_)) {
                self.free_when_full_bytes = self.free_bytes();
            }
        }
        renewed
    }

    fn commit_number(&self) -> u64 {
        self.sequence
    }

    fn size_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.bytes_len())
    }

    fn room(&self) -> RoomLeft {
        match self.free_bytes() {
            now_bytes if now_bytes > self.free_when_full_bytes.saturating_add(MORE_ROOM_BYTES) => RoomLeft::More,
            MORE_ROOM_BYTES.. => RoomLeft::Unchanged,
            _ => RoomLeft::Little,
        }
    }

    fn tend(&mut self) -> Result<(), StoreError> {
        self.check_path()?;
        self.keep_back();
        self.replace_small_files();
        self.check_content()
    }
}

fn is_nothing_there(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
