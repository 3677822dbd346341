//! The recorder, step by step, on a store in memory and clocks that the test sets.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use parking_lot::Mutex;

use super::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote, VoteOutcome};
use super::{Accepts, OpenStore, Recorder, RecorderHandle, Respond};
use crate::clock::{Clock, HandReaders};
use crate::readiness::{Readiness, Trouble};
use crate::store::{Event, Kept, Past, Store, StoreError, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::{Ipv6Network, Ipv6Prefix};
use crate::vote::settings::Settings;
use crate::vote::table::Pair;
use crate::vote::time::{Cooldown, UnixSeconds};

pub(super) const START: u32 = 1_795_000_000;
pub(super) const SERVER: ServerId = ServerId(28);

/// What a store holds; kept over restarts of the recorder.
#[derive(Clone, Default)]
pub(super) struct Disk(pub(super) Arc<Mutex<DiskState>>);

#[derive(Default)]
pub(super) struct DiskState {
    pub(super) votes: Vec<StoredVote>,
    spent: Vec<StoredVote>,
    pub(super) servers: Vec<(ServerId, Token)>,
    pub(super) kept: Option<Kept>,
    pub(super) is_failing: bool,
    /// So many of the next commits fail.
    pub(super) commits_failing: u32,
    /// A sync has failed.
    pub(super) is_void: bool,
}

struct DiskStore(Disk);

impl Store for DiskStore {
    fn commit(&mut self, events: &[Event], kept: &Kept) -> Result<(), StoreError> {
        let mut disk = self.0.0.lock();
        if disk.is_failing || disk.commits_failing > 0 {
            disk.commits_failing = disk.commits_failing.saturating_sub(1);
            return Err(StoreError::Unavailable("it fails".into()));
        }
        for event in events {
            match event {
                Event::Vote(vote) => disk.votes.push(*vote),
                Event::VoteRemoved(vote) => disk.votes.retain(|other| other != vote),
                Event::Spent(vote) => disk.spent.push(*vote),
                Event::Server(server, token) => disk.servers.push((*server, token.clone())),
                Event::ServerRemoved(server) => disk.servers.retain(|(other, _)| other != server),
            }
        }
        disk.kept = Some(kept.clone());
        Ok(())
    }

    fn replay(&mut self, since: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        let disk = self.0.0.lock();
        disk.servers.iter().for_each(|(server, token)| visit(Event::Server(*server, token.clone())));
        disk.votes.iter().filter(|vote| vote.voted_at > since).for_each(|vote| visit(Event::Vote(*vote)));
        disk.spent.iter().for_each(|vote| visit(Event::Spent(*vote)));
        Ok(())
    }

    fn past(&mut self) -> Result<Past, StoreError> {
        let disk = self.0.0.lock();
        let instants = || disk.votes.iter().map(|vote| vote.voted_at);
        Ok(Past { kept: disk.kept.clone(), newest: instants().max() })
    }

    fn drop_cast(&mut self, until: UnixSeconds, _max: usize, kept: &Kept) -> Result<usize, StoreError> {
        let mut disk = self.0.0.lock();
        if disk.is_failing {
            return Err(StoreError::Unavailable("it fails".into()));
        }
        let before = disk.votes.len();
        disk.votes.retain(|vote| vote.voted_at > until);
        if disk.votes.len() < before {
            disk.kept = Some(kept.clone());
        }
        Ok(before - disk.votes.len())
    }

    fn is_void(&self) -> bool {
        self.0.0.lock().is_void
    }

    fn renew(&mut self, rows: &mut dyn Iterator<Item = Event>, kept: &Kept) -> Result<(), StoreError> {
        let mut disk = self.0.0.lock();
        (disk.votes, disk.spent, disk.is_void) = Default::default();
        for row in rows {
            match row {
                Event::Vote(vote) => disk.votes.push(vote),
                Event::Spent(vote) => disk.spent.push(vote),
                _ => {}
            }
        }
        disk.kept = Some(kept.clone());
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        0
    }
}

/// A recorder that a test drives.
pub(super) struct Bench {
    pub(super) disk: Disk,
    pub(super) readers: Arc<HandReaders>,
    pub(super) clock: Clock,
    pub(super) readiness: Readiness,
    pub(super) recorder: Recorder,
    _handle: RecorderHandle,
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
        let open: OpenStore = Box::new(move || match its.0.lock().is_failing {
            true => Err(StoreError::Unavailable("it fails".into())),
            false => Ok(Box::new(DiskStore(its.clone()))),
        });
        let (recorder, handle) = Recorder::new(clock.clone(), settings, Accepts::default(), readiness.clone(), open);
        let (disk, readers) = (disk.clone(), Arc::clone(readers));
        Self { disk, readers, clock, readiness, recorder, _handle: handle }
    }

    /// One step; for how long it wants to be left alone, in milliseconds.
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
            (command, Box::new(move |reply| sender.send(reply).expect("it is waited for")) as Respond)
        });
        self.recorder.step(asked.collect()).expect("it goes on");
        replies.try_iter().collect()
    }

    pub(super) fn list(&mut self) -> Reply {
        let server = NewServer { server: SERVER, token: Token::new("demo") };
        self.ask(Command::Servers(vec![server], Tokens::Keep))
    }

    pub(super) fn cast(&mut self, address: u32) -> VoteOutcome {
        self.cast_from(voter(address))
    }

    pub(super) fn cast_from(&mut self, address: VoterAddress) -> VoteOutcome {
        let vote = Vote { server: ServerName::Id(SERVER), voter: address.into(), voted_at: None };
        match self.ask(Command::Votes(vec![vote], Mode::Cast)) {
            Reply::Votes(mut outcomes) => outcomes.remove(0),
            other => panic!("{other:?}"),
        }
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

    /// As after a kill: what is in the store, on the same clocks.
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

/// No service makes such a store. Served, one of the two servers would be found by no token.
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

/// A disk with votes for a cooldown of 90 minutes, one a quarter of an hour old, and one that has just ended.
fn voted(readers: &Arc<HandReaders>) -> Disk {
    readers.step_ms(-5_500_000);
    let mut bench = Bench::listed(readers);
    bench.cast(1);
    readers.pass_ms(4_600_000);
    bench.cast(2);
    readers.pass_ms(900_000);
    bench.cast(3);
    assert_eq!([1, 2, 3].map(|address| bench.ends(address)), [None, Some(4_500), Some(5_400)]);
    // As after a kill: the row that has ended may be there still.
    bench.disk
}

#[test]
fn settings_that_are_accepted_change_every_cooldown_for_good() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    // A longer length: each cooldown lasts that much longer, and what had ended stays ended.
    for (minutes, ends) in
        [(120, [None, Some(6_300), Some(7_200)]), (10, [None, None, Some(600)]), (90, [None, None, Some(5_400)])]
    {
        let mut bench = Bench::with(&disk, &readers, settings(minutes, 64));
        bench.recorder.accepts.settings = true;
        bench.step();
        assert_eq!([1, 2, 3].map(|address| bench.ends(address)), ends, "{minutes} minutes");
        let mut again = Bench::with(&disk, &readers, settings(minutes, 64));
        again.step();
        assert_eq!([1, 2, 3].map(|address| again.ends(address)), ends, "{minutes} minutes, without the option");
    }
}

#[test]
fn a_store_takes_other_settings_from_the_second_in_which_its_last_cooldown_ends() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    let is_ready = |ms| {
        readers.pass_ms(ms);
        let mut bench = Bench::with(&disk, &readers, settings(10_080, 48));
        // A start whose settings are refused ends.
        bench.recorder.step(Vec::new()).is_ok() && bench.readiness.is_ready()
    };
    assert_eq!([is_ready(5_399_000), is_ready(1_000)], [false, true]);
}

/// Regression: what had ended before a step back was dropped under the new length, and that commit kept the new
/// settings. Where the next one failed, a vote that had ended under the old length was live again.
#[test]
fn what_had_ended_stays_ended_where_a_longer_length_meets_an_accepted_clock() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    let pair = Pair { server: SERVER, address: voter(1) };
    disk.0.lock().votes.extend([9_000, 5_500].map(|ago| StoredVote { pair, voted_at: UnixSeconds(START - ago) }));
    disk.0.lock().commits_failing = 2;
    readers.step_ms(-3_600_000);
    let mut bench = Bench::with(&disk, &readers, settings(120, 64));
    bench.recorder.accepts = Accepts { clock: true, settings: true };
    bench.step();
    assert!(!bench.readiness.is_ready());
    readers.pass_ms(60_000);
    bench.step();
    assert!(bench.readiness.is_ready());
    assert_eq!(bench.ends(1), None);
    assert!([2, 3].iter().all(|address| bench.ends(*address).is_some()));
}

/// Regression: the sync of the commit that kept the new settings failed. The next try read them from the file, was
/// ready, and after a power cut the old ones were back.
#[test]
fn accepted_settings_are_kept_anew_where_nothing_in_the_file_counts() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    disk.0.lock().is_void = true;
    disk.0.lock().commits_failing = 1;
    let kept = disk.0.lock().kept.clone().expect("it was written").settings;
    let mut bench = Bench::with(&disk, &readers, kept);
    bench.recorder.accepts.settings = true;
    bench.step();
    assert!(!bench.readiness.is_ready());
    readers.pass_ms(60_000);
    bench.step();
    assert!(bench.readiness.is_ready() && !disk.0.lock().is_void);
}

/// Regression: the store was written anew within the start, and connections on passed sockets waited for it.
#[test]
fn a_start_does_not_wait_until_a_void_store_is_written_anew() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    disk.0.lock().is_void = true;
    let mut bench = Bench::new(&disk, &readers);
    bench.step();
    assert!(bench.readiness.is_ready() && disk.0.lock().is_void);
    bench.pass(500);
    assert!(!disk.0.lock().is_void);
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
    let shown_ms = bench.disk.0.lock().kept.as_ref().map(|kept| kept.shown_ms).expect("it was written");
    let age_ms = u64::from(START + 265) * 1_000 - shown_ms;
    assert!(age_ms <= 61_000, "the time was noted {age_ms} ms ago");
}

#[test]
fn a_row_is_dropped_in_the_second_in_which_its_cooldown_is_over() {
    let mut bench = at_work(&HandReaders::at(START));
    bench.pass((5_399 - 540) * 1_000);
    assert_eq!(bench.rows()[0], 0);
    bench.pass(1_000);
    assert_eq!(bench.rows()[0], 60);
}

/// Regression: the store was written anew without the rows that could not be dropped, and the gauge said for ever that
/// the store fails.
#[test]
fn a_drop_that_failed_fails_no_more_once_nothing_is_left_to_drop() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.disk.0.lock().is_failing = true;
    bench.pass(5_400_000);
    let store_failing = |bench: &Bench| bench.recorder.live().counters.store_failing.get();
    assert_eq!((store_failing(&bench), bench.rows().is_empty()), (1, false));
    bench.disk.0.lock().is_failing = false;
    bench.disk.0.lock().votes.clear();
    bench.pass(60_000);
    assert_eq!(store_failing(&bench), 0);
}

#[test]
fn of_votes_that_fall_into_one_network_the_latest_stays() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::listed(&readers);
    let disk = bench.disk.clone();
    let networks = [1, 2].map(|low| VoterAddress::V6(Ipv6Network(0x2001_0DB8_0000_0000 | low)));
    for network in networks {
        assert!(matches!(bench.cast_from(network), VoteOutcome::Recorded(_)));
        readers.pass_ms(1_000);
    }
    let mut bench = Bench::with(&disk, &readers, settings(90, 48));
    bench.recorder.accepts.settings = true;
    bench.step();
    assert_eq!(networks.map(|network| bench.ends_of(network)), [Some(5_401); 2]);
    assert_eq!(disk.0.lock().votes.len(), 1, "the row of the earlier vote has gone");
    // A row keeps all of its 64 bits.
    bench = Bench::with(&disk, &readers, settings(90, 64));
    bench.recorder.accepts.settings = true;
    bench.step();
    assert_eq!(networks.map(|network| bench.ends_of(network)), [None, Some(5_401)]);
    bench = Bench::with(&disk, &readers, settings(90, 48));
    bench.recorder.accepts.settings = true;
    bench.step();
    assert_eq!(bench.ask(Command::Cancel(SERVER, networks[0])), Reply::Cancelled(Some(true)));
    assert!(disk.0.lock().votes.is_empty());
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
