//! Prometheus' own tool on the scrape, the alert rules and their tests.

use super::expression::check;
use super::scrape;
use crate::util::package::read_text;
use crate::util::promtool::{expect_well, promtool};
use std::collections::BTreeSet;
use std::fs;

/// Has these rules checked.
pub(super) fn check_rules(rules: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yml");
    fs::write(&path, rules).expect("it can be written");
    expect_well(&["check", "rules", path.to_str().expect("UTF-8")], "");
}

#[test]
fn a_scrape_is_what_prometheus_wants() {
    expect_well(&["check", "metrics"], &scrape().text);
    // The check can fail.
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
        expect_well(&[arguments, &[file]].concat(), "");
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
        // Each alert is silent on a quiet day, silent before its time, and then fires.
        let silent = format!("alertname: {name}, exp_alerts: []");
        assert_eq!(tests.matches(&silent).count(), 2, "{name}");
        assert_eq!(tests.matches(&format!("alertname: {name}\n        exp_alerts:\n")).count(), 1, "{name}");
    }
    assert!(alerts.len() > 10, "{alerts:?}");
}
