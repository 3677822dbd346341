//! The present failure of one thing, for any thread to read. The log reports each reason at most once a minute, and the end once.

use parking_lot::Mutex;

use super::link::LinkError;
use super::reason::Reason;

/// A refusal is over when the store has refused nothing for this long, in milliseconds. A store that refuses one
/// command may take the next one.
const QUIET_MS: u64 = 1_000;
/// A reason that passes by itself is reported once it has lasted this long, in milliseconds.
const PASSING_MS: u64 = 1_000;
/// The shortest time between two reports of one reason in a failure, in milliseconds: reasons may alternate.
const AGAIN_MS: u64 = 60_000;

/// The present failure of one thing, and its reports. One thread notes failures, any thread may read.
#[derive(Debug, Default)]
pub struct FailureLog(Mutex<Option<LoggedFailure>>);

#[derive(Debug)]
struct LoggedFailure {
    since_ms: u64,
    last_ms: u64,
    /// How the node serves meanwhile, for the log.
    meanwhile: &'static str,
    /// The last error, and since when errors have had its reason.
    error: LinkError,
    reason_since_ms: u64,
    /// The reported reasons, each with the time of its last report.
    told: Vec<(Reason, u64)>,
}

impl LoggedFailure {
    /// Notes an error. Gives whether the log has to report it.
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

    fn tell_end(&self, now_ms: u64) {
        if !self.told.is_empty() {
            let seconds = now_ms.saturating_sub(self.since_ms) / 1_000;
            log::info!("the store answers again, after {seconds} s in which {}", self.meanwhile);
        }
    }

    fn is_over(&self, now_ms: u64) -> bool {
        let is_lost = matches!(self.error, LinkError::Lost(..)) || self.error.reason().passes();
        is_lost || now_ms >= self.last_ms + QUIET_MS
    }
}

impl FailureLog {
    /// Notes the outcome of the last try, and reports a new failure or an end.
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
        } else if let Some(over) = noted.take_if(|failure| failure.is_over(now_ms)) {
            over.tell_end(now_ms);
        }
    }

    /// Notes that the store has answered: a lost connection is over, a refusal need not be.
    pub fn note_answer(&self, now_ms: u64) {
        let is_lost = |failure: &mut LoggedFailure| matches!(failure.error, LinkError::Lost(..));
        if let Some(over) = self.0.lock().take_if(is_lost) {
            over.tell_end(now_ms);
        }
    }

    /// The reason of the present failure, and its message.
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

    /// The reported reasons, in the order of their last reports.
    fn told(log: &FailureLog) -> Vec<Reason> {
        log.0.lock().iter().flat_map(|failure| failure.told.iter().map(|(reason, _)| *reason)).collect()
    }

    fn kind(log: &FailureLog) -> Option<Reason> {
        log.get().map(|(reason, _)| reason)
    }

    /// Regression: after a restart of Redis, a node without votes said for good that it takes none.
    #[test]
    fn an_answer_ends_a_lost_connection_and_no_refusal() {
        let log = FailureLog::default();
        log.note(Some(&LinkError::Lost(Reason::Unreachable, "gone".into())), 0, "");
        log.note_answer(10);
        assert_eq!(kind(&log), None);
        log.note(Some(&LinkError::Refused(Reason::Memory, "OOM".into())), 20, "");
        log.note_answer(20_000);
        assert_eq!(kind(&log), Some(Reason::Memory));
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
        // Two reasons that alternate do not flood the log.
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
