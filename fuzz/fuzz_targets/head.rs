//! Fuzzes the head parser beside `httparse`. The check itself is in `src/head.rs`, so that tests can make it too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vote_status_fuzz::head;

fuzz_target!(|data: &[u8]| head::check(data));
