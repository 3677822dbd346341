//! Reads the whole state, while others write: the end of the log and the directory at one moment,
//! then every server's votes, then the log from that moment on. The votes are not of one moment,
//! but each entry is an assignment: replayed in order over a state at or behind its start, every
//! pair ends on its last word.

use std::collections::{BTreeSet, HashMap};

use redis::{Value, cmd};

use super::address::{Host, StoreAddress};
use super::bulk_reader;
use super::entry::{self, EntryId, ListingId, LogEntry, Position, items, number, text};
use super::feed_error::FeedError;
use super::keys;
use super::link::{LinkError, StoreLink};
use super::primary::Primary;
use super::reason::Reason;
use super::state::FullState;
use super::stream::Tail;
use crate::readiness::Readiness;
use crate::store::Event;
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::table::{CooldownTable, Cooling, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};

/// The version of the store's keys and records that this program reads.
pub const SCHEMA: u64 = 2;
/// Servers that are asked for together; the next ones are asked for while these are read.
const SERVERS_AT_ONCE: usize = 256;
/// Records of the directory that come in one reply, about: at most 1.6 MB, which takes a few milliseconds.
const RECORDS_AT_ONCE: usize = 10_000;

/// Where the store's log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The store's time, in microseconds since 1970.
    pub now_us: i64,
    /// The newest entry of ours.
    pub position: Position,
    /// The store's id; empty where it has none.
    pub store: String,
}

/// A state as the store has it.
pub struct StoreState {
    /// What nodes show.
    pub full: FullState,
    /// The listing of each server.
    pub listings: Listings,
    /// How far it goes.
    pub position: Position,
    /// The store's id.
    pub store: String,
}

/// The listing of each server, where it has an id.
#[derive(Default)]
pub struct Listings(HashMap<ServerId, ListingId>);

impl Listings {
    /// That of a server.
    #[must_use]
    pub fn of(&self, server: ServerId) -> Option<ListingId> {
        self.0.get(&server).copied()
    }

    /// Takes in what entries say of listings, and gives their events.
    pub fn take_in(&mut self, entries: Vec<LogEntry>) -> Vec<Event> {
        let note = |LogEntry { event, listing, .. }: LogEntry| {
            match (&event, listing) {
                (Event::Server(server, _), Some(listing)) => drop(self.0.insert(*server, listing)),
                (Event::Server(server, _) | Event::ServerRemoved(server), _) => drop(self.0.remove(server)),
                _ => {}
            }
            event
        };
        entries.into_iter().map(note).collect()
    }
}

/// Where a reading of the store begins.
pub struct Snap {
    /// Where the log ended.
    pub head: LogEnd,
    /// The length of the store's cooldown, in seconds.
    pub cooldown_s: u64,
    /// How many bits of an IPv6 address tell one voter from another; `None` for what makes no sense.
    pub prefix: Option<Ipv6Prefix>,
}

/// Asks where the log ends.
///
/// # Errors
/// Either kind.
pub fn head(link: &mut StoreLink) -> Result<LogEnd, LinkError> {
    let reply = link.ask(cmd("FCALL_RO").arg("vote_status_head").arg(2).arg(keys::LOG).arg(keys::META))?;
    items(&reply).and_then(read_head).ok_or_else(|| link.strange("an end of the log"))
}

fn read_head(fields: &[Value]) -> Option<LogEnd> {
    let [seconds, us, n, id, store, ..] = fields else { return None };
    let position = Position { n: number(n)?, id: EntryId::read(text(id)?)? };
    let now_us = i64::try_from(number(seconds)?.checked_mul(1_000_000)?.checked_add(number(us)?)?).ok()?;
    Some(LogEnd { now_us, position, store: text(store)?.to_owned() })
}

/// Asks for the end of the log, and for what the store is.
///
/// # Errors
/// [`FeedError::Link`]
pub fn snap(link: &mut StoreLink) -> Result<Snap, FeedError> {
    let head = head(link)?;
    let held = link.ask(cmd("HMGET").arg(keys::META).arg("schema").arg("cd").arg("v6"))?;
    let Some([schema, cooldown_s, bits]) = items(&held) else {
        return Err(FeedError::Link(link.strange("a cooldown")));
    };
    let prefix = read_prefix(bits);
    let (schema, cooldown_s) = (number(schema).unwrap_or_default(), number(cooldown_s).unwrap_or_default());
    if schema != SCHEMA && !head.store.is_empty() {
        let host = link.host();
        return Err(FeedError::unfit(format!(
            "the store at {host} has schema {schema}, and this version knows {SCHEMA}: run the version that made it, or make a new store in an empty Redis"
        )));
    }
    Ok(Snap { head, cooldown_s, prefix })
}

/// The prefix of the store, where it is one.
#[must_use]
pub fn read_prefix(bits: &Value) -> Option<Ipv6Prefix> {
    Ipv6Prefix::from_bits(u8::try_from(number(bits)?).ok()?)
}

/// Reads the directory in pieces, while others change it: one reply with all of it would hold the store
/// up, for seconds where there are a million servers. What changes meanwhile is in the log behind the
/// head that was read before. A token that two servers seem to share stays with the one that was read first,
/// until the log tells; all their ids are given, as the votes of both are read.
fn read_servers(link: &mut StoreLink) -> Result<(Snapshot, Listings, BTreeSet<ServerId>), FeedError> {
    let (mut servers, mut listings, mut ids) = (Snapshot::default(), Listings::default(), BTreeSet::new());
    let mut cursor = "0".to_owned();
    loop {
        let reply = link.ask(cmd("HSCAN").arg(keys::DIRECTORY).arg(&cursor).arg("COUNT").arg(RECORDS_AT_ONCE))?;
        let next = match items(&reply) {
            Some([next, records]) => text(next).zip(items(records)),
            _ => None,
        };
        let added =
            next.and_then(|(next, records)| add_servers(&mut servers, &mut listings, &mut ids, records).map(|()| next));
        let Some(next) = added else { return Err(FeedError::Link(link.strange("a directory"))) };
        if next == "0" {
            return Ok((servers, listings, ids));
        }
        next.clone_into(&mut cursor);
    }
}

fn add_servers(
    servers: &mut Snapshot,
    listings: &mut Listings,
    ids: &mut BTreeSet<ServerId>,
    records: &[Value],
) -> Option<()> {
    for pair in records.chunks_exact(2) {
        let (server, record) = (ServerId(u32::try_from(number(&pair[0])?).ok()?), text(&pair[1])?);
        let _is_first = servers.insert(server, entry::token(record)?);
        ids.insert(server);
        listings.0.extend(entry::listing(record).map(|listing| (server, listing)));
    }
    Some(())
}

/// Reads the whole state into `table`, an empty one. `readiness` is told of votes as they come.
///
/// # Errors
/// Where it cannot be read whole.
pub fn read(
    primary: &mut Primary,
    address: &StoreAddress,
    mut table: CooldownTable,
    cooldown: Cooldown,
    readiness: &Readiness,
) -> Result<StoreState, FeedError> {
    let snap = snap(&mut primary.link)?;
    check_lengths(&snap, primary.link.host(), cooldown, table.view().prefix())?;
    let head = snap.head;
    let now = UnixSeconds(u32::try_from(head.now_us / 1_000_000).unwrap_or(u32::MAX));
    let (servers, listings, ids) = read_servers(&mut primary.link)?;
    let ids: Vec<ServerId> = ids.into_iter().collect();
    read_votes(&mut primary.beside(address)?, &ids, now, cooldown, &mut table, readiness)?;
    let LogEnd { position, store, .. } = head;
    let mut state = StoreState { full: FullState { table, servers }, listings, position, store };
    catch_up(&mut primary.link, &mut state, cooldown, None)?;
    Ok(state)
}

/// Whether a node with these settings may follow the store: all its nodes have to tell voters apart alike.
fn check_lengths(snap: &Snap, host: &Host, cooldown: Cooldown, prefix: Ipv6Prefix) -> Result<(), FeedError> {
    if snap.head.store.is_empty() {
        return Ok(());
    }
    if snap.cooldown_s != u64::from(cooldown.seconds()) {
        let minutes = snap.cooldown_s / 60;
        return Err(FeedError::unfit(format!(
            "the store at {host} has a cooldown of {minutes} minutes, and this node was started with {}: give --cooldown-minutes {minutes}",
            cooldown.minutes()
        )));
    }
    match snap.prefix {
        Some(held) if held == prefix => Ok(()),
        Some(held) => Err(FeedError::unfit(format!(
            "the store at {host} tells IPv6 voters apart by {} bits, and this node was started with {}: give --ipv6-prefix {}",
            held.bits(),
            prefix.bits(),
            held.bits()
        ))),
        None => Err(FeedError::unfit(format!(
            "the store at {host} has no IPv6 prefix from 32 to 64: see HGET {} v6",
            keys::META
        ))),
    }
}

fn read_votes(
    link: &mut StoreLink,
    servers: &[ServerId],
    now: UnixSeconds,
    cooldown: Cooldown,
    table: &mut CooldownTable,
    readiness: &Readiness,
) -> Result<(), LinkError> {
    // Votes of this second or before are over.
    let until = now.minus(cooldown.seconds());
    let questions: Vec<Vec<u8>> = servers.chunks(SERVERS_AT_ONCE).map(|servers| ask_for(servers, until)).collect();
    let mut questions = questions.iter();
    let mut loader = table.loader();
    if let Some(first) = questions.next() {
        link.send(first)?;
    }
    for servers in servers.chunks(SERVERS_AT_ONCE) {
        if let Some(next) = questions.next() {
            link.send(next)?;
        }
        for server in servers {
            let mut rows = 0;
            let read = bulk_reader::votes(link, &mut |address, voted_at| {
                let expires_at = cooldown.expires_at(UnixSeconds(voted_at));
                loader.put(Cooling { pair: Pair { server: *server, address }, expires_at });
                rows += 1;
            });
            match read {
                // Votes for this server are refused as well; the others go on.
                Err(LinkError::Refused(Reason::Garbled, why)) => log::error!(
                    "the votes of server {server} cannot be read, and are not shown: {why}: {}; put the key right, or UNLINK it",
                    keys::claims(*server)
                ),
                read => read?,
            }
            readiness.add_loaded_rows(rows);
        }
    }
    loader.finish();
    Ok(())
}

fn ask_for(servers: &[ServerId], until: UnixSeconds) -> Vec<u8> {
    let mut packed = Vec::new();
    for server in servers {
        let mut command = cmd("ZRANGEBYSCORE");
        command.arg(keys::claims(*server)).arg(format!("({}", until.0)).arg("+inf").arg("WITHSCORES");
        command.write_packed_command(&mut packed);
    }
    packed
}

/// Takes in the log from where the state ends to its end, or up to the entry of number `until`. The end is where it was
/// at the last answer: a store that is written to at every moment and lies far away has always a newer entry by then.
///
/// # Errors
/// Where it cannot be read, or has a hole.
pub fn catch_up(
    link: &mut StoreLink,
    state: &mut StoreState,
    cooldown: Cooldown,
    until: Option<u64>,
) -> Result<(), FeedError> {
    let mut tail = Tail::at(state.position);
    while until.is_none_or(|until| state.position.n < until) {
        let mut read = tail.advance(link, false)?;
        read.entries.retain(|entry| until.is_none_or(|until| entry.position.n <= until));
        state.position = read.entries.last().map_or(state.position, |entry| entry.position);
        state.full.apply(&state.listings.take_in(read.entries), cooldown);
        if read.is_all {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redis::Value;

    use super::{Listings, add_servers};
    use crate::vote::directory::Snapshot;
    use crate::vote::id::ServerId;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn directories() {
        let mut servers = Snapshot::default();
        let (mut listings, mut ids) = (Listings::default(), BTreeSet::new());
        let mut add = |records: &[Value]| add_servers(&mut servers, &mut listings, &mut ids, records);
        // The same once more, as a reading in pieces may give it; and a token that has moved on meanwhile.
        assert!(add(&[text("28"), text("v1;demo"), text("7"), text("v1;seven")]).is_some());
        assert!(add(&[text("28"), text("v1;demo"), text("8"), text("v1;demo")]).is_some());
        assert!(add(&[text("28"), text("v9;demo")]).is_none());
        assert!(add(&[text("-1"), text("v1;demo")]).is_none());
        assert_eq!(servers.find(b"demo"), Some(ServerId(28)));
        assert_eq!(servers.len(), 2);
        // Regression: the votes of server 8, which the log lists next, were not read.
        assert_eq!(ids, BTreeSet::from([7, 8, 28].map(ServerId)));
    }
}
