//! docs/OPERATIONS.md tells of every metric, every alert and every log line, and of no other.

use super::{file, scrape};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Cells of the table rows whose first cell is one name in backquotes that `is_ours`.
fn rows(text: &str, is_ours: impl Fn(&str) -> bool) -> Vec<(&str, Vec<&str>)> {
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        is_ours(name).then(|| (name, cells.collect()))
    });
    rows.collect()
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let text = file("docs/OPERATIONS.md");
    let is_metric = |name: &str| name.starts_with("vote_status_") || name.starts_with("process_");
    let mut documented = BTreeMap::new();
    for (name, cells) in rows(&text, is_metric) {
        let [kind, labels, meaning] = cells[..] else { panic!("{name}: {cells:?}") };
        assert!(meaning.len() > 5, "{name}: {meaning}");
        let labels: BTreeSet<&str> = labels.split(", ").map(|label| label.trim_matches('`')).collect();
        let labels = labels.into_iter().filter(|label| !label.is_empty()).map(str::to_owned).collect();
        let is_new = documented.insert(name.to_owned(), (kind.to_owned(), labels)).is_none();
        assert!(is_new, "{name} is there twice");
    }
    let scrape = scrape();
    let names = |labels: BTreeSet<&str>| labels.into_iter().map(str::to_owned).collect::<BTreeSet<String>>();
    let families = scrape.families.iter();
    let scraped: BTreeMap<String, (String, BTreeSet<String>)> =
        families.map(|(name, family)| (name.clone(), (family.kind.clone(), names(family.label_names())))).collect();
    for (name, told) in &documented {
        assert_eq!(scraped.get(name), Some(told), "{name}, documented and not so in a scrape");
    }
    for (name, told) in &scraped {
        assert_eq!(documented.get(name), Some(told), "{name}, in a scrape and not so documented");
    }
}

#[test]
fn every_alert_is_documented_and_no_other() {
    let (text, rules) = (file("docs/OPERATIONS.md"), file("contrib/prometheus/alerts.yml"));
    let documented: BTreeSet<&str> =
        rows(&text, |name| name.starts_with("VoteStatus")).into_iter().map(|(name, _)| name).collect();
    let alerts: BTreeSet<&str> = rules.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
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

fn collect(folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("UTF-8");
            into.extend(messages(&text).into_iter().map(|message| (path.display().to_string(), message)));
        }
    }
}

#[test]
fn every_log_line_is_documented() {
    let text = file("docs/OPERATIONS.md");
    let mut told = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut told);
    assert!(told.len() > 10, "{told:?}");
    for (path, message) in told {
        assert!(message.len() >= 5, "{path}: what stands in {message:?} tells nothing");
        assert!(text.contains(&message), "{path}: no row for the line with {message:?}");
    }
}

#[test]
fn messages_are_found_in_source() {
    let source = r#"log::warn!("{error}; a {} restart", x); log::log!(level, "a batch: {n} more"); catalog::info("x");
        log::info!(
            "the wall clock stepped by {ms} ms; {} were cut",
            cut.len()
        );"#;
    assert_eq!(messages(source), ["restart", "a batch", "the wall clock stepped by"]);
}
