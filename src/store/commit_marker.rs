//! The marker beside the store's file: the number of the last acknowledged commit, and whether the file may show data
//! that is not on the disk.
//!
//! The number is written after the commit is durable, and is not synced. After a power cut it may be older than the
//! store, never newer. If it is newer, the store has lost commits.
//!
//! After a failed sync the kernel may show data that is not on the disk, until the power is cut. That outlives the
//! process, and a kill leaves no time to note it. So the mark is set before the sync, and taken away once the sync has
//! succeeded. The mark needs no sync: a power cut ends the state that it warns of.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::disk::{Disk, DiskFile};

/// The file of the number and the mark.
pub const MARKER_FILE: &str = "votes.sequence";
/// Bytes of a number and its complement. If these do not match, the number was half written.
const NUMBER_BYTES: usize = 16;
/// The byte behind the number while the mark is set.
const MARK: u8 = b'?';

/// The file of the number and the mark.
pub(super) struct CommitMarker {
    file: Mutex<Arc<dyn DiskFile>>,
    /// The number in the file, if there is one.
    noted: Mutex<Option<u64>>,
    is_void: AtomicBool,
}

impl CommitMarker {
    /// Opens the file, or makes an empty one; gives the number too, where a whole one was noted. If the mark is set,
    /// the store is void.
    ///
    /// # Errors
    /// The system's error. An unreadable file proves nothing about the number.
    pub(super) fn open(disk: &dyn Disk) -> io::Result<(Arc<Self>, Option<u64>)> {
        let file = disk.open_or_make(MARKER_FILE)?;
        let mut content = [0; NUMBER_BYTES + 1];
        let length = usize::try_from(file.bytes_len()?).map_or(content.len(), |length| length.min(content.len()));
        file.read_exact_at(&mut content[..length], 0)?;
        let (number, mark) = content.split_at(NUMBER_BYTES);
        let (number, complement) = number.split_at(NUMBER_BYTES / 2);
        let noted = number.try_into().ok().map(u64::from_le_bytes);
        let noted = noted.filter(|number| complement == (!number).to_le_bytes());
        let is_void = AtomicBool::new(mark == [MARK]);
        Ok((Arc::new(Self { file: Mutex::new(file), noted: Mutex::new(noted), is_void }), noted))
    }

    /// Makes the file again if it is no longer at its path. It gets the number noted last: a void store may show a
    /// later commit, which a power cut takes back.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn keep_at_path(&self, disk: &dyn Disk) -> io::Result<()> {
        if !is_at_path(&*self.file(), disk, MARKER_FILE) {
            *self.file.lock().unwrap_or_else(PoisonError::into_inner) = disk.open_or_make(MARKER_FILE)?;
            let noted = *self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(number) = noted {
                self.note(number);
            }
            if self.is_void() {
                self.void();
            }
        }
        Ok(())
    }

    /// Notes a number.
    pub(super) fn note(&self, number: u64) {
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(number);
        self.say(self.file().write_all_at(&content(number), 0));
    }

    /// Sets the mark. The store's file must not be synced before.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn begin_sync(&self) -> io::Result<()> {
        self.file().write_all_at(&[MARK], NUMBER_BYTES as u64)
    }

    /// Takes the mark away after a successful sync, unless the store is void.
    pub(super) fn end_sync(&self) {
        if !self.is_void() {
            self.say(self.file().write_all_at(&[0], NUMBER_BYTES as u64));
        }
    }

    /// Whether nothing in the store's file counts, until it is written anew.
    pub(super) fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Relaxed)
    }

    /// Notes that nothing in the store's file counts: the mark stays set.
    pub(super) fn void(&self) {
        self.is_void.store(true, Ordering::Relaxed);
        self.say(self.begin_sync());
    }

    /// Notes that the store was written anew, up to this number.
    pub(super) fn renew(&self, number: u64) {
        self.note(number);
        self.is_void.store(false, Ordering::Relaxed);
        self.end_sync();
    }

    fn file(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Only logs a failed write, as the commit is durable in any case. An old number hides at most a loss of commits.
    /// An old mark makes the next start write the store anew needlessly.
    fn say(&self, noted: io::Result<()>) {
        if let Err(error) = noted {
            log::debug!("{MARKER_FILE} could not be written: {error}");
        }
    }
}

/// The content of the file for this number.
fn content(number: u64) -> Vec<u8> {
    [number.to_le_bytes(), (!number).to_le_bytes()].concat()
}

/// Whether an open file is the one of this name.
pub(super) fn is_at_path(file: &dyn DiskFile, disk: &dyn Disk, name: &str) -> bool {
    matches!((file.identity(), disk.identity(name)), (Ok(open), Ok(here)) if open == here)
}
