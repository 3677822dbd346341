//! The wall clock steps under a running process or between two. A library that is loaded before the system's reads
//! the step from a file. Black box; the recorder's unit tests check the rules themselves.

use crate::durability::files::expect_not_ready;
use crate::util::client::get;
use crate::util::ledger::{COOLDOWN_S, Pair, SERVER, address, next_votes};
use crate::util::needs::{fake_clock, faketime_library};
use crate::util::server::Server;
use crate::util::time::{imf_fixdate, now_unix, rfc3339};
use crate::util::wait_until;
use std::fs;
use std::path::{Path, PathBuf};

const HOUR_S: i64 = 3_600;
/// The most between a reading of this test and the service's, in seconds.
const SLACK_S: i64 = 2;

/// A data directory, and the file with the distance of the service's clock from the system's.
struct Scene {
    folder: tempfile::TempDir,
    faketime: PathBuf,
    step_s: i64,
}

impl Scene {
    /// Where the library is not installed, prints that and gives `None`.
    fn new() -> Option<Scene> {
        let faketime = faketime_library()?;
        let mut scene = Scene { folder: tempfile::tempdir().expect("a temporary folder"), faketime, step_s: 0 };
        scene.write_step(0);
        Some(scene)
    }

    fn step_file(&self) -> PathBuf {
        self.folder.path().join("step")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Replaces the file as a whole, as the library may read at any moment.
    fn write_step(&mut self, step_s: i64) {
        let new = Path::new(&self.step_file()).with_extension("new");
        fs::write(&new, format!("{step_s:+}")).expect("the step can be written");
        fs::rename(&new, self.step_file()).expect("the step can be put in place");
        self.step_s = step_s;
    }

    fn start(&self, more: &[&str]) -> Server {
        let mut command = Server::on(&self.data());
        command.args(more);
        command.env("FAKETIME_NO_CACHE", "1");
        fake_clock(&mut command, &self.faketime, "FAKETIME_TIMESTAMP_FILE", self.step_file());
        Server::spawn(command)
    }

    /// The service's clock, in Unix seconds.
    fn now(&self) -> i64 {
        now_unix() + self.step_s
    }

    /// Steps the clock, and waits until the service has seen it.
    fn step(&mut self, server: &Server, step_s: i64) {
        self.write_step(step_s);
        wait_until("the service follows the clock", || {
            let response = get(server.public(), "/");
            let near = |slack| Some(imf_fixdate(self.now() + slack).as_str()) == response.header("Date");
            (-SLACK_S..=SLACK_S).any(near)
        });
    }
}

fn pairs() -> Vec<Pair> {
    (0..4).map(|number| (SERVER, address(number))).collect()
}

/// A service with three live cooldowns and an ended one.
fn furnished(scene: &Scene) -> Server {
    let server = scene.start(&[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    let ends_soon = now_unix() + 1 - COOLDOWN_S;
    for (number, voted_at) in (0..).zip([now_unix(), now_unix() - 600, now_unix() - 1_800, ends_soon]) {
        let response = control.cast_at(SERVER, &address(number).to_string(), voted_at);
        assert!(response.status == 201 || number == 3, "{response:?}");
    }
    wait_until("the fourth ends", || next_votes(&server, &pairs())[3].is_none());
    assert_eq!(live(&next_votes(&server, &pairs())), [true, true, true, false]);
    server
}

fn live(shown: &[Option<String>]) -> Vec<bool> {
    shown.iter().map(Option::is_some).collect()
}

/// Requires that a start now is not ready, and reports the reason with both times.
fn expect_behind(scene: &Scene, what: &str) {
    let mut server = scene.start(&[]);
    let known = rfc3339(now_unix() - HOUR_S);
    expect_not_ready(&mut server, "clock_behind", &known[..13], "--accept-clock", what);
    let message = get(server.control(), "/readyz").json()["message"].to_string();
    let says = rfc3339(scene.now());
    assert!(message.contains(&format!("the clock says {}", &says[..13])), "{what}: {message}");
}

#[test]
fn a_clock_that_was_ahead_has_ended_nothing_and_one_that_is_accepted_revives_nothing() {
    let Some(mut scene) = Scene::new() else { return };
    let server = furnished(&scene);
    let shown = next_votes(&server, &pairs());
    scene.step(&server, 2 * HOUR_S);
    assert_eq!(live(&next_votes(&server, &pairs())), [false; 4], "the later time is shown");
    let apart_s = server.metric("vote_status_clock_apart_seconds");
    assert!((7_199..=7_201).contains(&apart_s), "and said: {apart_s}");
    server.wait_for_lines("nobody knows which is right", 1);
    // The note of the step is durable before this change. A kill before it would leave the note of before the step.
    server.control_client().add_server(SERVER + 1, "other");
    drop(server);
    let server = scene.start(&[]);
    assert_eq!(live(&next_votes(&server, &pairs())), [false; 4], "after a kill");
    scene.step(&server, 0);
    assert_eq!(next_votes(&server, &pairs()), shown, "the clock has come back");
    server.wait_for_lines("the time shown went back to", 1);
    drop(server);
    let server = scene.start(&[]);
    assert_eq!(next_votes(&server, &pairs()), shown, "after another kill");
    // The certain time is the later one now.
    scene.write_step(-HOUR_S);
    server.wait_for_lines("nobody knows which is right", 1);
    assert_eq!(next_votes(&server, &pairs()), shown, "a clock that is behind changes nothing");
    assert_eq!(server.control_client().cast(SERVER, address(0)).status, 409);
    server.stop();

    scene.write_step(-2 * HOUR_S);
    expect_behind(&scene, "an hour behind");
    let server = scene.start(&["--accept-clock"]);
    server.wait_for_lines("the clock counts as certain (--accept-clock)", 1);
    let shown = next_votes(&server, &pairs());
    assert_eq!(live(&shown), [true, true, true, false]);
    // Instants in this spelling sort by time.
    let latest = rfc3339(scene.now() + COOLDOWN_S + 1);
    assert!(shown.iter().flatten().all(|next| *next <= latest), "{shown:?} after {latest}");
    drop(server);
    assert_eq!(next_votes(&scene.start(&[]), &pairs()), shown, "without the option");
}
