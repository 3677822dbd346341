//! The store's file counts no longer: a sync has failed, or something else has written to the file. The
//! service writes the store anew from memory, takes votes again, and loses nothing, whatever comes next.

use crate::durability::crash::cast_until_closed;
use crate::durability::files::store_file;
use crate::durability::hangs::serve_shimmed;
use crate::durability::small_disk::{SmallDisk, ThinDisk};
use crate::util::client::get;
use crate::util::ledger::{Ledger, SERVER, serve};
use crate::util::needs::{has, left_out};
use crate::util::server::Server;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So soon votes are taken once the disk is well: pauses between two tries double, and twice the time
/// that it was not well is the most.
const AGAIN_MAX: Duration = Duration::from_secs(10);

/// Casts until a vote is taken, and then some more; gives the number after them.
fn cast_again(ledger: &mut Ledger, server: &Server, number: u32) -> u32 {
    let number = ledger.cast_until_taken(server, number, AGAIN_MAX);
    (number..number + 30)
        .for_each(|number| assert!(ledger.try_cast(server, number), "it stays so:\n{}", server.stderr()));
    number + 30
}

fn error_lines(server: &Server) -> usize {
    server.stderr().lines().filter(|line| line.contains(" ERROR ")).count()
}

fn ready(server: &Server) -> Value {
    let ready = get(server.control_endpoint(), "/readyz");
    assert_eq!(ready.status, 200, "status is served: {ready:?}");
    ready.json()
}

/// What something else does to the file while the service runs.
fn written_by_something_else(what: &str, change: impl Fn(&Path, &[u8])) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store_file(folder.path());
    let server = serve(folder.path(), &[]);
    let mut ledger = Ledger::default();
    server.control_client().add_server(SERVER, "demo");
    (0..20).for_each(|number| assert!(ledger.try_cast(&server, number), "all is well"));
    let backup = fs::read(&file).expect("it can be read");
    (20..30).for_each(|number| assert!(ledger.try_cast(&server, number), "all is well"));
    change(&file, &backup);
    cast_again(&mut ledger, &server, 100);
    ledger.expect(&server, what);
    assert_eq!(error_lines(&server), 1, "{what}: {}", server.stderr());
    assert_eq!(ready(&server), serde_json::json!({"ready": true}), "{what}");
    server.signal(Signal::KILL);
    drop(server);
    ledger.expect(&serve(folder.path(), &[]), &format!("{what}, after a kill and a restart"));
}

/// Regression: 30 of 30 votes were acknowledged and lost.
#[test]
fn a_file_that_is_emptied_in_place_is_written_anew() {
    written_by_something_else("emptied", |file, _| drop(File::create(file).expect("it can be emptied")));
}

/// Regression: 30 of 30 votes were acknowledged and lost.
#[test]
fn a_backup_copied_over_the_file_is_written_anew() {
    written_by_something_else("a backup", |file, backup| fs::write(file, backup).expect("it can be written"));
}

/// Nobody votes: the look every half a second finds it, and a kill after that loses nothing.
#[test]
fn a_file_that_is_emptied_while_nobody_votes_is_written_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store_file(folder.path());
    let server = serve(folder.path(), &[]);
    let mut ledger = Ledger::default();
    server.control_client().add_server(SERVER, "demo");
    (0..20).for_each(|number| assert!(ledger.try_cast(&server, number), "all is well"));
    drop(File::create(&file).expect("it can be emptied"));
    server.wait_for_lines("the store was written anew from memory", 1);
    server.signal(Signal::KILL);
    drop(server);
    ledger.expect(&serve(folder.path(), &[]), "after a kill and a restart");
}

/// The service, where the system calls of `inject` fail.
fn serve_injected(folder: &Path, inject: &str) -> Server {
    // With -D the tracer is a process of its own, and signals reach the service.
    let tracer = ["strace", "-f", "-D", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e", inject];
    Server::spawn(Server::under(&tracer, Server::on(folder)))
}

/// A line for each change of state, and pauses that grow: not a pair of lines for each vote that met a failure.
#[test]
fn syncs_that_fail_now_and_then_are_not_told_with_every_vote() {
    if !has(&["strace"]) {
        return;
    }
    for every in [3, 5] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut ledger = crate::durability::files::furnished(folder.path(), 5);
        let server = serve_injected(folder.path(), &format!("inject=fdatasync:error=EIO:when=20+{every}"));
        let until = Instant::now() + Duration::from_secs(2);
        let mut number = 100;
        // On a busy machine so many syncs take longer.
        while Instant::now() < until || (error_lines(&server) == 0 && number < 1_000) {
            ledger.try_cast(&server, number);
            number += 1;
        }
        ledger.expect(&server, "from memory");
        assert!((1..=7).contains(&error_lines(&server)), "one in {every}: {}", server.stderr());
        server.signal(Signal::KILL);
        drop(server);
        ledger.expect(&serve(folder.path(), &[]), "after a kill and a restart");
    }
}

#[test]
fn syncs_that_fail_for_a_while_are_told_once_and_lose_nothing() {
    if !has(&["strace"]) {
        return;
    }
    for (number, error) in [(6, "EIO"), (9, "ENOSPC"), (12, "EIO"), (15, "EIO")] {
        let what = format!("{error} from sync {number} on");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server =
            serve_injected(folder.path(), &format!("inject=fdatasync:error={error}:when={number}..{}", number + 3));
        let mut ledger = Ledger::default();
        let mut cast_next = 0;
        // Where a sync of the first few fails, the server is listed at a later try.
        while server.control_client().put(&format!("/v1/servers/{SERVER}"), r#"{"token":"demo"}"#).status == 503 {
            sleep(Duration::from_millis(20));
        }
        while cast_next < 12 {
            ledger.try_cast(&server, cast_next);
            cast_next += 1;
        }
        let number = cast_again(&mut ledger, &server, 100);
        assert!(number > 130, "{number}");
        ledger.expect(&server, &what);
        assert!((1..=2).contains(&error_lines(&server)), "{what}: {}", server.stderr());
        server.signal(Signal::KILL);
        drop(server);
        ledger.expect(&serve(folder.path(), &[]), &format!("{what}, after a kill and a restart"));
    }
}

/// While no sync succeeds votes are answered 503, status goes on, and `/readyz` says so.
#[test]
fn a_disk_on_which_no_sync_succeeds_takes_no_votes_and_serves_status() {
    if !has(&["strace"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ledger = crate::durability::files::furnished(folder.path(), 10);
    // The start has a few syncs of its own.
    let server = serve_injected(folder.path(), "inject=fdatasync:error=EIO:when=20+");
    let mut number = 100;
    while ledger.try_cast(&server, number) {
        number += 1;
    }
    let until = Instant::now() + Duration::from_secs(2);
    number += 1;
    while Instant::now() < until {
        assert!(!ledger.try_cast(&server, number), "nothing is durable");
        number += 1;
    }
    ledger.expect(&server, "from memory");
    let body = ready(&server);
    assert_eq!((&body["votes"], &body["reason"]), (&false.into(), &"store_failing".into()), "{body}");
    assert!(body["message"].as_str().is_some_and(|message| message.contains("votes.redb")), "{body}");
    assert_eq!(error_lines(&server), 1, "{}", server.stderr());
    server.signal(Signal::KILL);
    drop(server);
    ledger.expect(&serve(folder.path(), &[]), "after a kill and a restart");
}

/// A volume that has less room than it says: where its pool is full, the writes of the kernel fail behind the service's
/// back.
struct Thin {
    volume: ThinDisk,
    pool: SmallDisk,
    folder: tempfile::TempDir,
}

impl Thin {
    /// `None`, said aloud, where none can be mounted.
    fn new() -> Option<Thin> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pool = SmallDisk::mount(folder.path().join("pool"), 24 << 20);
        let volume = pool.as_ref().and_then(|pool| ThinDisk::mount(pool, folder.path().join("volume"), 64 << 20));
        let (Some(pool), Some(volume)) = (pool, volume) else {
            left_out("no loop device can be mounted here");
            return None;
        };
        Some(Thin { volume, pool, folder })
    }

    fn data(&self) -> PathBuf {
        self.volume.at.join("data")
    }

    fn filler(&self) -> PathBuf {
        self.pool.0.join("filler")
    }

    fn fill(&self) {
        let mut file = File::create(self.filler()).expect("a file can be made");
        while file.write(&[1; 4_096]).is_ok_and(|written| written > 0) {}
    }

    fn free(&self) {
        fs::remove_file(self.filler()).expect("it can be removed");
    }

    /// Whether the file system takes no writes any more: its own journal met the full volume.
    fn is_broken(&self) -> bool {
        File::create(self.volume.at.join("probe")).is_err()
    }

    /// Kills the service, and requires that what the disk has is all that was acknowledged.
    fn expect_after_mount(mut self, server: Server, ledger: &Ledger, what: &str) {
        server.signal(Signal::KILL);
        drop(server);
        self.volume.mount_again();
        ledger.expect(&serve(&self.data(), &[]), &format!("{what}, after umount and mount"));
    }
}

/// Lists the server and casts votes, all of which are taken.
fn cast_first(server: &Server, votes: u32) -> Ledger {
    let mut ledger = Ledger::default();
    server.control_client().add_server(SERVER, "demo");
    (0..votes).for_each(|number| assert!(ledger.try_cast(server, number), "all is well"));
    ledger
}

/// Regression: votes were acknowledged again, and after umount and mount all were lost.
#[test]
fn a_thin_volume_that_was_full_for_three_seconds_loses_nothing() {
    let mut healed = 0;
    for votes in [250, 300, 400, 500, 600, 700] {
        let Some(thin) = Thin::new() else { return };
        let server = serve(&thin.data(), &[]);
        let mut ledger = cast_first(&server, votes);
        thin.fill();
        let (mut refused, mut again, mut number) = (0, 0, votes);
        let mut until = Instant::now() + AGAIN_MAX;
        while Instant::now() < until {
            if !ledger.try_cast(&server, number) {
                refused += 1;
                // Three seconds from the first that was refused on.
                until = if refused == 1 { Instant::now() + Duration::from_secs(3) } else { until };
                sleep(Duration::from_millis(5));
            }
            number += 1;
        }
        thin.free();
        let until = Instant::now() + AGAIN_MAX;
        while again < 100 && Instant::now() < until {
            again += u32::from(ledger.try_cast(&server, number));
            number += 1;
        }
        let is_broken = thin.is_broken();
        ledger.expect(&server, "from memory");
        println!("{votes} votes: {refused} refused, {again} taken again, {} acknowledged", ledger.recorded.len());
        thin.expect_after_mount(server, &ledger, &format!("{votes} votes"));
        assert!(refused > 0, "it was full");
        if !is_broken {
            assert_eq!(again, 100, "{votes}: votes are taken again");
            healed += 1;
        }
    }
    assert!(healed > 0, "no volume has healed");
}

/// The same with the process killed by the sync that failed, before it could note that. Regression: the next process
/// believed what the kernel showed, and took votes; after umount and mount the store was damaged.
#[test]
fn a_kill_in_the_sync_that_a_full_thin_volume_fails_loses_nothing() {
    if !has(&["cc"]) {
        return;
    }
    let mut mended = 0;
    for votes in [250, 300, 400, 500, 600, 700] {
        let Some(thin) = Thin::new() else { return };
        let server = serve_shimmed(thin.folder.path(), &thin.data());
        let mut ledger = cast_first(&server, votes);
        thin.fill();
        fs::write(thin.folder.path().join("kill"), "").expect("the folder takes a file");
        let next = AtomicU32::new(votes);
        let sent = cast_until_closed(&server.control_client(), server.control(), &next, &AtomicUsize::new(0));
        for (pair, voted_at, is_recorded) in sent {
            let known = if is_recorded { &mut ledger.recorded } else { &mut ledger.unanswered };
            known.insert(pair, voted_at);
        }
        thin.free();
        drop(server);
        if thin.is_broken() {
            continue;
        }
        let server = serve(&thin.data(), &[]);
        ledger.expect(&server, &format!("{votes} votes, what the kernel shows"));
        cast_again(&mut ledger, &server, 10_000);
        // The sync may have been that of the room that is kept back.
        mended += u32::from(server.stderr().contains("the store was written anew from memory"));
        thin.expect_after_mount(server, &ledger, &format!("{votes} votes"));
    }
    println!("{mended} stores were written anew");
    assert!(mended > 0, "no kill was in a sync of the store");
}
