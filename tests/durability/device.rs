//! A storage device in memory, for a store to work on: it fails when it is told to, at the very operation that a test
//! names, and a power cut loses what was not synced. A sync that fails drops what was written, though reads go on to show
//! it, as Linux does. Knows bytes and syncs; not what they mean. (`tests/simulation/disk.rs` draws its faults at random.)

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use vote_status::store::StoreError;
use vote_status::store::commit_marker::MARKER_FILE;
use vote_status::store::disk::{Disk, DiskFile, DiskRoom, FileId};
use vote_status::store::embedded::{EmbeddedStore, STORE_FILE, Wanted};

/// One thing that was done to a file.
#[derive(Clone, Debug)]
enum Op {
    /// These bytes were written there.
    Write(usize, Vec<u8>),
    /// It was made so long.
    Resize(usize),
}

/// How the next sync or write goes wrong; once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The write after so many others is refused.
    Write(usize),
    /// The sync after a write fails though everything has arrived.
    Sync,
    /// The same, and the process is killed there: it has no time to note it.
    SyncAndKill,
    /// It cannot be made longer.
    Resize,
}

/// A device. Clones are the same device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Which file has which name.
    names: HashMap<String, u64>,
    /// The files' bytes, with names or without.
    files: HashMap<u64, Vec<u8>>,
    /// The bytes that a power cut leaves.
    synced: HashMap<u64, Vec<u8>>,
    /// What was done to each file since its last sync, whether that succeeded or not.
    unsynced: HashMap<u64, Vec<Op>>,
    /// The names that a power cut leaves.
    synced_names: HashMap<String, u64>,
    /// Locked files.
    locked: Vec<u64>,
    /// Changes, syncs among them, that still succeed; then the process is dead.
    life: Option<usize>,
    /// Syncs that still succeed, and the error of the one after.
    syncs_left: Option<(usize, i32)>,
    /// Reads of any file and looks at any name that still succeed; the one after fails, once.
    reads_left: Option<usize>,
    looks_left: Option<usize>,
    failure: Option<Failure>,
    /// Whether something was written since the last sync.
    is_written: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} files", self.files.len())
    }
}

impl Device {
    /// A device whose store's file holds these bytes.
    pub(crate) fn holding(bytes: Vec<u8>) -> Device {
        let device = Device::default();
        device.put(STORE_FILE, bytes);
        device
    }

    /// A device with an empty store.
    pub(crate) fn formatted() -> Device {
        let device = Device::default();
        drop(device.store(None).expect("an empty device can be formatted"));
        device
    }

    /// The process is killed after so many more changes.
    pub(crate) fn kill_after(&self, changes: usize) {
        self.state().life = Some(changes);
    }

    /// Whether the process was killed.
    pub(crate) fn is_killed(&self) -> bool {
        self.state().life == Some(0)
    }

    /// After so many more syncs of any file one fails so.
    pub(crate) fn fail_sync_after(&self, syncs: usize, error: i32) {
        self.state().syncs_left = Some((syncs, error));
    }

    /// After so many more reads of any file one fails.
    pub(crate) fn fail_read_after(&self, reads: usize) {
        self.state().reads_left = Some(reads);
    }

    /// After so many more looks at any name, as to what file it has, one fails.
    pub(crate) fn fail_look_after(&self, looks: usize) {
        self.state().looks_left = Some(looks);
    }

    /// Drops a failure of a read or a look; whether it was still to come.
    pub(crate) fn read_again(&self) -> bool {
        let mut state = self.state();
        let left = [state.reads_left.take(), state.looks_left.take()];
        left.iter().any(Option::is_some)
    }

    /// The device as another process finds it.
    pub(crate) fn left(&self) -> Device {
        let state = self.state();
        let (names, files) = (state.names.clone(), state.files.clone());
        let (synced, unsynced) = (state.synced.clone(), state.unsynced.clone());
        let synced_names = state.synced_names.clone();
        Device(Arc::new(Mutex::new(State { names, files, synced, unsynced, synced_names, ..State::default() })))
    }

    /// The device after a power cut that loses all that was not synced; the names of files too, or not.
    pub(crate) fn cut(&self, keeps_names: bool) -> Device {
        let state = self.state();
        let names = if keeps_names { state.names.clone() } else { state.synced_names.clone() };
        let files: HashMap<_, _> =
            state.files.keys().map(|id| (*id, state.synced.get(id).cloned().unwrap_or_default())).collect();
        let (synced, synced_names) = (files.clone(), names.clone());
        Device(Arc::new(Mutex::new(State { names, files, synced, synced_names, ..State::default() })))
    }

    /// Opens the store on what is there.
    pub(crate) fn open(&self) -> Result<EmbeddedStore, StoreError> {
        EmbeddedStore::open(Arc::new(self.clone()), Wanted::Any, Arc::default())
    }

    /// Plans a failure.
    pub(crate) fn fail(&self, failure: Failure) {
        self.state().failure = Some(failure);
    }

    /// Drops a planned failure; whether it was still to come.
    pub(crate) fn repair(&self) -> bool {
        self.state().failure.take().is_some()
    }

    /// A copy of what the store's file holds.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().file(STORE_FILE).cloned().expect("it is there")
    }

    /// A copy of the note of the last commit.
    pub(crate) fn note(&self) -> Vec<u8> {
        self.state().file(MARKER_FILE).cloned().expect("it is there")
    }

    /// Opens the store on it, with this note beside it.
    pub(crate) fn store(&self, note: Option<Vec<u8>>) -> Result<EmbeddedStore, StoreError> {
        self.put(MARKER_FILE, note.unwrap_or_default());
        self.open()
    }

    fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let id = state.make(name);
        state.synced_names.insert(name.to_owned(), id);
        state.synced.insert(id, bytes.clone());
        state.files.insert(id, bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no user of the device panics while it works")
    }
}

impl State {
    /// A change is under way, unless the process is dead.
    fn change(&mut self) -> io::Result<()> {
        match &mut self.life {
            Some(0) => return Err(io::Error::from_raw_os_error(EIO)),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    /// A change of a file, from which a sync makes bytes that last.
    fn note(&mut self, id: u64, op: Op) {
        self.unsynced.entry(id).or_default().push(op);
    }

    fn sync(&mut self, id: u64) -> io::Result<()> {
        let pending = self.unsynced.remove(&id).unwrap_or_default();
        match &mut self.syncs_left {
            Some((0, error)) => {
                let error = io::Error::from_raw_os_error(*error);
                self.syncs_left = None;
                return Err(error);
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        let synced = self.synced.entry(id).or_default();
        pending.iter().for_each(|op| apply(synced, op));
        Ok(())
    }

    /// Whether the planned failure strikes this one, of those of which so many still succeed.
    fn strikes(left: &mut Option<usize>) -> io::Result<()> {
        match left {
            Some(0) => {
                *left = None;
                return Err(io::Error::from_raw_os_error(EIO));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Option<&Vec<u8>> {
        self.names.get(name).and_then(|id| self.files.get(id))
    }

    /// The file of this name, made where there is none.
    fn make(&mut self, name: &str) -> u64 {
        let new = self.files.len() as u64;
        let id = *self.names.entry(name.to_owned()).or_insert(new);
        self.files.entry(id).or_default();
        id
    }

    fn bytes(&mut self, id: u64) -> &mut Vec<u8> {
        self.files.get_mut(&id).expect("it is open")
    }

    /// Whether the planned failure strikes this write.
    fn write_fails(&mut self) -> bool {
        match &mut self.failure {
            Some(Failure::Write(0)) => self.failure.take().is_some(),
            Some(Failure::Write(left)) => {
                *left -= 1;
                false
            }
            _ => false,
        }
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("a device fits into memory")
}

impl Disk for Device {
    fn make(&self) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.identity(name)?;
        self.open_or_make(name)
    }

    fn open_or_make(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let id = self.state().make(name);
        Ok(Arc::new(Opened { device: self.clone(), id, is_locked: Mutex::new(false) }))
    }

    fn identity(&self, name: &str) -> io::Result<FileId> {
        let mut state = self.state();
        State::strikes(&mut state.looks_left)?;
        let id = state.names.get(name).copied();
        id.map(|id| (0, id)).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn is_taken(&self, name: &str) -> io::Result<bool> {
        Ok(self.state().names.contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        let id = state.names.remove(from).ok_or(ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        state.names.remove(name);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        state.synced_names = state.names.clone();
        Ok(())
    }

    fn room(&self) -> Option<DiskRoom> {
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("the device").join(name)
    }
}

/// A file of the device, open.
struct Opened {
    device: Device,
    id: u64,
    is_locked: Mutex<bool>,
}

impl Opened {
    /// Whether it is the one that fails.
    fn is_store(&self, state: &State) -> bool {
        state.names.get(STORE_FILE) == Some(&self.id)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if *self.is_locked.lock().expect("no user panics") {
            self.device.state().locked.retain(|locked| *locked != self.id);
        }
    }
}

impl DiskFile for Opened {
    fn identity(&self) -> io::Result<FileId> {
        Ok((0, self.id))
    }

    fn bytes_len(&self) -> io::Result<u64> {
        Ok(self.device.state().files[&self.id].len() as u64)
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.device.state();
        State::strikes(&mut state.reads_left)?;
        let from = place(offset);
        let held = state.files[&self.id].get(from..from + out.len());
        out.copy_from_slice(held.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.device.state();
        state.change()?;
        if self.is_store(&state) && state.failure == Some(Failure::Resize) {
            state.failure = None;
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        state.note(self.id, Op::Resize(place(len)));
        state.bytes(self.id).resize(place(len), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.device.state();
        state.change()?;
        if self.is_store(&state) {
            let is_written = std::mem::take(&mut state.is_written);
            if is_written && let Some(failure @ (Failure::Sync | Failure::SyncAndKill)) = state.failure {
                state.failure = None;
                if failure == Failure::SyncAndKill {
                    state.life = Some(0);
                }
                state.unsynced.remove(&self.id);
                return Err(io::Error::from_raw_os_error(EIO));
            }
        }
        state.sync(self.id)
    }

    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.device.state();
        let from = place(offset);
        state.change()?;
        if self.is_store(&state) {
            if state.write_fails() {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
            state.is_written = true;
        }
        state.note(self.id, Op::Write(from, data.to_vec()));
        let bytes = state.bytes(self.id);
        let end = bytes.len().max(from + data.len());
        bytes.resize(end, 0);
        bytes[from..from + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.device.state();
        let is_free = !state.locked.contains(&self.id);
        if is_free {
            state.locked.push(self.id);
            *self.is_locked.lock().expect("no user panics") = true;
        }
        Ok(is_free)
    }
}

/// "Input/output error" and "No space left on device", as Linux numbers them.
pub(crate) const EIO: i32 = 5;
/// See [`EIO`].
pub(crate) const ENOSPC: i32 = 28;

/// Does to bytes what was done to a file.
fn apply(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write(from, data) => {
            let end = bytes.len().max(from + data.len());
            bytes.resize(end, 0);
            bytes[*from..from + data.len()].copy_from_slice(data);
        }
        Op::Resize(length) => bytes.resize(*length, 0),
    }
}
