//! Room on the disk: how much is free, and how much is in reserve.
//!
//! The library writes a change to new pages before it frees old ones, so even dropping votes needs room. A full disk
//! would never have any. So a file beside the store keeps a reserve, and gives it up while expired votes are dropped.
//! On a full disk the store's own file keeps its length too. Its free pages are for the next votes, and another writer
//! would take any room that it gave back.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile, DiskRoom};

/// The file that holds the reserve.
const RESERVE_FILE: &str = "votes.reserve";
/// The largest reserve, in bytes. One commit that drops expired votes writes some 400 KB.
const RESERVE_BYTES_MAX: u64 = 1 << 20;
/// On a small disk the reserve is the disk's size divided by this.
const RESERVE_SHARE: u64 = 16;
/// The reserve grows in pieces of this many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// The reserve shrinks by whole blocks, which have this many bytes on nearly every file system.
const BLOCK_BYTES: u64 = 4 << 10;
/// Room is scarce while less than this many times the reserve is free.
const SCARCE_RESERVES: u64 = 2;
/// Where room is scarce, the store's file keeps this many times the reserve for its own votes.
const OWN_RESERVES: u64 = 4;

/// The room on the disk of one data directory.
pub(super) struct Room {
    disk: Arc<dyn Disk>,
    reserve: Mutex<Reserve>,
}

struct Reserve {
    /// `None` where the file could not be made.
    file: Option<Arc<dyn DiskFile>>,
    bytes: u64,
}

impl Room {
    /// The room of `disk`, with the reserve that an earlier process left there.
    pub(super) fn new(disk: Arc<dyn Disk>) -> Self {
        let file = disk.open_or_make(RESERVE_FILE).ok();
        let bytes = file.as_ref().and_then(|file| file.bytes_len().ok()).unwrap_or(0);
        Self { disk, reserve: Mutex::new(Reserve { file, bytes }) }
    }

    /// Bytes that this process may still write, with `used` of them in the store's file already, as far as the
    /// disk tells.
    pub(super) fn free_bytes(&self, used: u64) -> u64 {
        let free = |room: DiskRoom| room.free_bytes.min(room.file_bytes_max.saturating_sub(used));
        self.disk.room().map_or(u64::MAX, free)
    }

    /// Whether so little is free that the store's file keeps its length.
    pub(super) fn is_scarce(&self) -> bool {
        self.disk.room().is_some_and(|room| room.free_bytes < SCARCE_RESERVES * wanted(room))
    }

    /// Gives up `bytes` of the reserve, in whole blocks; gives whether there were any. Asks the file for its length
    /// first: something else may have cut it.
    pub(super) fn give(&self, bytes: u64) -> bool {
        let mut reserve = self.reserve();
        reserve.look();
        let left = reserve.bytes.saturating_sub(bytes.max(1).next_multiple_of(BLOCK_BYTES));
        let given = reserve.bytes > 0 && reserve.file.as_ref().is_some_and(|file| file.set_len(left).is_ok());
        if given {
            reserve.bytes = left;
        }
        given
    }

    /// Fills the reserve again, as far as there is room. On a full disk it takes spare bytes of the store's own file:
    /// `cut_spare(kept, bytes)` cuts `bytes` off that file's end, if the file then still has `kept` spare bytes.
    pub(super) fn keep_back(&self, cut_spare: impl Fn(u64, u64) -> bool) {
        let Some(wanted) = self.disk.room().map(wanted) else { return };
        let mut reserve = self.reserve();
        reserve.look();
        if reserve.bytes >= wanted {
            return;
        }
        while reserve.bytes < wanted && reserve.grow(&*self.disk).is_ok() {}
        while reserve.bytes < wanted {
            if !cut_spare(OWN_RESERVES * wanted, PIECE_BYTES as u64) || reserve.grow(&*self.disk).is_err() {
                return;
            }
        }
        // Some file systems find out only now that there is no room; then the reserve is smaller than it seems.
        if reserve.file.as_ref().is_some_and(|file| file.sync_data().is_err()) {
            reserve.bytes = 0;
        }
    }

    fn reserve(&self) -> MutexGuard<'_, Reserve> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wanted(room: DiskRoom) -> u64 {
    (room.total_bytes / RESERVE_SHARE).min(RESERVE_BYTES_MAX).next_multiple_of(PIECE_BYTES as u64)
}

impl Reserve {
    /// Asks the file how long it is: something else may have cut it.
    fn look(&mut self) {
        if let Some(Ok(bytes)) = self.file.as_ref().map(|file| file.bytes_len()) {
            self.bytes = bytes;
        }
    }

    /// Adds a piece. Its bytes differ from each other: some file systems keep no room for zeros.
    fn grow(&mut self, disk: &dyn Disk) -> io::Result<()> {
        if self.file.is_none() {
            self.file = disk.open_or_make(RESERVE_FILE).ok();
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
        // The part that has found room stays: on a full disk the reserve comes back bit by bit.
        let length = file.bytes_len()?;
        // A device takes every write and never grows.
        let has_grown = length > self.bytes;
        self.bytes = length.max(self.bytes);
        written.and(if has_grown { Ok(()) } else { Err(ErrorKind::Unsupported.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, RESERVE_FILE, Room};
    use crate::store::directory::DataDirectory;
    use crate::store::test_disk::{LARGE_BYTES, TestDisk};
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::sync::atomic::Ordering;

    const RESERVE_BYTES: u64 = 1_048_576;
    const PIECE_BYTES: u64 = 65_536;

    /// Regression: something had cut the file, the service took the room for reserved, and a full disk let no vote end.
    #[test]
    fn what_is_kept_back_is_what_the_file_says() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let room = Room::new(DataDirectory::at(folder.path()));
        room.keep_back(|_, _| false);
        let path = folder.path().join(RESERVE_FILE);
        let kept = || fs::metadata(&path).expect("it is there").len();
        let whole = kept();
        assert!(whole > 0 && whole.is_multiple_of(BLOCK_BYTES), "{whole}");
        let bytes = fs::read(&path).expect("it can be read");
        let words: HashSet<&[u8]> = bytes.chunks_exact(8).collect();
        assert_eq!(words.len(), bytes.len() / 8, "a file system may keep no room for bytes that repeat");
        assert!(room.give(1) && room.give(BLOCK_BYTES + 1));
        assert_eq!(kept(), whole - 3 * BLOCK_BYTES);
        File::options().write(true).open(&path).and_then(|file| file.set_len(BLOCK_BYTES)).expect("it is cut");
        assert!(room.give(1) && !room.give(1));
        assert_eq!(kept(), 0);
        room.keep_back(|_, _| false);
        assert_eq!(kept(), whole);
    }

    /// Regression: a start with such a file never ended.
    #[test]
    fn a_device_keeps_no_room_back() {
        for device in ["/dev/null", "/dev/zero"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            symlink(device, folder.path().join(RESERVE_FILE)).expect("a link");
            let room = Room::new(DataDirectory::at(folder.path()));
            room.keep_back(|_, _| false);
            assert!(!room.give(1), "{device}");
        }
    }

    #[test]
    fn room_is_scarce_below_twice_the_reserve() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (free_bytes, is_scarce) in [(2 * RESERVE_BYTES, false), (2 * RESERVE_BYTES - 1, true), (0, true)] {
            assert_eq!(Room::new(TestDisk::at(folder.path(), free_bytes)).is_scarce(), is_scarce, "{free_bytes}");
        }
    }

    #[test]
    fn the_reserve_takes_free_room_first_and_spare_bytes_of_the_store_after_that() {
        for pieces_free in [0, 3, 16, 100] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let disk = TestDisk::at(folder.path(), pieces_free * PIECE_BYTES);
            let room = Room::new(disk.clone());
            let asked = RefCell::new(Vec::new());
            room.keep_back(|kept, bytes| {
                asked.borrow_mut().push((kept, bytes));
                disk.state.free_bytes.fetch_add(bytes, Ordering::Relaxed);
                true
            });
            let kept = fs::metadata(folder.path().join(RESERVE_FILE)).expect("it is there").len();
            assert_eq!(kept, RESERVE_BYTES, "{pieces_free}");
            let pieces_taken = usize::try_from(16 - pieces_free.min(16)).expect("small");
            assert_eq!(asked.into_inner(), vec![(4 * RESERVE_BYTES, PIECE_BYTES); pieces_taken], "{pieces_free}");
        }
    }

    #[test]
    fn a_process_may_write_as_much_as_is_free_and_as_one_file_may_have() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let room = Room::new(TestDisk::at(folder.path(), 1_000));
        assert_eq!([0, LARGE_BYTES - 7, LARGE_BYTES + 1].map(|used| room.free_bytes(used)), [1_000, 7, 0]);
    }
}
