//! A node's comparison of its state with the one that it has read, and the entries that replies told of before the log.

use super::changes::{WantedChange, WantedServer};
use super::output::{NodeLine, NodeStanding};
use super::tests::{Listed, Played, SERVER, STORE_MS, VOTER, at, entry, record};
use crate::cluster::wire::answer::{Done, Entry, EntryFact, LogItem, StoreReply};
use crate::cluster::wire::last::Last;
use crate::cluster::wire::question::StoreQuestion;
use crate::vote::address::VoterAddress;
use crate::vote::ipv4::Ipv4;

/// Another voter.
const OTHER: VoterAddress = VoterAddress::V4(Ipv4(8));

fn listed() -> Vec<Listed> {
    vec![(SERVER, Some(record()))]
}

/// Casts a vote. Gives the entry in which the store makes it, if that has this number.
fn cast(played: &mut Played, n: u64, voter: VoterAddress) -> Last {
    played.change(n, WantedChange::Cast(WantedServer::Id(SERVER), None, vec![voter]));
    let StoreQuestion::Change(_, _, terms) = played.next(NodeLine::Votes) else { panic!("no call") };
    Last { bits: terms.bits, ..entry(n) }
}

/// Answers the call of a vote: the store has made this entry.
fn tell(played: &mut Played, made: Last) {
    let done = Done::Recorded(at(), record());
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(done, Some(made)));
}

/// Answers the question for the log with this entry of a vote.
fn bring(played: &mut Played, last: Last, before: Last, voter: VoterAddress) {
    let brought = Entry { last, before: before.mark(), facts: vec![EntryFact::Vote(SERVER, at(), voter)] };
    assert!(matches!(played.next(NodeLine::Feed), StoreQuestion::Log(..)));
    played.reply(NodeLine::Feed, None, StoreReply::Log(vec![LogItem::Entry(brought)]));
}

#[test]
fn a_node_that_starts_does_not_wait_in_a_store_without_an_entry_and_a_server() {
    for (last, servers, expected) in [
        (Last::default(), Vec::new(), NodeStanding::Following),
        (Last::default(), listed(), NodeStanding::Waiting),
        (entry(1), Vec::new(), NodeStanding::Waiting),
        (entry(1), listed(), NodeStanding::Waiting),
    ] {
        let mut played = Played::new();
        played.tick(0);
        played.connect(NodeLine::Feed);
        played.head(NodeLine::Feed, false);
        played.read_up_to(last, &servers, &[]);
        played.beat(&[]);
        assert_eq!(played.node.standing(), expected, "{} servers at {last}", servers.len());
    }
}

#[test]
fn a_vote_that_a_reply_told_of_during_a_reading_comes_with_the_log_or_is_owed() {
    let reads = || {
        let mut played = Played::following(Vec::new());
        let made = cast(&mut played, 2, VOTER);
        played.lose(NodeLine::Feed);
        played.tick(200);
        played.connect(NodeLine::Feed);
        played.head(NodeLine::Feed, false);
        tell(&mut played, made);
        assert!(played.node.is_reading());
        (played, made)
    };
    let shown = |played: &Played| (played.node.owed_len(), played.node.shown_to());

    // The reading ends before the entry: the log will bring it.
    let (mut played, made) = reads();
    played.read_up_to(entry(1), &listed(), &[]);
    assert_eq!(shown(&played), (0, Some(made)));
    // The reading has come to the entry.
    let (mut played, made) = reads();
    played.read_up_to(made, &listed(), &[(VOTER, at())]);
    assert_eq!(shown(&played), (0, Some(made)));
    // The store has another entry in its place, and has lost the vote.
    let (mut played, _) = reads();
    played.read_up_to(entry(2), &listed(), &[]);
    assert_eq!(shown(&played), (1, Some(entry(2))));
}

/// A node that a reply told of two votes, in the entries 2 and 3. It has asked for the log.
fn that_made_two_votes() -> (Played, [Last; 2]) {
    let mut played = Played::following(Vec::new());
    played.beat(&[(10, 0)]);
    let made = [(2, VOTER), (3, OTHER)].map(|(n, voter)| {
        let made = cast(&mut played, n, voter);
        tell(&mut played, made);
        made
    });
    (played, made)
}

#[test]
fn the_log_brings_the_entries_that_replies_told_of_one_by_one() {
    let (mut played, made) = that_made_two_votes();
    let shown = |played: &Played| (played.node.position(), played.node.shown_to());
    assert_eq!(shown(&played), (entry(1), Some(made[1])));
    bring(&mut played, made[0], entry(1), VOTER);
    assert_eq!(shown(&played), (made[0], Some(made[1])));
    bring(&mut played, made[1], made[0], OTHER);
    assert_eq!(shown(&played), (made[1], Some(made[1])));
}

#[test]
fn another_entry_in_the_place_of_one_that_a_reply_told_of_is_not_taken() {
    let (mut played, _) = that_made_two_votes();
    bring(&mut played, entry(2), entry(1), VOTER);
    assert_eq!((played.node.position(), played.node.standing()), (entry(1), NodeStanding::Judging));
}
