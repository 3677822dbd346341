//! The real binary as a child process on ports of its own. Knows the command line and the start
//! lines. Ends and reaps its processes, and shows a server's last lines when a test fails.

use crate::util::endpoint::Endpoint;
use crate::util::patience::{SLOW_MAX, Wait};
use crate::util::{DEADLINE, wait_until};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::fs::{read_dir, read_to_string};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

/// The longest pause between two looks at something that gives no signal of its own.
const POLL: Duration = Duration::from_millis(5);

/// A running `vote-status serve`. Dropping it kills and reaps the process.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    public: Vec<Endpoint>,
    control: Endpoint,
    captured: Captured,
    /// The resources that the server runs on, dropped after it.
    #[cfg(feature = "redis")]
    pub(crate) ground: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl Server {
    /// The control key that `command` puts into the environment.
    pub(crate) const KEY: &'static str = "the-control-key-of-the-tests";

    /// Starts the server in memory with `args`, and waits until both listeners answer. Where the
    /// environment asks for it, the server runs on a Redis of its own instead.
    pub(crate) fn in_memory(args: &[&str]) -> Server {
        #[cfg(feature = "redis")]
        if Self::is_on_redis() {
            return crate::cluster::util::node::Node::alone(args);
        }
        let all: Vec<&str> = ["--in-memory"].iter().chain(args).copied().collect();
        Self::start(&all)
    }

    /// Whether the environment asks for servers on Redis.
    pub(crate) fn is_on_redis() -> bool {
        std::env::var("VOTE_STATUS_TEST_STORE").is_ok_and(|store| store == "redis")
    }

    /// Runs [`Server::serve`] and waits until both listeners answer.
    pub(crate) fn start(args: &[&str]) -> Server {
        Self::spawn(Self::serve(args))
    }

    /// The command `serve` with `args`, one public and the control listener on free ports of 127.0.0.1.
    pub(crate) fn serve(args: &[&str]) -> Command {
        let mut command = Self::command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]).args(args);
        command
    }

    /// Starts `vote-status serve` in memory with these arguments, which include `--listen` and
    /// `--control`, and waits until the listeners answer.
    pub(crate) fn listening(args: &[&str]) -> Server {
        Self::spawn(Self::serve_in_memory(args))
    }

    /// `serve` in memory with these arguments.
    pub(crate) fn serve_in_memory(args: &[&str]) -> Command {
        let mut command = Self::command();
        command.args(["serve", "--in-memory"]).args(args);
        command
    }

    /// The binary without arguments. Of the `VOTE_STATUS_…` variables its environment has only the
    /// control key.
    pub(crate) fn command() -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vote-status"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("VOTE_STATUS_") {
                command.env_remove(name);
            }
        }
        command.env("VOTE_STATUS_CONTROL_KEY", Self::KEY).stdin(Stdio::null());
        command
    }

    /// `serve` on a data directory, with one worker and both listeners on free ports of 127.0.0.1.
    pub(crate) fn on(data: &Path) -> Command {
        let mut command = Self::serve(&["--workers", "1", "--data-dir"]);
        command.arg(data);
        command
    }

    /// `command` as the last arguments of another program: `sh -c 'exec "$0" "$@"'`, `strace …`.
    pub(crate) fn under(wrapper: &[&str], command: Command) -> Command {
        let mut outer = Command::new(wrapper[0]);
        outer.stdin(Stdio::null()).args(&wrapper[1..]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer
    }

    /// Spawns `command`, which must lead to a server, and waits until its listeners answer: the
    /// control one and a public one for each `--listen` (one without any). A shell that ends in
    /// `exec` will do.
    pub(crate) fn spawn(command: Command) -> Server {
        Self::try_spawn(command)
            .unwrap_or_else(|ended| panic!("the server did not start: {:?}, stderr:\n{}", ended.status, ended.stderr))
    }

    /// As `spawn`, but gives the output of a process that ended early.
    pub(crate) fn try_spawn(mut command: Command) -> Result<Server, Ended> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let publics = command.get_args().filter(|&arg| arg == "--listen").count();
        let mut child = command.spawn().expect("the binary can be run");
        let (captured, lines) = Captured::attach(&mut child);
        let (public, control) = match read_start_lines(&lines, publics.max(1)) {
            Some(addresses) => addresses,
            None => return Err(end_of(child, captured)),
        };
        Ok(Server {
            child,
            public,
            control,
            captured,
            #[cfg(feature = "redis")]
            ground: None,
        })
    }

    /// The first public listener, which must have an internet address.
    pub(crate) fn public(&self) -> SocketAddr {
        self.public[0].addr()
    }

    /// All public listeners, in the order of their start lines.
    pub(crate) fn publics(&self) -> &[Endpoint] {
        &self.public
    }

    /// The control listener, which must have an internet address.
    pub(crate) fn control(&self) -> SocketAddr {
        self.control.addr()
    }

    /// The control listener of any kind.
    pub(crate) fn control_endpoint(&self) -> &Endpoint {
        &self.control
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap_or_else(|error| panic!("no signal to {pid:?}: {error}"));
    }

    /// Sets a limit of the running process, and gives the one before.
    pub(crate) fn limit(&self, resource: Resource, current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        let limits = Rlimit { current, maximum };
        prlimit(Some(Pid::from_child(&self.child)), resource, limits).expect("a child's limit can be set")
    }

    /// Stops the process, and returns when none of its threads runs any more. The signal alone is
    /// only on its way, and a thread may still read from a socket. `Signal::CONT` ends the pause.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        wait_until("the server stops", || self.is_paused());
    }

    /// Whether every thread of the process is stopped, by its state in proc_pid_stat(5).
    fn is_paused(&self) -> bool {
        let threads = read_dir(format!("/proc/{}/task", self.pid())).expect("the process is there");
        threads.into_iter().all(|thread| {
            let stat = read_to_string(thread.expect("a thread's folder").path().join("stat"));
            // The name before the state may have blanks and brackets of its own. Without a file the thread has ended.
            stat.map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
        })
    }

    /// Waits for the process to end by itself. Panics past `deadline`.
    pub(crate) fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let status = wait(&mut self.child, deadline);
        let status = status.unwrap_or_else(|| panic!("the server still runs after {deadline:?}"));
        // A test looks at the last lines next.
        self.captured.join();
        status
    }

    /// Ends the process as its operator does, and requires that it ends in order. Its output is complete then.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Server {
        self.signal(Signal::TERM);
        let status = self.wait_exit(DEADLINE);
        assert_eq!(status.code(), Some(0), "{status:?}: {}", self.stderr());
        self
    }

    /// Whether the process still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the child can be waited for").is_none()
    }

    /// The server's standard error so far.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&lock(&self.captured.stderr)).into_owned()
    }

    /// Waits until the server has written `text` to standard error `count` times.
    #[track_caller]
    pub(crate) fn wait_for_lines(&self, text: &str, count: usize) {
        wait_until(text, || self.stderr().matches(text).count() >= count);
    }

    /// Waits until the server has written a line with `part` to standard error, and gives the line.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, part: &str) -> String {
        self.wait_for_lines(part, 1);
        let stderr = self.stderr();
        stderr.lines().find(|line| line.contains(part)).expect("it was waited for").to_owned()
    }

    /// The server's standard output so far, the start lines included.
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&lock(&self.captured.stdout)).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let before = self.child.try_wait();
        // An error here means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.captured.join();
        if std::thread::panicking() {
            eprintln!("--- the server before it was killed: {before:?}; its standard error:\n{}---", self.stderr());
        }
    }
}

/// The status and the output of a process that ended by itself.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit status.
    pub(crate) status: ExitStatus,
    /// All of its standard output.
    pub(crate) stdout: String,
    /// All of its standard error.
    pub(crate) stderr: String,
}

/// Runs `command` to its end, within `SLOW_MAX`: a program of another maker needs seconds of a processor.
pub(crate) fn run_to_end(mut command: Command) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be run");
    let (captured, _) = Captured::attach(&mut child);
    end_of(child, captured)
}

/// Requires exit status 2 and one line on standard error that has all of `words`.
#[track_caller]
pub(crate) fn expect_failure(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.starts_with("vote-status: "), "{ended:?}");
    for word in words {
        assert!(ended.stderr.contains(word), "without {word:?}: {ended:?}");
    }
    for noise in ["panicked", "backtrace"] {
        assert!(!ended.stderr.contains(noise), "{ended:?}");
    }
}

/// Runs `command`, which must fail before it prints its listeners.
#[track_caller]
pub(crate) fn expect_refusal(command: Command, words: &[&str]) {
    let said = format!("{command:?}");
    let ended = run_to_end(command);
    assert_eq!(ended.stdout, "", "{said}");
    expect_failure(&ended, words);
}

fn end_of(mut child: Child, mut captured: Captured) -> Ended {
    let status = wait(&mut child, SLOW_MAX);
    if status.is_none() {
        child.kill().expect("a running child can be killed");
        child.wait().expect("a killed child can be reaped");
    }
    captured.join();
    let text = |bytes: &Mutex<Vec<u8>>| String::from_utf8_lossy(&lock(bytes)).into_owned();
    let (stdout, stderr) = (text(&captured.stdout), text(&captured.stderr));
    let status = status.unwrap_or_else(|| {
        panic!("neither started nor ended within {SLOW_MAX:?}: stdout {stdout:?}, stderr:\n{stderr}")
    });
    Ended { status, stdout, stderr }
}

fn wait(child: &mut Child, deadline: Duration) -> Option<ExitStatus> {
    let since = Wait::begin();
    loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            return Some(status);
        }
        if since.counted() >= deadline {
            return None;
        }
        sleep(POLL);
    }
}

/// Reads the start lines of `publics` public listeners and of the control one, in any order.
/// `None` when the output ends, has another line, or time is up.
fn read_start_lines(lines: &Receiver<String>, publics: usize) -> Option<(Vec<Endpoint>, Endpoint)> {
    let since = Wait::begin();
    let mut public = Vec::new();
    let mut control = None;
    while public.len() < publics || control.is_none() {
        let left = DEADLINE.checked_sub(since.counted())?;
        let line = match lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        let (addr, kind) = line.strip_prefix("listening on ")?.rsplit_once(" (")?;
        match kind {
            "public)" => public.push(Endpoint::parse(addr)?),
            "control)" => control = Some(Endpoint::parse(addr)?),
            _ => return None,
        }
    }
    Some((public, control?))
}

/// The child's output. A thread reads each stream, so the child never blocks on a full pipe.
#[derive(Debug)]
struct Captured {
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Captured {
    /// Starts to read. The receiver also gets the lines of standard output.
    fn attach(child: &mut Child) -> (Captured, Receiver<String>) {
        let stdout = Arc::new(Mutex::new(Vec::new()));
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let err = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let out_reader = read_lines(out, Arc::clone(&stdout), move |line| {
            // The receiver is gone once the start lines are known.
            let _ = sender.send(line);
        });
        let err_reader = read_lines(err, Arc::clone(&stderr), |_| {});
        let captured = Captured { stdout, stderr, readers: vec![out_reader, err_reader] };
        (captured, lines)
    }

    /// Waits until all output has been read. The process must have ended.
    fn join(&mut self) {
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader does not panic");
        }
    }
}

fn read_lines<R: Read + Send + 'static>(
    mut from: BufReader<R>,
    into: Arc<Mutex<Vec<u8>>>,
    told: impl Fn(String) + Send + 'static,
) -> JoinHandle<()> {
    let read = move || {
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).expect("output can be read") > 0 {
            lock(&into).extend_from_slice(&line);
            told(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    };
    Builder::new().name("output".to_owned()).spawn(read).expect("a thread can be started")
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().expect("a reader does not panic")
}
