//! Caddy: two sites for each line, and one for all of them.

use crate::proxies::expected::to_path;
use crate::proxies::front::{Front, Kind, Place, caddy_of, render};
use crate::proxies::hostile::{Line, Site, are_named, ask_all, ask_while_away, judge, lines};
use crate::util::answers::prepare;
use crate::util::client::exchange;
use crate::util::needs::{has, left_out};
use crate::util::server::{Server, run_to_end};
use crate::util::stub::Stub;
use crate::util::wait_until;
use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

/// The site's own answer.
const REST: &str = "respond \"<h1>The site</h1>\"";

/// The marks of a line that is allowed only outside of `handle`, and of one that needs a module that some packages lack.
const MARKS: [char; 2] = [OUTSIDE, OPTIONAL];
const OUTSIDE: char = '^';
const OPTIONAL: char = '?';

#[test]
fn no_line_of_a_site_bends_caddy() {
    let mut lines = lines("caddy", &MARKS);
    are_named("caddy/vote-status-site.caddy", &lines);
    if !has(&["caddy"]) {
        return;
    }
    let handlers = handlers_of_caddy();
    lines.retain(|line| can_stand(line, &handlers));
    // Caddy takes long to start with many sites.
    blocks(&lines).chunks(AT_A_TIME).for_each(ask_some);
}

/// Sites of one Caddy.
const AT_A_TIME: usize = 32;

fn ask_some(blocks: &[Block]) {
    let server = Server::in_memory(&[]);
    let vote = prepare(&server);
    let away = Stub::nobody();
    let Some(mut front) = Front::run(Kind::Caddy, |place| caddy(place, server.public(), away.addr(), blocks)) else {
        return;
    };
    let (plain, tunnel) = (front.plain, front.tunnel());
    let site = |(number, block): (usize, &Block)| Site {
        at: if block.is_over_tls { tunnel } else { plain }.into(),
        // Caddy names a log by host and port.
        host: format!("s{number}.test:{}", plain.port()),
        said: block.text.clone(),
        is_beaten: block.is_beaten,
    };
    let sites: Vec<Site> = blocks.iter().enumerate().map(site).collect();
    let asked = ask_all(&sites, &vote, |method, path, outcome| to_path(Kind::Caddy, method, path, outcome));
    drop(server);
    let asked_again = ask_while_away(&sites);
    // Once this line is there, all earlier lines are there.
    exchange(plain, format!("GET /the-last HTTP/1.1\r\nHost: {}\r\n\r\n", sites[0].host));
    let log_of = |number: usize| {
        let read = |name| fs::read_to_string(front.folder().join(format!("s{number}.{name}"))).unwrap_or_default();
        ["log", "more"].map(read).concat()
    };
    wait_until("the log is whole", || log_of(0).contains("/the-last"));
    judge(&sites, [asked, asked_again], log_of);
    let said = front.said();
    let leaks: Vec<&str> = said.lines().filter(|line| line.contains("s3cret") || line.contains("demo")).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

/// A site's block behind the line of the shipped file.
struct Block {
    text: String,
    is_beaten: bool,
    is_over_tls: bool,
}

impl Block {
    fn plain(text: String, is_beaten: bool) -> Block {
        Block { text, is_beaten, is_over_tls: false }
    }
}

fn blocks(lines: &[Line]) -> Vec<Block> {
    let inside = |text: &str| format!("{text}\nhandle {{\n{REST}\n}}");
    let outside = lines.iter().map(|line| Block::plain(inside(&line.text), line.is_beaten));
    let can_be_inside = || lines.iter().filter(|line| line.mark != Some(OUTSIDE));
    let within = can_be_inside().map(|line| format!("handle {{\n{}\n{REST}\n}}", line.text));
    let all: Vec<&str> = can_be_inside().map(|line| line.text.as_str()).collect();
    // Otherwise the block would have the name of a logger twice.
    let around = lines.iter().filter(|line| line.mark == Some(OUTSIDE) && !line.text.starts_with("log"));
    let around: Vec<&str> = around.map(|line| line.text.as_str()).collect();
    let all = format!("{}\nhandle {{\n{}\n{REST}\n}}", around.join("\n"), all.join("\n"));
    let within = within.map(|text| Block::plain(text, true));
    outside.chain(within).chain([Block { text: all, is_beaten: true, is_over_tls: true }]).collect()
}

fn caddy(place: Place<'_>, service: SocketAddr, away: SocketAddr, blocks: &[Block]) -> Command {
    let Place { folder, plain, tls } = place;
    let here = folder.display();
    let import = render(folder, "caddy/vote-status-site.caddy", &[("127.0.0.1:8080", service.to_string())], &[]);
    let options = render(folder, "caddy/vote-status-options.caddy", &[], &[]);
    let mut text = format!("{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\timport {options}\n}}\n");
    let secure = format!("https://:{} {{\ntls {here}/fullchain.pem {here}/privkey.pem\n", tls.port());
    for (number, block) in blocks.iter().enumerate() {
        let address = format!("http://s{number}.test:{} {{\n", plain.port());
        let address = if block.is_over_tls { &secure } else { &address };
        let has_log = block.text.starts_with("log");
        let log = if has_log { String::new() } else { format!("log {{\noutput file {here}/s{number}.log\n}}") };
        let said = block.text.replace("LOG", &format!("{here}/s{number}"));
        text += &format!("{address}{log}\nimport {import}\n{said}\n}}\n");
    }
    if !blocks.iter().any(|block| block.is_over_tls) {
        text += &format!("{secure}respond nothing\n}}\n");
    }
    let text = text.replace("HERE", &here.to_string()).replace("AWAY", &away.to_string());
    let file = folder.join("Caddyfile");
    fs::write(&file, text).expect("it can be written");
    caddy_of(folder, &file.display().to_string())
}

/// The version of the list. Later versions have more modules.
const LISTED: &str = "2.6.";

/// Each directive of Caddy's documentation, those of later versions too, except for `import` and `tls`. `tls` concerns the
/// time before Caddy has a request.
const DIRECTIVES: &str = "abort acme_server basic_auth basicauth bind copy_response copy_response_headers encode error \
    file_server forward_auth fs handle handle_errors handle_path header intercept invoke log log_append log_name log_skip map \
    method metrics php_fastcgi push redir request_body request_header respond reverse_proxy rewrite root route skip_log \
    templates tracing try_files uri vars";

/// The list has each directive that this Caddy knows, and uses each of its modules that handle a request.
#[test]
fn the_list_has_each_directive_and_handler_of_caddy() {
    if !has(&["caddy"]) {
        return;
    }
    if !caddy_says(&["version"]).0.trim_start_matches('v').starts_with(LISTED) {
        return left_out(&format!("the list of directives is of Caddy {LISTED}"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let adapt = |text: &str| {
        let file = folder.path().join("Caddyfile");
        fs::write(&file, text).expect("it can be written");
        caddy_says(&["adapt", "--adapter", "caddyfile", "--config", &file.display().to_string()])
    };
    let handlers = handlers_of_caddy();
    let lines = lines("caddy", &MARKS);
    let sites = lines.iter().filter(|line| can_stand(line, &handlers)).enumerate();
    let sites: String = sites.map(|(number, line)| format!("http://s{number}.test {{\n{}\n}}\n", line.text)).collect();
    let (adapted, errors) = adapt(&sites.replace("AWAY", "127.0.0.1:1"));
    let used: HashSet<&str> =
        adapted.split("\"handler\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unused: Vec<&String> = handlers.iter().filter(|name| !used.contains(name.as_str())).collect();
    assert!(handlers.len() > 15 && unused.is_empty(), "{unused:?} are in no line: {errors}");
    let words: HashSet<&str> = lines.iter().flat_map(|line| line.text.split_whitespace()).collect();
    let is_directive = |word: &&str| !adapt(&format!(":1 {{\n{word}\n}}\n")).1.contains("unrecognized directive");
    let missing: Vec<&str> =
        DIRECTIVES.split_whitespace().filter(|word| !words.contains(word)).filter(is_directive).collect();
    assert!(!is_directive(&"nonsense") && missing.is_empty(), "{missing:?} are in no line");
}

/// The modules of this Caddy that handle a request, without `http.handlers.`.
fn handlers_of_caddy() -> HashSet<String> {
    let modules = caddy_says(&["list-modules"]).0;
    modules.lines().filter_map(|line| line.strip_prefix("http.handlers.").map(str::to_owned)).collect()
}

/// Whether this Caddy accepts the line.
fn can_stand(line: &Line, handlers: &HashSet<String>) -> bool {
    let word = line.text.split(' ').next().unwrap_or_default();
    let can_stand = line.mark != Some(OPTIONAL) || handlers.contains(word);
    if !can_stand {
        println!("this Caddy has no {word}");
    }
    can_stand
}

/// Caddy's standard output and standard error.
fn caddy_says(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new("caddy");
    command.args(arguments);
    let ended = run_to_end(command);
    (ended.stdout, ended.stderr)
}
