//! How long votes wait, and status answers pause, where the time goes back: the real recorder, store and table, with
//! clocks that are set by hand. Usage: `going_back VOTES`
#![allow(clippy::disallowed_methods, reason = "time is what it measures")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vote_status::clock::{Clock, Readers};
use vote_status::readiness::Readiness;
use vote_status::recorder::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote};
use vote_status::recorder::{Accepts, Recorder, Tuning};
use vote_status::store::directory::DataDirectory;
use vote_status::store::embedded::{EmbeddedStore, Wanted};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::ipv6::Ipv6Prefix;
use vote_status::vote::settings::Settings;
use vote_status::vote::table::Pair;
use vote_status::vote::time::{Cooldown, UnixSeconds};

/// 2026-11-20T12:34:56Z.
const BEGIN_S: u32 = 1_795_178_096;
const SERVER: ServerId = ServerId(28);
const VOTES_PER_BATCH: usize = 10_000;
/// How far the clock was ahead before it comes back.
const AHEAD_US: i64 = 7_200_000_000;
const MIB: f64 = 1_048_576.0;

/// The start of the real time, and the time that is added to the wall clock.
struct Hands {
    began: Instant,
    added_us: AtomicI64,
}

impl Readers for Hands {
    fn wall_us(&self) -> i64 {
        i64::from(BEGIN_S) * 1_000_000 + self.boot_us() + self.added_us.load(Ordering::Relaxed)
    }

    fn boot_us(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

fn main() {
    let votes = match std::env::args().nth(1).map(|text| text.parse::<u32>()) {
        Some(Ok(votes)) => votes,
        _ => return println!("usage: going_back VOTES"), // as `cargo bench` and `cargo test` call it
    };
    let folder = tempfile::tempdir_in(".").expect("a folder beside this one");
    for ahead in [votes / 1_000, votes] {
        let data_dir = folder.path().join(ahead.to_string());
        measure(&data_dir, votes, ahead);
    }
}

/// Of `votes` votes, the `ahead` ones that were cast while the clock was ahead get the time to which it comes back.
fn measure(data_dir: &Path, votes: u32, ahead: u32) {
    let hands = Arc::new(Hands { began: Instant::now(), added_us: AtomicI64::new(0) });
    let cooldown = Cooldown::from_minutes(1_440).expect("a day");
    let settings = Settings { cooldown, ipv6_prefix: Ipv6Prefix::USUAL };
    let (path, clock) = (data_dir.to_owned(), Clock::of(hands.clone()));
    let open = Box::new(move || {
        let store = EmbeddedStore::open(DataDirectory::at(&path), Wanted::Any, Arc::default(), 1)?;
        Ok(Box::new(store) as _)
    });
    let (mut recorder, _handle) =
        Recorder::new(clock.clone(), settings, Accepts::default(), Readiness::default(), Tuning::default(), open);
    step(&mut recorder, Vec::new());
    let new = NewServer { server: SERVER, token: Some(Token::new("token").expect("a token")) };
    step(&mut recorder, vec![Command::Servers(vec![new], Tokens::Replace)]);
    fill(&mut recorder, 0..votes - ahead, UnixSeconds(BEGIN_S));
    hands.added_us.store(AHEAD_US, Ordering::Relaxed);
    step(&mut recorder, Vec::new());
    fill(&mut recorder, votes - ahead..votes, clock.now().wall);
    assert_eq!(recorder.live().table.view().len(), votes as usize);

    let before = peak_bytes();
    let (is_over, longest_us) = (AtomicBool::new(false), AtomicU64::new(0));
    let (view, reads) = (recorder.live().table.view(), AtomicU64::new(0));
    let waited = thread::scope(|scope| {
        scope.spawn(|| {
            let mut address = 0;
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                let pair = Pair { server: SERVER, address: VoterAddress::V4(Ipv4(address)) };
                assert!(view.live(pair, clock.now().wall).is_some(), "the cooldown of {address}");
                longest_us.fetch_max(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
                reads.fetch_add(1, Ordering::Relaxed);
                address = (address + 7_919) % votes;
            }
        });
        thread::sleep(Duration::from_millis(200));
        longest_us.store(0, Ordering::Relaxed);
        hands.added_us.store(0, Ordering::Relaxed);
        let began = Instant::now();
        step(&mut recorder, Vec::new());
        let waited = began.elapsed();
        is_over.store(true, Ordering::Relaxed);
        waited
    });
    assert!(clock.now().wall.0 < BEGIN_S + 3_600, "the time has gone back");
    println!(
        "{votes} votes, {ahead} of them from ahead: votes waited {:.2} s; the longest of {} reads took {:.1} ms; peak of memory {:.0} MiB, {:.0} MiB before",
        waited.as_secs_f64(),
        reads.load(Ordering::Relaxed),
        longest_us.load(Ordering::Relaxed) as f64 / 1_000.0,
        peak_bytes() as f64 / MIB,
        before as f64 / MIB,
    );
    recorder.close();
}

fn fill(recorder: &mut Recorder, addresses: std::ops::Range<u32>, voted_at: UnixSeconds) {
    let all: Vec<u32> = addresses.collect();
    for batch in all.chunks(VOTES_PER_BATCH) {
        let vote = |address: &u32| Vote {
            server: ServerName::Id(SERVER),
            voter: VoterAddress::V4(Ipv4(*address)).into(),
            voted_at: Some(voted_at),
        };
        step(recorder, vec![Command::Votes(batch.iter().map(vote).collect(), Mode::Record)]);
    }
}

fn step(recorder: &mut Recorder, commands: Vec<Command>) {
    let respond = |_: Reply| {};
    let asked = commands.into_iter().map(|command| (command, Box::new(respond) as _)).collect();
    recorder.step(asked).expect("the store is well");
}

/// The peak memory of this process, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a running process has it");
    1_024 * line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kB")
}
