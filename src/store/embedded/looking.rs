//! Reads a store's file without a write to it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use redb::{Builder, Database};

use super::{EmbeddedStore, STORE_FILE};
use crate::store::disk::{Disk, DiskFile};
use crate::store::private_view::PrivateView;
use crate::store::store_file::CACHE_BYTES;
use crate::store::tables::{self, SCHEMA_OF_FIRST_RELEASE};
use crate::store::{CommitNote, StoreError};
use crate::vote::lines::{ClockReading, TimeLines};
use crate::vote::time::UnixSeconds;

/// Runs `read` on a view of the file; `None` where the file cannot be read as it is. The library may panic on a file
/// that is no store.
fn read_only<T>(file: &Arc<dyn DiskFile>, read: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Option<T> {
    let look = || {
        let view = PrivateView::of(Arc::clone(file), u64::MAX).ok()?;
        read(&Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(view).ok()?).ok()
    };
    catch_unwind(AssertUnwindSafe(look)).ok().flatten()
}

/// Whether the store of a directory has a vote that is live by the certain line; `None` where there is no store, or it
/// cannot be read. Takes no lock: another process may use the store meanwhile.
pub fn has_live_vote(disk: &dyn Disk, reading: ClockReading) -> Option<bool> {
    let file = disk.open_to_read(STORE_FILE).ok()?;
    read_only(&file, |database| {
        let is_of_first_release = tables::find(database)?.is_some_and(|(schema, _)| schema == SCHEMA_OF_FIRST_RELEASE);
        let note = if is_of_first_release { tables::first_release::note } else { tables::note };
        let Some(CommitNote { time, settings, .. }) = note(database)? else { return Ok(false) };
        let started = TimeLines::start(Some(time), UnixSeconds(0), reading, false);
        tables::has_vote(database, settings.cooldown.first_live(TimeLines::ended_by_at_start(time, started)))
    })
}

impl EmbeddedStore {
    /// Refuses to take the place of a file that another process has committed to since this one did.
    pub(super) fn refuse_foreign(&self) -> Result<(), StoreError> {
        // If the file has not changed under its view, it holds what this process has read.
        let is_as_read =
            self.file.as_ref().is_some_and(|file| file.is_private() && matches!(file.is_as_looked_at(), Ok(true)));
        let Some(held) = self.held.as_ref().filter(|_| !is_as_read) else { return Ok(()) };
        let last = read_only(held, tables::find).flatten().map(|(_, last)| last);
        match last.filter(|last| last.sequence > self.sequence && last.writer != self.writer) {
            None => Ok(()),
            Some(last) => Err(StoreError::InUse(format!(
                "another process writes to the store {}: its last commit is {}, and the last one of this process is {}. End one of the two; run vote-status export FILE while this process runs, and import FILE into the other one",
                self.name, last.sequence, self.sequence
            ))),
        }
    }
}
