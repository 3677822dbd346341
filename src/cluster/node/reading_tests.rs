//! Tests of readings. The tests give the pieces.

use super::{ReadingProgress, StateReading};
use crate::cluster::entry::EntryId;
use crate::cluster::node::bounds::Bounds;
use crate::cluster::reason::RebuildCause;
use crate::cluster::wire::answer::{Entry, EntryFact, LogItem, RefusalKind, StoreRefusal, StoreReply};
use crate::cluster::wire::fact::{Fact, Listing, Record, Said};
use crate::cluster::wire::last::Last;
use crate::cluster::wire::question::StoreQuestion;
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::table::CooldownTable;
use crate::vote::time::{Cooldown, UnixSeconds};

const SERVER: ServerId = ServerId(28);
const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn at(n: u64) -> Last {
    Last { n, id: EntryId { ms: n, sequence: 0 }, bits: 7 }
}

/// The store's identity, or the last entry that comes with a piece.
fn meta(last: Last) -> StoreReply {
    let (store, schema) = ("store".to_owned(), "3".to_owned());
    StoreReply::Meta { store, schema, cooldown_s: 5_400, prefix: 64, last, stamp: 20 }
}

/// The answer that the store holds this entry.
fn end(last: Last) -> StoreReply {
    let (store, schema) = ("store".to_owned(), "3".to_owned());
    StoreReply::Head { is_held: true, last, store, schema, version: String::new() }
}

/// A reading that asks for nine entries at once.
fn reading() -> StateReading {
    StateReading::new(RebuildCause::Start, &CooldownTable::default().view(), 9)
}

fn entry(n: u64, facts: Vec<EntryFact>) -> LogItem {
    let before = if n == 1 { Last::default().mark() } else { at(n - 1).mark() };
    LogItem::Entry(Entry { last: at(n), before, facts })
}

/// A reading of these pieces, from the store's identity to its answer that it holds the last entry. `None` if it was torn.
fn read(pieces: Vec<StoreReply>) -> Option<StateReading> {
    let last = Last::default();
    let mut reading = reading();
    for reply in [meta(last)].into_iter().chain(pieces).chain([end(last)]) {
        let _asked = reading.questions(&Bounds::USUAL, UnixSeconds(0));
        let progress = reading.take(reply, &Bounds::USUAL, Cooldown::USUAL, NOW);
        if matches!(progress, ReadingProgress::Torn) {
            return None;
        }
    }
    Some(reading)
}

/// The directory is read ahead of the log: the log says which of its votes are of which listing.
#[test]
fn votes_are_of_the_listing_that_the_log_has_come_to() {
    let listing = |stamp: u64| Listing::read(&format!("{stamp:016}-{stamp:016x}")).expect("a listing");
    let record = |stamp, since| {
        let token = Token::new("demo").expect("a token");
        Record { listing: listing(stamp), stamp: since, token }
    };
    let vote = |address| EntryFact::Vote(SERVER, NOW, VoterAddress::V4(Ipv4(address)));
    let said = |fact| EntryFact::Other(Said { server: SERVER, fact });
    let (gone, listed) = (|stamp| said(Fact::ListingGone(listing(stamp))), |record| said(Fact::Listed(record)));
    // The voters shown for a server that the directory has under the listing of stamp 20.
    let shown = |entries: Vec<Vec<EntryFact>>| {
        let entries = entries.into_iter().zip(1..).map(|(facts, n)| entry(n, facts)).collect();
        let reading = read(vec![
            StoreReply::Servers("0".to_owned(), vec![(SERVER, Some(record(20, 20)))]),
            StoreReply::Votes(Vec::new()),
            StoreReply::Gone(Vec::new(), 0),
            StoreReply::Log(entries),
        ])?;
        let mut shown: Vec<u32> = Vec::new();
        for entry in reading.state.table.find(|_| true) {
            if let VoterAddress::V4(Ipv4(address)) = entry.pair.address {
                shown.push(address);
            }
        }
        shown.sort_unstable();
        Some(shown)
    };
    // The end of an earlier listing comes late: the vote is of the present one.
    assert_eq!(shown(vec![vec![vote(7)], vec![gone(10)]]), Some(vec![7]));
    // The earlier listing ends behind its vote, and the present one begins.
    assert_eq!(shown(vec![vec![vote(7)], vec![gone(10)], vec![listed(record(20, 20)), vote(8)]]), Some(vec![8]));
    // Both come in one entry, with a later token: either the listing has just begun, or an earlier one has ended long before.
    assert_eq!(shown(vec![vec![vote(7)], vec![gone(10), listed(record(20, 25)), vote(8)]]), None);
    assert_eq!(shown(vec![vec![gone(10), listed(record(20, 25)), vote(8)]]), Some(vec![8]));
    // A changed token begins no listing.
    assert_eq!(shown(vec![vec![vote(7)], vec![listed(record(20, 30))]]), Some(vec![7]));
    assert_eq!(shown(vec![vec![vote(7)], vec![gone(20)]]), Some(Vec::new()));
    assert_eq!(shown(vec![vec![vote(7)], vec![gone(20)], vec![listed(record(30, 30))], vec![vote(8)]]), Some(vec![8]));
}

#[test]
fn a_whole_reading_follows_the_log_and_finds_a_hole() {
    let pieces =
        [StoreReply::Servers("0".to_owned(), Vec::new()), StoreReply::Gone(Vec::new(), 0), StoreReply::Log(Vec::new())];
    let mut reading = read(pieces.into()).expect("it is whole");
    assert!(reading.follow(vec![entry(1, Vec::new()), entry(2, Vec::new())], Cooldown::USUAL, NOW));
    assert_eq!(reading.position.n, 2);
    assert!(!reading.follow(vec![entry(4, Vec::new())], Cooldown::USUAL, NOW), "a hole");
}

/// Regression: a store went back between two pieces. The node showed facts that the store had forgotten, and no node gave them
/// back.
#[test]
fn a_reading_is_of_one_history() {
    let ends = |with_piece: Last, log: Vec<LogItem>| {
        let pieces = [
            StoreReply::Servers("0".to_owned(), Vec::new()),
            meta(Last::default()),
            StoreReply::Gone(Vec::new(), 0),
            meta(with_piece),
            StoreReply::Log(log),
        ];
        read(pieces.into()).is_some()
    };
    let at = |n, bits| Last { n, id: EntryId { ms: n, sequence: 0 }, bits };
    assert!(ends(Last::default(), vec![entry(1, Vec::new())]));
    assert!(ends(at(1, 7), vec![entry(1, Vec::new())]));
    assert!(ends(at(1, 7), vec![entry(1, Vec::new()), entry(2, Vec::new())]));
    assert!(!ends(at(1, 8), vec![entry(1, Vec::new())]), "another entry stands there");
    assert!(!ends(at(2, 7), vec![entry(1, Vec::new())]), "the log ends before");
    assert!(!ends(at(1, 7), Vec::new()), "the log ends before");
}

/// Regression: a node that read such an entry began anew, and met it again, for as long as no other entry came behind it.
#[test]
fn an_entry_out_of_turn_at_the_end_of_the_log_stops_no_reading() {
    let ends = |last| {
        let mut reading = StateReading::new(RebuildCause::Gap, &CooldownTable::default().view(), 9);
        let log = StoreReply::Log(vec![entry(2, Vec::new()), entry(9, Vec::new())]);
        let (servers, gone) = (directory(&[]), StoreReply::Gone(Vec::new(), 0));
        let replies = [meta(at(1)), servers, gone, log, end(last)];
        let ends = replies.map(|reply| {
            let _asked = reading.questions(&Bounds::USUAL, UnixSeconds(0));
            matches!(reading.take(reply, &Bounds::USUAL, Cooldown::USUAL, NOW), ReadingProgress::Whole)
        });
        (ends[4], reading.position.n, reading.cursor.ms)
    };
    assert_eq!(ends(at(2)), (true, 2, 9));
    assert_eq!(ends(at(9)), (false, 2, 9), "the store has written it");
}

/// A directory with these servers.
fn directory(servers: &[ServerId]) -> StoreReply {
    let record = |server: &ServerId| {
        let listing = Listing::read(&format!("0000000000000020-{:016x}", server.0)).expect("it is a listing");
        Record { listing, stamp: 20, token: Token::new(&format!("demo{}", server.0)).expect("it is a token") }
    };
    StoreReply::Servers("0".to_owned(), servers.iter().map(|server| (*server, Some(record(server)))).collect())
}

fn take(reading: &mut StateReading, reply: StoreReply) -> ReadingProgress {
    let bounds = Bounds { servers_max: 2, ..Bounds::USUAL };
    reading.take(reply, &bounds, Cooldown::USUAL, NOW)
}

#[test]
fn each_piece_is_asked_for_with_the_last_entry_and_votes_of_several_servers_at_once() {
    let bounds = Bounds { servers_max: 2, ..Bounds::USUAL };
    let servers = [SERVER, ServerId(29), ServerId(30)];
    let votes = |server: ServerId| StoreQuestion::Votes(server, UnixSeconds(5));
    let no_votes = || StoreReply::Votes(Vec::new());
    let mut reading = reading();
    // The questions at each step, and whether the reading may have more to ask before the answer.
    let asked = |reading: &mut StateReading| (reading.questions(&bounds, UnixSeconds(5)), reading.is_reading_votes());
    assert_eq!(asked(&mut reading), (vec![StoreQuestion::Meta], false));
    take(&mut reading, meta(at(1)));
    let directories = StoreQuestion::Servers("0".to_owned(), bounds.records_max);
    assert_eq!(asked(&mut reading), (vec![directories, StoreQuestion::Meta], false));
    take(&mut reading, directory(&servers));
    assert_eq!(asked(&mut reading), (vec![votes(servers[0]), votes(servers[1]), StoreQuestion::Meta], true));
    assert_eq!(asked(&mut reading), (vec![], true), "two servers are asked about");
    take(&mut reading, no_votes());
    assert_eq!(asked(&mut reading), (vec![votes(servers[2]), StoreQuestion::Meta], true));
    take(&mut reading, no_votes());
    assert_eq!(asked(&mut reading), (vec![], true), "no server is left");
    take(&mut reading, no_votes());
    let gone = StoreQuestion::Gone(bounds.records_max, 0);
    assert_eq!(asked(&mut reading), (vec![gone, StoreQuestion::Meta], false));
    take(&mut reading, StoreReply::Gone(Vec::new(), 0));
    assert_eq!(asked(&mut reading), (vec![StoreQuestion::Log(at(1).id, 9, None)], false));
    take(&mut reading, StoreReply::Log(Vec::new()));
    assert_eq!(asked(&mut reading), (vec![StoreQuestion::Head(at(1))], false));
}

#[test]
fn a_reading_skips_votes_of_a_strange_type_and_ends_at_every_other_refusal() {
    let refused = |pieces: Vec<StoreReply>, text: &str| {
        let mut reading = reading();
        for piece in pieces {
            assert!(!matches!(take(&mut reading, piece), ReadingProgress::Torn));
        }
        let refusal = StoreRefusal { kind: RefusalKind::Other, text: text.to_owned() };
        let told = match take(&mut reading, StoreReply::Refused(refusal)) {
            ReadingProgress::More => None,
            ReadingProgress::Refused(why) => Some(why),
            _ => panic!("it is neither refused nor read on"),
        };
        (told, reading.unreadable)
    };
    let of_votes = || vec![meta(at(1)), directory(&[SERVER])];
    assert_eq!(refused(of_votes(), "WRONGTYPE a list"), (None, vec!["vs:{0}:s:28 (WRONGTYPE a list)".to_owned()]));
    assert_eq!(refused(of_votes(), "OOM"), (Some("OOM".to_owned()), vec![]));
    assert_eq!(refused(vec![meta(at(1))], "WRONGTYPE a list"), (Some("WRONGTYPE a list".to_owned()), vec![]));
}

#[test]
fn a_log_goes_on_behind_an_answer_with_as_many_entries_as_were_asked_for() {
    let mut reading = reading();
    let entries = |from, to| StoreReply::Log((from..=to).map(|n| entry(n, Vec::new())).collect());
    let pieces = [meta(Last::default()), directory(&[]), meta(at(11)), StoreReply::Gone(Vec::new(), 0)];
    for piece in pieces.into_iter().chain([entries(1, 9)]) {
        assert!(!matches!(take(&mut reading, piece), ReadingProgress::Torn));
    }
    let asked = |reading: &mut StateReading| reading.questions(&Bounds::USUAL, NOW);
    assert_eq!(asked(&mut reading), [StoreQuestion::Log(at(9).id, 9, None)]);
    assert!(matches!(take(&mut reading, entries(10, 11)), ReadingProgress::More));
    assert_eq!(asked(&mut reading), [StoreQuestion::Head(at(11))]);
}

#[test]
fn a_reading_shows_the_servers_of_the_directory() {
    let mut reading = reading();
    assert!(reading.servers().is_empty());
    take(&mut reading, meta(at(1)));
    take(&mut reading, directory(&[SERVER]));
    let servers = reading.servers();
    assert_eq!((servers.len(), servers.token(SERVER).map(Token::as_str)), (1, Some("demo28")));
}
