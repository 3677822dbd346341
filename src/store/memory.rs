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

#[cfg(test)]
mod tests {
    use super::MemoryStore;
    use crate::store::{CommitNote, RoomLeft, Store};
    use crate::vote::ipv6::Ipv6Prefix;
    use crate::vote::lines::TimeNote;
    use crate::vote::settings::Settings;
    use crate::vote::time::{Cooldown, UnixSeconds};

    #[test]
    fn it_keeps_nothing_and_lacks_nothing() {
        let mut store = MemoryStore;
        let noted = CommitNote {
            time: TimeNote { certain_ms: 1, wall_ms: 1, shown_ms: 1 },
            spent_until: UnixSeconds(0),
            settings: Settings { cooldown: Cooldown::USUAL, ipv6_prefix: Ipv6Prefix::USUAL },
        };
        assert!(!store.has_vote(UnixSeconds(0)).expect("it never fails"));
        assert_eq!(store.drop_before(UnixSeconds(u32::MAX), 9, &noted).expect("it never fails"), 0);
        assert_eq!((store.size_bytes(), store.commit_number(), store.is_void()), (0, 0, false));
        assert!(matches!(store.room(), RoomLeft::More));
    }
}
