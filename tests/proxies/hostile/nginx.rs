//! nginx: a server block for each line, and one with all lines.

use crate::proxies::expected::to_path;
use crate::proxies::front::{self, Front, Kind, Place, nginx_files, nginx_of, render};
use crate::proxies::hostile::{Line, Site, are_named, ask_all, ask_while_away, judge, lines};
use crate::util::answers::prepare;
use crate::util::client::exchange;
use crate::util::needs::{has, left_out};
use crate::util::server::Server;
use crate::util::stub::Stub;
use crate::util::wait_until;
use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Directives that may stand in one block many times.
const REPEATED: &[&str] = &["add_header", "add_trailer", "if", "return", "rewrite", "break", "set", "location"];

/// Lines of `http` that the list needs.
const HTTP: &str = "limit_req_zone $binary_remote_addr zone=none:1m rate=1000r/s; \
    limit_conn_zone $binary_remote_addr zone=none_too:1m; proxy_cache_path HERE/cache keys_zone=site:1m; \
    server_names_hash_max_size 4096; variables_hash_max_size 4096;";

/// The locations of each site, besides its line.
const LOCATIONS: &str = "location = /site-401 { return 401 \"<h1>Who?</h1>\"; } \
    location = /site-500 { return 500 \"<h1>A fault</h1>\"; } \
    location = /site-page { return 200 \"<h1>A page</h1>\"; } location / { return 200 \"<h1>The site</h1>\"; }";

#[test]
fn no_line_of_a_site_bends_nginx() {
    let mut lines = lines("nginx", &['<']);
    are_named("nginx/vote-status-site.inc", &lines);
    let all = together(&lines);
    lines.push(Line { text: all, is_beaten: true, mark: None });
    let server = Server::in_memory(&[]);
    let vote = prepare(&server);
    let away = Stub::nobody();
    let Some(mut front) = Front::run(Kind::Nginx, |place| nginx(place, server.public(), away.addr(), &lines)) else {
        return;
    };
    // The site with all lines is asked over TLS.
    let (plain, tunnel, last) = (front.plain, front.tunnel(), lines.len() - 1);
    let site = |(number, line): (usize, &Line)| Site {
        at: if number == last { tunnel } else { plain }.into(),
        host: format!("s{number}.test"),
        said: line.text.clone(),
        is_beaten: line.is_beaten,
    };
    let sites: Vec<Site> = lines.iter().enumerate().map(site).collect();
    let asked = ask_all(&sites, &vote, |method, path, outcome| to_path(Kind::Nginx, method, path, outcome));
    drop(server);
    let asked_again = ask_while_away(&sites);
    // Once this line is there, all earlier lines are there.
    exchange(front.plain, "GET /the-last HTTP/1.1\r\nHost: s0.test\r\n\r\n");
    let log_of =
        |number: usize| ["log", "error", "more"].map(|name| read(front.folder(), &format!("s{number}.{name}")));
    wait_until("the log is whole", || log_of(0)[0].contains("/the-last"));
    judge(&sites, [asked, asked_again], |number| log_of(number).concat());
    assert_eq!(front.said().matches("demo").count(), 0, "{}", front.said());
}

/// Words of the list that `http` does not accept, or that the test itself has there.
const NOT_IN_HTTP: &[&str] = &[
    "return",
    "rewrite ",
    "if ",
    "set ",
    "break",
    "try_files",
    "location",
    "stub_status",
    "valid_referers",
    "referer_hash",
    "post_action",
    "client_body_temp_path",
    "proxy_temp_path",
    "access_log",
    "error_log",
];

/// The service's own file is in `http`, beside all lines that a machine's nginx.conf may have there.
#[test]
fn no_line_of_http_bends_the_service_s_own_nginx() {
    let mut lines = lines("nginx", &['<']);
    lines.retain(|line| !NOT_IN_HTTP.iter().any(|word| line.text.starts_with(word)));
    let all = together(&lines);
    let server = Server::in_memory(&[]);
    let vote = prepare(&server);
    let away = Stub::nobody();
    let Some(mut front) = Front::run(Kind::Nginx, |place| {
        let here = place.folder.display().to_string();
        fs::write(place.folder.join("nobody"), "").expect("it can be written");
        let logs = "access_log HERE/more.log; error_log HERE/more-error.log info;";
        let http = format!("{HTTP}{logs}{all}").replace("HERE", &here).replace("AWAY", &away.addr().to_string());
        front::nginx(place, &[server.public()], &[], &http)
    }) else {
        return;
    };
    let at = [front.plain, front.tunnel()];
    let site = |at: SocketAddr| Site { at: at.into(), host: "a".to_owned(), said: all.clone(), is_beaten: true };
    let sites = at.map(site);
    let asked = ask_all(&sites, &vote, |method, path, outcome| to_path(Kind::Nginx, method, path, outcome));
    drop(server);
    let asked_again = ask_while_away(&sites);
    exchange(front.plain, "GET /api/servers/s3cret/vote-status/203.0.113.99 HTTP/1.1\r\nHost: a\r\n\r\n");
    front.logged(|log| log.contains("203.0.113.99"));
    let logs = ["vote-status.log", "vote-status-error.log", "more.log", "more-error.log", "said"];
    judge(&sites, [asked, asked_again], |_| logs.map(|name| read(front.folder(), name)).concat());
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// All beaten lines in one block, of each directive the first.
fn together(lines: &[Line]) -> String {
    let mut there = HashSet::new();
    let mut all = String::new();
    for line in lines.iter().filter(|line| line.is_beaten) {
        let words = line.text.split(';').filter_map(|part| part.split_whitespace().next());
        let words: HashSet<&str> = words.filter(|word| *word != "}").collect();
        let is_new = words.iter().all(|word| REPEATED.contains(word) || !there.contains(word));
        // nginx accepts only one of the two.
        let is_other = words.contains("proxy_store") && there.contains("proxy_cache");
        if is_new && !is_other {
            there.extend(words);
            all += &line.text;
            all.push('\n');
        }
    }
    all
}

fn nginx(place: Place<'_>, service: SocketAddr, away: SocketAddr, lines: &[Line]) -> Command {
    let Place { folder, plain, tls } = place;
    let here = folder.display().to_string();
    site_files(folder, service);
    fs::write(folder.join("nobody"), "").expect("it can be written");
    let server = |(number, line): (usize, &Line)| {
        let (before, after) = if line.mark.is_some() { (line.text.as_str(), "") } else { ("", line.text.as_str()) };
        let log = format!("{here}/s{number}");
        let logs = if line.text.contains("error_log") { String::new() } else { format!("error_log {log}.error warn;") };
        format!(
            "server {{ listen {plain}; listen {tls} ssl http2; server_name s{number}.test; access_log {log}.log; {logs}
                ssl_certificate {here}/fullchain.pem; ssl_certificate_key {here}/privkey.pem;
                {before}
                include {here}/vote-status-site.inc;
                {after}
                {LOCATIONS} }}\n"
        )
        .replace("LOG", &log)
    };
    let servers: String = lines.iter().enumerate().map(server).collect();
    let http = format!("{HTTP}{servers}").replace("HERE", &here).replace("AWAY", &away.to_string());
    nginx_of(folder, &http)
}

/// The files for a site, in this folder.
fn site_files(folder: &Path, service: SocketAddr) {
    let replaced = [("127.0.0.1:8080", service.to_string()), ("/etc/nginx/", format!("{}/", folder.display()))];
    render(folder, "nginx/vote-status-site.inc", &replaced, &[]);
    nginx_files(folder, &["bodies", "shield"]);
}

/// The version of the list. Later versions have more directives.
const LISTED: &str = "nginx/1.22.";

/// Directives that the list does not need: for other kinds of upstream, for TLS towards the service, which has none, and
/// for the time before nginx has a request with a path.
const NOT_IN_THE_LIST: &[&str] = &[
    "fastcgi_",
    "grpc_",
    "memcached_",
    "scgi_",
    "uwsgi_",
    "proxy_ssl_",
    "ssl_",
    "http2_",
    "listen",
    "client_header_buffer_size",
    "large_client_header_buffers",
    "max_headers",
    "secure_link_secret",
];

/// The list has each directive that this machine's nginx accepts in a server block. To find these, the test tries each word
/// of nginx's program as a directive.
#[test]
fn the_list_has_every_directive_of_nginx() {
    if !has(&["nginx"]) {
        return;
    }
    let version = Command::new("nginx").arg("-v").output().expect("nginx runs");
    if !String::from_utf8_lossy(&version.stderr).contains(LISTED) {
        return left_out(&format!("the list of directives is of {LISTED}"));
    }
    let program =
        ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].into_iter().find_map(|path| fs::read(path).ok());
    let program = program.expect("nginx is in a usual place");
    let is_of_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    let list = include_str!("nginx.txt");
    let listed: HashSet<&str> = list.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
    let words: HashSet<&str> = program
        .split(|byte| *byte == 0)
        .filter(|text| (2..=40).contains(&text.len()) && text[0].is_ascii_lowercase() && text.iter().all(is_of_word))
        .filter_map(|text| std::str::from_utf8(text).ok())
        .collect();
    let is_of_interest =
        |word: &&str| !listed.contains(word) && !NOT_IN_THE_LIST.iter().any(|begin| word.starts_with(begin));
    let unlisted: Vec<&str> = words.iter().copied().filter(is_of_interest).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let is_taken = |word: &str| {
        let path = folder.path().join(word);
        let conf = format!("events {{}} http {{ access_log off; server {{ listen 127.0.0.1:1; {word}; }} }}\n");
        fs::write(&path, conf).expect("it can be written");
        let tried = Command::new("nginx").args(["-t", "-e", "stderr", "-c"]).arg(&path).output().expect("nginx runs");
        let said = String::from_utf8_lossy(&tried.stderr).into_owned();
        assert!(said.contains(word) || tried.status.success(), "{word}: {said}");
        !said.contains("unknown directive") && !said.contains("is not allowed here")
    };
    let parts = unlisted.chunks(unlisted.len().div_ceil(4).max(1));
    let missing: Vec<&str> = thread::scope(|scope| {
        let tries: Vec<_> = parts
            .map(|part| scope.spawn(|| part.iter().copied().filter(|word| is_taken(word)).collect::<Vec<_>>()))
            .collect();
        tries.into_iter().flat_map(|tried| tried.join().expect("no try panics")).collect()
    });
    println!("{} words, {} of them not in the list", words.len(), unlisted.len());
    assert!(words.contains("proxy_cache") && words.len() > 1_000, "{} words", words.len());
    assert_eq!(missing, [""; 0], "directives that nginx.txt does not have");
}
