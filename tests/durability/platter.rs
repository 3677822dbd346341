//! What lies on a disk when the power is cut: what was synced, and of the rest any part.

use crate::durability::device::{Op, apply};
use crate::util::random::Random;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What lies on the platter: `synced` for sure, `pending` perhaps.
#[derive(Debug)]
pub(crate) struct Platter {
    synced: Vec<u8>,
    pending: Vec<Op>,
}

impl Platter {
    /// A platter that holds these bytes for sure.
    pub(crate) fn new(synced: Vec<u8>) -> Platter {
        Platter { synced, pending: Vec::new() }
    }

    /// Takes what was done next; a sync makes all of it last.
    pub(crate) fn take(&mut self, op: &Op) {
        match op {
            Op::Sync => {
                let pending = std::mem::take(&mut self.pending);
                pending.iter().for_each(|op| apply(&mut self.synced, op));
            }
            Op::Write(..) | Op::Resize(_) => self.pending.push(op.clone()),
            Op::Acknowledged(_) => {}
        }
    }

    /// The power is cut, and nothing that was not synced is there.
    pub(crate) fn cut_losing_all(&self) -> Vec<u8> {
        self.synced.clone()
    }

    /// The power is cut, and of what was not synced any sectors may be there, in any mixture.
    pub(crate) fn cut_tearing(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        // From nearly nothing to nearly everything: both ends matter, as does the middle.
        let kept_of_16 = random.below(17);
        for op in &self.pending {
            match op {
                Op::Write(from, data) => {
                    let mut done = 0;
                    while done < data.len() {
                        let at = from + done;
                        let sector = &data[done..data.len().min(done + SECTOR_BYTES - at % SECTOR_BYTES)];
                        if random.below(16) < kept_of_16 && at + sector.len() <= bytes.len() {
                            bytes[at..at + sector.len()].copy_from_slice(sector);
                        }
                        done += sector.len();
                    }
                }
                Op::Resize(_) if random.below(16) < kept_of_16 => apply(&mut bytes, op),
                _ => {}
            }
        }
        bytes
    }
}
