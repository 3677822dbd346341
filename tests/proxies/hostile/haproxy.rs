//! HAProxy: a section for each line, with `defaults` of its own, and two sections with all lines.

use crate::proxies::expected::to_path;
use crate::proxies::front::{Front, Kind, Place, haproxy_of, haproxy_shared, site_rules};
use crate::proxies::hostile::{Line, Site, are_named, ask_all, ask_while_away, judge, lines};
use crate::util::answers::prepare;
use crate::util::client::exchange;
use crate::util::endpoint::Endpoint;
use crate::util::needs::{has, left_out};
use crate::util::package::read_text;
use crate::util::server::{Server, run_to_end};
use crate::util::stub::Stub;
use crate::util::wait_until;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

/// The sections that the list needs besides frontends.
const REST: &str = "global\n    log stderr local0\n    expose-experimental-directives\n    external-check\n\
    insecure-fork-wanted\n    lua-load HERE/site.lua\n\
    resolvers site\n    nameserver nobody AWAY\n    resolve_retries 1\n    timeout resolve 50ms\n    timeout retry 50ms\n\
    fcgi-app site\n    docroot /srv\n\
    userlist people\n    user somebody insecure-password secret\n\
    cache site\n    total-max-size 4\n    max-age 60\n\
    http-errors pages\n    errorfile 503 HERE/page.http\n    errorfile 502 HERE/page.http\n\
    defaults\n    mode http\n    timeout client 50s\n    timeout connect 5s\n    timeout server 50s\n\
    backend agents\n    mode tcp\n    server nobody AWAY\n\
    backend counts\n    stick-table type ip size 10 expire 1m store http_req_cnt\n\
    backend pages\n    http-request return status 200 content-type text/html string \"<h1>The site</h1>\"\n";

/// The place of a line: before the file's lines, in its own `defaults`, or in a section of another kind.
const MARKS: [char; 3] = ['<', '@', LISTEN];
const LISTEN: char = '=';

const PAGE: &str = "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<h1>Sorry</h1>";

/// An agent that does not exist, and the message to it, for engine N.
const SPOE: &str = "[siteN]\nspoe-agent siteN\n    groups askers\n    use-backend agents\n    timeout hello 50ms\n    \
    timeout idle 1s\n    timeout processing 50ms\nspoe-group askers\n    messages asker\nspoe-message asker\n    args src\n";

/// Lines that HAProxy accepts only in a section without `balance`, or without another filter.
const ALONE: &[&str] = &["option transparent", "filter fcgi-app"];

/// A page of the site's in place of an answer.
const LUA: &str = r#"
core.register_service("site", "http", function(applet)
    applet:set_status(200)
    applet:start_response()
    applet:send("<h1>The site</h1>")
end)
"#;

#[test]
fn no_line_of_a_site_bends_haproxy() {
    let mut lines = lines("haproxy", &MARKS);
    are_named("haproxy/vote-status.cfg", &lines);
    lines.extend([None, Some(LISTEN)].map(|mark| Line { text: String::new(), is_beaten: true, mark }));
    let server = Server::in_memory(&[]);
    let vote = prepare(&server);
    let away = Stub::nobody();
    let Some(front) = Front::run(Kind::Haproxy, |place| haproxy(place, server.public(), away.addr(), &lines)) else {
        return;
    };
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
    // Once this line is there, all earlier lines are there.
    exchange(front.plain, "GET /the-last HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the log is whole", || front.said().contains("/the-last"));
    let said = front.said();
    let log_of = |number: usize| {
        let name = format!("site-{number}-");
        said.lines().filter(|line| line.contains(&name)).collect::<Vec<_>>().join("\n")
    };
    judge(&sites, [asked, asked_again], log_of);
}

/// The version of the list. Later versions have more rules.
const LISTED: &str = "version 2.6.";

/// Words that the list lacks: a site's listeners, its own servers, time-outs that HAProxy refuses, and services on a bare
/// connection, which no section with `mode http` accepts.
const NOT_IN_THE_LIST: &[&str] =
    &["bind ", "server ", "clitimeout", "contimeout", "srvtimeout", "tcp-request content use-service"];

/// The one kind of rule that no test can run: it needs a tracer that no package has. The shipped file names the filter.
const TRACED: &str = " ot-group";

/// HAProxy itself names each word with which a line of a site's sections may begin.
#[test]
fn the_list_has_each_rule_and_option_of_haproxy() {
    if !has(&["haproxy"]) {
        return;
    }
    let printed = |arguments: &[&str]| {
        let mut command = Command::new("/usr/sbin/haproxy");
        command.args(arguments);
        run_to_end(command).stdout
    };
    if !printed(&["-v"]).contains(LISTED) {
        return left_out(&format!("the list of rules is of HAProxy, {LISTED}"));
    }
    let printed = printed(&["-dKcfg", "-q", "-c", "-f", "/dev/null"]);
    let lines = lines("haproxy", &MARKS);
    let said: Vec<&str> = lines.iter().flat_map(|line| line.text.lines()).collect();
    let of_sections = printed.lines().skip_while(|line| *line != "listen").skip(1);
    let names = of_sections.take_while(|line| line.starts_with('\t')).map(str::trim);
    let names: Vec<&str> = names.filter(|name| !NOT_IN_THE_LIST.iter().any(|begin| name.starts_with(begin))).collect();
    assert!(names.len() > 200, "{printed}");
    let (traced, names): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.ends_with(TRACED));
    assert!(!traced.is_empty() && read_text("contrib/haproxy/vote-status.cfg").contains("`filter opentracing`"));
    let missing: Vec<&str> = names.into_iter().filter(|name| !said.iter().any(|said| is_of(said, name))).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Whether the line begins with this word of HAProxy's list: `WORD [ FE ]`, or `WORD*` where a bracket or a number follows.
fn is_of(line: &str, name: &str) -> bool {
    let name = name.split(" [").next().unwrap_or_default();
    let word = name.trim_end_matches('*');
    line.strip_prefix(word).is_some_and(|rest| match rest.chars().next() {
        None | Some(' ') => true,
        Some('(') => name.ends_with('*'),
        Some(next) => name.ends_with("-sc*") && next.is_ascii_digit(),
    })
}

/// Two sections without a line of their own have all lines: one is a frontend, one a `listen`.
fn haproxy(place: Place<'_>, service: SocketAddr, away: SocketAddr, lines: &[Line]) -> Command {
    let Place { folder, plain, tls } = place;
    let here = folder.display().to_string();
    for name in ["acl", "map"] {
        fs::write(folder.join(name), "").expect("it can be written");
    }
    let spoe: String = (1..=4).map(|engine| SPOE.replace('N', &engine.to_string())).collect();
    for (name, text) in [("page.http", PAGE), ("spoe.cfg", &spoe), ("site.lua", LUA)] {
        fs::write(folder.join(name), text).expect("it can be written");
    }
    let beaten = |mark| {
        let is_there = move |line: &&Line| {
            line.is_beaten && line.mark == mark && !ALONE.iter().any(|begin| line.text.starts_with(begin))
        };
        lines
            .iter()
            .filter(is_there)
            .map(|line| format!("    {}\n", line.text.replace('\n', "\n    ")))
            .collect::<String>()
    };
    // The lines of the section with this number at a place: its own line, or all lines of that place.
    let said = |number: usize, mark: Option<char>| {
        let line = &lines[number];
        match (line.text.is_empty(), line.mark == mark) {
            (true, _) if mark == Some(LISTEN) && line.mark != mark => String::new(),
            (true, _) => beaten(mark),
            (false, true) => format!("    {}\n", line.text.replace('\n', "\n    ")),
            (false, false) => String::new(),
        }
    };
    let section = |number: usize| {
        let is_listen = lines[number].mark == Some(LISTEN);
        let (kind, server) =
            if is_listen { ("listen", format!("    server site {away}\n")) } else { ("frontend", String::new()) };
        format!(
            "defaults d{number}\n    mode http\n    log global\n    option httplog\n    timeout client 50s\n    \
             timeout connect 5s\n    timeout server 50s\n{}\
             {kind} site-{number}- from d{number}\n    bind unix@{here}/s{number}\n{server}{}{}{}{}    default_backend pages\n",
            said(number, Some('@')),
            if lines[number].mark == Some('<') { said(number, Some('<')) } else { String::new() },
            site_rules(),
            said(number, None),
            said(number, Some(LISTEN)),
        )
    };
    let frontends: String = (0..lines.len()).map(section).collect();
    let listens = format!(
        "defaults last\n    mode http\n    log global\n    option httplog\n    timeout client 50s\n    timeout connect 5s\n    \
         timeout server 50s\nfrontend last from last\n    bind {plain}\n    bind {tls} ssl crt {here}/haproxy.pem\n    \
         default_backend pages\n"
    );
    let file = folder.join("haproxy.cfg");
    fs::write(&file, format!("{REST}{frontends}{listens}").replace("HERE", &here).replace("AWAY", &away.to_string()))
        .expect("it can be written");
    haproxy_of(&[&file.display().to_string(), &haproxy_shared(folder, &[service], &[])])
}
