//! docs/REFERENCE.md tells of every metric and every log line, docs/OPERATIONS.md of every alert, and of no other.

use super::scrape;
use crate::util::package::{files_below, read_text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each item of a list of metrics: name, kind by the heading above it, labels.
fn metrics(text: &str) -> Vec<(&str, &str, BTreeSet<&str>)> {
    let mut kind = "";
    let mut metrics = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            kind = heading;
        }
        let Some((name, meaning)) = line.strip_prefix("* `").and_then(|item| item.split_once("`: ")) else { continue };
        let (name, labels) = name.strip_suffix('}').and_then(|name| name.split_once('{')).unwrap_or((name, ""));
        assert!(meaning.len() > 5, "{name}: {meaning}");
        metrics.push((name, kind, labels.split(',').filter(|label| !label.is_empty()).collect()));
    }
    metrics
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let text = read_text("docs/REFERENCE.md");
    let text = text.split_once("\n## Metrics\n").expect("a chapter of metrics").1;
    let text = text.split_once("\n### With a shared store\n").expect("the others").0;
    let mut documented = BTreeMap::new();
    for (name, kind, labels) in metrics(text) {
        let kind = kind.trim_end_matches('s').to_lowercase();
        let is_new = documented.insert(name, (kind, labels)).is_none();
        assert!(is_new, "{name} is there twice");
    }
    let scrape = scrape();
    let families = scrape.families.iter();
    let scraped: BTreeMap<&str, (String, BTreeSet<&str>)> =
        families.map(|(name, family)| (name.as_str(), (family.kind.clone(), family.label_names()))).collect();
    for (name, told) in &documented {
        assert_eq!(scraped.get(name), Some(told), "{name}, documented and not so in a scrape");
    }
    for (name, told) in &scraped {
        assert_eq!(documented.get(name), Some(told), "{name}, in a scrape and not so documented");
    }
}

#[test]
fn every_reason_for_not_being_ready_has_its_heading() {
    let text = read_text("docs/OPERATIONS.md");
    let scrape = scrape();
    let reasons = scrape.families["vote_status_trouble"].labels.iter().map(|labels| labels["reason"].as_str());
    let missing: Vec<&str> = reasons.filter(|reason| !text.contains(&format!("\n### {reason}\n"))).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// Each alert has its heading, the paragraph begins with the severity, and the alert's `runbook_url` leads there.
#[test]
fn every_alert_has_its_heading_and_no_other() {
    let text = read_text("docs/OPERATIONS.md");
    let mut documented: Vec<(&str, &str)> = Vec::new();
    for part in text.split("\n### ").skip(1) {
        let (name, told) = part.split_once("\n\n").expect("a paragraph below the heading");
        if name.starts_with("VoteStatus") {
            documented.push((name, told.split(['.', ':']).next().unwrap_or_default()));
        }
    }
    let mut alerts = Vec::new();
    let rules = ["contrib/prometheus/alerts.yml", "contrib/prometheus/cluster-alerts.yml"].map(read_text);
    for rule in rules.iter().flat_map(|rules| rules.split("- alert: ").skip(1)) {
        let name = rule.lines().next().expect("a name");
        let field = |key| {
            rule.split_once(key).unwrap_or_else(|| panic!("{name} lacks {key}")).1.lines().next().unwrap_or_default()
        };
        let severity =
            ["Critical", "Warning", "Info"].into_iter().find(|word| word.to_lowercase() == field("severity: "));
        alerts.push((name, severity.unwrap_or_default()));
        let url = format!("\"file:///usr/share/doc/vote-status/OPERATIONS.md#{}\"", name.to_lowercase());
        assert_eq!(field("runbook_url: "), url, "{name}");
    }
    assert!(alerts.len() > 25, "{alerts:?}");
    assert_eq!(documented, alerts);
}

/// The longest part of each message that stands in the source as it will be told.
fn messages(source: &str) -> Vec<String> {
    let mut messages = Vec::new();
    for (at, _) in source.match_indices("log::") {
        let call = &source[at + "log::".len()..];
        let is_call = ["info!", "warn!", "error!", "debug!", "log!"].iter().any(|name| call.starts_with(name));
        let Some(literal) = call.find('"').filter(|_| is_call).map(|quote| &call[quote + 1..]) else { continue };
        let literal = &literal[..literal.find('"').expect("an end")];
        let parts = literal.split(['{', '}']).step_by(2).map(|part| part.trim_matches([' ', ';', ':', ',', '(', ')']));
        messages.extend(parts.max_by_key(|part| part.len()).map(str::to_owned));
    }
    messages
}

#[test]
fn every_log_line_is_documented() {
    let text = read_text("docs/REFERENCE.md");
    let files = files_below(Path::new("src"), "rs");
    let told: Vec<String> = files.iter().flat_map(|file| messages(&read_text(file))).collect();
    assert!(told.len() > 10, "{told:?}");
    for message in told {
        assert!(message.len() >= 5, "what stands in {message:?} tells nothing");
        assert!(text.contains(&message), "no row for the line with {message:?}");
    }
}
