//! Which store this node follows, kept over restarts: an empty or another one must not be taken for it.
//! And which of the store's histories it followed last: in another one something may be lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The id that was kept; `None` where there is no such file. A file that cannot be read is an error: without an
/// id the node would follow any store.
///
/// # Errors
/// Where there is one and it holds no id, or cannot be read.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => Err(io::Error::new(ErrorKind::InvalidData, "it holds no id")),
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps the id. Where that fails the node goes on: it knows the id until it ends.
pub fn keep(path: &Path, id: &str) {
    if read(path).ok().flatten().as_deref() == Some(id) {
        return;
    }
    if let Err(error) = write(path, id) {
        log::warn!("cannot keep the store's id in {}: {error}; a restart will follow any store", path.display());
    }
}

/// What a process leaves to the one after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// By what the other nodes know it.
    pub node: String,
    /// The history that it followed last.
    pub history: String,
}

/// What the process before this one has left. What cannot be read is as if there were nothing: the node
/// waits for the others then.
#[must_use]
pub fn read_before(path: &Path) -> Option<Before> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let (node, history) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Before { node, history })
}

/// Keeps it for the next one.
pub fn keep_before(path: &Path, before: &Before) {
    if let Err(error) = write(path, &format!("{} {}", before.node, before.history)) {
        let path = path.display();
        log::warn!("cannot keep the store's history in {path}: {error}; the next start waits for the other nodes");
    }
}

fn write(path: &Path, line: &str) -> io::Result<()> {
    let new = path.with_added_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{line}")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::path::Path;

    use super::{Before, keep, keep_before, read, read_before};

    #[test]
    fn a_history_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store.history");
        assert_eq!(read_before(&path), None);
        for history in ["h1", "h2"] {
            let before = Before { node: "a".to_owned(), history: history.to_owned() };
            keep_before(&path, &before);
            assert_eq!(read_before(&path), Some(before));
        }
        fs::write(&path, "a").expect("the folder takes a file");
        assert_eq!(read_before(&path), None, "half of it is nothing");
    }

    #[test]
    fn an_id_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store.id");
        let read = |path: &Path| read(path).map_err(|error| error.kind());
        assert_eq!(read(&path), Ok(None));
        keep(&path, "abc");
        keep(&path, "abd");
        assert_eq!(read(&path), Ok(Some("abd".to_owned())));
        keep(&directory.path().join("gone/store.id"), "abc");
        assert!(read(directory.path()).is_err(), "what cannot be read is not none");
        fs::write(&path, "\n").expect("the folder takes a file");
        assert_eq!(read(&path), Err(ErrorKind::InvalidData));
    }
}
