//! How the recorder comes to its state. A store that cannot be used at a start is a state of the
//! service, not its end: status requests are answered 503 meanwhile, which pays nobody, and opening is
//! tried until it works.

use super::cut::CutVotes;
use super::removal::Removals;
use super::timekeeping::{is_large, seconds};
use super::{Recorder, Respond, TEND_MS};
use crate::readiness::Trouble;
use crate::recorder::cancelled::CancelledVotes;
use crate::store::{Cut, Event, Kept, Past, Store, StoreError, StoredVote};
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::{Cooling, Loader};
use crate::vote::time::{Cooldown, UnixSeconds};

/// The pause before a second try, in milliseconds. It doubles with each one.
const RETRY_MIN_MS: u64 = 100;
/// The longest pause, unless a try takes longer than this: to check a large store keeps the disk busy, and at
/// most half of its time may go there.
const RETRY_MAX_MS: u64 = 5_000;

/// A clock that is behind the store by no more than this, in milliseconds, is being slewed, and is taken as it
/// is.
const BEHIND_MAX_MS: i64 = 1_000;
/// The pause between two looks at a clock that is behind, in milliseconds.
const CLOCK_PAUSE_MS: u64 = 100;

/// What can be wrong with a store at a start.
const STORE_TROUBLES: [Trouble; 3] = [Trouble::StoreUnusable, Trouble::StoreUnavailable, Trouble::StoreInUse];

/// How far a start has come.
pub(super) enum LoadPhase {
    /// The store is to be opened, not before `next_ms` of the monotonic clock, after so many `tries`.
    Opening { next_ms: u64, tries: u32 },
    /// The store is open. Nothing is changed while the clock is behind it.
    Behind { next_ms: u64, store: Box<dyn Store>, past: Past },
}

impl Default for LoadPhase {
    fn default() -> Self {
        Self::Opening { next_ms: 0, tries: 0 }
    }
}

impl LoadPhase {
    /// When to go on, by the monotonic clock.
    pub(super) const fn next_ms(&self) -> u64 {
        match self {
            Self::Opening { next_ms, .. } | Self::Behind { next_ms, .. } => *next_ms,
        }
    }
}

impl Recorder {
    /// Goes on with a start: opens the store, waits for a clock that is behind, reads the state, records the
    /// seed, and says that the service is ready (`None`). Where the store cannot be used that is noted as a
    /// trouble, and tried again.
    ///
    /// # Errors
    /// See [`Recorder::step`].
    pub(super) fn go_on(&mut self, start: LoadPhase) -> Result<Option<LoadPhase>, StoreError> {
        let start_ms = self.clock.now().monotonic_ms;
        if start_ms < start.next_ms() {
            return Ok(Some(start));
        }
        let (tries, outcome) = match start {
            LoadPhase::Opening { tries, .. } => (tries, self.open_store()),
            LoadPhase::Behind { store, past, .. } => {
                self.clock.adjust(self.clock.drift_ms());
                (1, Ok((store, past)))
            }
        };
        match outcome.and_then(|(store, past)| self.read_in_time(store, past)) {
            Ok(None) => {}
            Ok(behind) => return Ok(behind),
            Err(error @ StoreError::InUse(_)) if tries == 0 => return Err(error),
            Err(error @ StoreError::Settings(_)) => return Err(error),
            Err(error) => {
                self.note_unopened(&error);
                // The next try begins with the system's clock.
                self.clock.adjust(self.clock.drift_ms());
                (self.store, self.provisional, self.cut) = Default::default();
                self.owed.clear();
                self.owed_drop = None;
                let end_ms = self.clock.now().monotonic_ms;
                let pause_ms = (RETRY_MIN_MS << tries.min(10)).min(RETRY_MAX_MS).max(end_ms - start_ms);
                return Ok(Some(LoadPhase::Opening { next_ms: end_ms + pause_ms, tries: tries + 1 }));
            }
        }
        STORE_TROUBLES.into_iter().for_each(|trouble| self.readiness.clear(trouble));
        let seed = std::mem::take(&mut self.seed).into_iter();
        let (changes, replies) = self.check(seed.map(|command| (command, Box::new(drop) as Respond)).collect());
        self.round(changes, replies);
        self.readiness.set_ready();
        // The end of the start is waited for, and a store that is void takes a while to write anew.
        self.next_tend_ms = self.clock.now().monotonic_ms + TEND_MS;
        Ok(None)
    }

    fn open_store(&mut self) -> Result<(Box<dyn Store>, Past), StoreError> {
        let mut store = (self.open)()?;
        let past = store.past()?;
        Ok((store, past))
    }

    /// Reads the store, unless the clock is behind it.
    fn read_in_time(&mut self, store: Box<dyn Store>, past: Past) -> Result<Option<LoadPhase>, StoreError> {
        self.check_settings(&past)?;
        let (now, settled_ms) = (self.clock.now(), past.kept.as_ref().map_or(0, |kept| kept.settled_ms));
        let behind_ms = settled_ms.saturating_sub(self.clock.wall_ms());
        if behind_ms <= BEHIND_MAX_MS.unsigned_abs() || self.accepts.clock {
            self.readiness.clear(Trouble::ClockBehind);
            return self.read(store, &past).map(|()| None);
        }
        let message = format!(
            "the clock says {}, and the store was used at {}, {} s later: set the clock right, and this goes on by itself; where the later time was the wrong one, start once with --accept-clock",
            now.wall,
            seconds(settled_ms),
            behind_ms.div_ceil(1_000),
        );
        STORE_TROUBLES.into_iter().for_each(|trouble| self.readiness.clear(trouble));
        self.readiness.note(Trouble::ClockBehind, &message, now.monotonic_ms);
        Ok(Some(LoadPhase::Behind { next_ms: now.monotonic_ms + CLOCK_PAUSE_MS, store, past }))
    }

    /// A store with a live vote takes no other settings, unless that was asked for.
    fn check_settings(&self, past: &Past) -> Result<(), StoreError> {
        let Some(Kept { settings: was, settled_ms, .. }) = past.kept else { return Ok(()) };
        let (settings, now) = (self.settings(), self.clock.now().wall.max(seconds(settled_ms)));
        // By its row: where a step back has cut it, one that was cast since may be live.
        let has_live = past.newest.is_some_and(|newest| now < was.cooldown.expires_at(newest));
        if was == settings || !has_live || self.accepts.settings {
            return Ok(());
        }
        Err(StoreError::Settings(format!(
            "the store was made with {was}, and this start has {settings}: start with {was}, or once with --accept-settings to give the store {settings} for good"
        )))
    }

    fn note_unopened(&self, error: &StoreError) {
        let (trouble, remedy) = match error {
            StoreError::InUse(_) => (Trouble::StoreInUse, ""),
            StoreError::Unusable(_) | StoreError::Settings(_) => (Trouble::StoreUnusable, ""),
            StoreError::Unavailable(_) | StoreError::Gone(_) | StoreError::Full(_) | StoreError::InDoubt(_) => (
                Trouble::StoreUnavailable,
                ": see that the disk is well, mounted, not full, and may be read and written by this user",
            ),
        };
        STORE_TROUBLES.into_iter().filter(|other| *other != trouble).for_each(|other| self.readiness.clear(other));
        self.readiness.note(trouble, &format!("{error}{remedy}"), self.clock.now().monotonic_ms);
    }

    /// Reads all of the store, into a table apart: what fails half-way leaves nothing behind. It is read as of the
    /// time that the store knows, and then the clock is followed.
    fn read(&mut self, mut store: Box<dyn Store>, past: &Past) -> Result<(), StoreError> {
        let start = self.clock.now();
        let settings = self.settings();
        let was = past.kept.as_ref().map_or(settings, |kept| kept.settings);
        let is_changed = was != settings;
        // What was over under the old length must not come back under a longer one: a clock that is ahead is
        // believed then.
        let over_by = match past.kept.as_ref().map(|kept| seconds(kept.settled_ms)) {
            Some(settled) if is_changed => settled.max(start.wall),
            Some(settled) => settled,
            None => start.wall,
        };
        let over_until = was.cooldown.min(settings.cooldown).voted_at(over_by);
        let since = if is_changed { UnixSeconds(0) } else { over_until };
        let (kept, cooldown, mut table) = (past.kept.as_ref(), self.cooldown, self.live.table.view().shadow());
        let mut reading = Reading::new(table.loader(), kept, over_until, is_changed);
        let mut cancelled = CancelledVotes::default();
        self.readiness.begin_load();
        store.replay(since, &mut |event| {
            self.readiness.add_loaded_rows(1);
            match event {
                Event::Server(server, token) => reading.server(server, token),
                Event::Vote(row) => reading.vote(row, cooldown),
                Event::Spent(vote) => {
                    cancelled.note(StoredVote { pair: self.live.table.looked_up(vote.pair), ..vote });
                }
                Event::VoteRemoved(_) | Event::ServerRemoved(_) => {}
            }
        })?;
        let Reading { loader, servers, conflict, unlisted, mut removed, cut, .. } = reading;
        let superseded = loader.finish();
        if let Some(server) = conflict {
            return Err(StoreError::Unusable(format!("two servers have one token, one of them is {server}")));
        }
        (self.cancelled, self.removals) = (cancelled, Removals::default());
        self.removals.add(unlisted);
        // From here on the store may be written to.
        self.store = Some(store);
        self.live.table.exchange(&mut table);
        self.live.publish(servers);
        // Of two votes of one network the earlier goes: cancelling the later one must not bring it back.
        removed.extend(superseded.into_iter().map(|entry| StoredVote::of(entry, cooldown)));
        self.cut = CutVotes::before(kept.map_or(&[], |kept| kept.cuts.as_slice()));
        self.kept_by = was;
        if is_changed {
            log::warn!(
                "the store has the settings {settings} for good (--accept-settings, or without a live vote); it had {was}, and {} votes have gone with that",
                removed.len()
            );
        }
        self.owed.extend(removed.into_iter().map(Event::VoteRemoved));
        self.owe_cut(cut.iter().map(|row| row.cooling(cooldown)));
        if let Some(kept) = kept {
            self.take_clock(kept);
        }
        // Rows of a time that nobody kept.
        let now = self.clock.now().wall;
        self.cut(Cut { beyond: now, to: now });
        self.keep_settings(is_changed)?;
        self.live.counters.load_ms.set(self.clock.now().monotonic_ms - start.monotonic_ms);
        Ok(())
    }

    /// Keeps accepted settings before an answer is given under them: nothing may come back under the old ones. The commit
    /// that kept them may be the one whose sync failed in the try before: what the file says of them does not count then.
    fn keep_settings(&mut self, is_changed: bool) -> Result<(), StoreError> {
        let is_in_doubt = self.accepts.settings && self.is_store_void();
        if (is_changed || is_in_doubt) && self.write(Vec::new()).is_err() {
            let settings = self.settings();
            return Err(StoreError::Unavailable(format!("the store cannot keep the settings {settings}")));
        }
        Ok(())
    }

    /// Goes from the time that was shown last to that of the clock, as by a step.
    fn take_clock(&mut self, kept: &Kept) {
        let wall_ms = self.clock.wall_ms().cast_signed();
        let (shown_ms, settled_ms) = (kept.shown_ms.cast_signed(), kept.settled_ms.cast_signed());
        self.clock.adjust(shown_ms - wall_ms);
        if is_large(shown_ms - settled_ms) {
            self.provisional = self.provisional_step(settled_ms - self.clock.now().monotonic_ms.cast_signed(), true);
        }
        let drift_ms = wall_ms - self.clock.wall_ms().cast_signed();
        let cut = if is_large(drift_ms) {
            self.step_clock(drift_ms)
        } else {
            self.clock.follow(drift_ms * 1_000);
            0
        };
        if settled_ms - wall_ms > BEHIND_MAX_MS {
            let (now, settled) = (self.clock.now().wall, seconds(kept.settled_ms));
            log::warn!(
                "the clock is taken as it is (--accept-clock): it says {now}, and the store was used at {settled}, {} s later; {cut} cooldowns were cut to their length, and what had ended by then stays ended; leave the option out from now on",
                (settled_ms - wall_ms).unsigned_abs().div_ceil(1_000)
            );
        }
        if drift_ms < -BEHIND_MAX_MS {
            // What this step has cut stays cut at the next start, whatever the clock says by then.
            self.note_time();
        }
    }
}

/// What a load has read so far.
struct Reading<'t> {
    loader: Loader<'t>,
    kept: Option<&'t Kept>,
    /// Votes are left out up to this one.
    over_until: UnixSeconds,
    /// Their rows have to go: under a longer length they would be live again.
    over_goes: bool,
    servers: Snapshot,
    /// A server with another one's token.
    conflict: Option<ServerId>,
    /// Votes of removed servers that are left where the process was killed between two parts.
    unlisted: Vec<Cooling>,
    /// Rows that have to go.
    removed: Vec<StoredVote>,
    /// Rows of votes that a step back had cut.
    cut: Vec<StoredVote>,
}

impl<'t> Reading<'t> {
    fn new(loader: Loader<'t>, kept: Option<&'t Kept>, over_until: UnixSeconds, over_goes: bool) -> Self {
        let (servers, unlisted, removed, cut) = Default::default();
        Self { loader, kept, over_until, over_goes, servers, conflict: None, unlisted, removed, cut }
    }

    fn server(&mut self, server: ServerId, token: Token) {
        if !self.servers.insert(server, token) {
            self.conflict = Some(server);
        }
    }

    fn vote(&mut self, row: StoredVote, cooldown: Cooldown) {
        let vote = StoredVote { voted_at: self.kept.map_or(row.voted_at, |kept| kept.cut(row.voted_at)), ..row };
        let is_over = vote.voted_at <= self.over_until;
        if is_over && self.over_goes {
            self.removed.push(row);
        } else if vote != row {
            self.cut.push(row);
        }
        if is_over {
            return;
        }
        if self.servers.contains(vote.pair.server) {
            self.loader.put(vote.cooling(cooldown));
        } else {
            self.unlisted.push(vote.cooling(cooldown));
        }
    }
}
