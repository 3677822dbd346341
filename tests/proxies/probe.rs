//! The probe of the public path with Prometheus' own exporter: it fails on answers for which plugins pay.

use crate::proxies::front::{Front, Kind};
use crate::util::client::{exchange, get};
use crate::util::endpoint::free_port;
use crate::util::needs::has;
use crate::util::promtool::expect_well;
use crate::util::server::Server;
use crate::util::stub::Stub;
use crate::util::wait_until;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

/// The path of contrib/prometheus/public-path.yml.
const ASKED: &str = "/api/vote/28/status/192.0.2.1";

/// A running exporter with the module of `contrib/`. Dropping it kills and reaps it.
struct Exporter {
    child: Child,
    addr: SocketAddr,
}

impl Exporter {
    /// Starts the exporter. Where it is not installed, prints that and gives `None`.
    fn start(certificates: &str) -> Option<Exporter> {
        if !has(&["prometheus-blackbox-exporter"]) {
            return None;
        }
        let addr = free_port();
        let mut command = Command::new("prometheus-blackbox-exporter");
        command.arg("--config.file=contrib/prometheus/blackbox.yml").arg(format!("--web.listen-address={addr}"));
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env("SSL_CERT_FILE", certificates);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let exporter = Exporter { child: command.spawn().expect("the exporter can be run"), addr };
        wait_until("the exporter listens", || TcpStream::connect(addr).is_ok());
        Some(exporter)
    }

    /// Whether the probe of this URL succeeds. As Prometheus does, the request says how long a scrape may last.
    fn succeeds(&self, url: &str) -> bool {
        let path = format!("/probe?module=vote_status&target={url}{ASKED}");
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Prometheus-Scrape-Timeout-Seconds: 2\r\n\r\n");
        let said = exchange(self.addr, head);
        let value = said.text().lines().find_map(|line| line.strip_prefix("probe_success "));
        value.unwrap_or_else(|| panic!("{url}: {}", said.text())) == "1"
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // An error here means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_alert_of_the_public_path_is_right_and_tested() {
    for (arguments, file) in [
        (["check", "rules"], "contrib/prometheus/public-path-alerts.yml"),
        (["test", "rules"], "contrib/prometheus/public-path-alerts_test.yml"),
        (["check", "config"], "contrib/prometheus/public-path.yml"),
    ] {
        expect_well(&[&arguments[..], &[file]].concat(), "");
    }
}

#[test]
fn the_probe_rings_for_what_plugins_pay_on() {
    let mut server = Server::listed(&[]);
    let Some(front) = Front::start(Kind::Nginx, &[server.public()]) else { return };
    let Some(exporter) = Exporter::start(&front.certificate()) else { return };
    let (plain, tls) = (format!("http://{}", front.plain), format!("https://{}", front.tls));
    wait_until("a service that answers through its proxy", || exporter.succeeds(&plain) && exporter.succeeds(&tls));

    server.control_client().cast(28, [192, 0, 2, 1]);
    assert!(!exporter.succeeds(&plain), "a vote that nobody cast");
    server.pause();
    assert!(!exporter.succeeds(&format!("http://{}", server.public())), "silence");
    server.signal(rustix::process::Signal::KILL);
    server.wait_exit(crate::util::DEADLINE);
    assert_ne!(get(front.plain, ASKED).status, 200, "the proxy answers for it");
    assert!(!exporter.succeeds(&plain) && !exporter.succeeds(&tls), "the service is away, and its proxy is there");
    drop(front);
    assert!(!exporter.succeeds(&plain), "nobody is there");

    let cases: [(&str, &'static [u8]); 3] = [
        (
            "a redirect to an answer",
            b"HTTP/1.1 301 Moved Permanently\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        ),
        ("a page", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>"),
        ("an empty body", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    ];
    for (what, bytes) in cases {
        assert!(!exporter.succeeds(&Stub::answering(bytes).url()), "{what}");
    }
}
