//! Acknowledged votes stay, whatever happens to the process, the disk or the clock, and refused ones
//! are not there. Each test prints how often it tried. With `VOTE_STATUS_TEST_ROUNDS=N` the random
//! tests try N times as often; `TEST_SEED` repeats a run.

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
