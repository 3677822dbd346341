//! The options that name a store shared with other nodes, for `serve` and for the subcommands that
//! look after one.

use std::path::PathBuf;

use clap::{Arg, Command, value_parser};

use crate::cli::args::common::{connection, cooldown_minutes, ipv6_prefix, json, option, seconds, whole};

/// The options of `serve`.
pub(super) fn serve() -> Vec<Arg> {
    let [store, access @ ..] = address();
    let mut all = vec![store.conflicts_with_all(["in-memory", "demo"])];
    all.extend(access);
    all.extend([
        option("store-wait-replicas", "N", "Replicas of the store that confirm a vote, 0 or 1")
            .value_parser(whole::<u32>(0..=1))
            .default_value("0"),
        option("store-wait-ms", "N", "Longest wait for that replica, in milliseconds; the vote counts in any case")
            .value_parser(whole::<u64>(1..=1_000))
            .default_value("50"),
        option("stale-max", "SECONDS", "Age above which a node's state makes the node not ready [default: none]")
            .value_parser(seconds()),
    ]);
    all
}

/// The subcommands that look after a shared store.
pub(super) fn commands() -> Vec<Command> {
    if !cfg!(feature = "redis") {
        return Vec::new();
    }
    let [store, access @ ..] = address();
    let address: Vec<Arg> = std::iter::once(store.required(true)).chain(access).collect();
    let init = Command::new("init")
        .about("Give an empty store its id, once, before the first node is started")
        .args(address.clone())
        .args([cooldown_minutes(), ipv6_prefix()]);
    let check = Command::new("check")
        .about("Compare the state of a running node with its store")
        .args(address.clone())
        .args(connection())
        .arg(json())
        .after_help("Exit status: 0 when node and store hold the same, 1 when they differ, 2 on a failure.");
    vec![
        Command::new("cluster").about("A store that nodes share").subcommand_required(true).subcommands([init, check]),
        Command::new("reseed")
            .about("Fill an empty store with what a node holds")
            .args(address)
            .args(connection())
            .after_help(
                "Exit status: 0 when the store is filled, 1 when a server keeps another token, 2 on a failure.",
            ),
    ]
}

/// The address of a shared store, and the access to it.
pub(super) fn address() -> [Arg; 6] {
    let file = |name, help| option(name, "PATH", help).value_parser(value_parser!(PathBuf));
    [
        option(
            "store",
            "URL",
            "A Redis or Valkey shared with other nodes, instead of a file: redis://host:6379, or redis+sentinel://host,host/name; rediss for TLS",
        ),
        file("store-password-file", "File that holds the store's password, read at each connection"),
        file("sentinel-password-file", "File that holds the sentinels' password, if they want one"),
        file(
            "store-ca",
            "Certificates in PEM of the authorities to trust with the store's certificate [default: the system's]",
        ),
        file("store-cert", "Certificate in PEM to show to the store, its chain behind it").requires("store-key"),
        file("store-key", "Private key in PEM for --store-cert").requires("store-cert"),
    ]
}
