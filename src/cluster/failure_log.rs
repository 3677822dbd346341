//! What is wrong at this moment, for everybody to see. The log says it once, once more where it is for another reason,
//! and once that it works again.

use parking_lot::Mutex;

use super::link::LinkError;
use super::reason::Reason;

/// A store that refuses one thing may take the next one: it counts as well again when it has refused nothing
/// for so long, in milliseconds.
const QUIET_MS: u64 = 1_000;
/// What passes by itself is told of where it lasts for longer than this, in milliseconds.
const PASSING_MS: u64 = 1_000;
/// A reason that comes and goes in turn with another one is told again after so long, in milliseconds.
const AGAIN_MS: u64 = 60_000;

/// What is wrong with one thing, and what was said of it. One thread notes, everybody may look.
#[derive(Debug, Default)]
pub struct FailureLog(Mutex<Option<LoggedFailure>>);

#[derive(Debug)]
struct LoggedFailure {
    since_ms: u64,
    last_ms: u64,
    /// What was said of this time.
    meanwhile: &'static str,
    /// The last one, and since when it has been of its kind.
    error: LinkError,
    reason_since_ms: u64,
    /// When a line was written of which kind.
    told: Vec<(Reason, u64)>,
}

impl LoggedFailure {
    /// Notes one more; whether it has to be told.
    fn note(&mut self, error: &LinkError, now_ms: u64) -> bool {
        let reason = error.reason();
        if self.error.reason() != reason {
            self.reason_since_ms = now_ms;
        }
        (self.error, self.last_ms) = (error.clone(), now_ms);
        let lasts = !reason.passes() || now_ms >= self.reason_since_ms + PASSING_MS;
        let is_due = lasts && !self.told.iter().any(|(told, at_ms)| *told == reason && now_ms < at_ms + AGAIN_MS);
        if is_due {
            self.told.retain(|(told, _)| *told != reason);
            self.told.push((reason, now_ms));
        }
        is_due
    }

    fn is_over(&self, now_ms: u64) -> bool {
        let is_lost = matches!(self.error, LinkError::Lost(..)) || self.error.reason().passes();
        is_lost || now_ms >= self.last_ms + QUIET_MS
    }
}

impl FailureLog {
    /// Notes how it went just now, and says it where it is new.
    pub fn note(&self, error: Option<&LinkError>, now_ms: u64, meanwhile: &'static str) {
        let mut noted = self.0.lock();
        if let Some(error) = error {
            let failure = noted.get_or_insert_with(|| LoggedFailure {
                since_ms: now_ms,
                last_ms: now_ms,
                meanwhile,
                error: error.clone(),
                reason_since_ms: now_ms,
                told: Vec::new(),
            });
            if failure.note(error, now_ms) {
                log::error!("{error}; until it is well again {meanwhile}");
            }
        } else if let Some(over) = noted.take_if(|failure| failure.is_over(now_ms))
            && !over.told.is_empty()
        {
            let seconds = now_ms.saturating_sub(over.since_ms) / 1_000;
            log::info!("the store answers again, after {seconds} s in which {}", over.meanwhile);
        }
    }

    /// What is wrong, and the line that says it.
    #[must_use]
    pub fn get(&self) -> Option<(Reason, String)> {
        let noted = self.0.lock();
        noted.as_ref().map(|failure| (failure.error.reason(), failure.error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::FailureLog;
    use crate::cluster::link::LinkError;
    use crate::cluster::reason::Reason;

    /// What has been told, in the order of the kinds' last lines.
    fn told(log: &FailureLog) -> Vec<Reason> {
        log.0.lock().iter().flat_map(|failure| failure.told.iter().map(|(reason, _)| *reason)).collect()
    }

    fn kind(log: &FailureLog) -> Option<Reason> {
        log.get().map(|(reason, _)| reason)
    }

    #[test]
    fn a_refusal_now_and_then_is_told_once() {
        let log = FailureLog::default();
        let is_open = || log.0.lock().is_some();
        let refused = LinkError::Refused(Reason::Memory, "OOM".into());
        log.note(Some(&refused), 0, "");
        log.note(None, 10, "");
        assert!(is_open());
        log.note(Some(&refused), 500, "");
        log.note(None, 1_499, "");
        assert!(is_open() && kind(&log) == Some(Reason::Memory));
        log.note(None, 1_500, "");
        assert!(!is_open() && kind(&log).is_none());
        log.note(Some(&LinkError::Lost(Reason::Unreachable, "gone".into())), 2_000, "");
        log.note(None, 2_001, "");
        assert!(!is_open());
    }

    #[test]
    fn another_reason_is_another_line() {
        let log = FailureLog::default();
        let note = |reason, now_ms| {
            log.note(Some(&LinkError::Lost(reason, String::new())), now_ms, "");
            assert_eq!(kind(&log), Some(reason));
        };
        note(Reason::Unreachable, 0);
        note(Reason::Authentication, 100);
        assert_eq!(told(&log), [Reason::Unreachable, Reason::Authentication]);
        // Two that take turns are no flood.
        note(Reason::Unreachable, 200);
        note(Reason::Authentication, 60_099);
        assert_eq!(told(&log), [Reason::Unreachable, Reason::Authentication]);
        note(Reason::Unreachable, 60_100);
        assert_eq!(told(&log), [Reason::Authentication, Reason::Unreachable]);
    }

    #[test]
    fn what_passes_by_itself_is_told_where_it_lasts() {
        let log = FailureLog::default();
        let loading = LinkError::Refused(Reason::Loading, "LOADING".into());
        log.note(Some(&loading), 0, "");
        log.note(Some(&loading), 999, "");
        assert_eq!(told(&log), []);
        log.note(Some(&loading), 1_000, "");
        assert_eq!(told(&log), [Reason::Loading]);
    }
}
