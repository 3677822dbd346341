//! `vote-status check`: the client of the interface document, as a server's plugin would be.

use std::time::Duration;

use clap::ArgMatches;
use serde_json::{Value, json};

use super::client::segment;
use super::endpoint::Endpoint;
use super::{CliError, Exit, one, tell};

/// The longest wait for an answer: that of the most patient plugin in the field.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The further wait for a question that waits for a vote: 35 s in all for `wait=25`, as in the samples.
const AFTER_WAIT: Duration = Duration::from_secs(10);
/// The interface document's message for a body that is no JSON object.
const INVALID: &str = "Réponse invalide";

/// Asks, and prints the answer.
///
/// # Errors
/// On a network failure, and on an answer that is no status.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let site = Endpoint::parse(&one::<String>(options, "url")?, "--url")?;
    let ip = segment(&one::<String>(options, "ip")?);
    let path = match options.get_one::<String>("token") {
        Some(token) => format!("/api/servers/{}/vote-status/{ip}", segment(token)),
        None => format!("/api/vote/{}/status/{ip}", segment(&one::<String>(options, "server")?)),
    };
    let wait = options.get_one::<u64>("wait").copied();
    let path = wait.map_or_else(|| path.clone(), |seconds| format!("{path}?wait={seconds}"));
    // The path may contain a token: failures name the address without it.
    let remedy = "start `vote-status serve`, or name its address by --url";
    let (status, body) = site.get(&path, timeout(wait), remedy)?;
    let verdict = judge(status, &body);
    tell(options, &verdict.json.to_string(), &verdict.message, Exit::Success)?;
    verdict.exit.ok_or_else(|| {
        let word = verdict.json["error"].as_str().map(|word| format!(" ({word})")).unwrap_or_default();
        // Errors of the public listener have all five fields; those of the control listener have two.
        let hint = match verdict.json["error"] == "not_found" && verdict.json["can_vote"].is_null() {
            true => {
                "; is it the control interface? name the public listener by --url, by default http://127.0.0.1:8080"
            }
            false => "",
        };
        CliError::new(format_args!("{} answers {status}: {}{word}{hint}", site.name(), verdict.message))
    })
}

fn timeout(wait: Option<u64>) -> Duration {
    wait.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds) + AFTER_WAIT)
}

/// The verdict on an answer.
struct CheckResult {
    /// `None` for an answer that tells nothing of the address.
    exit: Option<Exit>,
    message: String,
    json: Value,
}

fn judge(status: u16, body: &[u8]) -> CheckResult {
    let Some(json) = serde_json::from_slice::<Value>(body).ok().filter(Value::is_object) else {
        let json = json!({ "success": false, "can_vote": false, "message": INVALID });
        return CheckResult { exit: None, message: INVALID.to_owned(), json };
    };
    // Samples of the document leave out one flag or the other, never both.
    let can_vote = json["can_vote"].as_bool().or_else(|| json["success"].as_bool());
    let is_status = status == 200 && json["error"].is_null();
    let exit = can_vote.filter(|_| is_status).map(|can| if can { Exit::Success } else { Exit::Negative });
    CheckResult { exit, message: json["message"].as_str().unwrap_or(INVALID).to_owned(), json }
}

#[cfg(test)]
mod tests {
    use super::timeout;

    #[test]
    fn a_question_that_waits_has_the_time_out_of_the_samples() {
        assert_eq!([None, Some(25), Some(50)].map(|wait| timeout(wait).as_secs()), [30, 35, 60]);
    }
}
