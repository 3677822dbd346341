//! No room on the disk, by a limit on the size of files and by a small file system: votes are
//! refused, status is served, nothing acknowledged is lost, and it goes on when there is room.

use crate::durability::files::{furnished, store_file};
use crate::durability::small_disk::{SmallDisk, ThinDisk};
use crate::util::client::get;
use crate::util::ledger::{COOLDOWN_S, Ledger, Pair, SERVER, address, next_votes, serve};
use crate::util::needs::left_out;
use crate::util::server::{Server, run_to_end};
use crate::util::time::now_unix;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Votes that are cast until there is no room, at most.
const CAST_MAX: u32 = 5_000;
/// And how many after that.
const CAST_WHEN_FULL: u32 = 30;

/// How soon votes are taken once there is room.
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// How a disk is made full and empty again.
trait Room {
    fn fill(&self, server: &Server, folder: &Path);
    fn free(&self, server: &Server);
}

/// The store's file may not grow.
struct SizeLimit;

impl Room for SizeLimit {
    fn fill(&self, server: &Server, folder: &Path) {
        let bytes = fs::metadata(store_file(folder)).expect("the file is there").len();
        limit(server, Some(bytes));
    }

    fn free(&self, server: &Server) {
        limit(server, None);
    }
}

fn limit(server: &Server, bytes: Option<u64>) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    let limits = Rlimit { current: bytes, maximum: None };
    prlimit(pid, Resource::Fsize, limits).expect("a child's limit can be set");
}

/// Another file takes what the file system has.
struct Filler(PathBuf);

impl Room for Filler {
    fn fill(&self, _server: &Server, _folder: &Path) {
        let mut file = File::create(&self.0).expect("a file can be made");
        for part in [64 * 1024, 4 * 1024, 1] {
            while file.write(&vec![1; part]).is_ok_and(|written| written > 0) {}
        }
    }

    fn free(&self, _server: &Server) {
        fs::remove_file(&self.0).expect("the file can be removed");
    }
}

/// Casts one vote, which is recorded or refused for want of room; whether it was recorded. What is left in doubt there is not
/// recorded either.
fn cast(ledger: &mut Ledger, server: &Server, number: u32) -> bool {
    let is_recorded = ledger.try_cast(server, number);
    let doubtful = std::mem::take(&mut ledger.unanswered);
    ledger.refused.extend(doubtful.into_keys());
    is_recorded
}

/// Casts votes until one is taken, which must be soon; gives the number after it.
fn cast_until_taken(ledger: &mut Ledger, server: &Server, mut number: u32) -> u32 {
    let until = Instant::now() + AGAIN_MAX;
    while !cast(ledger, server, number) {
        assert!(Instant::now() < until, "there is room again:\n{}", server.stderr());
        number += 1;
        sleep(Duration::from_millis(20));
    }
    number + 1
}

/// Requires that `/readyz` says that votes are refused and why, for as long as it is so, and that `health` says it too.
fn expect_no_votes(server: &Server, reason: &str, words: &str) {
    let until = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < until {
        let ready = get(server.control(), "/readyz");
        let body = ready.json();
        assert_eq!((ready.status, &body["ready"], &body["votes"]), (200, &true.into(), &false.into()), "{body}");
        assert_eq!(body["reason"], reason, "{body}");
        assert!(body["message"].as_str().is_some_and(|message| message.contains(words)), "{body}");
        sleep(Duration::from_millis(20));
    }
    let mut health = Server::command();
    health.args(["health", "--control-url", &format!("http://{}", server.control())]);
    let told = run_to_end(health);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let refused = format!("ready, but votes are refused: {words}");
    assert!(told.stdout.starts_with(&refused), "no {refused:?} in {told:?}");
}

/// The votes of a run on a disk that becomes full, and has room again.
fn run_full(server: &Server, folder: &Path, room: &dyn Room) -> Ledger {
    let mut ledger = Ledger::default();
    server.control_client().add_server(SERVER, "demo");
    for number in 0..20 {
        assert!(cast(&mut ledger, server, number), "there is room");
    }
    room.fill(server, folder);
    let full_at = (20..CAST_MAX).find(|number| !cast(&mut ledger, server, *number)).expect("it never was full");
    for number in full_at + 1..=full_at + CAST_WHEN_FULL {
        cast(&mut ledger, server, number);
    }
    ledger.expect(server, "while there is no room");
    expect_no_votes(server, "store_failing", "there is no room on the disk for the store");
    let refused = ledger.refused.len();
    let lines = server.stderr().lines().filter(|line| !line.contains(" INFO ")).count();
    assert!((1..=3).contains(&lines), "a fault is said once, not for every vote: {}", server.stderr());

    room.free(server);
    let number = cast_until_taken(&mut ledger, server, full_at + CAST_WHEN_FULL + 1);
    assert!(cast(&mut ledger, server, number), "it stays so");
    assert_eq!(get(server.control(), "/readyz").json(), json!({"ready": true}));
    ledger.expect(server, "when there is room again");
    println!("full after {} votes, {refused} refused", full_at - 1);
    ledger
}

#[test]
fn votes_wait_for_room_under_a_size_limit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    let ledger = run_full(&server, folder.path(), &SizeLimit);
    server.signal(Signal::KILL);
    drop(server);
    ledger.expect(&serve(folder.path(), &[]), "after a kill and a restart");
}

/// Expired votes cannot be dropped without room either; nobody is told that 20 times a second.
#[test]
fn a_drop_that_fails_is_said_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    let ends = now_unix() + 3;
    // In one request: on a busy machine twenty of them may last until the first has ended.
    let line = |number| {
        let (ip, voted_at) = (address(number), ends - COOLDOWN_S);
        format!("{}\n", json!({"server_id": SERVER, "ip": ip, "voted_at": voted_at}))
    };
    let batch = control.post("/v1/votes/batch", &(0..20).map(line).collect::<String>()).json();
    assert_eq!(batch["recorded"], 20, "{batch}");
    limit(&server, Some(4_096));
    let pairs: Vec<Pair> = (0..20).map(|number| (SERVER, address(number))).collect();
    while now_unix() < ends + 2 {
        let asked_at = now_unix();
        let next = next_votes(&server, &pairs);
        assert!(asked_at < ends || next.iter().all(Option::is_none), "{next:?}");
        sleep(Duration::from_millis(100));
    }
    let lines = server.stderr().lines().filter(|line| !line.contains(" INFO ")).count();
    assert!(lines <= 3, "{lines} lines:\n{}", server.stderr());
    SizeLimit.free(&server);
    cast_until_taken(&mut Ledger::default(), &server, 1);
}

#[test]
fn a_start_without_room_serves_status() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ledger = furnished(folder.path(), 50);
    let bytes = fs::metadata(store_file(folder.path())).expect("the file is there").size();
    // In blocks of 512 bytes, below what the file has already.
    let script = format!(r#"ulimit -f {}; trap "" XFSZ; exec "$0" "$@""#, bytes / 1_024);
    let server = Server::spawn(Server::under(&["sh", "-c", &script], Server::on(folder.path())));
    ledger.expect(&server, "without room");
    for number in 100..110 {
        cast(&mut ledger, &server, number);
    }
    ledger.expect(&server, "without room, after some casts");
}

#[test]
fn votes_wait_for_room_on_a_small_disk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path().join("disk"), 1 << 20) else {
        return left_out("a small disk cannot be mounted here");
    };
    let data = disk.0.join("data");
    let server = serve(&data, &[]);
    let ledger = run_full(&server, &data, &Filler(disk.0.join("filler")));
    server.signal(Signal::KILL);
    drop(server);
    let server = serve(&data, &[]);
    ledger.expect(&server, "after a kill and a restart");
    drop(server);
}

/// What a file system does that has met an error of its own.
#[test]
fn a_file_system_that_goes_read_only_takes_no_votes_and_serves_status() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(pool) = SmallDisk::mount(folder.path().join("pool"), 24 << 20) else {
        return left_out("a small disk cannot be mounted here");
    };
    let Some(mut volume) = ThinDisk::mount(&pool, folder.path().join("volume"), 16 << 20) else {
        return left_out("no loop device can be mounted here");
    };
    let data = volume.at.join("data");
    let server = serve(&data, &[]);
    let mut ledger = Ledger::default();
    server.control_client().add_server(SERVER, "demo");
    (0..20).for_each(|number| assert!(cast(&mut ledger, &server, number), "all is well"));
    if !volume.make_read_only() {
        return left_out("no file system can be made read-only here");
    }
    // The one that finds it may be in doubt.
    let voted_at = now_unix();
    let found = server.control_client().cast_at(SERVER, &address(100).to_string(), voted_at);
    assert_eq!(found.status, 503, "{found:?}");
    ledger.unanswered.insert((SERVER, address(100)), voted_at);
    (101..110).for_each(|number| assert!(!cast(&mut ledger, &server, number), "nothing is durable"));
    expect_no_votes(&server, "store_failing", "the store ");
    ledger.expect(&server, "from memory");
    server.signal(Signal::KILL);
    drop(server);
    volume.mount_again();
    ledger.expect(&serve(&data, &[]), "after umount and mount");
}
