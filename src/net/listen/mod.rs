//! Listening sockets of either origin. This process binds them ([`listener`], at an [`address`], with the file of
//! a Unix socket in [`unix_file`]), or a service manager passes them ([`systemd_sockets`], and [`adopt`], which
//! makes listeners of them).

use std::fmt;

pub mod address;
pub mod adopt;
pub mod listener;
pub mod systemd_sockets;
pub mod unix_file;

/// The role of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Open to all.
    Public,
    /// For the site itself.
    Control,
}

impl Role {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Public, Self::Control];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Control => "control",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
