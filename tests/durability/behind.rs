//! Starts with a clock that is behind what the store knows, and clocks that are wrong for a
//! moment: nothing revived, nothing forgotten. Black box.

use crate::durability::files::{await_ready, expect_not_ready, stop};
use crate::durability::steps::Scene;
use crate::util::client::get;
use crate::util::ledger::{Pair, SERVER, address, next_votes};
use crate::util::server::Server;
use crate::util::time::{now_unix, now_unix_ms, rfc3339};
use crate::util::wait_until;
use rustix::process::Signal;
use std::thread::sleep;
use std::time::Duration;

const HOUR_S: i64 = 3_600;
const COOLDOWN_S: i64 = 5_400;

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

/// Regression: a start in 1970 answered `false` for votes of a month ago, and cut what lived for good.
#[test]
fn a_start_in_1970_is_not_ready_and_changes_nothing() {
    let Some(mut scene) = Scene::new() else { return };
    let shown = furnished(&scene, stop);
    scene.write_step(10 - now_unix());
    kill(expect_behind(&scene, "1970"));
    scene.write_step(0);
    let server = scene.start(&[]);
    assert_eq!(next_votes(&server, &pairs()), shown);
}

/// Regression: all that was in the store was in cooldown, also what had ended.
#[test]
fn a_start_six_hours_behind_waits_until_the_clock_is_right() {
    let Some(mut scene) = Scene::new() else { return };
    // Killed: the time is kept with each commit.
    let shown = furnished(&scene, kill);
    scene.write_step(-6 * HOUR_S);
    let server = expect_behind(&scene, "six hours behind");
    scene.write_step(0);
    await_ready(&server);
    assert_eq!(next_votes(&server, &pairs()), shown);
    assert_ne!(server.sample(r#"vote_status_trouble{reason="clock_behind"}"#), Some(1.0));
    kill(server);
    assert_eq!(next_votes(&scene.start(&[]), &pairs()), shown, "after a kill");
}

/// It is not served from before the second has come that was the last one known, by more than a second.
#[test]
fn a_start_two_seconds_behind_is_ready_when_it_has_caught_up() {
    let Some(mut scene) = Scene::new() else { return };
    let shown = furnished(&scene, stop);
    let stopped_ms = now_unix_ms();
    scene.write_step(-2);
    let server = scene.start(&[]);
    await_ready(&server);
    let now_ms = now_unix_ms() - 2_000;
    assert!(now_ms >= stopped_ms - 1_200, "ready {} ms before the time that was kept", stopped_ms - now_ms);
    assert_eq!(next_votes(&server, &pairs()), shown);
}

/// A vote may be stamped ahead of the clock: who starts right after it is not behind.
#[test]
fn a_start_after_a_vote_from_a_clock_ahead_is_not_behind() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.start(&[]);
    server.control_client().add_server(SERVER, "demo");
    let ahead = now_unix() + 4;
    let response = server.control_client().cast_at(SERVER, &address(1).to_string(), ahead);
    assert_eq!(response.status, 201, "{response:?}");
    kill(server);
    let server = scene.start(&[]);
    assert_eq!(next_votes(&server, &[(SERVER, address(1))]), [Some(rfc3339(ahead + COOLDOWN_S))]);
    assert!(!server.stderr().contains("clock_behind"), "{}", server.stderr());
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

/// Regression: a clock that was a day ahead for a fraction of a second ended every cooldown for good.
#[test]
fn a_glitch_forward_leaves_everything_as_it_was() {
    let Some(mut scene) = Scene::new() else { return };
    let shown = furnished(&scene, kill);
    let server = scene.start(&[]);
    scene.step(&server, 24 * HOUR_S);
    assert_eq!(next_votes(&server, &pairs()), [const { None }; 4], "ended, by the clock that is ahead");
    // More than a look at each shard of the table, and at the rows on disk, takes.
    sleep(Duration::from_millis(600));
    kill(server);
    scene.write_step(0);
    let server = scene.start(&[]);
    assert_eq!(next_votes(&server, &pairs()), shown, "killed in the glitch");
    scene.step(&server, 24 * HOUR_S);
    sleep(Duration::from_secs(7));
    scene.step(&server, 0);
    assert_eq!(next_votes(&server, &pairs()), shown, "after the glitch");
    kill(server);
    let server = scene.start(&[]);
    assert_eq!(next_votes(&server, &pairs()), shown, "after a kill");
    assert_eq!(server.metric("vote_status_ready"), 1);
}

/// Regression: the rows were dropped at once, and an end to the mistake brought nothing back.
#[test]
fn a_start_years_ahead_ends_nothing_for_good() {
    let Some(mut scene) = Scene::new() else { return };
    let shown = furnished(&scene, stop);
    scene.write_step(3 * 365 * 24 * HOUR_S);
    let server = scene.start(&[]);
    assert_eq!(next_votes(&server, &pairs()), [const { None }; 4], "ended, by the clock that is ahead");
    // More than a look at the rows on disk takes.
    sleep(Duration::from_millis(400));
    kill(server);
    let server = scene.start(&[]);
    scene.step(&server, 0);
    assert_eq!(next_votes(&server, &pairs()), shown, "once the clock is right");
    kill(server);
    assert_eq!(next_votes(&scene.start(&[]), &pairs()), shown, "after a kill");
}
