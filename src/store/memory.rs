//! A store that keeps nothing: `--in-memory` and `--demo`.

use super::{Event, Kept, Past, Store, StoreError};
use crate::vote::time::UnixSeconds;

/// Forgets everything at the end of the process.
#[derive(Debug, Default)]
pub struct MemoryStore;

impl Store for MemoryStore {
    fn commit(&mut self, _events: &[Event], _kept: &Kept) -> Result<(), StoreError> {
        Ok(())
    }

    fn replay(&mut self, _since: UnixSeconds, _visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        Ok(())
    }

    fn past(&mut self) -> Result<Past, StoreError> {
        Ok(Past::default())
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn drop_cast(&mut self, _until: UnixSeconds, _max: usize, _kept: &Kept) -> Result<usize, StoreError> {
        Ok(0)
    }

    fn size_bytes(&self) -> u64 {
        0
    }
}
