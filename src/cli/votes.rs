//! `vote-status vote`, `votes get` and `cancel`: the votes of one address.

use clap::ArgMatches;
use serde_json::{Value, json};
use ureq::http::Method;

use super::client::{ControlClient, segment};
use super::{CliError, Exit, one, tell};
use crate::vote::id::ServerId;

/// Records a vote.
///
/// # Errors
/// Where the service cannot be reached, or refuses for another reason than the cooldown.
pub(super) fn vote(options: &ArgMatches) -> Result<Exit, CliError> {
    let client = ControlClient::new(options)?;
    let server = one::<ServerId>(options, "id")?;
    let ips: Vec<&String> = options.get_many("ip").unwrap_or_default().collect();
    let mut body = match ips[..] {
        [ip] => json!({ "server_id": server.0, "ip": ip }),
        _ => json!({ "server_id": server.0, "ips": ips }),
    };
    if let Some(voted_at) = options.get_one::<String>("voted-at") {
        body["voted_at"] = instant(voted_at);
    }
    let answer = client.send(Method::POST, "/v1/votes", body.to_string().as_bytes())?.expect(&[201, 409])?;
    let next = answer.text("next_vote_at");
    if answer.status == 201 {
        let ip = ips.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let line = format!("recorded: {ip} can vote again for {server} at {next}");
        return tell(options, &answer.text, &line, Exit::Success);
    }
    let ip = if let [ip] = ips[..] { ip } else { answer.text("ip") };
    let line = format!("in cooldown: {ip} can vote again for {server} at {next}");
    tell(options, &answer.text, &line, Exit::Negative)
}

/// Looks up the live vote of an address: `votes get` is the one subcommand.
///
/// # Errors
/// Where the service cannot be reached, or refuses for another reason than a missing vote.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let Some((_, options)) = options.subcommand() else {
        return Err(CliError::new("give a subcommand; try votes --help"));
    };
    let client = ControlClient::new(options)?;
    let (server, ip) = (one::<ServerId>(options, "id")?, one::<String>(options, "ip")?);
    let answer = client.get(&format!("/v1/votes/{server}/{}", segment(&ip)))?;
    if answer.text("error") == "no_cooldown" {
        return tell(options, &answer.text, &format!("no vote: {ip} can vote for {server}"), Exit::Negative);
    }
    let answer = answer.expect(&[200])?;
    let [ip, voted, next] = ["ip", "voted_at", "next_vote_at"].map(|name| answer.text(name));
    let line = format!("{ip} voted for {server} at {voted}, and can vote again at {next}");
    tell(options, &answer.text, &line, Exit::Success)
}

/// Cancels a vote, or all votes of an address.
///
/// # Errors
/// Where the service cannot be reached, or refuses for another reason than a missing vote.
pub(super) fn cancel(options: &ArgMatches) -> Result<Exit, CliError> {
    let client = ControlClient::new(options)?;
    if let Some(ip) = options.get_one::<String>("all") {
        return cancel_all(options, &client, ip);
    }
    let (server, ip) = (one::<ServerId>(options, "id")?, one::<String>(options, "ip")?);
    let answer = client.delete(&format!("/v1/votes/{server}/{}", segment(&ip)))?;
    if answer.text("error") == "no_cooldown" {
        return tell(options, &answer.text, &format!("no cooldown: {ip} can vote for {server}"), Exit::Negative);
    }
    let answer = answer.expect(&[200])?;
    tell(options, &answer.text, &format!("cancelled: {ip} can vote for {server}"), Exit::Success)
}

fn cancel_all(options: &ArgMatches, client: &ControlClient, ip: &str) -> Result<Exit, CliError> {
    let answer = client.delete(&format!("/v1/voters/{}", segment(ip)))?;
    if answer.text("error") == "no_cooldown" {
        return tell(options, &answer.text, &format!("no cooldown: {ip} can vote for every server"), Exit::Negative);
    }
    let answer = answer.expect(&[200])?;
    let cooldowns = match answer.body["cancelled"].as_u64() {
        Some(1) => "1 cooldown".to_owned(),
        count => format!("{} cooldowns", count.unwrap_or_default()),
    };
    tell(options, &answer.text, &format!("cancelled: {cooldowns} of {ip}"), Exit::Success)
}

/// An instant as the interface wants it: seconds as a number, not as a string.
pub(super) fn instant(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(number @ Value::Number(_)) => number,
        _ => Value::from(text),
    }
}
