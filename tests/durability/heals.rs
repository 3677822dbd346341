//! A disk that is full heals by itself: once votes have expired, votes are taken again, though
//! nobody touches anything and though another writer takes what is freed. Meanwhile it costs next
//! to nothing. On file systems of many sizes, as the store's file grows by doubling.

use crate::durability::small_disk::SmallDisk;
use crate::util::control::Control;
use crate::util::ledger::{COOLDOWN_S, Ledger, SERVER, address, next_votes, serve, voted};
use crate::util::load::{Caller, Load, Notes};
use crate::util::needs::is_long;
use crate::util::server::Server;
use crate::util::time::now_unix;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Votes are taken so soon after the old ones have expired; on a loaded machine too.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// Before the votes expire, a full disk is looked at for so many seconds at least.
const FULL_S_MIN: i64 = 6;
/// Lines of a batch that fills the disk.
const BATCH_LINES: u32 = 20_000;

/// Another writer on the same disk: whatever is free, it takes at once.
fn greedy(path: PathBuf, pause: Duration) -> Load<u64> {
    let mut file = File::create(path).expect("a file can be made");
    let write = move |taken: &Notes<u64>| match file.write(&[1; 4_096]) {
        Ok(bytes) => *taken.open() += bytes as u64,
        Err(_) => sleep(pause),
    };
    Load::start([Box::new(write) as Caller<u64>])
}

/// Processor time that a process has used, and what it has read, in bytes: proc_pid_stat(5) and
/// proc_pid_io(5).
fn used(server: &Server) -> (Duration, u64) {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("the process is there");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number");
    let io = fs::read_to_string(format!("/proc/{}/io", server.pid())).expect("the process is there");
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("what was read");
    (Duration::from_millis(ticks * 10), read.parse().expect("a number"))
}

/// Records votes until there is no room for one more, and none is found for some seconds; how many
/// were kept. `None` where that takes so long that they expire.
fn fill(control: &Control, expires_at: i64) -> Option<u32> {
    let voted_at = expires_at - COOLDOWN_S;
    let (mut number, mut lines, mut refused_since) = (0, BATCH_LINES, None);
    while refused_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(4)) {
        if now_unix() > expires_at - FULL_S_MIN {
            return None;
        }
        let mut body = String::new();
        for offset in 0..lines {
            let ip = address(number + offset);
            writeln!(body, r#"{{"server_id":{SERVER},"ip":"{ip}","voted_at":{voted_at}}}"#).expect("a line");
        }
        if control.post("/v1/votes/batch", &body).status == 200 {
            number += lines;
            refused_since = None;
        } else {
            lines = (lines / 4).max(1);
            refused_since.get_or_insert_with(Instant::now);
            sleep(Duration::from_millis(20));
        }
    }
    Some(number)
}

/// A disk that is filled with votes that expire together, and has to heal.
struct Trial {
    bytes: u64,
    /// The votes expire so many seconds after the first; later where the machine is too busy to fill the disk by then.
    fill_s: i64,
    /// Another writer, that waits so long between two tries.
    greedy_pause: Option<Duration>,
    /// Whether the process is killed while the disk is full.
    is_killed: bool,
}

fn run(trial: &Trial) {
    let Trial { bytes, fill_s, greedy_pause, is_killed } = *trial;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path().join("disk"), bytes) else { return };
    let data = disk.0.join("data");
    let filled = (0..5).find_map(|doubled| {
        let (server, _) = voted(&data, 0);
        let expires_at = now_unix() + (fill_s << doubled);
        let kept = fill(&server.control_client(), expires_at);
        if let Some(kept) = kept {
            return Some((server, expires_at, kept));
        }
        drop(server);
        fs::remove_dir_all(&data).expect("the folder can be removed");
        None
    });
    let (mut server, expires_at, kept) = filled.expect("the disk is full in time");
    let mut control = server.control_client();
    let greedy = greedy_pause.map(|pause| greedy(disk.0.join("greedy"), pause));
    sleep(Duration::from_secs(1));
    if is_killed {
        drop(server);
        server = serve(&data, &[]);
        control = server.control_client();
    }

    // While it is full.
    let (before, start, mut refused) = (used(&server), Instant::now(), 0);
    while now_unix() < expires_at - 1 {
        // What a commit that has failed had taken may be enough for one vote more.
        let response = control.cast(SERVER, address(3_000_000 + refused));
        assert!([201, 503].contains(&response.status), "{response:?}");
        let pair = (SERVER, address(refused % kept));
        assert!(now_unix() >= expires_at || next_votes(&server, &[pair])[0].is_some(), "status goes on");
        refused += 1;
        sleep(Duration::from_millis(50));
    }
    let after = used(&server);
    let share = (after.0 - before.0).as_secs_f64() / start.elapsed().as_secs_f64();
    let read_per_s = (after.1 - before.1) as f64 / start.elapsed().as_secs_f64();

    while now_unix() < expires_at {
        sleep(Duration::from_millis(10));
    }
    let (expired, mut ledger) = (Instant::now(), Ledger::default());
    let (mut number, mut healed) = (4_000_000, None::<Instant>);
    // The first vote may be one more that fits before the expired ones are dropped, so votes are taken for 2 s.
    while healed.is_none_or(|since| since.elapsed() < Duration::from_secs(2)) {
        assert!(expired.elapsed() < RECOVERY_MAX, "{bytes} bytes do not heal:\n{}", server.stderr());
        number += 1;
        let voted_at = now_unix();
        if control.cast_at(SERVER, &address(number).to_string(), voted_at).status == 201 {
            ledger.recorded.insert((SERVER, address(number)), voted_at);
            healed.get_or_insert_with(Instant::now);
        } else {
            healed = None;
        }
        sleep(Duration::from_millis(20));
    }
    let healed_ms = healed.map(|since| (since - expired).as_millis()).unwrap_or_default();
    let taken = greedy.map(Load::stop);
    println!(
        "{} KB, {kept} votes, other writer {taken:?}: healed after {healed_ms} ms; while full {:.1} % of a core, {:.0} KB/s read",
        bytes >> 10,
        100.0 * share,
        read_per_s / 1024.0
    );
    // It was 35 % of a core and 480 MB/s; 2 % without the requests, in a build that is optimized.
    assert!(share < 0.1 && read_per_s < 40e6, "while it is full");
    drop(server);
    let pairs: Vec<_> = ledger.recorded.into_keys().collect();
    let kept = next_votes(&serve(&data, &[]), &pairs);
    assert!(kept.iter().all(Option::is_some), "{kept:?} after a kill and a restart");
    fs::remove_dir_all(&data).expect("the folder can be removed");
}

#[test]
fn a_small_disk_heals() {
    run(&Trial { bytes: 5 << 20, fill_s: 30, greedy_pause: None, is_killed: true });
}

#[test]
fn a_small_disk_heals_beside_another_writer() {
    let greedy_pause = Some(Duration::from_millis(1));
    run(&Trial { bytes: 7 << 20, fill_s: 30, greedy_pause, is_killed: false });
}

/// From 5 to 40 MB; every other one beside a writer, of which some never wait; every third one killed.
#[test]
fn disks_of_fifteen_sizes_heal() {
    if !is_long() {
        return;
    }
    let trial = |number: u64| Trial {
        bytes: (5 << 20) + number * (5 << 19),
        fill_s: 40 + 15 * i64::try_from(number).expect("a small number"),
        greedy_pause: (number % 2 == 1).then(|| Duration::from_millis(number % 4 / 2)),
        is_killed: number % 3 == 2,
    };
    // So that each share of a machine is large enough to fill its disk in time.
    for first in (0..15).step_by(3) {
        let trials: Vec<_> = (first..first + 3).map(|number| spawn(move || run(&trial(number)))).collect();
        trials.into_iter().for_each(|trial| trial.join().expect("the disk heals"));
    }
}
