//! What was acknowledged stays, whatever happens to the process, the disk or the clock; what was
//! refused is not there. Each test says how often it tried; `VOTE_STATUS_TEST_ROUNDS=N` has the
//! random ones try N times as often, `TEST_SEED` repeats a run.

mod anew;
mod crash;
mod directory;
mod exchanged;
mod files;
mod full;
mod gone;
mod hangs;
mod heals;
mod memory;
mod settings;
mod small_disk;
mod starts;
mod steps;
mod versions;
mod watchdog;
