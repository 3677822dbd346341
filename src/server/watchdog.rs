//! Shows the service manager that the loops turn (`WatchdogSec=`). The main thread asks each loop by a letter, which
//! the loop answers in its next turn. Once all have answered, the main thread tells the manager. The recorder and the
//! disk have no part: a disk that hangs ends no process that answers status requests.

use std::{env, process};

use super::notify;
use super::threads::Serving;
use crate::net::mailbox::{Letter, TurnMark};

/// The longest pause of the main thread between two looks, in milliseconds: troubles are told this late at most.
const MANAGER_MS: u64 = 1_000;
/// Number of reports within the time that the manager allows: one late report ends nothing.
const LOOKS: u64 = 4;

/// The service manager's period, and the state of the loops.
pub(super) struct Watchdog {
    /// The least time between two reports, in milliseconds; `None` where the manager does not watch.
    period_ms: Option<u64>,
    next_ms: u64,
    /// A mark for each loop that was asked.
    asked: Vec<TurnMark>,
}

impl Watchdog {
    /// The watchdog that the service manager wants of this process.
    pub(super) fn from_environment() -> Self {
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let is_meant = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(process::id()));
        let allowed_us = number("WATCHDOG_USEC").filter(|_| is_meant);
        Self { period_ms: allowed_us.map(|us| us / 1_000 / LOOKS), next_ms: 0, asked: Vec::new() }
    }

    /// The longest pause of the main thread between two looks, in milliseconds.
    pub(super) fn pause_ms(&self) -> u64 {
        self.period_ms.map_or(MANAGER_MS, |period_ms| period_ms.clamp(1, MANAGER_MS))
    }

    /// Tells the manager, once each period, that all loops have turned since they were asked, and asks them again.
    pub(super) fn look<'s>(&mut self, now_ms: u64, loops: impl Iterator<Item = &'s Serving>) {
        let Some(period_ms) = self.period_ms else { return };
        if now_ms < self.next_ms || !self.asked.iter().all(TurnMark::is_set) {
            return;
        }
        notify::tell(notify::WATCHDOG);
        self.next_ms = now_ms.saturating_add(period_ms);
        let ask = |serving: &Serving| {
            let mark = TurnMark::default();
            (serving.tell)(Letter::Turn(mark.clone()));
            mark
        };
        self.asked = loops.map(ask).collect();
    }

    /// Reports without asking the loops: they end during a stop, which has a time of its own.
    pub(super) fn look_aside(&mut self, now_ms: u64) {
        self.asked.clear();
        self.look(now_ms, std::iter::empty());
    }
}
