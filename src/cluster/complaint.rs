//! Says once that something does not work, and once that it works again.

use super::link::LinkError;

/// What was said of one thing.
#[derive(Debug, Default)]
pub struct Complaint {
    /// When it was said that it does not work, and in which words.
    said: Option<(u64, String)>,
}

impl Complaint {
    /// Notes how it went just now. What fails in another way than before is said again, but a
    /// refusal is not followed word for word: numbers in it may change each time.
    pub fn note(&mut self, error: Option<&LinkError>, now_ms: u64, meanwhile: &str) {
        match (error, &self.said) {
            (None, None) => {}
            (None, Some((since_ms, _))) => {
                let seconds = now_ms.saturating_sub(*since_ms) / 1_000;
                log::info!("the store answers again, after {seconds} s in which {meanwhile}");
                self.said = None;
            }
            (Some(error), said) => {
                let kind = kind(error);
                if said.as_ref().is_none_or(|(_, said)| *said != kind) {
                    log::error!("{error}; until it is well again {meanwhile}");
                    let since_ms = said.as_ref().map_or(now_ms, |(since_ms, _)| *since_ms);
                    self.said = Some((since_ms, kind));
                }
            }
        }
    }
}

/// What makes two errors the same one: how it fails, and for a refusal its code. A store that is
/// still reading its file is not there yet.
fn kind(error: &LinkError) -> String {
    match error {
        LinkError::Lost(_) => "lost".into(),
        LinkError::Refused(why) if why.contains("LOADING") => "lost".into(),
        LinkError::Refused(why) => {
            let code = why.split(' ').find(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()));
            code.unwrap_or("refused").into()
        }
    }
}
