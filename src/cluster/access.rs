//! The login to a machine of the store: the user, the password, and whether the connection uses TLS. Each connection reads the
//! password and the certificates from their files again: to rotate them, replace the file; no restart is needed.

use std::fmt;
use std::fs;
use std::path::PathBuf;

#[cfg(feature = "tls")]
use super::tls::TlsFiles;

/// Where a password comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Secret {
    /// No password.
    #[default]
    None,
    /// The password itself, as given at the start.
    Text(String),
    /// The file that holds it, read again at each connection.
    File(PathBuf),
}

impl Secret {
    /// The password, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read or is empty. The error shows nothing of its content.
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

/// Whether a connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// In the clear.
    #[default]
    Clear,
    /// Under TLS.
    #[cfg(feature = "tls")]
    Tls(TlsFiles),
}

impl Security {
    /// Whether connections use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        *self != Self::Clear
    }
}

/// The login to a machine. No form of printing shows the password.
#[derive(Clone, Default)]
pub struct StoreAccess {
    /// The user; `None` is the store's default user.
    pub user: Option<String>,
    /// The password. Without one, the node sends no `AUTH`.
    pub password: Secret,
    /// The number of the database.
    pub database: u32,
    /// Whether a connection is encrypted.
    pub security: Security,
}

impl fmt::Debug for StoreAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("access")
    }
}
