//! What is known of the store's file from outside of it: the number of the last acknowledged commit, and
//! whether the file may show what the disk does not have.
//!
//! The number is written after the commit is durable and is not synced: after a power cut it may be
//! older than the store, never newer. Where it is newer, the store has lost what it had kept.
//!
//! After a failed sync the kernel may show what is not on the disk, until the power is cut. That outlives the
//! process, and a kill leaves no time to note it. So the mark is set before the sync, and taken away once the sync
//! has succeeded. The mark needs no sync: a power cut ends what it warns of.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::disk::{Disk, DiskFile};

/// The file that the number and the mark are in.
pub const MARKER_FILE: &str = "votes.sequence";
/// A number and its complement: where they do not fit, the number was half written.
const NUMBER_BYTES: usize = 16;
/// Behind the number, where the mark is set.
const MARK: u8 = b'?';

/// Where the number is noted, and the mark.
pub(super) struct CommitMarker {
    file: Mutex<Arc<dyn DiskFile>>,
    /// The number that is in the file, where one is.
    noted: Mutex<Option<u64>>,
    is_void: AtomicBool,
}

impl CommitMarker {
    /// Opens the file, or makes an empty one; with the number, where a whole one was noted. Where the mark is set, the
    /// store is void.
    ///
    /// # Errors
    /// What the system says. That the file could not be read says nothing of what was noted.
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

    /// Makes the file again where it is no longer at its path. The number is the one that was noted: a void store may show
    /// a later commit, which a power cut takes back.
    ///
    /// # Errors
    /// What the system says.
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

    /// Sets the mark. The file of the store may be synced then, and not before.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn begin_sync(&self) -> io::Result<()> {
        self.file().write_all_at(&[MARK], NUMBER_BYTES as u64)
    }

    /// The sync has succeeded: takes the mark away, unless the store is void.
    pub(super) fn end_sync(&self) {
        if !self.is_void() {
            self.say(self.file().write_all_at(&[0], NUMBER_BYTES as u64));
        }
    }

    /// Whether nothing in the store's file counts, until it is written anew.
    pub(super) fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Relaxed)
    }

    /// Nothing in the store's file counts: the mark stays set.
    pub(super) fn void(&self) {
        self.is_void.store(true, Ordering::Relaxed);
        self.say(self.begin_sync());
    }

    /// The store was written anew, up to this number.
    pub(super) fn renew(&self, number: u64) {
        self.note(number);
        self.is_void.store(false, Ordering::Relaxed);
        self.end_sync();
    }

    fn file(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The commit is durable in any case. An old number only hides the loss of older commits, and an old mark has the
    /// next start write the store anew once too often.
    fn say(&self, noted: io::Result<()>) {
        if let Err(error) = noted {
            log::debug!("{MARKER_FILE} could not be written: {error}");
        }
    }
}

/// The content of the file where this number is noted.
fn content(number: u64) -> Vec<u8> {
    [number.to_le_bytes(), (!number).to_le_bytes()].concat()
}

/// Whether an open file is the one of this name.
pub(super) fn is_at_path(file: &dyn DiskFile, disk: &dyn Disk, name: &str) -> bool {
    matches!((file.identity(), disk.identity(name)), (Ok(open), Ok(here)) if open == here)
}
