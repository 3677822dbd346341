//! certbot's nginx plugin on a site with the status paths, with a certificate authority on this machine. The plugin reads
//! and writes the site's file, and the status paths stay as they were.

use crate::proxies::expect;
use crate::proxies::expected::Answer;
use crate::proxies::front::{Front, Kind, nginx_files, nginx_of, render};
use crate::util::answers::{CAN_VOTE, prepare};
use crate::util::checks::PATH;
use crate::util::client::exchange;
use crate::util::endpoint::free_port;
use crate::util::needs::{has, left_out};
use crate::util::package::read_text;
use crate::util::server::{Server, run_to_end};
use crate::util::wait_until;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The plugin's folder on Debian.
const PLUGIN: &str = "/usr/lib/python3/dist-packages/certbot_nginx";

/// A process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // An error here means that the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Dropping this ends both processes of nginx.
struct Stopped(PathBuf);

impl Drop for Stopped {
    fn drop(&mut self) {
        let mut command = Command::new("/usr/sbin/nginx");
        command.args(["-e", "stderr", "-s", "stop", "-c"]).arg(&self.0);
        println!("{:?}", run_to_end(command));
        // The file goes with the first process. If that process were killed before, the second would stay.
        let pid = self.0.with_file_name("pid");
        let is_gone = (0..2_000).any(|_| {
            sleep(Duration::from_millis(5));
            !pid.exists()
        });
        println!("nginx has ended: {is_gone}");
    }
}

fn run(program: &str, args: &[&str]) -> Running {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // pebble waits and refuses now and then, unless it is told not to.
    command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0");
    Running(command.spawn().expect("the program can be run"))
}

#[test]
fn certbot_leaves_the_status_paths_of_a_site_as_they_were() {
    if !has(&["certbot", "pebble", "pebble-challtestsrv"]) {
        return;
    }
    if !Path::new(PLUGIN).exists() {
        return left_out("certbot has no nginx plugin");
    }
    let server = Server::in_memory(&[]);
    prepare(&server);
    let Some(front) = Front::run(Kind::Nginx, |place| {
        let here = place.folder.display();
        let replaced = [("127.0.0.1:8080", server.public().to_string()), ("/etc/nginx/", format!("{here}/"))];
        render(place.folder, "nginx/vote-status-site.inc", &replaced, &[]);
        nginx_files(place.folder, &["bodies", "shield"]);
        let site = format!(
            "server {{\n    listen {};\n    server_name the.test;\n    include {here}/vote-status-site.inc;\n    \
             location / {{ return 200 \"the site\"; }}\n}}\n",
            place.plain
        );
        fs::write(place.folder.join("site.conf"), site).expect("it can be written");
        // A front counts as started once it listens with TLS as well.
        let command = nginx_of(place.folder, &format!("include {here}/site.conf; server {{ listen {}; }}", place.tls));
        // Only with a second process does nginx answer each request during a reload.
        let main =
            read_text(place.folder.join("nginx.conf")).replace("master_process off;", "worker_processes 1; user root;");
        fs::write(place.folder.join("nginx.conf"), main).expect("it can be written");
        command
    }) else {
        return;
    };
    let _both = Stopped(front.folder().join("nginx.conf"));
    let (folder, secure) = (front.folder(), free_port());
    let files = || ["site", "bodies", "shield"].map(|name| read_text(folder.join(format!("vote-status-{name}.inc"))));
    let before = files();
    let (authority, _running) = authority(folder, front.plain);
    for is_renewal in [false, true] {
        certbot(folder, authority, front.plain, secure, is_renewal);
        wait_until("nginx has the certificate", || TcpStream::connect(secure).is_ok());
        assert_eq!(files(), before, "the files of the service");
        let site = read_text(folder.join("site.conf"));
        assert!(site.contains("managed by Certbot") && !site.contains("return 301"), "{site}");
        let request = format!("GET {PATH} HTTP/1.1\r\nHost: the.test\r\n\r\n");
        expect(&site, &exchange(front.plain, request), Answer::Safe(&CAN_VOTE), "", false);
        let mut curl = Command::new("curl");
        let at = format!("the.test:{}:127.0.0.1", secure.port());
        curl.args(["-sSk", "--max-time", "10", "--resolve", &at, &format!("https://the.test:{}{PATH}", secure.port())]);
        let ended = run_to_end(curl);
        assert_eq!(ended.stdout, CAN_VOTE.body, "{}", ended.stderr);
    }
}

/// A certificate authority that resolves the.test to this machine, and validates it at this port.
fn authority(folder: &Path, site: SocketAddr) -> (SocketAddr, [Running; 2]) {
    let [listen, manage, names, names_manage] = [free_port(), free_port(), free_port(), free_port()];
    let here = folder.display();
    let settings = format!(
        r#"{{"pebble":{{"listenAddress":"{listen}","managementListenAddress":"{manage}","certificate":"{here}/fullchain.pem",
            "privateKey":"{here}/privkey.pem","httpPort":{},"tlsPort":1,"externalAccountBindingRequired":false}}}}"#,
        site.port()
    );
    let file = folder.join("pebble.json");
    fs::write(&file, settings).expect("it can be written");
    let (names, names_manage) = (names.to_string(), names_manage.to_string());
    let own = ["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", ""];
    let own = [&own[..], &["-dns01", &names, "-management", &names_manage]].concat();
    let running = [
        run("pebble-challtestsrv", &own),
        run("pebble", &["-config", &file.display().to_string(), "-dnsserver", &names]),
    ];
    wait_until("the authority listens", || TcpStream::connect(listen).is_ok());
    (listen, running)
}

/// Runs certbot as docs/PROXY.md documents, with the test's ports and folders.
fn certbot(folder: &Path, authority: SocketAddr, plain: SocketAddr, secure: SocketAddr, is_renewal: bool) {
    let here = folder.display().to_string();
    let control = folder.join("nginx-of-the-test");
    fs::write(&control, format!("#!/bin/sh\nexec /usr/sbin/nginx -e {here}/said \"$@\"\n")).expect("it can be written");
    let mut executable = Command::new("chmod");
    executable.arg("+x").arg(&control);
    assert!(run_to_end(executable).status.success());
    let mut command = Command::new("certbot");
    command.args(["--nginx", "--no-redirect", "-d", "the.test", "-n", "--agree-tos", "--no-verify-ssl"]);
    command.args([
        "--register-unsafely-without-email",
        "--server",
        &format!("https://localhost:{}/dir", authority.port()),
    ]);
    command.args(["--nginx-server-root", &here, "--nginx-ctl", &control.display().to_string()]);
    command.args(["--http-01-port", &plain.port().to_string(), "--https-port", &secure.port().to_string()]);
    for folder in ["--config-dir", "--work-dir", "--logs-dir"] {
        command.args([folder, &format!("{here}/certbot")]);
    }
    command.args(if is_renewal { &["--force-renewal"][..] } else { &[] });
    let ended = run_to_end(command);
    assert!(ended.status.success(), "{}\n{}", ended.stdout, ended.stderr);
}
