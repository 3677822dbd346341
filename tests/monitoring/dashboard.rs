//! The dashboards of contrib/grafana. Every metric that the first one names exists (tests/cluster/watching.rs checks the
//! other one). Their panels are few and described, and each has a place of its own.

use super::expression::check;
use super::prometheus::check_rules;
use super::scrape;
use crate::util::package::read_text;
use serde_json::Value;
use std::collections::BTreeSet;

/// Each dashboard, and the most panels that it may have.
const DASHBOARDS: [(&str, usize); 2] =
    [("contrib/grafana/vote-status.json", 16), ("contrib/grafana/vote-status-cluster.json", 8)];

fn dashboard(path: &str) -> Value {
    serde_json::from_str(&read_text(path)).expect("JSON")
}

fn expressions(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let annotations = dashboard["annotations"]["list"].as_array().into_iter().flatten();
    targets.chain(annotations).filter_map(|asker| asker["expr"].as_str()).collect()
}

#[test]
fn every_metric_of_the_dashboard_exists() {
    let (dashboard, scrape) = (dashboard(DASHBOARDS[0].0), scrape());
    let expressions = expressions(&dashboard);
    let count: usize = expressions.iter().map(|expression| check(expression, &scrape)).sum();
    assert!(count > 30, "{count}");
}

#[test]
fn the_expressions_of_the_dashboards_are_right() {
    for (path, _) in DASHBOARDS {
        let dashboard = dashboard(path);
        let rules = expressions(&dashboard).into_iter().enumerate().map(|(index, expression)| {
            let expression = expression.replace("$__rate_interval", "5m");
            let expression = serde_json::to_string(&expression).expect("text");
            format!("      - record: panel:{index}\n        expr: {expression}\n")
        });
        check_rules(&format!("groups:\n  - name: dashboard\n    rules:\n{}", rules.collect::<String>()));
    }
}

#[test]
fn each_panel_is_described_and_has_a_place() {
    for (path, panels_max) in DASHBOARDS {
        let dashboard = dashboard(path);
        let panels = dashboard["panels"].as_array().expect("panels");
        assert!(panels.len() <= panels_max, "{path}: {} panels", panels.len());
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("an id")).collect();
        assert_eq!(ids.len(), panels.len(), "{path}");
        let mut taken = BTreeSet::new();
        for panel in panels {
            let text = |pointer: &str| panel.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            assert!(!text("/title").is_empty() && text("/description").ends_with('.'), "{panel}");
            assert!(!text("/fieldConfig/defaults/unit").is_empty(), "{panel}");
            let side = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
            assert!(side("x") + side("w") <= 24, "{panel}");
            for x in side("x")..side("x") + side("w") {
                for y in side("y")..side("y") + side("h") {
                    assert!(taken.insert((x, y)), "two panels at {x}, {y}: {panel}");
                }
            }
        }
    }
}
