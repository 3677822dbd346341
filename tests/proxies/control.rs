//! The control interface for a site on another machine: nginx with its file of `contrib/` in front of the listener, and
//! the subcommands over `https`.

use crate::proxies::front::{Front, Kind, certify, nginx_of, render};
use crate::util::client::{Client, get};
use crate::util::server::{Ended, Server, expect_failure, run_to_end};
use crate::util::time::{now_unix, rfc3339};
use crate::util::watch::until_watched;
use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// nginx before a control listener, with a certificate for 127.0.0.1.
fn before(control: SocketAddr) -> Option<Front> {
    Front::run(Kind::Nginx, |place| {
        let here = format!("{}/", place.folder.display());
        certify_control(place.folder);
        let replaced = [
            ("listen 8443 ", format!("listen {} ", place.tls)),
            ("listen [::]:8443 ", format!("listen [::1]:{} ", place.tls.port())),
            ("/etc/ssl/vote-status/", here),
            ("127.0.0.1:8081", control.to_string()),
        ];
        let file = render(place.folder, "nginx/vote-status-control.conf", &replaced, &[]);
        // A front counts as started once it listens without TLS as well.
        let log =
            format!("access_log {0}/vote-status.log; error_log {0}/vote-status-error.log;", place.folder.display());
        nginx_of(place.folder, &format!("{log} include {file}; server {{ listen {}; return 444; }}", place.plain))
    })
}

/// Makes the certificate as documented. It is no authority, so it can vouch for itself alone.
fn certify_control(folder: &Path) {
    certify(folder, "vote-status", &["subjectAltName=IP:127.0.0.1", "basicConstraints=critical,CA:FALSE"]);
}

fn command(url: &str, ca: Option<&str>, args: &[&str]) -> Command {
    let mut command = Server::command();
    command.env("VOTE_STATUS_CONTROL_URL", url).args(args);
    command.args(ca.into_iter().flat_map(|path| ["--control-ca", path]));
    command
}

fn at(url: &str, ca: Option<&str>, args: &[&str]) -> Ended {
    run_to_end(command(url, ca, args))
}

#[test]
fn a_site_elsewhere_records_votes_over_tls_and_not_in_clear() {
    let server = Server::in_memory(&[]);
    let Some(front) = before(server.control()) else { return };
    let (url, ca) = (format!("https://{}", front.tls), front.certificate());
    let good = |args: &[&str]| {
        let ended = at(&url, Some(&ca), args);
        assert_eq!(ended.status.code(), Some(0), "{args:?}: {ended:?}");
        ended.stdout
    };
    let can_vote = |ip: &str| get(server.public(), &format!("/api/vote/28/status/{ip}")).json()["can_vote"] == true;
    assert!(good(&["health"]).contains("ready"));
    good(&["server", "add", "28", "--token", "demo"]);
    good(&["vote", "28", "203.0.113.7"]);
    assert!(!can_vote("203.0.113.7"));

    // Content without a known length: a batch, an export, and the lines of a watch.
    let voted_at = rfc3339(now_unix() - 60);
    let mut votes = String::from("server_id,ip,voted_at\n");
    (0..20_000).for_each(|n| writeln!(votes, "28,10.0.{}.{},{voted_at}", n / 256, n % 256).expect("a string"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("votes.csv"), votes).expect("written");
    good(&["import", "--votes", &path("votes.csv")]);
    assert_eq!(good(&["export", "-"]).lines().count(), 20_003);
    let mut watch =
        command(&url, Some(&ca), &["watch"]).stdout(Stdio::piped()).spawn().expect("the program can be run");
    until_watched(&server, 1);
    assert!(!can_vote("10.0.0.0"));
    let mut line = String::new();
    BufReader::new(watch.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.contains(r#""answer":"in_cooldown""#), "{line}");
    watch.kill().and_then(|()| watch.wait()).expect("it watches until it is ended");

    // A path may have a player's address.
    good(&["vote", "28", "203.0.113.77"]);
    good(&["cancel", "28", "203.0.113.77"]);
    front.logged(str::is_empty);

    // A stranger's certificate, another name, an empty list: nothing is sent.
    let strange = tempfile::tempdir().expect("a temporary folder");
    certify_control(strange.path());
    let strange = |name: &str| strange.path().join(name).display().to_string();
    fs::write(strange("empty"), "").expect("written");
    let (port, vote) = (front.tls.port(), ["vote", "28", "203.0.113.8"]);
    for (url, ca, words) in [
        (url.as_str(), None, "UnknownIssuer"),
        (&url, Some(strange("fullchain.pem")), "certificate"),
        (&format!("https://localhost:{port}"), Some(ca.clone()), "not valid for name"),
        (&url, Some(strange("empty")), "no certificate in PEM"),
        (&url, Some(strange("missing")), "missing"),
        (&format!("http://127.0.0.1:{port}"), None, "400"),
    ] {
        expect_failure(&at(url, ca.as_deref(), &vote), &[words]);
    }
    assert!(can_vote("203.0.113.8"), "no vote came through");
    let mut clear = Client::connect(front.tls);
    clear.send(format!(
        "POST /v1/votes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: 37\r\n\r\n\
         {{\"server_id\":28,\"ip\":\"203.0.113.8\"}}",
        Server::KEY
    ));
    assert_eq!(clear.read_response(false).status, 400);
    assert!(can_vote("203.0.113.8"), "in clear nothing is recorded");
}
