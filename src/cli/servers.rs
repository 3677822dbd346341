//! `vote-status server …`: the directory of servers.

use std::io::{IsTerminal, stderr, stdin};

use clap::ArgMatches;
use serde_json::{Value, json};
use ureq::http::Method;

use super::client::ControlClient;
use super::{CliError, Exit, note, one, say, tell};
use crate::vote::id::ServerId;

/// The size of a page of servers.
const PAGE: &str = "limit=1000";

/// Runs the subcommand.
///
/// # Errors
/// Where the service cannot be reached, or refuses.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let Some((name, options)) = options.subcommand() else {
        return Err(CliError::new("give a subcommand; try server --help"));
    };
    let client = ControlClient::new(options)?;
    if name == "list" {
        return list(&client, options.get_flag("json"));
    }
    let server: ServerId = one(options, "id")?;
    if name == "remove" {
        return remove(&client, server, options);
    }
    let path = format!("/v1/servers/{server}");
    let answer = match name {
        "add" => {
            let token: Option<&String> = options.get_one("token");
            let body = token.map_or_else(|| json!({}), |token| json!({ "token": token }));
            client.send(Method::PUT, &path, body.to_string().as_bytes())?
        }
        "rotate" => client.send(Method::POST, &format!("{path}/token"), b"")?,
        _ => client.get(&path)?,
    };
    let answer = answer.expect(&[200, 201])?;
    let token = answer.text("token");
    let added = if (name, answer.status) == ("add", 201) { " added" } else { "" };
    tell(options, &answer.text, &format!("server {server}{added}, token {token}"), Exit::Success)
}

/// Removes a server. On a terminal this asks first, and shows the token afterwards: nothing else keeps it.
fn remove(client: &ControlClient, server: ServerId, options: &ArgMatches) -> Result<Exit, CliError> {
    let path = format!("/v1/servers/{server}");
    let held = client.get(&format!("{path}?cooldowns=1"))?.expect(&[200])?;
    // A service of 1.0 does not count them.
    let cooldowns = match held.body["cooldowns"].as_u64() {
        Some(1) => "1 cooldown".to_owned(),
        Some(count) => format!("{count} cooldowns"),
        None => "its cooldowns".to_owned(),
    };
    if stdin().is_terminal() && !options.get_flag("yes") {
        eprint!("remove server {server}, with {cooldowns}? Its plugin pays nothing from then on [y/N] ");
        let mut said = String::new();
        let failed = |error| CliError::new(format_args!("standard input cannot be read: {error}"));
        stdin().read_line(&mut said).map_err(failed)?;
        if !["y", "yes"].contains(&said.trim().to_lowercase().as_str()) {
            note("vote-status: nothing was removed");
            return Ok(Exit::Negative);
        }
    }
    let answer = client.delete(&path)?.expect(&[200])?;
    if stderr().is_terminal() {
        let token = held.text("token");
        note(format_args!("to list it again, without cooldowns: vote-status server add {server} --token {token}"));
    }
    tell(options, &answer.text, &format!("server {server} removed, with {cooldowns}"), Exit::Success)
}

/// Prints all pages: a line for each server, or as JSON one page that has them all.
fn list(client: &ControlClient, is_json: bool) -> Result<Exit, CliError> {
    let mut all = Vec::new();
    each_page(client, |servers| {
        if is_json {
            all.extend(servers);
        } else {
            for server in &servers {
                say(format_args!("{}\t{}", server["server_id"], server["token"].as_str().unwrap_or_default()))?;
            }
        }
        Ok(())
    })?;
    if is_json { say(json!({ "servers": all, "next": null })) } else { Ok(Exit::Success) }
}

/// The server with this token. The token goes into no request: the servers are compared here.
///
/// # Errors
/// Where the service cannot be reached, or no server has the token.
pub(super) fn with_token(client: &ControlClient, token: &str) -> Result<ServerId, CliError> {
    let mut found = None;
    each_page(client, |servers| {
        let named = servers.iter().find(|server| server["token"] == token);
        found = found.or_else(|| u32::try_from(named?["server_id"].as_u64()?).ok());
        Ok(())
    })?;
    found.map(ServerId).ok_or_else(|| CliError::new("no listed server has the token that standard input gave"))
}

/// Asks for page after page of servers.
fn each_page(client: &ControlClient, mut take: impl FnMut(Vec<Value>) -> Result<(), CliError>) -> Result<(), CliError> {
    let mut after: Option<u64> = None;
    loop {
        let path = match after {
            Some(server) => format!("/v1/servers?after={server}&{PAGE}"),
            None => format!("/v1/servers?{PAGE}"),
        };
        let mut answer = client.get(&path)?.expect(&[200])?;
        if let Value::Array(servers) = answer.body["servers"].take() {
            take(servers)?;
        }
        let next = answer.body["next"].as_u64();
        // Ids rise from page to page. If a wrong answer's do not, the loop must end all the same.
        if next.is_none() || next <= after {
            return Ok(());
        }
        after = next;
    }
}
