//! Room on the disk: how much there is, and how much is kept back.
//!
//! A change is written to new pages before old ones are free, so even dropping votes needs room. On
//! a full disk there would be none, for ever: a file beside the store keeps some back, and gives it
//! up while expired votes are dropped. And a file system that is full gets nothing back from the
//! store's own file: what is free in it is where the next votes go, and another writer would have
//! taken it first.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{StatVfs, statvfs};
use rustix::process::{Resource, getrlimit};

/// What is kept back, in bytes. One commit that drops expired votes writes some 400 KB.
const RESERVE_BYTES_MAX: u64 = 1 << 20;
/// On a small disk it is such a part of it.
const RESERVE_SHARE: u64 = 16;
/// It is made again in pieces of so many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// And given up in whole blocks, which are of so many bytes nearly everywhere.
const BLOCK_BYTES: u64 = 4 << 10;
/// Where less than so many times the reserve is free, room is scarce.
const SCARCE_RESERVES: u64 = 2;
/// Where room is scarce, so many times the reserve stay in the store's file for its own votes.
const OWN_RESERVES: u64 = 4;

/// The room on the disk of one data directory.
pub struct Room {
    directory: PathBuf,
    reserve: Mutex<Reserve>,
    /// The store's file, while it is open.
    extent: Mutex<Weak<Extent>>,
}

struct Reserve {
    path: PathBuf,
    /// `None` where it could not be made.
    file: Option<File>,
    bytes: u64,
}

impl Room {
    /// The room of `directory`, with what an earlier process kept back there in `path`.
    pub(super) fn new(directory: &Path, path: PathBuf) -> Self {
        let file = open_reserve(&path);
        let bytes = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
        Self {
            directory: directory.to_owned(),
            reserve: Mutex::new(Reserve { path, file, bytes }),
            extent: Mutex::default(),
        }
    }

    /// From now on this is the store's file.
    pub(super) fn watch(&self, extent: &Arc<Extent>) {
        *unpoisoned(&self.extent) = Arc::downgrade(extent);
    }

    /// Bytes that this process may still write, as far as the file system tells.
    pub(super) fn free_bytes(&self) -> u64 {
        let on_disk = self.statistics().map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize));
        let length = unpoisoned(&self.extent).upgrade().map_or(0, |extent| extent.used());
        let in_file = getrlimit(Resource::Fsize).current.map_or(u64::MAX, |limit| limit.saturating_sub(length));
        on_disk.min(in_file)
    }

    /// Whether so little is free that the store keeps what it has.
    pub(super) fn is_scarce(&self) -> bool {
        self.statistics().is_some_and(|found| {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            free < SCARCE_RESERVES * wanted(&found)
        })
    }

    /// Gives up `bytes`, in whole blocks, of what is kept back, down to so many hundredths of it;
    /// whether there were any.
    pub(super) fn give(&self, bytes: u64, reserved_percent: u64) -> bool {
        let Some(reserved) = self.statistics().map(|found| wanted(&found) * reserved_percent / 100) else {
            return false;
        };
        let mut reserve = unpoisoned(&self.reserve);
        let left = reserve.bytes.saturating_sub(bytes.max(1).next_multiple_of(BLOCK_BYTES));
        let given = reserve.bytes > reserved && reserve.file.as_ref().is_some_and(|file| file.set_len(left).is_ok());
        if given {
            reserve.bytes = left;
        }
        given
    }

    /// Keeps back again what was given up, as far as there is room; what the store's own file has to
    /// spare on a full disk goes here first.
    pub(super) fn keep_back(&self) {
        let Some(wanted) = self.statistics().map(|found| wanted(&found)) else { return };
        let mut reserve = unpoisoned(&self.reserve);
        if reserve.bytes >= wanted {
            return;
        }
        let extent = unpoisoned(&self.extent).upgrade();
        while reserve.bytes < wanted && reserve.grow().is_ok() {}
        while reserve.bytes < wanted {
            let own = OWN_RESERVES * wanted;
            let is_given = extent.as_ref().is_some_and(|extent| extent.cut_spare(own, PIECE_BYTES as u64));
            if !is_given || reserve.grow().is_err() {
                return;
            }
        }
        // Some file systems find out only now that there is no room; then it is less than it seems.
        if reserve.file.as_ref().is_some_and(|file| file.sync_data().is_err()) {
            reserve.bytes = 0;
        }
    }

    fn statistics(&self) -> Option<StatVfs> {
        statvfs(&self.directory).ok().filter(|found| found.f_blocks > 0)
    }
}

fn wanted(found: &StatVfs) -> u64 {
    let share = found.f_blocks.saturating_mul(found.f_frsize) / RESERVE_SHARE;
    share.min(RESERVE_BYTES_MAX).next_multiple_of(PIECE_BYTES as u64)
}

fn open_reserve(path: &Path) -> Option<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).ok()
}

impl Reserve {
    /// A piece more. Its bytes differ from each other: some file systems keep no room for zeros.
    fn grow(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = open_reserve(&self.path);
        }
        let Some(file) = &self.file else { return Err(ErrorKind::NotFound.into()) };
        let mut word = self.bytes | 1;
        let mut piece = [0; PIECE_BYTES];
        for bytes in piece.chunks_exact_mut(8) {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let written = file.write_all_at(&piece, self.bytes);
        // What of it has found room stays: on a full disk it comes back bit by bit.
        let length = file.metadata().map_or(self.bytes, |metadata| metadata.len());
        self.bytes = length.max(self.bytes);
        written
    }
}

/// The store's file, of which the library uses the first part.
pub(super) struct Extent {
    pub(super) file: File,
    used: AtomicU64,
}

impl Extent {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let used = AtomicU64::new(file.metadata()?.len());
        Ok(Self { file, used })
    }

    /// Bytes that the library uses.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Makes it so long for the library. Where room is scarce the file itself keeps its length:
    /// pages that the library takes again later are written whole before they are read.
    pub(super) fn set_used(&self, used: u64, is_scarce: bool) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if used > length || (used < length && !is_scarce) {
            self.file.set_len(used)?;
        }
        self.used.store(used, Ordering::Relaxed);
        Ok(())
    }

    /// Cuts `bytes` off the end, where the library uses neither them nor `kept` before them.
    fn cut_spare(&self, kept: u64, bytes: u64) -> bool {
        let Ok(length) = self.file.metadata().map(|metadata| metadata.len()) else { return false };
        let left = length.saturating_sub(bytes);
        left >= self.used() + kept && self.file.set_len(left).is_ok()
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Room};
    use std::fs;

    /// Regression: a vote in the place of an expired one found no room on a full disk, where the library
    /// chose a page that no block was behind yet.
    #[test]
    fn half_of_what_is_kept_back_is_for_votes_in_the_place_of_others() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("reserve");
        let room = Room::new(folder.path(), path.clone());
        room.keep_back();
        let kept = || fs::metadata(&path).expect("it is there").len();
        let whole = kept();
        assert!(whole > 0 && whole.is_multiple_of(BLOCK_BYTES), "{whole}");
        assert!(!room.give(1, 100));
        assert!(room.give(1, 50) && room.give(BLOCK_BYTES + 1, 50));
        assert_eq!(kept(), whole - 3 * BLOCK_BYTES);
        while room.give(1, 50) {}
        assert_eq!(kept(), whole / 2);
        while room.give(1, 0) {}
        assert_eq!(kept(), 0);
    }
}
