//! A server with very many votes is struck off in parts: votes for others go on between them, and
//! nothing of it comes back, whenever the process is killed and however soon the id is listed again.

use crate::util::ledger::{Ledger, address, next_votes, serve, voted};
use crate::util::server::Server;
use crate::util::time::now_unix;
use std::fmt::Write as _;

/// The votes of a large server: some 12 parts.
const VOTES: u32 = 100_000;

fn fill(server: &Server, large: u32) {
    let (control, now) = (server.control_client(), now_unix());
    control.add_server(large, &format!("large-{large}"));
    for first in (0..VOTES).step_by(20_000) {
        let mut body = String::new();
        for number in first..first + 20_000 {
            let (ip, voted_at) = (address(number), now - i64::from(number % 2_000));
            writeln!(body, r#"{{"server_id":{large},"ip":"{ip}","voted_at":{voted_at}}}"#).expect("a line");
        }
        assert_eq!(control.post("/v1/votes/batch", &body).status, 200);
    }
}

/// Strikes it off: most of its votes are there when the answer comes.
fn strike_off(server: &Server, large: u32) {
    let response = server.control_client().delete(&format!("/v1/servers/{large}"));
    assert_eq!(response.status, 200, "{response:?}");
    assert!(server.metric("vote_status_cooldowns") > u64::from(VOTES) / 2, "it goes in parts");
}

/// The old voters of a server that is listed again may vote, but for those of the ledger.
fn expect_none_back(server: &Server, large: u32, ledger: &Ledger, what: &str) {
    let pairs: Vec<_> = (2..VOTES).step_by(997).map(|number| (large, address(number))).collect();
    let back = next_votes(server, &pairs).into_iter().flatten().count();
    assert_eq!(back, 0, "{what}: votes of the old server are back");
    ledger.expect(server, what);
}

/// Regression: one commit took all of it, and held up everybody's votes for as long.
#[test]
fn votes_go_on_while_a_large_server_is_struck_off_and_none_of_its_own_comes_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, mut ledger) = voted(folder.path(), 20);
    fill(&server, 7);
    strike_off(&server, 7);
    ledger.cast_all(&server, 1_000..1_010);
    server.control_client().add_server(7, "again");
    // By another second than that of the old vote of this address.
    ledger.cast(&server.control_client(), (7, address(1)), now_unix());
    expect_none_back(&server, 7, &ledger, "listed again at once");

    fill(&server, 8);
    strike_off(&server, 8);
    drop(server);
    let server = serve(folder.path(), &[]);
    server.control_client().add_server(8, "other");
    expect_none_back(&server, 8, &ledger, "listed again after a kill");
    drop(server);
    expect_none_back(&serve(folder.path(), &[]), 8, &ledger, "after one more kill");
}
