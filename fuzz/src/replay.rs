//! Runs the committed corpus through the checks without the fuzzer: as it is, and with seeded damage.

use std::fs;
use std::path::PathBuf;

use crate::cuts::Choices;
use crate::{head, session};

const DAMAGED_PER_INPUT: u64 = 60;

type Check = fn(&[u8]);

const TARGETS: [(&str, Check); 2] = [("head", head::check), ("session", session::check)];

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The data with a byte changed, dropped or doubled, or two places swapped, as a fuzzer does first.
fn damaged(data: &[u8], salt: u64) -> Vec<u8> {
    let mut choices = Choices::of(data, salt);
    let mut data = data.to_vec();
    for _ in 0..=choices.below(3) {
        let Some(last) = data.len().checked_sub(1) else { break };
        let (one, other) = (choices.below(last + 1), choices.below(last + 1));
        match choices.below(4) {
            0 => data[one] = choices.pick(b"\r\n\t\0 :;,/%*#0Ca\x7f\xff"),
            1 => drop(data.remove(one)),
            2 => data.insert(one, data[other]),
            _ => data.swap(one, other),
        }
    }
    data
}

#[test]
fn the_corpus_passes_whole_and_damaged() {
    for (target, check) in TARGETS {
        let mut inputs = 0;
        for entry in fs::read_dir(folder(target)).expect("the corpus is committed") {
            let path = entry.expect("a readable folder").path();
            let data = fs::read(&path).expect("a readable file");
            println!("{}", path.display());
            check(&data);
            for salt in 0..DAMAGED_PER_INPUT {
                let data = damaged(&data, salt);
                println!("  salt {salt}: {}", data.escape_ascii());
                check(&data);
            }
            inputs += 1;
        }
        assert!(inputs >= 20, "{target}: {inputs} inputs");
    }
}
