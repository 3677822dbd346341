//! Votes and servers in one file, by `redb`.
//!
//! Rows of votes are in order of time: replay reads what is still in cooldown, expiry drops what
//! comes first. A commit is one transaction and one sync of the file.
//!
//! The library undoes its last commit where it finds it damaged, because a power cut in the middle
//! of one looks the same. A commit that was acknowledged must not go that way in silence, so each
//! has a number, and the last acknowledged one is noted beside the file: see [`super::commit_marker`].

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use redb::{
    AccessGuard, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    TableError, WriteTransaction,
};

use super::commit_marker::CommitMarker;
use super::disk::is_full;
use super::stage::{CommitStage, Purpose};
use super::{Event, Past, Store, StoreError, StoredVote, row};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::lengths::Lengths;
use crate::vote::time::UnixSeconds;

/// The key holds everything: see [`row`].
const VOTES: TableDefinition<'static, &[u8], ()> = TableDefinition::new("votes");
const SERVERS: TableDefinition<'static, u32, &str> = TableDefinition::new("servers");
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// From when on votes were kept for so many minutes; see [`Lengths`]. A store of an older version has none,
/// and leaves them alone.
const LENGTHS: TableDefinition<'static, u32, u32> = TableDefinition::new("lengths");

/// The version of the tables that a new file begins with. It stands in `meta`, under [`SCHEMA_KEY`].
const SCHEMA_OF_IPV4: u64 = 1;
/// The version from the first IPv6 vote on. A build that knows nothing of such votes must not take the file
/// for a damaged one: it refuses a newer version by name.
const SCHEMA_OF_BOTH: u64 = 2;
const SCHEMA_KEY: &str = "schema";
/// Number of the last commit.
const SEQUENCE_KEY: &str = "sequence";
/// When the latest vote had been cast of all that were taken away.
const GONE_KEY: &str = "gone";
/// The wall time at the last commit, in milliseconds since 1970.
const KNOWN_KEY: &str = "known_ms";

/// Gives the database, each time that it has to be opened, on a file that tells the stage what goes
/// through it: see [`super::stage::Watched`].
pub type Opener = Box<dyn Fn(&Arc<CommitStage>) -> Result<Database, DatabaseError> + Send>;

/// What is written with every commit.
#[derive(Default)]
struct Keeps {
    known_ms: Option<u64>,
    lengths: Option<Lengths>,
    /// The lengths are in the file already.
    are_lengths_kept: bool,
}

/// Votes to be dropped: from when to when they were cast, and how many at most.
type Dropped = (UnixSeconds, UnixSeconds, usize);

/// The file, open.
pub struct EmbeddedStore {
    open: Opener,
    /// How the file is called in messages.
    name: String,
    /// `None` after a failure: opened again when it is next needed.
    database: Option<Database>,
    marker: CommitMarker,
    sequence: u64,
    stage: Arc<CommitStage>,
    /// What is kept with the next commit besides its changes.
    keeps: Keeps,
    /// Rows of votes that were dropped, and whose room in the file no later vote has taken yet.
    rows_free: usize,
    /// What would undo the last commit. One that failed may be in the file all the same, and one that went well
    /// may have to be taken back.
    undo: Vec<Event>,
}

impl EmbeddedStore {
    /// Opens a store, checks all of it, and makes the tables where the file is new.
    ///
    /// # Errors
    /// Where it is in use, damaged, foreign, or of a newer version.
    pub fn new(open: Opener, name: String, marker: CommitMarker) -> Result<Self, StoreError> {
        let mut store = Self {
            open,
            name,
            database: None,
            marker,
            sequence: 0,
            stage: Arc::default(),
            keeps: Keeps::default(),
            rows_free: 0,
            undo: Vec::new(),
        };
        let checked = store.guarded(|store| {
            let mut database = (store.open)(&store.stage).map_err(|error| store.open_error(error))?;
            let is_as_left = database.check_integrity().map_err(|error| store.open_error(error))?;
            store.sequence = store.read_schema(&database)?;
            match store.marker.read() {
                Some(acknowledged) if acknowledged > store.sequence => return Err(store.lacking(acknowledged)),
                None if !is_as_left => {
                    // Opened once more the file looks whole. With this note it is refused then as well.
                    store.marker.note(store.sequence + 1);
                    return Err(store.damaged("part of it was undone"));
                }
                _ => {}
            }
            store.database = Some(database);
            Ok(())
        });
        checked.map(|()| store)
    }

    /// Runs what touches the file. The library may panic on a damaged one; that is an error like
    /// any other here.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        catch_unwind(AssertUnwindSafe(|| work(self)))
            .unwrap_or_else(|_panic| Err(self.damaged("it cannot be read as it is")))
    }

    fn damaged(&self, how: &str) -> StoreError {
        let name = &self.name;
        StoreError::Unusable(format!(
            "the store {name} is damaged ({how}): put back a copy, or move it and votes.sequence away to start empty, which forgets every cooldown"
        ))
    }

    fn lacking(&self, acknowledged: u64) -> StoreError {
        let (name, found) = (&self.name, self.sequence);
        StoreError::Unusable(format!(
            "the store {name} is damaged: its last commit is {found}, and votes.sequence beside it says that {acknowledged} was acknowledged: put back a newer copy, or remove votes.sequence to serve this one as it is"
        ))
    }

    fn open_error(&self, error: DatabaseError) -> StoreError {
        let name = &self.name;
        match error {
            DatabaseError::DatabaseAlreadyOpen => {
                StoreError::InUse(format!("the store {name} is open in another process"))
            }
            DatabaseError::UpgradeRequired(version) => StoreError::Unusable(format!(
                "the store {name} has file format {version}, which this version does not read: use the version that wrote it"
            )),
            DatabaseError::Storage(redb::StorageError::Io(error)) if is_of_the_system(&error) => {
                StoreError::Unavailable(format!("the store {name} cannot be opened: {error}"))
            }
            error => self.damaged(&error.to_string()),
        }
    }

    fn failed(&self, error: impl Into<redb::Error>) -> StoreError {
        let (name, error) = (&self.name, error.into());
        match &error {
            redb::Error::Io(system) if is_full(system) => {
                StoreError::Full(format!("there is no room on the disk for the store {name}: {system}"))
            }
            _ => StoreError::Unavailable(format!("the store {name} fails: {error}")),
        }
    }

    /// The number of the last commit; makes the tables in a new file.
    fn read_schema(&self, database: &Database) -> Result<u64, StoreError> {
        let read = database.begin_read().map_err(|error| self.failed(error))?;
        let meta = match read.open_table(META) {
            Ok(meta) => meta,
            Err(TableError::TableDoesNotExist(_)) => return self.make_tables(database),
            Err(_) => return Err(self.foreign()),
        };
        let number = |key| meta.get(key).map(|value| value.map(|value| value.value()));
        match number(SCHEMA_KEY).map_err(|error| self.failed(error))? {
            Some(SCHEMA_OF_IPV4 | SCHEMA_OF_BOTH) => {}
            Some(newer) if newer > SCHEMA_OF_BOTH => {
                return Err(StoreError::Unusable(format!(
                    "the store {} was written by a newer version (schema {newer}, this one reads {SCHEMA_OF_BOTH}): use that version",
                    self.name
                )));
            }
            _ => return Err(self.foreign()),
        }
        Ok(number(SEQUENCE_KEY).map_err(|error| self.failed(error))?.unwrap_or(0))
    }

    fn foreign(&self) -> StoreError {
        StoreError::Unusable(format!(
            "{} is no store of vote-status: move it away, or give another --data-dir",
            self.name
        ))
    }

    fn make_tables(&self, database: &Database) -> Result<u64, StoreError> {
        let write = database.begin_write().map_err(|error| self.failed(error))?;
        let is_foreign = write.list_tables().map_err(|error| self.failed(error))?.next().is_some();
        if is_foreign {
            return Err(self.foreign());
        }
        let make = |write: &WriteTransaction| -> Result<(), redb::Error> {
            write.open_table(VOTES)?;
            write.open_table(SERVERS)?;
            write.open_table(META)?.insert(SCHEMA_KEY, SCHEMA_OF_IPV4)?;
            Ok(())
        };
        make(&write).map_err(|error| self.failed(error))?;
        write.commit().map_err(|error| self.failed(error))?;
        Ok(0)
    }

    /// The database, opened again after a failure. What had failed is undone where it is found in
    /// the file after all: it was answered as not recorded.
    fn database(&mut self) -> Result<&Database, StoreError> {
        if self.database.is_none() {
            let database = (self.open)(&self.stage).map_err(|error| self.open_error(error))?;
            let found = self.read_schema(&database)?;
            if found < self.sequence {
                return Err(self.lacking(self.sequence));
            }
            if found > self.sequence {
                write(&database, &self.undo, found + 1, None, &self.keeps).map_err(|error| self.failed(error))?;
                self.sequence = found + 1;
                self.marker.note(self.sequence);
            }
            self.undo.clear();
            self.database = Some(database);
        }
        self.database.as_ref().ok_or_else(|| StoreError::Unavailable("the store is closed".into()))
    }

    /// One transaction; one that fails before its sync is not in the file. After a failure the file is opened
    /// anew, as the library refuses to go on with a handle that has failed: at once if it can be, so that what
    /// failed is undone before the process may end, and else when it is next needed.
    fn transact(&mut self, events: &[Event], dropped: Option<Dropped>) -> Result<usize, StoreError> {
        let mut is_begun = false;
        let votes = events.iter().filter(|event| matches!(event, Event::Vote(_))).count();
        let purpose = match dropped {
            Some(_) => Purpose::Drop,
            None if votes < self.rows_free => Purpose::InPlace,
            None => Purpose::More,
        };
        let committed = self.guarded(|store| {
            let undo = inverse(store.database()?, events).map_err(|error| store.failed(error))?;
            store.undo = undo;
            let sequence = store.sequence + 1;
            store.stage.begin(purpose);
            is_begun = true;
            store.database()?;
            let database =
                store.database.as_ref().ok_or_else(|| StoreError::Unavailable("the store is closed".into()))?;
            let rows = write(database, events, sequence, dropped, &store.keeps).map_err(|error| store.failed(error))?;
            store.keeps.are_lengths_kept = true;
            store.sequence = sequence;
            store.rows_free = store.rows_free.saturating_sub(votes) + rows;
            store.marker.note(sequence);
            Ok(rows)
        });
        let is_in_doubt = is_begun && self.stage.is_in_doubt();
        self.stage.end();
        let Err(error) = committed else { return committed };
        self.database = None;
        // Where this fails the next call tries it again, and tells why.
        let reopened = self.guarded(|store| store.database().map(drop));
        if matches!(error, StoreError::Full(_)) && reopened.is_ok() {
            // The file was made longer than there is room for: closed in order, it ends behind its
            // last page in use again, and what is free before that is taken first.
            self.database = None;
            let _reopened = self.guarded(|store| store.database().map(drop));
        }
        Err(if is_in_doubt { StoreError::InDoubt(error.to_string()) } else { error })
    }
}

impl EmbeddedStore {
    /// Undoes the last commit, which had gone well.
    ///
    /// # Errors
    /// As with a commit; it may stand then.
    pub(super) fn take_back(&mut self) -> Result<(), StoreError> {
        let undo = std::mem::take(&mut self.undo);
        self.transact(&undo, None).map(drop)
    }

    /// Notes the last commit's number in the file at `path`, unless that is the one that is open already.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn keep_marker_at(&mut self, path: &Path) -> io::Result<()> {
        if !self.marker.is_at(path) {
            self.marker = CommitMarker::open(path)?;
            self.marker.note(self.sequence);
        }
        Ok(())
    }
}

impl Store for EmbeddedStore {
    fn commit(&mut self, events: &[Event]) -> Result<(), StoreError> {
        self.transact(events, None).map(drop)
    }

    fn replay(&mut self, since: UnixSeconds, visit: &mut dyn FnMut(Event)) -> Result<(), StoreError> {
        self.guarded(|store| {
            let read = store.database()?.begin_read().map_err(|error| store.failed(error))?;
            let rows = || -> Result<bool, redb::Error> {
                for row in read.open_table(SERVERS)?.iter()? {
                    let (server, token) = row?;
                    let Some(token) = Token::new(token.value()) else { return Ok(false) };
                    visit(Event::Server(ServerId(server.value()), token));
                }
                let first = row::first_after(since);
                for row in read.open_table(VOTES)?.range(&first[..]..)? {
                    let Some(vote) = row::vote(row?.0.value()) else { return Ok(false) };
                    visit(Event::Vote(vote));
                }
                Ok(true)
            }();
            match rows {
                Ok(true) => Ok(()),
                Ok(false) => Err(store.damaged("a row has no meaning")),
                Err(error) => Err(store.damaged(&error.to_string())),
            }
        })
    }

    fn latest_gone(&mut self) -> Result<Option<UnixSeconds>, StoreError> {
        self.guarded(|store| {
            let read = store.database()?.begin_read().map_err(|error| store.failed(error))?;
            let meta = read.open_table(META).map_err(|error| store.failed(error))?;
            let latest = meta.get(GONE_KEY).map_err(|error| store.failed(error))?;
            Ok(latest.and_then(|value| u32::try_from(value.value()).ok()).map(UnixSeconds))
        })
    }

    fn past(&mut self) -> Result<Past, StoreError> {
        self.guarded(|store| {
            let read = store.database()?.begin_read().map_err(|error| store.failed(error))?;
            past(&read).map_err(|error| store.damaged(&error.to_string()))
        })
    }

    fn keep(&mut self, known_ms: u64, lengths: &Lengths) {
        self.keeps.known_ms = Some(known_ms);
        if self.keeps.lengths.as_ref() != Some(lengths) {
            self.keeps.lengths = Some(lengths.clone());
            self.keeps.are_lengths_kept = false;
        }
    }

    fn drop_cast(&mut self, since: UnixSeconds, until: UnixSeconds, rows_max: usize) -> Result<usize, StoreError> {
        let store = self;
        let is_due = store.guarded(|store| {
            let read = store.database()?.begin_read().map_err(|error| store.failed(error))?;
            let votes = read.open_table(VOTES).map_err(|error| store.failed(error))?;
            let (start, end) = (row::first_at(since), row::first_after(until));
            let mut due = votes.range(&start[..]..&end[..]).map_err(|error| store.failed(error))?;
            Ok(due.next().transpose().map_err(|error| store.failed(error))?.is_some())
        });
        if is_due.is_err() {
            // The library goes on with no handle that has failed once.
            store.database = None;
        }
        if is_due? { store.transact(&[], Some((since, until, rows_max))) } else { Ok(0) }
    }

    fn size_bytes(&self) -> u64 {
        0 // a file is measured by whoever knows its path
    }
}

/// What the tables say of the time before this start.
fn past(read: &ReadTransaction) -> Result<Past, redb::Error> {
    let known_ms = read.open_table(META)?.get(KNOWN_KEY)?.map(|value| value.value());
    let rows = match read.open_table(LENGTHS) {
        Ok(lengths) => {
            lengths.iter()?.map(|row| row.map(|(since, minutes)| (since.value(), minutes.value()))).collect()
        }
        Err(TableError::TableDoesNotExist(_)) => Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let lengths = rows.map(Lengths::from_rows)?;
    let votes = read.open_table(VOTES)?;
    let instant =
        |key: Option<AccessGuard<'_, &[u8]>>| key.and_then(|key| row::vote(key.value())).map(|vote| vote.voted_at);
    let oldest = instant(votes.first()?.map(|(key, _)| key));
    let newest = instant(votes.last()?.map(|(key, _)| key));
    Ok(Past { known_ms, lengths, oldest, newest })
}

/// Applies `events`, drops the rows that are due, and commits: durable when it returns.
fn write(
    database: &Database,
    events: &[Event],
    sequence: u64,
    dropped: Option<Dropped>,
    keeps: &Keeps,
) -> Result<usize, redb::Error> {
    let write = database.begin_write()?;
    let mut rows = 0;
    {
        let mut votes = write.open_table(VOTES)?;
        for (key, is_there) in row::last_word_on_each(events) {
            if is_there {
                votes.insert(key.as_bytes(), ())?;
            } else {
                votes.remove(key.as_bytes())?;
            }
        }
        // Most commits are votes alone, and a table that is opened costs even where nothing changes.
        if events.iter().any(|event| matches!(event, Event::Server(..) | Event::ServerGone(_))) {
            let mut servers = write.open_table(SERVERS)?;
            for event in events {
                match event {
                    Event::Server(server, token) => drop(servers.insert(server.0, token.as_str())?),
                    Event::ServerGone(server) => drop(servers.remove(server.0)?),
                    Event::Vote(_) | Event::VoteGone(_) => {}
                }
            }
        }
        if let Some((since, until, rows_max)) = dropped {
            let (start, end) = (row::first_at(since), row::first_after(until));
            for row in votes.extract_from_if(&start[..]..&end[..], |_, ()| true)?.take(rows_max) {
                row?;
                rows += 1;
            }
        }
        let mut meta = write.open_table(META)?;
        meta.insert(SEQUENCE_KEY, sequence)?;
        if events.iter().any(is_ipv6_vote) {
            meta.insert(SCHEMA_KEY, SCHEMA_OF_BOTH)?;
        }
        if let Some(latest) = latest_gone(events) {
            let held = meta.get(GONE_KEY)?.map_or(0, |value| value.value());
            meta.insert(GONE_KEY, held.max(u64::from(latest.0)))?;
        }
        if let Some(known_ms) = keeps.known_ms {
            meta.insert(KNOWN_KEY, known_ms)?;
        }
        if let Some(lengths) = keeps.lengths.as_ref().filter(|_| !keeps.are_lengths_kept) {
            let mut table = write.open_table(LENGTHS)?;
            table.retain(|_, _| false)?;
            lengths.rows().try_for_each(|(since, minutes)| table.insert(since, minutes).map(drop))?;
        }
    }
    write.commit()?;
    Ok(rows)
}

fn is_ipv6_vote(event: &Event) -> bool {
    matches!(event, Event::Vote(StoredVote { address: VoterAddress::V6(_), .. }))
}

fn latest_gone(events: &[Event]) -> Option<UnixSeconds> {
    let gone = |event: &Event| if let Event::VoteGone(vote) = event { Some(vote.voted_at) } else { None };
    events.iter().filter_map(gone).max()
}

/// What would undo `events`, as the file stands before them.
fn inverse(database: &Database, events: &[Event]) -> Result<Vec<Event>, redb::Error> {
    let mut servers = HashMap::new();
    for event in events {
        if let Event::Server(server, _) | Event::ServerGone(server) = event {
            servers.entry(*server).or_insert(None);
        }
    }
    if !servers.is_empty() {
        let table = database.begin_read()?.open_table(SERVERS)?;
        for (server, token) in &mut servers {
            *token = table.get(server.0)?.and_then(|token| Token::new(token.value()));
        }
    }
    let votes = events.iter().rev().filter_map(|event| match event {
        Event::Vote(vote) => Some(Event::VoteGone(*vote)),
        Event::VoteGone(vote) => Some(Event::Vote(*vote)),
        Event::Server(..) | Event::ServerGone(_) => None,
    });
    let servers = servers.into_iter().map(|(server, token)| match token {
        Some(token) => Event::Server(server, token),
        None => Event::ServerGone(server),
    });
    Ok(votes.chain(servers).collect())
}

/// Whether an error is the system's (no permission, no space) and says nothing of the content.
fn is_of_the_system(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some()
}
