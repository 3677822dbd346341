//! The power is cut, at every sync point of a run of 2,000 commits: the store opens, and holds
//! what was acknowledged and nothing that was never sent. In process, on a device that loses what
//! was not synced, or keeps any sectors of it.

use crate::durability::device::{Device, Op};
use crate::durability::history::{History, Kept, Step, server, vote};
use crate::durability::platter::Platter;
use crate::util::needs::rounds;
use crate::util::random::Random;
use vote_status::store::StoreError;
use vote_status::store::commit_marker;

const COMMITS: usize = 2_000;
/// After every step of a run.
const LATER: u32 = 1_800_000_000;

/// A run as it happened: what was on the device before, what was done to it, and the steps.
struct Run {
    before: Vec<u8>,
    log: Vec<Op>,
    steps: Vec<Step>,
}

impl Run {
    fn new(random: &mut Random) -> Run {
        let device = Device::formatted();
        let before = device.bytes();
        device.start_log();
        let mut store = device.store(None).expect("a new store opens");
        let (mut history, mut kept, mut steps) = (History::new(), Kept::default(), Vec::new());
        for number in 1..=COMMITS {
            let step = history.next(&kept, random);
            step.run(&mut store).expect("the device is well");
            device.acknowledged(number);
            kept.take(&step);
            steps.push(step);
        }
        drop(store);
        Run { before, log: device.take_log(), steps }
    }

    /// Calls `check` at every sync point, before the sync has done anything, with what is kept
    /// of the acknowledged steps and, where one is under way, with what is kept after it.
    fn at_every_sync(&self, mut check: impl FnMut(&Platter, usize, &Kept, &Kept)) -> usize {
        let mut platter = Platter::new(self.before.clone());
        let (mut kept, mut next, mut syncs) = (Kept::default(), Kept::default(), 0);
        next.take(&self.steps[0]);
        let mut steps = 0;
        for op in &self.log {
            match op {
                Op::Sync => {
                    syncs += 1;
                    check(&platter, steps, &kept, &next);
                }
                Op::Acknowledged(acknowledged) => {
                    steps = *acknowledged;
                    kept.take(&self.steps[steps - 1]);
                    self.steps.get(steps).into_iter().for_each(|step| next.take(step));
                }
                Op::Write(..) | Op::Resize(_) => {}
            }
            platter.take(op);
        }
        assert_eq!(steps, COMMITS, "every step is in the log");
        check(&platter, steps, &kept, &next);
        syncs + 1
    }
}

/// The note that a cut leaves beside the file: of any acknowledged commit, empty, or torn; never
/// of a later commit.
fn note_left(acknowledged: usize, random: &mut Random) -> Option<Vec<u8>> {
    match random.below(8) {
        0 => None,
        1 => Some(vec![7; 16]),
        2 => Some(commit_marker::content(random.below(acknowledged + 1) as u64)),
        _ => Some(commit_marker::content(acknowledged as u64)),
    }
}

fn check_cut(bytes: Vec<u8>, note: Option<Vec<u8>>, steps: usize, kept: &Kept, next: &Kept) {
    let device = Device::holding(bytes);
    let mut store = device.store(note).unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
    let found = Kept::of(&mut store).unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
    if found != *next {
        found.expect(kept, &format!("after {steps} steps"));
    }
    if steps.is_multiple_of(97) {
        // It goes on from there, and the next start finds that too.
        let mut then = found;
        let step = Step::Commit(vec![vote(LATER, 1, 1), server(1, "later")]);
        step.run(&mut store).unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
        then.take(&step);
        drop(store);
        let mut store = device.store(None).expect("it was closed in order");
        let found = Kept::of(&mut store).expect("it can be read");
        found.expect(&then, &format!("after {steps} steps and one"));
    }
}

#[test]
fn what_was_not_synced_is_lost_or_torn() {
    let mut random = Random::from_environment();
    let mut cuts = 0;
    for _ in 0..rounds(1) {
        let run = Run::new(&mut random);
        cuts += run.at_every_sync(|platter, steps, kept, next| {
            let note = note_left(steps, &mut random);
            check_cut(platter.cut_tearing(&mut random), note, steps, kept, next);
        });
    }
    println!("{cuts} cuts");
    assert!(cuts > COMMITS, "{cuts}");
}

/// The one thing that no power cut does: the note knows of a commit that the file has lost. That
/// is a file put back, or a disk that lies, and must not be served as if nothing had happened.
#[test]
fn a_file_that_lost_a_noted_commit_is_refused() {
    let mut refused = 0;
    Run::new(&mut Random::from_environment()).at_every_sync(|platter, steps, _, _| {
        if steps.is_multiple_of(100) {
            let device = Device::holding(platter.cut_losing_all());
            for attempt in 0..2 {
                // One further than any commit that may be there: the one under way, and one to undo it.
                let note = commit_marker::content(steps as u64 + 3);
                let opened = device.store(Some(note)).map(drop);
                assert!(matches!(opened, Err(StoreError::Unusable(_))), "{steps} steps, attempt {attempt}: {opened:?}");
                refused += 1;
            }
        }
    });
    assert!(refused > 20, "{refused}");
}
