//! A file that exists as a whole or not at all, and for its owner only. Knows files, not their content.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file under another name until it is whole. Dropped before that, it is removed.
pub(crate) struct WholeFile {
    file: File,
    /// Beside the target.
    path: PathBuf,
    target: PathBuf,
}

impl WholeFile {
    /// Begins a file that is to stand at `target`, which is no link. Until it does, its name ends in `suffix`.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn create(target: &Path, suffix: &str) -> io::Result<Self> {
        let mut name = OsString::from(target);
        name.push(suffix);
        let path = PathBuf::from(name);
        // An existing file is removed, never written to: another user may be able to read it, or it may be a link.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, target: target.to_owned() })
    }

    /// A handle to write the file.
    ///
    /// # Errors
    /// Where the system gives no second handle.
    pub(crate) fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Makes the written bytes the content of the target, durably.
    ///
    /// # Errors
    /// The system's error. The target is then as it was, unless only its folder could not be synced.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        // After the rename the file is not there any more, as intended.
        let _renamed = fs::remove_file(&self.path);
    }
}
