//! The wall clock steps under a running process or between two, by a library that is loaded before the system's
//! and reads the step from a file. Black box; the recorder's unit tests hold the rules themselves.

use crate::durability::files::{expect_not_ready, stop};
use crate::util::client::get;
use crate::util::ledger::{Pair, SERVER, address, exported_votes, next_votes};
use crate::util::needs::{faketime_library, left_out};
use crate::util::server::Server;
use crate::util::time::{imf_fixdate, now_unix, rfc3339};
use crate::util::wait_until;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};

const COOLDOWN_S: i64 = 5_400;
const HOUR_S: i64 = 3_600;
/// A vote may come from a clock that is so far ahead, in seconds.
const AHEAD_MAX_S: i64 = 5;
/// Between a reading of this test and the service's, in seconds.
const SLACK_S: i64 = 2;

/// A data directory, and the file that says how far the clock is from the system's.
struct Scene {
    folder: tempfile::TempDir,
    library: PathBuf,
    step_s: i64,
}

impl Scene {
    /// `None`, said aloud, where the library is not installed.
    fn new() -> Option<Scene> {
        let Some(library) = faketime_library() else {
            left_out("libfaketime is not installed here");
            return None;
        };
        let mut scene = Scene { folder: tempfile::tempdir().expect("a temporary folder"), library, step_s: 0 };
        scene.write_step(0);
        Some(scene)
    }

    fn step_file(&self) -> PathBuf {
        self.folder.path().join("step")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Written whole: the library may read at any moment.
    fn write_step(&mut self, step_s: i64) {
        let new = Path::new(&self.step_file()).with_extension("new");
        fs::write(&new, format!("{step_s:+}")).expect("the step can be written");
        fs::rename(&new, self.step_file()).expect("the step can be put in place");
        self.step_s = step_s;
    }

    fn start(&self, more: &[&str]) -> Server {
        let mut command = Server::on(&self.data());
        command.args(more);
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", self.step_file());
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        Server::spawn(command)
    }

    /// Unix seconds by the clock of the service.
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

    /// Casts a vote now; whether it was recorded.
    fn cast(&self, server: &Server, number: u32) -> bool {
        let response = server.control_client().cast(SERVER, address(number));
        match response.status {
            201 => {
                let next = response.json()["next_vote_at"].as_str().expect("an instant").to_owned();
                let near = (-SLACK_S..=SLACK_S).any(|slack| rfc3339(self.now() + COOLDOWN_S + slack) == next);
                assert!(near, "{response:?} at {}", rfc3339(self.now()));
                true
            }
            409 => false,
            _ => panic!("{response:?}"),
        }
    }

    /// Requires that export and public listener agree, and that no cooldown lasts longer than its
    /// length from now.
    fn expect_agreement(&self, server: &Server, pairs: &[Pair], what: &str) -> Vec<Option<String>> {
        let shown = next_votes(server, pairs);
        let exported = exported_votes(&server.control_client());
        let longest = rfc3339(self.now() + COOLDOWN_S + AHEAD_MAX_S);
        for (pair, next) in pairs.iter().zip(&shown) {
            assert_eq!(exported.contains_key(pair), next.is_some(), "{what}: {pair:?}");
            // Instants in this spelling sort by time.
            assert!(next.as_ref().is_none_or(|next| *next <= longest), "{what}: {next:?} is after {longest}");
        }
        shown
    }
}

#[test]
fn a_step_back_of_an_hour() {
    let Some(mut scene) = Scene::new() else { return };
    let pairs: Vec<Pair> = (0..20).map(|number| (SERVER, address(number))).collect();
    let server = scene.start(&[]);
    server.control_client().add_server(SERVER, "demo");
    for number in 0..20 {
        assert!(scene.cast(&server, number));
    }
    scene.step(&server, -HOUR_S);
    let shown = scene.expect_agreement(&server, &pairs, "after the step");
    assert!(shown.iter().all(Option::is_some), "lost: {shown:?}");
    assert!(!scene.cast(&server, 0), "it is in cooldown");
    assert!(scene.cast(&server, 100), "votes are taken after the step");
    stop(server);
    let server = scene.start(&[]);
    assert_eq!(scene.expect_agreement(&server, &pairs, "after a restart"), shown);
    assert!(!scene.cast(&server, 100), "it is in cooldown after a restart");
}

fn pairs() -> Vec<Pair> {
    (0..4).map(|number| (SERVER, address(number))).collect()
}

/// A store with three cooldowns that live and one that has ended, and what is shown of them.
fn furnished(scene: &Scene, end: impl FnOnce(Server)) -> Vec<Option<String>> {
    let server = scene.start(&[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    let ends_soon = now_unix() + 1 - COOLDOWN_S;
    for (number, voted_at) in [now_unix(), now_unix() - 600, now_unix() - 1_800, ends_soon].into_iter().enumerate() {
        let number = u32::try_from(number).expect("a small number");
        let response = control.cast_at(SERVER, &address(number).to_string(), voted_at);
        assert!(response.status == 201 || number == 3, "{response:?}");
    }
    let mut shown = Vec::new();
    wait_until("the fourth ends", || {
        shown = next_votes(&server, &pairs());
        shown[3].is_none()
    });
    assert!(shown[..3].iter().all(Option::is_some), "{shown:?}");
    end(server);
    shown
}

fn kill(server: Server) {
    server.signal(Signal::KILL);
    drop(server);
}

/// Requires that a start now is not ready and says why, with both times.
fn expect_behind(scene: &Scene, what: &str) -> Server {
    let mut server = scene.start(&[]);
    let known = rfc3339(now_unix());
    expect_not_ready(&mut server, "clock_behind", &known[..13], "--accept-clock", what);
    let message = get(server.control(), "/readyz").json()["message"].to_string();
    let says = rfc3339(scene.now());
    assert!(message.contains(&format!("the clock says {}", &says[..13])), "{what}: {message}");
    server
}

#[test]
fn a_clock_that_is_accepted_revives_nothing_and_is_kept() {
    let Some(mut scene) = Scene::new() else { return };
    furnished(&scene, stop);
    scene.write_step(-HOUR_S);
    kill(expect_behind(&scene, "an hour behind"));
    let server = scene.start(&["--accept-clock"]);
    let line = "s later; 3 cooldowns were cut to their length, and ";
    server.wait_for_lines(line, 1);
    let shown = next_votes(&server, &pairs());
    assert_eq!(shown.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, true, false]);
    let latest = rfc3339(scene.now() + COOLDOWN_S + 1);
    assert!(shown.iter().flatten().all(|next| *next <= latest), "{shown:?} after {latest}");
    kill(server);
    // Without the option: the time that is kept was set back.
    let server = scene.start(&[]);
    assert_eq!(next_votes(&server, &pairs()), shown);
}
