//! Listening sockets, wherever they come from: bound by this process ([`listener`], at an [`address`], with
//! the file that a Unix socket has in [`unix_file`]), or passed by a service manager ([`systemd_sockets`], and
//! [`adopt`], which makes listeners of them).

pub mod address;
pub mod adopt;
pub mod listener;
pub mod systemd_sockets;
pub mod unix_file;
