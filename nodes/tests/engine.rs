//! A Redis or a Valkey of a test's own. The test sets the clock of the server.

use redis::{Client, Connection, Value, cmd};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use vote_status_nodes::functions::CODE;
use vote_status_nodes::reply::Reply;

const DEADLINE: Duration = Duration::from_secs(20);

/// The clock is a number of microseconds in a file.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long long now_us(void) {
    static volatile long long *at;
    if (!at) at = mmap(0, sizeof *at, PROT_READ, MAP_SHARED, open(getenv("CLOCK_FILE"), O_RDONLY), 0);
    return *at;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    long long us = now_us();
    now->tv_sec = us / 1000000;
    now->tv_usec = us % 1000000;
    return 0;
}
int clock_gettime(clockid_t which, struct timespec *now) {
    if (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE) return syscall(SYS_clock_gettime, which, now);
    long long us = now_us();
    now->tv_sec = us / 1000000;
    now->tv_nsec = us % 1000000 * 1000;
    return 0;
}
time_t time(time_t *at) {
    time_t now = now_us() / 1000000;
    if (at) *at = now;
    return now;
}
"#;

/// All that commands see of the keys, in the model's form. Expired keys stay where they are.
const TOLD: &str = r"#!lua flags=no-writes
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, content = redis.call('TYPE', key).ok
  if kind == 'string' then
    content = redis.call('GET', key)
  elseif kind == 'list' then
    content = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then
    content = redis.call('SMEMBERS', key)
  elseif kind == 'hash' then
    content = redis.call('HGETALL', key)
  elseif kind == 'zset' then
    content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else
    local about = redis.call('XINFO', 'STREAM', key)
    local said = {}
    for at = 1, #about, 2 do
      said[about[at]] = about[at + 1]
    end
    content = { said['last-generated-id'], said['radix-tree-keys'], redis.call('XRANGE', key, '-', '+') }
  end
  table.insert(all, { key, kind, redis.call('PEXPIRETIME', key), content })
end
return all";

/// A running server.
pub(crate) struct Engine {
    folder: tempfile::TempDir,
    child: Child,
    clock: File,
    /// The nodes' user.
    user: Connection,
    /// A user with all rights.
    operator: Connection,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("the server ends");
    }
}

impl Engine {
    /// Starts this program. A block of a log has at most `block_max` entries, and no bound of its bytes, as in the model.
    pub(crate) fn start(program: &str, block_max: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("shim.c"), SHIM).expect("a file");
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).args([at("shim.so"), at("shim.c")]).status();
        assert!(made.expect("this test needs cc").success(), "the shim is right");
        fs::write(at("clock"), 1_800_000_000_000_000_u64.to_ne_bytes()).expect("a file");
        let clock = File::options().write(true).open(at("clock")).expect("the clock");
        let said = File::create(at("said")).expect("a file");
        let mut command = Command::new(program);
        command.args(["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no"]);
        command.args(["--stream-node-max-entries", &block_max.to_string(), "--stream-node-max-bytes", "0"]);
        command
            .args(["--enable-debug-command", "local", "--enable-protected-configs", "local"])
            .current_dir(folder.path());
        command.env("LD_PRELOAD", at("shim.so")).env("CLOCK_FILE", at("clock")).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stderr(said.try_clone().expect("a descriptor")).stdout(said);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
        let client = Client::open(format!("unix://{}", at("socket").display())).expect("an address");
        let until = Instant::now() + DEADLINE;
        let mut connect = || loop {
            match client.get_connection() {
                Ok(connection) => return connection,
                Err(error) => {
                    let said = || fs::read_to_string(at("said")).unwrap_or_default();
                    let is_there = child.try_wait().expect("a child").is_none() && Instant::now() < until;
                    assert!(is_there, "{program} does not answer: {error}\n{}", said());
                    sleep(Duration::from_millis(2));
                }
            }
        };
        let (mut user, mut operator) = (connect(), connect());
        // An expired key stays until a command asks for it, as in the model.
        order(&mut operator, &["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        order(&mut operator, &["FUNCTION", "LOAD", CODE]);
        order(&mut operator, &["ACL", "SETUSER", "voter", "on", "nopass", "~*", "&*", "+@all"]);
        order(&mut user, &["AUTH", "voter", "any"]);
        Self { folder, child, clock, user, operator }
    }

    /// Sets the clock, and waits until the server goes by it. Valkey reads the clock once a millisecond, and counts on by the
    /// processor in between. So a test leaves microseconds alone.
    pub(crate) fn set_clock(&mut self, now_ms: u64) {
        self.clock.write_all_at(&(now_ms * 1_000).to_ne_bytes(), 0).expect("the clock can be set");
        let until = Instant::now() + DEADLINE;
        let now = [now_ms / 1_000, now_ms % 1_000];
        loop {
            let Reply::Array(parts) = self.order(&["TIME"]) else { panic!("no time") };
            let part = |at: usize| match &parts[at] {
                Reply::Bulk(part) => String::from_utf8_lossy(part).parse::<u64>().expect("a number"),
                other => panic!("{other:?}"),
            };
            if [part(0), part(1) / 1_000] == now {
                return;
            }
            assert!(Instant::now() < until, "{now:?}, and not {parts:?}");
        }
    }

    /// Runs a command of the operator, which must succeed.
    pub(crate) fn order(&mut self, words: &[&str]) -> Reply {
        order(&mut self.operator, words)
    }

    /// Runs a command of the nodes' user.
    pub(crate) fn ask(&mut self, words: &[Vec<u8>]) -> Reply {
        ask(&mut self.user, words)
    }

    /// All that commands see of the keys.
    pub(crate) fn told(&mut self) -> Reply {
        order(&mut self.operator, &["EVAL", TOLD, "0"])
    }

    /// The server's folder.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

fn order(connection: &mut Connection, words: &[&str]) -> Reply {
    let reply = ask(connection, &words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
    assert!(!matches!(reply, Reply::Refused(_)), "{words:?}: {reply:?}");
    reply
}

fn ask(connection: &mut Connection, words: &[Vec<u8>]) -> Reply {
    let mut command = cmd(std::str::from_utf8(&words[0]).expect("a command"));
    command.arg(&words[1..]);
    connection.send_packed_command(&command.get_packed_command()).expect("the server is there");
    read(connection.recv_response().expect("the server answers"))
}

fn read(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::BulkString(bytes) => Reply::Bulk(bytes),
        Value::Array(items) => Reply::Array(items.into_iter().map(read).collect()),
        Value::SimpleString(text) => Reply::Status(text),
        Value::Okay => Reply::ok(),
        Value::ServerError(error) => {
            Reply::Refused(format!("{} {}", error.code(), error.details().unwrap_or_default()))
        }
        other => panic!("{other:?}"),
    }
}
