//! `vote-status health`: whether the service is ready, for its supervisor (a container's health
//! check, a script). Knows `/readyz` of the control interface; needs no key.

use std::time::Duration;

use clap::ArgMatches;
use serde_json::Value;

use super::endpoint::{CONTROL_REMEDY, Endpoint};
use super::{CliError, Exit, tell};

/// The longest wait for an answer: less than the 30 s that a container's health check waits by default.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks, and prints the answer.
///
/// # Errors
/// Where nothing answers, or another service than the control interface.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let site = Endpoint::of_control(options)?;
    let (status, body) = site.get("/readyz", TIMEOUT, CONTROL_REMEDY)?;
    let text = String::from_utf8_lossy(&body);
    let Some((exit, line)) = judge(status, &text) else {
        return Err(CliError::new(format_args!(
            "{} answers with status {status} and does not say whether it is ready: is it the control interface?",
            site.name()
        )));
    };
    tell(options, &text, &line, exit)
}

/// `None` if this is no answer of `/readyz`.
fn judge(status: u16, text: &str) -> Option<(Exit, String)> {
    let body = serde_json::from_str::<Value>(text).ok()?;
    let message = body["message"].as_str();
    match (status, body["ready"].as_bool()?) {
        (200, true) if body["votes"] == false => {
            let why = message.or(body["reason"].as_str())?;
            Some((Exit::Success, format!("ready, but votes are refused: {why}")))
        }
        (200, true) => Some((Exit::Success, "ready".to_owned())),
        (503, false) => {
            let why = message.map(|message| format!(": {message}")).unwrap_or_default();
            Some((Exit::Negative, format!("not ready: {}{why}", body["reason"].as_str()?)))
        }
        _ => None,
    }
}
