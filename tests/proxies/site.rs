//! The status paths inside an existing site, by the files made for that. The site is as one of PHP, with
//! locations, error pages, compression, headers and a redirect of its own. Its paths stay its own, and
//! its settings do not touch the status paths.

use crate::proxies::away::{TOKEN_PATH, expect_away};
use crate::proxies::expected::Answer;
use crate::proxies::front::{
    Front, Kind, Place, caddy_of, commented, haproxy_of, haproxy_shared, nginx_files, nginx_of, render, site_rules,
};
use crate::proxies::{curl, each_proxy, expect};
use crate::util::answers::{
    CAN_VOTE, IN_COOLDOWN, INVALID_SERVER_ID, METHOD_NOT_ALLOWED, NOT_FOUND, UNKNOWN_TOKEN, prepare,
};
use crate::util::checks::PATH;
use crate::util::client::{Client, exchange};
use crate::util::patience::in_time;
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::stub::Stub;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

/// The site's own answer to every request.
const PAGE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 17\r\nConnection: close\r\n\r\n<h1>The site</h1>";

/// Paths that stay the site's.
const SITE_PATHS: &[&str] = &[
    "/index.php",
    "/api/news",
    "/api/vote",
    "/api/vote/",
    "/api/vote/28",
    "/api/vote/status",
    "/api/vote/status/28",
    "/api/servers/28",
    "/api/servers/list",
    "/api/servers/x/other",
    "/api/servers/vote-status",
    "/api/servers//list",
    "/blog//api/vote//status/1",
    "/blog?from=/api/vote//status/1",
];

#[test]
fn a_site_takes_the_status_paths_in() {
    each_proxy(takes_them_in);
}

/// A site that includes the status paths of `service`, before its pages.
pub(crate) fn site(kind: Kind, service: SocketAddr, pages: SocketAddr) -> Option<Front> {
    Front::run(kind, |place| match kind {
        Kind::Nginx => nginx(place, service, pages),
        Kind::Haproxy => haproxy(place, service, pages),
        Kind::Caddy => caddy(place, service, pages),
    })
}

fn takes_them_in(kind: Kind) {
    let (server, pages) = (Server::in_memory(&[]), Stub::answering(PAGE));
    let vote = prepare(&server);
    let Some(mut front) = site(kind, server.public(), pages.addr()) else { return };
    let addrs = [front.plain, front.tunnel()];
    for addr in addrs {
        for (method, path, outcome) in [
            ("GET", PATH, &CAN_VOTE),
            ("HEAD", PATH, &CAN_VOTE),
            ("GET", TOKEN_PATH, &IN_COOLDOWN),
            ("GET", "/api/vote/28/status/%3A%3Affff%3A203.0.113.7?t=1", &CAN_VOTE),
            ("GET", "/api/vote/28/status", &NOT_FOUND),
            ("GET", "/api//vote/28/status/203.0.113.7", &NOT_FOUND),
            ("GET", "/api/servers/.hidden.php/vote-status/203.0.113.7", &UNKNOWN_TOKEN),
            // A plugin without a token or a number. The site's page in its place would pay the player.
            ("GET", "/api/servers//vote-status/203.0.113.7", &UNKNOWN_TOKEN),
            ("GET", "/api/vote//status/203.0.113.7", &INVALID_SERVER_ID),
            ("GET", "/api/servers//vote-status/203.0.113.7?wait=1", &UNKNOWN_TOKEN),
            ("GET", "/api/vote//status/2001%3Adb8%3A%3A7/?t=1&wait=1", &INVALID_SERVER_ID),
            ("GET", "/api/servers//vote-status", &NOT_FOUND),
            ("HEAD", "/api/vote//status/", &INVALID_SERVER_ID),
            ("POST", PATH, &METHOD_NOT_ALLOWED),
        ] {
            let next = vote.next();
            let response = ask(addr, method, path);
            expect(&format!("{method} {path}"), &response, Answer::Safe(outcome), &next, method == "HEAD");
            assert_eq!(response.header("Strict-Transport-Security").is_some(), kind == Kind::Caddy && addr != addrs[0]);
        }
    }
    let expected = vote.body(&IN_COOLDOWN);
    assert_eq!(curl(&front, TOKEN_PATH, false), ("200".to_owned(), expected));
    the_site_is_as_it_was(kind, addrs);
    if kind == Kind::Nginx {
        let docs = ask(addrs[1], "GET", "/vote-status");
        assert_eq!(docs.header("Content-Type"), Some("text/html; charset=utf-8"), "{docs:?}");
    }
    server.pause();
    for path in [PATH, TOKEN_PATH] {
        is_away_in_time(addrs[0], "GET", path);
    }
    drop(server);
    for addr in addrs {
        for (method, path) in [("GET", PATH), ("HEAD", PATH), ("GET", TOKEN_PATH), ("POST", PATH)] {
            is_away_in_time(addr, method, path);
        }
    }
    the_site_is_as_it_was(kind, addrs);
    assert!(!front.troubles().contains("demo"), "{}", front.troubles());
    if kind != Kind::Caddy {
        let log = front.logged(|log| log.contains("/api/news"));
        assert!(!log.contains("demo") && !log.contains("203.0.113.7"), "{log}");
    }
}

fn ask(addr: SocketAddr, method: &str, path: &str) -> Response {
    let mut client = Client::connect(addr);
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"));
    client.read_response(method == "HEAD")
}

fn is_away_in_time(addr: SocketAddr, method: &str, path: &str) {
    let label = format!("{method} {path}");
    expect_away(&label, &in_time(&label, || ask(addr, method, path)), method == "HEAD");
}

fn the_site_is_as_it_was(kind: Kind, addrs: [SocketAddr; 2]) {
    let redirect = ask(addrs[0], "GET", "/").status;
    assert!((301..=308).contains(&redirect), "{kind:?}: {redirect}");
    for path in SITE_PATHS {
        let page = exchange(addrs[1], format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(page.text(), "<h1>The site</h1>", "{kind:?}: {path}: {page:?}");
    }
    if kind == Kind::Nginx {
        assert_eq!(exchange(addrs[1], "GET /errors/x HTTP/1.1\r\nHost: localhost\r\n\r\n").text(), "<h1>Lost</h1>");
        assert_eq!(ask(addrs[1], "GET", "/.git/config").status, 403);
    }
}

/// A site's usual configuration, except that its pages do not come from PHP.
fn nginx(place: Place<'_>, service: SocketAddr, pages: SocketAddr) -> Command {
    let Place { folder, plain, tls } = place;
    let here = folder.display();
    let lines = commented("nginx/vote-status-site.inc");
    let docs: Vec<_> = lines.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    render(
        folder,
        "nginx/vote-status-site.inc",
        &[("127.0.0.1:8080", service.to_string()), ("/etc/nginx/", format!("{here}/"))],
        &docs,
    );
    nginx_files(folder, &["bodies", "shield"]);
    fs::create_dir_all(folder.join("site/errors")).expect("a folder can be made");
    fs::write(folder.join("site/errors/404.html"), "<h1>Lost</h1>").expect("it can be written");
    nginx_of(
        folder,
        &format!(
            "access_log {here}/vote-status.log;
             server {{
                 listen {plain}; server_name localhost;
                 include {here}/vote-status-site.inc;
                 location / {{ return 301 https://$host$request_uri; }}
             }}
             server {{
                 listen {tls} ssl http2; server_name localhost;
                 ssl_certificate {here}/fullchain.pem; ssl_certificate_key {here}/privkey.pem;
                 root {here}/site; index index.php;
                 gzip on; gzip_min_length 1; gzip_types application/json;
                 add_header Strict-Transport-Security max-age=31536000 always;
                 add_header X-Content-Type-Options nosniff always;
                 proxy_intercept_errors on;
                 error_page 404 /errors/404.html; error_page 500 502 503 504 /errors/50x.html;
                 include {here}/vote-status-site.inc;
                 location / {{ try_files $uri $uri/ /index.php?$query_string; }}
                 location ^~ /errors/ {{ internal; }}
                 location ~ \\.php(/|$) {{ proxy_pass http://{pages}; }}
                 location ~ /\\.(?!well-known) {{ deny all; }}
             }}"
        ),
    )
}

fn haproxy(place: Place<'_>, service: SocketAddr, pages: SocketAddr) -> Command {
    let Place { folder, plain, tls } = place;
    let rules = site_rules();
    let site = format!(
        "global\n    log stderr local0\n\
         defaults\n    mode http\n    log global\n    option httplog\n    timeout client 50s\n    timeout connect 5s\n    timeout server 50s\n\
         frontend site\n    bind {plain}\n    bind {tls} ssl crt {here}/haproxy.pem alpn h2,http/1.1\n{rules}    \
         http-request redirect scheme https unless {{ ssl_fc }}\n    default_backend pages\n\
         backend pages\n    compression algo gzip\n    http-response set-header Strict-Transport-Security max-age=31536000\n    \
         server php {pages}\n",
        here = folder.display(),
    );
    let file = folder.join("haproxy.cfg");
    fs::write(&file, site).expect("it can be written");
    haproxy_of(&[&file.display().to_string(), &haproxy_shared(folder, &[service], &[])])
}

fn caddy(place: Place<'_>, service: SocketAddr, pages: SocketAddr) -> Command {
    let Place { folder, plain, tls } = place;
    let here = folder.display();
    let import = render(folder, "caddy/vote-status-site.caddy", &[("127.0.0.1:8080", service.to_string())], &[]);
    let options = render(folder, "caddy/vote-status-options.caddy", &[], &[]);
    let site = format!(
        "{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\timport {options}\n}}\n\
         http://:{} {{\n\timport {import}\n\thandle {{\n\t\tredir https://{{host}}{{uri}}\n\t}}\n}}\n\
         https://:{} {{\n\ttls {here}/fullchain.pem {here}/privkey.pem\n\timport {import}\n\tencode gzip\n\t\
         header Strict-Transport-Security max-age=31536000\n\t\
         handle_errors {{\n\t\trespond \"<h1>An error</h1>\"\n\t}}\n\t\
         handle {{\n\t\treverse_proxy {pages}\n\t}}\n}}\n",
        plain.port(),
        tls.port(),
    );
    let file = folder.join("Caddyfile");
    fs::write(&file, site).expect("it can be written");
    caddy_of(folder, &file.display().to_string())
}
