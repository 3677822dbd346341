//! Which store this node follows, kept over restarts: an empty or another one must not be taken for it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The id that was kept; `None` where there is no such file. One that cannot be read is not none: the
/// node would follow any store.
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

/// Keeps the id. Where it cannot be, the node goes on all the same: it knows the id until it ends.
pub fn keep(path: &Path, id: &str) {
    if read(path).ok().flatten().as_deref() == Some(id) {
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
    use std::fs;
    use std::io::ErrorKind;
    use std::path::Path;

    use super::{keep, read};

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
