//! The recorder, step by step, on a store in memory and clocks that the test sets.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use parking_lot::Mutex;

use super::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote, VoteOutcome};
use super::{Accepts, OpenStore, Recorder, RecorderHandle, Respond, Tuning};
use crate::clock::{Clock, HandReaders};
use crate::readiness::{Readiness, Trouble};
use crate::store::{CommitNote, Event, Store, StoreContent, StoreError, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::settings::Settings;
use crate::vote::table::Pair;
use crate::vote::time::{Cooldown, UnixSeconds};

pub(super) const START: u32 = 1_795_000_000;
pub(super) const SERVER: ServerId = ServerId(28);

/// The content of a store, kept over restarts of the recorder.
#[derive(Clone, Default)]
pub(super) struct Disk(pub(super) Arc<Mutex<DiskState>>);

#[derive(Default)]
pub(super) struct DiskState {
    pub(super) votes: Vec<StoredVote>,
    pub(super) servers: Vec<(ServerId, Token)>,
    pub(super) note: Option<CommitNote>,
    /// How often the store was written anew.
    pub(super) renewals: u32,
    /// Votes that were to be sorted at once, at the last of these.
    pub(super) slice_rows: usize,
    pub(super) is_failing: bool,
    /// The number of next commits that fail.
    pub(super) commits_failing: u32,
    /// The most rows that there is room to drop at once.
    pub(super) droppable: Option<usize>,
    /// The most rows that each call was to drop, where there were any.
    pub(super) drops: Vec<usize>,
    /// Whether a sync has failed.
    pub(super) is_void: bool,
    /// Whether the store's file is no longer at its path, until it is opened again.
    pub(super) is_gone: bool,
    /// Whether another process has the store open.
    pub(super) is_in_use: bool,
    /// How often the store was looked after.
    pub(super) tends: u32,
}

impl DiskState {
    fn write(&mut self) -> Result<(), StoreError> {
        if self.is_failing || self.commits_failing > 0 {
            self.commits_failing = self.commits_failing.saturating_sub(1);
            return Err(StoreError::Unavailable("it fails".into()));
        }
        Ok(())
    }
}

struct DiskStore(Disk);

impl Store for DiskStore {
    fn commit(&mut self, events: &[Event], note: &CommitNote) -> Result<(), StoreError> {
        let mut disk = self.0.0.lock();
        disk.write()?;
        for event in events {
            match event {
                Event::Vote(vote) => disk.votes.push(*vote),
                Event::VoteRemoved(vote) => disk.votes.retain(|other| other != vote),
                Event::Server(server, token) => {
                    disk.servers.retain(|(other, _)| other != server);
                    disk.servers.push((*server, token.clone()));
                    disk.servers.sort_unstable_by_key(|(server, _)| *server);
                }
                Event::ServerRemoved(server) => disk.servers.retain(|(other, _)| other != server),
            }
        }
        disk.note = Some(*note);
        Ok(())
    }

    fn replay(&mut self, first: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        let disk = self.0.0.lock();
        disk.servers.iter().for_each(|(server, token)| visit(Event::Server(*server, token.clone())));
        disk.votes.iter().filter(|vote| vote.voted_at >= first).for_each(|vote| visit(Event::Vote(*vote)));
        Ok(())
    }

    fn note(&mut self) -> Result<Option<CommitNote>, StoreError> {
        Ok(self.0.0.lock().note)
    }

    fn has_vote(&mut self, first: UnixSeconds) -> Result<bool, StoreError> {
        let disk = self.0.0.lock();
        let is_listed = |vote: &StoredVote| disk.servers.iter().any(|(server, _)| *server == vote.pair.server);
        Ok(disk.votes.iter().any(|vote| vote.voted_at >= first && is_listed(vote)))
    }

    fn drop_before(&mut self, first: UnixSeconds, max: usize, note: &CommitNote) -> Result<usize, StoreError> {
        let mut disk = self.0.0.lock();
        if disk.is_void {
            return Ok(0);
        }
        let before = disk.votes.len();
        if disk.votes.iter().any(|vote| vote.voted_at < first) {
            disk.drops.push(max);
            if disk.droppable.is_some_and(|droppable| max > droppable) {
                return Err(StoreError::Full("no room".into()));
            }
            disk.write()?;
            disk.votes.retain(|vote| vote.voted_at >= first);
            disk.note = Some(*note);
        }
        Ok(before - disk.votes.len())
    }

    fn is_void(&self) -> bool {
        self.0.0.lock().is_void
    }

    fn renew(&mut self, content: &StoreContent<'_>, note: &CommitNote) -> Result<(), StoreError> {
        let mut disk = self.0.0.lock();
        disk.write()?;
        disk.votes.clear();
        (content.votes)(&mut |vote| disk.votes.push(vote));
        disk.servers = content.servers.iter_after(None).map(|(server, token)| (server, token.clone())).collect();
        (disk.note, disk.is_void) = (Some(*note), false);
        disk.renewals += 1;
        disk.slice_rows = content.slice_rows;
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        0
    }

    fn tend(&mut self) -> Result<(), StoreError> {
        let mut disk = self.0.0.lock();
        disk.tends += 1;
        if disk.is_gone { Err(StoreError::Gone("it is gone".into())) } else { Ok(()) }
    }
}

/// A recorder that a test drives.
pub(super) struct Bench {
    pub(super) disk: Disk,
    pub(super) readers: Arc<HandReaders>,
    pub(super) clock: Clock,
    pub(super) readiness: Readiness,
    pub(super) recorder: Recorder,
    pub(super) handle: RecorderHandle,
}

impl Bench {
    pub(super) fn new(disk: &Disk, readers: &Arc<HandReaders>) -> Self {
        Self::with(disk, readers, settings(90, 64))
    }

    /// A recorder at work, on a disk that was empty, with its server.
    pub(super) fn listed(readers: &Arc<HandReaders>) -> Self {
        let mut bench = Self::new(&Disk::default(), readers);
        bench.step();
        bench.list();
        bench
    }

    /// A start with these settings.
    pub(super) fn with(disk: &Disk, readers: &Arc<HandReaders>, settings: Settings) -> Self {
        let clock = Clock::of(readers.clone());
        let (readiness, its) = (Readiness::default(), disk.clone());
        let open: OpenStore = Box::new(move || {
            let mut disk = its.0.lock();
            disk.is_gone = false;
            if disk.is_in_use {
                return Err(StoreError::InUse("another process has it".into()));
            }
            if disk.is_failing {
                return Err(StoreError::Unavailable("it fails".into()));
            }
            Ok(Box::new(DiskStore(its.clone())))
        });
        let (accepts, tuning) = (Accepts::default(), Tuning { commit_events_max: 100, ..Tuning::default() });
        let (recorder, handle) = Recorder::new(clock.clone(), settings, accepts, readiness.clone(), tuning, open);
        let (disk, readers) = (disk.clone(), Arc::clone(readers));
        Self { disk, readers, clock, readiness, recorder, handle }
    }

    /// Makes one step; gives the milliseconds until the next one is due.
    pub(super) fn step(&mut self) -> u64 {
        let call_at_ms = self.recorder.step(Vec::new()).expect("it goes on");
        call_at_ms.saturating_sub(self.clock.now().monotonic_ms)
    }

    pub(super) fn ask(&mut self, command: Command) -> Reply {
        self.together(vec![command]).pop().expect("it is answered within the step")
    }

    /// Carries these commands out in one step.
    pub(super) fn together(&mut self, commands: Vec<Command>) -> Vec<Reply> {
        let (sender, replies) = channel();
        let asked = commands.into_iter().map(|command| {
            let sender = sender.clone();
            (command, to(sender))
        });
        let asked: Vec<_> = asked.collect();
        let count = asked.len();
        self.recorder.step(asked).expect("it goes on");
        let mut told: Vec<Reply> = replies.try_iter().collect();
        // A server that is listed again takes more than one step if many of its votes are left.
        for _ in 0..100 {
            if told.len() == count {
                break;
            }
            self.step();
            told.extend(replies.try_iter());
        }
        told
    }

    pub(super) fn list(&mut self) -> Reply {
        self.ask(listing())
    }

    pub(super) fn cast(&mut self, address: u32) -> VoteOutcome {
        self.cast_from(voter(address))
    }

    pub(super) fn cast_from(&mut self, address: VoterAddress) -> VoteOutcome {
        match self.ask_to_cast(address) {
            Reply::Votes(mut outcomes) => outcomes.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn ask_to_cast(&mut self, address: VoterAddress) -> Reply {
        let vote = Vote { server: ServerName::Id(SERVER), voter: address.into(), voted_at: None };
        self.ask(Command::Votes(vec![vote], Mode::Cast))
    }

    /// When the cooldown of an address ends, as a reader sees it, counted from [`START`].
    pub(super) fn ends(&self, address: u32) -> Option<i64> {
        self.ends_of(voter(address))
    }

    pub(super) fn ends_of(&self, address: VoterAddress) -> Option<i64> {
        let pair = Pair { server: SERVER, address };
        let ends = self.recorder.live().table.view().live(pair, self.clock.now().wall);
        ends.map(|ends| i64::from(ends.0) - i64::from(START))
    }
}

/// Sends the reply there.
pub(super) fn to(sender: Sender<Reply>) -> Respond {
    Box::new(move |reply| sender.send(reply).expect("it is waited for"))
}

/// Lists the server.
pub(super) fn listing() -> Command {
    Command::Servers(vec![NewServer { server: SERVER, token: Token::new("demo") }], Tokens::Keep)
}

pub(super) fn settings(minutes: u32, bits: u8) -> Settings {
    let cooldown = Cooldown::from_minutes(minutes).expect("in range");
    Settings { cooldown, ipv6_prefix: Ipv6Prefix::from_bits(bits).expect("in range") }
}

pub(super) fn voter(address: u32) -> VoterAddress {
    VoterAddress::V4(Ipv4(address))
}

/// A recorder at work, with one vote a minute for ten minutes, the last of them now.
pub(super) fn at_work(readers: &Arc<HandReaders>) -> Bench {
    let mut bench = Bench::listed(readers);
    for address in 0..10 {
        bench.pass(if address == 0 { 0 } else { 60_000 });
        assert!(matches!(bench.cast(address), VoteOutcome::Recorded(_)));
    }
    bench
}

impl Bench {
    /// Time passes, in steps of a tick where it is short.
    pub(super) fn pass(&mut self, ms: i64) {
        self.readers.pass_ms(ms);
        self.step();
    }

    /// The clock is set, and the recorder sees it.
    pub(super) fn set(&mut self, ms: i64) {
        self.readers.step_ms(ms);
        self.step();
    }

    pub(super) fn all_ends(&self) -> Vec<Option<i64>> {
        (0..10).map(|address| self.ends(address)).collect()
    }

    /// The instants of the rows, counted from [`START`].
    pub(super) fn rows(&self) -> Vec<i64> {
        let mut rows: Vec<_> =
            self.disk.0.lock().votes.iter().map(|vote| i64::from(vote.voted_at.0) - i64::from(START)).collect();
        rows.sort_unstable();
        rows
    }

    /// The most rows that each call was to drop since the last of these.
    fn drops(&self) -> Vec<usize> {
        std::mem::take(&mut self.disk.0.lock().drops)
    }

    /// A restart as after a kill: with the content of the store, on the same clocks.
    pub(super) fn killed(&self) -> Bench {
        let mut bench = Bench::new(&self.disk, &self.readers);
        bench.step();
        bench
    }

    /// Longer than the sweep needs for the whole table.
    pub(super) fn sweep(&mut self) {
        (0..200).for_each(|_| self.pass(50));
    }
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

/// No service makes such a store. If it were served, no token would find one of the two servers.
#[test]
fn a_store_in_which_two_servers_have_one_token_is_refused() {
    let (disk, readers) = (Disk::default(), HandReaders::at(START));
    let token = Token::new("demo").expect("a token");
    disk.0.lock().servers = vec![(SERVER, token.clone()), (ServerId(29), token)];
    let mut bench = Bench::new(&disk, &readers);
    bench.step();
    assert_eq!(bench.readiness.gravest().map(|(trouble, _)| trouble), Some(Trouble::StoreUnusable));
}

#[test]
fn a_step_answers_and_says_when_it_is_to_be_called_again() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::listed(&readers);
    assert_eq!(bench.step(), 50);
    assert!(matches!(bench.cast(1), VoteOutcome::Recorded(_)));
    assert!(matches!(bench.cast(1), VoteOutcome::InCooldown(..)));
    assert_eq!(bench.ends(1), Some(5_400));
    bench.readers.pass_ms(20);
    assert_eq!(bench.step(), 30, "the tick is not due");
    let mut again = Bench::new(&bench.disk, &readers);
    again.step();
    assert_eq!(again.ends(1), Some(5_400), "after a restart");
}

/// Regression: a drop that had failed stopped the time's notes until the next vote had expired.
#[test]
fn the_time_is_noted_again_once_the_disk_works() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::new(&Disk::default(), &readers);
    bench.step();
    bench.disk.0.lock().is_failing = true;
    (0..65).for_each(|_| bench.pass(1_000));
    bench.disk.0.lock().is_failing = false;
    (0..200).for_each(|_| bench.pass(1_000));
    let shown_ms = bench.disk.0.lock().note.expect("it was written").time.shown_ms;
    let age_ms = u64::from(START + 265) * 1_000 - shown_ms;
    assert!(age_ms <= 61_000, "the time was noted {age_ms} ms ago");
}

#[test]
fn a_row_is_dropped_in_the_second_in_which_its_cooldown_is_over() {
    let mut bench = at_work(&HandReaders::at(START));
    bench.pass((5_399 - 540) * 1_000);
    let dropped = |bench: &Bench| bench.recorder.live().counters.dropped.get();
    assert_eq!((bench.rows()[0], dropped(&bench)), (0, 0));
    bench.pass(1_000);
    assert_eq!((bench.rows()[0], dropped(&bench)), (60, 1));
}

/// Regression: the gauge said for ever that the store fails.
#[test]
fn a_drop_that_failed_fails_no_more_once_the_disk_works() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.disk.0.lock().is_failing = true;
    bench.pass(5_400_000);
    assert!(bench.readiness.has(Trouble::StoreFailing) && !bench.rows().is_empty());
    bench.disk.0.lock().is_failing = false;
    bench.pass(60_000);
    assert_eq!(bench.readiness.gravest(), None);
    bench.pass(1_000);
    assert!(bench.rows().is_empty());
}

/// Regression: each try that found no room was followed by a pause, although fewer rows had room, and votes were refused.
#[test]
fn fewer_rows_are_dropped_at_once_where_many_find_no_room() {
    let mut bench = at_work(&HandReaders::at(START));
    bench.disk.0.lock().droppable = Some(100);
    bench.readers.pass_ms(5_400_000);
    for _ in 0..4 {
        bench.step();
        assert!(!bench.rows().is_empty() && bench.readiness.gravest().is_none());
        bench.readers.pass_ms(50);
    }
    bench.step();
    assert!(bench.rows().is_empty() && bench.readiness.gravest().is_none());
    assert_eq!(bench.drops(), [8_192, 2_048, 512, 128, 64]);
    // With room, twice as many each time.
    assert!(matches!(bench.cast(100), VoteOutcome::Recorded(_)));
    bench.disk.0.lock().droppable = None;
    bench.pass(5_401_000);
    assert_eq!((bench.drops(), bench.rows()), (vec![128], vec![]));
    // If the fewest rows find no room, that is reported, and the next try follows after a pause.
    assert!(matches!(bench.cast(100), VoteOutcome::Recorded(_)));
    bench.disk.0.lock().droppable = Some(0);
    bench.pass(5_401_000);
    assert!(!bench.readiness.has(Trouble::StoreFailing));
    bench.pass(50);
    assert!(bench.readiness.has(Trouble::StoreFailing));
    for _ in 0..19 {
        bench.pass(50);
    }
    assert_eq!(bench.drops(), [256, 64]);
    bench.pass(50);
    assert_eq!(bench.drops(), [64]);
}

/// Regression: under steady votes, a failure continued the pauses of one from hours before, and the store was tried
/// again after half a minute.
#[test]
fn a_failure_after_a_time_that_was_well_is_the_first_one() {
    let mut bench = at_work(&HandReaders::at(START));
    for address in 100..110 {
        bench.disk.0.lock().commits_failing = 1;
        assert_eq!(bench.ask_to_cast(voter(address)), Reply::StoreUnavailable);
        bench.pass(99);
        assert_eq!(bench.ask_to_cast(voter(address)), Reply::StoreUnavailable, "the pause is 100 ms");
        bench.pass(1);
        assert!(matches!(bench.cast(address), VoteOutcome::Recorded(_)), "{address}");
        for round in 1..4 {
            bench.pass(4_000);
            assert!(matches!(bench.cast(1_000 * round + address), VoteOutcome::Recorded(_)));
        }
    }
}

/// Regression: the directory was published before the rows of the earlier votes had gone, and for some
/// 20 ms a server that was listed again answered `false` from them.
#[test]
fn a_server_that_is_listed_again_has_none_of_its_votes_from_its_first_answer_on() {
    const VOTES: u32 = 20_000;
    let readers = HandReaders::at(START);
    let mut bench = Bench::listed(&readers);
    let vote = |address| Vote { server: ServerName::Id(SERVER), voter: voter(address).into(), voted_at: None };
    bench.ask(Command::Votes((0..VOTES).map(vote).collect(), Mode::Cast));
    assert_eq!(bench.ask(Command::Remove(SERVER)), Reply::Removed(Some(SERVER)));
    let (live, now) = (bench.recorder.live(), bench.clock.now().wall);
    let (cooldowns, mut directory) = (live.table.view(), live.directory.view());
    let reader = thread::spawn(move || {
        while !directory.current().contains(SERVER) {}
        let is_live = |address: &u32| cooldowns.live(Pair { server: SERVER, address: voter(*address) }, now).is_some();
        (0..VOTES).filter(is_live).count()
    });
    bench.list();
    assert_eq!(reader.join().expect("it ends"), 0, "answers of `false` from votes that had gone");
}
