//! How a machine of the store is entered: as which user, with which password, and whether under TLS.
//! Passwords and certificates are read from their files at each connection: a rotation is a file
//! that was replaced, not a restart.

use std::fmt;
use std::fs;
use std::path::PathBuf;

#[cfg(feature = "tls")]
use super::tls::TlsFiles;

/// Where a password comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Secret {
    /// There is none.
    #[default]
    None,
    /// As it was given at the start.
    Text(String),
    /// From this file, at each connection anew.
    File(PathBuf),
}

impl Secret {
    /// The password, if there is one.
    ///
    /// # Errors
    /// Where its file cannot be read or is empty: nothing of what is in it is told.
    pub fn read(&self) -> Result<Option<String>, String> {
        match self {
            Self::None => Ok(None),
            Self::Text(text) => Ok(Some(text.clone())),
            Self::File(path) => {
                let text = fs::read_to_string(path)
                    .map_err(|error| format!("cannot read the store's password file {}: {error}", path.display()))?;
                match text.trim() {
                    "" => Err(format!("the store's password file {} is empty", path.display())),
                    password => Ok(Some(password.to_owned())),
                }
            }
        }
    }
}

/// How bytes travel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// As they are.
    #[default]
    Clear,
    /// Under TLS.
    #[cfg(feature = "tls")]
    Tls(TlsFiles),
}

impl Security {
    /// Whether bytes travel under TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        *self != Self::Clear
    }
}

/// How a machine is entered. No form of printing shows its password.
#[derive(Clone, Default)]
pub struct StoreAccess {
    /// The user; the store's default one where none is named.
    pub user: Option<String>,
    /// Nothing is said of a user where there is none.
    pub password: Secret,
    /// Which of the numbered databases.
    pub database: u32,
    /// How bytes travel.
    pub security: Security,
}

impl fmt::Debug for StoreAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("access")
    }
}
