//! Fuzzes the target parser beside the standard library. The check itself is in `src/target.rs`, so that tests can make it too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vote_status_fuzz::target;

fuzz_target!(|data: &[u8]| target::check(data));
