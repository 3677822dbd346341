//! Where the control key comes from: the environment, a file, or made on the first start.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::CliError;
use crate::random;
use crate::vote::id::Token;

/// The environment variable that holds the key.
pub(super) const VARIABLE: &str = "VOTE_STATUS_CONTROL_KEY";

/// Finds the key: `VOTE_STATUS_CONTROL_KEY`, else the file that was named, else the one in the
/// data directory.
///
/// # Errors
/// Where it is named and cannot be used, or there is none.
pub(super) fn find(key_file: Option<&PathBuf>, data_dir: &Path) -> Result<Option<Vec<u8>>, CliError> {
    if let Some(key) = env::var_os(VARIABLE) {
        return check(key.as_encoded_bytes(), VARIABLE).map(Some);
    }
    let path = key_file.cloned().unwrap_or_else(|| default_path(data_dir));
    match fs::read(&path) {
        Ok(text) => check(&text, &path.display().to_string()).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound && key_file.is_none() => Ok(None),
        Err(error) => Err(CliError::new(format_args!("cannot read the control key file {}: {error}", path.display()))),
    }
}

/// Makes a key in the data directory, readable by its owner only.
///
/// # Errors
/// Where it cannot be written.
pub(super) fn make(data_dir: &Path) -> Result<Vec<u8>, CliError> {
    let path = default_path(data_dir);
    let fail = |error| CliError::new(format_args!("cannot write the control key file {}: {error}", path.display()));
    make_dir(data_dir)?;
    let key = generate()?;
    // Whole under another name before it gets its own: a start that is cut short leaves no half key.
    let new = path.with_extension("key.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).map_err(fail)?;
    file.write_all(&[&key, &b"\n"[..]].concat()).and_then(|()| file.sync_all()).map_err(fail)?;
    fs::rename(&new, &path).and_then(|()| File::open(data_dir)?.sync_all()).map_err(fail)?;
    log::info!("made a control key in {}", path.display());
    Ok(key)
}

/// Makes the data directory, for its owner only, if it is not there.
///
/// # Errors
/// Where it cannot be made.
pub(super) fn make_dir(data_dir: &Path) -> Result<(), CliError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    made.map_err(|error| CliError::new(format_args!("cannot make the data directory {}: {error}", data_dir.display())))
}

/// 128 bits from the system's generator, as text.
///
/// # Errors
/// Where the system gives none.
pub(super) fn generate() -> Result<Vec<u8>, CliError> {
    let bits = random::bits();
    let bits = bits.map_err(|error| CliError::new(format_args!("the system gives no random bits: {error}")))?;
    Ok(Token::from_random(bits).as_str().as_bytes().to_vec())
}

fn default_path(data_dir: &Path) -> PathBuf {
    data_dir.join("control.key")
}

fn check(text: &[u8], source: &str) -> Result<Vec<u8>, CliError> {
    let key = text.trim_ascii();
    if key.is_empty() || !key.iter().all(u8::is_ascii_graphic) {
        return Err(CliError::new(format_args!(
            "{source} holds no control key: visible ASCII characters on one line are wanted"
        )));
    }
    Ok(key.to_vec())
}
