//! A disk in memory with the faults of real ones. Writes are cached until a sync. A failed sync drops cached pages, which
//! look clean afterwards. A power cut loses or tears unsynced pages. Names have a durability of their own. Every fault
//! follows from one seed. `durable` has the bytes on the disk, and `seen` those that a process sees: so a fault can be told
//! from a mistake of this file.

use super::machine::{ELSEWHERE, RESERVE, STORE};
use crate::util::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Error, Result};

mod faults;
mod hands;
mod inode;

pub(crate) use faults::{Faults, Kill, Strike};

/// The kernel caches pages; a disk writes sectors.
pub(crate) const PAGE: usize = 4_096;
const SECTOR: usize = 512;

const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOENT: i32 = 2;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

/// A file, whatever its name.
#[derive(Clone, Debug, Default)]
struct Inode {
    /// The bytes that processes read.
    seen: Vec<u8>,
    /// The bytes on the disk.
    durable: Vec<u8>,
    /// Pages of `seen` that differ from `durable` and wait to be written.
    dirty: BTreeSet<usize>,
    /// Pages that differ from `durable` and look clean, because a sync of them failed.
    lost: BTreeSet<usize>,
    /// Pages that have room in the file system, from their first write on.
    reserved: BTreeSet<usize>,
    /// Pages that have room on the disk below it.
    allocated: BTreeSet<usize>,
    /// Changes of the content or the length.
    writes: u64,
    /// The open handle that has the lock.
    locked_by: Option<u64>,
    /// The shortest length since the last sync; None where the length did not change. Bytes behind it read as zeros.
    shortest: Option<usize>,
    /// A sync of the file has failed, so its content on the disk is unknown.
    is_doubtful: bool,
}

/// The disk, with one folder.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    /// The names before each change that no sync of the folder has made durable, in order.
    names_before: Vec<BTreeMap<String, u64>>,
    /// Open handles, each with its inode.
    handles: BTreeMap<u64, u64>,
    next: u64,
    pub(crate) random: Random,
    pub(crate) faults: Faults,
    /// The process was killed: each operation fails from now on.
    is_dead: bool,
    /// Pages that files have given up since the disk became full.
    pub(crate) spare_pages: usize,
    /// How long syncs have taken since `take_stalled_ms`.
    stalled_ms: i64,
    /// Faults to come, each with the number of operations between it and the one before.
    pub(crate) strikes: VecDeque<(u32, Strike)>,
    /// Changes of files and names, and syncs of files that succeeded. Syncs of the reserve count neither here nor below.
    pub(crate) writes: u64,
    pub(crate) syncs: u64,
    /// Syncs of files that failed.
    pub(crate) failed_syncs: u64,
    /// The last sync of a file succeeded while the store was not at its path.
    pub(crate) is_synced_away: bool,
    /// The last sync of a file failed.
    pub(crate) has_sync_failed: bool,
    /// The operator has deleted the note that keeps the mark of a failed sync. Without the mark no process knows that nothing
    /// in the store's file counts, and a full disk has no room for a new note.
    is_note_deleted: bool,
    /// Writes of a file's header: the store that a process sees may change with it.
    pub(crate) head_writes: u64,
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Disk {
        Disk {
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            names_before: Vec::new(),
            handles: BTreeMap::new(),
            next: 1,
            random: Random::seeded(seed),
            faults: Faults::default(),
            is_dead: false,
            stalled_ms: 0,
            strikes: VecDeque::new(),
            writes: 0,
            syncs: 0,
            failed_syncs: 0,
            is_synced_away: false,
            has_sync_failed: false,
            is_note_deleted: false,
            spare_pages: 0,
            head_writes: 0,
        }
    }

    /// A number that no inode or handle has had so far.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    /// Begins every operation: faults that are due strike.
    fn operation(&mut self) -> Result<()> {
        while let Some((left, strike)) = self.strikes.front_mut() {
            if *left > 0 {
                *left -= 1;
                break;
            }
            let strike = *strike;
            self.strikes.pop_front();
            self.faults.strike(strike);
            if strike == Strike::MovedAway {
                self.move_away(STORE, ELSEWHERE);
            }
        }
        match &mut self.faults.kill {
            Some(Kill::AtOperation(0)) => self.is_dead = true,
            Some(Kill::AtOperation(left)) => *left -= 1,
            Some(Kill::AtSync { .. }) | None => {}
        }
        if self.is_dead { Err(Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn change(&mut self) -> Result<()> {
        self.operation()?;
        if self.faults.is_read_only {
            return Err(Error::from_raw_os_error(EROFS));
        }
        if self.faults.changes_fail > 0 {
            self.faults.changes_fail -= 1;
            return Err(Error::from_raw_os_error(self.faults.errno));
        }
        self.writes += 1;
        Ok(())
    }

    /// Whether the process was killed at its work.
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The changes and syncs so far, and a digest of the files' content.
    pub(crate) fn fingerprint(&self) -> (u64, u64, u64) {
        let mut digest = DefaultHasher::new();
        for (name, inode) in &self.names {
            (name, &self.inodes[inode].seen).hash(&mut digest);
        }
        (self.writes, self.syncs, digest.finish())
    }

    /// How long syncs have taken since the last call, in milliseconds.
    pub(crate) fn take_stalled_ms(&mut self) -> i64 {
        std::mem::take(&mut self.stalled_ms)
    }

    // Names.

    pub(crate) fn is_there(&mut self, name: &str) -> Result<bool> {
        self.operation()?;
        Ok(self.names.contains_key(name))
    }

    /// The inode of the file with this name.
    pub(crate) fn identity(&mut self, name: &str) -> Result<u64> {
        self.operation()?;
        if self.faults.looks_fail > 0 {
            self.faults.looks_fail -= 1;
            return Err(Error::from_raw_os_error(EIO));
        }
        self.names.get(name).copied().ok_or_else(|| Error::from_raw_os_error(ENOENT))
    }

    fn rename_in_memory(&mut self, change: impl FnOnce(&mut BTreeMap<String, u64>)) {
        self.names_before.push(self.names.clone());
        change(&mut self.names);
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.change()?;
        let inode = self.names.get(from).copied().ok_or_else(|| Error::from_raw_os_error(ENOENT))?;
        self.rename_in_memory(|names| {
            names.remove(from);
            names.insert(to.to_owned(), inode);
        });
        Ok(())
    }

    pub(crate) fn unlink(&mut self, name: &str) -> Result<()> {
        self.change()?;
        if !self.names.contains_key(name) {
            return Err(Error::from_raw_os_error(ENOENT));
        }
        self.rename_in_memory(|names| names.retain(|other, _| other != name));
        Ok(())
    }

    /// Begins a sync, which changes nothing that a process sees.
    fn begin_sync(&mut self) -> Result<()> {
        self.operation()?;
        if self.faults.is_read_only { Err(Error::from_raw_os_error(EROFS)) } else { Ok(()) }
    }

    pub(crate) fn sync_folder(&mut self) -> Result<()> {
        self.begin_sync()?;
        self.stalled_ms += self.faults.sync_takes_ms;
        if self.sync_fails() {
            return Err(Error::from_raw_os_error(EIO));
        }
        self.names_before.clear();
        Ok(())
    }

    // Files.

    /// Opens a file, or makes it.
    pub(crate) fn open(&mut self, name: &str, makes: bool) -> Result<u64> {
        self.operation()?;
        let inode = match self.names.get(name) {
            Some(inode) => *inode,
            None if makes => {
                if self.faults.is_read_only {
                    return Err(Error::from_raw_os_error(EROFS));
                }
                let inode = self.fresh();
                self.inodes.insert(inode, Inode::default());
                self.rename_in_memory(|names| names.extend([(name.to_owned(), inode)]));
                inode
            }
            None => return Err(Error::from_raw_os_error(ENOENT)),
        };
        let handle = self.fresh();
        self.handles.insert(handle, inode);
        Ok(handle)
    }

    fn inode(&mut self, handle: u64) -> &mut Inode {
        let inode = self.handles[&handle];
        self.inodes.get_mut(&inode).expect("an open file has its inode")
    }

    /// The inode of a handle.
    pub(crate) fn identity_of(&mut self, handle: u64) -> Result<u64> {
        self.operation()?;
        Ok(self.handles[&handle])
    }

    pub(crate) fn close(&mut self, handle: u64) {
        if let Some(inode) = self.handles.remove(&handle)
            && let Some(inode) = self.inodes.get_mut(&inode)
            && inode.locked_by == Some(handle)
        {
            inode.locked_by = None;
        }
    }

    pub(crate) fn lock(&mut self, handle: u64) -> Result<()> {
        self.operation()?;
        let inode = self.inode(handle);
        if inode.locked_by.is_some_and(|by| by != handle) {
            return Err(Error::from_raw_os_error(EAGAIN));
        }
        inode.locked_by = Some(handle);
        Ok(())
    }

    pub(crate) fn length(&mut self, handle: u64) -> Result<u64> {
        self.operation()?;
        Ok(self.inode(handle).seen.len() as u64)
    }

    /// The file's length, and the number of its changes.
    pub(crate) fn look(&mut self, handle: u64) -> Result<(u64, u64)> {
        self.operation()?;
        let inode = self.inode(handle);
        Ok((inode.seen.len() as u64, inode.writes))
    }

    pub(crate) fn read(&mut self, handle: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.operation()?;
        if self.faults.reads_fail > 0 {
            self.faults.reads_fail -= 1;
            return Err(Error::from_raw_os_error(EIO));
        }
        let from = usize::try_from(offset).expect("a small file");
        let seen = &self.inode(handle).seen;
        let from = from.min(seen.len());
        let count = out.len().min(seen.len() - from);
        out[..count].copy_from_slice(&seen[from..from + count]);
        Ok(count)
    }

    pub(crate) fn write(&mut self, handle: u64, offset: u64, data: &[u8]) -> Result<()> {
        let was_alive = !self.is_dead;
        let tried = self.change();
        if tried.is_err() && was_alive && self.is_dead && !self.faults.is_full {
            // The process is killed within this write: some of the pages are written.
            let whole = data.len() / PAGE;
            let torn = PAGE * self.random.below(whole + 1);
            self.write_at(handle, offset, &data[..torn])?;
        }
        tried?;
        self.write_at(handle, offset, data)
    }

    fn write_at(&mut self, handle: u64, offset: u64, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let from = usize::try_from(offset).expect("a small file");
        let end = from + data.len();
        let pages = from / PAGE..end.div_ceil(PAGE);
        let is_full = self.faults.is_full;
        self.head_writes += u64::from(offset == 0 && data.len() > SECTOR / 2);
        let spare_pages = if is_full { self.spare_pages } else { 0 };
        let inode = self.inode(handle);
        let taken = pages.clone().filter(|page| !inode.reserved.contains(page)).count();
        if is_full && taken > spare_pages {
            return Err(Error::from_raw_os_error(ENOSPC));
        }
        if inode.seen.len() < end {
            inode.resize(end);
        }
        inode.seen[from..end].copy_from_slice(data);
        inode.writes += 1;
        for page in pages {
            inode.dirty.insert(page);
            inode.reserved.insert(page);
            inode.lost.remove(&page);
        }
        self.spare_pages = spare_pages.saturating_sub(taken);
        Ok(())
    }

    pub(crate) fn set_length(&mut self, handle: u64, length: u64) -> Result<()> {
        self.change()?;
        let length = usize::try_from(length).expect("a small file");
        let inode = self.inode(handle);
        inode.resize(length);
        let (pages, before) = (length.div_ceil(PAGE), inode.reserved.len());
        inode.reserved.retain(|page| *page < pages);
        let given = before - inode.reserved.len();
        inode.allocated.retain(|page| *page < pages);
        inode.dirty.retain(|page| *page < pages);
        inode.lost.retain(|page| *page < pages);
        self.spare_pages = if self.faults.is_full { self.spare_pages + given } else { 0 };
        Ok(())
    }

    fn sync_fails(&mut self) -> bool {
        let fails = self.faults.syncs_fail > 0;
        self.faults.syncs_fail -= u32::from(fails);
        fails
    }

    pub(crate) fn sync(&mut self, handle: u64) -> Result<()> {
        self.begin_sync()?;
        self.stalled_ms += self.faults.sync_takes_ms;
        let mut kills = None;
        match &mut self.faults.kill {
            Some(Kill::AtSync { syncs: 0, fails }) => kills = Some(*fails),
            Some(Kill::AtSync { syncs, .. }) => *syncs -= 1,
            Some(Kill::AtOperation(_)) | None => {}
        }
        let synced = self.write_dirty(handle, kills == Some(true));
        if self.names.get(RESERVE) != self.handles.get(&handle) {
            self.syncs += u64::from(synced.is_ok());
            self.failed_syncs += u64::from(synced.is_err());
            self.has_sync_failed = synced.is_err();
            self.is_synced_away = synced.is_ok() && !self.has(STORE);
        }
        self.is_dead = kills.is_some();
        if self.is_dead { Err(Error::from_raw_os_error(EIO)) } else { synced }
    }

    fn write_dirty(&mut self, handle: u64, fails: bool) -> Result<()> {
        let lacks_room = |inode: &Inode| inode.dirty.iter().any(|page| !inode.allocated.contains(page));
        let no_room = self.faults.is_thin_and_full && lacks_room(self.inode(handle));
        if fails || self.sync_fails() || no_room {
            self.drop_cached(handle);
            return Err(Error::from_raw_os_error(EIO));
        }
        let inode = self.inode(handle);
        inode.write_length();
        for page in std::mem::take(&mut inode.dirty) {
            inode.write_back(page);
        }
        Ok(())
    }

    /// The pages of a failed sync look clean; some of them have been written.
    fn drop_cached(&mut self, handle: u64) {
        let dirty = std::mem::take(&mut self.inode(handle).dirty);
        let keeps_length = self.chance(50);
        for page in dirty {
            let is_written = self.chance(30) && !self.faults.is_thin_and_full;
            let inode = self.inode(handle);
            if is_written {
                inode.write_back(page);
            } else {
                inode.lost.insert(page);
            }
        }
        let inode = self.inode(handle);
        inode.is_doubtful = true;
        if keeps_length {
            inode.write_length();
        }
    }

    // Faults.

    /// The kernel evicts pages that look clean: the next read gets them from the disk.
    pub(crate) fn evict(&mut self) {
        for inode in self.inodes.values_mut() {
            for page in std::mem::take(&mut inode.lost) {
                inode.read_back(page);
            }
        }
    }

    /// From now on each operation of the process fails.
    pub(crate) fn die(&mut self) {
        self.is_dead = true;
    }

    /// The process is gone. Its writes stay cached.
    pub(crate) fn kill(&mut self) {
        self.handles.clear();
        self.is_dead = false;
        self.faults.kill = None;
    }

    /// The machine loses its power: unsynced writes may be lost, or kept in part.
    pub(crate) fn cut_power(&mut self) {
        self.kill();
        let Disk { inodes, random, .. } = self;
        for inode in inodes.values_mut() {
            inode.cut_power(random);
        }
        // The file system's journal keeps changes of names in order, up to a random one.
        let undone = self.random.below(self.names_before.len() + 1);
        if undone > 0 {
            let kept = self.names_before.len() - undone;
            self.names = self.names_before[kept].clone();
        }
        self.names_before.clear();
    }
}

#[cfg(test)]
mod tests;
