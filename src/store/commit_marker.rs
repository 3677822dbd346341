//! Notes the number of the last acknowledged commit beside the store's file.
//!
//! The note is written after the commit is durable and is not synced: after a power cut it may be
//! older than the store, never newer. Where it is newer, the store has lost what it had kept.

use std::io;
use std::sync::Arc;

use super::disk::{Disk, DiskFile};

/// The file that the number is in.
pub const MARKER_FILE: &str = "votes.sequence";
/// A number and its complement: where they do not fit, the note was half written.
const NOTE_BYTES: usize = 16;

/// Where the number is noted.
pub(super) struct CommitMarker {
    file: Arc<dyn DiskFile>,
}

impl CommitMarker {
    /// Opens the note, or makes an empty one.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(disk: &dyn Disk) -> io::Result<Self> {
        Ok(Self { file: disk.open_or_make(MARKER_FILE)? })
    }

    /// Whether the note that is open is still the one of its name.
    pub(super) fn is_in_place(&self, disk: &dyn Disk) -> bool {
        is_in_place(&*self.file, disk, MARKER_FILE)
    }

    /// The number, where a whole one was noted.
    pub(super) fn read(&self) -> Option<u64> {
        let mut note = [0; NOTE_BYTES];
        self.file.read_exact_at(&mut note, 0).ok()?;
        let (number, complement) = note.split_at(NOTE_BYTES / 2);
        let number = u64::from_le_bytes(number.try_into().ok()?);
        (complement == (!number).to_le_bytes()).then_some(number)
    }

    /// Notes a number.
    pub(super) fn note(&self, number: u64) {
        if let Err(error) = self.file.write_all_at(&content(number), 0) {
            // The commit is durable in any case. An old note only shows the loss of older commits.
            log::debug!("the last commit's number could not be noted: {error}");
        }
    }
}

/// What the file holds where this number is noted.
#[must_use]
pub fn content(number: u64) -> Vec<u8> {
    [number.to_le_bytes(), (!number).to_le_bytes()].concat()
}

/// Whether an open file is the one of this name.
pub(super) fn is_in_place(file: &dyn DiskFile, disk: &dyn Disk, name: &str) -> bool {
    matches!((file.identity(), disk.identity(name)), (Ok(open), Ok(here)) if open == here)
}
