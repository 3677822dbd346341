//! The tables in the store's file: what a commit writes, and what a start reads. Knows the library's
//! transactions; not where the file is, nor what becomes of one that fails.

use std::collections::HashMap;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::{Event, Kept, Past, StoredVote, row};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::settings::Settings;
use crate::vote::time::{Cooldown, UnixSeconds};

/// The key holds everything: see [`row`].
const VOTES: TableDefinition<'static, &[u8], ()> = TableDefinition::new("votes");
const SERVERS: TableDefinition<'static, u32, &str> = TableDefinition::new("servers");
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// The version of the tables that a new file begins with. It stands in `meta`, under [`SCHEMA_KEY`].
const SCHEMA_OF_IPV4: u64 = 1;
/// The version from the first IPv6 vote on. A build that knows nothing of such votes must not take the file
/// for a damaged one: it refuses a newer version by name.
pub(super) const SCHEMA_OF_BOTH: u64 = 2;
const SCHEMA_KEY: &str = "schema";
/// Number of the last commit.
const SEQUENCE_KEY: &str = "sequence";
/// When the latest vote had been cast of all that were taken away.
const GONE_KEY: &str = "gone";
/// The wall time at the last commit, in milliseconds since 1970.
const KNOWN_KEY: &str = "known_ms";
/// The settings of the store: see [`Settings`].
const COOLDOWN_KEY: &str = "cooldown_minutes";
/// See [`COOLDOWN_KEY`].
const PREFIX_KEY: &str = "ipv6_prefix";
/// See [`Kept::stepped_to`]; 0 for nothing.
const STEPPED_KEY: &str = "stepped_to";

/// Votes to be dropped: from when to when they were cast, and how many at most.
pub(super) type Dropped = (UnixSeconds, UnixSeconds, usize);

/// What the tables of a file say of themselves.
pub(super) enum Found {
    /// There are none: the file is new.
    Nothing,
    /// They are none of ours.
    Foreign,
    /// They are of this newer version.
    Newer(u64),
    /// They are ours, and this is the number of their last commit.
    Sequence(u64),
}

/// Looks whose tables are in the file.
pub(super) fn find(database: &Database) -> Result<Found, redb::Error> {
    let read = database.begin_read()?;
    let meta = match read.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) if read.list_tables()?.next().is_none() => return Ok(Found::Nothing),
        Err(_) => return Ok(Found::Foreign),
    };
    let number = |key| meta.get(key).map(|value| value.map(|value| value.value()));
    Ok(match number(SCHEMA_KEY)? {
        Some(SCHEMA_OF_IPV4 | SCHEMA_OF_BOTH) => Found::Sequence(number(SEQUENCE_KEY)?.unwrap_or(0)),
        Some(newer) if newer > SCHEMA_OF_BOTH => Found::Newer(newer),
        _ => Found::Foreign,
    })
}

/// Makes the tables of a new file.
pub(super) fn make(database: &Database) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    write.open_table(VOTES)?;
    write.open_table(SERVERS)?;
    write.open_table(META)?.insert(SCHEMA_KEY, SCHEMA_OF_IPV4)?;
    Ok(write.commit()?)
}

/// Gives every server, then every vote cast after `since`; whether each row has a meaning.
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
    for row in read.open_table(VOTES)?.range(&first[..]..)? {
        let Some(vote) = row::vote(row?.0.value()) else { return Ok(false) };
        visit(Event::Vote(vote));
    }
    Ok(true)
}

/// See [`super::Store::latest_gone`].
pub(super) fn latest_gone(database: &Database) -> Result<Option<UnixSeconds>, redb::Error> {
    let latest = database.begin_read()?.open_table(META)?.get(GONE_KEY)?;
    Ok(latest.and_then(|value| u32::try_from(value.value()).ok()).map(UnixSeconds))
}

/// Whether there is a vote cast from `since` to `until`.
pub(super) fn has_cast(database: &Database, since: UnixSeconds, until: UnixSeconds) -> Result<bool, redb::Error> {
    let votes = database.begin_read()?.open_table(VOTES)?;
    let (start, end) = (row::first_at(since), row::first_after(until));
    let first = votes.range(&start[..]..&end[..])?.next().transpose()?;
    Ok(first.is_some())
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
    let stepped_to = small(STEPPED_KEY)?.filter(|to| *to > 0).map(UnixSeconds);
    let kept = number(KNOWN_KEY)?.zip(settings).map(|(known_ms, settings)| Kept { known_ms, settings, stepped_to });
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
    kept: Option<Kept>,
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
        if let Some(latest) = latest_gone_of(events) {
            let held = meta.get(GONE_KEY)?.map_or(0, |value| value.value());
            meta.insert(GONE_KEY, held.max(u64::from(latest.0)))?;
        }
        if let Some(Kept { known_ms, settings, stepped_to }) = kept {
            meta.insert(KNOWN_KEY, known_ms)?;
            meta.insert(COOLDOWN_KEY, u64::from(settings.cooldown.minutes()))?;
            meta.insert(PREFIX_KEY, u64::from(settings.ipv6_prefix.bits()))?;
            meta.insert(STEPPED_KEY, stepped_to.map_or(0, |to| u64::from(to.0)))?;
        }
    }
    write.commit()?;
    Ok(rows)
}

fn is_ipv6_vote(event: &Event) -> bool {
    matches!(event, Event::Vote(StoredVote { address: VoterAddress::V6(_), .. }))
}

fn latest_gone_of(events: &[Event]) -> Option<UnixSeconds> {
    let gone = |event: &Event| if let Event::VoteGone(vote) = event { Some(vote.voted_at) } else { None };
    events.iter().filter_map(gone).max()
}

/// What would undo `events`, as the file stands before them.
pub(super) fn inverse(database: &Database, events: &[Event]) -> Result<Vec<Event>, redb::Error> {
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
