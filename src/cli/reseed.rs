//! `vote-status reseed`: fills an empty store from a node that still holds its votes and servers.

use clap::ArgMatches;

use super::client::ControlClient;
use super::export_reader::{self, Held};
use super::node_client;
use super::progress::Progress;
use super::{CliError, Exit, note, say, store};
use crate::cluster::admin::{Filled, Filling};

/// Fills the store; nodes follow it again once all of it is there.
///
/// # Errors
/// Where the node cannot be reached, or the store is not empty or cannot be written.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let address = store::address(options)?;
    let client = ControlClient::new(options)?;
    let standing = node_client::standing(&client)?;
    let cooldown_s = u64::from(standing.cooldown_minutes) * 60;
    let mut filling =
        Filling::begin(&address, &standing.store_id, cooldown_s, standing.ipv6_prefix).map_err(CliError::new)?;
    let mut progress = Progress::new(None);
    let mut lines = 0;
    export_reader::read(&client, |held, bytes| {
        lines += 1;
        if lines % 1_024 == 0 {
            progress.advance(bytes, 1_024);
        }
        match held {
            Held::Server(server, token) => filling.server(server, &token),
            Held::Vote(vote) => filling.vote(&vote),
        }
        .map_err(CliError::new)
    })?;
    let Filled { taken, refused, differing } = filling.finish().map_err(CliError::new)?;
    drop(progress);
    let store = standing.store_id;
    for server in &differing {
        note(format_args!(
            "vote-status: server {server} keeps the token that an earlier run gave it; {} has another one: `vote-status server add {server} --token TOKEN` sets it",
            client.url()
        ));
    }
    say(format_args!(
        "store {store} filled: {taken} servers and votes taken, {refused} over meanwhile or there already"
    ))?;
    Ok(if differing.is_empty() { Exit::Success } else { Exit::Negative })
}
