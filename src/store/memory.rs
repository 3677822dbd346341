//! A store that keeps nothing: `--in-memory` and `--demo`.

use super::{CommitNote, Event, Store, StoreError};
use crate::vote::time::UnixSeconds;

/// Forgets everything at the end of the process.
#[derive(Debug, Default)]
pub struct MemoryStore;

impl Store for MemoryStore {
    fn commit(&mut self, _events: &[Event], _note: &CommitNote) -> Result<(), StoreError> {
        Ok(())
    }

    fn replay(&mut self, _first: UnixSeconds, _visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        Ok(())
    }

    fn note(&mut self) -> Result<Option<CommitNote>, StoreError> {
        Ok(None)
    }

    fn has_vote(&mut self, _first: UnixSeconds) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn drop_before(&mut self, _first: UnixSeconds, _rows_max: usize, _note: &CommitNote) -> Result<usize, StoreError> {
        Ok(0)
    }

    fn size_bytes(&self) -> u64 {
        0
    }
}
