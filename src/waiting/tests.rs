//! The waiting requests compared with a plain list, and beside a voter on another thread.

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

/// Regression: no count had a slot whose connection broke before the answer.
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

/// A question and a vote on two threads: the question sees the vote, or the bell rings. The table here is a relaxed
/// flag, which orders no memory.
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
