//! Every subcommand that is a client of a running service, with its options and its help.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};

use crate::cli::args::common::{connection, control_url, json, option, plain};
use crate::vote::address::Voter;
use crate::vote::id::ServerId;

/// The meaning of the exit status, if there is more than success and failure.
const STATUS_OF_IMPORT: &str = "Exit status: 0 when every line was recorded now or before or has expired, 1 when a line or a file was refused, 2 on a failure, and where an export was made with other settings.";
const STATUS_OF_CHECK: &str =
    "Exit status: 0 when the address can vote, 1 when it is in cooldown, 2 on a network failure or an error answer.";
const STATUS_OF_HEALTH: &str =
    "Exit status: 0 when the service is ready, 1 when it says that it is not, 2 when nothing answers.";
const STATUS_OF_VOTE: &str =
    "Exit status: 0 when the vote is recorded, 1 when the address is in cooldown, 2 on a failure.";
const STATUS_OF_VOTES_GET: &str =
    "Exit status: 0 when the address has a vote in cooldown, 1 when it has none, 2 on a failure.";
const STATUS_OF_CANCEL: &str = "Exit status: 0 when a vote is cancelled, 1 when there was none, 2 on a failure.";

const END_OF_WATCH: &str = "Ctrl-C ends the watch and prints a summary on standard error: questions by answer, votes that were not recorded, \
addresses that asked and had no vote, and votes of addresses that nobody asked about. A lost connection is tried again.";

/// The subcommands, in the order of the help.
pub(super) fn commands() -> Vec<Command> {
    vec![server(), vote(), votes(), cancel(), import(), export(), watch(), check(), health()]
}

fn server() -> Command {
    let token = plain("token", "TOKEN", "The token [default: the server's own, or a new one]");
    let subcommands = [
        Command::new("add").about("List a server, or change its token").arg(server_id()).arg(token).arg(json()),
        Command::new("rotate").about("Give a server a new token").arg(server_id()).arg(json()),
        Command::new("remove")
            .about("Remove a server, with its cooldowns; asks first on a terminal, and shows the token that it had")
            .arg(server_id())
            .arg(plain("yes", "", "Remove without asking").action(ArgAction::SetTrue))
            .arg(json())
            .after_help("Exit status: 0 when the server is removed, 1 when nobody confirmed that, 2 on a failure."),
        Command::new("show").about("Show a server").arg(server_id()).arg(json()),
        Command::new("list").about("Show all servers").arg(json()),
    ];
    Command::new("server")
        .about("The servers that may be voted for")
        .subcommand_required(true)
        .subcommands(subcommands.map(|command| command.args(connection())))
}

fn vote() -> Command {
    let voted_at = plain("voted-at", "INSTANT", "When: RFC 3339 with an offset, or Unix seconds [default: now]")
        .allow_negative_numbers(true);
    Command::new("vote")
        .about("Record a vote")
        .args([server_id(), address().num_args(1..=Voter::ADDRESSES_MAX).action(ArgAction::Append), voted_at, json()])
        .args(connection())
        .after_help(STATUS_OF_VOTE)
}

fn votes() -> Command {
    let get = Command::new("get")
        .about("Look up the vote of an address for a server: when it was cast, and when the next one may be")
        .args([server_id(), address(), json()])
        .args(connection())
        .after_help(STATUS_OF_VOTES_GET);
    Command::new("votes").about("The votes that are still in cooldown").subcommand_required(true).subcommand(get)
}

fn cancel() -> Command {
    let all = "Cancel every cooldown of this address, for all servers, those of removed servers too";
    let unless_all = |arg: Arg| arg.required(false).required_unless_present("all").conflicts_with("all");
    Command::new("cancel")
        .about("Cancel a vote, or all votes of an address: the address can vote again")
        .args([unless_all(server_id()), unless_all(address()), plain("all", "IP", all), json()])
        .args(connection())
        .after_help(STATUS_OF_CANCEL)
}

fn import() -> Command {
    let path = |arg: Arg| arg.value_parser(value_parser!(PathBuf)).value_name("FILE");
    let refused = "File for the refused lines, with number and reason [default: standard error]";
    Command::new("import")
        .about("Import servers and votes from NDJSON, or from CSV with a header line")
        .args([
            path(Arg::new("file")).help("Servers and votes in one file, as from export; - for standard input"),
            path(plain("servers", "FILE", "Servers: server_id, token")),
            path(plain("votes", "FILE", "Votes: server_id or token, ip, voted_at")),
            path(plain("refused", "FILE", refused)),
            plain("ignore-columns", "NAMES", "Columns of a CSV file to leave out, with commas between them")
                .value_delimiter(',')
                .action(ArgAction::Append),
            plain(
                "replace-tokens",
                "",
                "Give a listed server the token of the file; else a line with another token is refused",
            )
            .action(ArgAction::SetTrue),
            plain("accept-settings", "", "Take an export that was made with another cooldown or IPv6 prefix")
                .action(ArgAction::SetTrue),
            json(),
        ])
        .group(ArgGroup::new("parts").args(["servers", "votes"]).multiple(true).conflicts_with("file"))
        .group(ArgGroup::new("source").args(["file", "servers", "votes"]).multiple(true).required(true))
        .args(connection())
        .after_help(STATUS_OF_IMPORT)
}

fn export() -> Command {
    let file = Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf));
    Command::new("export")
        .about("Write out the servers and the votes still in cooldown, as NDJSON")
        .arg(file.help("Where to; - for standard output. It contains the tokens: keep it secret"))
        .args(connection())
}

fn watch() -> Command {
    let server = plain("server", "ID", "Show this server alone [default: all]").value_parser(parse_server_id);
    Command::new("watch")
        .about("Show questions and votes as they happen, with what became of each: lines on a terminal, NDJSON into a pipe")
        .args([
            server,
            plain("token-stdin", "", "Show the server alone whose token standard input gives: so no token is in an argument")
                .action(ArgAction::SetTrue)
                .conflicts_with("server"),
            plain("ip", "IP", "Show this address alone [default: all]"),
            plain("unknown", "", "Show only the questions and votes that name no listed server").action(ArgAction::SetTrue),
        ])
        .args(connection())
        .after_help(END_OF_WATCH)
}

fn check() -> Command {
    let url = option("url", "URL", "Where the service is, without the path, or unix:PATH")
        .default_value("http://127.0.0.1:8080");
    Command::new("check")
        .about("Ask whether an address may vote now, as a server's plugin does")
        .args([
            plain("server", "ID", "The server, by its number"),
            plain("token", "TOKEN", "The server, by its token"),
            address(),
            url,
            plain("wait", "SECONDS", "Where the address may vote, wait so many seconds for a vote, 1 to 50")
                .value_parser(value_parser!(u64).range(1..=50)),
            json(),
        ])
        .group(ArgGroup::new("name").args(["server", "token"]).required(true))
        .after_help(STATUS_OF_CHECK)
}

fn health() -> Command {
    Command::new("health")
        .about("Ask whether the service is ready for requests; needs no key")
        .args(control_url())
        .arg(json())
        .after_help(STATUS_OF_HEALTH)
}

fn server_id() -> Arg {
    Arg::new("id").value_name("ID").required(true).value_parser(parse_server_id).help("The server's number")
}

fn parse_server_id(text: &str) -> Result<ServerId, &'static str> {
    ServerId::parse(text.as_bytes()).map_err(|_| "a server's number is wanted, 0 to 4294967295")
}

fn address() -> Arg {
    Arg::new("ip").value_name("IP").required(true).help("The player's address")
}
