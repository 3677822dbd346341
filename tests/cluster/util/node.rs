//! A node: the service on a Redis. Knows the command line and the control listener's answers.

use crate::cluster::util::engine::Engine;
use crate::util::client::get;
use crate::util::control::{Control, until_taken};
use crate::util::patience::has_stalled;
use crate::util::response::Response;
use crate::util::server::{Ended, Server, run_to_end};
use crate::util::wait_until;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::thread::spawn;
use tempfile::TempDir;

/// A running node. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Node {
    server: Server,
    /// Removed with the node, unless taken out.
    folder: TempDir,
}

/// Makes an empty Redis a store, and gives the command's output.
pub(crate) fn init(store: &str) -> String {
    let ended = client(&["cluster", "init", "--store", store]);
    assert!(ended.status.success(), "{}", ended.stderr);
    ended.stdout
}

/// Runs a subcommand to its end.
pub(crate) fn client(args: &[&str]) -> Ended {
    let mut command = Server::command();
    command.args(args);
    run_to_end(command)
}

impl Node {
    /// Starts a node on a store with `args`, and waits until it is ready.
    pub(crate) fn start(store: &str, args: &[&str]) -> Node {
        Self::start_in(folder(), store, args)
    }

    /// The same on a data directory that another node had.
    pub(crate) fn start_in(folder: TempDir, store: &str, args: &[&str]) -> Node {
        Node { server: Server::spawn(command(folder.path(), store, args)), folder }
    }

    /// A server on a Redis of its own, for tests that know nothing of nodes.
    pub(crate) fn alone(args: &[&str]) -> Server {
        // The store gets the settings in `args`, as the one in memory does.
        let is_setting = |pair: &&[&str]| ["--cooldown-minutes", "--ipv6-prefix"].contains(&pair[0]);
        let settings = args.windows(2).filter(is_setting).flatten().copied();
        let engine = Engine::start(&[]);
        let url = engine.url();
        let made = client(&["cluster", "init", "--store", &url].into_iter().chain(settings).collect::<Vec<_>>());
        assert!(made.status.success(), "{}", made.stderr);
        let folder = folder();
        let mut command = Server::command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(folder.path()).args(["--store", &url]).args(args);
        let mut server = Server::spawn(command);
        server.ground = Some(Box::new((engine, folder)));
        server
    }

    /// A node of a server that was started in another way.
    pub(crate) fn from_server(server: Server, folder: TempDir) -> Node {
        Node { server, folder }
    }

    /// Many nodes, started at the same time.
    pub(crate) fn start_many(count: usize, store: &str, args: &[&str]) -> Vec<Node> {
        let prepare = |_| {
            let folder = folder();
            (command(folder.path(), store, args), folder)
        };
        let start = |(command, folder)| spawn(move || Node { server: Server::spawn(command), folder });
        let starting: Vec<_> = (0..count).map(prepare).map(start).collect();
        starting.into_iter().map(|thread| thread.join().expect("a node did not start")).collect()
    }

    /// Kills the process with signal 9, and keeps its data directory for another.
    pub(crate) fn kill(self) -> TempDir {
        drop(self.server);
        self.folder
    }

    /// Stops the process in order, and keeps its data directory for another.
    pub(crate) fn stop(self) -> TempDir {
        self.server.stop();
        self.folder
    }

    /// The node's data directory.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// The control interface.
    pub(crate) fn control(&self) -> Control {
        self.server.control_client()
    }

    /// The address of the control listener.
    pub(crate) fn control_addr(&self) -> SocketAddr {
        self.server.control()
    }

    /// The URL of the control listener, for the subcommands that are its clients.
    pub(crate) fn control_url(&self) -> String {
        format!("http://{}", self.server.control())
    }

    /// Lists servers 1 to `count`, each with the token `token-N`.
    pub(crate) fn add_servers(&self, count: u32) {
        (1..=count).for_each(|server| self.control().add_server(server, &format!("token-{server}")));
    }

    /// Waits until the node shows that the server is listed.
    pub(crate) fn wait_until_listed(&self, server: u32) {
        let path = format!("/api/vote/{server}/status/192.0.2.1");
        wait_until("a server is shown", || get(self.server.public(), &path).status == 200);
    }

    /// The answer of `/readyz`.
    pub(crate) fn readiness(&self) -> Response {
        get(self.server.control(), "/readyz")
    }

    /// The value of a metric, 0 where the page lacks it. The name includes the labels as printed.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.server.sample(name).unwrap_or(0.0)
    }

    /// How often the node has rebuilt its table for this cause.
    pub(crate) fn rebuilds(&self, cause: &str) -> f64 {
        self.metric(&format!(r#"vote_status_store_rebuilds_total{{cause="{cause}"}}"#))
    }

    /// How often the node has rebuilt its table since its start.
    pub(crate) fn rebuilds_after_start(&self) -> f64 {
        ["gap", "history", "store", "clock"].iter().map(|cause| self.rebuilds(cause)).sum()
    }

    /// How many votes this node has given back to Redis.
    pub(crate) fn restored(&self) -> f64 {
        self.metric(r#"vote_status_store_reoffers_total{outcome="restored"}"#)
    }

    /// Waits until the node follows the changes of its store.
    pub(crate) fn wait_until_following(&self) {
        wait_until("the node follows its store", || self.metric("vote_status_store_following") > 0.5);
    }

    /// Casts a vote that the node has to record, as soon as it takes votes.
    pub(crate) fn record_vote(&self, server: u32, ip: impl Into<IpAddr>) {
        let ip = ip.into();
        until_taken("a vote is recorded", [201, 409], || self.control().cast(server, ip));
    }

    /// Casts a vote that the node has to record at the first try. A node that stood still answers 503: what it refuses while
    /// the machine stalls is sent again.
    #[track_caller]
    pub(crate) fn record_at_once(&self, server: u32, ip: impl Into<IpAddr>) {
        let ip = ip.into();
        until_taken("a vote is recorded", [201, 409], || {
            let response = self.control().cast(server, ip);
            assert!(response.status != 503 || has_stalled(), "{response:?}\n{}", self.server().stderr());
            response
        });
    }

    /// Waits until the node records votes: casts one for a pair that no test uses otherwise.
    pub(crate) fn wait_until_recording(&self, server: u32) {
        wait_until("votes are recorded", || {
            let response = self.control().cast(server, [192, 0, 2, 1]);
            assert!(matches!(response.status, 201 | 409 | 503), "{response:?}");
            response.status != 503
        });
    }
}

/// The command that starts a node.
pub(crate) fn command(folder: &Path, store: &str, args: &[&str]) -> Command {
    let mut command = Server::on(folder);
    command.args(["--store", store]).args(args);
    command
}

/// A data directory.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}
