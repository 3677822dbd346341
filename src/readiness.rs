//! The state of the service between start and stop, and its troubles meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;

/// The time between two log lines about a lasting trouble, in milliseconds.
const TOLD_AGAIN_MS: u64 = 60_000;

/// A reason why the service is not ready, or takes no votes, while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The store is damaged, none of ours, or of a newer version.
    StoreUnusable,
    /// The store cannot be opened or read now.
    StoreUnavailable,
    /// The store's file is no longer at its path: votes are not taken, status goes on.
    StoreGone,
    /// The store takes no changes now, as on a full disk: votes are not taken, status goes on.
    StoreFailing,
    /// The store has been at one piece of work for too long, such as a commit: votes wait, status goes on.
    StoreSlow,
    /// Another process has opened the store since this one was started.
    StoreInUse,
    /// The clock is behind the time that the store has last noted.
    ClockBehind,
    /// The control key can be neither read nor made.
    ControlKey,
}

impl Trouble {
    /// Every trouble, the gravest first, with the word that machines know it by.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::StoreUnusable, "store_unusable"),
        (Self::StoreUnavailable, "store_unavailable"),
        (Self::StoreGone, "store_gone"),
        (Self::StoreFailing, "store_failing"),
        (Self::StoreSlow, "store_slow"),
        (Self::StoreInUse, "store_in_use"),
        (Self::ClockBehind, "clock_behind"),
        (Self::ControlKey, "control_key"),
    ];

    /// The word that machines know the trouble by.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The recorder's work on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The store is opened and read.
    Opening,
    /// The store is open, and the clock is behind it.
    ClockWait,
    /// One commit.
    Commit,
    /// The store is written anew from memory.
    Renewal,
    /// The upkeep of the store's files.
    Upkeep,
    /// The store is closed.
    Closing,
}

impl Work {
    /// Every piece of work, with its word in metrics and its description.
    const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Opening, "opening", "opening the store"),
        (Self::ClockWait, "clock", "waiting for the clock"),
        (Self::Commit, "commit", "making one commit"),
        (Self::Renewal, "rewrite", "writing the store anew from memory"),
        (Self::Upkeep, "upkeep", "looking after the store's files"),
        (Self::Closing, "closing", "closing the store"),
    ];

    const fn doing(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Whether the work may take more than a moment on a healthy disk. Reading a large store takes seconds, and a clock
    /// may be set right at any time. Both have a signal of their own.
    const fn may_be_long(self) -> bool {
        matches!(self, Self::Opening | Self::ClockWait)
    }
}

/// Work that takes longer than this is a trouble, in milliseconds (contract, "A store that cannot be opened").
const SLOW_MS: u64 = 2_000;

/// A trouble that lasts.
#[derive(Debug)]
struct Noted {
    trouble: Trouble,
    /// The problem and its remedy.
    message: String,
    tell_again_ms: u64,
}

/// The state of the service between start and stop. Shared by all threads.
#[derive(Clone, Default)]
pub struct Readiness(Arc<State>);

#[derive(Default)]
struct State {
    /// The flags below that are set.
    flags: AtomicU8,
    loaded_rows: AtomicU64,
    /// At most one of each trouble. No request takes this lock.
    noted: Mutex<Vec<Noted>>,
    /// What the recorder is doing, and since when in milliseconds of the monotonic clock.
    work: Mutex<Option<(Work, u64)>>,
}

const LOADED: u8 = 1;
const STOPPING: u8 = 2;
const STALE: u8 = 4;

impl Readiness {
    /// Notes that the recorder begins `work` on the store, or goes on with it.
    pub fn begin(&self, work: Work, now_ms: u64) {
        let mut current = self.0.work.lock();
        if current.is_none_or(|(at, _)| at != work) {
            *current = Some((work, now_ms));
        }
    }

    /// Notes that the work has ended, whatever came of it.
    pub fn end(&self) {
        *self.0.work.lock() = None;
        self.clear(Trouble::StoreSlow);
    }

    /// Checks how long the recorder has been at its work: a stuck recorder cannot say so itself. To be called by a
    /// thread that waits for no disk.
    pub fn look(&self, now_ms: u64) {
        // The lock is held: the work may end meanwhile, and its end then clears the trouble.
        let work = self.0.work.lock();
        if let Some((work, took_ms)) = work.map(|(work, since_ms)| (work, now_ms.saturating_sub(since_ms)))
            && took_ms > SLOW_MS
            && !work.may_be_long()
        {
            let (doing, took_s) = (work.doing(), took_ms / 1_000);
            let message = format!(
                "the recorder has been {doing} for {took_s} s: votes and changes wait; see whether the disk hangs or is overloaded"
            );
            self.note(Trouble::StoreSlow, &message, now_ms);
        }
    }

    /// What the recorder is doing with the store, in words, and for how many seconds.
    #[must_use]
    pub fn work(&self, now_ms: u64) -> Option<(&'static str, u64)> {
        self.0.work.lock().map(|(work, since_ms)| (work.doing(), now_ms.saturating_sub(since_ms) / 1_000))
    }

    /// Every piece of work, with the milliseconds that the recorder has been at it: 0 for all but one.
    #[must_use]
    pub fn work_ms(&self, now_ms: u64) -> [(&'static str, u64); Work::ALL.len()] {
        let current = *self.0.work.lock();
        Work::ALL.map(|(work, word, _)| {
            (word, current.filter(|(at, _)| *at == work).map_or(0, |(_, since_ms)| now_ms.saturating_sub(since_ms)))
        })
    }

    /// Notes a trouble; `message` says what is wrong, with the remedy. To be called each time that the trouble is
    /// found: the last message is shown, and the log is told at once and then every minute.
    pub fn note(&self, trouble: Trouble, message: &str, now_ms: u64) {
        let mut noted = self.0.noted.lock();
        let known = noted.iter_mut().find(|noted| noted.trouble == trouble);
        let is_due = known.as_ref().is_none_or(|known| now_ms >= known.tell_again_ms);
        let tell_again_ms = if is_due { now_ms + TOLD_AGAIN_MS } else { 0 };
        match known {
            Some(known) => {
                message.clone_into(&mut known.message);
                known.tell_again_ms = known.tell_again_ms.max(tell_again_ms);
            }
            None => noted.push(Noted { trouble, message: message.to_owned(), tell_again_ms }),
        }
        drop(noted);
        if is_due {
            log::error!("{message} ({}; told again each minute while it lasts)", trouble.word());
        }
    }

    /// `trouble` is over.
    pub fn clear(&self, trouble: Trouble) {
        self.0.noted.lock().retain(|noted| noted.trouble != trouble);
    }

    /// Whether `trouble` lasts.
    #[must_use]
    pub fn has(&self, trouble: Trouble) -> bool {
        self.0.noted.lock().iter().any(|noted| noted.trouble == trouble)
    }

    /// The gravest trouble, with its message.
    #[must_use]
    pub fn gravest(&self) -> Option<(Trouble, String)> {
        let noted = self.0.noted.lock();
        let of = |trouble| noted.iter().find(|noted| noted.trouble == trouble);
        Trouble::ALL
            .into_iter()
            .find_map(|(trouble, _)| of(trouble))
            .map(|noted| (noted.trouble, noted.message.clone()))
    }

    /// A load of the store begins: the first, or another try.
    pub fn begin_load(&self) {
        self.0.loaded_rows.store(0, Ordering::Relaxed);
    }

    /// Progress of the load: `rows` more have been read.
    pub fn add_loaded_rows(&self, rows: u64) {
        self.0.loaded_rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// How many rows of the store the load has read.
    #[must_use]
    pub fn loaded_rows(&self) -> u64 {
        self.0.loaded_rows.load(Ordering::Relaxed)
    }

    /// The state is loaded: answers are true from now on.
    pub fn set_loaded(&self) {
        self.0.flags.fetch_or(LOADED, Ordering::AcqRel);
    }

    /// Notes that the service is stopping. Requests until then are still answered.
    pub fn set_stopping(&self) {
        self.0.flags.fetch_or(STOPPING, Ordering::AcqRel);
    }

    /// Sets whether the state is older than allowed, where other nodes decide as well.
    pub fn set_stale(&self, is_stale: bool) {
        if is_stale {
            self.0.flags.fetch_or(STALE, Ordering::AcqRel);
        } else if self.is_stale() {
            self.0.flags.fetch_and(!STALE, Ordering::AcqRel);
        }
    }

    /// Whether the state is older than was allowed.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.0.flags.load(Ordering::Acquire) & STALE != 0
    }

    /// Whether the state is loaded.
    #[must_use]
    #[inline]
    pub fn is_loaded(&self) -> bool {
        self.0.flags.load(Ordering::Acquire) & LOADED != 0
    }

    /// Whether a load balancer should send requests here.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.flags.load(Ordering::Acquire) == LOADED
    }

    /// Whether the service is going away.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.flags.load(Ordering::Acquire) & STOPPING != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Readiness, Trouble, Work};

    #[test]
    fn a_state_that_is_too_old_is_loaded_and_not_ready() {
        let readiness = Readiness::default();
        readiness.set_loaded();
        readiness.set_stale(true);
        assert!(readiness.is_stale() && readiness.is_loaded() && !readiness.is_ready());
        readiness.set_stale(false);
        assert!(!readiness.is_stale() && readiness.is_ready());
    }

    #[test]
    fn work_that_takes_more_than_two_seconds_is_a_trouble_until_it_ends() {
        let readiness = Readiness::default();
        readiness.begin(Work::Commit, 1_000);
        readiness.look(3_000);
        assert_eq!((readiness.gravest(), readiness.work(3_000)), (None, Some(("making one commit", 2))));
        readiness.look(3_001);
        assert!(readiness.has(Trouble::StoreSlow));
        readiness.end();
        assert_eq!((readiness.gravest(), readiness.work(9_000)), (None, None));
        readiness.look(9_000);
        assert_eq!(readiness.gravest(), None);
    }

    #[test]
    fn the_time_of_each_piece_of_work_is_told() {
        let readiness = Readiness::default();
        readiness.begin(Work::Opening, 1_000);
        readiness.look(60_000);
        // It goes on.
        readiness.begin(Work::Opening, 60_500);
        assert_eq!((readiness.gravest(), readiness.work(61_000)), (None, Some(("opening the store", 60))));
        readiness.begin(Work::Renewal, 61_000);
        let told = readiness.work_ms(62_500);
        let rest = [("opening", 0), ("clock", 0), ("commit", 0), ("rewrite", 1_500), ("upkeep", 0), ("closing", 0)];
        assert_eq!(told, rest);
    }

    #[test]
    fn the_gravest_trouble_is_told_as_it_was_found_last() {
        let readiness = Readiness::default();
        assert_eq!(readiness.gravest(), None);
        readiness.note(Trouble::ClockBehind, "an hour behind", 0);
        readiness.note(Trouble::ClockBehind, "half an hour behind", 10);
        assert_eq!(readiness.gravest(), Some((Trouble::ClockBehind, "half an hour behind".to_owned())));
        readiness.note(Trouble::StoreUnavailable, "no such device", 20);
        assert_eq!(readiness.gravest(), Some((Trouble::StoreUnavailable, "no such device".to_owned())));
        assert!(readiness.has(Trouble::ClockBehind));
        readiness.clear(Trouble::StoreUnavailable);
        readiness.clear(Trouble::ClockBehind);
        assert_eq!(readiness.gravest(), None);
        assert!(!readiness.has(Trouble::ClockBehind));
    }
}
