//! The id of the store that this node follows, kept over restarts: the node must not take an empty or another store for it.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::whole_file::WholeFile;

/// The kept id; `None` if there is no file. An unreadable file is an error: without an id the node would follow any store.
///
/// # Errors
/// If the file is empty or cannot be read.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => Err(io::Error::new(ErrorKind::InvalidData, "it holds no id")),
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the line for the next process. An error names the file and the cause, and the node goes on.
pub(super) fn keep(path: &Path, line: &str) -> Result<(), String> {
    if read(path).ok().flatten().as_deref() == Some(line) {
        return Ok(());
    }
    write(path, line).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, line: &str) -> io::Result<()> {
    let file = WholeFile::create(path, ".new")?;
    writeln!(file.writer()?, "{line}")?;
    file.finish()
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
        assert_eq!([keep(&path, "abc"), keep(&path, "abd")], [Ok(()), Ok(())]);
        assert_eq!(read(&path), Ok(Some("abd".to_owned())));
        assert!(keep(&directory.path().join("gone/store.id"), "abc").is_err());
        assert!(read(directory.path()).is_err(), "what cannot be read is not none");
        fs::write(&path, "\n").expect("the folder takes a file");
        assert_eq!(read(&path), Err(ErrorKind::InvalidData));
    }
}
