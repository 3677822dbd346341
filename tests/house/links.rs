//! What documents point to is there: links between them, and the files that the architecture names.

use crate::util::package::{files_below, read_text};
use std::path::Path;

#[test]
fn every_link_finds_its_file_and_its_heading() {
    let documents = files_below(Path::new("."), "md");
    assert!(documents.len() >= 15, "{documents:?}");
    let (mut count, mut broken) = (0, Vec::new());
    for document in documents {
        let text = read_text(&document);
        for (file, anchor) in targets(&text) {
            count += 1;
            let target = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            let is_there =
                target.exists() && (anchor.is_empty() || anchors(&target).iter().any(|there| there == anchor));
            if !is_there {
                broken.push(format!("{}: {file}#{anchor}", document.display()));
            }
        }
    }
    assert!(count >= 100, "only {count} links were seen");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The page that walks each flow names files of `src`, which move.
#[test]
fn every_file_that_the_architecture_names_is_there() {
    let text = read_text("docs/ARCHITECTURE.md");
    let names = text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") || name.ends_with(".lua"));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 50, "only {} names were seen", names.len());
    let is_missing = |name: &&str| !Path::new("src").join(name).exists() && !Path::new(name).exists();
    assert_eq!(names.into_iter().filter(is_missing).collect::<Vec<_>>(), Vec::<&str>::new());
}

/// The targets of links and pictures that are of this repository: the file, and what is behind a `#`.
fn targets(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let links = text.split("](").skip(1).filter_map(|after| after.split(')').next());
    let sources = ["src=\"", "srcset=\""].into_iter().flat_map(|name| text.split(name).skip(1));
    let own = links.chain(sources.filter_map(|after| after.split('"').next())).filter(|link| !link.contains("://"));
    own.map(|link| link.split_once('#').unwrap_or((link, "")))
}

/// What links may name behind a `#`: the headings of a document.
fn anchors(document: &Path) -> Vec<String> {
    let text = read_text(document);
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code && line.starts_with('#')
    });
    headings.map(|line| slug(line.trim_start_matches('#').trim_start())).collect()
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
