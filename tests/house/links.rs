//! What documents point to is there: links between them, and the files that the architecture names.

use std::path::{Path, PathBuf};

/// Where documents are; results of runs are told of in one folder deeper.
const FOLDERS: &[&str] = &["", "docs", "loadtest", "fuzz", "contrib"];

#[test]
fn every_link_to_a_file_finds_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documents: Vec<PathBuf> = FOLDERS.iter().flat_map(|folder| documents_in(&root.join(folder))).collect();
    assert!(documents.len() >= 6, "{documents:?}");
    let (mut count, mut broken) = (0, Vec::new());
    for document in documents {
        let text = std::fs::read_to_string(&document).expect("a document is text");
        for target in targets(&text) {
            count += 1;
            if !document.with_file_name(target).exists() {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(count >= 10, "only {count} links were seen");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The page that walks each flow names files of `src`, which move.
#[test]
fn every_file_that_the_architecture_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/ARCHITECTURE.md")).expect("it is there");
    let names = text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") || name.ends_with(".lua"));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 50, "only {} names were seen", names.len());
    let is_missing = |name: &&str| !root.join("src").join(name).exists() && !root.join(name).exists();
    assert_eq!(names.into_iter().filter(is_missing).collect::<Vec<_>>(), Vec::<&str>::new());
}

fn documents_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let files = entries.map(|entry| entry.expect("the folder can be read").path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The targets of Markdown links that are files of this repository, without what is behind a `#`.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1).filter_map(|after| after.split(')').next());
    let files = links.filter_map(|link| link.split('#').next());
    files.filter(|file| !file.is_empty() && !file.contains("://"))
}
