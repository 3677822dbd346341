//! Prometheus' own tool on the scrape, the alert rules and their tests.

use super::expression::check;
use super::scrape;
use crate::util::needs::has;
use crate::util::package::read_text;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs promtool with `input`; `None` where it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = has(&["promtool"]).then(|| command.spawn().expect("it can be run"))?;
    // Whether all of it was taken shows in what it says.
    let _taken = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    Some(child.wait_with_output().expect("it ends"))
}

/// Requires success, and nothing to remark.
fn expect_success(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert_eq!(err, "", "{out}");
    println!("{}", out.trim());
}

/// Has these rules checked.
pub(super) fn check_rules(rules: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yml");
    fs::write(&path, rules).expect("it can be written");
    if let Some(output) = promtool(&["check", "rules", path.to_str().expect("UTF-8")], "") {
        expect_success(&output);
    }
}

#[test]
fn a_scrape_is_what_prometheus_wants() {
    if let Some(output) = promtool(&["check", "metrics"], &scrape().text) {
        expect_success(&output);
    }
    // It can fail.
    if let Some(output) = promtool(&["check", "metrics"], "# TYPE no_total counter\nno_total 1\n") {
        assert!(!output.status.success(), "a metric without help is taken");
    }
}

#[test]
fn the_alert_rules_are_right_and_tested() {
    for (arguments, file) in [
        (&["check", "rules"][..], "contrib/prometheus/alerts.yml"),
        (&["check", "config"], "contrib/prometheus/prometheus.yml"),
        (&["test", "rules"], "contrib/prometheus/alerts_test.yml"),
    ] {
        if let Some(output) = promtool(&[arguments, &[file]].concat(), "") {
            expect_success(&output);
        }
    }
}

#[test]
fn each_alert_names_what_exists_and_has_its_tests() {
    let (rules, tests, scrape) =
        (read_text("contrib/prometheus/alerts.yml"), read_text("contrib/prometheus/alerts_test.yml"), scrape());
    let mut alerts = BTreeSet::new();
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().expect("a name");
        assert!(alerts.insert(name), "{name} is there twice");
        let expression = rule.split_once("expr: ").expect("an expression").1;
        let end = ["\n        for:", "\n        labels:"].iter().filter_map(|key| expression.find(key)).min();
        let expression = expression[..end.expect("labels")].trim_start_matches(">-").replace("\n          ", " ");
        check(expression.trim(), &scrape);
        // Silent on a quiet day, silent before its time, then fired.
        let silent = format!("alertname: {name}, exp_alerts: []");
        assert_eq!(tests.matches(&silent).count(), 2, "{name}");
        assert_eq!(tests.matches(&format!("alertname: {name}\n        exp_alerts:\n")).count(), 1, "{name}");
    }
    assert!(alerts.len() > 10, "{alerts:?}");
}
