//! The simulated disk behind the store's `Disk` trait. Between two operations readers look at the state, as those of the
//! service do while the recorder works.

use super::clocks::Clocks;
use super::disk::{Disk, PAGE};
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use vote_status::store::disk::{Disk as StoreDisk, DiskFile, DiskRoom, FileId, FileLook};

/// When readers look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Behind an operation.
    Operation,
    /// Before a sync.
    Sync,
    /// Between two looks at a file that may be changing.
    Waiting,
    /// Behind a sync.
    Synced,
    /// Within a sync that has taken this many milliseconds so far.
    Stalled(i64),
}

pub(crate) type Look = Box<dyn FnMut(At) + Send>;

/// Readers look once more within a sync that takes longer than this.
const LONG_MS: i64 = 2_200;

/// The pause between two looks at a file that may be changing.
const LOOKS_APART_MS: i64 = 1_000;

/// The machine's disk.
pub(crate) struct SimulatedDisk {
    pub(crate) disk: Mutex<Disk>,
    clocks: Arc<Clocks>,
    look: Mutex<Option<Look>>,
    /// The one name that is a link, and the name of its file.
    link: Mutex<Option<(String, String)>>,
}

impl SimulatedDisk {
    pub(crate) fn new(seed: u64, clocks: Arc<Clocks>) -> Arc<SimulatedDisk> {
        Self::holding(Disk::new(seed), clocks)
    }

    pub(crate) fn holding(disk: Disk, clocks: Arc<Clocks>) -> Arc<SimulatedDisk> {
        Arc::new(SimulatedDisk { disk: Mutex::new(disk), clocks, look: Mutex::new(None), link: Mutex::new(None) })
    }

    pub(crate) fn set_look(&self, look: Option<Look>) {
        *self.look.lock().expect("no look panics") = look;
    }

    /// Renames the file `name` to `to`, and makes `name` a link to it.
    pub(crate) fn make_link(&self, name: &str, to: &str) {
        self.locked().move_away(name, to);
        *self.link.lock().expect("no look panics") = Some((name.to_owned(), to.to_owned()));
    }

    /// Whether the name is a link, and no file has taken its place.
    pub(crate) fn is_link(&self, name: &str) -> bool {
        self.linked(name).is_some() && !self.locked().has(name)
    }

    fn linked(&self, name: &str) -> Option<String> {
        self.link.lock().expect("no look panics").as_ref().filter(|(link, _)| link == name).map(|(_, to)| to.clone())
    }

    /// The name of the file behind a link.
    fn followed(&self, name: &str) -> String {
        self.linked(name).unwrap_or_else(|| name.to_owned())
    }

    pub(crate) fn locked(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.disk.lock().expect("no operation panics")
    }

    fn look(&self, at: At) {
        if let Some(look) = self.look.lock().expect("no look panics").as_mut() {
            look(at);
        }
    }

    fn run<T>(&self, operation: impl FnOnce(&mut Disk) -> Result<T>) -> Result<T> {
        let done = operation(&mut self.locked());
        self.look(At::Operation);
        done
    }

    /// Runs a sync, which may take its time.
    fn sync<T>(&self, operation: impl FnOnce(&mut Disk) -> Result<T>) -> Result<T> {
        self.look(At::Sync);
        let (done, stalled_ms) = {
            let mut disk = self.locked();
            let done = operation(&mut disk);
            (done, disk.take_stalled_ms())
        };
        if stalled_ms > LONG_MS {
            self.clocks.pass(LONG_MS);
            self.look(At::Stalled(LONG_MS));
            self.clocks.pass(stalled_ms - LONG_MS);
            self.look(At::Stalled(stalled_ms));
        } else {
            self.clocks.pass(stalled_ms);
        }
        self.look(At::Operation);
        self.look(At::Synced);
        done
    }
}

/// The folder of the store.
pub(crate) struct Folder(pub(crate) Arc<SimulatedDisk>);

impl Folder {
    fn file(&self, name: &str, makes: bool) -> Result<Arc<dyn DiskFile>> {
        let name = self.0.followed(name);
        let handle = self.0.run(|disk| disk.open(&name, makes))?;
        Ok(Arc::new(OpenFile { disk: Arc::clone(&self.0), handle }))
    }
}

impl StoreDisk for Folder {
    fn make(&self) -> Result<()> {
        Ok(())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn DiskFile>> {
        self.file(name, false)
    }

    fn open_or_make(&self, name: &str) -> Result<Arc<dyn DiskFile>> {
        self.file(name, true)
    }

    fn identity(&self, name: &str) -> Result<FileId> {
        let name = self.0.followed(name);
        self.0.run(|disk| disk.identity(&name)).map(|inode| (1, inode))
    }

    fn is_taken(&self, name: &str) -> Result<bool> {
        let is_there = self.0.run(|disk| disk.is_there(name))?;
        Ok(is_there || self.0.linked(name).is_some())
    }

    fn target(&self, name: &str) -> Option<(Arc<dyn StoreDisk>, String)> {
        self.0.linked(name).map(|to| (Arc::new(Folder(Arc::clone(&self.0))) as Arc<dyn StoreDisk>, to))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.run(|disk| disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.0.run(|disk| disk.unlink(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> Result<()> {
        self.0.sync(Disk::sync_folder)
    }

    fn room(&self) -> Option<DiskRoom> {
        // The disk is small, so that the store keeps little room back: writing the reserve is most of a start's cost here.
        let disk = self.0.locked();
        let free_bytes = if disk.faults.is_full { (disk.spare_pages * PAGE) as u64 } else { 1 << 19 };
        Some(DiskRoom { total_bytes: 1 << 20, free_bytes, file_bytes_max: u64::MAX })
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/simulated").join(name)
    }
}

struct OpenFile {
    disk: Arc<SimulatedDisk>,
    handle: u64,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.disk.locked().close(self.handle);
    }
}

impl DiskFile for OpenFile {
    fn identity(&self) -> Result<FileId> {
        self.disk.run(|disk| disk.identity_of(self.handle)).map(|inode| (1, inode))
    }

    fn look(&self) -> Result<FileLook> {
        let (bytes_len, writes) = self.disk.run(|disk| disk.look(self.handle))?;
        Ok(FileLook { bytes_len, written_ns: i128::from(writes) })
    }

    fn is_changing(&self) -> Result<bool> {
        let before = self.look()?;
        self.disk.look(At::Waiting);
        self.disk.clocks.pass(LOOKS_APART_MS);
        Ok(self.look()? != before)
    }

    fn bytes_len(&self) -> Result<u64> {
        self.disk.run(|disk| disk.length(self.handle))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.disk.run(|disk| disk.set_length(self.handle, bytes))
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        let count = self.disk.run(|disk| disk.read(self.handle, offset, out))?;
        if count < out.len() { Err(Error::from(ErrorKind::UnexpectedEof)) } else { Ok(()) }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.disk.run(|disk| disk.write(self.handle, offset, bytes))
    }

    fn sync_data(&self) -> Result<()> {
        self.disk.sync(|disk| disk.sync(self.handle))
    }

    fn try_lock(&self) -> Result<bool> {
        match self.disk.run(|disk| disk.lock(self.handle)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}
