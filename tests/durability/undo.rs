//! Commits that fail. One that was answered as failed must not be there later, whether it arrived
//! in the file or not; those before and after it are. In process, on a device that fails when told.

use crate::durability::device::{Device, Failure};
use crate::durability::history::{History, Kept, Step, server, vote, vote_gone};
use crate::util::DEADLINE;
use crate::util::needs::rounds;
use crate::util::random::Random;
use std::sync::mpsc::channel;
use vote_status::clock::Clock;
use vote_status::control::reply::{Asked, answer};
use vote_status::readiness::Readiness;
use vote_status::recorder::Recorder;
use vote_status::recorder::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote};
use vote_status::store::embedded::EmbeddedStore;
use vote_status::store::{Event, Store, StoreError};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::time::Cooldown;

/// 2026-11-20T12:34:56Z.
const AT: u32 = 1_795_178_096;

fn opened(device: &Device) -> EmbeddedStore {
    device.store(None).expect("the device holds a whole store")
}

fn votes(store: &mut dyn Store) -> Vec<(u32, u32, u32)> {
    Kept::of(store).expect("it can be read").votes.into_iter().collect()
}

fn fail(store: &mut dyn Store, device: &Device, failure: Failure, events: &[Event]) {
    device.fail(failure);
    store.commit(events).expect_err("the device fails");
    assert!(!device.repair(), "the failure has struck");
}

/// Regression: after a sync had failed the caller was told that nothing was recorded, and after a
/// restart the vote was there.
#[test]
fn what_a_failure_leaves_in_doubt_hangs_on_where_it_struck() {
    let mut told = Vec::new();
    for failure in (0..20).map(Failure::Write) {
        let device = Device::formatted();
        let mut store = opened(&device);
        store.commit(&[server(1, "one")]).expect("all is well");
        device.fail(failure);
        let failed = store.commit(&[vote(AT, 1, 2)]);
        match &failed {
            Err(StoreError::Full(_)) => {}
            // It has fewer writes.
            Ok(()) => break,
            Err(_) => panic!("{failure:?}: {failed:?}"),
        }
        told.push(failure);
    }
    let device = Device::formatted();
    let mut store = opened(&device);
    device.fail(Failure::Sync);
    let failed = store.commit(&[vote(AT, 1, 2)]);
    assert!(matches!(failed, Err(StoreError::InDoubt(_))), "{failed:?}");
    println!("{} writes of a commit were refused one by one", told.len());
    assert!(told.len() >= 4, "{told:?}");
}

/// What the caller of a vote is told, by the recorder, of a store whose device fails in that way.
fn told_of_a_vote(failure: Failure) -> Reply {
    let device = Device::formatted();
    let its = device.clone();
    let open = Box::new(move || Ok(Box::new(opened(&its)) as Box<dyn Store>));
    let cooldown = Cooldown::from_minutes(90).expect("a length");
    let (mut recorder, handle) = Recorder::new(Clock::new(), cooldown, Readiness::default(), open);
    let server = ServerId(28);
    let listed = NewServer { server, token: Token::new("demo") };
    recorder.load(vec![Command::Servers(vec![listed], Tokens::Keep)]).expect("the store is whole");
    device.fail(failure);
    let (sender, replies) = channel();
    let vote =
        Vote { server: ServerName::Id(server), voter: VoterAddress::V4(Ipv4(0xCB00_7107)).into(), voted_at: None };
    let respond = Box::new(move |reply| sender.send(reply).expect("it is waited for"));
    handle.submit(Command::Votes(vec![vote], Mode::Cast), respond).expect("there is room");
    drop(handle);
    recorder.run();
    replies.recv_timeout(DEADLINE).expect("an answer")
}

#[test]
fn a_caller_is_told_whether_a_vote_is_in_doubt() {
    assert_eq!(told_of_a_vote(Failure::Write(0)), Reply::StoreUnavailable);
    assert_eq!(told_of_a_vote(Failure::Sync), Reply::StoreSilent);
    let told = |reply| String::from_utf8(answer(Asked::Vote, &reply).body).expect("text");
    assert!(told(Reply::StoreUnavailable).contains("nothing was recorded"));
    assert!(told(Reply::StoreSilent).contains("it may have been recorded or not"));
}

#[test]
fn a_failed_commit_is_undone_by_the_next() {
    for failure in [Failure::Sync, Failure::Write(0), Failure::Write(1)] {
        let device = Device::formatted();
        let mut store = opened(&device);
        store.commit(&[vote(AT, 1, 1)]).expect("all is well");
        fail(&mut store, &device, failure, &[vote(AT, 1, 2)]);
        store.commit(&[vote(AT, 1, 3)]).expect("all is well again");
        assert_eq!(votes(&mut store), [(AT, 1, 1), (AT, 1, 3)], "{failure:?}: in the open store");
        drop(store);
        assert_eq!(votes(&mut opened(&device)), [(AT, 1, 1), (AT, 1, 3)], "{failure:?}: after a restart");
    }
}

#[test]
fn a_failed_commit_is_undone_when_the_store_is_read() {
    let device = Device::formatted();
    let mut store = opened(&device);
    store.commit(&[vote(AT, 1, 1)]).expect("all is well");
    fail(&mut store, &device, Failure::Sync, &[vote(AT, 1, 2)]);
    assert_eq!(votes(&mut store), [(AT, 1, 1)]);
}

#[test]
fn a_failed_commit_is_undone_though_undoing_fails_at_first() {
    let device = Device::formatted();
    let mut store = opened(&device);
    store.commit(&[vote(AT, 1, 1)]).expect("all is well");
    fail(&mut store, &device, Failure::Sync, &[vote(AT, 1, 2)]);
    // Opening and undoing sync several times: the failure meets one of them after the other.
    for address in 3..7 {
        fail(&mut store, &device, Failure::Sync, &[vote(AT, 1, address)]);
    }
    store.commit(&[vote(AT, 1, 9)]).expect("all is well again");
    assert_eq!(votes(&mut store), [(AT, 1, 1), (AT, 1, 9)], "in the open store");
    drop(store);
    assert_eq!(votes(&mut opened(&device)), [(AT, 1, 1), (AT, 1, 9)], "after a restart");
}

#[test]
fn failed_changes_of_every_kind_are_undone() {
    let device = Device::formatted();
    let mut store = opened(&device);
    store.commit(&[server(1, "one"), server(2, "two"), vote(AT, 1, 1)]).expect("all is well");
    let gone = Event::ServerGone(vote_status::vote::id::ServerId(2));
    let changes = [vote_gone(AT, 1, 1), vote(AT + 5, 1, 1), server(1, "other"), gone, server(3, "three")];
    fail(&mut store, &device, Failure::Sync, &changes);
    store.commit(&[vote(AT, 2, 2)]).expect("all is well again");
    let kept = Kept::of(&mut store).expect("it can be read");
    assert_eq!(kept.votes.into_iter().collect::<Vec<_>>(), [(AT, 1, 1), (AT, 2, 2)]);
    assert_eq!(kept.servers, [(1, "one".to_owned()), (2, "two".to_owned())].into());
}

#[test]
fn a_failed_commit_is_not_there_after_a_restart() {
    let device = Device::formatted();
    let mut store = opened(&device);
    store.commit(&[vote(AT, 1, 1)]).expect("all is well");
    fail(&mut store, &device, Failure::Sync, &[vote(AT, 1, 2)]);
    drop(store);
    assert_eq!(votes(&mut opened(&device)), [(AT, 1, 1)]);
}

#[test]
fn a_store_that_fails_at_random_keeps_what_it_said() {
    let mut random = Random::from_environment();
    let device = Device::formatted();
    let mut store = opened(&device);
    let (mut history, mut kept, mut failed) = (History::new(), Kept::default(), 0);
    for number in 0..rounds(400) {
        let step = history.next(&kept, &mut random);
        let planned = random.below(4) == 0;
        if planned {
            let write = Failure::Write(random.below(12));
            device.fail(*random.pick(&[Failure::Sync, Failure::Sync, Failure::Resize, write]));
        }
        match (step.run(&mut store), &step) {
            (Ok(()), _) => kept.take(&step),
            // Rows that are dropped have expired: it is all the same whether they are there.
            (Err(_), Step::Drop(_)) => {
                failed += 1;
                device.repair();
                step.run(&mut store).expect("all is well again");
                kept.take(&step);
            }
            (Err(error), Step::Commit(_)) => {
                failed += 1;
                assert!(planned, "step {number}: {error}");
            }
        }
        device.repair();
        if number % 10 == 9 {
            let found = Kept::of(&mut store).unwrap_or_else(|error| panic!("step {number}: {error}"));
            found.expect(&kept, &format!("step {number}"));
        }
        if number % 50 == 49 {
            drop(store);
            store = opened(&device);
        }
    }
    println!("{failed} commits failed, {} votes are kept", kept.votes.len());
    assert!(failed > 20, "{failed} commits failed");
}
