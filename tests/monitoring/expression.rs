//! Checks that a scrape has the metrics that a PromQL expression names.

use super::scrape::Scrape;

/// Labels that Prometheus adds to scraped samples.
const ADDED: [&str; 2] = ["job", "instance"];

/// Metrics that Prometheus makes by itself.
const MADE: [&str; 1] = ["up"];

/// Panics where `expression` names a metric, a label or a label's value that is not in `scrape`.
/// Gives the number of its metrics.
pub(super) fn check(expression: &str, scrape: &Scrape) -> usize {
    let mut count = 0;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in expression.match_indices(|c: char| c.is_ascii_alphabetic()) {
        let rest = &expression[at..];
        let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
        let is_start = !expression[..at].ends_with(is_of_name);
        if !is_start || !["vote_status_", "process_"].iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        count += 1;
        let family = scrape.family(name).unwrap_or_else(|| panic!("{name} is in no scrape: {expression}"));
        let Some(selector) = rest[name.len()..].strip_prefix('{') else { continue };
        let selector = &selector[..selector.find('}').expect("a selector ends")];
        for matcher in selector.split(',') {
            let (label, value) = matcher.split_once('=').unwrap_or_else(|| panic!("{matcher} in {expression}"));
            if ADDED.contains(&label) {
                continue;
            }
            let exists = match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
                Some(value) => family.labels.iter().any(|labels| labels.get(label).is_some_and(|has| has == value)),
                // For a pattern only the label can be checked.
                None => family.label_names().contains(label),
            };
            assert!(exists, "{name} has no {matcher}: {expression}");
        }
    }
    assert!(count > 0 || MADE.iter().any(|made| expression.starts_with(made)), "no metric in {expression}");
    count
}

#[test]
fn what_is_in_no_scrape_is_found() {
    let page = "# HELP vote_status_a_total A.\n# TYPE vote_status_a_total counter\n\
                vote_status_a_total{b=\"c\"} 1\n\
                # HELP vote_status_h H.\n# TYPE vote_status_h histogram\nvote_status_h_bucket{le=\"1\"} 1\n";
    let scrape = Scrape::parse(page);
    let right = "rate(vote_status_a_total{job=\"$job\",b=\"c\"}[5m]) / sum by (le) (vote_status_h_bucket)";
    assert_eq!(check(right, &scrape), 2);
    for wrong in [
        "vote_status_a",
        "vote_status_h",
        "vote_status_a_total{b=\"d\"}",
        "vote_status_a_total{d=~\"c\"}",
        "vote_status_a_total_sum",
        "time()",
    ] {
        assert!(std::panic::catch_unwind(|| check(wrong, &scrape)).is_err(), "{wrong}");
    }
}
