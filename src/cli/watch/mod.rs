//! `vote-status watch`: questions and votes as they happen. A terminal gets lines for people, a file or a pipe gets
//! NDJSON. The end brings a summary in words.

use std::env;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Write, stderr, stdin, stdout};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use ureq::BodyReader;

use crate::cli::client::{ControlClient, segment};
use crate::cli::{CliError, Exit, note, on_one_line, servers};
use crate::json::escaped;
use crate::vote::id::ServerId;

mod show;
mod summary;

use show::Style;
use summary::Tally;

/// The pause before the client tries a lost connection again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The most lines that were read from the service and are not written yet.
const LINES_MAX: usize = 1_024;

/// The longest time for the summary behind a signal.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

enum News {
    Line(String),
    /// There is no connection, for this reason.
    Lost(String),
    Stop,
}

/// Watches until it is told to stop.
///
/// # Errors
/// Where the service cannot be reached at first, or refuses the watch.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let client = ControlClient::new(options)?;
    let server = server(options, &client)?;
    let path = path(options, server);
    let unlisted = match server {
        Some(server) => client.get(&format!("/v1/servers/{server}"))?.text("error") == "unknown_server",
        None => false,
    };
    let first = client.stream(&path)?;
    note(what(options, server, client.url()));
    if unlisted {
        note("this server is not listed: every question about it is answered with an error");
    }
    let (news, received) = sync_channel(LINES_MAX);
    let failed = |error| CliError::new(format_args!("signals cannot be taken: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let stop = news.clone();
    // Both threads end with the process.
    thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        // A reader of the output that takes no more lines must not keep the process.
        thread::spawn(move || {
            thread::sleep(STOP_PATIENCE);
            note("standard output takes no more lines: the summary is left out");
            let _ended = emulate_default_handler(signal);
        });
        let _ended = stop.send(News::Stop);
    });
    thread::spawn(move || follow(&client, &path, first, &news));
    let is_terminal = stdout().is_terminal();
    let mut style = Style::new(is_terminal && env::var_os("NO_COLOR").is_none());
    let (mut tally, mut lost) = (Tally::default(), None);
    for news in received {
        match news {
            News::Stop => break,
            News::Lost(why) if lost.as_ref() != Some(&why) => {
                note(format_args!("vote-status: {why}; trying again"));
                lost = Some(why);
            }
            News::Lost(_) => {}
            News::Line(line) => {
                lost = None;
                let Ok(mut value) = serde_json::from_str::<Value>(&line) else { continue };
                escape(&mut value);
                tally.add(&value);
                let shown = if is_terminal { style.show(&value) } else { escaped(&on_one_line(&line)).into_owned() };
                if !shown.is_empty() && !write(&shown)? {
                    return Ok(Exit::Success);
                }
            }
        }
    }
    if stderr().is_terminal() {
        // The terminal has written "^C" at the beginning of this line.
        note("");
    }
    tally.text().lines().for_each(note);
    Ok(Exit::Success)
}

/// The one server to watch, if an option names it.
fn server(options: &ArgMatches, client: &ControlClient) -> Result<Option<ServerId>, CliError> {
    if !options.get_flag("token-stdin") {
        return Ok(options.get_one::<ServerId>("server").copied());
    }
    let mut token = String::new();
    let failed = |error| CliError::new(format_args!("standard input gives no token: {error}"));
    stdin().read_line(&mut token).map_err(failed)?;
    servers::with_token(client, token.trim()).map(Some)
}

fn path(options: &ArgMatches, server: Option<ServerId>) -> String {
    let server = server.map(|server| format!("server_id={server}"));
    let address = options.get_one::<String>("ip").map(|ip| format!("ip={}", segment(ip)));
    let unknown = options.get_flag("unknown").then(|| "unknown=1".to_owned());
    format!("/v1/watch?{}", [server, address, unknown].into_iter().flatten().collect::<Vec<_>>().join("&"))
}

/// The first line, which names the filter.
fn what(options: &ArgMatches, server: Option<ServerId>, url: &str) -> String {
    let server = match server {
        _ if options.get_flag("unknown") => "the questions and votes that name no listed server".to_owned(),
        Some(server) => format!("server {server}"),
        None => "every server".to_owned(),
    };
    let address = options.get_one::<String>("ip").map_or("every address", String::as_str);
    format!("watching {server} and {address} at {url}; Ctrl-C ends the watch")
}

/// Reads stream after stream, until the receiver of the news is dropped.
fn follow(client: &ControlClient, path: &str, first: BodyReader<'static>, news: &SyncSender<News>) {
    let mut stream = Ok(first);
    loop {
        let why = match stream {
            Ok(stream) => {
                let mut lines = BufReader::new(stream).lines();
                loop {
                    match lines.next() {
                        Some(Ok(line)) => {
                            if news.send(News::Line(line)).is_err() {
                                return;
                            }
                        }
                        Some(Err(error)) => break format!("{} was lost: {error}", client.url()),
                        None => break format!("{} has ended the watch", client.url()),
                    }
                }
            }
            Err(error) => CliError::to_string(&error),
        };
        if news.send(News::Lost(why)).is_err() {
            return;
        }
        thread::sleep(RETRY_PAUSE);
        stream = client.stream(path);
    }
}

/// Escapes the texts of a line, before colours and columns are added.
fn escape(line: &mut Value) {
    let Value::Object(members) = line else { return };
    for member in members.values_mut() {
        if let Value::String(text) = member {
            *text = escaped(text).into_owned();
        }
    }
}

/// Writes a line; `false` if the reader has gone.
fn write(line: &str) -> Result<bool, CliError> {
    let mut out = stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::new(format_args!("standard output takes no more: {error}"))),
    }
}
