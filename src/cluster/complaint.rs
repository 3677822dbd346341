//! Says once that something does not work, and once that it works again.

use super::link::LinkError;

/// A store that refuses one thing may take the next: it is well again once it has refused nothing
/// for so long, in milliseconds.
const QUIET_MS: u64 = 1_000;

/// What was said of one thing.
#[derive(Debug, Default)]
pub struct Complaint {
    said: Option<Said>,
}

#[derive(Debug)]
struct Said {
    since_ms: u64,
    last_ms: u64,
    kind: String,
}

impl Complaint {
    /// Notes how it went just now. What fails in another way than before is said again, but a
    /// refusal is not followed word for word: numbers in it may change each time.
    pub fn note(&mut self, error: Option<&LinkError>, now_ms: u64, meanwhile: &str) {
        match (error, &mut self.said) {
            (None, Some(said)) if said.kind == LOST || now_ms >= said.last_ms + QUIET_MS => {
                let seconds = now_ms.saturating_sub(said.since_ms) / 1_000;
                log::info!("the store answers again, after {seconds} s in which {meanwhile}");
                self.said = None;
            }
            (None, _) => {}
            (Some(error), said) => {
                let kind = kind(error);
                if said.as_ref().is_none_or(|said| said.kind != kind) {
                    log::error!("{error}; until it is well again {meanwhile}");
                }
                let since_ms = said.as_ref().map_or(now_ms, |said| said.since_ms);
                *said = Some(Said { since_ms, last_ms: now_ms, kind });
            }
        }
    }
}

const LOST: &str = "lost";

/// What makes two errors the same one: how it fails, and for a refusal its code. A store that is
/// still reading its file, or has not been given back what it lost, is not there yet.
fn kind(error: &LinkError) -> String {
    match error {
        LinkError::Lost(_) => LOST.into(),
        LinkError::Refused(why) if why.contains("LOADING") || why.contains("UNSETTLED") => LOST.into(),
        LinkError::Refused(why) => {
            let is_code = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
            why.split(' ').find(is_code).unwrap_or("refused").into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Complaint, kind};
    use crate::cluster::link::LinkError;

    #[test]
    fn kinds() {
        let refused = |why: &str| kind(&LinkError::Refused(why.into()));
        assert_eq!(refused("the store at 127.0.0.1:6379 refuses: OOM command not allowed"), "OOM");
        assert_eq!(refused("the store at h:1 refuses: LOADING Redis is loading"), "lost");
        assert_eq!(refused("no"), "refused");
        assert_eq!(kind(&LinkError::Lost("OOM".into())), "lost");
    }

    #[test]
    fn a_refusal_now_and_then_is_one_complaint() {
        let mut complaint = Complaint::default();
        let is_open = |complaint: &Complaint| complaint.said.is_some();
        let refused = LinkError::Refused("OOM".into());
        complaint.note(Some(&refused), 0, "");
        complaint.note(None, 10, "");
        assert!(is_open(&complaint));
        complaint.note(Some(&refused), 500, "");
        complaint.note(None, 1_499, "");
        assert!(is_open(&complaint));
        complaint.note(None, 1_500, "");
        assert!(!is_open(&complaint));
        complaint.note(Some(&LinkError::Lost("gone".into())), 2_000, "");
        complaint.note(None, 2_001, "");
        assert!(!is_open(&complaint));
    }
}
