//! Cooldowns that ended before their time, by cause. A plugin may pay such an address a second time within a cooldown, so
//! each is counted, and the log says how many.

/// The shortest time between two log lines about them, in milliseconds.
const TELL_MS: u64 = 1_000;

/// The number of cooldowns that ended early, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedEarly {
    /// Votes were cancelled.
    pub cancelled: u64,
    /// Votes gave way to later ones of the caller's records.
    pub replaced: u64,
    /// Servers were removed.
    pub removed: u64,
    /// A start changed the settings of the store.
    pub settings: u64,
}

impl EndedEarly {
    /// Each cause with its count.
    pub const fn by_cause(self) -> [(&'static str, u64); 4] {
        let Self { cancelled, replaced, removed, settings } = self;
        [("cancelled", cancelled), ("replaced", replaced), ("server_removed", removed), ("settings", settings)]
    }
}

/// The counts that the log has told so far.
#[derive(Debug, Default)]
pub struct EndedLog {
    told: EndedEarly,
    next_ms: u64,
}

impl EndedLog {
    /// Logs the cooldowns that ended early since the last line. A start logs those of its settings itself.
    pub fn tell(&mut self, now: EndedEarly, now_ms: u64) {
        if now == self.told || now_ms < self.next_ms {
            return;
        }
        let [cancelled, replaced, removed] =
            [now.cancelled - self.told.cancelled, now.replaced - self.told.replaced, now.removed - self.told.removed];
        if cancelled + replaced + removed > 0 {
            log::info!(
                "cooldowns that ended before their time: {cancelled} cancelled, {replaced} replaced by a later vote (mode=record), {removed} of removed servers"
            );
        }
        (self.told, self.next_ms) = (now, now_ms.saturating_add(TELL_MS));
    }
}
