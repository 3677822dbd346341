//! Questions as words, and replies as values.

use super::answer::{Done, Entry, EntryFact, Given, Gone, LogItem, NodeRecord, RefusalKind, StoreAnswer, StoreReply};
use super::fact::{Fact, Listing, Record, Said};
use super::last::Last;
use super::question::{StoreCall, StoreQuestion, Terms};
use crate::cluster::entry::EntryId;
use crate::cluster::resp::Value;
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::time::UnixSeconds;

const RECORD: &str = "v2;1800000000000000-00000000000000ab;1800000000000000;demo";
const VOTER: VoterAddress = VoterAddress::V4(Ipv4(7));
const AT: UnixSeconds = UnixSeconds(1_800_000_000);

fn bulk(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

fn texts(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| bulk(word)).collect())
}

/// A reply of a function: the store's time, and these words.
fn timed(words: &[&str]) -> Value {
    let Value::Array(mut items) = texts(words) else { unreachable!() };
    items.insert(0, Value::Int(1_800_000_000_123));
    Value::Array(items)
}

fn last() -> Last {
    Last { n: 12, id: EntryId { ms: 1_800_000_000_000, sequence: 3 }, bits: -5_123_456_789 }
}

fn terms() -> Terms {
    Terms { store: "store".to_owned(), until_ms: Some(5), last: last(), bits: -7 }
}

fn record() -> Record {
    Record::read(RECORD).expect("a record")
}

fn done(call: StoreCall, words: &[&str]) -> StoreReply {
    let answer = StoreAnswer::read(&StoreQuestion::Change(ServerId(28), call, terms()), &timed(words));
    assert_eq!(answer.now_ms, Some(1_800_000_000_123));
    answer.reply
}

#[test]
fn a_call_says_all_that_the_store_has_to_know() {
    let call = StoreCall::Give(vec![
        Fact::ListingGone(record().listing),
        Fact::Vote(record().listing, AT, VOTER),
        Fact::Vote(record().listing, AT, VoterAddress::V4(Ipv4(8))),
    ]);
    let words = StoreQuestion::Change(ServerId(28), call, Terms { until_ms: None, ..terms() }).words();
    let listing = "1800000000000000-00000000000000ab";
    let expected = [
        "FCALL",
        "vs3_give",
        "6",
        "vs:{0}:log",
        "vs:{0}:s:28",
        "vs:{0}:dir",
        "vs:{0}:tok",
        "vs:{0}:meta",
        "vs:{0}:gone",
        "store",
        "",
        "12 1800000000000-3 -5123456789",
        "-7",
        "28",
        "x",
        listing,
        "l",
        listing,
        "v",
        "7:1800000000",
        "v",
        "8:1800000000",
    ];
    assert_eq!(words, expected);
    let words = StoreQuestion::Gone(10, 2).words();
    assert_eq!(words[2..4], ["-30", "-21"]);
}

#[test]
fn what_became_of_a_change() {
    let made = "13 1800000000001-0 -7";
    let entry = Last::read(made);
    let cast = || StoreCall::Cast(None, vec![VOTER]);
    assert_eq!(
        done(cast(), &["recorded", made, "1800000000", RECORD]),
        StoreReply::Done(Done::Recorded(AT, record()), entry)
    );
    assert_eq!(done(cast(), &["cooldown", "", "1800000000", "7"]), StoreReply::Done(Done::InCooldown(VOTER, AT), None));
    assert_eq!(done(cast(), &["over", ""]), StoreReply::Done(Done::Over, None));
    assert_eq!(done(cast(), &["future", ""]), StoreReply::Done(Done::InFuture, None));
    assert_eq!(done(StoreCall::Cancel(VOTER, AT), &["other", "", ""]), StoreReply::Done(Done::OtherVote(None), None));
    assert_eq!(done(StoreCall::Cancel(VOTER, AT), &["cancelled", made]), StoreReply::Done(Done::Cancelled(AT), entry));
    let remove = StoreCall::Remove(record().listing);
    assert_eq!(done(remove, &["other", "", RECORD]), StoreReply::Done(Done::OtherRecord(Some(record())), None));
    let facts = vec![Fact::Listed(record()), Fact::Vote(record().listing, AT, VOTER), Fact::VoteGone(AT, VOTER)];
    let given = ["given", made, "made", RECORD, "ok", "", "later", "1800000001", "over", ""];
    let later = Fact::Vote(record().listing, UnixSeconds(1_800_000_001), VOTER);
    let expected = vec![Given::Stands, Given::Outweighed(later), Given::Over];
    assert_eq!(done(StoreCall::Give(facts), &given), StoreReply::Done(Done::Given(expected), entry));
    let votes = [9, 7].map(|address| Fact::Vote(record().listing, AT, VoterAddress::V4(Ipv4(address))));
    let given = ["given", "", "ok", "", "gone", "", "ended", ""];
    let StoreReply::Done(Done::Given(given), None) = done(StoreCall::Give(votes.to_vec()), &given) else { panic!() };
    let by = [Fact::VoteGone(AT, VoterAddress::V4(Ipv4(9))), Fact::ListingGone(record().listing)];
    assert_eq!(given, by.map(Given::Outweighed));
    for (words, kind) in [
        (&["VSLOST", "why"][..], RefusalKind::Lost),
        (&["VSKEY", "why"], RefusalKind::Key),
        (&["VSSTORE", "why"], RefusalKind::OtherStore),
        (&["VSHALF", "why"], RefusalKind::InDoubt),
        (&["VSFAILED", "why"], RefusalKind::Other),
        (&["what", ""], RefusalKind::InDoubt),
    ] {
        let StoreReply::Refused(refusal) = done(cast(), words) else { panic!("{words:?}") };
        assert_eq!(refusal.kind, kind, "{words:?}");
    }
    let error = Value::Error("OOM no room".to_owned());
    let answer = StoreAnswer::read(&StoreQuestion::Change(ServerId(28), cast(), terms()), &error);
    assert!(matches!(answer.reply, StoreReply::Refused(refusal) if refusal.kind == RefusalKind::Other));
    let error = Value::Error("READONLY a replica".to_owned());
    let answer = StoreAnswer::read(&StoreQuestion::Meta, &error);
    assert!(matches!(answer.reply, StoreReply::Refused(refusal) if refusal.kind == RefusalKind::Elsewhere));
}

/// Each word of a function, and the calls that it has a meaning for.
#[test]
fn each_word_is_an_outcome_of_its_calls_alone() {
    let list = |before| StoreCall::List { before, token: record().token, listing_bits: 1, stamp: 2 };
    let calls = [
        StoreCall::Cast(None, vec![VOTER]),
        StoreCall::Record(AT, vec![VOTER]),
        StoreCall::Cancel(VOTER, AT),
        list(None),
        list(Some(record())),
        StoreCall::Remove(record().listing),
    ];
    let outcomes = |words: &[&str]| {
        calls.clone().map(|call| match done(call, words) {
            StoreReply::Done(done, None) => Some(done),
            StoreReply::Refused(_) => None,
            other => panic!("{other:?}"),
        })
    };
    let recorded = || Some(Done::Recorded(AT, record()));
    assert_eq!(outcomes(&["recorded", "", "1800000000", RECORD]), [recorded(), recorded(), None, None, None, None]);
    let unchanged = Some(Done::Unchanged(AT));
    assert_eq!(outcomes(&["unchanged", "", "1800000000"]), [None, unchanged, None, None, None, None]);
    let cooling = Some(Done::InCooldown(VOTER, AT));
    assert_eq!(outcomes(&["cooldown", "", "1800000000", "7"]), [cooling, None, None, None, None, None]);
    let (was, is) = (Some(Done::WasCancelled), Some(Done::Cancelled(AT)));
    assert_eq!(outcomes(&["cancelled", ""]), [None, was, is, None, None, None]);
    let over = || Some(Done::Over);
    assert_eq!(outcomes(&["over", ""]), [over(), over(), None, None, None, None]);
    let future = || Some(Done::InFuture);
    assert_eq!(outcomes(&["future", ""]), [future(), future(), None, None, None, None]);
    assert_eq!(outcomes(&["unlisted", ""]), [(); 6].map(|()| Some(Done::Unlisted)));
    assert_eq!(outcomes(&["many", ""]), [Some(Done::TooMany), None, None, None, None, None]);
    let (listed, changed) = (Some(Done::Listed(record())), Some(Done::TokenChanged(record())));
    assert_eq!(outcomes(&["listed", "", RECORD]), [None, None, None, listed, changed, None]);
    let same = || Some(Done::SameToken(record()));
    assert_eq!(outcomes(&["unchanged", "", RECORD]), [None, None, None, same(), same(), None]);
    let in_use = || Some(Done::TokenInUse);
    assert_eq!(outcomes(&["in_use", ""]), [None, None, None, in_use(), in_use(), None]);
    let removed = Some(Done::Removed(record().listing));
    assert_eq!(outcomes(&["removed", ""]), [None, None, None, None, None, removed]);
    let other = || Some(Done::OtherRecord(None));
    assert_eq!(outcomes(&["other", "", ""]), [None, None, Some(Done::OtherVote(None)), other(), other(), other()]);
    assert_eq!(outcomes(&["nonsense", "", "", ""]), [const { None }; 6]);
}

/// A listing that was given back is outweighed by a later one that stands, and else by its own end.
#[test]
fn what_became_of_facts_that_were_given_back() {
    let later = "v2;1900000000000000-00000000000000cd;1900000000000000;other";
    let earlier = "v2;1700000000000000-00000000000000cd;1700000000000000;other";
    let given = |fact, word: &str, now: &str| {
        let mut words = vec!["given", ""];
        if matches!(fact, Fact::Vote(..)) {
            words.extend(["ok", ""]);
        }
        words.extend([word, now]);
        match done(StoreCall::Give(vec![fact]), &words) {
            StoreReply::Done(Done::Given(mut given), None) => given.remove(0),
            other => panic!("{other:?}"),
        }
    };
    let listed = || Fact::Listed(record());
    let stands = Fact::Listed(Record::read(later).expect("a record"));
    assert_eq!(given(listed(), "ended", later), Given::Outweighed(stands));
    for now in [earlier, RECORD, ""] {
        assert_eq!(given(listed(), "ended", now), Given::Outweighed(Fact::ListingGone(record().listing)), "{now}");
    }
    let vote = || Fact::Vote(record().listing, AT, VOTER);
    assert_eq!(given(vote(), "unlisted", ""), Given::Unlisted);
    assert_eq!(given(vote(), "ended", ""), Given::Outweighed(Fact::ListingGone(record().listing)));
    assert_eq!(given(vote(), "has", ""), Given::Stands);
}

#[test]
fn of_two_records_with_one_token_the_later_keeps_it() {
    let record = |stamp, listing: &str| Record {
        listing: Listing::read(listing).expect("a listing"),
        stamp,
        token: Token::new("demo").expect("a token"),
    };
    let (low, high) = ("1800000000000000-00000000000000ab", "1800000000000000-00000000000000ac");
    let (one, other) = (record(2, low), record(1, high));
    assert!(one.keeps_its_token(&other) && !other.keeps_its_token(&one));
    let other = record(2, high);
    assert!(!one.keeps_its_token(&other) && other.keeps_its_token(&one), "of one stamp, the greater listing");
    assert!(!one.keeps_its_token(&one.clone()));
    for bad in
        ["180000000000000-00000000000000ab", "1800000000000000-0000000000000ab", "18000000000000x0-00000000000000ab"]
    {
        assert_eq!(Listing::read(bad), None, "{bad}");
    }
}

#[test]
fn what_a_store_and_its_nodes_say_of_themselves() {
    let reply =
        StoreAnswer::read(&StoreQuestion::Head(last()), &timed(&["lost", "3 5-0 7", "store", "3", "version"])).reply;
    let StoreReply::Head { is_held: false, last: Last { n: 3, bits: 7, .. }, store, schema, version } = reply else {
        panic!("no head")
    };
    assert_eq!([store, schema, version], ["store", "3", "version"]);
    let question = StoreQuestion::Node(
        "store".to_owned(),
        last(),
        super::question::OwnRecord { name: "me".to_owned(), count: 1, owed: 0, forgotten: Vec::new() },
    );
    let words =
        ["held", "3 5-0 7", "version", "a", "v2;8;0;held;3 5-0 7", "b", "v2;9;0;lost;3 5-0 7", "old", "history;5"];
    let node = |name: &str, count, owed| NodeRecord { name: name.to_owned(), count, owed };
    let (records, version) = (vec![node("a", 8, 0), node("b", 9, 1)], "version".to_owned());
    assert_eq!(
        StoreAnswer::read(&question, &timed(&words)).reply,
        StoreReply::Nodes {
            is_held: true,
            last: Last { n: 3, id: EntryId { ms: 5, sequence: 0 }, bits: 7 },
            version,
            records
        }
    );
}

#[test]
fn a_token_is_of_a_server_or_of_none() {
    let read =
        |value: Value| StoreAnswer::read(&StoreQuestion::ServerOf(Token::new("demo").expect("a token")), &value).reply;
    assert_eq!(read(bulk("28")), StoreReply::ServerOf(Some(ServerId(28))));
    assert_eq!(read(Value::Nil), StoreReply::ServerOf(None));
    assert!(matches!(read(bulk("4294967296")), StoreReply::Refused(_)));
}

#[test]
fn entries_and_what_was_taken_away() {
    let entry = |fields: &[&str]| Value::Array(vec![bulk("5-0"), texts(fields)]);
    let log = |fields: &[&str]| Value::Array(vec![Value::Array(vec![bulk("log"), Value::Array(vec![entry(fields)])])]);
    let line = |fields: &[&str]| match StoreAnswer::read(&StoreQuestion::Log(EntryId::default(), 9, None), &log(fields))
        .reply
    {
        StoreReply::Log(mut lines) => lines.remove(0),
        other => panic!("{other:?}"),
    };
    let id = EntryId { ms: 5, sequence: 0 };
    let said = |fact| EntryFact::Other(Said { server: ServerId(28), fact });
    let facts = vec![said(Fact::VoteGone(UnixSeconds(4), VOTER)), EntryFact::Vote(ServerId(28), AT, VOTER)];
    let expected = Entry { last: Last { n: 3, id, bits: -7 }, before: "12".to_owned(), facts };
    assert_eq!(
        line(&["n", "3", "b", "-7", "p", "12", "s", "28", "c", "7:4", "v", "7:1800000000"]),
        LogItem::Entry(expected)
    );
    let LogItem::Entry(listed) =
        line(&["n", "3", "b", "-7", "p", "12", "s", "28", "x", "1800000000000000-00000000000000ab", "r", RECORD])
    else {
        panic!("no entry")
    };
    assert_eq!(listed.facts, [said(Fact::ListingGone(record().listing)), said(Fact::Listed(record()))]);
    assert_eq!(line(&["n", "3", "b", "-7", "s", "28", "c", "7:4"]), LogItem::Strange(id));
    assert_eq!(line(&["message", "hello"]), LogItem::Strange(id));
    assert_eq!(line(&["n", "3", "b", "-7", "p", "12", "s", "28", "z", "7:4"]), LogItem::Unreadable(id));
    let members = texts(&["28:7", "1800000000", "28:1800000000000000-00000000000000ab", "inf", "28", "5"]);
    let listing = Listing::read("1800000000000000-00000000000000ab").expect("a listing");
    let gone = vec![Gone::Vote(ServerId(28), AT, VOTER), Gone::Listing(ServerId(28), listing)];
    assert_eq!(StoreAnswer::read(&StoreQuestion::Gone(5, 0), &members).reply, StoreReply::Gone(gone, 3));
}

#[test]
fn the_mark_of_an_entry_is_the_end_of_its_bits() {
    assert_eq!([last().mark(), Last::default().mark()], ["456789", "0"]);
    assert_eq!(Last::read(&last().to_string()), Some(last()));
    for bad in ["", "1 2-3", "1 2 3", "1 2-3 x", "1 2-3 4 5"] {
        assert_eq!(Last::read(bad), None, "{bad}");
    }
    let spare = record().spare();
    assert_eq!((spare.stamp, spare.token.as_str().len()), (record().stamp + 1, 40));
    assert!(spare > record() && Token::new(spare.token.as_str()).is_some());
}

#[test]
fn a_vote_counts_where_it_was_recorded_or_a_later_one_stands() {
    let record = Record::read(RECORD).expect("a record");
    for (done, is_vote) in [
        (Done::Recorded(AT, record), true),
        (Done::Unchanged(AT), true),
        (Done::InCooldown(VOTER, AT), false),
        (Done::Cancelled(AT), false),
    ] {
        assert_eq!(StoreReply::Done(done, None).is_vote(), is_vote);
    }
    assert!(!StoreReply::VoteOf(Some(AT)).is_vote());
}
