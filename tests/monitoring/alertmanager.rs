//! With the shipped files, the alert on a service that is gone reaches a real Alertmanager.

use crate::util::client::get;
use crate::util::endpoint::free_port;
use crate::util::needs::has;
use crate::util::package::read_text;
use crate::util::server::Server;
use crate::util::wait_until;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A program of Prometheus' makers, killed at the end.
struct Daemon(Child);

impl Daemon {
    fn start(program: &str, folder: &Path, args: &[String]) -> Daemon {
        let mut command = Command::new(program);
        command.args(args).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Daemon(command.spawn().expect("it is installed"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An error here means that the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The shipped file with these changes: other ports, and shorter times.
fn shipped(name: &str, changes: &[(&str, String)]) -> String {
    let mut text = read_text(Path::new("contrib/prometheus").join(name));
    for (was, is) in changes {
        assert!(text.contains(was), "{name} lacks {was}");
        text = text.replace(was, is);
    }
    text
}

/// The number of responses of the control listener.
fn told(server: &Server) -> u64 {
    let (page, name) =
        (get(server.control(), "/metrics"), "vote_status_responses_total{listener=\"control\",status=\"200\"} ");
    page.text().lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap_or(0)
}

#[test]
fn an_alert_comes_to_a_real_alertmanager() {
    if !has(&["prometheus", "prometheus-alertmanager"]) {
        return;
    }
    let server = Server::listed(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("it can be written");
    let manager: SocketAddr = free_port();
    write("alertmanager.yml", "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n");
    let config = [
        ("127.0.0.1:8081", server.control().to_string()),
        ("127.0.0.1:9093", manager.to_string()),
        (": 15s", ": 1s".to_owned()),
    ];
    write("prometheus.yml", &shipped("prometheus.yml", &config));
    // The rules wait for minutes, so that a restart is no alert.
    write("alerts.yml", &shipped("alerts.yml", &[("for: 1m", "for: 1s".to_owned())]));
    let _manager = Daemon::start(
        "prometheus-alertmanager",
        folder.path(),
        &[
            "--config.file=alertmanager.yml".to_owned(),
            "--storage.path=alerts".to_owned(),
            "--cluster.listen-address=".to_owned(),
            format!("--web.listen-address={manager}"),
        ],
    );
    wait_until("Alertmanager listens", || TcpStream::connect_timeout(&manager, Duration::from_secs(1)).is_ok());
    let prometheus = [
        "--config.file=prometheus.yml".to_owned(),
        "--storage.tsdb.path=data".to_owned(),
        "--web.listen-address=127.0.0.1:0".to_owned(),
    ];
    // Each of these reads is a response, and so is each scrape.
    let mut reads = told(&server);
    let _prometheus = Daemon::start("prometheus", folder.path(), &prometheus);
    wait_until("Prometheus scrapes", || {
        reads += 1;
        told(&server) > reads
    });
    let instance = server.control().to_string();
    let alerts = || get(manager, "/api/v2/alerts").text().to_owned();
    assert!(!alerts().contains("VoteStatusDown"), "{}", alerts());
    drop(server);
    wait_until("the alert is there", || {
        let alerts = alerts();
        alerts.contains("\"alertname\":\"VoteStatusDown\"") && alerts.contains(&instance)
    });
}
