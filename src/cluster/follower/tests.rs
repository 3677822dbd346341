//! The recorder between a scripted store and a scripted feed: when each command is answered, and
//! what is visible then.

use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::submitter::Decided;
use super::{FeedDoor, Follower, FollowerMessage, Settled};
use crate::clock::Clock;
use crate::cluster::entry::{EntryId, Position};
use crate::cluster::state::FullState;
use crate::readiness::Readiness;
use crate::recorder::RecorderHandle;
use crate::recorder::command::{Command, Mode, Recorded, Reply, ServerName, Vote, VoteOutcome};
use crate::store::{Event, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::settings::Settings;
use crate::vote::table::{CooldownView, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};

const SERVER: ServerId = ServerId(28);
const ADDRESS: VoterAddress = VoterAddress::V4(Ipv4(7));
/// Longer than anything here may take, however busy the machine.
const DEADLINE: Duration = Duration::from_secs(20);

fn at(n: u64) -> Position {
    Position { n, id: EntryId { ms: n, sequence: 0 } }
}

const SETTINGS: Settings = Settings { cooldown: Cooldown::USUAL, ipv6_prefix: Ipv6Prefix::USUAL };

/// Takes every vote, as the entry of number 5.
fn yes(voted_at: UnixSeconds) -> impl FnMut(Vec<Command>) -> Vec<Decided> {
    let recorded = Recorded {
        server: SERVER,
        voter: ADDRESS.into(),
        voted_at,
        expires_at: SETTINGS.cooldown.expires_at(voted_at),
        is_confirmed: true,
    };
    let reply = Reply::Votes(vec![VoteOutcome::Recorded(recorded)]);
    let decided = Decided { reply, entry: Some(at(5).id), entries: 1 };
    move |commands| commands.iter().map(|_| decided.clone()).collect()
}

struct Node {
    door: FeedDoor,
    handle: Option<RecorderHandle>,
    cooldowns: CooldownView,
    voted_at: UnixSeconds,
    threads: Vec<JoinHandle<()>>,
}

impl Node {
    /// A node with server 28 listed, as of entry 4.
    fn start() -> Self {
        let clock = Clock::new();
        let voted_at = clock.now().wall;
        let (mut recorder, submitter, door, handle) = Follower::parts(clock, SETTINGS, Readiness::default(), None);
        let cooldowns = recorder.live().table.view();
        let deciding = thread::spawn(move || submitter.run(yes(voted_at)));
        let recording = thread::spawn(move || {
            recorder.load().expect("a state comes");
            recorder.run();
        });
        let node = Self { door, handle: Some(handle), cooldowns, voted_at, threads: vec![deciding, recording] };
        node.replace(&[Event::Server(SERVER, Token::new("demo").expect("a token"))], at(4));
        node
    }

    fn vote(&self) -> StoredVote {
        StoredVote { pair: Pair { server: SERVER, address: ADDRESS }, voted_at: self.voted_at }
    }

    fn replace(&self, events: &[Event], position: Position) -> FullState {
        let mut state = FullState { table: self.door.cooldowns.shadow(), servers: Snapshot::default() };
        state.apply(events, SETTINGS.cooldown);
        let replace = |sender| FollowerMessage::Replace(Box::new(state), position, sender);
        self.door.hand_in(replace).expect("the recorder is there")
    }

    fn change(&self, events: Vec<Event>, n: u64) {
        let changes = FollowerMessage::Changes(events, Some(at(n)));
        self.door.tell(changes).expect("the recorder is there");
    }

    fn cast(&self) -> Receiver<Reply> {
        let (sender, replies) = channel();
        let vote = Vote { server: ServerName::Id(SERVER), voter: ADDRESS.into(), voted_at: None };
        let respond = Box::new(move |reply| sender.send(reply).expect("somebody waits"));
        let handle = self.handle.as_ref().expect("not stopped");
        handle.submit(Command::Votes(vec![vote], Mode::Cast), respond).expect("there is room");
        replies
    }

    /// Waits until what was told before has been taken in: messages keep their order.
    fn settle(&self) {
        let (sender, replies) = channel();
        let respond = Box::new(move |reply| sender.send(reply).expect("somebody waits"));
        self.handle.as_ref().expect("not stopped").submit(Command::Digest, respond).expect("there is room");
        assert!(matches!(replies.recv_timeout(DEADLINE), Ok(Reply::Digest(_))));
    }

    fn is_visible(&self) -> bool {
        self.cooldowns.live(Pair { server: SERVER, address: ADDRESS }, self.voted_at).is_some()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.handle.take());
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "a thread panicked");
        }
    }
}

#[test]
fn a_vote_is_acknowledged_once_the_own_feed_has_brought_it() {
    let node = Node::start();
    node.door.status.set_following(true);
    let replies = node.cast();
    assert!(replies.recv_timeout(Duration::from_millis(100)).is_err(), "it is not visible yet");
    node.change(vec![Event::Vote(node.vote())], 5);
    let reply = replies.recv_timeout(DEADLINE).expect("an answer");
    assert!(matches!(&reply, Reply::Votes(outcomes) if matches!(outcomes[..], [VoteOutcome::Recorded(_)])));
    assert!(node.is_visible());
    node.door.status.history.add(1);
    assert_eq!(node.door.take_unseen(), []);
}

/// Behind a large batch an entry comes late, and was answered as if the store had been silent.
#[test]
fn a_feed_that_is_behind_and_goes_on_is_waited_for() {
    let (mut recorder, ..) = Follower::parts(Clock::new(), SETTINGS, Readiness::default(), None);
    let (reply, respond) = (Reply::StoreUnavailable, Box::new(|_reply| {}));
    let settled = Settled { reply, history: 0, votes: 1, entry: None, settled_ms: 10_000, respond };
    assert_eq!(recorder.due_ms(&settled), 10_050);
    recorder.status.set_following(true);
    for (fed_ms, due_ms) in [(9_000, 11_000), (10_900, 11_900), (12_800, 13_800), (13_100, 14_000), (20_000, 14_000)] {
        recorder.fed_ms = fed_ms;
        assert_eq!(recorder.due_ms(&settled), due_ms, "{fed_ms}");
    }
}

#[test]
fn a_feed_that_does_not_follow_keeps_nobody_waiting_and_the_vote_is_kept_in_mind() {
    let node = Node::start();
    let replies = node.cast();
    assert_eq!(replies.recv_timeout(DEADLINE), Ok(Reply::StoreSilent), "what is not shown is not acknowledged");
    assert!(!node.is_visible());
    assert_eq!(node.door.take_unseen(), [], "it may still come");
    node.door.status.history.add(1);
    assert_eq!(node.door.take_unseen(), [node.vote()]);
    assert_eq!(node.door.take_unseen(), []);
}

#[test]
fn what_has_come_late_is_kept_in_mind_no_more() {
    let node = Node::start();
    assert!(node.cast().recv_timeout(DEADLINE).is_ok());
    // It came, and was cancelled at once.
    let gone = vec![Event::Vote(node.vote()), Event::VoteRemoved(node.vote())];
    node.change(gone, 6);
    node.settle();
    assert_eq!(node.door.take_unseen(), []);
    node.door.status.history.add(1);
    assert_eq!(node.door.take_unseen(), []);
}

#[test]
fn what_waits_when_a_new_state_comes_is_kept_in_mind_at_once() {
    let node = Node::start();
    node.door.status.set_following(true);
    let replies = node.cast();
    // Decided by now or soon; the replacement comes after it where it is.
    loop {
        node.replace(&[], at(4));
        if !node.door.unseen.lock().is_empty() {
            break;
        }
    }
    node.door.status.history.add(1);
    assert_eq!(node.door.take_unseen().first(), Some(&node.vote()));
    node.door.status.set_following(false);
    assert!(replies.recv_timeout(DEADLINE).is_ok());
}

/// The names of two histories cannot be compared.
#[test]
fn a_later_entry_of_another_past_acknowledges_nothing() {
    let node = Node::start();
    node.door.status.set_following(true);
    let replies = node.cast();
    assert!(replies.recv_timeout(Duration::from_millis(100)).is_err(), "it is not visible yet");
    node.door.status.history.add(1);
    node.replace(&[], at(9));
    assert_eq!(replies.recv_timeout(DEADLINE), Ok(Reply::StoreSilent));
    assert_eq!(node.door.take_unseen().first(), Some(&node.vote()));
}
