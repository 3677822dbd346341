//! How the recorder comes to its state. A store that cannot be used at a start is a state of the
//! service, not its end: status requests are answered 503 meanwhile, which pays nobody, and opening is
//! tried until it works.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::removal::Removals;
use super::{Place, Recorder, Request};
use crate::readiness::Trouble;
use crate::recorder::command::Command;
use crate::recorder::gone::Gone;
use crate::store::{Address, Event, StoreError, StoredVote};
use crate::vote::directory::Snapshot;
use crate::vote::table::{Cooling, Pair};

/// The pause before a second try, in milliseconds. It doubles with each one.
const RETRY_MIN_MS: u64 = 100;
/// Up to this, or to the time that a try takes: to check a large store takes a while, and at most half
/// of the disk's time may go there.
const RETRY_MAX_MS: u64 = 5_000;

/// What can be wrong with a store at a start.
const STORE_TROUBLES: [Trouble; 3] = [Trouble::StoreUnusable, Trouble::StoreUnavailable, Trouble::StoreInUse];

impl Recorder {
    /// Opens the store, reads it into table and directory, records `seed`, and says that the service
    /// is ready. Where the store cannot be used that is noted as a trouble, and tried again.
    ///
    /// # Errors
    /// [`StoreError::InUse`] at the first try: who was started twice has to know.
    pub fn load(&mut self, seed: Vec<Command>) -> Result<(), StoreError> {
        let mut pause_ms = RETRY_MIN_MS;
        let mut is_first = true;
        loop {
            let start_ms = self.clock.now().monotonic_ms;
            match self.read() {
                Ok(()) => break,
                Err(error @ StoreError::InUse(_)) if is_first => return Err(error),
                Err(error) => self.note_unopened(&error),
            }
            self.store = None;
            let took_ms = self.clock.now().monotonic_ms - start_ms;
            thread::sleep(Duration::from_millis(pause_ms.max(took_ms)));
            pause_ms = (pause_ms * 2).min(RETRY_MAX_MS);
            is_first = false;
        }
        STORE_TROUBLES.into_iter().for_each(|trouble| self.readiness.settle(trouble));
        for command in seed {
            let place = Place { lines: 0, waiting: Arc::default() };
            self.record(Request { command, respond: Box::new(drop), _place: place });
        }
        self.readiness.set_ready();
        Ok(())
    }

    fn note_unopened(&self, error: &StoreError) {
        let (trouble, remedy) = match error {
            StoreError::InUse(_) => (Trouble::StoreInUse, ""),
            StoreError::Unusable(_) => (Trouble::StoreUnusable, ""),
            StoreError::Unavailable(_) | StoreError::Gone(_) | StoreError::Full(_) | StoreError::InDoubt(_) => (
                Trouble::StoreUnavailable,
                ": see that the disk is well, mounted, not full, and may be read and written by this user",
            ),
        };
        STORE_TROUBLES.into_iter().filter(|other| *other != trouble).for_each(|other| self.readiness.settle(other));
        self.readiness.note(trouble, &format!("{error}{remedy}"), self.clock.now().monotonic_ms);
    }

    /// Reads all of the store, into a table apart: what fails half-way leaves nothing behind.
    fn read(&mut self) -> Result<(), StoreError> {
        let start = self.clock.now();
        let now = start.wall;
        let store = self.store.insert((self.open)()?);
        let (cooldown, readiness) = (self.cooldown, &self.readiness);
        readiness.begin_load();
        let mut table = self.table.view().shadow();
        let mut loader = table.loader();
        let mut servers = Snapshot::default();
        let mut conflict = None;
        let since = now.minus(cooldown.seconds());
        let (mut cut, mut unlisted) = (Vec::new(), Vec::new());
        store.replay(since, &mut |event| {
            readiness.add_loaded_rows(1);
            match event {
                Event::Server(server, token) => {
                    if !servers.insert(server, token) {
                        conflict = Some(server);
                    }
                }
                Event::Vote(StoredVote { server, address: Address::V4(address), voted_at }) => {
                    let kept = Cooling { pair: Pair { server, address }, expires_at: cooldown.expires_at(voted_at) };
                    if !servers.contains(server) {
                        // The rest of a server that was struck off, when the process was killed between two parts.
                        unlisted.push(kept);
                        return;
                    }
                    // The clock may have gone back while nobody ran.
                    let expires_at = cooldown.held_at(kept.expires_at, now);
                    if expires_at != kept.expires_at {
                        cut.push(kept);
                    }
                    if now < expires_at {
                        loader.put(Cooling { expires_at, ..kept });
                    }
                }
                Event::VoteGone(_) | Event::ServerGone(_) => {}
            }
        })?;
        loader.finish();
        if let Some(server) = conflict {
            return Err(StoreError::Unusable(format!("two servers have one token, one of them is {server}")));
        }
        self.gone = Gone::before(store.latest_gone()?);
        self.removals = Removals::default();
        self.removals.add(unlisted);
        self.table.exchange(&mut table);
        self.note_cut(&cut, now);
        self.publish(servers);
        self.counters.load_ms.set(self.clock.now().monotonic_ms - start.monotonic_ms);
        Ok(())
    }
}
