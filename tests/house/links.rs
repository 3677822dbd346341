//! Targets of documents exist: links between them, and the files that the architecture names.

use crate::util::package::{files_below, read_text};
use std::fs;
use std::path::{Path, PathBuf};

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

/// The package installs the documents in a folder of their own, without the source around them. No two files have one name
/// there, and each link between them finds its file. Regression: two became README.md, and 20 links led nowhere.
#[test]
fn every_link_of_an_installed_document_finds_its_file() {
    let installed = installed();
    let place = |path: &Path| installed.iter().filter(|(_, there)| there == path).count();
    let (mut count, mut broken) = (0, Vec::new());
    for (source, there) in &installed {
        if place(there) > 1 {
            broken.push(format!("{} is installed from more than one file", there.display()));
        }
        if there.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        for (file, _) in targets(&read_text(source)).filter(|(file, _)| !file.is_empty()) {
            count += 1;
            if place(&there.with_file_name(file)) != 1 {
                broken.push(format!("{}: {file}", there.display()));
            }
        }
    }
    assert!(count >= 50, "only {count} links were seen");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The files of this repository that the package installs, each with its place.
fn installed() -> Vec<(PathBuf, PathBuf)> {
    let manifest = read_text("Cargo.toml");
    let assets = manifest.split("\nassets = [\n").nth(1).and_then(|rest| rest.split("\n]").next()).expect("assets");
    let mut installed = Vec::new();
    for asset in assets.lines() {
        let [_, source, _, target, ..] = asset.split('"').collect::<Vec<_>>()[..] else { panic!("{asset}") };
        // Files that the build makes are not here.
        if source.starts_with("target/") {
            continue;
        }
        let (folder, pattern) = source.rsplit_once('/').unwrap_or((".", source));
        let is_meant = |name: &str| match pattern.split_once('*') {
            Some((before, after)) => name.starts_with(before) && name.ends_with(after),
            None => name == pattern,
        };
        for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}")) {
            let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("it can be read");
            if is_meant(&name.to_string_lossy()) && entry.is_file() {
                let is_folder = target.ends_with('/');
                installed.push((entry, if is_folder { Path::new(target).join(name) } else { target.into() }));
            }
        }
    }
    installed
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

/// The targets of links and pictures in this repository: the file, and the anchor behind a `#`.
fn targets(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let links = text.split("](").skip(1).filter_map(|after| after.split(')').next());
    let sources = ["src=\"", "srcset=\""].into_iter().flat_map(|name| text.split(name).skip(1));
    let own = links.chain(sources.filter_map(|after| after.split('"').next())).filter(|link| !link.contains("://"));
    own.map(|link| link.split_once('#').unwrap_or((link, "")))
}

/// The anchors that links may name behind a `#`: the headings of a document.
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
