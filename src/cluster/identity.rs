//! Which store this node follows, kept over restarts: an empty or another one must not be taken for it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The id that was kept, if one was.
#[must_use]
pub fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Keeps the id. Where it cannot be, the node goes on all the same: it knows the id until it ends.
pub fn keep(path: &Path, id: &str) {
    if read(path).as_deref() == Some(id) {
        return;
    }
    if let Err(error) = write(path, id) {
        log::warn!("cannot keep the store's id in {}: {error}; a restart will follow any store", path.display());
    }
}

fn write(path: &Path, id: &str) -> io::Result<()> {
    let new = path.with_extension("id.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::{keep, read};

    #[test]
    fn an_id_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store.id");
        assert_eq!(read(&path), None);
        keep(&path, "abc");
        keep(&path, "abd");
        assert_eq!(read(&path).as_deref(), Some("abd"));
        keep(&directory.path().join("gone/store.id"), "abc");
    }
}
