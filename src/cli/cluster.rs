//! `vote-status cluster …`: an operator's commands for a shared store.

use clap::ArgMatches;

use super::{CliError, Exit, cluster_check, key, note, one, say, store};
use crate::cluster::{admin, preflight};
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::time::Cooldown;

/// Runs the subcommand.
///
/// # Errors
/// Where the store or the node cannot be reached, or refuses.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    match options.subcommand() {
        Some(("init", options)) => init(options),
        Some(("check", options)) => cluster_check::run(options),
        _ => Err(CliError::new("give a subcommand; try cluster --help")),
    }
}

/// Gives an empty store its id. A second run changes nothing, so a script may run it each time.
fn init(options: &ArgMatches) -> Result<Exit, CliError> {
    let address = store::address(options)?;
    let minutes = u64::from(one::<Cooldown>(options, "cooldown-minutes")?.minutes());
    let lacks = preflight::look(&address).map_err(CliError::new)?;
    if !lacks.needed.is_empty() {
        return Err(CliError::new(format_args!(
            "the store at {address} lacks what nodes need: {}",
            lacks.needed.join("; ")
        )));
    }
    for advice in lacks.advised {
        note(format_args!("warning: {advice}"));
    }
    let id = String::from_utf8(key::generate()?).map_err(CliError::new)?;
    let prefix = one::<Ipv6Prefix>(options, "ipv6-prefix")?;
    let found = admin::init(&address, &id, minutes * 60, prefix).map_err(CliError::new)?;
    if let Some(id) = admin::filled_for(&found.store) {
        return Err(CliError::new(format_args!(
            "the store at {address} is being filled, as store {id}: let `vote-status reseed` come to its end, or run it again"
        )));
    }
    if found.cooldown_s != minutes * 60 {
        return Err(CliError::new(format_args!(
            "the store at {address} has the id {} and a cooldown of {} minutes already: give --cooldown-minutes {}",
            found.store,
            found.cooldown_s / 60,
            found.cooldown_s / 60
        )));
    }
    if found.prefix != prefix {
        let bits = found.prefix.bits();
        return Err(CliError::new(format_args!(
            "the store at {address} has the id {} and tells IPv6 voters apart by {bits} bits already: give --ipv6-prefix {bits}",
            found.store
        )));
    }
    say(if found.is_new {
        format!("store {} made, with a cooldown of {minutes} minutes", found.store)
    } else {
        format!("store {} is there already, with a cooldown of {minutes} minutes", found.store)
    })
}
