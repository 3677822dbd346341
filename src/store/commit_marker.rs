//! What is known of the store's file from outside of it: the number of the last acknowledged commit, and
//! whether the file still counts.
//!
//! The note is written after the commit is durable and is not synced: after a power cut it may be
//! older than the store, never newer. Where it is newer, the store has lost what it had kept.
//!
//! After a failed sync the kernel may show what is not on the disk. That outlives the process, so the note
//! outlives it too. A power cut ends both.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::disk::{Disk, DiskFile};

/// The file that the note is in.
pub const MARKER_FILE: &str = "votes.sequence";
/// A number and its complement: where they do not fit, the note was half written.
const NOTE_BYTES: usize = 16;

/// Where the number is noted.
pub(super) struct CommitMarker {
    file: Arc<dyn DiskFile>,
    is_void: AtomicBool,
}

impl CommitMarker {
    /// Opens the note, or makes an empty one.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(disk: &dyn Disk) -> io::Result<Self> {
        let file = disk.open_or_make(MARKER_FILE)?;
        let is_void = file.bytes_len()? > NOTE_BYTES as u64;
        Ok(Self { file, is_void: AtomicBool::new(is_void) })
    }

    /// Makes the note again where it is no longer the file of its name.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn keep_at_path(&mut self, disk: &dyn Disk, number: u64) -> io::Result<()> {
        if !is_at_path(&*self.file, disk, MARKER_FILE) {
            let is_void = self.is_void();
            *self = Self::open(disk)?;
            self.note(number);
            if is_void {
                self.void();
            }
        }
        Ok(())
    }

    /// The number, where a whole one was noted.
    ///
    /// # Errors
    /// What the system says. That the note could not be read says nothing of what was noted.
    pub(super) fn read(&self) -> io::Result<Option<u64>> {
        let mut note = [0; NOTE_BYTES];
        match self.file.read_exact_at(&mut note, 0) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let (number, complement) = note.split_at(NOTE_BYTES / 2);
        let Ok(number) = number.try_into().map(u64::from_le_bytes) else { return Ok(None) };
        Ok((complement == (!number).to_le_bytes()).then_some(number))
    }

    /// Notes a number.
    pub(super) fn note(&self, number: u64) {
        self.say(self.file.write_all_at(&content(number), 0));
    }

    /// Whether nothing in the store's file counts, until it is written anew.
    pub(super) fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Relaxed)
    }

    /// Notes that nothing in the store's file counts.
    pub(super) fn void(&self) {
        self.is_void.store(true, Ordering::Relaxed);
        self.say(self.file.write_all_at(b"void", NOTE_BYTES as u64));
    }

    /// The store was written anew, up to this number.
    pub(super) fn renew(&self, number: u64) {
        self.note(number);
        self.say(self.file.set_len(NOTE_BYTES as u64));
        self.is_void.store(false, Ordering::Relaxed);
    }

    /// The commit is durable in any case. An old note only shows the loss of older commits, or has the store
    /// written anew once too often.
    fn say(&self, noted: io::Result<()>) {
        if let Err(error) = noted {
            log::debug!("{MARKER_FILE} could not be written: {error}");
        }
    }
}

/// The content of the file where this number is noted.
#[must_use]
pub fn content(number: u64) -> Vec<u8> {
    [number.to_le_bytes(), (!number).to_le_bytes()].concat()
}

/// Whether an open file is the one of this name.
pub(super) fn is_at_path(file: &dyn DiskFile, disk: &dyn Disk, name: &str) -> bool {
    matches!((file.identity(), disk.identity(name)), (Ok(open), Ok(here)) if open == here)
}
