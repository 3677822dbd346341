//! Fuzzes the whole way from a connection's bytes to the answers' bytes. The check itself is in `src/session.rs`, so that tests can make it too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vote_status_fuzz::session;

fuzz_target!(|data: &[u8]| session::check(data));
