//! Notes the number of the last acknowledged commit beside the store's file.
//!
//! The note is written after the commit is durable and is not synced: after a power cut it may be
//! older than the store, never newer. Where it is newer, the store has lost what it had kept.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::place::is_at;

/// A number and its complement: where they do not fit, the note was half written.
const NOTE_BYTES: usize = 16;

/// Where the number is noted.
#[derive(Debug, Default)]
pub struct CommitMarker {
    file: Option<File>,
}

impl CommitMarker {
    /// Opens the note, or makes an empty one for its owner only.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Self { file: Some(file) })
    }

    /// Whether the note that is open is the one at `path`.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.file.as_ref().is_some_and(|file| is_at(file, path))
    }

    /// The number, where a whole one was noted.
    #[must_use]
    pub fn read(&self) -> Option<u64> {
        let mut note = [0; NOTE_BYTES];
        self.file.as_ref()?.read_exact_at(&mut note, 0).ok()?;
        let (number, complement) = note.split_at(NOTE_BYTES / 2);
        let number = u64::from_le_bytes(number.try_into().ok()?);
        (complement == (!number).to_le_bytes()).then_some(number)
    }

    /// Notes a number.
    pub fn note(&self, number: u64) {
        let Some(file) = &self.file else { return };
        let note = [number.to_le_bytes(), (!number).to_le_bytes()].concat();
        if let Err(error) = file.write_all_at(&note, 0) {
            // The commit is durable in any case. An old note only shows the loss of older commits.
            log::debug!("the last commit's number could not be noted: {error}");
        }
    }
}
