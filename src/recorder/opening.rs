//! How the recorder loads its state. A store that cannot be used at a start does not end the service. Status requests
//! are answered 503 meanwhile, which pays no player, and the recorder retries until the store opens.

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

/// The pause before the second try, in milliseconds. It doubles with each further try.
const RETRY_MIN_MS: u64 = 100;
/// The longest pause between two tries, in milliseconds. A try that took longer is followed by a pause of its own
/// length: checking a large store takes at most half of the disk's time.
const RETRY_MAX_MS: u64 = 5_000;

/// How long a start waits for the data directory, in milliseconds: an ending process or `vote-status init` may still have it.
const IN_USE_PATIENCE_MS: u64 = 1_000;

/// The pause between two looks at a clock that is behind, in milliseconds.
const CLOCK_PAUSE_MS: u64 = 100;

/// The troubles with a store at a start.
const STORE_TROUBLES: [Trouble; 3] = [Trouble::StoreUnusable, Trouble::StoreUnavailable, Trouble::StoreInUse];

/// How far a start has come.
pub(super) enum LoadPhase {
    /// The store is not open yet. The next try is at `next_ms` of the monotonic clock, after `tries` failed ones.
    Opening { next_ms: u64, tries: u32 },
    /// The store is open, and the clock is behind it. Nothing changes until the clock is right.
    Behind { next_ms: u64, store: Box<dyn Store>, note: Option<CommitNote> },
}

impl Default for LoadPhase {
    fn default() -> Self {
        Self::Opening { next_ms: 0, tries: 0 }
    }
}

impl LoadPhase {
    /// When the start goes on, in milliseconds of the monotonic clock.
    pub(super) const fn next_ms(&self) -> u64 {
        match self {
            Self::Opening { next_ms, .. } | Self::Behind { next_ms, .. } => *next_ms,
        }
    }
}

impl Recorder {
    /// Continues a start, and gives `None` once the service is ready. It opens the store, waits for a clock that is behind,
    /// reads the state and records the seed. A store that cannot be used is noted as a trouble, and tried again.
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
            LoadPhase::Behind { mut store, note, .. } => {
                if matches!(store.tend(), Err(StoreError::Gone(_))) {
                    // Another store is in its place now, perhaps the right one.
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
        self.readiness.set_loaded();
        // The service waits for the end of the start. A void store takes a while to write anew, so that comes later.
        self.next_tend_ms = self.clock.now().monotonic_ms + TEND_MS;
        Ok(None)
    }

    fn open_store(&mut self) -> Result<(Box<dyn Store>, Option<CommitNote>), StoreError> {
        self.readiness.begin(Work::Opening, self.clock.now().monotonic_ms);
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
                self.readiness.begin(Work::Opening, now_ms);
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
        self.readiness.begin(Work::ClockWait, now_ms);
        self.readiness.note(Trouble::ClockBehind, &message, now_ms);
        Ok(Some(LoadPhase::Behind { next_ms: now_ms + CLOCK_PAUSE_MS, store, note }))
    }

    /// Refuses other settings for a store with a live vote, unless the operator accepts them and the time is certain.
    /// With a wrong clock, the change would forget votes for good. `started` are the lines of this start.
    fn check_settings(
        &self,
        store: &mut dyn Store,
        note: CommitNote,
        started: Result<(TimeLines, Option<TimeLines>), Behind>,
    ) -> Result<(), StoreError> {
        let (was, settings) = (note.settings, self.settings);
        if !store.has_vote(was.cooldown.first_live(TimeLines::ended_by_at_start(note.time, started)))? {
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

    /// Reads the whole store into a separate table, so that a failure half-way leaves nothing behind. Then the time
    /// continues from the note.
    fn read(
        &mut self,
        mut store: Box<dyn Store>,
        note: Option<CommitNote>,
        lines: TimeLines,
        then: Option<TimeLines>,
    ) -> Result<(), StoreError> {
        let start = self.clock.now();
        let was = note.map_or(self.settings, |note| note.settings);
        // With another cooldown length, votes that were shown as ended, or that the certain line has ended, stay ended.
        let ended_by =
            if was == self.settings { lines.certain() } else { then.unwrap_or(lines).now().max(lines.certain()) };
        let first = was.cooldown.first_live(ended_by);
        let mut table = self.live.table.view().shadow();
        let mut reading = Reading {
            was,
            settings: self.settings,
            first,
            shown: lines.now(),
            spent: SpentInstants::before_start(note.map_or(UnixSeconds(0), |note| note.spent_until)),
            servers: Snapshot::default(),
            conflict: None,
            unlisted: HashMap::new(),
            forgotten: 0,
            taken: 0,
        };
        self.readiness.begin_load();
        filling::fill(&mut table, |put| {
            store.replay(first.min(lines.now()), &mut |event| {
                self.readiness.add_loaded_rows(1);
                match event {
                    Event::Server(server, token) => reading.server(server, token),
                    Event::Vote(vote) => reading.vote(vote).into_iter().for_each(&mut *put),
                    Event::VoteRemoved(_) | Event::ServerRemoved(_) => {}
                }
            })
        })?;
        let Reading { spent, servers, conflict, unlisted, forgotten, taken, .. } = reading;
        if let Some(server) = conflict {
            return Err(StoreError::Unusable(format!("two servers have one token, one of them is {server}")));
        }
        self.live.table.exchange(&mut table);
        self.live.publish(servers);
        (self.removed, self.relistings) = (unlisted, VecDeque::new());
        let commit_number = store.commit_number();
        // After a failed try of this start, the next commit shows whether the store works.
        if !matches!(self.health, StoreHealth::Well { .. }) {
            self.health = StoreHealth::Failing(Retry::default());
        }
        // From here on, the recorder may write to the store.
        self.store = Some(store);
        self.lines = lines;
        self.spent = spent;
        self.load_began_ms = start.monotonic_ms;
        self.show_time();
        // Another length moves the end of every cooldown. With a shorter prefix, networks merge, and only the latest
        // vote stays.
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

    /// Makes the changes of this start durable before an answer depends on them: other settings, and a time that goes
    /// back or counts as certain. In any case the lines are noted, now or soon after, as the store allows.
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
        // A void store takes a while to write anew, and the service waits for the end of the start.
        if !self.is_store_void() {
            self.note_time();
        }
        Ok(())
    }
}

/// The progress of a load.
struct Reading {
    was: Settings,
    settings: Settings,
    /// Votes before this instant have ended. A store of 1.0.0 returns them all the same.
    first: UnixSeconds,
    /// The time shown. It stands still behind the line that has ended votes where the start accepts an earlier clock.
    shown: UnixSeconds,
    /// The instants of votes that have ended, and that a new vote could get.
    spent: SpentInstants,
    servers: Snapshot,
    /// A server with the token of another server.
    conflict: Option<ServerId>,
    /// Unlisted servers that have votes, and until when.
    unlisted: HashMap<ServerId, UnixSeconds>,
    /// Votes dropped because their IPv6 prefix is shorter than that of the settings.
    forgotten: usize,
    /// Votes that came into the table.
    taken: usize,
}

impl Reading {
    fn server(&mut self, server: ServerId, token: Token) {
        if !self.servers.insert(server, token) {
            self.conflict = Some(server);
        }
    }

    /// The table entry of this vote; `None` where the vote is dropped.
    fn vote(&mut self, vote: StoredVote) -> Option<Cooling> {
        if vote.voted_at < self.first {
            if vote.voted_at >= self.shown {
                self.spent.note(vote);
            }
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
