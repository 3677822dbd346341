//! One file: the bytes that the kernel shows, the bytes on the disk, and those that a power cut leaves.

use super::{Inode, PAGE, SECTOR};
use crate::util::random::Random;

impl Inode {
    pub(super) fn page(bytes: &[u8], page: usize) -> std::ops::Range<usize> {
        (page * PAGE).min(bytes.len())..((page + 1) * PAGE).min(bytes.len())
    }

    pub(super) fn resize(&mut self, length: usize) {
        let shortest = self.shortest.unwrap_or(self.seen.len());
        self.shortest = Some(shortest.min(length));
        set_length(&mut self.seen, length);
        self.writes += 1;
    }

    pub(super) fn write_length(&mut self) {
        self.durable.truncate(self.shortest.take().unwrap_or(usize::MAX));
        set_length(&mut self.durable, self.seen.len());
    }

    pub(super) fn write_back(&mut self, page: usize) {
        let range = Inode::page(&self.seen, page);
        if self.durable.len() < range.end {
            set_length(&mut self.durable, range.end);
        }
        self.durable[range.clone()].copy_from_slice(&self.seen[range]);
        self.allocated.insert(page);
    }

    pub(super) fn read_back(&mut self, page: usize) {
        let range = Inode::page(&self.seen, page);
        for at in range {
            self.seen[at] = self.durable.get(at).copied().unwrap_or(0);
        }
    }

    pub(super) fn cut_power(&mut self, random: &mut Random) {
        if random.below(2) == 0 {
            self.write_length();
        }
        let how = random.below(3);
        for page in std::mem::take(&mut self.dirty) {
            let range = Inode::page(&self.seen, page);
            for sector in range.step_by(SECTOR) {
                // All, none, or any of the sectors.
                let is_written = how == 0 || (how == 1 && random.below(2) == 0);
                let end = (sector + SECTOR).min(self.seen.len()).min(self.durable.len());
                if is_written && sector < end {
                    self.durable[sector..end].copy_from_slice(&self.seen[sector..end]);
                    self.allocated.insert(page);
                }
            }
        }
        self.lost.clear();
        (self.shortest, self.is_doubtful) = (None, false);
        self.reserved.clone_from(&self.allocated);
        self.seen.clone_from(&self.durable);
    }
}

/// Cuts the bytes, or appends zeros. `Vec::resize` goes byte by byte in builds that are not optimised.
fn set_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.truncate(length);
    if bytes.len() < length {
        let mut grown = vec![0; length];
        grown[..bytes.len()].copy_from_slice(bytes);
        *bytes = grown;
    }
}
