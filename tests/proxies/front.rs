//! A proxy of Debian's as a child process, with its file of `contrib/` in which only addresses and
//! paths are replaced. Knows their places in the files, and nothing of the requests through the proxy.

use crate::util::endpoint::free_port;
use crate::util::needs::has;
use crate::util::package::read_text;
use crate::util::server::run_to_end;
use crate::util::{wait_until, wait_within};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The longest start of a proxy.
const START_MAX: Duration = Duration::from_secs(60);

/// Which proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nginx,
    Haproxy,
    Caddy,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Haproxy => "haproxy",
            Kind::Caddy => "caddy",
        }
    }
}

/// The places of one run: a folder of its own, and its two listeners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) plain: SocketAddr,
    pub(crate) tls: SocketAddr,
}

/// Replacements in a file of `contrib/`. The file must have each replaced text.
pub(crate) type Edits<'a> = &'a [(&'a str, &'a str)];

/// A running proxy. Dropping it kills and reaps it.
#[derive(Debug)]
pub(crate) struct Front {
    child: Child,
    tunnel: Option<Child>,
    kind: Kind,
    folder: TempDir,
    /// The listener without TLS.
    pub(crate) plain: SocketAddr,
    /// The listener with TLS.
    pub(crate) tls: SocketAddr,
}

impl Front {
    /// Starts the proxy with its own file before these nodes, and waits until it listens. Where the
    /// proxy is not installed, prints that and gives `None`.
    pub(crate) fn start(kind: Kind, nodes: &[SocketAddr]) -> Option<Front> {
        Front::start_edited(kind, nodes, &[])
    }

    /// The same with edits of its file.
    pub(crate) fn start_edited(kind: Kind, nodes: &[SocketAddr], edits: Edits<'_>) -> Option<Front> {
        Front::run(kind, |place| match kind {
            Kind::Nginx => nginx(place, nodes, edits, ""),
            Kind::Haproxy => haproxy(place, nodes, edits),
            Kind::Caddy => caddy(place, nodes, edits),
        })
    }

    /// Runs the command that `prepare` makes. `prepare` also writes the command's files into the folder.
    pub(crate) fn run(kind: Kind, prepare: impl FnOnce(Place<'_>) -> Command) -> Option<Front> {
        if !has(&[kind.program(), "curl", "openssl", "socat"]) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        certify(folder.path(), "localhost", &["subjectAltName=DNS:localhost,IP:127.0.0.1"]);
        let (plain, tls) = (free_port(), free_port());
        let mut command = prepare(Place { folder: folder.path(), plain, tls });
        let said = fs::File::create(folder.path().join("said")).expect("a file can be made");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let child = command.spawn().expect("the proxy can be run");
        let mut front = Front { child, tunnel: None, kind, folder, plain, tls };
        // Caddy with many sites starts slowly beside other work.
        wait_within(START_MAX, "the proxy listens", || {
            assert!(front.child.try_wait().expect("the child can be waited for").is_none(), "{kind:?} ended at once");
            [plain, tls].iter().all(|addr| TcpStream::connect(addr).is_ok())
        });
        Some(front)
    }

    /// The proxy's folder with its files and logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The proxy's standard error.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("said")).unwrap_or_default()
    }

    /// The certificate that clients trust.
    pub(crate) fn certificate(&self) -> String {
        self.folder.path().join("fullchain.pem").display().to_string()
    }

    /// An address that carries plain bytes to and from the proxy's TLS listener.
    pub(crate) fn tunnel(&mut self) -> SocketAddr {
        let listen = "TCP-LISTEN:0,bind=127.0.0.1,fork,nodelay";
        let connect =
            format!("OPENSSL:{},verify=1,commonname=localhost,cafile={},nodelay", self.tls, self.certificate());
        let mut command = Command::new("socat");
        command.args(["-d", "-d", listen, &connect]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("socat can be run");
        let mut lines = BufReader::new(child.stderr.take().expect("standard error is piped"));
        self.tunnel = Some(child);
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(lines.read_line(&mut line).is_ok_and(|count| count > 0), "socat does not listen");
        }
        // This thread reads socat's output, so that socat never waits for the test.
        thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        let addr = line.trim_end().rsplit(' ').next().expect("at least one word");
        addr.parse().unwrap_or_else(|error| panic!("{addr:?}: {error}"))
    }

    /// The proxy's whole log, once `enough` accepts it.
    pub(crate) fn logged(&self, enough: impl Fn(&str) -> bool) -> String {
        let mut logged = String::new();
        wait_until("the log is whole", || {
            logged = match self.kind {
                Kind::Haproxy => self.said(),
                _ => fs::read_to_string(self.folder.path().join("vote-status.log")).unwrap_or_default(),
            };
            enough(&logged)
        });
        logged
    }

    /// The log of the proxy's own troubles, standard error included.
    pub(crate) fn troubles(&self) -> String {
        let file = self.folder.path().join("vote-status-error.log");
        self.said() + &fs::read_to_string(file).unwrap_or_default()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        for child in [Some(&mut self.child), self.tunnel.as_mut()].into_iter().flatten() {
            // An error here means that the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- {:?} said:\n{}---", self.kind, self.troubles());
        }
    }
}

/// Makes a self-signed certificate with these extensions, under each name that the files want.
pub(crate) fn certify(folder: &Path, name: &str, extensions: &[&str]) {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    command.args(["-nodes", "-days", "30", "-subj", &format!("/CN={name}")]);
    command.args(extensions.iter().flat_map(|extension| ["-addext", extension]));
    command.args(["-keyout", "privkey.pem", "-out", "fullchain.pem"]);
    let ended = run_to_end(command);
    assert!(ended.status.success(), "{ended:?}");
    let read = |name: &str| fs::read(folder.join(name)).expect("openssl has written it");
    let both = [read("fullchain.pem"), read("privkey.pem")].concat();
    fs::write(folder.join("haproxy.pem"), both).expect("it can be written");
}

/// Writes a file of `contrib/` into the folder. The file must have each replaced address and path, so that
/// this test notices changes of the file.
pub(crate) fn render(folder: &Path, name: &str, replaced: &[(&str, String)], edits: Edits<'_>) -> String {
    let source = format!("contrib/{name}");
    let mut text = read_text(&source);
    let edits = edits.iter().map(|(from, to)| (*from, (*to).to_owned()));
    for (from, to) in edits.chain(replaced.iter().cloned()) {
        assert!(text.contains(from), "{source} does not say {from:?}");
        text = text.replace(from, &to);
    }
    let path = folder.join(Path::new(name).file_name().expect("it has a name"));
    fs::write(&path, text).expect("it can be written");
    path.display().to_string()
}

/// The lines of a file of `contrib/` that are off: a `#` without a blank behind it. Gives each with and without its `#`.
pub(crate) fn commented(name: &str) -> Vec<(String, String)> {
    let text = read_text(format!("contrib/{name}"));
    let off = text.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let off = off.filter(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()));
    off.map(|rest| (format!("#{rest}\n"), format!("{rest}\n"))).collect()
}

fn each<'a>(addrs: &'a [SocketAddr], line: impl Fn(usize, &SocketAddr) -> String + 'a) -> String {
    addrs.iter().enumerate().map(|(index, addr)| line(index, addr)).collect::<Vec<_>>().join("\n    ")
}

/// nginx with the service's own file, and with these lines in `http` before it.
pub(crate) fn nginx(place: Place<'_>, nodes: &[SocketAddr], edits: Edits<'_>, http: &str) -> Command {
    let Place { folder, plain, tls } = place;
    let here = folder.display();
    let failures = if nodes.len() == 1 { "max_fails=0" } else { "max_fails=1 fail_timeout=2s" };
    let site = render(
        folder,
        "nginx/vote-status.conf",
        &[
            ("server 127.0.0.1:8080 max_fails=0;", each(nodes, |_, addr| format!("server {addr} {failures};"))),
            ("listen 80 ", format!("listen {plain} ")),
            ("listen 443 ", format!("listen {tls} ")),
            ("listen [::]:80 ", format!("listen [::1]:{} ", plain.port())),
            ("listen [::]:443 ", format!("listen [::1]:{} ", tls.port())),
            ("/etc/ssl/vote-status/", format!("{here}/")),
            ("/etc/nginx/", format!("{here}/")),
            ("/var/log/nginx/", format!("{here}/")),
        ],
        edits,
    );
    nginx_files(folder, &["errors", "bodies", "shield"]);
    nginx_of(folder, &format!("{http}\ninclude {site};"))
}

/// Files that others include, with the folder in place of nginx's own.
pub(crate) fn nginx_files(folder: &Path, names: &[&str]) {
    for name in names {
        let source = format!("nginx/vote-status-{name}.inc");
        let is_whole = !read_text(format!("contrib/{source}")).contains("/etc/nginx/");
        let here = [("/etc/nginx/", format!("{}/", folder.display()))];
        render(folder, &source, if is_whole { &[] } else { &here }, &[]);
    }
}

/// nginx with these lines in `http`.
pub(crate) fn nginx_of(folder: &Path, http: &str) -> Command {
    let here = folder.display();
    let temporary =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {here};"));
    let main = format!(
        "daemon off; master_process off; pid {here}/pid; events {{ worker_connections 1024; }}\n\
         http {{ {} {http} }}\n",
        temporary.join(" ")
    );
    fs::write(folder.join("nginx.conf"), main).expect("it can be written");
    let mut command = Command::new("/usr/sbin/nginx");
    command.arg("-e").arg(folder.join("said")).arg("-c").arg(folder.join("nginx.conf"));
    command
}

fn haproxy(place: Place<'_>, nodes: &[SocketAddr], edits: Edits<'_>) -> Command {
    let Place { folder, plain, tls } = place;
    let front = render(
        folder,
        "haproxy/haproxy.cfg",
        &[
            ("bind :::80 v4v6", format!("bind {plain}")),
            ("bind :::443 v4v6", format!("bind {tls}")),
            ("/etc/ssl/vote-status/", format!("{}/", folder.display())),
            ("/dev/log", "stderr".to_owned()),
            // The tests may run without root.
            ("    user haproxy\n    group haproxy\n", String::new()),
        ],
        &[],
    );
    let shared = haproxy_shared(folder, nodes, edits);
    haproxy_of(&[&shared, &front])
}

/// The file that the service's own proxy and a site's proxy share, with several nodes as its comment says.
pub(crate) fn haproxy_shared(folder: &Path, nodes: &[SocketAddr], edits: Edits<'_>) -> String {
    let server = "server node1 127.0.0.1:8080 check inter 1s fastinter 250ms fall 2 rise 1";
    let servers = each(nodes, |index, addr| {
        server.replace("node1", &format!("node{}", index + 1)).replace("127.0.0.1:8080", &addr.to_string())
    });
    // This socket name belongs to the whole machine, where other tests run.
    let away = format!("abns@vote-status-away-{}", folder.file_name().expect("a name").display());
    let mut replaced = vec![(server, servers), ("abns@vote-status-away", away)];
    if nodes.len() > 1 {
        replaced.insert(0, ("balance first", "balance roundrobin".to_owned()));
        replaced.insert(0, ("away abns@vote-status-away", "away abns@vote-status-away backup".to_owned()));
    }
    render(folder, "haproxy/vote-status.cfg", &replaced, edits)
}

/// The rules for a site's frontend, from the first comment of the shared file.
pub(crate) fn site_rules() -> String {
    let lines = commented("haproxy/vote-status.cfg").into_iter().map(|(_, rule)| rule);
    lines.filter(|rule| rule.contains("is_vote_status")).map(|rule| format!("    {rule}")).collect()
}

/// HAProxy with these files, which it reads as one.
pub(crate) fn haproxy_of(files: &[&str]) -> Command {
    let mut command = Command::new("/usr/sbin/haproxy");
    command.arg("-db");
    for file in files {
        command.args(["-f", file]);
    }
    command
}

fn caddy(place: Place<'_>, nodes: &[SocketAddr], edits: Edits<'_>) -> Command {
    let Place { folder, plain, tls } = place;
    let here = folder.display();
    let nodes = nodes.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" ");
    let file = render(
        folder,
        "caddy/Caddyfile",
        &[
            ("127.0.0.1:8080", nodes),
            ("http://:80 ", format!("http://:{} ", plain.port())),
            ("https://:443 ", format!("https://:{} ", tls.port())),
            (
                "auto_https disable_redirects",
                "auto_https disable_redirects\n\tadmin off\n\tdefault_bind 127.0.0.1".to_owned(),
            ),
            ("/etc/ssl/vote-status/", format!("{here}/")),
            ("/var/log/caddy/", format!("{here}/")),
        ],
        edits,
    );
    caddy_of(folder, &file)
}

/// Caddy with this file.
pub(crate) fn caddy_of(folder: &Path, file: &str) -> Command {
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config", file]);
    command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
    command
}
