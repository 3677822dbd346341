//! The operator's view: a node's metrics are as Prometheus wants them, and include every metric that
//! the alerts and the dashboard ask for.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::util::client::get;
use crate::util::promtool::expect_well;
use crate::util::time::now_unix;
use crate::util::watch::Watching;
use std::collections::BTreeSet;
use std::fs;

const FILES: &[&str] = &["contrib/prometheus/cluster-alerts.yml", "contrib/grafana/vote-status-cluster.json"];

/// Every metric name of ours in a text, without the suffix of a histogram.
fn names(text: &str) -> BTreeSet<&str> {
    let starts = text.match_indices("vote_status_").map(|(at, _)| &text[at..]);
    let names = starts.map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    });
    names.map(|name| name.strip_suffix("_bucket").unwrap_or(name)).collect()
}

#[test]
fn what_alerts_and_dashboard_ask_for_is_there() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    let metrics = node.control().get("/metrics");
    let there: BTreeSet<&str> =
        metrics.text().lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for file in FILES {
        let text = fs::read_to_string(file).expect("it is part of the project");
        let asked = names(&text);
        assert!(asked.len() >= 8, "{file} asks for {asked:?}");
        let missing: Vec<&&str> = asked.difference(&there).collect();
        assert!(missing.is_empty(), "{file} asks for {missing:?}; there are {there:?}");
    }
}

/// `GET /v1/watch` shows a node's own answers, and the votes and changes of all nodes.
#[test]
fn a_watcher_sees_the_votes_of_all_nodes() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    let mut watching = Watching::begin(nodes[0].server(), "");
    nodes[1].control().add_server(28, "demo");
    assert!(watching.told().contains(r#""kind":"registration","server_id":28"#));
    get(nodes[1].server().public(), "/api/vote/28/status/203.0.113.7");
    nodes[1].record_vote(28, [203, 0, 113, 7]);
    let told = watching.told();
    assert!(told.contains(r#""kind":"vote","server_id":28,"ip":"203.0.113.7""#), "{told}");
    // A node shows only the refusals of its own.
    for node in [&nodes[1], &nodes[0]] {
        assert_eq!(node.control().cast(28, [203, 0, 113, 7]).status, 409);
    }
    let told = watching.told();
    assert!(told.contains(r#""kind":"attempt","server_id":28,"ip":"203.0.113.7","outcome":"in_cooldown""#), "{told}");
    let later = format!(r#"{{"server_id":28,"ip":"203.0.113.7","voted_at":{}}}"#, now_unix() + 3);
    assert_eq!(nodes[1].control().post("/v1/votes?mode=record", &later).status, 201);
    assert!(watching.told().contains(r#""kind":"replacement","server_id":28,"ip":"203.0.113.7""#));
    assert!(watching.told().contains(r#""kind":"vote""#));
    assert_eq!(nodes[1].control().delete("/v1/votes/28/203.0.113.7").status, 200);
    assert!(watching.told().contains(r#""kind":"cancellation""#));
    assert_eq!(nodes[1].control().post("/v1/servers/28/token", "").status, 200);
    assert!(watching.told().contains(r#""kind":"rotation""#));
    nodes[1].record_at_once(28, [203, 0, 113, 8]);
    assert_eq!(nodes[1].control().delete("/v1/servers/28").status, 200);
    // Each node counts the ends of votes on all nodes.
    for node in &nodes {
        for cause in ["cancelled", "replaced", "server_removed"] {
            node.server().await_metric(&format!("vote_status_ended_early_total{{cause=\"{cause}\"}}"), 1);
        }
    }
}

#[test]
fn promtool_finds_nothing_wrong() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    node.control().cast(1, [192, 0, 2, 1]);
    expect_well(&["check", "metrics"], node.control().get("/metrics").text());
    expect_well(&["check", "rules", "contrib/prometheus/cluster-alerts.yml"], "");
    expect_well(&["test", "rules", "contrib/prometheus/cluster-alerts_test.yml"], "");
}
