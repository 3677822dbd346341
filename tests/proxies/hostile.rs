//! Sites with every line that could harm the status paths, which they include by the files made for a site. Each line of
//! the lists in `tests/proxies/hostile/` has a site of its own, and one site has all lines. Whatever a site's lines,
//! the answers are the service's, and no log holds a token.
//!
//! No file can take back a line with `!`. The shipped file's first comment names it, and this test shows that the line
//! still changes an answer or writes a token.

mod caddy;
mod haproxy;
mod nginx;

use crate::proxies::away::expect_away;
use crate::proxies::expected::Answer;
use crate::proxies::{again_if_late, expect};
use crate::util::answers::{
    CAN_VOTE, IN_COOLDOWN, INVALID_IP, INVALID_SERVER_ID, METHOD_NOT_ALLOWED, NOT_FOUND, OPTIONS, OneVote, Outcome,
    UNKNOWN_SERVER, UNKNOWN_TOKEN,
};
use crate::util::client::Client;
use crate::util::endpoint::Endpoint;
use crate::util::package::read_text;
use crate::util::patience::in_time;
use std::thread::scope;

/// The requests to each site, each with the service's answer.
const ASKED: [(&str, &str, &Outcome); 41] = [
    ("GET", "/api/vote/28/status/203.0.113.7", &CAN_VOTE),
    ("GET", "/api/vote/28/status/203.0.113.8", &IN_COOLDOWN),
    ("GET", "/api/servers/demo/vote-status/203.0.113.7", &CAN_VOTE),
    ("GET", "/api/servers/demo/vote-status/203.0.113.8", &IN_COOLDOWN),
    ("GET", "/api/servers/demo/vote-status/203.0.113.8/", &IN_COOLDOWN),
    ("GET", "/api/servers/demo/vote-status/203.0.113.8?t=1763636696", &IN_COOLDOWN),
    ("GET", "/api/servers/demo/vote-status/203.0.113.8?token=s3cret&wait=x", &IN_COOLDOWN),
    ("GET", "/api/servers/d%65mo/vote-status/203.0.113.8", &IN_COOLDOWN),
    ("GET", "/api/servers/demo/vote%2Dstatus/203.0.113.8", &IN_COOLDOWN),
    ("GET", "/%61pi/servers/demo/vote-status/203.0.113.8", &IN_COOLDOWN),
    ("GET", "/api/vote/28/st%61tus/2001%3Adb8%3A0%3A8%3A%3A1", &IN_COOLDOWN),
    ("GET", "/api/vote/28/status/%3A%3Affff%3A203.0.113.8", &IN_COOLDOWN),
    ("GET", "/api/vote/28/status/2001:db8:0:9::8", &CAN_VOTE),
    ("GET", "/api/servers/~._-aZ09+=/vote-status/203.0.113.8", &CAN_VOTE),
    ("GET", "/api/vote/4294967295/status/203.0.113.8", &CAN_VOTE),
    ("HEAD", "/api/vote/28/status/203.0.113.8", &IN_COOLDOWN),
    ("HEAD", "/api/servers/demo/vote-status/203.0.113.7", &CAN_VOTE),
    ("OPTIONS", "/api/vote/28/status/203.0.113.8", &OPTIONS),
    ("POST", "/api/vote/28/status/203.0.113.8", &METHOD_NOT_ALLOWED),
    ("PUT", "/api/servers/demo/vote-status/203.0.113.8", &METHOD_NOT_ALLOWED),
    ("DELETE", "/api/servers/demo/vote-status/203.0.113.8", &METHOD_NOT_ALLOWED),
    // Faults, and the words of the site's own server.
    ("GET", "/api/vote/28/status/1.2.3", &INVALID_IP),
    ("GET", "/api/vote/28/status/203.0.113.8%2F24", &INVALID_IP),
    ("GET", "/api/vote/x/status/203.0.113.8", &INVALID_SERVER_ID),
    ("GET", "/api/vote/29/status/203.0.113.8", &UNKNOWN_SERVER),
    ("GET", "/api/vote/28/status", &NOT_FOUND),
    ("GET", "/api/servers/s3cret/vote-status", &NOT_FOUND),
    ("GET", "/api/servers/s3cret/vote-status/203.0.113.8/x", &NOT_FOUND),
    ("GET", "/api/servers/index.php/vote-status/203.0.113.8", &UNKNOWN_TOKEN),
    ("GET", "/api/servers/.s3cret/vote-status/203.0.113.8", &UNKNOWN_TOKEN),
    // Secrets of every kind, and in every place.
    ("GET", "/api/servers/s3cret+A=b~c.d_e-f/vote-status/203.0.113.8", &UNKNOWN_TOKEN),
    ("GET", "/api/servers/s3cret%2Fs3cret/vote-status/203.0.113.8", &UNKNOWN_TOKEN),
    ("GET", "/api/servers/203.0.113.8/vote-status/s3cret+A=b~c.d_e-f", &UNKNOWN_TOKEN),
    ("GET", "/api/servers/203.0.113.8/vote-status/5ec3e75ec3e75ec3e75ec3e75ec3e7", &UNKNOWN_TOKEN),
    ("GET", "/api/vote/s3cret/status/203.0.113.8", &INVALID_SERVER_ID),
    // Requests of a plugin with a slash at the end of its base address, or without token and number.
    ("GET", "//api/servers/s3cret/vote-status/203.0.113.8", &NOT_FOUND),
    ("GET", "/api//servers/s3cret/vote-status/203.0.113.8", &NOT_FOUND),
    ("GET", "/API/servers/s3cret/Vote-Status/203.0.113.8", &NOT_FOUND),
    ("GET", "/api/servers//vote-status/203.0.113.8", &UNKNOWN_TOKEN),
    ("GET", "/api/vote//status/203.0.113.8", &INVALID_SERVER_ID),
    ("GET", "http://HOST/api/servers/demo/vote-status/203.0.113.8", &IN_COOLDOWN),
];

/// Sites that are asked at once.
const AT_ONCE: usize = 32;

/// Texts that no log may have.
const SECRETS: &[&str] = &["s3cret", "demo", "d%65mo", "5ec3e7", "aZ09", "A=b~c"];

/// Conditions and ranges: a request for a status always gets the whole answer.
const FIELDS: &str = "Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\nIf-Match: x\r\n\
                      If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nReferer: http://other.test/\r\n";

/// A line of a list.
#[derive(Debug)]
struct Line {
    /// The site's lines; a ` ;; ` in the list is the end of a line.
    text: String,
    /// Whether the answers are the service's nevertheless.
    is_beaten: bool,
    /// The mark behind `!`, or at the start of a beaten line, where the list has one.
    mark: Option<char>,
}

/// The lines of `tests/proxies/hostile/NAME.txt`.
fn lines(name: &str, marks: &[char]) -> Vec<Line> {
    let text = read_text(format!("tests/proxies/hostile/{name}.txt"));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let rest = line.strip_prefix('!').unwrap_or(line);
            let mark = rest.chars().next().filter(|first| marks.contains(first));
            let said = mark.map_or(rest, |mark| &rest[mark.len_utf8()..]).trim();
            Line { text: said.replace(" ;; ", "\n"), is_beaten: !line.starts_with('!'), mark }
        })
        .collect()
}

/// Requires that the first comment of a file names each directive that the file cannot take back.
fn are_named(file: &str, lines: &[Line]) {
    let text = read_text(format!("contrib/{file}"));
    let comment: String = text.lines().take_while(|line| line.starts_with('#')).collect();
    for line in lines.iter().filter(|line| !line.is_beaten) {
        let word = line.text.split([' ', ';']).next().expect("a word");
        assert!(comment.contains(&format!("`{word}")), "the first comment of {file} does not name {word}");
    }
}

/// One hostile site, and its address.
#[derive(Debug)]
struct Site {
    at: Endpoint,
    host: String,
    /// The site's lines, for the message of a failed test.
    said: String,
    is_beaten: bool,
}

/// For each site, the answer that differs from the service's, if any.
type Faults = Vec<Option<String>>;

/// Asks each site for everything in `ASKED`. The proxy answers some requests by itself, as `expected` says.
fn ask_all(sites: &[Site], vote: &OneVote, expected: impl Fn(&str, &str, &'static Outcome) -> Answer + Sync) -> Faults {
    let next = vote.next();
    each_site(sites, |site| {
        let mut client = Client::connect(&site.at);
        for (method, path, outcome) in ASKED {
            let answer = expected(method, path, outcome);
            let path = path.replace("HOST", &site.host);
            let body = if method == "POST" { "Content-Length: 9\r\n\r\nsite=2000" } else { "\r\n" };
            let request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{FIELDS}{body}", site.host);
            let label = format!("{method} {path}");
            let mut ask = || {
                client.send(&request);
                let response = client.try_read_response(method == "HEAD");
                let response = response.unwrap_or_else(|error| panic!("{label}: {error}"));
                if response.says_close() {
                    client = Client::connect(&site.at);
                }
                response
            };
            let response = again_if_late(ask(), &mut ask);
            expect(&label, &response, answer, &next, method == "HEAD");
        }
    })
}

/// Asks each site while no service runs. The answers must be safe and come in time.
fn ask_while_away(sites: &[Site]) -> Faults {
    each_site(sites, |site| {
        for path in ["/api/vote/28/status/203.0.113.8", "/api/servers/demo/vote-status/203.0.113.8?wait=5"] {
            let mut client = Client::connect(&site.at);
            client.send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{FIELDS}\r\n", site.host));
            let label = format!("{path} while the service is away");
            expect_away(&label, &in_time(&label, || client.read_response(false)), false);
        }
    })
}

/// Runs `asks` for each site, some at once.
fn each_site(sites: &[Site], asks: impl Fn(&Site) + Sync) -> Faults {
    let fault = |site| {
        // A thread for each site, as a wrong answer panics, and some sites must give wrong answers.
        let ended = scope(|threads| threads.spawn(|| asks(site)).join());
        ended.err().map(|panic| panic.downcast::<String>().map_or("a panic".to_owned(), |text| *text))
    };
    let fault = &fault;
    scope(|threads| {
        let parts = sites.chunks(sites.len().div_ceil(AT_ONCE));
        let parts: Vec<_> = parts.map(|part| threads.spawn(|| part.iter().map(fault).collect::<Faults>())).collect();
        parts.into_iter().flat_map(|part| part.join().expect("no part panics")).collect()
    })
}

/// Requires wrong answers or a logged token of each site whose line has a `!`, and of no other. `logged` gives the logs of
/// the site with this number.
fn judge(sites: &[Site], faults: [Faults; 2], logged: impl Fn(usize) -> String) {
    let mut wrong = String::new();
    for (number, site) in sites.iter().enumerate() {
        let mut found: Vec<String> = faults.iter().filter_map(|faults| faults[number].clone()).collect();
        let log = logged(number);
        let leaks = log.lines().filter(|line| SECRETS.iter().any(|secret| line.contains(secret)));
        found.extend(leaks.take(3).map(|line| format!("logged: {line}")));
        if found.is_empty() != site.is_beaten {
            wrong += &format!(
                "{}\n    {}\n",
                site.said,
                if site.is_beaten { found.join("\n    ") } else { "is beaten".to_owned() }
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    println!("{} sites, {} requests each", sites.len(), ASKED.len() + 2);
}
