//! docs/REFERENCE.md lists every metric and every log line, docs/OPERATIONS.md every alert, and no others.

use super::scrape;
use crate::util::package::{files_below, read_text};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// A telephone cannot open files of the service's machine, so each alert gives its own remedy.
#[test]
fn every_alert_says_how_grave_it_is_and_what_to_do() {
    let operations = read_text("docs/OPERATIONS.md").to_lowercase();
    let mut alerts = 0;
    for name in ["alerts", "cluster-alerts", "public-path-alerts"] {
        let file = format!("contrib/prometheus/{name}.yml");
        for rule in read_text(file).split("- alert: ").skip(1) {
            let name = rule.lines().next().expect("a name");
            let field = |key| {
                let rest = rule.split_once(key).unwrap_or_else(|| panic!("{name} lacks {key}")).1;
                rest.lines().next().unwrap_or_default().trim_matches('"')
            };
            assert!(["critical", "warning", "info"].contains(&field(" severity: ")), "{name}");
            let description = field(" description: ");
            assert!(field(" summary: ").len() > 20 && description.len() > 20 && description.ends_with('.'), "{name}");
            assert!(!rule.contains("file:") && !rule.contains("runbook_url"), "{name}");
            for (before, _) in description.match_indices(" in OPERATIONS.md") {
                let named = &description[..before];
                let heading = named.rsplit("See ").next().unwrap_or_default().to_lowercase();
                assert!(operations.contains(&format!("# {heading}\n")), "{name} names {heading:?}");
            }
            for (end, _) in description.match_indices(".md") {
                let document = description[..end].rsplit(' ').next().unwrap_or_default().trim_start_matches('(');
                assert!(Path::new("docs").join(format!("{document}.md")).exists(), "{name} names {document}.md");
            }
            alerts += 1;
        }
    }
    assert!(alerts > 25, "{alerts}");
}

/// The text of each log message in the source.
fn literals(source: &str) -> Vec<&str> {
    let mut literals = Vec::new();
    for (at, _) in source.match_indices("log::") {
        let call = &source[at + "log::".len()..];
        let is_call = ["info!", "warn!", "error!", "debug!", "log!"].iter().any(|name| call.starts_with(name));
        let Some(literal) = call.find('"').filter(|_| is_call).map(|quote| &call[quote + 1..]) else { continue };
        literals.push(&literal[..literal.find('"').expect("an end")]);
    }
    literals
}

/// The longest literal part of each log message.
fn messages(source: &str) -> Vec<String> {
    let parts = literals(source).into_iter().map(|literal| {
        literal.split(['{', '}']).step_by(2).map(|part| part.trim_matches([' ', ';', ':', ',', '(', ')']))
    });
    parts.filter_map(|parts| parts.max_by_key(|part| part.len()).map(str::to_owned)).collect()
}

/// The documented command for a double payment finds each way in which a first vote ends.
#[test]
fn each_end_of_a_first_vote_is_found_in_the_log() {
    let text = read_text("docs/TROUBLESHOOTING.md");
    let chapter = text.split_once("\n## A player was paid twice\n").expect("the chapter").1;
    let pattern = chapter.split_once("grep -E '").and_then(|(_, rest)| rest.split('\'').next()).expect("the command");
    let files = files_below(Path::new("src"), "rs");
    let sources: Vec<String> = files.iter().map(read_text).collect();
    let lines = sources.iter().flat_map(|source| literals(source)).collect::<Vec<_>>().join("\n");
    let mut grep = Command::new("grep");
    grep.args(["-E", pattern]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut grep = grep.spawn().expect("it is installed");
    grep.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it is read");
    let found = grep.wait_with_output().expect("it ends").stdout;
    let found = String::from_utf8(found).expect("UTF-8");
    for (line, told) in [
        ("before their time: {cancelled} cancelled", "before their time: 1 cancelled"),
        ("replaced by a later vote", "1 replaced by a later vote"),
        ("of removed servers", "1 of removed servers"),
        ("server {server} is removed", "server 28 is removed"),
        ("the store has the settings {settings} for good", "the store has the settings … for good"),
        ("the store was last written at {at}: commit", "last written at …: commit N"),
        ("the store is closed", "the store is closed"),
        ("the store is new", "the store is new"),
        ("clock stepped", "clock stepped"),
        ("counts as certain", "counts as certain"),
        ("time shown went back", "time shown went back"),
    ] {
        assert!(found.contains(line), "no {line:?} in\n{found}");
        assert!(chapter.contains(told), "no {told:?} in the chapter");
    }
}

/// The messages that an operator looks up are those of this version. Regression: the document had a message of a removed
/// feature.
#[test]
fn every_message_in_operations_is_printed() {
    let sources: Vec<String> = files_below(Path::new("src"), "rs").iter().map(read_text).collect();
    // A literal over several lines is one literal.
    let lines = sources.iter().flat_map(|source| source.split("\\\n")).map(str::trim_start);
    let printed = lines.collect::<String>().replace("\\\"", "\"");
    let text = read_text("docs/OPERATIONS.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let mut parts = 0;
    for (row, _) in rows {
        for message in row.split('`').step_by(2).filter(|quoted| quoted.contains(' ')) {
            let message = message.replace(" N", "…").replace(" M", "…");
            for part in message.split('…').map(|part| part.trim_matches([' ', ',', '(', ')', '"'])) {
                assert!(printed.contains(part), "nothing prints {part:?}");
                parts += 1;
            }
        }
    }
    assert!(parts > 20, "{parts}");
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
