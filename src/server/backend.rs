//! The write side in its two forms: a store of this process alone, or one that nodes share. The
//! rest of the program does not see the difference.

use std::sync::Arc;

use super::Config;
use super::threads::ThreadKind;
use crate::clock::Clock;
#[cfg(feature = "redis")]
use crate::cluster::{Node, RedisStore};
use crate::recorder::counters::RecorderCounters;
use crate::recorder::live_state::LiveState;
use crate::recorder::shared::SharedStore;
use crate::recorder::{Accepts, OpenStore, Recorder, RecorderHandle, Tuning};
use crate::store::StoreError;
use crate::vote::directory::DirectoryView;
use crate::vote::table::CooldownView;
use crate::waiting::WaitingList;
use crate::watch::WatchBoard;

/// The keeper of votes and servers.
pub enum StoreChoice {
    /// This process alone.
    Own {
        /// Opens the store.
        open: OpenStore,
        /// The refusals that this start overrides.
        accepts: Accepts,
    },
    /// A store that other nodes use as well.
    #[cfg(feature = "redis")]
    Shared(Box<RedisStore>),
}

/// Read-only views of the state, for the services that answer from it.
#[derive(Clone)]
pub(super) struct Views {
    pub(super) directory: DirectoryView,
    pub(super) cooldowns: CooldownView,
    pub(super) counters: Arc<RecorderCounters>,
    pub(super) waiting: WaitingList,
    /// The watchers of questions and votes.
    pub(super) board: WatchBoard,
    /// The view of a store that other nodes use as well.
    pub(super) shared: Option<Arc<dyn SharedStore>>,
}

impl Views {
    fn of(live: &LiveState, shared: Option<Arc<dyn SharedStore>>) -> Self {
        Self {
            directory: live.directory.view(),
            cooldowns: live.table.view(),
            counters: Arc::clone(&live.counters),
            waiting: live.waiting.clone(),
            board: live.board.clone(),
            shared,
        }
    }
}

/// The work of a thread.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// Reads the state and marks the service as ready. Gives the recorder's work from then on, which ends once no
/// handle is left.
pub(super) type Load = Box<dyn FnOnce() -> Result<Work, StoreError> + Send>;

/// The write side, before its threads are started.
pub(super) struct WriteSide {
    /// The views of the state.
    pub(super) views: Views,
    /// Takes commands. The recorder ends once this and its clones are dropped.
    pub(super) handle: RecorderHandle,
    pub(super) load: Load,
    /// The threads that the recorder needs besides its own.
    pub(super) helpers: Vec<(ThreadKind, Work)>,
}

impl WriteSide {
    /// A recorder with an empty state. A demonstration's `seed` goes into a store of this process alone.
    pub(super) fn new(store: StoreChoice, clock: &Clock, config: &mut Config) -> Self {
        let (settings, readiness, seed) = (config.settings, &config.readiness, std::mem::take(&mut config.seed));
        match store {
            StoreChoice::Own { open, accepts } => {
                let tuning = Tuning::default();
                let (mut recorder, handle) =
                    Recorder::new(clock.clone(), settings, accepts, readiness.clone(), tuning, open);
                let views = Views::of(recorder.live(), None);
                let load = move || {
                    recorder.load(seed)?;
                    Ok(Box::new(move || recorder.run()) as Work)
                };
                Self { views, handle, load: Box::new(load), helpers: Vec::new() }
            }
            #[cfg(feature = "redis")]
            StoreChoice::Shared(store) => {
                let Node { mut recorder, handle, view, feed, votes, submitter } =
                    store.open(clock, settings, readiness.clone());
                let views = Views::of(recorder.live(), Some(view));
                let load = move || {
                    recorder.load()?;
                    Ok(Box::new(move || recorder.run()) as Work)
                };
                let helpers =
                    vec![(ThreadKind::Feed, feed), (ThreadKind::Votes, votes), (ThreadKind::Submitter, submitter)];
                Self { views, handle, load: Box::new(load), helpers }
            }
        }
    }
}
