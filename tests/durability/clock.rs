//! The wall clock steps while the service runs. In process: the recorder's clock is set ahead or
//! behind before it starts, so that its first look at the system's is the step. The rule: after a
//! step back no cooldown is shown longer than its length from then on, none is revived and none
//! lost; after a step forward what has ended has ended, and votes are taken.

use crate::durability::device::Device;
use crate::durability::history::{Kept, address as voter, server, vote};
use crate::util::time::now_unix;
use crate::util::{DEADLINE, wait_until};
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;
use vote_status::clock::Clock;
use vote_status::readiness::Readiness;
use vote_status::recorder::command::{Command, Mode, Reply, ServerName, Vote, VoteOutcome};
use vote_status::recorder::{Accepts, Recorder, RecorderHandle};
use vote_status::store::Store;
use vote_status::vote::id::ServerId;
use vote_status::vote::ipv6::Ipv6Prefix;
use vote_status::vote::settings::Settings;
use vote_status::vote::table::{CooldownView, Pair};
use vote_status::vote::time::{Cooldown, UnixSeconds};

const COOLDOWN_S: u32 = 5_400;
const HOUR_S: i64 = 3_600;
/// A vote may come from a clock that is so far ahead, in seconds: no step, and not cut as one.
const AHEAD_MAX_S: u32 = 5;

fn now() -> u32 {
    u32::try_from(now_unix()).expect("before 2106")
}

fn cast(address: u32, voted_at: Option<u32>) -> Command {
    let server = ServerName::Id(ServerId(1));
    let vote = Vote { server, voter: voter(address).into(), voted_at: voted_at.map(UnixSeconds) };
    Command::Votes(vec![vote], Mode::Cast)
}

/// A recorder at work on a device's store.
struct Running {
    handle: RecorderHandle,
    clock: Clock,
    cooldowns: CooldownView,
    thread: JoinHandle<()>,
}

impl Running {
    /// Starts `ahead_s` ahead of the system's clock (behind, where negative), does `seed` at that
    /// time, and then steps to the system's clock. Takes that as it is, where it is behind the store.
    fn start(device: &Device, ahead_s: i64, seed: Vec<Command>) -> Running {
        let store = device.store(None).expect("the device holds a store");
        let clock = Clock::new();
        clock.adjust(ahead_s * 1_000);
        let cooldown = Cooldown::from_minutes(COOLDOWN_S / 60).expect("in range");
        let mut store = Some(store);
        let open = Box::new(move || Ok(Box::new(store.take().expect("opened once")) as Box<dyn Store>));
        let settings = Settings { cooldown, ipv6_prefix: Ipv6Prefix::USUAL };
        let accepts = Accepts { clock: true, settings: false };
        let (mut recorder, handle) = Recorder::new(clock.clone(), settings, accepts, Readiness::default(), open);
        let cooldowns = recorder.live().cooldowns();
        recorder.load(seed).expect("the store is whole");
        let running = Running { handle, clock, cooldowns, thread: spawn(move || recorder.run()) };
        wait_until("the clock follows", || running.clock.drift_ms().abs() < 500);
        running
    }

    fn ask(&self, command: Command) -> Reply {
        let (sender, reply) = channel();
        let respond = Box::new(move |reply| sender.send(reply).expect("the test waits"));
        self.handle.submit(command, respond).expect("the recorder has time");
        reply.recv_timeout(DEADLINE).expect("the recorder answers")
    }

    /// When the cooldown of an address ends, as a caller would see it now.
    fn ends(&self, address: u32) -> Option<u32> {
        let pair = Pair { server: ServerId(1), address: voter(address) };
        self.cooldowns.live(pair, self.clock.now().wall).map(|ends| ends.0)
    }

    fn stop(self) {
        drop(self.handle);
        self.thread.join().expect("the recorder ends in order");
    }
}

/// A device with server 1 and these votes, as (address, instant).
fn device_with(votes: &[(u32, u32)]) -> Device {
    let device = Device::formatted();
    let mut store = device.store(None).expect("a new store opens");
    let mut events = vec![server(1, "one")];
    events.extend(votes.iter().map(|(address, voted_at)| vote(*voted_at, 1, *address)));
    store.commit(&events).expect("the device is well");
    device
}

fn recorded(reply: &Reply) -> bool {
    matches!(reply, Reply::Votes(outcomes) if matches!(outcomes[..], [VoteOutcome::Recorded(_)]))
}

#[test]
fn a_step_back_lengthens_and_loses_nothing() {
    let start = now();
    let device = device_with(&[(1, start - 600)]);
    let running = Running::start(&device, HOUR_S, vec![cast(2, None), cast(3, Some(start + 1_800))]);
    // The first ends when it always did; the others, cast in what is the future now, last a
    // length from the step.
    assert_eq!(running.ends(1), Some(start - 600 + COOLDOWN_S));
    let cut = running.ends(2).expect("it is not lost");
    let lengths = start + COOLDOWN_S..=now() + COOLDOWN_S + AHEAD_MAX_S;
    assert!(lengths.contains(&cut), "{cut} is not a length from the step: {lengths:?}");
    assert_eq!(running.ends(3), Some(cut));
    for address in 1..=3 {
        let reply = running.ask(cast(address, None));
        assert!(matches!(&reply, Reply::Votes(outcomes) if matches!(outcomes[..], [VoteOutcome::InCooldown(..)])));
    }
    assert!(recorded(&running.ask(cast(4, None))), "votes are taken after the step");
    let ends = [1, 2, 3, 4].map(|address| running.ends(address));
    running.stop();
    let running = Running::start(&device, 0, Vec::new());
    assert_eq!([1, 2, 3, 4].map(|address| running.ends(address)), ends, "after a restart");
    running.stop();
}

#[test]
fn what_a_step_back_cut_can_be_cancelled_for_good() {
    let device = device_with(&[]);
    let running = Running::start(&device, HOUR_S, vec![cast(2, None)]);
    assert_eq!(running.ask(Command::Cancel(ServerId(1), voter(2))), Reply::Cancelled(Some(true)));
    assert_eq!(running.ends(2), None);
    running.stop();
    let running = Running::start(&device, 0, Vec::new());
    assert_eq!(running.ends(2), None, "after a restart");
    running.stop();
}

/// The clock went back while nobody ran: the step is met at the start.
#[test]
fn what_a_start_cut_can_be_cancelled_for_good() {
    let device = device_with(&[(2, now() + 3_600)]);
    let running = Running::start(&device, 0, Vec::new());
    let ends = running.ends(2).expect("it is not lost");
    assert!(ends <= now() + COOLDOWN_S + AHEAD_MAX_S, "{ends}");
    assert_eq!(running.ask(Command::Cancel(ServerId(1), voter(2))), Reply::Cancelled(Some(true)));
    running.stop();
    let running = Running::start(&device, 0, Vec::new());
    assert_eq!(running.ends(2), None, "cancelled, after a restart");
    running.stop();
}

#[test]
fn what_a_start_cut_goes_with_its_server_for_good() {
    let device = device_with(&[(2, now() + 3_600)]);
    let running = Running::start(&device, 0, Vec::new());
    assert_eq!(running.ask(Command::Remove(ServerId(1))), Reply::Removed(true));
    running.stop();
    let mut store = device.store(None).expect("the device holds a store");
    let kept = Kept::of(&mut store).expect("it can be read");
    assert_eq!(kept, Kept::default(), "a removed server leaves nothing behind");
}

/// What a start cut shows the same end in every answer, also after the next start.
#[test]
fn what_a_start_cut_ends_when_it_was_said_to() {
    let device = device_with(&[(2, now() + 3_600)]);
    let running = Running::start(&device, 0, Vec::new());
    let ends = running.ends(2).expect("it is not lost");
    running.stop();
    let until = now() + 2;
    while now() < until {
        sleep(Duration::from_millis(20));
    }
    let running = Running::start(&device, 0, Vec::new());
    assert_eq!(running.ends(2), Some(ends), "after a restart");
    running.stop();
}

#[test]
fn a_step_back_revives_nothing() {
    let start = now();
    // Ended half an hour ago by the clock that was ahead, and not by the one after the step.
    let device = device_with(&[(1, start + 1_800 - COOLDOWN_S)]);
    let running = Running::start(&device, HOUR_S, Vec::new());
    assert_eq!(running.ends(1), None);
    assert!(recorded(&running.ask(cast(1, None))), "it may vote, as it was told before the step");
    running.stop();
}

/// A few seconds that a sender's clock is ahead are no step: a small correction of the service's
/// clock does not change what its voter was told.
#[test]
fn a_small_step_back_leaves_votes_from_a_clock_ahead_alone() {
    let device = device_with(&[]);
    let ahead = now() + 4;
    let running = Running::start(&device, 1, vec![cast(1, Some(ahead))]);
    assert_eq!(running.ends(1), Some(ahead + COOLDOWN_S));
    running.stop();
}

#[test]
fn a_small_step_forward_ends_nothing_early() {
    let start = now();
    let device = device_with(&[(1, start - 1_000)]);
    let running = Running::start(&device, -600, vec![cast(2, None)]);
    assert_eq!(running.ends(1), Some(start - 1_000 + COOLDOWN_S));
    let ends = running.ends(2).expect("ten minutes of it are over, no more");
    assert!((start - 600 + COOLDOWN_S..=now() - 600 + COOLDOWN_S).contains(&ends), "{ends}");
    running.stop();
}

#[test]
fn a_step_forward_ends_cooldowns_and_takes_votes() {
    let device = device_with(&[]);
    let behind_s = i64::from(COOLDOWN_S) + 60;
    let running = Running::start(&device, -behind_s, vec![cast(1, None), cast(2, None)]);
    assert_eq!((running.ends(1), running.ends(2)), (None, None));
    assert!(recorded(&running.ask(cast(1, None))), "votes are taken after the step");
    // The sender's clock stepped as well, or a little more.
    assert!(recorded(&running.ask(cast(2, Some(now() + 4)))), "nothing right is refused");
    running.stop();
    let running = Running::start(&device, 0, Vec::new());
    assert!([1, 2].iter().all(|address| running.ends(*address).is_some()), "after a restart");
    running.stop();
}

/// The clock was ahead for a while, long enough for expired votes to be dropped, and is right
/// again: what is recorded from then on is kept as ever.
#[test]
fn votes_after_a_clock_that_was_ahead_are_kept() {
    let start = now();
    let device = device_with(&[(1, start)]);
    let mut store = device.store(None).expect("the device holds a store");
    // A clock 3 hours ahead drops what ended by it.
    let dropped = store.drop_cast(UnixSeconds(start + 3 * 3_600 - COOLDOWN_S), 8_192);
    assert_eq!(dropped.expect("the device is well"), 1);
    drop(store);
    let running = Running::start(&device, 0, Vec::new());
    assert!(recorded(&running.ask(cast(2, None))));
    let ends = running.ends(2);
    assert!(ends.is_some());
    running.stop();
    let running = Running::start(&device, 0, Vec::new());
    assert_eq!(running.ends(2), ends, "after a restart");
    assert_eq!(running.ends(1), None, "what had ended is not revived");
    running.stop();
}
