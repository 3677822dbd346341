//! Says once that something does not work, once more where it is for another reason, and once that
//! it works again.

use super::link::LinkError;
use super::reason::{Current, Reason};

/// A store that refuses one thing may take the next one: it counts as well again when it has refused nothing
/// for so long, in milliseconds.
const QUIET_MS: u64 = 1_000;
/// What passes by itself is told of where it lasts for longer than this, in milliseconds.
const PASSING_MS: u64 = 1_000;
/// A reason that comes and goes in turn with another one is told again after so long, in milliseconds.
const AGAIN_MS: u64 = 60_000;

/// What was said of one thing.
#[derive(Debug, Default)]
pub struct FailureLog {
    said: Option<LoggedFailure>,
}

#[derive(Debug)]
struct LoggedFailure {
    since_ms: u64,
    last_ms: u64,
    is_lost: bool,
    /// What was said of this time.
    meanwhile: &'static str,
    /// The kind of the last one, and since when it has been that.
    reason: Reason,
    reason_since_ms: u64,
    /// When a line was written of which kind.
    told: Vec<(Reason, u64)>,
}

impl LoggedFailure {
    fn new(error: &LinkError, now_ms: u64, meanwhile: &'static str) -> Self {
        let (reason, is_lost) = (error.reason(), false);
        Self {
            since_ms: now_ms,
            last_ms: now_ms,
            is_lost,
            meanwhile,
            reason,
            reason_since_ms: now_ms,
            told: Vec::new(),
        }
    }

    /// Notes one more; whether it has to be told.
    fn note(&mut self, error: &LinkError, now_ms: u64) -> bool {
        let reason = error.reason();
        if self.reason != reason {
            (self.reason, self.reason_since_ms) = (reason, now_ms);
        }
        self.last_ms = now_ms;
        self.is_lost = matches!(error, LinkError::Lost(..)) || reason.passes();
        let lasts = !reason.passes() || now_ms >= self.reason_since_ms + PASSING_MS;
        let is_due = lasts && !self.told.iter().any(|(told, at_ms)| *told == reason && now_ms < at_ms + AGAIN_MS);
        if is_due {
            self.told.retain(|(told, _)| *told != reason);
            self.told.push((reason, now_ms));
        }
        is_due
    }
}

impl FailureLog {
    /// Notes how it went just now, and says it where it is new; what is wrong stands in `current` meanwhile.
    pub fn note(&mut self, current: &Current, error: Option<&LinkError>, now_ms: u64, meanwhile: &'static str) {
        match (error, &mut self.said) {
            (None, Some(said)) if said.is_lost || now_ms >= said.last_ms + QUIET_MS => {
                if !said.told.is_empty() {
                    let seconds = now_ms.saturating_sub(said.since_ms) / 1_000;
                    log::info!("the store answers again, after {seconds} s in which {}", said.meanwhile);
                }
                current.set(None);
                self.said = None;
            }
            (None, _) => {}
            (Some(error), said) => {
                if said.get_or_insert_with(|| LoggedFailure::new(error, now_ms, meanwhile)).note(error, now_ms) {
                    log::error!("{error}; until it is well again {meanwhile}");
                }
                current.set(Some((error.reason(), error.to_string())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FailureLog;
    use crate::cluster::link::LinkError;
    use crate::cluster::reason::{Current, Reason};

    /// What has been told, in the order of the kinds' last lines.
    fn told(log: &FailureLog) -> Vec<Reason> {
        log.said.iter().flat_map(|said| said.told.iter().map(|(reason, _)| *reason)).collect()
    }

    #[test]
    fn a_refusal_now_and_then_is_told_once() {
        let (mut log, current) = (FailureLog::default(), Current::default());
        let is_open = |log: &FailureLog| log.said.is_some();
        let refused = LinkError::Refused(Reason::Memory, "OOM".into());
        log.note(&current, Some(&refused), 0, "");
        log.note(&current, None, 10, "");
        assert!(is_open(&log));
        log.note(&current, Some(&refused), 500, "");
        log.note(&current, None, 1_499, "");
        assert!(is_open(&log) && current.kind() == Some(Reason::Memory));
        log.note(&current, None, 1_500, "");
        assert!(!is_open(&log) && current.kind().is_none());
        log.note(&current, Some(&LinkError::Lost(Reason::Unreachable, "gone".into())), 2_000, "");
        log.note(&current, None, 2_001, "");
        assert!(!is_open(&log));
    }

    #[test]
    fn another_reason_is_another_line() {
        let (mut log, current) = (FailureLog::default(), Current::default());
        let note = |log: &mut FailureLog, reason, now_ms| {
            log.note(&current, Some(&LinkError::Lost(reason, String::new())), now_ms, "");
            assert_eq!(current.kind(), Some(reason));
        };
        note(&mut log, Reason::Unreachable, 0);
        note(&mut log, Reason::Authentication, 100);
        assert_eq!(told(&log), [Reason::Unreachable, Reason::Authentication]);
        // Two that take turns are no flood.
        note(&mut log, Reason::Unreachable, 200);
        note(&mut log, Reason::Authentication, 60_099);
        assert_eq!(told(&log), [Reason::Unreachable, Reason::Authentication]);
        note(&mut log, Reason::Unreachable, 60_100);
        assert_eq!(told(&log), [Reason::Authentication, Reason::Unreachable]);
    }

    #[test]
    fn what_passes_by_itself_is_told_where_it_lasts() {
        let (mut log, current) = (FailureLog::default(), Current::default());
        let loading = LinkError::Refused(Reason::Loading, "LOADING".into());
        log.note(&current, Some(&loading), 0, "");
        log.note(&current, Some(&loading), 999, "");
        assert_eq!(told(&log), []);
        log.note(&current, Some(&loading), 1_000, "");
        assert_eq!(told(&log), [Reason::Loading]);
    }
}
