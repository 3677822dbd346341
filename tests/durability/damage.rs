//! A store's file with damage: each start reads exactly what was kept, or is refused. Never wrong
//! answers, never an empty start.

use crate::durability::device::Device;
use crate::durability::history::{History, Kept};
use crate::util::needs::rounds;
use crate::util::random::Random;

/// Random damage to a file; says what was done.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let anywhere = random.below(bytes.len());
    let in_use = *random.pick(&used);
    match random.below(8) {
        0 => flip(bytes, anywhere, random),
        1..=3 => flip(bytes, in_use, random),
        4 => flip(bytes, random.below(320), random),
        5 => {
            let end = bytes.len().min(in_use + 1 + random.below(64));
            bytes[in_use..end].fill_with(|| random.next() as u8);
            format!("bytes {in_use} to {end} are others")
        }
        6 => {
            bytes.truncate(anywhere);
            format!("cut to {anywhere} bytes")
        }
        _ => {
            let page = in_use / 4_096 * 4_096;
            let end = bytes.len().min(page + 4_096);
            bytes[page..end].fill(0);
            format!("the page at {page} is empty")
        }
    }
}

fn flip(bytes: &mut [u8], at: usize, random: &mut Random) -> String {
    let bit = random.below(8);
    bytes[at] ^= 1 << bit;
    format!("bit {bit} of byte {at} is the other")
}

/// Without a process, and so often.
#[test]
fn a_damaged_device_is_read_right_or_refused() {
    let mut random = Random::from_environment();
    let device = Device::formatted();
    let mut kept = Kept::default();
    let mut store = device.store(None).expect("a new store opens");
    let mut history = History::new();
    for _ in 0..300 {
        let step = history.next(&kept, &mut random);
        step.run(&mut store).expect("the device is well");
        kept.take(&step);
    }
    let killed = device.bytes();
    drop(store);
    let ended = device.bytes();
    let noted = device.note();
    let (mut right, mut refused) = (0, 0);
    for number in 0..rounds(600) {
        let mut bytes = if number % 2 == 0 { ended.clone() } else { killed.clone() };
        let what = format!("trial {number}: {}", damage(&mut bytes, &mut random));
        let device = Device::holding(bytes);
        let mut note = noted.clone();
        for _ in 0..2 {
            let opened = device.store(Some(note));
            note = device.note();
            match opened.and_then(|mut store| Kept::of(&mut store)) {
                Ok(found) => {
                    right += 1;
                    found.expect(&kept, &what);
                }
                Err(_) => refused += 1,
            }
        }
    }
    println!("{right} were read right, {refused} refused");
    assert!(right > 50 && refused > 50, "{right} right, {refused} refused");
}
