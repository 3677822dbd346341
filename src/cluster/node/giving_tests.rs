//! How a node takes the store's answers to what it gives back.

use super::bounds::Bounds;
use super::output::{NodeLine, NodeStanding, Note};
use super::tests::{Played, SERVER, STORE_MS, VOTER, at, entry, record};
use crate::cluster::wire::answer::{Done, Given, RefusalKind, StoreRefusal, StoreReply};
use crate::cluster::wire::fact::Fact;
use crate::cluster::wire::last::Last;
use crate::cluster::wire::question::{StoreCall, StoreQuestion};
use crate::vote::address::VoterAddress;
use crate::vote::ipv4::Ipv4;

/// A node that has just given back the votes of these addresses, without notes.
fn that_gave_back(voters: &[VoterAddress]) -> Played {
    let mut played = Played::following(voters.iter().map(|voter| (*voter, at())).collect());
    played.forget();
    played.beat(&[(10, 0)]);
    let StoreQuestion::Change(server, StoreCall::Give(facts), _) = played.next(NodeLine::Feed) else {
        panic!("nothing is given")
    };
    let votes: Vec<Fact> = voters.iter().map(|voter| Fact::Vote(record().listing, at(), *voter)).collect();
    assert_eq!((server, facts), (SERVER, votes));
    played.notes.clear();
    played
}

fn refusal(kind: RefusalKind, text: &str) -> StoreReply {
    StoreReply::Refused(StoreRefusal { kind, text: text.to_owned() })
}

/// The time after which the node gives the facts once more. The log brings nothing meanwhile.
fn given_again_after_ms(played: &mut Played) -> Option<u64> {
    let from_ms = played.now_ms;
    for _ in 0..30 {
        let reply = match played.next(NodeLine::Feed) {
            StoreQuestion::Log(_, _, block_ms) => {
                played.tick(block_ms.unwrap_or(0));
                StoreReply::Log(Vec::new())
            }
            StoreQuestion::Node(..) => {
                let (version, last) = ("version".to_owned(), Last::default());
                StoreReply::Nodes { is_held: true, last, version, records: Vec::new() }
            }
            StoreQuestion::Change(_, StoreCall::Give(_), _) => return Some(played.now_ms - from_ms),
            other => panic!("{other:?}"),
        };
        played.reply(NodeLine::Feed, Some(STORE_MS), reply);
    }
    None
}

#[test]
fn a_store_that_refuses_facts_is_given_these_again_after_a_pause_and_noted_once() {
    let mut played = that_gave_back(&[VOTER]);
    let pause_ms = Some(Bounds::USUAL.refused_pause_ms);
    for notes in [vec![Note::Refused("OOM".to_owned())], Vec::new()] {
        played.reply(NodeLine::Feed, Some(STORE_MS), refusal(RefusalKind::Other, "OOM"));
        assert_eq!((&played.notes, played.node.standing()), (&notes, NodeStanding::GivingBack(1)));
        played.notes.clear();
        assert_eq!(given_again_after_ms(&mut played), pause_ms);
    }
}

#[test]
fn facts_are_given_again_after_a_pause_if_the_answer_is_that_to_another_question() {
    let mut played = that_gave_back(&[VOTER]);
    played.reply(NodeLine::Feed, Some(STORE_MS), StoreReply::VoteOf(None));
    assert_eq!((played.notes.len(), played.node.standing()), (0, NodeStanding::GivingBack(1)));
    assert_eq!(given_again_after_ms(&mut played), Some(Bounds::USUAL.refused_pause_ms));
}

#[test]
fn a_store_that_has_lost_more_meanwhile_is_judged_anew() {
    let mut played = that_gave_back(&[VOTER]);
    played.reply(NodeLine::Feed, Some(STORE_MS), refusal(RefusalKind::Lost, "VSLOST"));
    assert_eq!((played.notes.len(), played.node.standing()), (0, NodeStanding::Judging));
}

#[test]
fn a_server_with_a_key_of_a_strange_type_is_set_aside() {
    let mut played = that_gave_back(&[VOTER]);
    played.reply(NodeLine::Feed, Some(STORE_MS), refusal(RefusalKind::Key, "VSKEY"));
    assert_eq!(played.notes, [Note::SetAside(SERVER, "VSKEY".to_owned()), Note::GivenBack]);
    assert_eq!(played.node.standing(), NodeStanding::Following);
}

#[test]
fn the_facts_that_the_store_took_back_are_told_from_the_others() {
    let voters = [7, 8, 9].map(|bits| VoterAddress::V4(Ipv4(bits)));
    let mut played = that_gave_back(&voters);
    let given = vec![Given::Stands, Given::Over, Given::Outweighed(Fact::VoteGone(at(), voters[2]))];
    played.reply(NodeLine::Feed, Some(STORE_MS), StoreReply::Done(Done::Given(given), Some(entry(2))));
    assert_eq!(played.notes, [Note::Given(1, 2), Note::GivenBack]);
}

#[test]
fn a_node_that_gave_back_shows_the_whole_log_once_the_log_has_come_to_that_entry() {
    for (made, shown_to) in [(entry(1), Some(entry(1))), (entry(2), None)] {
        let mut played = that_gave_back(&[VOTER]);
        played.reply(NodeLine::Feed, Some(STORE_MS), StoreReply::Done(Done::Given(vec![Given::Stands]), Some(made)));
        assert_eq!((played.node.position(), played.node.shown_to()), (entry(1), shown_to));
    }
}
