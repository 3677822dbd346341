//! Entries of the log, and records of the directory, as they stand in the store: read into events.

use std::fmt;

use redis::Value;

use crate::random;
use crate::store::{Event, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::Ipv6Network;
use crate::vote::table::Pair;
use crate::vote::time::UnixSeconds;

/// The name of an entry of the store's log: names rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// Milliseconds by the store's clock.
    pub ms: u64,
    /// Tells apart what came in one millisecond.
    pub sequence: u64,
}

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.ms, self.sequence)
    }
}

impl EntryId {
    /// The entry of this name, where it is one.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        let (ms, sequence) = name.split_once('-')?;
        Some(Self { ms: ms.parse().ok()?, sequence: sequence.parse().ok()? })
    }
}

/// How far a state has come: an entry, and its number in a count without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The entry's number; 0 before the first one.
    pub n: u64,
    /// Its name.
    pub id: EntryId,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number and its name.
    pub position: Position,
    /// How many entries of the same vote follow: a voter with several addresses has one for each.
    pub more: u32,
    /// What it says.
    pub event: Event,
    /// Of a server: the id of its listing.
    pub listing: Option<ListingId>,
}

/// Tells one listing of a server from every other one of any server: a server that was removed and listed again has
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListingId(u64);

impl ListingId {
    /// A new one. Without random numbers the time makes it: two nodes never make the same one for a server within a
    /// microsecond.
    #[must_use]
    pub fn draw(now_us: u64) -> Self {
        Self(random::bits().map_or(now_us, |bits| u128::from_be_bytes(bits) as u64))
    }

    fn read(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16).map(Self)
    }
}

impl fmt::Display for ListingId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// What stands at one place of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryLine {
    /// An entry of ours.
    Ours(LogEntry),
    /// One that another program wrote: it has no number, so it is no part of the count either.
    Strange(EntryId),
    /// One with a number that says what this version cannot read.
    Unreadable(EntryId),
}

/// The lines in a reply to `XREAD` of one log; `None` where the reply is no such thing.
#[must_use]
pub fn lines(reply: &Value) -> Option<Vec<EntryLine>> {
    if *reply == Value::Nil {
        return Some(Vec::new());
    }
    let [log] = items(reply)? else { return None };
    let [_name, lines] = items(log)? else { return None };
    items(lines)?.iter().map(line).collect()
}

/// The items of an array.
#[must_use]
pub fn items(value: &Value) -> Option<&[Value]> {
    if let Value::Array(items) = value { Some(items) } else { None }
}

/// A text of a reply.
#[must_use]
pub fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// A number of a reply, which may come as text.
#[must_use]
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        other => text(other)?.parse().ok(),
    }
}

/// One line of the log; `None` where it is no such thing.
#[must_use]
pub fn line(value: &Value) -> Option<EntryLine> {
    let [id, fields] = items(value)? else { return None };
    let id = EntryId::read(text(id)?)?;
    let fields = EntryFields(items(fields)?);
    let Some(n) = fields.first("n").and_then(|n| n.parse().ok()) else { return Some(EntryLine::Strange(id)) };
    let more = fields.number("m").unwrap_or(0);
    let listing = fields.text("r").and_then(listing);
    let ours = |event| EntryLine::Ours(LogEntry { position: Position { n, id }, more, event, listing });
    Some(fields.event(id).map_or(EntryLine::Unreadable(id), ours))
}

/// Names and values in turn; few, so that looking through them is the quickest way.
struct EntryFields<'a>(&'a [Value]);

impl EntryFields<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let pair = self.0.chunks_exact(2).find(|pair| text(&pair[0]) == Some(name))?;
        text(&pair[1])
    }

    /// The value of the first field, where it has this name.
    fn first(&self, name: &str) -> Option<&str> {
        let [field, value, ..] = self.0 else { return None };
        if text(field) == Some(name) { text(value) } else { None }
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.text(name)?.parse().ok()
    }

    fn event(&self, id: EntryId) -> Option<Event> {
        if let Some(server) = self.number("d").map(ServerId) {
            return match self.text("r")? {
                "" => Some(Event::ServerRemoved(server)),
                record => Some(Event::Server(server, token(record)?)),
            };
        }
        let (server, address) = (self.number("s")?, address(self.text("i")?)?);
        let pair = Pair { server: ServerId(server), address };
        let vote = |voted_at| Some(StoredVote { pair, voted_at });
        if let Some(cancelled) = self.text("c") {
            return vote(UnixSeconds(cancelled.parse().ok()?)).map(Event::VoteRemoved);
        }
        let voted_at = match self.text("t") {
            Some(seconds) => seconds.parse().ok()?,
            None => u32::try_from(id.ms / 1_000).ok()?,
        };
        vote(UnixSeconds(voted_at)).map(Event::Vote)
    }
}

/// What an address is called in the store: an IPv4 address is its number, and an IPv6 network its first 64 bits
/// in 16 hexadecimal digits.
#[must_use]
pub fn member(address: VoterAddress) -> String {
    match address {
        VoterAddress::V4(address) => address.0.to_string(),
        VoterAddress::V6(network) => format!("{:016x}", network.0),
    }
}

/// The address that is called so in the store.
#[must_use]
pub fn address(member: &str) -> Option<VoterAddress> {
    match member.len() {
        16 if member.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            u64::from_str_radix(member, 16).ok().map(|bits| VoterAddress::V6(Ipv6Network(bits)))
        }
        1..=10 if member.bytes().all(|digit| digit.is_ascii_digit()) => {
            member.parse().ok().map(|number| VoterAddress::V4(Ipv4(number)))
        }
        _ => None,
    }
}

/// The listing in a directory record.
#[must_use]
pub fn listing(record: &str) -> Option<ListingId> {
    record.strip_prefix("v1;")?.split(';').nth(1).and_then(ListingId::read)
}

/// The token in a directory record: `v1;token;listing`, and whatever a later version puts behind another `;`.
#[must_use]
pub fn token(record: &str) -> Option<Token> {
    let rest = record.strip_prefix("v1;")?;
    Token::stored(rest.split(';').next()?)
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::{EntryId, EntryLine, ListingId, address, lines, listing, member, token};
    use crate::store::{Event, StoredVote};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Network;
    use crate::vote::table::Pair;
    use crate::vote::time::UnixSeconds;

    /// A reply to XREAD with one entry of these fields, in one word each.
    fn reply(id: &str, fields: &str) -> Value {
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let fields: Vec<&str> = fields.split(' ').collect();
        let body: String = fields.iter().map(|field| bulk(field.trim_matches('\''))).collect();
        let wire = format!("*1\r\n*2\r\n{}*1\r\n*2\r\n{}*{}\r\n{body}", bulk("log"), bulk(id), fields.len());
        parse_redis_value(wire.as_bytes()).expect("a reply")
    }

    fn event(id: &str, fields: &str) -> Option<Event> {
        let line = lines(&reply(id, fields)).and_then(|mut lines| lines.pop());
        if let Some(EntryLine::Ours(entry)) = line { Some(entry.event) } else { None }
    }

    #[test]
    fn names_of_entries() {
        assert_eq!(EntryId::read("1795172696123-7"), Some(EntryId { ms: 1_795_172_696_123, sequence: 7 }));
        assert_eq!(EntryId { ms: 12, sequence: 0 }.to_string(), "12-0");
        for bad in ["", "1", "1-", "-1", "1-x", "1-2-3"] {
            assert_eq!(EntryId::read(bad), None, "{bad}");
        }
        assert!(EntryId { ms: 2, sequence: 0 } > EntryId { ms: 1, sequence: 9 });
    }

    #[test]
    fn what_others_wrote_is_told_from_what_cannot_be_read() {
        let line = |fields| lines(&reply("5-0", fields)).and_then(|mut lines| lines.pop());
        let id = EntryId { ms: 5, sequence: 0 };
        for fields in ["s 28 i 7", "n x s 28 i 7", "n -1 s 28 i 7", "s 28 n 1 i 7", "message hello"] {
            assert_eq!(line(fields), Some(EntryLine::Strange(id)), "{fields}");
        }
        for fields in [
            "n 1 s 28",
            "n 1 s -1 i 7",
            "n 1 s 28 i 4294967296",
            "n 1 d 28",
            "n 1 d 28 r v2;demo",
            "n 1 d 28 r v1;",
            "n 1 s 28 i 7 t x",
        ] {
            assert_eq!(line(fields), Some(EntryLine::Unreadable(id)), "{fields}");
        }
        assert_eq!(lines(&reply("x", "n 1 s 28 i 7")), None);
        assert_eq!(lines(&Value::Int(1)), None);
    }

    #[test]
    fn addresses_of_both_families_are_told_apart_by_their_length() {
        let network = VoterAddress::V6(Ipv6Network(0x2001_0db8_0001_0000));
        for (text, expected) in [
            ("0", VoterAddress::V4(Ipv4(0))),
            ("4294967295", VoterAddress::V4(Ipv4(u32::MAX))),
            ("20010db800010000", network),
            ("0000000000000007", VoterAddress::V6(Ipv6Network(7))),
        ] {
            assert_eq!((address(text), member(expected)), (Some(expected), text.to_owned()));
        }
        for bad in ["", "-1", "+7", "4294967296", "00000000007", "20010db80001000", "+0010db800010000", "demo"] {
            assert_eq!(address(bad), None, "{bad}");
        }
        let pair = Pair { server: ServerId(28), address: network };
        let vote = StoredVote { pair, voted_at: UnixSeconds(1_795_172_690) };
        let said = |fields: &str| event("5-0", &format!("n 1 s 28 i 20010db800010000 {fields}"));
        assert_eq!(said("t 1795172690"), Some(Event::Vote(vote)));
        assert_eq!(said("c 1795172690"), Some(Event::VoteRemoved(vote)));
    }

    #[test]
    fn an_entry_says_how_many_of_the_same_vote_follow() {
        let more = |fields| match lines(&reply("5-0", fields)).and_then(|mut lines| lines.pop()) {
            Some(EntryLine::Ours(entry)) => entry.more,
            other => panic!("{other:?}"),
        };
        assert_eq!((more("n 1 s 28 i 7 m 2"), more("n 1 s 28 i 7")), (2, 0));
    }

    #[test]
    fn records() {
        assert_eq!(token("v1;demo"), Token::new("demo"));
        assert_eq!(token("v1;demo;00000000000000ab;more"), Token::new("demo"));
        assert_eq!(token("v1;a+b==;00000000000000ab"), Token::new("a+b=="));
        // Version 1.0.0 took it.
        assert_eq!(token("v1;..;00000000000000ab"), Token::stored(".."));
        assert_eq!(listing("v1;demo;00000000000000ab;more"), Some(ListingId(0xab)));
        assert_eq!([listing("v1;demo"), listing("v1;demo;"), listing("v1;demo;ab"), listing("")], [None; 4]);
        assert_eq!(ListingId(0xab).to_string(), "00000000000000ab");
        for bad in ["", "v1", "v1;", "demo", "v1;a b"] {
            assert_eq!(token(bad), None, "{bad}");
        }
    }
}
