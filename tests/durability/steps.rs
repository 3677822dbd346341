//! The wall clock steps under a running process, by a library that is loaded before the system's
//! and reads the step from a file. Black box; the rule itself is tested in `clock`.

use crate::durability::files::stop;
use crate::util::client::get;
use crate::util::ledger::{Pair, SERVER, address, exported_votes, next_votes};
use crate::util::needs::{faketime_library, left_out};
use crate::util::server::Server;
use crate::util::time::{imf_fixdate, now_unix, rfc3339};
use crate::util::wait_until;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

const COOLDOWN_S: i64 = 5_400;
/// A vote may come from a clock that is so far ahead, in seconds.
const AHEAD_MAX_S: i64 = 5;
/// Between a reading of this test and the service's, in seconds.
const SLACK_S: i64 = 2;

/// A data directory, and the file that says how far the clock is from the system's.
pub(crate) struct Scene {
    folder: tempfile::TempDir,
    library: PathBuf,
    step_s: i64,
}

impl Scene {
    /// `None`, said aloud, where the library is not installed.
    pub(crate) fn new() -> Option<Scene> {
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

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Written whole: the library may read at any moment.
    pub(crate) fn write_step(&mut self, step_s: i64) {
        let new = Path::new(&self.step_file()).with_extension("new");
        fs::write(&new, format!("{step_s:+}")).expect("the step can be written");
        fs::rename(&new, self.step_file()).expect("the step can be put in place");
        self.step_s = step_s;
    }

    pub(crate) fn start(&self, more: &[&str]) -> Server {
        let mut command = Server::on(&self.data());
        command.args(more);
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", self.step_file());
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        Server::spawn(command)
    }

    /// Unix seconds by the clock of the service.
    pub(crate) fn now(&self) -> i64 {
        now_unix() + self.step_s
    }

    /// Steps the clock, and waits until the service has seen it.
    pub(crate) fn step(&mut self, server: &Server, step_s: i64) {
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
    scene.step(&server, -3_600);
    let shown = scene.expect_agreement(&server, &pairs, "after the step");
    assert!(shown.iter().all(Option::is_some), "lost: {shown:?}");
    assert!(!scene.cast(&server, 0), "it is in cooldown");
    assert!(scene.cast(&server, 100), "votes are taken after the step");
    stop(server);
    let server = scene.start(&[]);
    assert_eq!(scene.expect_agreement(&server, &pairs, "after a restart"), shown);
    assert!(!scene.cast(&server, 100), "it is in cooldown after a restart");
}

/// What ended in its time stays ended; see `behind` for what a clock ahead has ended.
#[test]
fn a_step_back_revives_nothing_that_had_ended() {
    let Some(mut scene) = Scene::new() else { return };
    let pairs = [(SERVER, address(1))];
    let server = scene.start(&[]);
    server.control_client().add_server(SERVER, "demo");
    let response = server.control_client().cast_at(SERVER, &address(1).to_string(), now_unix() + 2 - COOLDOWN_S);
    assert_eq!(response.status, 201, "{response:?}");
    wait_until("it ends", || next_votes(&server, &pairs) == [None]);
    scene.step(&server, -600);
    assert_eq!(scene.expect_agreement(&server, &pairs, "after the step back"), [None]);
    stop(server);
    let server = scene.start(&[]);
    assert_eq!(scene.expect_agreement(&server, &pairs, "after a restart"), [None]);
    assert!(scene.cast(&server, 1), "it may vote");
}

#[test]
fn a_step_forward_and_back_again_loses_no_vote() {
    let Some(mut scene) = Scene::new() else { return };
    let server = scene.start(&[]);
    server.control_client().add_server(SERVER, "demo");
    assert!(scene.cast(&server, 1));
    scene.step(&server, 3 * 3_600);
    assert!(scene.cast(&server, 1), "its cooldown is over");
    assert!(scene.cast(&server, 2), "votes are taken after the step");
    // Expired rows are dropped in the background, some 20 times a second.
    sleep(Duration::from_millis(500));
    scene.step(&server, 0);
    assert!(scene.cast(&server, 3), "votes are taken after the step back");
    let pairs = [1, 2, 3].map(|number| (SERVER, address(number)));
    let shown = scene.expect_agreement(&server, &pairs, "after the step back");
    assert!(shown.iter().all(Option::is_some), "lost: {shown:?}");
    stop(server);
    let server = scene.start(&[]);
    assert_eq!(scene.expect_agreement(&server, &pairs, "after a restart"), shown);
}

#[test]
fn a_start_behind_the_votes_it_finds() {
    let Some(mut scene) = Scene::new() else { return };
    let pairs = [1, 2].map(|number| (SERVER, address(number)));
    let server = scene.start(&[]);
    server.control_client().add_server(SERVER, "demo");
    assert!(scene.cast(&server, 1) && scene.cast(&server, 2));
    stop(server);
    scene.write_step(-3_600);
    let server = scene.start(&["--accept-clock"]);
    let shown = scene.expect_agreement(&server, &pairs, "after the start");
    assert!(shown.iter().all(Option::is_some), "lost: {shown:?}");
    let response = server.control_client().delete(&format!("/v1/votes/{SERVER}/{}", address(1)));
    assert_eq!(response.status, 200, "{response:?}");
    stop(server);
    let server = scene.start(&[]);
    let found = scene.expect_agreement(&server, &pairs, "after one more start");
    assert_eq!(found, [None, shown[1].clone()], "the first was cancelled, the second is as it was");
}

/// Regression: of 1,000 votes none was live after a clock that was 6 h back for a second.
#[test]
fn a_clock_that_is_wrong_for_a_moment_changes_nothing() {
    let Some(mut scene) = Scene::new() else { return };
    let pairs: Vec<Pair> = (0..20).map(|number| (SERVER, address(number))).collect();
    let mut server = scene.start(&[]);
    server.control_client().add_server(SERVER, "demo");
    for number in 0..20 {
        assert!(scene.cast(&server, number));
    }
    let shown = scene.expect_agreement(&server, &pairs, "before the steps");
    for step_s in [-6 * 3_600, 2 * 3_600] {
        scene.step(&server, step_s);
        scene.step(&server, 0);
        assert_eq!(scene.expect_agreement(&server, &pairs, "after the step"), shown, "{step_s}");
        scene.step(&server, step_s);
        if step_s > 0 {
            stop(server);
            server = scene.start(&[]);
            assert_eq!(next_votes(&server, &pairs), vec![None; 20], "the clock is followed");
        }
        scene.step(&server, 0);
        assert_eq!(scene.expect_agreement(&server, &pairs, "at the end"), shown, "{step_s}");
    }
    stop(server);
    assert_eq!(scene.expect_agreement(&scene.start(&[]), &pairs, "after a restart"), shown);
}

/// Regression: a step of a second, as of NTP, cut the newest votes and changed their `next_vote_at`.
#[test]
fn a_small_step_back_makes_the_time_stand_still() {
    let Some(mut scene) = Scene::new() else { return };
    let server = scene.start(&[]);
    server.control_client().add_server(SERVER, "demo");
    let pairs = [(SERVER, address(1))];
    let ahead = server.control_client().cast_at(SERVER, &address(1).to_string(), now_unix() + 4);
    assert_eq!(ahead.status, 201, "{ahead:?}");
    let shown = next_votes(&server, &pairs);
    scene.write_step(-3);
    server.wait_for_lines("the time stands still until it has caught up", 1);
    let is_at = |now| get(server.public(), "/").header("Date") == Some(imf_fixdate(now).as_str());
    wait_until("it goes on with the clock", || is_at(scene.now()));
    assert_eq!(next_votes(&server, &pairs), shown);
}
