//! The waiting requests against a list, the order of their steps against every order of a voter's, and both on threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::{prop_assert_eq, proptest};

use super::{Bell, WaitOutcome, WaitingList, WaitingSlot};
use crate::vote::address::VoterAddress;
use crate::vote::id::ServerId;
use crate::vote::ipv4::Ipv4;
use crate::vote::table::Pair;

fn pair(address: u32) -> Pair {
    Pair { server: ServerId(28), address: VoterAddress::V4(Ipv4(address)) }
}

/// A bell, and the tickets that it was rung with.
fn bell() -> (Bell, Arc<Mutex<Vec<u64>>>) {
    let rung = Arc::new(Mutex::new(Vec::new()));
    let bell = {
        let rung = Arc::clone(&rung);
        Arc::new(move |tickets: Vec<u64>| rung.lock().extend(tickets))
    };
    (bell, rung)
}

fn list(slots: usize) -> WaitingList {
    let list = WaitingList::default();
    list.set_slots(slots);
    list
}

fn enter(list: &WaitingList, address: u32, bell: &Bell, ticket: u64) -> Option<WaitingSlot> {
    let mut slot = list.enter()?;
    slot.register(pair(address), bell, ticket);
    Some(slot)
}

#[test]
fn there_are_so_many_places_and_no_more() {
    let (bell, rung) = bell();
    assert!(WaitingList::default().enter().is_none());
    let list = list(2);
    let first = enter(&list, 1, &bell, 1);
    let second = enter(&list, 1, &bell, 2);
    assert!(first.is_some() && second.is_some() && enter(&list, 2, &bell, 3).is_none());
    drop(first);
    assert!(enter(&list, 2, &bell, 3).is_some());
    assert_eq!(list.waiting(), 1);
    list.tell(pair(1));
    assert_eq!(*rung.lock(), [2]);
}

/// Regression: each vote rang for all waiters of its pair, whether or not they had looked since the last one.
/// A batch with thousands of votes for one pair, through a shared store, took memory without bound.
#[test]
fn who_was_rung_for_and_has_not_looked_is_not_rung_for_again() {
    let ((bell, rung), list) = (bell(), list(1));
    let mut slot = enter(&list, 1, &bell, 7).expect("a slot");
    for _ in 0..1_000 {
        list.tell(pair(1));
    }
    list.tell_where(|_| true);
    assert_eq!(*rung.lock(), [7]);
    // What it asks for may be another pair by now.
    slot.register(pair(2), &bell, 7);
    list.tell(pair(1));
    assert_eq!((rung.lock().len(), list.waiting()), (1, 1));
    list.tell(pair(2));
    assert_eq!(*rung.lock(), [7, 7]);
}

/// Regression: a slot was in no count where its connection broke before the answer.
#[test]
fn each_place_is_counted_once() {
    let list = list(2);
    let slot = list.enter().expect("a slot");
    drop(list.enter());
    slot.leave(WaitOutcome::Told);
    list.count(WaitOutcome::Refused);
    assert_eq!(WaitOutcome::ALL.map(|(outcome, _)| list.counted(outcome)), [1, 0, 1, 1]);
}

proptest! {
    #[test]
    fn it_behaves_as_a_list(steps in vec((0..4u32, 0..7u32, 0..80usize), 0..300)) {
        const SLOTS: usize = 70;
        let (list, bells) = (list(SLOTS), [bell(), bell()]);
        // By ticket: the address, whether it is registered, and the slot.
        let mut slots: BTreeMap<u64, (u32, bool, WaitingSlot)> = BTreeMap::new();
        for (ticket, (address, action, choice)) in (0..).zip(steps) {
            match action {
                0 | 3 | 4 => {
                    let entered = enter(&list, address, &bells[choice % 2].0, ticket);
                    prop_assert_eq!(entered.is_some(), slots.len() < SLOTS);
                    slots.extend(entered.map(|slot| (ticket, (address, true, slot))));
                }
                1 => if let Some((ticket, (for_whom, is_registered, slot))) = slots.iter_mut().nth(choice) {
                    slot.register(pair(address), &bells[choice % 2].0, *ticket);
                    (*for_whom, *is_registered) = (address, true);
                },
                2 => {
                    let gone = slots.keys().nth(choice).copied();
                    gone.and_then(|ticket| slots.remove(&ticket));
                }
                _ => {
                    let is_meant = |other: Pair| other == pair(address) || choice == 0 && other == pair(0);
                    if choice == 0 { list.tell_where(is_meant) } else { list.tell(pair(address)) }
                    let mut rung: Vec<u64> =
                        bells.iter().flat_map(|(_, rung)| std::mem::take(&mut *rung.lock())).collect();
                    rung.sort_unstable();
                    let waits = slots.iter_mut().filter(|(_, (for_whom, is_registered, _))| *is_registered && is_meant(pair(*for_whom)));
                    let expected: Vec<u64> = waits.map(|(ticket, (_, is_registered, _))| {
                        *is_registered = false;
                        *ticket
                    }).collect();
                    prop_assert_eq!(rung, expected);
                }
            }
            prop_assert_eq!(list.waiting(), slots.len());
        }
    }
}

/// A question and a vote, step by step: the question has been told, or a letter is on its way. In each order of
/// the steps of both; `looks_again` is the step that makes it so.
fn are_all_told(looks_again: bool) -> bool {
    // A bit for each of five turns: the voter's where it is set, of which there are two.
    let orders = (0..1_u32 << 5).filter(|order| order.count_ones() == 2);
    let mut told = orders.map(|order| {
        let ((bell, rung), list) = (bell(), list(1));
        let (mut is_shown, mut has_seen, mut slot) = (false, false, None);
        let mut voter = 0;
        for turn in 0..5_u32 {
            if order >> turn & 1 == 1 {
                if voter == 0 {
                    is_shown = true
                } else {
                    list.tell(pair(1))
                }
                voter += 1;
                continue;
            }
            match turn - voter {
                0 => has_seen |= is_shown,
                1 => slot = enter(&list, 1, &bell, 7),
                _ => has_seen |= looks_again && is_shown,
            }
        }
        drop(slot);
        has_seen || !rung.lock().is_empty()
    });
    told.all(|told| told)
}

#[test]
fn no_order_of_steps_loses_a_vote_and_the_second_look_is_why() {
    assert!(are_all_told(true));
    assert!(!are_all_told(false));
}

/// The same on two threads, where the order is that of memory: the table here is a flag without one.
#[test]
fn no_order_of_memory_loses_a_vote() {
    const ROUNDS: usize = 2_000;
    let list = list(1);
    let (bell, rung) = bell();
    let (table, lost) = (AtomicBool::new(false), AtomicUsize::new(0));
    let barrier = Barrier::new(2);
    thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..ROUNDS {
                barrier.wait();
                table.store(true, Ordering::Relaxed);
                list.tell(pair(1));
                barrier.wait();
                barrier.wait();
            }
        });
        for _ in 0..ROUNDS {
            barrier.wait();
            let slot = enter(&list, 1, &bell, 7);
            let has_seen = table.load(Ordering::Relaxed);
            barrier.wait();
            lost.fetch_add(usize::from(!has_seen && rung.lock().is_empty()), Ordering::Relaxed);
            drop(slot);
            rung.lock().clear();
            table.store(false, Ordering::Relaxed);
            barrier.wait();
        }
    });
    assert_eq!(lost.load(Ordering::Relaxed), 0);
}
