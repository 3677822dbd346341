//! A store of each version is read: see [`crate::util::kept`].

use crate::util::kept::{LATER_S, MOMENT_S, expect_all, furnish, kept};
use crate::util::needs::{fake_clock, faketime_library};
use crate::util::server::Server;
use crate::util::time::now_unix;
use std::fs;
use std::path::Path;

const FILES: [&str; 2] = ["votes.redb", "votes.sequence"];

fn copy_store(from: &Path, to: &Path) {
    for name in FILES {
        fs::copy(from.join(name), to.join(name)).expect("the store can be copied");
    }
}

/// A service whose clock is at this moment.
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
        expect_all(&server, &version.display().to_string());
    }
}
