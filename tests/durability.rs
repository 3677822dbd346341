//! What was acknowledged stays, whatever happens to the process, the disk or the clock; what was
//! refused is not there. Each test says how often it tried; `VOTE_STATUS_TEST_ROUNDS=N` has the
//! random ones try N times as often, `TEST_SEED` repeats a run.

mod crash;
mod device;
mod files;
mod history;
mod ledger;
mod power;
mod undo;

/// So many rounds, or as many times more as the environment asks for.
fn rounds(usual: usize) -> usize {
    let factor = std::env::var("VOTE_STATUS_TEST_ROUNDS").map_or(1, |factor| factor.parse().expect("a number"));
    usual * factor
}
