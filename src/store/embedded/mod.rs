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
//!
//! After a failed sync the kernel takes pages for written that are not, and the file shows what is not on the
//! disk. Nothing in it counts from then on: it is void. The recorder has all of it in memory, and has it written
//! anew, as another file that takes the place of this one. The same file written again would not do: a page of
//! ext4 whose first write has failed may read as zeros after a power cut, whatever is written to it later. Where a process
//! was killed in a sync, or with a file that is void, the file is void for the next start too, which reads it and never
//! writes it. So is a file that 1.0.0 has written.

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
/// Its name while it is written: a process that is cut short leaves no half store behind.
const NEW_FILE: &str = "votes.new";
/// Locked while a process uses the directory.
const LOCK_FILE: &str = "lock";
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

/// Where the store's file is, behind a link it may be.
struct StorePlace {
    disk: Arc<dyn Disk>,
    name: String,
    /// Its name while it is written.
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
    /// How the file is called in messages.
    name: String,
    /// Locked while the store is open.
    lock: Arc<dyn DiskFile>,
    /// What `vote-status export` needs besides, once the directory has gone; empty until that is known.
    export_options: Arc<OnceLock<String>>,
    room: Arc<Room>,
    marker: Arc<CommitMarker>,
    /// Which file it is, once it was opened.
    identity: Option<FileId>,
    /// The file, locked from its opening on: while the store fails, too, no other process may commit to it.
    held: Option<Arc<dyn DiskFile>>,
    /// Names the commits of this process.
    writer: u64,
    /// `None` after a failure: opened again when it is next needed.
    database: Option<Database>,
    /// The file under the library, from its opening on, whether that succeeds or not.
    file: Option<Arc<StoreFile>>,
    /// Bytes of the file that the library used when it was last open.
    used_bytes: u64,
    /// Whether the library sees of the file only what it used, and not yet with success: behind a commit that found no room.
    is_cut: bool,
    sequence: u64,
    /// Whether 1.0.0 wrote the file: it is read as that version would, and written anew.
    is_of_first_release: bool,
    /// What was free on the disk when it was last found full, in bytes.
    free_when_full_bytes: u64,
}

/// Changes.
impl EmbeddedStore {
    /// The database, opened again after a failure. Where it does not end with the last acknowledged commit, it
    /// is void: what had failed was answered as not recorded.
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

    /// Runs what touches the file once all of it is in memory: a file that is damaged is void.
    fn at_work<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let done = self.guarded(work);
        if let Err(StoreError::Unusable(_)) = &done {
            self.marker.void();
        }
        done
    }

    /// One transaction; one that fails before its sync is not in the file. After a failure the file is opened
    /// anew, as the library refuses to go on with a handle that has failed: at once if it can be, and else when
    /// it is next needed.
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
        let is_in_doubt = self.file.as_ref().is_some_and(|file| file.is_in_doubt());
        if is_in_doubt {
            self.marker.void();
        }
        self.close();
        self.open_again(matches!(error, StoreError::Full(_)));
        let void = || format!("{error}, and nothing in the file counts until it is written anew from memory");
        Err(match error {
            _ if is_in_doubt => StoreError::InDoubt(void()),
            // Room is not what it waits for, and fewer rows would find no file either.
            StoreError::Full(_) if self.is_void() => StoreError::Unavailable(void()),
            error => error,
        })
    }

    /// Opens the file again after a failure. Where this fails the next call tries it again, and tells why.
    fn open_again(&mut self, is_full: bool) {
        // Behind the last page in use lie pages that never had room, and the library takes them before the pages that ended
        // votes have left. There may also be more of the others, so a try that fails is followed by one with all.
        self.is_cut = is_full && !self.is_cut;
        let is_open = self.at_work(|store| store.database().map(drop)).is_ok();
        if is_full && is_open {
            // The file was made longer than there is room for: closed in order, it ends behind its
            // last page in use again, and what is free before that is taken first.
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
            // The library goes on with no handle that has failed once.
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
    /// Whether the open file is still the one of its name. Cheap: asked before and after each commit.
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

    /// Whether nothing else has written to the file, as far as its length and its header tell.
    fn check_content(&self) -> Result<(), StoreError> {
        match self.file.as_ref().filter(|_| !self.is_void()).map(|file| file.check()) {
            Some(Err(error)) if self.is_void() => Err(self.void(&error.to_string())),
            // That it could not be read says nothing of it.
            _ => Ok(()),
        }
    }

    /// The store is at its path; what belongs beside it and is not there is made again: without the note a
    /// start after a crash takes the store for damaged, without the lock it takes it for free.
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
        self.check_path()?;
        self.transact(events, None, note)?;
        // The file may have gone or changed while it was written to: nobody is told 201 for what a restart
        // forgets.
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
            // All of it is in memory now, and the file is looked at no more.
            self.database = None;
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
        if is_due? { self.transact(&[], Some((first, rows_max)), note) } else { Ok(0) }
    }

    fn is_void(&self) -> bool {
        self.marker.is_void() || self.is_of_first_release
    }

    fn renew(&mut self, content: &StoreContent<'_>, note: &CommitNote) -> Result<(), StoreError> {
        // A commit that has failed may be in the file that is there.
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
