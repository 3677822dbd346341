//! The recorder, step by step, on a store in memory and clocks that the test sets.

use std::sync::Arc;
use std::sync::mpsc::channel;

use parking_lot::Mutex;

use super::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote, VoteOutcome};
use super::{OpenStore, Recorder, RecorderHandle};
use crate::clock::{Clock, HandReaders};
use crate::readiness::{Readiness, Trouble};
use crate::store::{Event, Past, Store, StoreError, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::lengths::Lengths;
use crate::vote::table::Pair;
use crate::vote::time::{Cooldown, UnixSeconds};

const START: u32 = 1_795_000_000;
const SERVER: ServerId = ServerId(28);

/// What a store holds; kept over restarts of the recorder.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<DiskState>>);

#[derive(Default)]
struct DiskState {
    votes: Vec<StoredVote>,
    servers: Vec<(ServerId, Token)>,
    known_ms: Option<u64>,
    is_failing: bool,
}

struct DiskStore {
    disk: Disk,
    known_ms: u64,
}

impl Store for DiskStore {
    fn commit(&mut self, events: &[Event]) -> Result<(), StoreError> {
        let mut disk = self.disk.0.lock();
        if disk.is_failing {
            return Err(StoreError::Unavailable("it fails".into()));
        }
        for event in events {
            match event {
                Event::Vote(vote) => disk.votes.push(*vote),
                Event::VoteGone(vote) => disk.votes.retain(|other| other != vote),
                Event::Server(server, token) => disk.servers.push((*server, token.clone())),
                Event::ServerGone(server) => disk.servers.retain(|(other, _)| other != server),
            }
        }
        disk.known_ms = Some(self.known_ms);
        Ok(())
    }

    fn replay(&mut self, since: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        let disk = self.disk.0.lock();
        disk.servers.iter().for_each(|(server, token)| visit(Event::Server(*server, token.clone())));
        disk.votes.iter().filter(|vote| vote.voted_at > since).for_each(|vote| visit(Event::Vote(*vote)));
        Ok(())
    }

    fn latest_gone(&mut self) -> Result<Option<UnixSeconds>, StoreError> {
        Ok(None)
    }

    fn past(&mut self) -> Result<Past, StoreError> {
        let disk = self.disk.0.lock();
        let instants = || disk.votes.iter().map(|vote| vote.voted_at);
        Ok(Past { known_ms: disk.known_ms, lengths: None, oldest: instants().min(), newest: instants().max() })
    }

    fn keep(&mut self, known_ms: u64, _lengths: &Lengths) {
        self.known_ms = known_ms;
    }

    fn drop_cast(&mut self, since: UnixSeconds, until: UnixSeconds, _max: usize) -> Result<usize, StoreError> {
        let mut disk = self.disk.0.lock();
        if disk.is_failing {
            return Err(StoreError::Unavailable("it fails".into()));
        }
        let before = disk.votes.len();
        disk.votes.retain(|vote| !(since..=until).contains(&vote.voted_at));
        Ok(before - disk.votes.len())
    }

    fn size_bytes(&self) -> u64 {
        0
    }
}

/// A recorder that a test drives.
struct Bench {
    disk: Disk,
    readers: Arc<HandReaders>,
    clock: Clock,
    readiness: Readiness,
    recorder: Recorder,
    _handle: RecorderHandle,
}

impl Bench {
    fn new(disk: &Disk, readers: &Arc<HandReaders>) -> Self {
        let clock = Clock::of(readers.clone());
        let (readiness, its) = (Readiness::default(), disk.clone());
        let open: OpenStore = Box::new(move || match its.0.lock().is_failing {
            true => Err(StoreError::Unavailable("it fails".into())),
            false => Ok(Box::new(DiskStore { disk: its.clone(), known_ms: 0 })),
        });
        let (recorder, handle) = Recorder::new(clock.clone(), Cooldown::USUAL, readiness.clone(), open);
        let (disk, readers) = (disk.clone(), Arc::clone(readers));
        Self { disk, readers, clock, readiness, recorder, _handle: handle }
    }

    /// One step; for how long it wants to be left alone, in milliseconds.
    fn step(&mut self) -> u64 {
        let call_at_ms = self.recorder.step(Vec::new()).expect("it goes on");
        call_at_ms.saturating_sub(self.clock.now().monotonic_ms)
    }

    fn ask(&mut self, command: Command) -> Reply {
        let (sender, replies) = channel();
        let respond = Box::new(move |reply| sender.send(reply).expect("it is waited for"));
        self.recorder.step(vec![(command, respond)]).expect("it goes on");
        replies.try_recv().expect("it is answered within the step")
    }

    fn list(&mut self) {
        let server = NewServer { server: SERVER, token: Token::new("demo") };
        self.ask(Command::Servers(vec![server], Tokens::Keep));
    }

    fn cast(&mut self, address: u32) -> VoteOutcome {
        let vote = Vote { server: ServerName::Id(SERVER), voter: voter(address).into(), voted_at: None };
        match self.ask(Command::Votes(vec![vote], Mode::Cast)) {
            Reply::Votes(mut outcomes) => outcomes.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// When the cooldown of an address ends, as a reader sees it, counted from [`START`].
    fn ends(&self, address: u32) -> Option<i64> {
        let pair = Pair { server: SERVER, address: voter(address) };
        let ends = self.recorder.live().cooldowns().live(pair, self.clock.now().wall);
        ends.map(|ends| i64::from(ends.0) - i64::from(START))
    }
}

fn voter(address: u32) -> VoterAddress {
    VoterAddress::V4(Ipv4(address))
}

#[test]
fn a_store_that_cannot_be_opened_is_tried_again_with_growing_pauses() {
    let (disk, readers) = (Disk::default(), HandReaders::at(START));
    disk.0.lock().is_failing = true;
    let mut bench = Bench::new(&disk, &readers);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let pause_ms = bench.step();
        assert_eq!(bench.readiness.gravest().map(|(trouble, _)| trouble), Some(Trouble::StoreUnavailable));
        assert_eq!(bench.ask(Command::Remove(SERVER)), Reply::StoreUnavailable);
        pauses.push(pause_ms);
        readers.pass_ms(i64::try_from(pause_ms).expect("a pause"));
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    disk.0.lock().is_failing = false;
    bench.step();
    assert!(bench.readiness.is_ready() && bench.readiness.gravest().is_none());
}

#[test]
fn a_clock_that_is_behind_is_waited_for_and_nothing_is_written() {
    let (disk, readers) = (Disk::default(), HandReaders::at(START));
    let known_ms = u64::from(START + 10) * 1_000;
    disk.0.lock().known_ms = Some(known_ms);
    let mut bench = Bench::new(&disk, &readers);
    for passed_s in 0..9 {
        assert_eq!(bench.step(), 100, "{passed_s}");
        assert!(bench.readiness.has(Trouble::ClockBehind) && !bench.readiness.is_ready(), "{passed_s}");
        assert_eq!(disk.0.lock().known_ms, Some(known_ms));
        readers.pass_ms(1_000);
    }
    bench.step();
    assert!(bench.readiness.is_ready() && bench.readiness.gravest().is_none());
}

#[test]
fn a_step_answers_and_says_when_it_is_to_be_called_again() {
    let (disk, readers) = (Disk::default(), HandReaders::at(START));
    let mut bench = Bench::new(&disk, &readers);
    assert_eq!(bench.step(), 50);
    bench.list();
    assert!(matches!(bench.cast(1), VoteOutcome::Recorded(_)));
    assert!(matches!(bench.cast(1), VoteOutcome::InCooldown(..)));
    assert_eq!(bench.ends(1), Some(5_400));
    bench.readers.pass_ms(20);
    assert_eq!(bench.step(), 30, "the tick is not due");
    let mut again = Bench::new(&bench.disk, &readers);
    again.step();
    assert_eq!(again.ends(1), Some(5_400), "after a restart");
}
