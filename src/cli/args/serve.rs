//! The options of `serve`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, Command, value_parser};

use super::common::{cooldown_minutes, data_dir, flag, ipv6_prefix, option, plain, seconds, whole};
use super::store;
use crate::cli::logger::{LEVELS, LogFormat};
use crate::limits::{BUFFER_BYTES_MAX_FLOOR, Limits};
use crate::net::listen::address::ListenAddress;
use crate::server::Engine;

const EXIT_STATUS: &str = "Exit status: 0 after a stop in order, 1 after a second signal or a stop that did not end \
within --drain-timeout, 2 on a failure.";

pub(super) fn command() -> Command {
    Command::new("serve")
        .about("Run the service")
        .args(listening())
        .args(state())
        .args(store::serve())
        .args(limits())
        .args(deadlines())
        .args(logging())
        .after_help(EXIT_STATUS)
}

fn listening() -> [Arg; 6] {
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    [
        option("listen", "ADDR", "Public address, or unix:PATH; may be given several times; [::]:8080 takes IPv4 too")
            .value_parser(value_parser!(ListenAddress))
            .action(ArgAction::Append)
            .value_delimiter(',')
            .default_value("0.0.0.0:8080"),
        option("control", "ADDR", "Private address of the control interface, or unix:PATH")
            .value_parser(value_parser!(ListenAddress))
            .default_value("127.0.0.1:8081"),
        option(
            "listen-mode",
            "MODE",
            "Permissions of Unix sockets, octal: a process needs write permission to connect",
        )
        .value_parser(permissions)
        .default_value("0660"),
        option(
            "control-key-file",
            "PATH",
            "File that holds the control key [default: control.key in the data directory, made on the first start]",
        )
        .value_parser(value_parser!(PathBuf)),
        option("workers", "N", "Event loops for the public listeners [default: one for each CPU]")
            .value_parser(whole::<usize>(1..=1_024))
            .default_value(workers.to_string())
            .hide_default_value(true),
        option("engine", "NAME", "Engine of the public listeners; may_minihttp is for comparison")
            .value_parser(named(Engine::ALL))
            .default_value(Engine::ALL[0].0),
    ]
}

fn state() -> [Arg; 9] {
    [
        plain(
            "check-config",
            "",
            "Check the options and the files that they name, print the mode that they give, and end",
        )
        .action(ArgAction::SetTrue),
        data_dir("Where votes and servers are kept"),
        flag(
            "require-store",
            "Never make a store: answer 503 until there is one, as on a volume that is mounted later",
        ),
        flag("in-memory", "Keep votes and servers in memory alone: a restart forgets them"),
        cooldown_minutes(),
        ipv6_prefix(),
        flag("accept-clock", "For one start: take the wall clock as certain, whatever time the store has noted"),
        flag(
            "accept-settings",
            "For one start: give the store this cooldown and IPv6 prefix for good; the time has to be certain, as in a \
             restart within a minute or with --accept-clock. Another cooldown changes every next_vote_at, and plugins \
             pay these votes once more",
        ),
        flag("demo", "Run in memory, for this machine alone, with server 28, token demo and one address in cooldown"),
    ]
}

fn limits() -> [Arg; 7] {
    let defaults = Limits::default();
    [
        option("head-bytes-max", "N", "Largest request head, in bytes, 1024 to 65536")
            .value_parser(whole::<usize>(1_024..=Limits::HEAD_BYTES_CEILING as u64))
            .default_value(defaults.head_bytes_max.to_string()),
        option("header-lines-max", "N", "Header lines of a request, 1 to 1000")
            .value_parser(whole::<usize>(1..=1_000))
            .default_value(defaults.header_lines_max.to_string()),
        option("body-bytes-max", "N", "Largest body of a single control request, in bytes")
            .value_parser(whole::<u64>(0..=1 << 30))
            .default_value(defaults.body_bytes_max.to_string()),
        option("skip-body-bytes-max", "N", "Largest body of a public request, which is skipped, in bytes")
            .value_parser(whole::<u64>(0..=1 << 30))
            .default_value(defaults.skip_body_bytes_max.to_string()),
        option("max-connections", "N", "Open public connections [default: from the descriptor limit]")
            .value_parser(whole::<usize>(1..=100_000_000)),
        option(
            "max-waiting",
            "N",
            "Requests that may wait at a time by ?wait= [default: three quarters of max-connections]",
        )
        .value_parser(whole::<usize>(0..=100_000_000)),
        option(
            "buffer-bytes-max",
            "N",
            "Memory that all connections may use together, in bytes [default: 256 MiB, or an eighth of the machine]",
        )
        .value_parser(whole::<u64>(BUFFER_BYTES_MAX_FLOOR..=1 << 40)),
    ]
}

fn deadlines() -> [Arg; 5] {
    let defaults = Limits::default();
    let timeout = |name, help, default_ms: u64| {
        option(name, "SECONDS", help).value_parser(seconds()).default_value((default_ms as f64 / 1_000.0).to_string())
    };
    [
        timeout("head-timeout", "Time from the first byte of a request to its last", defaults.head_timeout_ms),
        timeout("idle-timeout", "Time after which an idle connection is closed", defaults.idle_timeout_ms),
        timeout("write-timeout", "Time that a client has to take its answer", defaults.write_timeout_ms),
        timeout("drain-delay", "Time after the signal to stop in which new connections are accepted", 0),
        timeout("drain-timeout", "Longest time, after --drain-delay, for the requests under way", 10_000),
    ]
}

fn logging() -> [Arg; 2] {
    [
        option("log-level", "LEVEL", "Lowest level of the log lines on standard error: error, warn, info or debug")
            .value_parser(named(&LEVELS))
            .default_value("info"),
        option("log-format", "FORMAT", "Lines of the log for people (text) or for machines (json)")
            .value_parser(named(&LogFormat::ALL))
            .default_value("text"),
    ]
}

/// One of these names, converted to its value.
fn named<T: Copy + Send + Sync + 'static>(names: &'static [(&'static str, T)]) -> ValueParser {
    let of = |name: String| names.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
    let possible = PossibleValuesParser::new(names.iter().map(|(name, _)| *name));
    possible.try_map(move |name| of(name).ok_or("no such name")).into()
}

fn permissions(text: &str) -> Result<u32, &'static str> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && !text.starts_with('+'));
    mode.ok_or("permissions are 0000 to 0777, octal")
}
