//! Where the control key comes from: the environment, a file, or made on the first start.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::CliError;
use super::whole_file::WholeFile;
use crate::clock::Clock;
use crate::control::ControlKey;
use crate::random;
use crate::readiness::{Readiness, Trouble};
use crate::vote::id::Token;

/// The environment variable that holds the key.
pub(super) const VARIABLE: &str = "VOTE_STATUS_CONTROL_KEY";

/// Where a package has the key, for a client that is told of no other place.
pub(super) const PACKAGED: &str = "/etc/vote-status/control.key";

/// The pause before a second try to read or make a key. It doubles with each try, up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(100);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Finds the key for a client: `VOTE_STATUS_CONTROL_KEY`, else the file that was named, else the one in the
/// data directory. Gives the key and where it was found, or `None` where none is named and the data directory has
/// none.
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

/// Where a service's key is to be had once its data directory can be used.
pub(super) struct KeySource {
    path: PathBuf,
    /// The directory to make one in, where there is none.
    data_dir: Option<PathBuf>,
}

/// The service's key, where it is known before the data directory is used, and where to look for it once the
/// directory can be used.
///
/// # Errors
/// Where a key is named, and what is there is no key.
pub(super) fn of_service(key_file: Option<&PathBuf>, data_dir: &Path) -> Result<(ControlKey, KeySource), CliError> {
    let key = ControlKey::default();
    if let Some(variable) = env::var_os(VARIABLE) {
        key.set(check(variable.as_encoded_bytes(), VARIABLE).map_err(CliError::new)?);
    }
    let Some(path) = key_file.cloned() else {
        return Ok((key, KeySource { path: default_path(data_dir), data_dir: Some(data_dir.to_owned()) }));
    };
    if key.get().is_none() {
        match fs::read(&path) {
            Ok(text) => key.set(check(&text, &path.display().to_string()).map_err(CliError::new)?),
            Err(error) if is_wrong_path(&error) => return Err(CliError::new(unreadable(&path, &error))),
            // The disk fails, or permissions are wrong: the key is looked for again until that is mended.
            Err(_) => {}
        }
    }
    Ok((key, KeySource { path, data_dir: None }))
}

impl KeySource {
    /// The file that the key comes from, unless it comes from the environment.
    pub(super) fn file(&self) -> Option<PathBuf> {
        env::var_os(VARIABLE).is_none().then(|| self.path.clone())
    }

    /// Sets `key`: reads it, or makes one in the data directory. Where neither works, the trouble is noted and a
    /// thread of its own tries again, because status requests need no key.
    pub(super) fn seek(self, key: ControlKey, readiness: Readiness) {
        if key.get().is_some() {
            return;
        }
        let clock = Clock::new();
        let attempt = move || match self.read_or_make() {
            Ok(found) => {
                key.set(found);
                readiness.settle(Trouble::ControlKey);
                true
            }
            Err(why) => {
                readiness.note(Trouble::ControlKey, &why, clock.now().monotonic_ms);
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
        // Without a thread the control interface stays shut; the trouble that was noted says so.
        let _seeking = thread::Builder::new().name("key".into()).spawn(try_on);
    }

    fn read_or_make(&self) -> Result<Vec<u8>, String> {
        // Reading a pipe would wait for whoever writes to it, and this thread has to open the store next.
        if fs::metadata(&self.path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            return Err(format!("the control key file {} is no file: put one in its place", self.path.display()));
        }
        match (fs::read(&self.path), &self.data_dir) {
            (Ok(text), _) => check(&text, &self.path.display().to_string()),
            (Err(error), Some(data_dir)) if error.kind() == ErrorKind::NotFound => make(&self.path, data_dir)
                .map_err(|error| format!("cannot write the control key file {}: {error}", self.path.display())),
            (Err(error), _) => Err(unreadable(&self.path, &error)),
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("cannot read the control key file {}: {error}", path.display())
}

/// Whether an error means that the path is wrong, and not that the disk fails.
fn is_wrong_path(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory)
}

/// Makes a key in the data directory, readable by its owner only.
fn make(path: &Path, data_dir: &Path) -> io::Result<Vec<u8>> {
    make_dir(data_dir)?;
    let key = random_key()?;
    // A start that is cut short leaves no half of a key.
    let mut file = WholeFile::create(path, ".new")?;
    file.write_all(&[&key, &b"\n"[..]].concat()).and_then(|()| file.finish())?;
    log::info!("made a control key in {}", path.display());
    Ok(key)
}

/// Makes the data directory, for its owner only, if it is not there.
///
/// # Errors
/// What the system says.
pub(super) fn make_dir(data_dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir)
}

/// A data directory that is a file, or lies below one, is a wrong option. Where there is nothing, it may
/// not be mounted yet.
///
/// # Errors
/// Where it is one.
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

/// Where the key is, unless another place is named.
pub(super) fn default_path(data_dir: &Path) -> PathBuf {
    data_dir.join("control.key")
}

fn check(text: &[u8], source: &str) -> Result<Vec<u8>, String> {
    let key = text.trim_ascii();
    if key.is_empty() || !key.iter().all(u8::is_ascii_graphic) {
        return Err(format!("{source} holds no control key: visible ASCII characters on one line are wanted"));
    }
    Ok(key.to_vec())
}
