//! The settings of a store over starts with others. Black box; what becomes of each vote is tested beside the code.

use crate::durability::files::stop;
use crate::util::ledger::{COOLDOWN_S, SERVER, address, next_votes, serve, try_serve};
use crate::util::time::{now_unix, rfc3339};

#[test]
fn a_start_with_other_settings_is_refused_until_they_are_accepted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pair = (SERVER, address(2));
    let server = serve(folder.path(), &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    stop(server);

    // No vote is live: the first configuration after an install just works.
    let longer = ["--cooldown-minutes", "120", "--ipv6-prefix", "56"];
    let server = serve(folder.path(), &longer);
    let voted_at = now_unix() - 600;
    assert_eq!(server.control_client().cast_at(SERVER, &pair.1.to_string(), voted_at).status, 201);
    stop(server);

    for other in [&[][..], &["--cooldown-minutes", "120"], &["--ipv6-prefix", "56"]] {
        let ended = try_serve(folder.path(), other).err().unwrap_or_else(|| panic!("{other:?} was taken"));
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        for word in ["--cooldown-minutes 120 --ipv6-prefix 56", other.first().unwrap_or(&"90"), "--accept-settings"] {
            assert!(ended.stderr.lines().last().is_some_and(|line| line.contains(word)), "{word}: {ended:?}");
        }
    }
    let server = serve(folder.path(), &longer);
    assert_eq!(next_votes(&server, &[pair]), [Some(rfc3339(voted_at + 7_200))], "nothing has changed");
    stop(server);
    for options in [&["--accept-settings"][..], &[]] {
        let server = serve(folder.path(), options);
        assert_eq!(next_votes(&server, &[pair]), [Some(rfc3339(voted_at + COOLDOWN_S))], "{options:?}");
        stop(server);
    }
}
