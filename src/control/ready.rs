//! `GET /readyz` on the control listener: whether the service is ready, and why it refuses votes, if it does.

use serde_json::{Value, json};

use super::reply::{ControlAnswer, RETRY_SOON};
use crate::readiness::Readiness;
use crate::recorder::shared::SharedStore;

/// The reason to take no votes if there is no other.
const LOADING: &str = "the state is being loaded: wait until that is done";

/// The answer at this moment of the monotonic clock, in milliseconds.
pub(super) fn answer(readiness: &Readiness, shared: Option<&dyn SharedStore>, now_ms: u64) -> ControlAnswer {
    readiness.look(now_ms);
    let is_loaded = readiness.is_loaded();
    let trouble = readiness.gravest().map(|(trouble, message)| (trouble.word(), message));
    let refusal = trouble.or_else(|| match shared {
        _ if !is_loaded => {
            // Waiting alone does not help while the store does not answer.
            let unreadable =
                shared.and_then(SharedStore::unreadable).map(|why| format!("the state cannot be loaded: {why}"));
            Some(("loading", unreadable.unwrap_or_else(|| LOADING.to_owned())))
        }
        Some(shared) => shared.refusal(),
        None => None,
    });
    let stands = if readiness.is_stopping() { Some("stopping") } else { readiness.is_stale().then_some("stale") };
    let is_ready = readiness.is_ready();
    let mut body = told(is_ready, stands, refusal);
    if !is_loaded || readiness.is_stopping() {
        body["loaded_rows"] = readiness.loaded_rows().into();
    }
    if let Some(shared) = shared {
        shared.add_to_ready(&mut body, is_loaded);
    }
    match is_ready {
        true => ControlAnswer::json(200, &body),
        false => ControlAnswer::json(503, &body).with(RETRY_SOON),
    }
}

/// The body. `stands` says that the service is stopping or stale: then this is the reason, even if votes are refused
/// for another one.
fn told(is_ready: bool, stands: Option<&str>, refusal: Option<(&str, String)>) -> Value {
    let mut body = json!({ "ready": is_ready });
    if let Some(reason) = stands.or(refusal.as_ref().map(|(word, _)| *word)) {
        body["reason"] = reason.into();
    }
    if let Some((_, message)) = refusal {
        body["message"] = message.into();
        body["votes"] = false.into();
    }
    body
}
