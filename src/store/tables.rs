//! The tables in the store's file: what a commit writes, and what a start reads. This module knows the library's
//! transactions, but neither where the file is nor what follows a failed transaction.

use std::collections::HashSet;

use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction};

use super::row::RowKey;
use super::{CommitNote, Event, StoreContent, row};
use crate::slices::Slices;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::lines::TimeNote;
use crate::vote::settings::Settings;
use crate::vote::time::{Cooldown, UnixSeconds};

/// The key holds the whole vote: see [`row`].
const VOTES: TableDefinition<'static, &'static [u8], ()> = TableDefinition::new("votes");
const SERVERS: TableDefinition<'static, u32, &str> = TableDefinition::new("servers");
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// The version of the tables.
pub const SCHEMA: u64 = 4;
/// The version that 1.0.0 wrote, which this version reads too: see [`first_release`].
pub(super) const SCHEMA_OF_FIRST_RELEASE: u64 = 3;
const SCHEMA_KEY: &str = "schema";
/// Number of the last commit.
const SEQUENCE_KEY: &str = "sequence";
/// The process that made the last commit: see [`CommitName`].
const WRITER_KEY: &str = "writer";
/// See [`TimeNote`].
const CERTAIN_KEY: &str = "certain_ms";
/// See [`CERTAIN_KEY`].
const WALL_KEY: &str = "wall_ms";
/// See [`CERTAIN_KEY`].
const SHOWN_KEY: &str = "shown_ms";
/// See [`CommitNote::spent_until`].
const SPENT_KEY: &str = "spent_until";
/// The settings of the store: see [`Settings`].
const COOLDOWN_KEY: &str = "cooldown_minutes";
/// See [`COOLDOWN_KEY`].
const PREFIX_KEY: &str = "ipv6_prefix";
/// Votes that are sampled for each slice, to divide all votes into slices.
const SAMPLES_PER_SLICE: usize = 64;

/// Votes to drop: those cast before an instant, and the most at once.
pub(super) type Dropped = (UnixSeconds, usize);

/// The identity of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitName {
    pub(super) sequence: u64,
    /// A random number of the process; 0 where an earlier version made the commit.
    pub(super) writer: u64,
}

/// The version of the tables in the file, if they are ours, and their last commit.
pub(super) fn find(database: &Database) -> Result<Option<(u64, CommitName)>, redb::Error> {
    let read = database.begin_read()?;
    let meta = match read.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::Storage(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let (sequence, writer) = (number(&meta, SEQUENCE_KEY)?.unwrap_or(0), number(&meta, WRITER_KEY)?.unwrap_or(0));
    Ok(number(&meta, SCHEMA_KEY)?.zip(Some(CommitName { sequence, writer })))
}

fn number(meta: &ReadOnlyTable<&'static str, u64>, key: &str) -> Result<Option<u64>, redb::StorageError> {
    Ok(meta.get(key)?.map(|value| value.value()))
}

/// Makes and fills the tables of a new file, in one transaction, as if that were this commit. A store without any
/// commit has no `note`.
pub(super) fn make(
    database: &Database,
    content: &StoreContent<'_>,
    name: CommitName,
    note: Option<&CommitNote>,
) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut servers = write.open_table(SERVERS)?;
        for (server, token) in content.servers.iter_after(None) {
            servers.insert(server.0, token.as_str())?;
        }
        let mut votes = write.open_table(VOTES)?;
        in_order(content, &mut |key| votes.insert(key.as_bytes(), ()).map(drop))?;
        let mut meta = write.open_table(META)?;
        meta.insert(SCHEMA_KEY, SCHEMA)?;
    }
    note_commit(&write, name, note)?;
    Ok(write.commit()?)
}

/// Visits the keys of all votes in the file's order, so that the library touches each page once. Walks the votes once
/// for each slice: the keys of many millions would take more memory than the table.
fn in_order<E>(content: &StoreContent<'_>, visit: &mut dyn FnMut(&RowKey) -> Result<(), E>) -> Result<(), E> {
    let samples_per_slice = SAMPLES_PER_SLICE.min(content.slice_rows);
    let each = content.slice_rows / samples_per_slice;
    let (mut index, mut samples) = (0, Vec::new());
    (content.votes)(&mut |vote| {
        if index % each == 0 {
            samples.push(row::key(&vote));
        }
        index += 1;
    });
    samples.sort_unstable();
    let ends = samples.into_iter().step_by(samples_per_slice).skip(1).map(Some).chain([None]);
    let (mut begin, mut keys) = (None, Vec::new());
    for end in ends {
        (content.votes)(&mut |vote| {
            let key = row::key(&vote);
            if begin.is_none_or(|begin| begin <= key) && end.is_none_or(|end| key < end) {
                keys.push(key);
            }
        });
        keys.sort_unstable();
        keys.drain(..).try_for_each(|key| visit(&key))?;
        begin = end;
    }
    Ok(())
}

/// Writes the name and the note of a commit.
fn note_commit(write: &WriteTransaction, name: CommitName, note: Option<&CommitNote>) -> Result<(), redb::Error> {
    let mut meta = write.open_table(META)?;
    meta.insert(SEQUENCE_KEY, name.sequence)?;
    meta.insert(WRITER_KEY, name.writer)?;
    let Some(CommitNote { time, spent_until, settings }) = note else { return Ok(()) };
    for (key, value) in [
        (CERTAIN_KEY, time.certain_ms),
        (WALL_KEY, time.wall_ms),
        (SHOWN_KEY, time.shown_ms),
        (SPENT_KEY, u64::from(spent_until.0)),
        (COOLDOWN_KEY, u64::from(settings.cooldown.minutes())),
        (PREFIX_KEY, u64::from(settings.ipv6_prefix.bits())),
    ] {
        meta.insert(key, value)?;
    }
    Ok(())
}

/// Gives every server, then every vote cast at `first` or later; returns whether every row is valid.
pub(super) fn replay(
    database: &Database,
    first: UnixSeconds,
    visit: &mut dyn FnMut(Event),
) -> Result<bool, redb::Error> {
    let read = database.begin_read()?;
    for row in read.open_table(SERVERS)?.iter()? {
        let (server, token) = row?;
        let Some(token) = Token::stored(token.value()) else { return Ok(false) };
        visit(Event::Server(ServerId(server.value()), token));
    }
    for row in read.open_table(VOTES)?.range(&row::first_at(first)[..]..)? {
        let Some(vote) = row::vote(row?.0.value()) else { return Ok(false) };
        visit(Event::Vote(vote));
    }
    Ok(true)
}

/// Whether a listed server has a vote cast at `first` or later.
pub(super) fn has_vote(database: &Database, first: UnixSeconds) -> Result<bool, redb::Error> {
    let read = database.begin_read()?;
    let mut listed = HashSet::new();
    for row in read.open_table(SERVERS)?.iter()? {
        listed.insert(row?.0.value());
    }
    for row in read.open_table(VOTES)?.range(&row::first_at(first)[..]..)? {
        if row::vote(row?.0.value()).is_none_or(|vote| listed.contains(&vote.pair.server.0)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether there is a vote cast before `first`.
pub(super) fn has_vote_before(database: &Database, first: UnixSeconds) -> Result<bool, redb::Error> {
    let end = row::first_at(first);
    Ok(database.begin_read()?.open_table(VOTES)?.range(..&end[..])?.next().transpose()?.is_some())
}

/// See [`super::Store::note`].
pub(super) fn note(database: &Database) -> Result<Option<CommitNote>, redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    let Some(settings) = settings(&meta)? else { return Ok(None) };
    let time = match (number(&meta, CERTAIN_KEY)?, number(&meta, WALL_KEY)?, number(&meta, SHOWN_KEY)?) {
        (Some(certain_ms), Some(wall_ms), Some(shown_ms)) => TimeNote { certain_ms, wall_ms, shown_ms },
        _ => return Ok(None),
    };
    let spent_until = number(&meta, SPENT_KEY)?.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(0);
    Ok(Some(CommitNote { time, spent_until: UnixSeconds(spent_until), settings }))
}

fn settings(meta: &ReadOnlyTable<&'static str, u64>) -> Result<Option<Settings>, redb::StorageError> {
    let small = |key| number(meta, key).map(|value| value.and_then(|value| u32::try_from(value).ok()));
    let cooldown = small(COOLDOWN_KEY)?.and_then(Cooldown::from_minutes);
    let prefix = small(PREFIX_KEY)?.and_then(|bits| u8::try_from(bits).ok()).and_then(Ipv6Prefix::from_bits);
    Ok(cooldown.zip(prefix).map(|(cooldown, ipv6_prefix)| Settings { cooldown, ipv6_prefix }))
}

/// Applies `events`, drops the rows that are due, and commits; gives the number of dropped rows. All of it is durable then.
pub(super) fn write(
    database: &Database,
    events: &[Event],
    name: CommitName,
    dropped: Option<Dropped>,
    note: &CommitNote,
) -> Result<usize, redb::Error> {
    let write = database.begin_write()?;
    let mut rows = 0;
    {
        let mut votes = write.open_table(VOTES)?;
        let mut slices = Slices::default();
        for (key, is_there) in row::last_word_on_each(events) {
            if is_there {
                votes.insert(key.as_bytes(), ())?;
            } else {
                votes.remove(key.as_bytes())?;
            }
            slices.done(1);
        }
        // Most commits hold only votes, and opening a table costs time even where nothing changes.
        if events.iter().any(|event| !matches!(event, Event::Vote(_) | Event::VoteRemoved(_))) {
            let mut servers = write.open_table(SERVERS)?;
            for event in events {
                match event {
                    Event::Server(server, token) => drop(servers.insert(server.0, token.as_str())?),
                    Event::ServerRemoved(server) => drop(servers.remove(server.0)?),
                    Event::Vote(_) | Event::VoteRemoved(_) => {}
                }
            }
        }
        if let Some((first, rows_max)) = dropped {
            let end = row::first_at(first);
            for row in votes.extract_from_if(..&end[..], |_, ()| true)?.take(rows_max) {
                row?;
                rows += 1;
                slices.done(1);
            }
        }
    }
    note_commit(&write, name, Some(note))?;
    write.commit()?;
    Ok(rows)
}

/// The tables as 1.0.0 wrote them. A start reads them once, as that version would have read them; the store is then
/// written anew.
pub(super) mod first_release {
    use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

    use super::{META, SHOWN_KEY, number, settings};
    use crate::store::{CommitNote, Event};
    use crate::vote::lines::TimeNote;
    use crate::vote::time::{UnixSeconds, VOTE_AHEAD_MAX_S};

    /// The certain line: the time without a step that might have been a mistake.
    const SETTLED_KEY: &str = "settled_ms";
    /// Backward steps of the clock that the rows do not show, in order. Votes further ahead of the first instant than a
    /// vote may be have the second one.
    const CUTS: TableDefinition<'static, u32, (u32, u32)> = TableDefinition::new("cuts");

    /// The time that 1.0.0 noted. It followed the wall clock at once, so the wall line was the time shown.
    pub(in crate::store) fn note(database: &Database) -> Result<Option<CommitNote>, redb::Error> {
        let meta = database.begin_read()?.open_table(META)?;
        let (shown, settled) = (number(&meta, SHOWN_KEY)?, number(&meta, SETTLED_KEY)?);
        Ok(shown.zip(settled).zip(settings(&meta)?).map(|((shown_ms, certain_ms), settings)| CommitNote {
            time: TimeNote { certain_ms, wall_ms: shown_ms, shown_ms },
            spent_until: UnixSeconds(0),
            settings,
        }))
    }

    /// See [`super::replay`]. No vote is left out: a step back may have cut any of them.
    pub(in crate::store) fn replay(database: &Database, visit: &mut dyn FnMut(Event)) -> Result<bool, redb::Error> {
        let mut cuts = Vec::new();
        for row in database.begin_read()?.open_table(CUTS)?.iter()? {
            cuts.push(row?.1.value());
        }
        let cut =
            |at: UnixSeconds| {
                cuts.iter().fold(at, |at, (beyond, to)| {
                    if at > UnixSeconds(*beyond).plus(VOTE_AHEAD_MAX_S) { UnixSeconds(*to) } else { at }
                })
            };
        super::replay(database, UnixSeconds(0), &mut |event| match event {
            Event::Vote(mut vote) => {
                vote.voted_at = cut(vote.voted_at);
                visit(Event::Vote(vote));
            }
            other => visit(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{COOLDOWN_KEY, META, PREFIX_KEY, SERVERS, SHOWN_KEY, VOTES, first_release, in_order};
    use crate::store::row::{self, RowKey};
    use crate::store::{CommitNote, Event, StoreContent, StoredVote, VoteVisitor};
    use crate::vote::address::VoterAddress;
    use crate::vote::directory::Snapshot;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Prefix;
    use crate::vote::lines::TimeNote;
    use crate::vote::settings::Settings;
    use crate::vote::table::Pair;
    use crate::vote::time::{Cooldown, UnixSeconds};
    use redb::backends::InMemoryBackend;
    use redb::{Builder, Database, TableDefinition};

    #[test]
    fn slices_hold_each_vote_once_and_in_order_though_many_have_one_instant() {
        let vote = |number: u32| StoredVote {
            pair: Pair { server: ServerId(number % 7), address: VoterAddress::V4(Ipv4(number)) },
            voted_at: UnixSeconds(if number.is_multiple_of(3) { number * 7_919 % 1_000 } else { 500 }),
        };
        for (count, slice_rows) in [(0, 64), (1, 64), (1_000, 64), (5_000, 100), (5_000, 1), (5_000, 1_000_000)] {
            let votes = |visit: &mut VoteVisitor<'_>| (0..count).map(vote).for_each(visit);
            let servers = Snapshot::default();
            let mut keys: Vec<RowKey> = Vec::new();
            let content = StoreContent { servers: &servers, votes: &votes, slice_rows };
            let done: Result<(), ()> = in_order(&content, &mut |key| {
                keys.push(*key);
                Ok(())
            });
            assert!(done.is_ok() && keys.is_sorted_by(|one, other| one < other), "{count} by {slice_rows}");
            assert_eq!(keys.len(), count as usize, "{count} by {slice_rows}");
        }
    }

    fn vote(address: u32, voted_at: u32) -> StoredVote {
        let pair = Pair { server: ServerId(28), address: VoterAddress::V4(Ipv4(address)) };
        StoredVote { pair, voted_at: UnixSeconds(voted_at) }
    }

    /// The tables of 1.0.0 after its clock went back from 1,000 to 900, and from 950 to 800.
    fn of_first_release(votes: &[StoredVote]) -> Result<Database, redb::Error> {
        let database = Builder::new().create_with_backend(InMemoryBackend::new())?;
        let write = database.begin_write()?;
        {
            let mut meta = write.open_table(META)?;
            for (key, value) in
                [(SHOWN_KEY, 1_300_000), ("settled_ms", 1_200_000), (COOLDOWN_KEY, 90), (PREFIX_KEY, 64)]
            {
                meta.insert(key, value)?;
            }
            write.open_table(SERVERS)?.insert(28, "demo")?;
            let mut cuts = write.open_table(TableDefinition::<u32, (u32, u32)>::new("cuts"))?;
            cuts.insert(0, (1_000, 900))?;
            cuts.insert(1, (950, 800))?;
            let mut rows = write.open_table(VOTES)?;
            for vote in votes {
                rows.insert(row::key(vote).as_bytes(), ())?;
            }
        }
        write.commit()?;
        Ok(database)
    }

    #[test]
    fn a_store_of_the_first_release_is_read_as_that_release_would() {
        let votes = [1_006, 1_005, 956, 955, 3].map(|voted_at| vote(voted_at, voted_at));
        let database = of_first_release(&votes).expect("it is made");
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let settings = Settings { cooldown, ipv6_prefix: Ipv6Prefix::from_bits(64).expect("in range") };
        let time = TimeNote { certain_ms: 1_200_000, wall_ms: 1_300_000, shown_ms: 1_300_000 };
        let note = first_release::note(&database).expect("it is read");
        assert_eq!(note, Some(CommitNote { time, spent_until: UnixSeconds(0), settings }));

        let mut read = Vec::new();
        let mut servers = 0;
        let is_whole = first_release::replay(&database, &mut |event| match event {
            Event::Vote(vote) => read.push(vote),
            _ => servers += 1,
        });
        assert!(is_whole.expect("it is read"));
        // Up to five seconds ahead, a vote is not of before the step.
        let as_read = [(3, 3), (955, 955), (956, 800), (1_005, 800), (1_006, 900)];
        assert_eq!((servers, read), (1, as_read.map(|(address, voted_at)| vote(address, voted_at)).to_vec()));
    }

    #[test]
    fn a_row_without_a_meaning_is_told() {
        let database = of_first_release(&[vote(1, 1)]).expect("it is made");
        let write = database.begin_write().expect("it writes");
        write.open_table(VOTES).expect("the votes").insert(&b"?"[..], ()).expect("it is put in");
        write.commit().expect("it is written");
        assert!(matches!(first_release::replay(&database, &mut drop), Ok(false)));
    }
}
