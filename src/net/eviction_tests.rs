//! The rule of eviction against random places: its promises, not its order. And a crowd of silent connections against
//! waiting requests, in simulated time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{Contenders, Network, next};
use crate::http::wait::WaitSeconds;
use crate::limits::STUCK_MS;
use crate::net::deadline::{Awaited, Class, Deadlines};

const NOW_MS: u64 = 100_000;

/// The last answer to a connection that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    /// Its client was answered before, and has asked nothing since.
    Nothing,
    /// The answer to its request.
    Answer,
    /// 408 or 503.
    Refusal,
    /// A part of its answer.
    Cut,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    class: Class,
    is_keyed: bool,
    /// For how long it has been in that state.
    age_ms: u64,
    /// How long ago its client took some of its answer, if there is one: at most `age_ms`.
    took_ms: u64,
    network: u8,
}

impl Place {
    fn given(&self) -> Given {
        match self.class {
            Class::Idle => Given::Nothing,
            Class::Waiting(_) => Given::Answer,
            Class::Fresh | Class::Request => Given::Refusal,
            Class::Write => Given::Cut,
            Class::Linger => unreachable!("it has no place"),
        }
    }

    /// Its client has had its time, and has done nothing with it.
    fn is_stuck(&self) -> bool {
        match self.class {
            Class::Fresh | Class::Request => self.age_ms >= STUCK_MS,
            Class::Write => self.took_ms >= STUCK_MS,
            _ => false,
        }
    }

    fn has_not_asked(&self) -> bool {
        self.given() == Given::Refusal
    }
}

fn places() -> impl Strategy<Value = Vec<Place>> {
    let waiting = (1..=50_u64).prop_map(|seconds| Class::Waiting(WaitSeconds::at_most(seconds).expect("a second")));
    let class = prop_oneof![
        1 => Just(Class::Idle), 3 => Just(Class::Fresh), 2 => Just(Class::Request), 2 => Just(Class::Write), 3 => waiting
    ];
    // About half of the clients have had their time.
    let place = (class, any::<bool>(), 0..2 * STUCK_MS, 0..2 * STUCK_MS, 0..4_u8, any::<bool>());
    let place = place.prop_map(|(class, is_keyed, age_ms, took_ms, network, is_in_a_crowd)| Place {
        class,
        is_keyed: is_keyed && class == Class::Idle,
        age_ms,
        took_ms: took_ms.min(age_ms),
        network: if is_in_a_crowd { 0 } else { network },
    });
    vec(place, 1..80)
}

fn deadlines() -> Deadlines {
    Deadlines::new(|class| match class {
        Class::Waiting(seconds) => u64::from(seconds.get()) * 1_000,
        _ => 75_000,
    })
}

fn network(number: u8) -> Network {
    Network::of(Some(IpAddr::from([127, 0, 0, number])))
}

/// The engine's knowledge of these places. It gets the events in the order in which they happened.
fn known(places: &[Place]) -> (Deadlines, Contenders) {
    let (mut deadlines, mut contenders) = (deadlines(), Contenders::new(places.len()));
    let mut events: Vec<(u64, u32, bool)> = Vec::new();
    for (place, index) in places.iter().zip(0..) {
        events.push((NOW_MS - place.age_ms, index, false));
        if place.class == Class::Write {
            events.push((NOW_MS - place.took_ms, index, true));
        }
    }
    events.sort_unstable();
    for (at_ms, index, has_taken) in events {
        let place = places[index as usize];
        let awaited = Awaited { class: place.class, is_keyed: place.is_keyed };
        if !has_taken {
            deadlines.set(index, awaited, at_ms);
        }
        contenders.note(index, Some(awaited), has_taken, at_ms, || network(place.network));
    }
    (deadlines, contenders)
}

/// The networks that are a crowd: connections of each that have not asked hold over 1/16 of `places`.
fn crowds(there: &[Place], places: usize) -> BTreeSet<u8> {
    let count = |network| there.iter().filter(|place| place.has_not_asked() && place.network == network).count();
    (0..4).filter(|network| count(*network) * 16 > places).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nobody_leaves_without_an_answer_while_another_can_be_given_one(places in places()) {
        let (mut deadlines, mut contenders) = known(&places);
        let mut there: Vec<u32> = (0..).take(places.len()).collect();
        while !there.is_empty() {
            let network_of = |index: u32| network(places[index as usize].network);
            let index = next(&deadlines, &contenders, NOW_MS, network_of).expect("each of these can go");
            there.retain(|other| *other != index);
            deadlines.clear(index);
            contenders.forget(index);
            let gone = places[index as usize];
            let others: Vec<Place> = there.iter().map(|index| places[*index as usize]).collect();
            let others_without_key: Vec<Place> = others.iter().filter(|other| !other.is_keyed).copied().collect();

            // An answer is cut only if its client takes nothing of it, or no client is left to be told something.
            if gone.given() == Given::Cut && !gone.is_stuck() {
                prop_assert!(others_without_key.iter().all(|other| other.given() == Given::Cut), "{gone:?}: {others:?}");
            }
            // A newcomer that is about to ask has its time, unless it belongs to a crowd and others do not.
            if gone.given() == Given::Refusal && !gone.is_stuck() {
                let can_go = |other: &Place| matches!(other.given(), Given::Nothing | Given::Answer) || other.is_stuck();
                let all = [&others[..], &[gone]].concat();
                let is_of_a_crowd = crowds(&all, places.len()).contains(&gone.network);
                let is_alone = others.iter().all(|other| other.network == gone.network);
                prop_assert!(
                    !others_without_key.iter().any(can_go) || (is_of_a_crowd && !is_alone), "{gone:?}: {others:?}"
                );
            }
            // A wait goes only if no other client has had its time, and there is no crowd of another network.
            if gone.given() == Given::Answer {
                let had_its_time = |other: &Place| other.given() == Given::Nothing || other.is_stuck();
                prop_assert!(!others_without_key.iter().any(had_its_time), "{gone:?}: {others:?}");
                let crowds = crowds(&others, places.len());
                prop_assert!(crowds.iter().all(|network| *network == gone.network), "{gone:?}: {others:?}");
            }
            // A client that has shown the key goes only when no other is left.
            prop_assert!(!gone.is_keyed || others_without_key.is_empty(), "{gone:?}: {others:?}");
            // Of the connections in one state, the one that has been in it for longest goes.
            let is_like = |other: &&Place| other.class == gone.class && other.is_keyed == gone.is_keyed;
            let longest = others.iter().filter(is_like).filter(|other| other.network == gone.network);
            match gone.class {
                Class::Write => prop_assert!(longest.map(|other| other.took_ms).all(|took_ms| took_ms <= gone.took_ms)),
                _ => prop_assert!(longest.map(|other| other.age_ms).all(|age_ms| age_ms <= gone.age_ms)),
            }
        }
        prop_assert_eq!(next(&deadlines, &contenders, NOW_MS, |_| network(0)), None);
        prop_assert!(contenders.crowds.is_empty() && contenders.crowding.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Silent connections come at a steady rate to places that waits have taken, in part or all.
    #[test]
    fn of_silent_connections_as_many_as_come_in_a_second_end_a_wait_and_then_none(
        rate in 1..2_000_u64, places in 1..1_500_u32, free in 0..200_u32, addresses in prop_oneof![Just(1), Just(1_000)],
        is_elsewhere in any::<bool>(),
    ) {
        let (mut deadlines, mut contenders) = (deadlines(), Contenders::new(places as usize));
        let waits = places.saturating_sub(free);
        let of_waits = Network::of(Some(Ipv4Addr::LOCALHOST.into()));
        let of_crowd = |number: u32| Network::of(Some(Ipv4Addr::from(0x7F00_0001 + u32::from(is_elsewhere) + number).into()));
        for index in 0..waits {
            deadlines.set(index, Class::Waiting(WaitSeconds::at_most(50).expect("a second")).into(), NOW_MS);
        }
        let (mut unused, mut ended): (Vec<u32>, Vec<u64>) = ((waits..places).collect(), Vec::new());
        for number in 0..3 * rate {
            let after_ms = number * 1_000 / rate;
            let now_ms = NOW_MS + after_ms;
            let index = unused.pop().unwrap_or_else(|| {
                let network_of = |index| if index < waits { of_waits } else { of_crowd(0) };
                let index = next(&deadlines, &contenders, now_ms, network_of).expect("all places can be had");
                if deadlines.class(index) != Some(Class::Fresh) {
                    ended.push(after_ms);
                }
                deadlines.clear(index);
                contenders.forget(index);
                index
            });
            deadlines.set(index, Class::Fresh.into(), now_ms);
            let from = of_crowd(number as u32 % addresses);
            contenders.note(index, Some(Class::Fresh.into()), false, now_ms, || from);
        }
        prop_assert!(ended.len() as u64 <= rate * STUCK_MS / 1_000 + 1, "{} at {rate} a second", ended.len());
        prop_assert!(ended.iter().all(|after_ms| *after_ms <= STUCK_MS), "{ended:?}");
        if addresses == 1 && is_elsewhere {
            prop_assert!(ended.len() <= places as usize / 16 + 1, "{}", ended.len());
        }
    }
}

#[test]
fn a_network_is_an_ipv4_address_or_64_bits_of_ipv6() {
    let of = |ip: &str| Network::of(Some(ip.parse().expect("an address")));
    assert_eq!(of("203.0.113.7"), of("::ffff:203.0.113.7"));
    assert_ne!(of("203.0.113.7"), of("203.0.113.8"));
    assert_eq!(of("2001:db8:0:1::7"), of("2001:db8:0:1:ffff::"));
    assert_ne!(of("2001:db8:0:1::7"), of("2001:db8:0:2::7"));
    assert_ne!(Network::of(None), Network::of(Some(Ipv6Addr::UNSPECIFIED.into())));
}

#[test]
fn a_client_that_takes_some_of_its_answer_has_a_second_for_more() {
    let (mut contenders, awaited) = (Contenders::new(4), Some(Class::Write.into()));
    let note = |contenders: &mut Contenders, has_moved, at_ms| {
        contenders.note(7, awaited, has_moved, at_ms, || network(0));
        [at_ms + STUCK_MS - 1, at_ms + STUCK_MS].map(|now_ms| contenders.takes_nothing(7, now_ms))
    };
    assert_eq!(note(&mut contenders, false, NOW_MS), [false, true]);
    assert_eq!(note(&mut contenders, true, NOW_MS + STUCK_MS - 1), [false, true]);
    note(&mut contenders, false, NOW_MS + STUCK_MS);
    assert!(
        contenders.takes_nothing(7, NOW_MS + 2 * STUCK_MS - 1),
        "a turn in which nothing was taken counts for nothing"
    );
    assert!(!contenders.takes_nothing(8, NOW_MS + 2 * STUCK_MS), "another connection has nothing to take");
}
