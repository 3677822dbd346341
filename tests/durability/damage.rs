//! A store's file with damage: each start serves exactly the right answers, or is refused with
//! one clear line. Never wrong answers, never an empty start.

use crate::durability::device::Device;
use crate::durability::files::{expect_not_ready, furnished, store_file};
use crate::durability::history::{History, Kept};
use crate::util::client::get;
use crate::util::ledger::{Ledger, SERVER, address, serve};
use crate::util::needs::rounds;
use crate::util::random::Random;
use crate::util::time::now_unix;
use rustix::process::Signal;
use std::fs;
use std::path::Path;

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

/// A directory that was in use when its process was killed.
fn furnished_and_killed(folder: &Path, votes: u32) -> Ledger {
    let mut ledger = furnished(folder, votes / 2);
    let server = serve(folder, &[]);
    for number in votes / 2..votes {
        ledger.cast(&server.control_client(), (SERVER, address(number)), now_unix());
    }
    let cancelled = (SERVER, address(0));
    let response = server.control_client().delete(&format!("/v1/votes/{}/{}", cancelled.0, cancelled.1));
    assert_eq!(response.status, 200, "{response:?}");
    ledger.recorded.remove(&cancelled);
    ledger.refused.push(cancelled);
    server.signal(Signal::KILL);
    ledger
}

#[test]
fn a_damaged_file_serves_right_answers_or_is_refused() {
    let mut random = Random::from_environment();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [ended, killed] = ["ended", "killed"].map(|name| folder.path().join(name));
    let ledgers = [(&ended, furnished(&ended, 60)), (&killed, furnished_and_killed(&killed, 60))];
    let trial = folder.path().join("trial");
    let (mut served, mut refused) = (0, 0);
    for number in 0..rounds(200) {
        let (source, ledger) = &ledgers[number % 2];
        let mut bytes = fs::read(store_file(source)).expect("the file can be read");
        let what = format!("trial {number}: {}", damage(&mut bytes, &mut random));
        fs::create_dir(&trial).expect("a folder can be made");
        fs::write(store_file(&trial), bytes).expect("the file can be written");
        fs::copy(source.join("votes.sequence"), trial.join("votes.sequence")).expect("the note can be copied");
        // Now and then again: a refused start must not have made the file fit to be served.
        for _ in 0..1 + usize::from(random.below(4) == 0) {
            let mut server = serve(&trial, &[]);
            if get(server.control(), "/readyz").status == 200 {
                served += 1;
                ledger.expect(&server, &what);
            } else {
                refused += 1;
                let name = store_file(&trial).display().to_string();
                expect_not_ready(&mut server, "store_unusable", &name, "the store", &what);
            }
        }
        fs::remove_dir_all(&trial).expect("the folder can be removed");
    }
    println!("{served} starts served right answers, {refused} were refused");
    assert!(served > 10 && refused > 50, "{served} served, {refused} refused");
}

/// The same without a process, and so more often.
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
