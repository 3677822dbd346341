//! Starts of a store with other settings. Black box; tests beside the code check each vote.

use crate::durability::exchanged::{closed, taken_up};
use crate::util::ledger::{COOLDOWN_S, SERVER, address, next_votes, serve, try_serve, voted};
use crate::util::time::{now_unix, rfc3339};

#[test]
fn a_start_with_other_settings_is_refused_until_they_are_accepted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pair = (SERVER, address(2));
    let (server, mut ledger) = voted(folder.path(), 0);
    let voted_at = now_unix() - 600;
    ledger.cast(&server.control_client(), pair, voted_at);
    drop(server);
    let other = ["--cooldown-minutes", "120", "--ipv6-prefix", "56"];
    for other in [&other[..], &other[..2], &other[2..]] {
        let ended = try_serve(folder.path(), other).err().unwrap_or_else(|| panic!("{other:?} was taken"));
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        for word in ["--cooldown-minutes 90 --ipv6-prefix 64", other[0], other[1], "--accept-settings"] {
            assert!(ended.stderr.lines().last().is_some_and(|line| line.contains(word)), "{word}: {ended:?}");
        }
    }
    ledger.expect_after_kill(serve(folder.path(), &[]), folder.path(), "nothing has changed");
    let expected = [Some(rfc3339(voted_at + COOLDOWN_S + 1_800))];
    let mut commits = Vec::new();
    for (options, ended) in [(&[&other[..2], &["--accept-settings"]].concat()[..], true), (&other[..2], false)] {
        let server = serve(folder.path(), options);
        assert_eq!(next_votes(&server, &[pair]), expected, "{options:?}");
        // Plugins pay such a vote once more, so the log and a metric give the number of these votes.
        let count = server.metric("vote_status_ended_early_total{cause=\"settings\"}");
        // Every line of the start comes before this one.
        server.wait_for_lines("listening on", 1);
        let told = server.stderr();
        let line = format!("; {count} cooldowns end with that, or at another time");
        assert_eq!((count > 0, told.contains(&line)), (ended, ended), "{told}");
        // The number of the last commit would show another store in its place.
        let (at, number) = taken_up(&server);
        assert!(at.starts_with("20"), "{told}");
        commits.push(number);
        server.await_metric("vote_status_servers", 1);
        assert!(server.metric("vote_status_store_commit") >= number, "{told}");
        assert!(closed(server) > number, "{told}");
    }
    assert!(commits[0] < commits[1], "{commits:?}");
}
