//! The store's file is void: a sync has failed, or another program has written to the file. The
//! service writes the store anew from memory, takes votes again, and loses nothing, whatever comes next.

use crate::durability::files::{furnished, store_file};
use crate::durability::hangs::serve_shimmed;
use crate::durability::small_disk::ThinDisk;
use crate::util::client::get;
use crate::util::ledger::{Ledger, serve, voted};
use crate::util::needs::has;
use crate::util::server::Server;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest time until votes are taken once the disk is well. A pause between two tries is at most 30 s. On a full disk it
/// is up to 50 times the last try, which comes to that on a busy machine.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// The log line once the store has been written anew.
const ANEW: &str = "the store was written anew from memory";
/// Numbers of votes that come after all others.
const LATER: u32 = 100_000;

/// Requires that votes are taken again, and stay taken.
fn cast_again(ledger: &mut Ledger, server: &Server) {
    let number = ledger.cast_until_taken(server, LATER, AGAIN_MAX);
    ledger.cast_all(server, number..number + 30);
}

fn error_lines(server: &Server) -> usize {
    server.stderr().lines().filter(|line| line.contains(" ERROR ")).count()
}

/// Regression: the service acknowledged and lost 30 of 30 votes.
#[test]
fn a_file_that_something_else_has_written_to_is_written_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = store_file(folder.path());
    let (server, mut ledger) = voted(folder.path(), 20);
    let backup = fs::read(&file).expect("it can be read");
    ledger.cast_all(&server, 20..30);
    fs::write(file, backup).expect("it can be written");
    cast_again(&mut ledger, &server);
    assert_eq!(get(server.control(), "/readyz").json(), serde_json::json!({"ready": true}));
    server.wait_for_lines(ANEW, 1);
    assert_eq!(error_lines(&server), 1, "{}", server.stderr());
    ledger.expect(&server, "from memory");
    ledger.expect_after_kill(server, folder.path(), "a backup copied over the file");
}

/// The service logs a line for each change of state, not two for each failed vote, and its pauses grow.
#[test]
fn syncs_that_fail_now_and_then_are_not_told_with_every_vote() {
    if !has(&["cc"]) {
        return;
    }
    for every in [3, 5] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        let mut ledger = furnished(&data, 5);
        let server = serve_shimmed(folder.path(), &data);
        fs::write(folder.path().join("fail"), format!("{every} 5")).expect("the folder takes a file");
        let until = Instant::now() + Duration::from_secs(2);
        let mut number = 100;
        // On a busy machine the votes up to the first failed sync take longer.
        while Instant::now() < until || (error_lines(&server) == 0 && number < 1_000) {
            ledger.try_cast(&server, number);
            number += 1;
        }
        ledger.expect(&server, "from memory");
        assert!((1..=7).contains(&error_lines(&server)), "one in {every}: {}", server.stderr());
        ledger.expect_after_kill(server, &data, "syncs that fail now and then");
    }
}

/// While no sync succeeds, votes are answered 503, status goes on, and `/readyz` reports it.
#[test]
fn while_no_sync_succeeds_no_vote_is_taken_and_status_is_served() {
    if !has(&["cc"]) {
        return;
    }
    let (io_error, no_space) = ("1 5", "1 28");
    for (how, heals) in [(io_error, true), (no_space, true), (io_error, false)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (data, fail) = (folder.path().join("data"), folder.path().join("fail"));
        let mut ledger = furnished(&data, 10);
        let server = serve_shimmed(folder.path(), &data);
        ledger.cast_all(&server, 10..20);
        fs::write(&fail, how).expect("the folder takes a file");
        let until = Instant::now() + Duration::from_secs(2);
        for number in (100..LATER).take_while(|_| Instant::now() < until) {
            assert!(!ledger.try_cast(&server, number), "nothing is durable");
        }
        ledger.expect(&server, "from memory");
        let ready = get(server.control(), "/readyz");
        let body = ready.json();
        let told = (ready.status, &body["votes"], &body["reason"]);
        assert_eq!(told, (200, &false.into(), &"store_failing".into()), "{body}");
        assert!(body["message"].as_str().is_some_and(|message| message.contains("votes.redb")), "{body}");
        if heals {
            fs::remove_file(&fail).expect("it can be removed");
            cast_again(&mut ledger, &server);
            ledger.expect(&server, "from memory");
        }
        server.wait_for_lines(" ERROR ", 1);
        assert_eq!(error_lines(&server), 1, "{how}: {}", server.stderr());
        ledger.expect_after_kill(server, &data, how);
    }
}

/// Votes on a thin volume whose pool is full for three seconds. Gives whether the volume and the store have healed; `None`
/// where no volume can be mounted.
fn is_healed(votes: u32) -> Option<bool> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut volume = ThinDisk::mount(folder.path(), 24 << 20, 64 << 20)?;
    let (data, what) = (volume.data(), format!("{votes} votes"));
    let (server, mut ledger) = voted(&data, votes);
    volume.pool.fill();
    let refused = (votes..LATER / 2).find(|number| !ledger.try_cast(&server, *number)).expect("it is full");
    let until = Instant::now() + Duration::from_secs(3);
    for number in (refused + 1..LATER).take_while(|_| Instant::now() < until) {
        ledger.try_cast(&server, number);
        sleep(Duration::from_millis(5));
    }
    volume.pool.free();
    let is_broken = volume.is_broken();
    if !is_broken {
        cast_again(&mut ledger, &server);
    }
    ledger.expect(&server, &format!("{what}, from memory"));
    // The failed sync may have been the reserve's.
    let is_anew = server.stderr().contains(ANEW);
    drop(server);
    volume.mount_again();
    ledger.expect(&serve(&data, &[]), &format!("{what}, after umount and mount"));
    Some(!is_broken && is_anew)
}

/// Regression: the service acknowledged votes again, and after umount and mount all were lost.
#[test]
fn a_thin_volume_that_was_full_for_three_seconds_loses_nothing() {
    let mut healed = 0;
    for votes in [250, 300, 400, 500, 600, 700] {
        let Some(is_healed) = is_healed(votes) else { return };
        healed += u32::from(is_healed);
    }
    println!("{healed} volumes have healed");
    assert!(healed > 0, "no volume has healed");
}
