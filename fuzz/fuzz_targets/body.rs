//! Fuzzes the body framing. The check itself is in `src/body.rs`, so that tests can make it too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vote_status_fuzz::body;

fuzz_target!(|data: &[u8]| body::check(data));
