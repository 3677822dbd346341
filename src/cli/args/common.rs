//! Options that several subcommands share, and the kinds of value that they take.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::{StringValueParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, value_parser};

use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::time::Cooldown;

pub(super) fn cooldown_minutes() -> Arg {
    option(
        "cooldown-minutes",
        "N",
        "Length of the cooldown, 1 to 10080; another length makes plugins pay live votes once more",
    )
    .value_parser(whole_as(1..=u64::from(Cooldown::MINUTES_MAX), |minutes| {
        Cooldown::from_minutes(u32::try_from(minutes).ok()?)
    }))
    .default_value(Cooldown::USUAL.minutes().to_string())
}

pub(super) fn ipv6_prefix() -> Arg {
    let bits = u64::from(Ipv6Prefix::BITS_MIN)..=u64::from(Ipv6Prefix::BITS_MAX);
    option("ipv6-prefix", "BITS", "Leading bits of an IPv6 address that tell voters apart, 32 to 64")
        .value_parser(whole_as(bits, |bits| Ipv6Prefix::from_bits(u8::try_from(bits).ok()?)))
        .default_value(Ipv6Prefix::USUAL.bits().to_string())
}

pub(super) fn data_dir(help: &'static str) -> Arg {
    option("data-dir", "DIR", help).value_parser(value_parser!(PathBuf)).default_value("./vote-status-data")
}

/// An option that the environment variable `VOTE_STATUS_NAME` can set too.
pub(super) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    let variable = format!("VOTE_STATUS_{}", name.to_uppercase().replace('-', "_"));
    Arg::new(name).long(name).value_name(value).help(help).env(variable).hide_env_values(true)
}

pub(super) fn flag(name: &'static str, help: &'static str) -> Arg {
    let arg = option(name, "", help);
    arg.action(ArgAction::SetTrue).value_parser(clap::builder::BoolishValueParser::new())
}

/// A whole number in a range.
pub(super) fn whole<T>(range: RangeInclusive<u64>) -> ValueParser
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    whole_as(range, |number| T::try_from(number).ok())
}

/// A whole number in a range, converted to its value.
fn whole_as<T>(range: RangeInclusive<u64>, of: impl Fn(u64) -> Option<T> + Clone + Send + Sync + 'static) -> ValueParser
where
    T: Clone + Send + Sync + 'static,
{
    let parse = move |text: String| {
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        number
            .and_then(&of)
            .ok_or_else(|| format!("a whole number without a unit is wanted, {} to {}", range.start(), range.end()))
    };
    StringValueParser::new().try_map(parse).into()
}

/// Seconds, decimals allowed, as milliseconds.
pub(super) fn seconds() -> ValueParser {
    const SECONDS_MAX: f64 = 31_536_000.0;
    let parse = |text: String| match text.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok((seconds * 1_000.0).round() as u64),
        _ => Err("a number of seconds is wanted, decimals allowed"),
    };
    StringValueParser::new().try_map(parse).into()
}

/// The address of the control interface, and the key to it.
pub(super) fn connection() -> [Arg; 4] {
    let [url, ca] = control_url();
    [
        url,
        ca,
        option(
            "control-key-file",
            "PATH",
            "File that holds the control key [default: as with serve, or /etc/vote-status/control.key]",
        )
        .value_parser(value_parser!(PathBuf)),
        data_dir("Directory of control.key, if no key file is named"),
    ]
}

/// The address of the control interface, and the authorities that vouch for it.
pub(super) fn control_url() -> [Arg; 2] {
    let ca = "Certificates in PEM of the authorities to trust with an https address [default: the public ones]";
    [
        option("control-url", "URL", "The control interface, or unix:PATH").default_value("http://127.0.0.1:8081"),
        option("control-ca", "PATH", ca).value_parser(value_parser!(PathBuf)),
    ]
}

/// An option of one call only: no environment variable stands for it.
pub(super) fn plain(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

pub(super) fn json() -> Arg {
    plain("json", "", "Print the answer as JSON").action(ArgAction::SetTrue)
}
