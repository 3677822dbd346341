//! Every later build reads the files of each version: `tests/kept/VERSION` has a store's file and a dump of the keys in Redis,
//! both made at [`MOMENT_S`] by [`furnish`]. A version that writes another format adds a folder:
//! `VOTE_STATUS_TEST_KEEP=1 cargo test --features redis --test integration -- of_every_version` makes it.

use crate::util::client::get;
use crate::util::control::{Control, until_taken};
use crate::util::server::Server;
use std::fs;
use std::path::{Path, PathBuf};

/// 2026-11-22T12:00:00Z, in Unix seconds.
pub(crate) const MOMENT_S: i64 = 1_795_348_800;
/// The tests read the kept files with a clock this many seconds after that moment.
pub(crate) const LATER_S: i64 = 600;

/// Makes servers and votes of every kind: of both families, cancelled, cast again, ended by [`LATER_S`], of a removed
/// server, and of one that was removed and listed again.
pub(crate) fn furnish(control: &Control) {
    let cast = |server, ip, ago_s| assert_eq!(control.cast_at(server, ip, MOMENT_S - ago_s).status, 201, "{ip}");
    let delete = |path: &str| assert_eq!(control.delete(path).status, 200, "{path}");
    for server in 1..=4 {
        control.add_server(server, &format!("token-{server}"));
    }
    cast(1, "203.0.113.7", 60);
    cast(1, "2001:db8:0:7:9c1e:52ff:fe08:44d1", 50);
    cast(1, "203.0.113.8", 40);
    delete("/v1/votes/1/203.0.113.8");
    cast(1, "2001:db8:0:8::1", 40);
    delete("/v1/votes/1/2001:db8:0:8::1");
    cast(1, "2001:db8:0:8::1", 30);
    cast(2, "203.0.113.7", 5_000);
    cast(3, "203.0.113.7", 20);
    delete("/v1/servers/3");
    cast(4, "203.0.113.7", 20);
    delete("/v1/servers/4");
    control.add_server(4, "token-4-again");
    // With Redis, no vote may have a second up to that of the removal.
    cast(4, "203.0.113.8", -4);
}

/// Requires that both listeners show the state of [`furnish`], [`LATER_S`] later. The export also has `uncertain`: a service
/// that was stopped that long does not know yet whether its clock is right.
pub(crate) fn expect_all(server: &Server, what: &str, uncertain: &[&'static str]) {
    let mut lines = server.control_client().exported();
    lines.sort_unstable();
    let mut expected = vec![
        r#"{"server_id":1,"ip":"2001:db8:0:7::","voted_at":"2026-11-22T11:59:10Z"}"#,
        r#"{"server_id":1,"ip":"2001:db8:0:8::","voted_at":"2026-11-22T11:59:30Z"}"#,
        r#"{"server_id":1,"ip":"203.0.113.7","voted_at":"2026-11-22T11:59:00Z"}"#,
        r#"{"server_id":1,"token":"token-1"}"#,
        r#"{"server_id":2,"token":"token-2"}"#,
        r#"{"server_id":4,"ip":"203.0.113.8","voted_at":"2026-11-22T12:00:04Z"}"#,
        r#"{"server_id":4,"token":"token-4-again"}"#,
    ];
    expected.extend(uncertain);
    expected.sort_unstable();
    assert_eq!(lines, expected, "{what}");
    for (path, status, next) in [
        ("/api/vote/1/status/203.0.113.7", 200, Some("2026-11-22T13:29:00Z")),
        ("/api/servers/token-1/vote-status/2001:db8:0:7::5", 200, Some("2026-11-22T13:29:10Z")),
        ("/api/vote/1/status/203.0.113.8", 200, None),
        ("/api/vote/1/status/2001:db8:0:8::2", 200, Some("2026-11-22T13:29:30Z")),
        ("/api/vote/2/status/203.0.113.7", 200, None),
        ("/api/vote/3/status/203.0.113.7", 404, None),
        ("/api/servers/token-3/vote-status/203.0.113.7", 404, None),
        ("/api/vote/4/status/203.0.113.7", 200, None),
        ("/api/servers/token-4/vote-status/203.0.113.8", 404, None),
        ("/api/servers/token-4-again/vote-status/203.0.113.8", 200, Some("2026-11-22T13:30:04Z")),
    ] {
        let response = get(server.public(), path);
        let body = response.json();
        let shown = (response.status, body["can_vote"].as_bool(), body["next_vote_at"].as_str());
        assert_eq!(shown, (status, Some(next.is_none()), next), "{what}: {path}");
    }
    let (control, voter) = (server.control_client(), [203, 0, 113, 7]);
    // A store that was away takes votes once the nodes have given back the votes that it may have lost.
    until_taken("votes are taken", [201, 409], || control.cast(2, voter));
    assert_eq!(control.cast(1, voter).status, 409, "{what}");
}

/// The kept folders. Where the environment asks for it, `make` first makes the one of this version anew.
pub(crate) fn kept(make: impl FnOnce(&Path)) -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    if std::env::var_os("VOTE_STATUS_TEST_KEEP").is_some() {
        let own = all.join(env!("CARGO_PKG_VERSION"));
        fs::create_dir_all(&own).expect("a folder");
        make(&own);
    }
    let folders = fs::read_dir(all).expect("what 1.0.0 wrote is kept");
    let folders: Vec<PathBuf> = folders.map(|entry| entry.expect("a folder").path()).collect();
    assert!(folders.iter().any(|folder| folder.ends_with("1.0.0")), "{folders:?}");
    folders
}
