//! What documents point to is there: links between them, and the files that the architecture names.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_link_finds_its_file_and_its_heading() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = Vec::new();
    collect(root, &mut documents);
    assert!(documents.len() >= 15, "{documents:?}");
    let (mut count, mut broken) = (0, Vec::new());
    for document in documents {
        let text = fs::read_to_string(&document).expect("a document is text");
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

#[test]
fn anchors_are_those_of_a_viewer_of_markdown() {
    for (heading, anchor) in [
        ("Why it is not ready", "why-it-is-not-ready"),
        ("Told at once: `?wait=N`", "told-at-once-waitn"),
        ("/etc/default/vote-status", "etcdefaultvote-status"),
        ("store_gone", "store_gone"),
        ("Run it, or not", "run-it-or-not"),
    ] {
        assert_eq!(slug(heading), anchor);
    }
    let links = "[a](b.md#c) [d](#e) [f](https://g/h#i) ![j](k.svg) <img src=\"l.png\">";
    assert_eq!(targets(links).collect::<Vec<_>>(), [("b.md", "c"), ("", "e"), ("k.svg", ""), ("l.png", "")]);
}

/// The page that walks each flow names files of `src`, which move.
#[test]
fn every_file_that_the_architecture_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/ARCHITECTURE.md")).expect("it is there");
    let names = text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") || name.ends_with(".lua"));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 50, "only {} names were seen", names.len());
    let is_missing = |name: &&str| !root.join("src").join(name).exists() && !root.join(name).exists();
    assert_eq!(names.into_iter().filter(is_missing).collect::<Vec<_>>(), Vec::<&str>::new());
}

/// Every document of the repository, without what is built or installed below it.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules", "work", "artifacts"].contains(&&*name)
        {
            collect(&path, into);
        } else if name.ends_with(".md") {
            into.push(path);
        }
    }
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
    let text = fs::read_to_string(document).expect("a document is text");
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
