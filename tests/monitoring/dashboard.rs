//! contrib/grafana/vote-status.json: every metric that it names exists, every one that exists is
//! shown, and its panels have a place each.

use super::expression::check;
use super::prometheus::check_rules;
use super::{file, scrape};
use serde_json::Value;
use std::collections::BTreeSet;

/// Every value under `key`, at any depth.
fn values<'j>(json: &'j Value, key: &str, into: &mut Vec<&'j Value>) {
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == key {
                    into.push(value);
                }
                values(value, key, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| values(item, key, into)),
        _ => {}
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&file("contrib/grafana/vote-status.json")).expect("JSON")
}

fn expressions(dashboard: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    values(dashboard, "expr", &mut found);
    found.into_iter().map(|expression| expression.as_str().expect("text")).collect()
}

#[test]
fn every_metric_of_the_dashboard_exists_and_is_shown() {
    let (dashboard, scrape) = (dashboard(), scrape());
    let expressions = expressions(&dashboard);
    let count: usize = expressions.iter().map(|expression| check(expression, &scrape)).sum();
    println!("{} expressions name {count} metrics", expressions.len());
    assert!(count > 40, "{count}");
    let all = expressions.join("\n");
    for name in scrape.families.keys() {
        assert!(all.contains(name.as_str()), "{name} is in no panel");
    }
}

#[test]
fn the_expressions_of_the_dashboard_are_right() {
    let dashboard = dashboard();
    let rules = expressions(&dashboard).into_iter().enumerate().map(|(index, expression)| {
        let expression = expression.replace("$__rate_interval", "5m");
        format!("      - record: panel:{index}\n        expr: {}\n", serde_json::to_string(&expression).expect("text"))
    });
    let rules = format!("groups:\n  - name: dashboard\n    rules:\n{}", rules.collect::<String>());
    check_rules(&rules);
}

#[test]
fn each_panel_has_a_place() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let titles: Vec<_> = panels
        .iter()
        .filter(|panel| panel["type"] == "row")
        .map(|row| row["title"].as_str().expect("a title"))
        .collect();
    assert_eq!(titles, ["Now", "Traffic", "Answers", "Latency", "Votes and commits", "State", "Process"]);
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let side = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        assert!(side("x") + side("w") <= 24, "{panel}");
        for x in side("x")..side("x") + side("w") {
            for y in side("y")..side("y") + side("h") {
                assert!(taken.insert((x, y)), "two panels at {x}, {y}: {panel}");
            }
        }
    }
}
