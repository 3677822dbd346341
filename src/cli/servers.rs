//! `vote-status server …`: the directory of servers.

use clap::ArgMatches;
use serde_json::{Value, json};
use ureq::http::Method;

use super::client::ControlClient;
use super::{CliError, Exit, one, say, tell};
use crate::vote::id::ServerId;

/// Servers asked for at once.
const PAGE: &str = "limit=1000";

/// Does what was asked of the directory.
///
/// # Errors
/// Where the service cannot be asked, or refuses.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let Some((name, options)) = options.subcommand() else {
        return Err(CliError::new("give a subcommand; try server --help"));
    };
    let client = ControlClient::new(options)?;
    if name == "list" {
        return list(&client, options.get_flag("json"));
    }
    let server: ServerId = one(options, "id")?;
    let path = format!("/v1/servers/{server}");
    let answer = match name {
        "add" => {
            let token: Option<&String> = options.get_one("token");
            let body = token.map_or_else(|| json!({}), |token| json!({ "token": token }));
            client.send(Method::PUT, &path, body.to_string().as_bytes())?
        }
        "rotate" => client.send(Method::POST, &format!("{path}/token"), b"")?,
        "remove" => client.delete(&path)?,
        _ => client.get(&path)?,
    };
    let answer = answer.expect(&[200, 201])?;
    let token = answer.text("token");
    let line = match (name, answer.status) {
        ("remove", _) => format!("server {server} removed, with its cooldowns"),
        ("add", 201) => format!("server {server} added, token {token}"),
        _ => format!("server {server}, token {token}"),
    };
    tell(options, &answer.text, &line, Exit::Success)
}

/// All pages, a line a server; as JSON the same object as one page with all of them.
fn list(client: &ControlClient, is_json: bool) -> Result<Exit, CliError> {
    let mut all = Vec::new();
    let mut after: Option<u64> = None;
    loop {
        let path = match after {
            Some(server) => format!("/v1/servers?after={server}&{PAGE}"),
            None => format!("/v1/servers?{PAGE}"),
        };
        let mut answer = client.get(&path)?.expect(&[200])?;
        if let Value::Array(servers) = answer.body["servers"].take() {
            if is_json {
                all.extend(servers);
            } else {
                for server in &servers {
                    say(format_args!("{}\t{}", server["server_id"], server["token"].as_str().unwrap_or_default()))?;
                }
            }
        }
        let next = answer.body["next"].as_u64();
        // Ids rise from page to page. Where an answer's do not, pages would be asked for without end.
        if next.is_none() || next <= after {
            break;
        }
        after = next;
    }
    if is_json { say(json!({ "servers": all, "next": null })) } else { Ok(Exit::Success) }
}
