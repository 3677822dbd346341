//! A storage device in memory, for a store to work on: it keeps a log of what was written between
//! syncs, from which a power cut at any moment can be played, and fails when it is told to. Knows
//! bytes and syncs; not what they mean.

use crate::util::random::Random;
use redb::{Builder, Database, DatabaseError, StorageBackend};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};
use vote_status::store::StoreError;
use vote_status::store::commit_marker::CommitMarker;
use vote_status::store::embedded::{EmbeddedStore, Opener};
use vote_status::store::stage::{CommitStage, Watched};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;
/// The cache of a test's store; small, so that the device is read.
const CACHE_BYTES: usize = 1 << 20;

/// One thing that was done to a device.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// These bytes were written there.
    Write(usize, Vec<u8>),
    /// It was made so long.
    Resize(usize),
    /// What was done before lasts from here on.
    Sync,
    /// The test's own sign: so many steps had been acknowledged.
    Acknowledged(usize),
}

/// How the next sync or write goes wrong; once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The write after so many others is refused.
    Write(usize),
    /// The sync after a write fails though everything has arrived.
    Sync,
    /// It cannot be made longer.
    Resize,
}

/// A device. Clones are the same device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// `None` while nothing is logged.
    log: Option<Vec<Op>>,
    failure: Option<Failure>,
    /// Whether something was written since the last sync.
    is_written: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes", self.bytes.len())
    }
}

impl Device {
    /// A device that holds these bytes.
    pub(crate) fn holding(bytes: Vec<u8>) -> Device {
        Device(Arc::new(Mutex::new(State { bytes, ..State::default() })))
    }

    /// A device with an empty store's file, as a new data directory has it.
    pub(crate) fn formatted() -> Device {
        let device = Device::default();
        drop((device.opener())(&Arc::default()).expect("an empty device can be formatted"));
        device
    }

    /// Starts to log.
    pub(crate) fn start_log(&self) {
        self.state().log = Some(Vec::new());
    }

    /// Ends the log and gives it out.
    pub(crate) fn take_log(&self) -> Vec<Op> {
        self.state().log.take().expect("it logs")
    }

    /// Writes a sign into the log.
    pub(crate) fn acknowledged(&self, steps: usize) {
        self.state().push(Op::Acknowledged(steps));
    }

    /// Plans a failure.
    pub(crate) fn fail(&self, failure: Failure) {
        self.state().failure = Some(failure);
    }

    /// Drops a planned failure; whether it was still to come.
    pub(crate) fn repair(&self) -> bool {
        self.state().failure.take().is_some()
    }

    /// A copy of what it holds.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Opens a database on it, as often as needed.
    pub(crate) fn opener(&self) -> Opener {
        let device = self.clone();
        Box::new(move |stage: &Arc<CommitStage>| -> Result<Database, DatabaseError> {
            Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(Watched::new(device.clone(), stage))
        })
    }

    /// Opens the store on it.
    pub(crate) fn store(&self, marker: CommitMarker) -> Result<EmbeddedStore, StoreError> {
        EmbeddedStore::new(self.opener(), "the device".to_owned(), marker)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no user of the device panics while it works")
    }
}

impl State {
    fn push(&mut self, op: Op) {
        if let Some(log) = &mut self.log {
            log.push(op);
        }
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

impl StorageBackend for Device {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let state = self.state();
        let from = place(offset);
        let held = state.bytes.get(from..from + out.len());
        out.copy_from_slice(held.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let mut state = self.state();
        if state.failure == Some(Failure::Resize) {
            state.failure = None;
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        state.bytes.resize(place(len), 0);
        state.push(Op::Resize(place(len)));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut state = self.state();
        if std::mem::take(&mut state.is_written) && state.failure == Some(Failure::Sync) {
            state.failure = None;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        state.push(Op::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut state = self.state();
        if state.write_fails() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        state.is_written = true;
        let from = place(offset);
        state.bytes[from..from + data.len()].copy_from_slice(data);
        state.push(Op::Write(from, data.to_vec()));
        Ok(())
    }
}

/// "Input/output error" and "No space left on device", as Linux numbers them.
const EIO: i32 = 5;
/// See [`EIO`].
const ENOSPC: i32 = 28;

/// What lies on the platter: `synced` for sure, `pending` perhaps.
#[derive(Debug)]
pub(crate) struct Platter {
    synced: Vec<u8>,
    pending: Vec<Op>,
}

impl Platter {
    /// A platter that holds these bytes for sure.
    pub(crate) fn new(synced: Vec<u8>) -> Platter {
        Platter { synced, pending: Vec::new() }
    }

    /// Takes what was done next; a sync makes all of it last.
    pub(crate) fn take(&mut self, op: &Op) {
        match op {
            Op::Sync => {
                let pending = std::mem::take(&mut self.pending);
                pending.iter().for_each(|op| apply(&mut self.synced, op));
            }
            Op::Write(..) | Op::Resize(_) => self.pending.push(op.clone()),
            Op::Acknowledged(_) => {}
        }
    }

    /// The power is cut, and nothing that was not synced is there.
    pub(crate) fn cut_losing_all(&self) -> Vec<u8> {
        self.synced.clone()
    }

    /// The power is cut, and of what was not synced any sectors may be there, in any mixture.
    pub(crate) fn cut_tearing(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        // From nearly nothing to nearly everything: both ends matter, as does the middle.
        let kept_of_16 = random.below(17);
        for op in &self.pending {
            match op {
                Op::Write(from, data) => {
                    let mut done = 0;
                    while done < data.len() {
                        let at = from + done;
                        let sector = &data[done..data.len().min(done + SECTOR_BYTES - at % SECTOR_BYTES)];
                        if random.below(16) < kept_of_16 && at + sector.len() <= bytes.len() {
                            bytes[at..at + sector.len()].copy_from_slice(sector);
                        }
                        done += sector.len();
                    }
                }
                Op::Resize(_) if random.below(16) < kept_of_16 => apply(&mut bytes, op),
                _ => {}
            }
        }
        bytes
    }
}

fn apply(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write(from, data) => bytes[*from..from + data.len()].copy_from_slice(data),
        Op::Resize(length) => bytes.resize(*length, 0),
        Op::Sync | Op::Acknowledged(_) => {}
    }
}
