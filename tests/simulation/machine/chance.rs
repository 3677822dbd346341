//! Draws every random choice of the recorder from the seed of a simulation.

use crate::util::random::Random;
use std::cell::RefCell;
use vote_status::recorder::Tuning;
use vote_status::vote::hasher::TableHasher;
use vote_status::vote::id::Token;

thread_local! {
    /// The random bits of tokens.
    static TOKENS: RefCell<Random> = RefCell::new(Random::seeded(0));
}

fn generate_token() -> Option<Token> {
    let mut bits = [0; 16];
    TOKENS.with_borrow_mut(|random| bits.fill_with(|| random.next().to_be_bytes()[0]));
    Some(Token::from_random(bits))
}

/// The recorder's randomness, and limits so small that few votes reach them.
pub(super) fn tuning(seed: u64) -> Tuning {
    let mut random = Random::seeded(!seed);
    TOKENS.set(Random::seeded(seed));
    Tuning {
        generate_token,
        hasher: TableHasher::with_seed(random.next()),
        tick_ms: *random.pick(&[50, 50, 200]),
        shards: *random.pick(&[1, 4, 32, 128]),
        sweep_shards: *random.pick(&[1, 4, 16]),
        commit_events_max: *random.pick(&[1, 3, 8, 1_000]),
        part_rows: *random.pick(&[1, 2, 5, 1_000]),
        renewal_slice_rows: *random.pick(&[1, 3, 1_000]),
    }
}
