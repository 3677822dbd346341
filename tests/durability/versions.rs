//! The service reads a store of each version: see [`crate::util::kept`].

use crate::util::client::get;
use crate::util::kept::{LATER_S, MOMENT_S, expect_all, furnish, kept};
use crate::util::needs::{fake_clock, faketime_library};
use crate::util::server::Server;
use crate::util::time::now_unix;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::fs;
use std::path::Path;

const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
const FILES: [&str; 2] = ["votes.redb", "votes.sequence"];

fn copy_store(from: &Path, to: &Path) {
    for name in FILES {
        fs::copy(from.join(name), to.join(name)).expect("the store can be copied");
    }
}

/// Starts a service whose clock is at this moment.
fn serve_at(data: &Path, library: &Path, moment_s: i64) -> Server {
    let mut command = Server::on(data);
    fake_clock(&mut command, library, "FAKETIME", format!("{:+}", moment_s - now_unix()));
    Server::spawn(command)
}

#[test]
fn a_store_of_every_version_is_read() {
    let Some(library) = faketime_library() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kept = kept(|own| {
        let data = folder.path().join("made");
        let server = serve_at(&data, &library, MOMENT_S);
        furnish(&server.control_client());
        server.stop();
        copy_store(&data, own);
    });
    for version in kept {
        let data = folder.path().join(version.file_name().expect("a version"));
        fs::create_dir(&data).expect("a folder");
        copy_store(&version, &data);
        let server = serve_at(&data, &library, MOMENT_S + LATER_S);
        let ended = r#"{"server_id":2,"ip":"203.0.113.7","voted_at":"2026-11-22T10:36:40Z"}"#;
        expect_all(&server, &version.display().to_string(), &[ended]);
    }
}

/// 1.0.0 followed a step of the clock at once, and kept votes that might have to come back in separate tables. The first
/// start of a later version takes over the votes that 1.0.0 would have shown. 1.0.0 can no longer read the store.
#[test]
fn a_store_of_the_first_release_with_a_step_under_way_is_taken_over() {
    let Some(library) = faketime_library() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Three votes, 0, 10 and 30 minutes old; then the clock stepped by two hours, and the process was killed.
    for (step, step_s, shown) in
        [("step-forward", 7_200, [None; 3]), ("step-back", -7_200, [Some("2026-11-22T11:30:04Z"); 3])]
    {
        let data = folder.path().join(step);
        fs::create_dir(&data).expect("a folder");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/1.0.0").join(step);
        copy_store(&kept, &data);
        let next = |server: &Server| {
            [7, 8, 9].map(|last| {
                let body = get(server.public(), &format!("/api/vote/1/status/203.0.113.{last}")).json();
                body["next_vote_at"].as_str().map(str::to_owned)
            })
        };
        let shown = shown.map(|next| next.map(str::to_owned));
        for round in ["the first start", "the next"] {
            let server = serve_at(&data, &library, MOMENT_S + step_s + 30);
            assert_eq!(next(&server), shown, "{step}, {round}");
            // This line comes after the start, which does not wait for it.
            server.wait_for_lines("the store was written anew", usize::from(round == "the first start"));
            drop(server);
        }
        let database = Database::open(data.join(FILES[0])).expect("it is a store");
        let meta = database.begin_read().expect("it can be read").open_table(META).expect("a table");
        assert_eq!(meta.get("schema").expect("it can be read").map(|schema| schema.value()), Some(4));
        drop((meta, database));
        // Votes that a step forward had ended come back with the clock.
        if step_s > 0 {
            let server = serve_at(&data, &library, MOMENT_S + 60);
            let ends = ["2026-11-22T13:30:00Z", "2026-11-22T13:20:00Z", "2026-11-22T13:00:00Z"];
            assert_eq!(next(&server), ends.map(|next| Some(next.to_owned())), "{step}, and back");
        }
    }
}
