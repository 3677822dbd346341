//! The cooldown table against a plain map, under random steps.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof, proptest};

use super::{CooldownTable, Cooling, Ipv4Key, Pair, SHARDS, Shards, TableHasher};
use crate::vote::address::VoterAddress;
use crate::vote::id::ServerId;
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::{Ipv6Network, Ipv6Prefix};
use crate::vote::time::UnixSeconds;

/// One address after another, in both families by turns. Of the networks every second differs from the one
/// before it in the last bits alone.
fn pair(server: u32, number: u32) -> Pair {
    let network = u64::from(number / 4) << 16 | u64::from(number / 2 % 2);
    let address =
        if number.is_multiple_of(2) { VoterAddress::V4(Ipv4(number)) } else { VoterAddress::V6(Ipv6Network(network)) };
    Pair { server: ServerId(server), address }
}

#[test]
#[should_panic(expected = "the table is no shadow of this one")]
fn only_a_shadow_is_exchanged() {
    CooldownTable::default().exchange(&mut CooldownTable::default());
}

#[test]
fn a_load_keeps_the_later_of_two() {
    let mut table = CooldownTable::default();
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
fn networks_of_one_prefix_are_one_voter_and_the_later_vote_stays() {
    let network =
        |last: u64| Pair { server: ServerId(1), address: VoterAddress::V6(Ipv6Network(0x2001_0DB8_0001_0000 | last)) };
    let cooling = |last, at| Cooling { pair: network(last), expires_at: UnixSeconds(at) };
    let mut table = CooldownTable::with_prefix(Ipv6Prefix::from_bits(48).expect("in range"));
    let mut loader = table.loader();
    for entry in [cooling(1, 20), cooling(2, 30), cooling(3, 10), cooling(4, 30), cooling(2, 30)] {
        loader.put(entry);
    }
    loader.finish();
    assert_eq!(table.expires_at(network(9)), Some(UnixSeconds(30)));
    assert_eq!(table.find(|_| true), [cooling(0, 30)]);
    table.insert(network(5), UnixSeconds(40));
    assert_eq!(table.find(|_| true), [cooling(0, 40)]);
    let other = Pair { server: ServerId(1), address: VoterAddress::V6(Ipv6Network(0x2001_0DB8_0002_0000)) };
    assert_eq!(table.expires_at(other), None);
    assert!(table.remove(network(6)));
    assert!(table.view().is_empty());
}

#[test]
fn memory_goes_back_after_a_peak() {
    let mut table = CooldownTable::default();
    // A shard keeps the memory of 64 entries. With fewer addresses, some seeds leave a third of all shards so small.
    for address in 0..800_000 {
        table.insert(pair(1, address), UnixSeconds(10));
    }
    let peak = table.allocated_bytes();
    table.sweep(UnixSeconds(10), SHARDS);
    let [v4, v6] = table.allocated_bytes();
    assert!(v4 < peak[0] / 20 && v6 < peak[1] / 20, "{v4} and {v6} of {peak:?}");
}

/// A single shard, and its keys.
fn one_shard() -> (Shards<Ipv4Key>, impl Iterator<Item = Ipv4Key>) {
    let keys = (0..).map(|number| Ipv4Key { server: ServerId(1), address: Ipv4(number) });
    (Shards::new(TableHasher::with_seed(1), 1), keys)
}

/// Regression: in a nearly full map, removed entries used up the room, and the map was made twice as large.
#[test]
fn memory_does_not_grow_by_votes_that_come_and_expire() {
    let (shards, mut keys) = one_shard();
    keys.by_ref().take(360).for_each(|key| shards.insert(key, UnixSeconds(10_000)));
    let before = shards.allocated_bytes();
    for round in 0..200 {
        keys.by_ref().take(30).for_each(|key| shards.insert(key, UnixSeconds(round)));
        shards.sweep(0, |expires_at| expires_at <= UnixSeconds(round));
    }
    assert_eq!((shards.len(), shards.allocated_bytes()), (360, before));
}

/// Regression: a map that a peak had made twice as large stayed so, as it was over a quarter full.
#[test]
fn memory_of_a_peak_that_was_a_little_higher_goes_back() {
    let (shards, mut keys) = one_shard();
    keys.by_ref().take(390).for_each(|key| shards.insert(key, UnixSeconds(20)));
    let before = shards.allocated_bytes();
    keys.take(150).for_each(|key| shards.insert(key, UnixSeconds(10)));
    assert!(shards.allocated_bytes() > before);
    shards.sweep(0, |expires_at| expires_at <= UnixSeconds(10));
    assert_eq!((shards.len(), shards.allocated_bytes()), (390, before));
}

/// This takes some 20 s without optimisation, so it runs only with VOTE_STATUS_TEST_LONG=1.
#[test]
fn ten_million_of_each_family_take_so_many_bytes_each() {
    const ENTRIES: u32 = 10_000_000;
    if std::env::var_os("VOTE_STATUS_TEST_LONG").is_none() {
        return;
    }
    let mut table = CooldownTable::default();
    let mut loader = table.loader();
    for number in 0..2 * ENTRIES {
        loader.put(Cooling { pair: pair(number % 5_000, number), expires_at: UnixSeconds(10) });
    }
    loader.finish();
    assert_eq!(table.view().counts(), [ENTRIES as usize; 2]);
    let [v4, v6] = table.allocated_bytes().map(|bytes| bytes as f64 / f64::from(ENTRIES));
    println!("10 million of each family: {v4:.1} bytes an IPv4 entry, {v6:.1} an IPv6 one");
    assert!(v4 < 22.5 && v6 < 29.5, "{v4} and {v6} bytes each");
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
        4 => (0..3u32, 0..16u32, 0..200u32).prop_map(|(server, address, after)| TableStep::Insert(server, address, after)),
        2 => (0..3u32, 0..16u32).prop_map(|(server, address)| TableStep::Remove(server, address)),
        1 => (0..SHARDS * 2).prop_map(TableStep::Sweep),
        2 => (0..90u32).prop_map(TableStep::Forward),
        1 => (1..300u32).prop_map(TableStep::Back),
    ];
    vec(step, 0..120)
}

proptest! {
    #[test]
    fn the_table_behaves_as_a_plain_map(bits in 32..=64u8, steps in steps()) {
        let mut table = CooldownTable::with_prefix(Ipv6Prefix::from_bits(bits).expect("in range"));
        let view = table.view();
        let mut model: HashMap<Pair, Cooling> = HashMap::new();
        let mut now = 1_000_u32;
        let cut = |pair: Pair| match pair.address {
            VoterAddress::V6(Ipv6Network(network)) => {
                let cut = u128::from(network) >> (64 - bits) << (64 - bits);
                Pair { address: VoterAddress::V6(Ipv6Network(cut as u64)), ..pair }
            }
            VoterAddress::V4(_) => pair,
        };
        for step in steps {
            match step {
                TableStep::Insert(server, address, after) => {
                    let new = Cooling { pair: pair(server, address), expires_at: UnixSeconds(now + after) };
                    table.insert(new.pair, new.expires_at);
                    model.insert(cut(new.pair), Cooling { pair: cut(new.pair), ..new });
                }
                TableStep::Remove(server, address) => {
                    table.remove(pair(server, address));
                    model.remove(&cut(pair(server, address)));
                }
                TableStep::Sweep(shards) => { table.sweep(UnixSeconds(now), shards); }
                TableStep::Forward(seconds) => now += seconds,
                TableStep::Back(seconds) => {
                    let back = now - seconds.min(now);
                    table.sweep(UnixSeconds(now), SHARDS);
                    table.bring_back(UnixSeconds(back + 185), UnixSeconds(back + 180));
                    model.retain(|_, held| now < held.expires_at.0);
                    for held in model.values_mut().filter(|held| held.expires_at.0 > back + 185) {
                        held.expires_at = UnixSeconds(back + 180);
                    }
                    now = back;
                }
            }
            for asked in (0..3).flat_map(|server| (0..16).map(move |address| pair(server, address))) {
                let expected = model.get(&cut(asked)).copied().filter(|held| now < held.expires_at.0);
                prop_assert_eq!(view.live(asked, UnixSeconds(now)), expected.map(|held| held.expires_at));
                prop_assert_eq!(view.voter(asked.address), cut(asked).address);
            }
        }
        let mut listed = Vec::new();
        let mut index = 0;
        while view.copy_shard(index, UnixSeconds(now), &mut listed) {
            index += 1;
        }
        prop_assert_eq!(listed.len(), model.values().filter(|held| now < held.expires_at.0).count());
    }
}
