//! Commits that fail. One whose write failed must not be there later; those before and after it are. After
//! a failed sync nothing in the file counts: the store takes no commit until it is written anew, which leaves
//! out what had failed. In process, on a device that fails when told.

use crate::durability::device::{Device, EIO, ENOSPC, Failure};
use crate::durability::history::{History, Kept, Step, besides, server, vote, vote_removed};
use crate::util::DEADLINE;
use crate::util::needs::rounds;
use crate::util::random::Random;
use std::sync::mpsc::channel;
use vote_status::clock::Clock;
use vote_status::control::reply::answer;
use vote_status::readiness::Readiness;
use vote_status::recorder::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote};
use vote_status::recorder::{Accepts, Recorder};
use vote_status::store::embedded::EmbeddedStore;
use vote_status::store::{Event, Store, StoreError};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::ipv6::Ipv6Prefix;
use vote_status::vote::settings::Settings;
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
    store.commit(events, &besides()).expect_err("the device fails");
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
        store.commit(&[server(1, "one")], &besides()).expect("all is well");
        device.fail(failure);
        let failed = store.commit(&[vote(AT, 1, 2)], &besides());
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
    let failed = store.commit(&[vote(AT, 1, 2)], &besides());
    assert!(matches!(failed, Err(StoreError::InDoubt(_))), "{failed:?}");
    println!("{} writes of a commit were refused one by one", told.len());
    assert!(told.len() >= 4, "{told:?}");
}

/// What the caller of a vote is told, by the recorder, of a store whose device fails in that way.
fn told_of_a_vote(failure: Failure) -> Reply {
    let device = Device::formatted();
    let its = device.clone();
    let open = Box::new(move || Ok(Box::new(opened(&its)) as Box<dyn Store>));
    let settings = Settings { cooldown: Cooldown::from_minutes(90).expect("a length"), ipv6_prefix: Ipv6Prefix::USUAL };
    let (mut recorder, handle) = Recorder::new(Clock::new(), settings, Accepts::default(), Readiness::default(), open);
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
    let told = |reply| String::from_utf8(answer(&reply).body).expect("text");
    assert!(told(Reply::StoreUnavailable).contains("nothing was recorded"));
    assert!(told(Reply::StoreSilent).contains("it may have been recorded or not"));
}

/// Requires that a store takes nothing, and writes it anew with what was acknowledged.
fn renew(store: &mut EmbeddedStore, kept: &Kept) {
    assert!(store.is_void(), "a sync has failed");
    store.commit(&[vote(AT, 9, 9)], &besides()).expect_err("nothing is taken before it is written anew");
    store.renew(&mut kept.rows().into_iter(), &besides()).expect("all is well again");
    assert!(!store.is_void());
}

fn kept(events: &[Event]) -> Kept {
    let mut kept = Kept::default();
    kept.take(&Step::Commit(events.to_vec()));
    kept
}

#[test]
fn a_commit_whose_write_failed_is_not_there() {
    for failure in [Failure::Write(0), Failure::Write(1)] {
        let device = Device::formatted();
        let mut store = opened(&device);
        store.commit(&[vote(AT, 1, 1)], &besides()).expect("all is well");
        fail(&mut store, &device, failure, &[vote(AT, 1, 2)]);
        store.commit(&[vote(AT, 1, 3)], &besides()).expect("all is well again");
        assert_eq!(votes(&mut store), [(AT, 1, 1), (AT, 1, 3)], "{failure:?}: in the open store");
        drop(store);
        assert_eq!(votes(&mut opened(&device)), [(AT, 1, 1), (AT, 1, 3)], "{failure:?}: after a restart");
    }
}

#[test]
fn failed_changes_of_every_kind_are_not_in_the_store_that_is_written_anew() {
    let device = Device::formatted();
    let mut store = opened(&device);
    let before = [server(1, "one"), server(2, "two"), vote(AT, 1, 1)];
    store.commit(&before, &besides()).expect("all is well");
    let gone = Event::ServerRemoved(vote_status::vote::id::ServerId(2));
    let changes = [vote_removed(AT, 1, 1), vote(AT + 5, 1, 1), server(1, "other"), gone, server(3, "three")];
    fail(&mut store, &device, Failure::Sync, &changes);
    renew(&mut store, &kept(&before));
    store.commit(&[vote(AT, 1, 3)], &besides()).expect("all is well again");
    drop(store);
    let later = kept(&[&before[..], &[vote(AT, 1, 3)]].concat());
    for device in [device.left(), device.cut(false)] {
        let mut store = device.open().expect("it is whole");
        Kept::of(&mut store).expect("it can be read").expect(&later, "written anew");
        assert_eq!(store.past().expect("it can be read").kept, Some(besides()));
    }
}

/// What failed in one process is not built upon by the next: it reads what the kernel shows, and that may not be on
/// the disk. So it writes the store anew, wherever it is killed in that.
///
/// Regression: a process that was killed between a failed sync and its note left nothing that said so. The next one
/// acknowledged votes, and after a power cut the store could not be opened.
#[test]
fn a_store_that_was_void_is_void_for_the_next_process() {
    for failure in [Failure::SyncAndKill, Failure::Sync] {
        let device = Device::formatted();
        let mut store = opened(&device);
        (1..50).for_each(|ip| store.commit(&[vote(AT, 1, ip)], &besides()).expect("all is well"));
        fail(&mut store, &device, failure, &[vote(AT, 1, 50)]);
        drop(store);
        let mut changes = 0;
        loop {
            let found = device.left();
            found.kill_after(changes);
            let renewed = found.open().and_then(|mut store| {
                let kept = Kept::of(&mut store)?;
                store.renew(&mut kept.rows().into_iter(), &besides())
            });
            let is_killed = found.is_killed();
            for (after, cut) in [found.left(), found.cut(false)].into_iter().zip(["no cut", "cut"]) {
                let what = format!("{failure:?}, killed after {changes} changes, {cut}");
                let mut store = after.open().unwrap_or_else(|error| panic!("{what}: {error}"));
                let kept = Kept::of(&mut store).unwrap_or_else(|error| panic!("{what}: {error}"));
                if store.is_void() {
                    renew(&mut store, &kept);
                }
                store.commit(&[vote(AT + 1, 1, 1)], &besides()).unwrap_or_else(|error| panic!("{what}: {error}"));
                drop(store);
                let votes =
                    votes(&mut after.cut(false).open().unwrap_or_else(|error| panic!("{what}, later: {error}")));
                let is_kept = |ip| votes.contains(&(AT, 1, ip));
                assert!((1..50).all(is_kept) && votes.contains(&(AT + 1, 1, 1)), "{what}, later: {votes:?}");
            }
            if !is_killed {
                renewed.expect("it is written anew");
                break;
            }
            changes += 1;
        }
        println!("{failure:?}: the next process was killed after each of {changes} changes");
        assert!(changes > 20, "{changes}");
    }
}

/// The exchange of the file, with the process killed at each step of it and the power cut as well or not.
#[test]
fn a_kill_at_each_step_of_writing_anew_loses_nothing() {
    let mut steps = 0;
    loop {
        let device = Device::formatted();
        let mut store = opened(&device);
        let mut events = vec![server(1, "one")];
        events.extend((0..500).map(|number| vote(AT + number, 1, number)));
        store.commit(&events, &besides()).expect("all is well");
        let kept = kept(&events);
        fail(&mut store, &device, Failure::Sync, &[vote(AT, 2, 1)]);
        device.kill_after(steps);
        let renewed = store.renew(&mut kept.rows().into_iter(), &besides());
        let is_killed = device.is_killed();
        let what = format!("killed after {steps} changes");
        for (after, cut) in
            [device.left(), device.cut(false), device.cut(true)].into_iter().zip(["no cut", "cut", "cut late"])
        {
            let mut store = after.open().unwrap_or_else(|error| panic!("{what}, {cut}: {error}"));
            let mut found = Kept::of(&mut store).unwrap_or_else(|error| panic!("{what}, {cut}: {error}"));
            // Of this one nobody was told that it was not recorded.
            found.votes.remove(&(AT, 2, 1));
            found.expect(&kept, &format!("{what}, {cut}"));
        }
        if !is_killed {
            renewed.expect("it is written anew");
            break;
        }
        steps += 1;
    }
    println!("killed at each of {steps} steps");
    assert!(steps > 20, "{steps}");
}

/// The sync of number n fails, of whatever file, and later the power is cut and all that was not synced is
/// lost. Whatever was acknowledged is there.
#[test]
fn no_acknowledged_vote_is_lost_after_the_nth_sync_fails_and_the_power_is_cut() {
    let (mut acknowledged, mut failures) = (0, 0);
    for (number, error) in (0..40).flat_map(|number| [(number, EIO), (number, ENOSPC)]) {
        let device = Device::formatted();
        let mut store = opened(&device);
        device.fail_sync_after(number, error);
        let mut kept = Kept::default();
        for address in 0..50 {
            if store.is_void() && store.renew(&mut kept.rows().into_iter(), &besides()).is_err() {
                failures += 1;
                continue;
            }
            let step = Step::Commit(vec![vote(AT + address, 1, address)]);
            match step.run(&mut store) {
                Ok(()) => kept.take(&step),
                Err(_) => failures += 1,
            }
        }
        let cut = device.cut(false);
        let found = votes(&mut cut.open().unwrap_or_else(|error| panic!("sync {number}: {error}")));
        let lost: Vec<_> = kept.votes.iter().filter(|vote| !found.contains(vote)).collect();
        assert!(lost.is_empty(), "sync {number}: {} of {} are lost", lost.len(), kept.votes.len());
        acknowledged += kept.votes.len();
    }
    println!("{failures} failures, {acknowledged} votes acknowledged, 0 lost");
    assert!(failures >= 80, "{failures}");
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
        let outcome = step.run(&mut store);
        if store.is_void() {
            device.repair();
            renew(&mut store, &kept);
        }
        match (outcome, &step) {
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
