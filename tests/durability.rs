//! What was acknowledged stays, whatever happens to the process, the disk or the clock; what was
//! refused is not there. Each test says how often it tried; `VOTE_STATUS_TEST_ROUNDS=N` has the
//! random ones try N times as often, `TEST_SEED` repeats a run.

mod behind;
mod clock;
mod crash;
mod damage;
mod device;
mod expiry;
mod files;
mod full;
mod gone;
mod heals;
mod history;
pub(crate) mod ledger;
mod power;
mod removal;
mod restart;
mod retention;
mod small_disk;
mod starts;
pub(crate) mod steps;
mod undo;

/// So many rounds, or as many times more as the environment asks for.
fn rounds(usual: usize) -> usize {
    let factor = std::env::var("VOTE_STATUS_TEST_ROUNDS").map_or(1, |factor| factor.parse().expect("a number"));
    usual * factor
}

/// Says that a test cannot be done here, and why. Where `VOTE_STATUS_TEST_ALL` is set that is a
/// failure.
pub(crate) fn left_out(why: &str) {
    assert!(std::env::var_os("VOTE_STATUS_TEST_ALL").is_none(), "left out, though all tests were asked for: {why}");
    eprintln!("left out: {why}");
}
