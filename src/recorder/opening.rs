//! How the recorder comes to its state. A store that cannot be used at a start is a state of the
//! service, not its end: status requests are answered 503 meanwhile, which pays nobody, and opening is
//! tried until it works.

use std::collections::{HashMap, VecDeque};

use super::ended::EndedEarly;
use super::filling;
use super::health::{Retry, StoreHealth};
use super::spent::SpentInstants;
use super::{Recorder, Respond, TEND_MS};
use crate::readiness::{Trouble, Work};
use crate::store::{CommitNote, Event, Store, StoreError, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::lines::{Behind, TimeLines, seconds};
use crate::vote::settings::Settings;
use crate::vote::table::Cooling;
use crate::vote::time::UnixSeconds;

/// The pause before a second try, in milliseconds. It doubles with each one.
const RETRY_MIN_MS: u64 = 100;
/// The longest pause, unless a try takes longer than this: to check a large store keeps the disk busy, and at
/// most half of its time may go there.
const RETRY_MAX_MS: u64 = 5_000;

/// A process that is at its end, or `vote-status init`, may have the directory for a moment after a start, in milliseconds.
const IN_USE_PATIENCE_MS: u64 = 1_000;

/// The pause between two looks at a clock that is behind, in milliseconds.
const CLOCK_PAUSE_MS: u64 = 100;

/// What can be wrong with a store at a start.
const STORE_TROUBLES: [Trouble; 3] = [Trouble::StoreUnusable, Trouble::StoreUnavailable, Trouble::StoreInUse];

/// How far a start has come.
pub(super) enum LoadPhase {
    /// The store is to be opened, not before `next_ms` of the monotonic clock, after so many `tries`.
    Opening { next_ms: u64, tries: u32 },
    /// The store is open. Nothing is changed while the clock is behind it.
    Behind { next_ms: u64, store: Box<dyn Store>, note: Option<CommitNote> },
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
            LoadPhase::Opening { tries, .. } => {
                self.readiness.begin(Work::Opening, start_ms);
                (tries, self.open_store())
            }
            LoadPhase::Behind { mut store, note, .. } => {
                if matches!(store.tend(), Err(StoreError::Gone(_))) {
                    // Another store was put in its place: the right one, it may be.
                    drop(store);
                    (1, self.open_store())
                } else {
                    (1, Ok((store, note)))
                }
            }
        };
        match outcome.and_then(|(store, note)| self.read_in_time(store, note)) {
            Ok(None) => {}
            Ok(behind) => return Ok(behind),
            Err(error @ StoreError::InUse(_)) if tries == 0 => {
                let now_ms = self.clock.now().monotonic_ms;
                if now_ms >= IN_USE_PATIENCE_MS {
                    return Err(error);
                }
                return Ok(Some(LoadPhase::Opening { next_ms: now_ms + RETRY_MIN_MS, tries }));
            }
            Err(error @ StoreError::Settings(_)) => return Err(error),
            Err(error) => {
                self.note_unopened(&error);
                self.store = None;
                let end_ms = self.clock.now().monotonic_ms;
                let pause_ms = (RETRY_MIN_MS << tries.min(10)).min(RETRY_MAX_MS).max(end_ms - start_ms);
                return Ok(Some(LoadPhase::Opening { next_ms: end_ms + pause_ms, tries: tries + 1 }));
            }
        }
        STORE_TROUBLES.into_iter().for_each(|trouble| self.readiness.clear(trouble));
        self.readiness.end();
        let seed = std::mem::take(&mut self.seed).into_iter();
        let (changes, replies) = self.check(seed.map(|command| (command, Box::new(drop) as Respond)).collect());
        self.round(changes, replies);
        self.readiness.set_ready();
        // The end of the start is waited for, and a store that is void takes a while to write anew.
        self.next_tend_ms = self.clock.now().monotonic_ms + TEND_MS;
        Ok(None)
    }

    fn open_store(&mut self) -> Result<(Box<dyn Store>, Option<CommitNote>), StoreError> {
        let mut store = (self.open)()?;
        let note = store.note()?;
        Ok((store, note))
    }

    /// Reads the store, unless the clock is behind it.
    fn read_in_time(
        &mut self,
        mut store: Box<dyn Store>,
        note: Option<CommitNote>,
    ) -> Result<Option<LoadPhase>, StoreError> {
        let now_ms = self.clock.now().monotonic_ms;
        let Some(reading) = self.clock.read() else {
            return Ok(Some(LoadPhase::Behind { next_ms: now_ms, store, note }));
        };
        let free_from = note.map_or(UnixSeconds(0), |note| note.spent_until);
        let started = TimeLines::start(note.map(|note| note.time), free_from, reading, self.accepts.clock);
        if let Some(note) = note.filter(|note| note.settings != self.settings) {
            self.check_settings(&mut *store, note, started)?;
        }
        let behind_us = match started {
            Ok((lines, then)) => {
                self.readiness.clear(Trouble::ClockBehind);
                return self.read(store, note, lines, then).map(|()| None);
            }
            Err(Behind(behind_us)) => behind_us,
        };
        let message = format!(
            "the clock says {}, and the store was used at {}, {} s later: set the clock right, and this goes on by itself; where the later time was the wrong one, start once with --accept-clock",
            seconds(reading.wall_us),
            seconds(reading.wall_us + behind_us),
            behind_us / 1_000_000,
        );
        STORE_TROUBLES.into_iter().for_each(|trouble| self.readiness.clear(trouble));
        if !self.readiness.has(Trouble::ClockBehind) {
            self.readiness.begin(Work::ClockWait, now_ms);
        }
        self.readiness.note(Trouble::ClockBehind, &message, now_ms);
        Ok(Some(LoadPhase::Behind { next_ms: now_ms + CLOCK_PAUSE_MS, store, note }))
    }

    /// A store with a live vote takes no other settings, unless that is asked for where the time is certain: by a clock
    /// that is wrong, votes would be forgotten for good. `started` are the lines of this start.
    fn check_settings(
        &self,
        store: &mut dyn Store,
        note: CommitNote,
        started: Result<(TimeLines, Option<TimeLines>), Behind>,
    ) -> Result<(), StoreError> {
        let (was, settings) = (note.settings, self.settings);
        if !store.has_vote(was.cooldown.first_live(TimeLines::certain_of_start(note.time, started)))? {
            return Ok(());
        }
        if !self.accepts.settings {
            return Err(StoreError::Settings(format!(
                "the store was made with {was}, and this start has {settings}: start with {was}, or once with --accept-settings to give the store {settings} for good"
            )));
        }
        if self.accepts.clock || started.is_ok_and(|(lines, _)| lines.is_one()) {
            return Ok(());
        }
        Err(StoreError::Settings(format!(
            "the store takes the settings {settings} only where the time is certain, as votes would be forgotten by a clock that is wrong: start with {was}, stop in order, and start with --accept-settings within a minute; or see that the clock is right, and give --accept-clock too"
        )))
    }

    fn note_unopened(&self, error: &StoreError) {
        self.readiness.end();
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

    /// Reads all of the store, into a table apart: what fails half-way leaves nothing behind. Then the time goes on from
    /// the note.
    fn read(
        &mut self,
        mut store: Box<dyn Store>,
        note: Option<CommitNote>,
        lines: TimeLines,
        then: Option<TimeLines>,
    ) -> Result<(), StoreError> {
        let start = self.clock.now();
        let was = note.map_or(self.settings, |note| note.settings);
        // Under another length, what was shown as ended has to stay so, and what the certain line has ended.
        let ended_by =
            if was == self.settings { lines.certain() } else { then.unwrap_or(lines).now().max(lines.certain()) };
        let first = was.cooldown.first_live(ended_by);
        let mut table = self.live.table.view().shadow();
        let mut reading = Reading {
            was,
            settings: self.settings,
            first,
            servers: Snapshot::default(),
            conflict: None,
            unlisted: HashMap::new(),
            forgotten: 0,
            taken: 0,
        };
        self.readiness.begin_load();
        filling::fill(&mut table, |put| {
            store.replay(first, &mut |event| {
                self.readiness.add_loaded_rows(1);
                match event {
                    Event::Server(server, token) => reading.server(server, token),
                    Event::Vote(vote) => reading.vote(vote).into_iter().for_each(&mut *put),
                    Event::VoteRemoved(_) | Event::ServerRemoved(_) => {}
                }
            })
        })?;
        let Reading { servers, conflict, unlisted, forgotten, taken, .. } = reading;
        if let Some(server) = conflict {
            return Err(StoreError::Unusable(format!("two servers have one token, one of them is {server}")));
        }
        self.live.table.exchange(&mut table);
        self.live.publish(servers);
        (self.removed, self.relistings) = (unlisted, VecDeque::new());
        let commit_number = store.commit_number();
        // Where an earlier try of this start has failed, the next commit tells whether the store works.
        if !matches!(self.health, StoreHealth::Well { .. }) {
            self.health = StoreHealth::Failing(Retry::default());
        }
        // From here on the store may be written to.
        self.store = Some(store);
        self.lines = lines;
        self.spent = SpentInstants::before_start(note.map_or(UnixSeconds(0), |note| note.spent_until));
        self.loaded_at_ms = start.monotonic_ms;
        self.show_time();
        // Another length moves the end of each; in a shorter network some give way to the latest.
        let held = if was.cooldown == self.settings.cooldown { self.live.table.view().len() } else { 0 };
        self.keep_start(was, [taken.saturating_sub(held), forgotten], then)?;
        match note {
            Some(note) => {
                let at = seconds(1_000 * note.time.wall_ms.cast_signed());
                log::info!("the store was last written at {at}: commit {commit_number}");
            }
            None => log::info!("the store is new: no earlier vote counts"),
        }
        self.live.counters.load_ms.set(self.clock.now().monotonic_ms - start.monotonic_ms);
        Ok(())
    }

    /// Makes durable what this start has changed, before an answer is given by it: other settings, and a time that goes
    /// back or counts as certain. The lines are noted in any case, if the store takes that, or soon.
    fn keep_start(
        &mut self,
        was: Settings,
        [moved, forgotten]: [usize; 2],
        then: Option<TimeLines>,
    ) -> Result<(), StoreError> {
        let settings = self.settings;
        let unavailable = |what: &str| StoreError::Unavailable(format!("the store cannot keep {what}"));
        if was != settings {
            let vote = |entry| Some(StoredVote::of(entry, settings.cooldown));
            let kept = self.renew(self.lines.note(), &vote);
            kept.map_err(|_| unavailable(&format!("the settings {settings}")))?;
            self.live.counters.end(EndedEarly { settings: (moved + forgotten) as u64, ..EndedEarly::default() });
            log::warn!(
                "the store has the settings {settings} for good (--accept-settings, or without a live vote); it had {was}; {moved} cooldowns end with that, or at another time{}",
                if forgotten > 0 {
                    format!(", and {forgotten} IPv6 votes are forgotten: it knew their shorter networks only")
                } else {
                    String::new()
                }
            );
        }
        if let Some(lines) = then {
            self.change_lines(lines).map_err(|_| unavailable("the time of this start"))?;
        }
        if self.accepts.clock {
            log::warn!("the clock counts as certain (--accept-clock): leave the option out from now on");
        }
        if !self.lines.is_one() {
            self.say_lines();
        }
        // A store that is void takes a while to write anew, and the end of the start is waited for.
        if !self.is_store_void() {
            self.note_time();
        }
        Ok(())
    }
}

/// What a load has read so far.
struct Reading {
    was: Settings,
    settings: Settings,
    /// Earlier votes have ended. A store of 1.0.0 gives them all the same.
    first: UnixSeconds,
    servers: Snapshot,
    /// A server with another one's token.
    conflict: Option<ServerId>,
    /// Servers that are not listed and have votes, and until when.
    unlisted: HashMap<ServerId, UnixSeconds>,
    /// Votes of IPv6 networks that are shorter than those of the settings.
    forgotten: usize,
    /// Votes that were taken.
    taken: usize,
}

impl Reading {
    fn server(&mut self, server: ServerId, token: Token) {
        if !self.servers.insert(server, token) {
            self.conflict = Some(server);
        }
    }

    /// What comes into the table of this vote.
    fn vote(&mut self, vote: StoredVote) -> Option<Cooling> {
        if vote.voted_at < self.first {
            return None;
        }
        let is_v6 = matches!(vote.pair.address, VoterAddress::V6(_));
        if is_v6 && self.was.ipv6_prefix.bits() < self.settings.ipv6_prefix.bits() {
            self.forgotten += 1;
            return None;
        }
        let entry: Cooling = vote.cooling(self.settings.cooldown);
        if !self.servers.contains(vote.pair.server) {
            let until = self.unlisted.entry(vote.pair.server).or_insert(entry.expires_at);
            *until = entry.expires_at.max(*until);
        }
        self.taken += 1;
        Some(entry)
    }
}
