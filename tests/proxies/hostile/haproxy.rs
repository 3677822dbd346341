//! HAProxy: a frontend for each line, with `defaults` of its own, and one for all of them.

use crate::proxies::expected::to_path;
use crate::proxies::front::{Front, Kind, Place, haproxy_of, haproxy_shared, site_rules};
use crate::proxies::hostile::{Line, Site, are_named, ask_all, ask_while_away, judge, lines};
use crate::util::answers::prepare;
use crate::util::client::exchange;
use crate::util::endpoint::Endpoint;
use crate::util::needs::has;
use crate::util::package::read_text;
use crate::util::server::{Server, run_to_end};
use crate::util::wait_until;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

/// What the list needs besides frontends.
const REST: &str = "global\n    log stderr local0\n    expose-experimental-directives\n\
    userlist people\n    user somebody insecure-password secret\n\
    cache site\n    total-max-size 4\n    max-age 60\n\
    http-errors pages\n    errorfile 503 HERE/page.http\n    errorfile 502 HERE/page.http\n\
    defaults\n    mode http\n    timeout client 50s\n    timeout connect 5s\n    timeout server 50s\n\
    backend counts\n    stick-table type ip size 10 expire 1m store http_req_cnt\n\
    backend pages\n    http-request return status 200 content-type text/html string \"<h1>The site</h1>\"\n";

const PAGE: &str = "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<h1>Sorry</h1>";

#[test]
fn no_line_of_a_site_bends_haproxy() {
    let mut lines = lines("haproxy", &['<', '@']);
    are_named("haproxy/vote-status.cfg", &lines);
    lines.push(Line { text: String::new(), is_beaten: true, mark: None });
    let server = Server::in_memory(&[]);
    let vote = prepare(&server);
    let Some(front) = Front::run(Kind::Haproxy, |place| haproxy(place, server.public(), &lines)) else { return };
    let site = |(number, line): (usize, &Line)| Site {
        at: Endpoint::Unix(front.folder().join(format!("s{number}"))),
        host: "the.site".to_owned(),
        said: format!("{}{}", line.mark.map(String::from).unwrap_or_default(), line.text),
        is_beaten: line.is_beaten,
    };
    let sites: Vec<Site> = lines.iter().enumerate().map(site).collect();
    wait_until("HAProxy listens", || sites.iter().all(|site| site.at.connect().is_ok()));
    let asked = ask_all(&sites, &vote, |method, path, outcome| to_path(Kind::Haproxy, method, path, outcome));
    drop(server);
    let asked_again = ask_while_away(&sites);
    // Lines that are written before this one are there with it.
    exchange(front.plain, "GET /the-last HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the log is whole", || front.said().contains("/the-last"));
    let said = front.said();
    let log_of = |number: usize| {
        let name = format!("site-{number}-");
        said.lines().filter(|line| line.contains(&name)).collect::<Vec<_>>().join("\n")
    };
    judge(&sites, [asked, asked_again], log_of);
}

/// Rules that no frontend has, that need another program or a resolver, or of which the list has one of the same family.
const LEFT_OUT: &[&str] =
    &["set-timeout", "ot-group", "send-spoe-group", "do-resolve", "del-acl", "del-map", "add-acl", "set-map", "sc-"];

/// HAProxy names its own rules and options.
#[test]
fn the_list_has_each_rule_and_option_of_haproxy() {
    if !has(&["haproxy"]) {
        return;
    }
    let mut command = Command::new("/usr/sbin/haproxy");
    command.args(["-dKcfg", "-q", "-c", "-f", "/dev/null"]);
    let list = read_text("tests/proxies/hostile/haproxy.txt");
    let printed = run_to_end(command).stdout;
    let rules = ["http-request ", "http-response ", "http-after-response "];
    let is_asked = |name: &str| {
        let is_rule =
            rules.iter().any(|kind| name.starts_with(kind)) && !LEFT_OUT.iter().any(|word| name.contains(word));
        is_rule || (name.starts_with("option ") && name.contains("[ FE"))
    };
    let names: Vec<&str> = printed.lines().map(str::trim).filter(|name| is_asked(name)).collect();
    assert!(names.len() > 60, "{printed}");
    let name_of = |name: &str| name.split(" [").next().unwrap_or_default().trim_end_matches('*').to_owned();
    let missing: Vec<String> = names.into_iter().map(name_of).filter(|name| !list.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The one without a line of its own has all.
fn haproxy(place: Place<'_>, service: SocketAddr, lines: &[Line]) -> Command {
    let Place { folder, plain, tls } = place;
    let here = folder.display().to_string();
    for name in ["acl", "map"] {
        fs::write(folder.join(name), "").expect("it can be written");
    }
    fs::write(folder.join("page.http"), PAGE).expect("it can be written");
    let beaten = |mark| {
        let lines = lines.iter().filter(move |line| line.is_beaten && line.mark == mark);
        lines.map(|line| format!("    {}\n", line.text)).collect::<String>()
    };
    let said = |number: usize, mark: Option<char>| {
        let line = &lines[number];
        let its_own = if line.mark == mark { line.text.replace('\n', "\n    ") } else { String::new() };
        if line.text.is_empty() { beaten(mark) } else { format!("    {its_own}\n") }
    };
    let frontend = |number: usize| {
        format!(
            "defaults d{number}\n    mode http\n    log global\n    option httplog\n    timeout client 50s\n    \
             timeout connect 5s\n    timeout server 50s\n{}\
             frontend site-{number}- from d{number}\n    bind unix@{here}/s{number}\n{}{}{}    default_backend pages\n",
            said(number, Some('@')),
            if lines[number].mark == Some('<') { said(number, Some('<')) } else { String::new() },
            site_rules(),
            said(number, None),
        )
    };
    let frontends: String = (0..lines.len()).map(frontend).collect();
    let listens = format!(
        "defaults last\n    mode http\n    log global\n    option httplog\n    timeout client 50s\n    timeout connect 5s\n    \
         timeout server 50s\nfrontend last from last\n    bind {plain}\n    bind {tls} ssl crt {here}/haproxy.pem\n    \
         default_backend pages\n"
    );
    let file = folder.join("haproxy.cfg");
    fs::write(&file, format!("{REST}{frontends}{listens}").replace("HERE", &here)).expect("it can be written");
    haproxy_of(&[&file.display().to_string(), &haproxy_shared(folder, &[service], &[])])
}
