//! The files of this package, and paths. Tests run in its folder.

use std::fs;
use std::path::{Path, PathBuf};

/// A path as text, for a command line.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is UTF-8")
}

/// The text of a file.
pub(crate) fn read_text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file with this extension below a folder, in order. Built and installed files are left out.
pub(crate) fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !path.is_dir() {
            files.extend(path.extension().is_some_and(|other| other == extension).then(|| path.clone()));
        } else if !name.starts_with('.') && !["target", "node_modules", "work", "artifacts"].contains(&&*name) {
            files.extend(files_below(&path, extension));
        }
    }
    files
}
