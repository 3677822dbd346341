//! The sources of the control key: the environment, a file, or the first start, which makes one.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use super::CliError;
use crate::clock::Clock;
use crate::control::ControlKey;
use crate::random;
use crate::readiness::{Readiness, Trouble};
use crate::vote::id::Token;
use crate::whole_file::WholeFile;

/// The environment variable of the key.
pub(super) const VARIABLE: &str = "VOTE_STATUS_CONTROL_KEY";

/// The key file of a package, for a client without another path.
pub(super) const PACKAGED: &str = "/etc/vote-status/control.key";

/// The pause before a second try to read or make a key. It doubles with each try, up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(100);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Finds the key for a client: `VOTE_STATUS_CONTROL_KEY`, else the named file, else the file in the data
/// directory. Gives the key and its source, or `None` if none is named and the data directory has none.
///
/// # Errors
/// Where a key is named and cannot be used.
pub(super) fn find(key_file: Option<&PathBuf>, data_dir: &Path) -> Result<Option<(Vec<u8>, String)>, CliError> {
    let path = key_file.cloned().unwrap_or_else(|| default_path(data_dir));
    let (text, source) = match env::var_os(VARIABLE) {
        Some(key) => (key.into_encoded_bytes(), VARIABLE.to_owned()),
        None => match fs::read(&path) {
            Ok(text) => (text, path.display().to_string()),
            Err(error) if error.kind() == ErrorKind::NotFound && key_file.is_none() => return Ok(None),
            Err(error) => return Err(CliError::new(unreadable(&path, &error))),
        },
    };
    Ok(Some((check(&text, &source).map_err(CliError::new)?, source)))
}

/// The service's key, and its file.
#[derive(Clone)]
pub(super) struct ServiceKey {
    key: ControlKey,
    path: PathBuf,
    /// Whether an option names the file. If none does, the file is in the data directory, and is made there.
    is_named: bool,
    data_dir: PathBuf,
    /// See [`ServiceKey::export_options`].
    export_options: Arc<OnceLock<String>>,
}

impl ServiceKey {
    /// Takes the key of the environment, if it has one, and else the path of the key file.
    ///
    /// # Errors
    /// Where the environment has one, and it is no key.
    pub(super) fn new(key_file: Option<&PathBuf>, data_dir: &Path) -> Result<Self, CliError> {
        let key = ControlKey::default();
        if let Some(variable) = env::var_os(VARIABLE) {
            key.set(check(variable.as_encoded_bytes(), VARIABLE).map_err(CliError::new)?);
        }
        let path = key_file.cloned().unwrap_or_else(|| default_path(data_dir));
        let (is_named, data_dir) = (key_file.is_some(), data_dir.to_owned());
        Ok(Self { key, path, is_named, data_dir, export_options: Arc::default() })
    }

    /// The key, which may become known later.
    pub(super) fn key(&self) -> &ControlKey {
        &self.key
    }

    /// The file that the key comes from, unless it comes from the environment.
    pub(super) fn file(&self) -> Option<&Path> {
        env::var_os(VARIABLE).is_none().then_some(&self.path)
    }

    /// Whether the key's file is in the data directory: then it is read once the directory can be used.
    pub(super) fn is_in_data_dir(&self) -> bool {
        !self.is_named && self.file().is_some()
    }

    /// Further options for `vote-status export`, for a data directory that has gone with the key in it. They name a
    /// path at which the key file can be read while this process runs. The store adds them to its message about a store
    /// that has gone. The store is opened before the key is made, so [`Self::keep_open`] fills them in later.
    pub(super) fn export_options(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.export_options)
    }

    /// Reads the key from the file, unless it is known. The data directory may have none yet.
    ///
    /// # Errors
    /// Where there should be one, and it cannot be read.
    pub(super) fn look(&self) -> Result<(), CliError> {
        if self.key.get().is_none()
            && let Some(found) = self.read().map_err(CliError::new)?
        {
            self.key.set(found);
        }
        Ok(())
    }

    /// Takes the key that the operator has named, or makes one up for a demonstration. Gives the words of a shell that
    /// stand for the key in a command, so the operator's key is never printed. A demonstration ignores a key in the
    /// data directory.
    ///
    /// # Errors
    /// Where the named file cannot be read, or the system gives no random bits.
    pub(super) fn of_demonstration(&self) -> Result<String, CliError> {
        if self.key.get().is_some() {
            return Ok(format!("${VARIABLE}"));
        }
        if self.is_named {
            self.look()?;
            return Ok(format!("$(cat '{}')", self.path.display()));
        }
        let key = generate()?;
        let words = String::from_utf8_lossy(&key).into_owned();
        self.key.set(key);
        Ok(words)
    }

    /// Reads the key, or makes one in the data directory, before there is a listener. If neither works,
    /// [`Self::seek`] reports it later.
    pub(super) fn seek_early(&self) {
        if self.key.get().is_none()
            && let Ok(found) = self.read_or_make()
        {
            self.key.set(found);
        }
    }

    /// Reads the key, or makes one in the data directory. If neither works, it notes the trouble, and a
    /// thread tries again: status requests need no key meanwhile.
    pub(super) fn seek(&self, readiness: Readiness) {
        if self.key.get().is_some() {
            return;
        }
        let (sought, clock) = (self.clone(), Clock::new());
        let attempt = move || match sought.read_or_make() {
            Ok(found) => {
                sought.key.set(found);
                sought.keep_open();
                readiness.clear(Trouble::ControlKey);
                true
            }
            Err(why) => {
                let message =
                    format!("{why}; it is looked for again, and until it is there the control interface answers 503");
                readiness.note(Trouble::ControlKey, &message, clock.now().monotonic_ms);
                false
            }
        };
        if attempt() {
            return;
        }
        let try_on = move || {
            let mut pause = RETRY_MIN;
            loop {
                thread::sleep(pause);
                if attempt() {
                    return;
                }
                pause = (pause * 2).min(RETRY_MAX);
            }
        };
        // Without a thread, the control interface stays shut; the noted trouble tells that.
        let _seeking = thread::Builder::new().name("key".into()).spawn(try_on);
    }

    /// Keeps the data directory's key file open until the process ends, if it holds the service's key, and
    /// fills in [`Self::export_options`].
    pub(super) fn keep_open(&self) {
        let path = default_path(&self.data_dir);
        // Opening a pipe would wait for its writer.
        if self.export_options.get().is_some() || !path.is_file() {
            return;
        }
        let read = File::open(path).and_then(|mut file| {
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            Ok((file, text))
        });
        if let Ok((file, text)) = read
            && self.key.get() == Some(text.trim_ascii())
        {
            let descriptor = file.into_raw_fd();
            let options = format!(" --control-key-file /proc/{}/fd/{descriptor}", process::id());
            self.export_options.get_or_init(|| options);
        }
    }

    fn read_or_make(&self) -> Result<Vec<u8>, String> {
        match self.read()? {
            Some(key) => Ok(key),
            None => make(&self.path)
                .map_err(|error| format!("cannot write the control key file {}: {error}", self.path.display())),
        }
    }

    /// The key in the file; `None` where there is no file and one may be made.
    fn read(&self) -> Result<Option<Vec<u8>>, String> {
        let path = &self.path;
        // Reading a pipe would wait for its writer, and this thread has more to do.
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(format!("the control key file {} is no file: put one in its place", path.display()));
        }
        match fs::read(path) {
            Ok(text) => check(&text, &path.display().to_string()).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound && !self.is_named => Ok(None),
            Err(error) => Err(unreadable(path, &error)),
        }
    }
}

/// The error, and the remedy.
fn unreadable(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::NotFound => ": put the key there, or name another file",
        ErrorKind::PermissionDenied => ": let the service's user read it",
        _ => "",
    };
    format!("cannot read the control key file {}: {error}{remedy}", path.display())
}

/// Makes a key in the data directory, readable by its owner only.
fn make(path: &Path) -> io::Result<Vec<u8>> {
    path.parent().map_or(Ok(()), make_dir)?;
    let key = random_key()?;
    // An interrupted start leaves no half of a key.
    let file = WholeFile::create(path, ".new")?;
    file.writer()?.write_all(&[&key, &b"\n"[..]].concat()).and_then(|()| file.finish())?;
    log::info!("made a control key in {}", path.display());
    Ok(key)
}

/// Makes the data directory, for its owner only, if it is not there.
///
/// # Errors
/// The system's error.
pub(super) fn make_dir(data_dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir)
}

/// Refuses a data directory that is a file, or lies below one. A missing directory is no error: it may
/// not be mounted yet.
///
/// # Errors
/// Where it is a file.
pub(super) fn refuse_file(data_dir: &Path) -> Result<(), CliError> {
    let is_file = match fs::metadata(data_dir) {
        Ok(metadata) => !metadata.is_dir(),
        Err(error) => error.kind() == ErrorKind::NotADirectory,
    };
    if is_file {
        return Err(CliError::new(format_args!("the data directory {} is no directory", data_dir.display())));
    }
    Ok(())
}

/// 128 bits from the system's generator, as text.
///
/// # Errors
/// Where the system gives none.
pub(super) fn generate() -> Result<Vec<u8>, CliError> {
    random_key().map_err(|error| CliError::new(format_args!("the system gives no random bits: {error}")))
}

fn random_key() -> io::Result<Vec<u8>> {
    Ok(Token::from_random(random::bits()?).as_str().as_bytes().to_vec())
}

/// The path of the key, unless another is named.
pub(super) fn default_path(data_dir: &Path) -> PathBuf {
    data_dir.join("control.key")
}

/// A byte-order mark is an error, not skipped: a site that reads the same file sends it with the key.
fn check(text: &[u8], source: &str) -> Result<Vec<u8>, String> {
    let key = text.trim_ascii();
    let is_marked = [&b"\xef\xbb\xbf"[..], b"\xff\xfe", b"\xfe\xff"].iter().any(|mark| text.starts_with(mark));
    let wrong = match key {
        [] => " (it is empty)",
        _ if is_marked => " (it begins with a byte-order mark: save it without one, as plain ASCII)",
        _ if !key.iter().all(u8::is_ascii_graphic) => "",
        _ => return Ok(key.to_vec()),
    };
    Err(format!("{source} holds no control key{wrong}: visible ASCII characters on one line are wanted"))
}

#[cfg(test)]
mod tests {
    use super::{ServiceKey, default_path};
    use crate::control::ControlKey;
    use std::fs;
    use std::sync::Arc;

    /// Regression: the message named the data directory's key file for `export`, even if the service had another key.
    #[test]
    fn a_key_file_outlives_its_directory_where_the_key_is_in_it() {
        for (in_directory, is_kept) in [("a-key\n", true), ("another-key\n", false)] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (data_dir, path) = (folder.path().to_owned(), folder.path().join("site.key"));
            fs::write(default_path(&data_dir), in_directory).expect("a file can be written");
            let key = ControlKey::default();
            key.set(b"a-key".to_vec());
            let sought = ServiceKey { key, path, is_named: true, data_dir, export_options: Arc::default() };
            sought.keep_open();
            drop(folder);
            let options = sought.export_options();
            let kept = options.get().and_then(|options| options.strip_prefix(" --control-key-file "));
            assert_eq!(kept.map(|path| fs::read(path).expect("it is open")), is_kept.then(|| b"a-key\n".to_vec()));
        }
    }
}
