//! The cooldown table against a plain map, under random steps and from many threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof, proptest};

use super::{CooldownTable, Cooling, Pair, SHARDS};
use crate::vote::id::ServerId;
use crate::vote::ipv4::Ipv4;
use crate::vote::time::{Cooldown, UnixSeconds};

const fn pair(server: u32, address: u32) -> Pair {
    Pair { server: ServerId(server), address: Ipv4(address) }
}

#[test]
fn a_pair_is_in_cooldown_until_its_expiry_and_not_at_it() {
    let mut table = CooldownTable::new();
    let view = table.view();
    table.insert(pair(28, 7), UnixSeconds(1_000));
    assert_eq!(view.live(pair(28, 7), UnixSeconds(999)), Some(UnixSeconds(1_000)));
    assert_eq!(view.live(pair(28, 7), UnixSeconds(1_000)), None);
    assert_eq!(view.live(pair(7, 28), UnixSeconds(999)), None);
    assert_eq!(table.sweep(UnixSeconds(999), SHARDS), 0);
    assert_eq!(table.sweep(UnixSeconds(1_000), SHARDS), 1);
    assert!(view.is_empty());
}

#[test]
fn a_servers_entries_are_found_and_only_those() {
    let mut table = CooldownTable::new();
    for address in 0..100 {
        table.insert(pair(1, address), UnixSeconds(50));
        table.insert(pair(2, address), UnixSeconds(50));
    }
    let found = table.of_server(ServerId(1));
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|entry| entry.pair.server == ServerId(1)));
    for entry in found {
        assert!(table.remove(entry.pair));
        assert!(!table.remove(entry.pair));
    }
    assert_eq!(table.view().len(), 100);
}

#[test]
fn a_server_is_forgotten_whole_and_alone() {
    let mut table = CooldownTable::new();
    for address in 0..100 {
        table.insert(pair(1, address), UnixSeconds(50));
        table.insert(pair(2, address), UnixSeconds(50));
    }
    assert_eq!(table.remove_server(ServerId(1)), 100);
    assert_eq!(table.remove_server(ServerId(1)), 0);
    assert!(table.of_server(ServerId(1)).is_empty());
    assert_eq!(table.of_server(ServerId(2)).len(), 100);
}

#[test]
fn an_exchange_shows_the_shadow_to_views_made_before() {
    let mut table = CooldownTable::new();
    let view = table.view();
    let mut shadow = view.shadow();
    for address in 0..1_000 {
        table.insert(pair(1, address), UnixSeconds(50));
        shadow.insert(pair(2, address), UnixSeconds(60));
    }
    table.exchange(&mut shadow);
    assert_eq!(view.len(), 1_000);
    assert_eq!(view.live(pair(2, 999), UnixSeconds(10)), Some(UnixSeconds(60)));
    assert_eq!(view.live(pair(1, 999), UnixSeconds(10)), None);
    assert_eq!(shadow.expires_at(pair(1, 999)), Some(UnixSeconds(50)));
    assert_eq!(shadow.expires_at(pair(2, 999)), None);
}

#[test]
#[should_panic(expected = "the table is no shadow of this one")]
fn only_a_shadow_is_exchanged() {
    CooldownTable::new().exchange(&mut CooldownTable::new());
}

#[test]
fn a_step_back_revives_nothing_lengthens_nothing_and_loses_nothing() {
    let cooldown = Cooldown::from_minutes(90).expect("in range");
    let (before, now) = (UnixSeconds(100_000), UnixSeconds(97_000));
    let mut table = CooldownTable::new();
    table.insert(pair(1, 1), UnixSeconds(99_000)); // over, not swept yet
    table.insert(pair(1, 2), UnixSeconds(101_000)); // live, ends within a length of the new now
    table.insert(pair(1, 3), UnixSeconds(105_000)); // live, would last longer than a length
    table.insert(pair(1, 4), UnixSeconds(102_405)); // stamped as far ahead as a vote may be
    let cut = table.step_back(before, now, cooldown);
    assert_eq!(cut, [Cooling { pair: pair(1, 3), expires_at: UnixSeconds(105_000) }]);
    let view = table.view();
    assert_eq!(view.live(pair(1, 1), now), None);
    assert_eq!(view.live(pair(1, 2), now), Some(UnixSeconds(101_000)));
    assert_eq!(view.live(pair(1, 3), now), Some(UnixSeconds(102_400)));
    assert_eq!(view.live(pair(1, 4), now), Some(UnixSeconds(102_405)));
}

#[test]
fn a_load_keeps_the_later_of_two() {
    let mut table = CooldownTable::new();
    let mut loader = table.loader();
    for address in 0..100_000 {
        loader.put(Cooling { pair: pair(1, address), expires_at: UnixSeconds(20) });
        loader.put(Cooling { pair: pair(1, address), expires_at: UnixSeconds(10 + address % 2 * 20) });
    }
    loader.finish();
    assert_eq!(table.view().len(), 100_000);
    assert_eq!(table.expires_at(pair(1, 4)), Some(UnixSeconds(20)));
    assert_eq!(table.expires_at(pair(1, 5)), Some(UnixSeconds(30)));
}

#[test]
fn memory_goes_back_after_a_peak() {
    let mut table = CooldownTable::new();
    for address in 0..200_000 {
        table.insert(pair(1, address), UnixSeconds(10));
    }
    let room = |table: &CooldownTable| -> usize {
        table.shards.shards.iter().map(|shard| shard.entries.read().capacity()).sum()
    };
    assert!(room(&table) >= 200_000);
    table.sweep(UnixSeconds(10), SHARDS);
    assert!(room(&table) < 10_000, "{}", room(&table));
}

#[derive(Clone, Copy, Debug)]
enum TableStep {
    Insert(u32, u32, u32),
    Remove(u32, u32),
    Sweep(usize),
    Forward(u32),
    Back(u32),
}

fn steps() -> impl Strategy<Value = Vec<TableStep>> {
    let step = prop_oneof![
        4 => (0..3u32, 0..8u32, 0..200u32).prop_map(|(server, address, after)| TableStep::Insert(server, address, after)),
        2 => (0..3u32, 0..8u32).prop_map(|(server, address)| TableStep::Remove(server, address)),
        1 => (0..SHARDS * 2).prop_map(TableStep::Sweep),
        2 => (0..90u32).prop_map(TableStep::Forward),
        1 => (1..300u32).prop_map(TableStep::Back),
    ];
    vec(step, 0..120)
}

proptest! {
    #[test]
    fn the_table_behaves_as_a_plain_map(steps in steps()) {
        let cooldown = Cooldown::from_minutes(3).expect("in range");
        let mut table = CooldownTable::new();
        let view = table.view();
        let mut model: HashMap<Pair, u32> = HashMap::new();
        let mut now = 1_000_u32;
        for step in steps {
            match step {
                TableStep::Insert(server, address, after) => {
                    table.insert(pair(server, address), UnixSeconds(now + after));
                    model.insert(pair(server, address), now + after);
                }
                TableStep::Remove(server, address) => {
                    table.remove(pair(server, address));
                    model.remove(&pair(server, address));
                }
                TableStep::Sweep(shards) => { table.sweep(UnixSeconds(now), shards); }
                TableStep::Forward(seconds) => now += seconds,
                TableStep::Back(seconds) => {
                    let back = now - seconds.min(now);
                    table.step_back(UnixSeconds(now), UnixSeconds(back), cooldown);
                    model.retain(|_, expires_at| now < *expires_at);
                    for expires_at in model.values_mut().filter(|at| **at > back + 185) {
                        *expires_at = back + 180;
                    }
                    now = back;
                }
            }
            for server in 0..3 {
                for address in 0..8 {
                    let expected = model.get(&pair(server, address)).copied().filter(|at| now < *at);
                    prop_assert_eq!(view.live(pair(server, address), UnixSeconds(now)), expected.map(UnixSeconds));
                }
            }
        }
        let mut listed = Vec::new();
        let mut index = 0;
        while view.copy_shard(index, UnixSeconds(now), &mut listed) {
            index += 1;
        }
        prop_assert_eq!(listed.len(), model.values().filter(|at| now < **at).count());
    }
}

/// Readers run while one writer casts, cancels and sweeps: a pair that is never touched is always
/// there, and a pair that flips is only ever seen in one of its two states.
#[test]
fn readers_see_only_what_was_written() {
    let mut table = CooldownTable::new();
    table.insert(pair(1, 1), UnixSeconds(500));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            let view = table.view();
            let stop = &stop;
            scope.spawn(move || {
                let mut reads = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(view.live(pair(1, 1), UnixSeconds(100)), Some(UnixSeconds(500)));
                    let flipping = view.live(pair(2, 2), UnixSeconds(100));
                    assert!(matches!(flipping, None | Some(UnixSeconds(400 | 450))), "{flipping:?}");
                    reads += 1;
                }
                assert!(reads > 0);
            });
        }
        for round in 0..20_000_u32 {
            table.insert(pair(2, 2), UnixSeconds(if round % 2 == 0 { 400 } else { 450 }));
            table.insert(pair(3, round), UnixSeconds(50));
            table.sweep(UnixSeconds(100), 8);
            table.remove(pair(2, 2));
        }
        stop.store(true, Ordering::Relaxed);
    });
}
