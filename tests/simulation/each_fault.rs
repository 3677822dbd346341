//! The store under each fault at each of its operations: it keeps every acknowledged change, no refused one, and nothing
//! else. Seeds draw such faults among others; here none is left out.

use super::clocks::Clocks;
use super::disk::{Disk, Faults, Kill, Strike};
use super::machine::{ELSEWHERE, STORE};
use super::seam::{At, Folder, SimulatedDisk};
use crate::util::needs::rounds;
use crate::util::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vote_status::store::commit_marker::MARKER_FILE;
use vote_status::store::embedded::{EmbeddedStore, Wanted};
use vote_status::store::{CommitNote, Event, Store, StoreContent, StoreError, StoredVote, VoteVisitor};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::directory::Snapshot;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::ipv6::{Ipv6Network, Ipv6Prefix};
use vote_status::vote::lines::TimeNote;
use vote_status::vote::settings::Settings;
use vote_status::vote::table::Pair;
use vote_status::vote::time::{Cooldown, UnixSeconds};

mod commits;
mod full;
mod opening;

/// 2026-11-20T12:34:56Z.
const AT: u32 = 1_795_178_096;
/// Votes before each trial, one a second. The first `DROPPED` of them are dropped later.
const VOTES: u32 = 12;
const DROPPED: u32 = 5;

/// What goes wrong with the disk.
type Fault = fn(&mut Faults);

/// Names and faults. The next trial begins behind the operation that met the fault, or so many later where the fault lasts.
const FAULTS: [(&str, Fault, Option<u64>); 12] = [
    ("a sync fails", |faults| faults.syncs_fail = 1, None),
    ("a sync fails, and the process is killed behind that", |faults| faults.syncs_fail = 1, None),
    ("a change fails", |faults| faults.strike(A_CHANGE_FAILS), None),
    ("a change fails, and the process is killed behind that", |faults| faults.strike(A_CHANGE_FAILS), None),
    ("a read fails", |faults| faults.reads_fail = 1, None),
    ("a look at a name fails", |faults| faults.looks_fail = 1, None),
    ("full", |faults| faults.is_full = true, Some(3)),
    ("thin and full", |faults| faults.is_thin_and_full = true, Some(5)),
    ("read-only", |faults| faults.is_read_only = true, Some(5)),
    ("a kill", |faults| faults.kill = Some(Kill::AtOperation(0)), None),
    ("a kill behind a sync", |faults| faults.kill = Some(Kill::AtSync { syncs: 0, fails: false }), None),
    ("a kill in a sync that fails", |faults| faults.kill = Some(Kill::AtSync { syncs: 0, fails: true }), None),
];

/// ENOSPC in the text of an error of another kind.
const NO_SPACE: &str = "os error 28";

/// The callers may know of the failure before the kill.
const KILLED_WHEN_TOLD: &str = "and the process is killed behind that";

/// One change fails, with EIO.
const A_CHANGE_FAILS: Strike = Strike::ChangesFail { count: 1, errno: 5 };

/// The fault of the last commit before a trial, and whether a kill follows it.
type Before = (&'static str, Fault, bool);

const BEFORE: [Before; 4] = [
    ("nothing", |_| {}, false),
    ("a kill", |_| {}, true),
    ("a failed sync", |faults| faults.syncs_fail = 1, false),
    ("a kill in a failed sync", |faults| faults.kill = Some(Kill::AtSync { syncs: 0, fails: true }), true),
];

fn vote(after: u32, number: u32) -> StoredVote {
    let address = match number % 2 {
        0 => VoterAddress::V4(Ipv4(number)),
        _ => VoterAddress::V6(Ipv6Network(u64::from(number))),
    };
    StoredVote { pair: Pair { server: ServerId(1), address }, voted_at: UnixSeconds(AT + after) }
}

fn votes(numbers: impl IntoIterator<Item = u32>) -> Change {
    Change::Of(numbers.into_iter().map(|number| Event::Vote(vote(number, number))).collect())
}

fn server(id: u32, token: &str) -> Event {
    Event::Server(ServerId(id), Token::new(token).expect("a token"))
}

/// Writes the store anew with these rows, in slices of so many.
fn renew(store: &mut dyn Store, rows: &Rows, slice_rows: usize) -> Result<(), StoreError> {
    let visit = |visit: &mut VoteVisitor<'_>| rows.votes().for_each(visit);
    store.renew(&StoreContent { servers: &rows.servers(), votes: &visit, slice_rows }, &note())
}

fn seam(disk: Disk) -> Arc<SimulatedDisk> {
    SimulatedDisk::holding(disk, Arc::new(Clocks::at(i64::from(AT) * 1_000)))
}

fn open(disk: &Arc<SimulatedDisk>) -> Result<EmbeddedStore, StoreError> {
    let writer = disk.locked().fresh();
    EmbeddedStore::open(Arc::new(Folder(Arc::clone(disk))), Wanted::Any, Arc::default(), writer)
}

/// The note of every commit.
fn note() -> CommitNote {
    let wall_ms = u64::from(AT) * 1_000;
    let time = TimeNote { certain_ms: wall_ms - 7, wall_ms, shown_ms: wall_ms + 9 };
    let settings = Settings { cooldown: Cooldown::USUAL, ipv6_prefix: Ipv6Prefix::USUAL };
    CommitNote { time, spent_until: UnixSeconds(AT + 3), settings }
}

/// One commit.
enum Change {
    Of(Vec<Event>),
    /// The first votes go.
    Drop,
}

/// The store's rows, sorted.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rows(Vec<Event>);

impl Rows {
    fn new(mut rows: Vec<Event>) -> Rows {
        rows.sort_by_cached_key(|row| format!("{row:?}"));
        Rows(rows)
    }

    fn of(store: &mut dyn Store) -> Result<Rows, StoreError> {
        let mut rows = Vec::new();
        store.replay(UnixSeconds(0), &mut |event| rows.push(event))?;
        Ok(Rows::new(rows))
    }

    fn votes(&self) -> impl Iterator<Item = StoredVote> {
        let vote = |row: &Event| if let Event::Vote(vote) = row { Some(*vote) } else { None };
        self.0.iter().filter_map(vote)
    }

    fn servers(&self) -> Snapshot {
        let mut servers = Snapshot::default();
        for row in &self.0 {
            if let Event::Server(id, token) = row {
                servers.insert(*id, token.clone());
            }
        }
        servers
    }

    fn after(&self, change: &Change) -> Rows {
        let mut rows = self.0.clone();
        let Change::Of(events) = change else {
            rows.retain(|row| !matches!(row, Event::Vote(vote) if vote.voted_at.0 <= AT + DROPPED));
            return Rows::new(rows);
        };
        for event in events {
            match event {
                Event::Vote(_) => {}
                Event::VoteRemoved(gone) => rows.retain(|row| *row != Event::Vote(*gone)),
                Event::Server(id, _) | Event::ServerRemoved(id) => {
                    rows.retain(|row| !matches!(row, Event::Server(other, _) if other == id));
                }
            }
            let is_kept = !matches!(event, Event::VoteRemoved(_) | Event::ServerRemoved(_));
            rows.extend(Some(event.clone()).filter(|_| is_kept));
        }
        Rows::new(rows)
    }
}

/// The process was killed.
struct Killed;

/// A disk, the process that has the store on it open, and the rows that its callers count on.
struct Owner {
    disk: Arc<SimulatedDisk>,
    store: Option<EmbeddedStore>,
    acknowledged: Rows,
    /// The rows that a commit in doubt may have left instead.
    doubtful: Option<Rows>,
    /// The process is killed behind its first error.
    is_killed_when_told: bool,
    /// Describes the trial.
    what: String,
}

impl Owner {
    /// A store with two servers and some votes, closed in order.
    fn furnished() -> Owner {
        let (disk, acknowledged) = (seam(Disk::new(0)), Rows::default());
        let mut owner =
            Owner { disk, store: None, acknowledged, doubtful: None, is_killed_when_told: false, what: String::new() };
        owner.well(|owner| {
            owner.open()?;
            owner.change(&Change::Of(vec![server(1, "one"), server(2, "two")]))?;
            (1..VOTES).try_for_each(|number| owner.change(&votes([number])))
        });
        owner.store = None;
        owner
    }

    /// Work that no kill interrupts.
    fn well(&mut self, work: impl FnOnce(&mut Owner) -> Result<(), Killed>) {
        assert!(work(self).is_ok(), "{}: nobody was killed", self.what);
    }

    /// A copy of the disk with an owner of its own, and one more commit under the fault.
    fn copy(&self, seed: u64, what: String, (_, fault, is_killed): Before) -> Owner {
        let mut disk = self.disk.locked().clone();
        disk.random = Random::seeded(seed);
        let (disk, acknowledged) = (seam(disk), self.acknowledged.clone());
        let mut owner = Owner { disk, store: None, acknowledged, doubtful: None, is_killed_when_told: false, what };
        owner.well(Owner::open);
        fault(&mut owner.disk.locked().faults);
        let _told = owner.attempt(&votes([VOTES]));
        if is_killed {
            owner.end(false);
        }
        owner
    }

    /// The outcome of one try. An error must say no more than is true. The faults are mended behind it.
    fn told<T>(&self, tried: Result<T, StoreError>) -> Result<Option<T>, Killed> {
        let mut disk = self.disk.locked();
        if disk.is_dead() {
            return Err(Killed);
        }
        let is_full = disk.faults.is_full;
        let error = match tried {
            Ok(done) => return Ok(Some(done)),
            Err(error) => error,
        };
        let is_right = match &error {
            StoreError::Unavailable(why) => {
                ["damaged", "another file", NO_SPACE].iter().all(|word| !why.contains(word))
            }
            StoreError::InDoubt(why) => !is_full && !why.contains("another file"),
            StoreError::Full(_) => is_full,
            _ => false,
        };
        assert!(is_right, "{}: {error:?}", self.what);
        if self.is_killed_when_told {
            disk.die();
            return Err(Killed);
        }
        disk.faults = Faults::default();
        Ok(None)
    }

    /// Opens the store, unless it is open, and requires that it has the acknowledged rows.
    fn open(&mut self) -> Result<(), Killed> {
        while self.store.is_none() {
            let opened = open(&self.disk).and_then(|mut store| Ok((Rows::of(&mut store)?, store)));
            let Some((found, mut store)) = self.told(opened)? else { continue };
            if self.doubtful.as_ref() == Some(&found) {
                self.doubtful = Some(std::mem::replace(&mut self.acknowledged, found.clone()));
            }
            assert_eq!(found, self.acknowledged, "{}", self.what);
            if !store.is_void() {
                self.doubtful = None;
            }
            if let Some(noted) = self.told(store.note())? {
                assert!(found.0.is_empty() || noted == Some(note()), "{}: {noted:?}", self.what);
            }
            self.store = Some(store);
        }
        Ok(())
    }

    fn store(&mut self) -> &mut EmbeddedStore {
        self.store.as_mut().expect("it is open")
    }

    /// Makes a change. A void store is written anew first.
    fn change(&mut self, change: &Change) -> Result<(), Killed> {
        loop {
            if self.store().is_void() {
                let not_yet = self.store().commit(&[Event::Vote(vote(9, 9))], &note());
                not_yet.expect_err("nothing is taken before it is written anew");
                if self.renew()?.is_none() {
                    continue;
                }
            }
            if self.attempt(change)?.is_some() {
                return Ok(());
            }
        }
    }

    /// Tries once to write the store anew.
    fn renew(&mut self) -> Result<Option<()>, Killed> {
        let rows = self.acknowledged.clone();
        // The votes fill more slices than one.
        let tried = renew(self.store(), &rows, 5);
        let renewed = self.told(tried)?;
        if renewed.is_some() {
            self.doubtful = None;
        }
        Ok(renewed)
    }

    /// Tries a change once.
    fn attempt(&mut self, change: &Change) -> Result<Option<()>, Killed> {
        let after = self.acknowledged.after(change);
        let tried = match change {
            Change::Of(events) => self.store().commit(events, &note()),
            Change::Drop => self.store().drop_before(UnixSeconds(AT + DROPPED + 1), 100, &note()).map(drop),
        };
        let is_dead = self.disk.locked().is_dead();
        match &tried {
            Ok(()) if !is_dead => {
                assert!(self.disk.locked().keeps(STORE), "{}: a power cut may undo what is acknowledged", self.what);
                (self.acknowledged, self.doubtful) = (after, None);
            }
            Err(error) if !is_dead && !matches!(error, StoreError::InDoubt(_)) => {}
            _ => self.doubtful = Some(after),
        }
        self.told(tried)
    }

    /// Everything that a process does with its store.
    fn live(&mut self) -> Result<(), Killed> {
        self.open()?;
        self.change(&votes([20]))?;
        let gone = [Event::VoteRemoved(vote(7, 7)), Event::ServerRemoved(ServerId(2))];
        let new = [Event::Vote(vote(21, 7)), server(1, "other"), server(3, "three")];
        self.change(&Change::Of([gone.as_slice(), &new].concat()))?;
        self.change(&Change::Drop)?;
        // A sound store is written anew where the time goes back over many votes.
        self.renew()?;
        self.change(&votes([24]))?;
        let tended = self.store().tend();
        self.told(tended)?;
        // It closes in order.
        self.store = None;
        self.open()?;
        self.change(&votes([22, 23]))
    }

    /// Kills the process, with a power cut or without.
    fn end(&mut self, cuts_power: bool) {
        self.disk.locked().die();
        self.store = None;
        let mut disk = self.disk.locked();
        if cuts_power { disk.cut_power() } else { disk.kill() }
    }
}

/// A trial: the fault strikes a process behind `at` operations. Gives the number of operations by which it had struck,
/// and `None` where it did not.
fn trial(mut owner: Owner, fault: Fault, at: u64) -> Option<u64> {
    let (disk, struck) = (Arc::clone(&owner.disk), Arc::new(AtomicU64::new(0)));
    let (its_struck, mut done) = (Arc::clone(&struck), 0);
    let mut strike_when_due = move |moment: At| {
        if moment != At::Operation {
            return;
        }
        let mut disk = disk.locked();
        if done == at {
            fault(&mut disk.faults);
        } else if done > at
            && its_struck.load(Ordering::Relaxed) == 0
            && (disk.is_dead() || disk.faults == Faults::default())
        {
            its_struck.store(done, Ordering::Relaxed);
        }
        done += 1;
    };
    strike_when_due(At::Operation);
    owner.disk.set_look(Some(Box::new(strike_when_due)));
    owner.is_killed_when_told = owner.what.contains(KILLED_WHEN_TOLD);
    let _killed = owner.live();
    owner.is_killed_when_told = false;
    owner.disk.set_look(None);
    // The next process takes a vote, and so does one behind a power cut.
    for (number, cuts_power) in [(30, at.is_multiple_of(2)), (31, true)] {
        owner.disk.locked().faults = Faults::default();
        owner.end(cuts_power);
        owner.well(|owner| {
            owner.open()?;
            owner.change(&votes([number]))
        });
    }
    Some(struck.load(Ordering::Relaxed)).filter(|struck| *struck > 0)
}

#[test]
fn no_fault_at_any_operation_loses_or_invents_a_row() {
    let (furnished, mut trials) = (Owner::furnished(), 0);
    for (before, (fault_name, fault, lasts)) in
        BEFORE.into_iter().flat_map(|before| FAULTS.map(|fault| (before, fault)))
    {
        let mut at = 0;
        loop {
            let what = format!("{}, then {fault_name} at operation {at}", before.0);
            let Some(struck) = trial(furnished.copy(at, what, before), fault, at) else { break };
            at = lasts.map_or(struck, |operations| at + operations);
            trials += 1;
        }
    }
    println!("{trials} trials");
    assert!(trials > 1_000, "{trials}");
}

/// The store's name is gone and its note cannot be read: an empty store would forget every vote.
#[test]
fn a_note_that_cannot_be_read_makes_no_empty_store() {
    let disk = Owner::furnished().disk;
    disk.locked().move_away(STORE, ELSEWHERE);
    disk.locked().faults.reads_fail = 1;
    let failed = open(&disk).map(drop);
    assert!(matches!(&failed, Err(StoreError::Unavailable(why)) if why.contains(MARKER_FILE)), "{failed:?}");
    let refused = open(&disk).map(drop);
    assert!(matches!(&refused, Err(StoreError::Unusable(why)) if why.contains("is gone")), "{refused:?}");
}

/// Damages a file at random, and describes the damage.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let (anywhere, in_use) = (random.below(bytes.len()), *random.pick(&used));
    let from = match random.below(8) {
        0 => anywhere,
        1..=3 => in_use,
        4 => random.below(320),
        5 => {
            let end = bytes.len().min(in_use + 1 + random.below(64));
            bytes[in_use..end].fill_with(|| random.next() as u8);
            return format!("bytes {in_use} to {end} are others");
        }
        6 => {
            bytes.truncate(anywhere);
            return format!("cut to {anywhere} bytes");
        }
        _ => {
            let page = in_use / 4_096 * 4_096;
            let end = bytes.len().min(page + 4_096);
            bytes[page..end].fill(0);
            return format!("the page at {page} is empty");
        }
    };
    let bit = random.below(8);
    bytes[from] ^= 1 << bit;
    format!("bit {bit} of byte {from} is the other")
}

/// Each start reads exactly the rows that were kept, or is refused.
#[test]
fn a_damaged_file_is_read_right_or_refused() {
    let mut random = Random::from_environment();
    let mut owner = Owner::furnished();
    owner.well(Owner::open);
    owner.well(|owner| (40..140).try_for_each(|number| owner.change(&votes([number, 2 * number + 1_000]))));
    owner.well(Owner::live);
    let files =
        |owner: &Owner| [STORE, MARKER_FILE].map(|name| owner.disk.locked().content(name).expect("it is there"));
    let killed = files(&owner);
    owner.store = None;
    let ended = files(&owner);
    let (mut right, mut refused) = (0, 0);
    for number in 0..rounds(600) {
        let [mut bytes, note] = if number % 2 == 0 { ended.clone() } else { killed.clone() };
        let what = format!("trial {number}: {}", damage(&mut bytes, &mut random));
        let disk = seam(Disk::new(0));
        for (name, content) in [(STORE, bytes), (MARKER_FILE, note)] {
            disk.locked().open(name, true).expect("a file is made");
            disk.locked().replace(name, &content);
        }
        for _ in 0..2 {
            match open(&disk).and_then(|mut store| Rows::of(&mut store)) {
                Ok(found) => assert_eq!(found, owner.acknowledged, "{what}"),
                Err(_) => refused += 1,
            }
            right += 1;
        }
    }
    right -= refused;
    println!("{right} were read right, {refused} refused");
    assert!(right > 50 && refused > 50, "{right} right, {refused} refused");
}
