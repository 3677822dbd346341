//! The tables in the store's file: what a commit writes, and what a start reads. Knows the library's
//! transactions; not where the file is, nor what becomes of one that fails.

use redb::{AccessGuard, Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction};

use super::{Cut, Event, Kept, Past, StoredVote, row};
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::settings::Settings;
use crate::vote::time::{Cooldown, UnixSeconds};

type Votes = TableDefinition<'static, &'static [u8], ()>;

/// The key says everything: see [`row`].
const VOTES: Votes = TableDefinition::new("votes");
/// Instants that no later vote gets, with the keys that the votes had: see [`Event::Spent`].
const SPENT: Votes = TableDefinition::new("spent");
const SERVERS: TableDefinition<'static, u32, &str> = TableDefinition::new("servers");
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
/// See [`Kept::cuts`]: their rank in the order, and both instants.
const CUTS: TableDefinition<'static, u32, (u32, u32)> = TableDefinition::new("cuts");

/// The version of the tables. Builds before 1.0.0 wrote 1 and 2.
pub const SCHEMA: u64 = 3;
const SCHEMA_KEY: &str = "schema";
/// Number of the last commit.
const SEQUENCE_KEY: &str = "sequence";
/// See [`Kept::shown_ms`].
const SHOWN_KEY: &str = "shown_ms";
/// See [`Kept::settled_ms`].
const SETTLED_KEY: &str = "settled_ms";
/// The settings of the store: see [`Settings`].
const COOLDOWN_KEY: &str = "cooldown_minutes";
/// See [`COOLDOWN_KEY`].
const PREFIX_KEY: &str = "ipv6_prefix";

/// Votes to be dropped: until when they were cast, and how many at most.
pub(super) type Dropped = (UnixSeconds, usize);

/// The version of the tables in the file, if they are ours, and the number of their last commit.
pub(super) fn find(database: &Database) -> Result<Option<(u64, u64)>, redb::Error> {
    let read = database.begin_read()?;
    let meta = match read.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::Storage(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let number = |key| meta.get(key).map(|value| value.map(|value| value.value()));
    Ok(number(SCHEMA_KEY)?.zip(Some(number(SEQUENCE_KEY)?.unwrap_or(0))))
}

/// Makes the tables of a new file and fills them, in one transaction: with these servers and votes, as if the
/// last commit had this number. A store in which nothing was ever kept has no `kept`.
pub(super) fn make(
    database: &Database,
    rows: &mut dyn Iterator<Item = Event>,
    sequence: u64,
    kept: Option<&Kept>,
) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut servers = write.open_table(SERVERS)?;
        let mut spent = write.open_table(SPENT)?;
        let mut keys = Vec::new();
        for event in rows {
            match event {
                Event::Server(server, token) => drop(servers.insert(server.0, token.as_str())?),
                Event::Vote(vote) => keys.push(row::key(&vote)),
                Event::Spent(vote) => drop(spent.insert(row::key(&vote).as_bytes(), ())?),
                Event::ServerRemoved(_) | Event::VoteRemoved(_) => {}
            }
        }
        // In the file's order each page is met once.
        keys.sort_unstable();
        let mut votes = write.open_table(VOTES)?;
        keys.iter().try_for_each(|key| votes.insert(key.as_bytes(), ()).map(drop))?;
        let mut meta = write.open_table(META)?;
        meta.insert(SCHEMA_KEY, SCHEMA)?;
    }
    note(&write, sequence, kept)?;
    Ok(write.commit()?)
}

/// Writes what goes with every commit.
fn note(write: &WriteTransaction, sequence: u64, kept: Option<&Kept>) -> Result<(), redb::Error> {
    let mut meta = write.open_table(META)?;
    meta.insert(SEQUENCE_KEY, sequence)?;
    if let Some(Kept { shown_ms, settled_ms, settings, cuts }) = kept {
        meta.insert(SHOWN_KEY, shown_ms)?;
        meta.insert(SETTLED_KEY, settled_ms)?;
        meta.insert(COOLDOWN_KEY, u64::from(settings.cooldown.minutes()))?;
        meta.insert(PREFIX_KEY, u64::from(settings.ipv6_prefix.bits()))?;
        let mut table = write.open_table(CUTS)?;
        table.retain(|_, _| false)?;
        for (index, Cut { beyond, to }) in (0..).zip(cuts) {
            table.insert(index, (beyond.0, to.0))?;
        }
    }
    Ok(())
}

/// Gives every server, then every vote cast after `since` and every instant that is spent; whether each row has a
/// meaning.
pub(super) fn replay(
    database: &Database,
    since: UnixSeconds,
    visit: &mut dyn FnMut(Event),
) -> Result<bool, redb::Error> {
    let read = database.begin_read()?;
    for row in read.open_table(SERVERS)?.iter()? {
        let (server, token) = row?;
        let Some(token) = Token::new(token.value()) else { return Ok(false) };
        visit(Event::Server(ServerId(server.value()), token));
    }
    let first = row::first_after(since);
    for (table, event) in [(VOTES, Event::Vote as fn(StoredVote) -> Event), (SPENT, Event::Spent as _)] {
        for row in read.open_table(table)?.range(&first[..]..)? {
            let Some(vote) = row::vote(row?.0.value()) else { return Ok(false) };
            visit(event(vote));
        }
    }
    Ok(true)
}

/// Whether there is a vote cast until `until`, or an instant until then that is spent.
pub(super) fn has_cast(database: &Database, until: UnixSeconds) -> Result<bool, redb::Error> {
    let (read, end) = (database.begin_read()?, row::first_after(until));
    for table in [VOTES, SPENT] {
        if read.open_table(table)?.range(..&end[..])?.next().transpose()?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// See [`super::Store::past`].
pub(super) fn past(database: &Database) -> Result<Past, redb::Error> {
    let read = database.begin_read()?;
    let meta = read.open_table(META)?;
    let number = |key| meta.get(key).map(|value| value.map(|value| value.value()));
    let small = |key| number(key).map(|value| value.and_then(|value| u32::try_from(value).ok()));
    let cooldown = small(COOLDOWN_KEY)?.and_then(Cooldown::from_minutes);
    let prefix = small(PREFIX_KEY)?.and_then(|bits| u8::try_from(bits).ok()).and_then(Ipv6Prefix::from_bits);
    let settings = cooldown.zip(prefix).map(|(cooldown, ipv6_prefix)| Settings { cooldown, ipv6_prefix });
    let kept = match (number(SHOWN_KEY)?, number(SETTLED_KEY)?, settings) {
        (Some(shown_ms), Some(settled_ms), Some(settings)) => {
            let cut = |(_, row): (_, AccessGuard<'_, (u32, u32)>)| row.value();
            let rows = read.open_table(CUTS)?.iter()?.map(|row| row.map(cut)).collect::<Result<Vec<_>, _>>()?;
            let cuts = rows.into_iter().map(|(beyond, to)| Cut { beyond: UnixSeconds(beyond), to: UnixSeconds(to) });
            Some(Kept { shown_ms, settled_ms, settings, cuts: cuts.collect() })
        }
        _ => None,
    };
    let votes = read.open_table(VOTES)?;
    let newest = votes.last()?.and_then(|(key, _)| row::vote(key.value())).map(|vote| vote.voted_at);
    Ok(Past { kept, newest })
}

/// Applies `events`, drops the rows that are due, and commits: durable when it returns.
pub(super) fn write(
    database: &Database,
    events: &[Event],
    sequence: u64,
    dropped: Option<Dropped>,
    kept: &Kept,
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
        if events.iter().any(|event| !matches!(event, Event::Vote(_) | Event::VoteRemoved(_))) {
            let (mut servers, mut spent) = (write.open_table(SERVERS)?, write.open_table(SPENT)?);
            for event in events {
                match event {
                    Event::Server(server, token) => drop(servers.insert(server.0, token.as_str())?),
                    Event::ServerRemoved(server) => drop(servers.remove(server.0)?),
                    Event::Spent(vote) => drop(spent.insert(row::key(vote).as_bytes(), ())?),
                    Event::Vote(_) | Event::VoteRemoved(_) => {}
                }
            }
        }
        if let Some((until, rows_max)) = dropped {
            let end = row::first_after(until);
            for row in votes.extract_from_if(..&end[..], |_, ()| true)?.take(rows_max) {
                row?;
                rows += 1;
            }
            for row in write.open_table(SPENT)?.extract_from_if(..&end[..], |_, ()| true)?.take(rows_max) {
                row?;
            }
        }
    }
    note(&write, sequence, Some(kept))?;
    write.commit()?;
    Ok(rows)
}
