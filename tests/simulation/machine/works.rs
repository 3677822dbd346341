//! Tells whether the disk is well, and has been well for so long that everything has to work.

use super::{LOOKS_MS, Machine, RECOVERS_MS, STORE};
use crate::simulation::disk::Faults;

impl Machine {
    pub(super) fn is_disk_well(&self) -> bool {
        let disk = self.disk.locked();
        let faults = disk.faults;
        disk.has(STORE)
            && !self.is_displaced
            && disk.strikes.is_empty()
            && faults
                == Faults {
                    kill: faults.kill,
                    sync_takes_ms: faults.sync_takes_ms,
                    errno: faults.errno,
                    ..Faults::default()
                }
    }

    /// Notes since when everything has to work.
    pub(super) fn look_at_disk(&mut self) {
        let boot_ms = self.clocks.reading().boot_ms;
        if self.is_in_memory {
            self.works_from_ms.get_or_insert(boot_ms);
        } else if !self.is_disk_well() {
            self.works_from_ms = None;
        } else if self.works_from_ms.is_none() {
            // The service notices a change of the file at its next look.
            let looks_ms = if self.is_unproven { LOOKS_MS } else { 0 };
            self.works_from_ms = Some(boot_ms + RECOVERS_MS + looks_ms + self.longest_step_ms);
        }
        self.has_worked &= self.works();
    }

    /// Whether everything has to work.
    pub(super) fn works(&self) -> bool {
        let boot_ms = self.clocks.reading().boot_ms;
        self.works_from_ms.is_some_and(|from_ms| boot_ms >= from_ms)
    }

    /// The operator has moved the store, or destroyed its content.
    pub(crate) fn disturb(&mut self, is_destroyed: bool) {
        self.works_from_ms = None;
        self.is_unproven |= is_destroyed;
    }

    pub(crate) fn displace(&mut self, is_displaced: bool) {
        self.is_displaced = is_displaced;
        self.works_from_ms = None;
    }

    /// Nothing recovers while the process does not run.
    pub(crate) fn sleeps(&mut self) {
        if !self.works() {
            self.works_from_ms = None;
        }
    }
}
