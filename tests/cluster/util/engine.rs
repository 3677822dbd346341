//! A Redis of a test's own: a process on a free port with its files in a temporary folder, ended by
//! its process id. Sentinels are the same program. Knows how to start Redis, not the keys in it.

use crate::cluster::util::node::init;
use crate::cluster::util::resp::{Redis, Value};
use crate::util::endpoint::free_port;
use crate::util::needs::has;
use crate::util::{DEADLINE, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const POLL: Duration = Duration::from_millis(2);
/// A Redis, running or not.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Removed with the engine.
    folder: TempDir,
    port: u16,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    child: Option<Child>,
}

impl Engine {
    /// As `start`. Without `redis-server`, prints that and gives `None`.
    pub(crate) fn try_start(args: &[&str]) -> Option<Engine> {
        has(&["redis-server"]).then(|| Self::start(args))
    }

    /// As `store`. Without `redis-server`, prints that and gives `None`.
    pub(crate) fn try_store(args: &[&str]) -> Option<Engine> {
        has(&["redis-server"]).then(|| Self::store(args))
    }

    /// Starts a Redis with an append-only file and `args`, and waits until it answers.
    pub(crate) fn start(args: &[&str]) -> Engine {
        let mut engine = Self::stopped(args);
        engine.run();
        engine
    }

    /// Starts a Redis and makes it a store of votes.
    pub(crate) fn store(args: &[&str]) -> Engine {
        let engine = Self::start(args);
        init(&engine.url());
        engine
    }

    /// A Redis that is not started yet.
    pub(crate) fn stopped(args: &[&str]) -> Engine {
        let mut all: Vec<String> = words(&["--bind", "127.0.0.1", "--save", "", "--loglevel", "notice"]);
        all.extend(words(&["--logfile", "redis.log", "--enable-debug-command", "local"]));
        all.extend(words(&["--appendonly", "yes", "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0"]));
        all.extend(words(args));
        Self::with(all)
    }

    /// A replica of the Redis at `addr`, once it has caught up.
    pub(crate) fn replica_of(addr: SocketAddr, args: &[&str]) -> Engine {
        let mut engine = Self::stopped(args);
        engine.args.extend(["--replicaof".to_owned(), format!("127.0.0.1 {}", addr.port())]);
        engine.run();
        engine.wait_for_link();
        engine.wait_until_as_far_as(addr);
        // A restart keeps the role that the replica has by then.
        engine.args.truncate(engine.args.len() - 2);
        engine
    }

    /// A Sentinel that watches `watched` under the name `votes`.
    pub(crate) fn sentinel(watched: SocketAddr, quorum: u32, down_after_ms: u32, more: &[String]) -> Engine {
        let mut engine = Self::with(vec!["--sentinel".to_owned()]);
        let file = engine.folder.path().join("sentinel.conf");
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {}", engine.port),
            format!("logfile {}", engine.folder.path().join("redis.log").display()),
            format!("sentinel monitor votes 127.0.0.1 {} {quorum}", watched.port()),
            format!("sentinel down-after-milliseconds votes {down_after_ms}"),
            "sentinel failover-timeout votes 5000".to_owned(),
        ];
        lines.extend_from_slice(more);
        fs::write(&file, lines.join("\n") + "\n").expect("the folder takes a file");
        engine.args.insert(0, file.display().to_string());
        engine.run();
        engine
    }

    fn with(args: Vec<String>) -> Engine {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Engine { folder, port: free_port().port(), args, environment: Vec::new(), child: None }
    }

    /// Adds arguments from the next start on.
    pub(crate) fn add_args(&mut self, args: &[&str]) {
        self.args.extend(words(args));
    }

    /// Adds a variable to the environment from the next start on.
    pub(crate) fn set_environment(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Starts Redis on its port, and waits until it has loaded its data and answers.
    pub(crate) fn run(&mut self) {
        self.spawn();
        let until = Instant::now() + DEADLINE;
        while !self.answers() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("a child"));
            assert!(ended.is_none() && Instant::now() < until, "Redis did not start: {ended:?}\n{}", self.log());
            sleep(POLL);
        }
    }

    fn spawn(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let mut command = Command::new(program());
        if self.args.iter().any(|arg| arg == "--sentinel") {
            command.args(&self.args);
        } else {
            command.args(["--port", &self.port.to_string()]).args(&self.args);
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let said = File::create(self.folder.path().join("said")).expect("the folder takes a file");
        command.stdout(said.try_clone().expect("a descriptor")).stderr(said);
        self.child = Some(command.spawn().expect("the server can be run"));
    }

    fn answers(&self) -> bool {
        let asked = Redis::try_connect(self.addr()).and_then(|mut redis| redis.try_ask(&["PING"]));
        // A Redis with a password answers as well.
        asked.is_ok_and(|answer| match answer {
            Value::Refused(why) => why.starts_with("NOAUTH"),
            answer => answer == Value::Text("PONG".to_owned()),
        })
    }

    /// Waits until a replica's link is up.
    pub(crate) fn wait_for_link(&self) {
        let mut redis = self.connect();
        wait_until("the replica's link is up", || {
            let role = redis.ask(&["ROLE"]);
            role.list()[3] == Value::Text("connected".to_owned())
        });
    }

    /// Waits until a replica has all data of its primary, which must take no writes meanwhile. The primary sends nothing
    /// before the replica has reported its offset, up to a second after the link is up.
    pub(crate) fn wait_until_as_far_as(&self, primary: SocketAddr) {
        let mut primary = Redis::connect(primary);
        wait_until("the replica has said how far it is", || {
            let said = primary.ask(&["INFO", "replication"]).text().to_owned();
            let end = primary.info("master_repl_offset");
            said.contains(&format!("port={},state=online,offset={end},", self.port))
        });
    }

    /// The address on which Redis listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// That address as an option's value.
    pub(crate) fn url(&self) -> String {
        url(self.addr())
    }

    /// The folder of Redis' files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the append-only file.
    pub(crate) fn appendonly_folder(&self) -> PathBuf {
        self.folder.path().join("appendonlydir")
    }

    /// A copy of the append-only file. Its last entry may be there in part: Redis cuts that off.
    pub(crate) fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().expect("a temporary folder");
        copy_all(&self.appendonly_folder(), copy.path());
        copy
    }

    /// Puts an older copy of the append-only file back while Redis does not run.
    pub(crate) fn put_back(&self, copy: &TempDir) {
        assert!(self.child.is_none(), "it runs");
        let files = self.appendonly_folder();
        fs::remove_dir_all(&files).expect("the store's files can be removed");
        copy_all(copy.path(), &files);
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Redis {
        Redis::connect(self.addr())
    }

    /// Sends Redis a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().expect("it runs"));
        kill_process(pid, signal).unwrap_or_else(|error| panic!("no signal to {pid:?}: {error}"));
    }

    /// Kills Redis with signal 9.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child that nobody has waited for can be killed");
            child.wait().expect("a killed child can be reaped");
        }
    }

    /// Redis' output and log.
    pub(crate) fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        read("said") + &read("redis.log")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(15)..];
            eprintln!("--- the last words of Redis at {}:\n{}\n---", self.addr(), last.join("\n"));
        }
    }
}

/// Copies a folder.
pub(crate) fn copy_all(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.arg("-r").arg("-T").arg(from).arg(to);
    assert!(copy.status().expect("cp can be run").success(), "{} can be copied", from.display());
}

/// The server program of all tests: Redis, or the Valkey that the environment names.
pub(crate) fn program() -> String {
    std::env::var("VOTE_STATUS_TEST_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Whether the server knows TLS: the Valkey of the wheel does not.
#[cfg(feature = "tls")]
pub(crate) fn knows_tls() -> bool {
    !program().contains("valkey")
}

/// An address as an option's value.
pub(crate) fn url(addr: SocketAddr) -> String {
    format!("redis://{addr}")
}

/// The store by these Sentinels, as an option's value.
pub(crate) fn sentinels_url(sentinels: &[Engine]) -> String {
    let addresses: Vec<String> = sentinels.iter().map(|sentinel| sentinel.addr().to_string()).collect();
    format!("redis+sentinel://{}/votes", addresses.join(","))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Makes the user of the documentation by its line there, with the password `of-the-node`. Earlier rights go.
pub(crate) fn add_documented_user(redis: &mut Redis) {
    let text = fs::read_to_string("docs/CLUSTER.md").expect("it is part of the project");
    let rules = text.lines().find_map(|line| line.strip_prefix("user vote-status on "));
    let rules = rules.expect("the documentation has the user").split_whitespace();
    let mut words = vec!["ACL", "SETUSER", "vote-status", "reset", "on"];
    words.extend(rules.map(|rule| if rule.starts_with('>') { ">of-the-node" } else { rule }));
    redis.ask(&words);
}
