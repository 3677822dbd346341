//! The listening sockets of a run: bound here, or passed by a service manager.

use std::io;
use std::os::fd::OwnedFd;

use super::{Config, Engine, Role, ServerError};
use crate::net::listen::address::ListenAddress;
use crate::net::listen::adopt;
use crate::net::listen::listener::{self, Bound, Families};
use crate::net::listen::unix_file::SocketFile;

/// An address, and the sockets that listen there.
struct BoundAddress {
    role: Role,
    address: ListenAddress,
    listeners: Vec<OwnedFd>,
    /// A service manager has opened it, and keeps it open.
    is_passed: bool,
    /// The file of a Unix socket, which is removed when this is dropped.
    file: Option<SocketFile>,
}

/// All addresses to listen on.
pub(super) struct Sockets {
    bound: Vec<BoundAddress>,
}

impl Sockets {
    /// Takes the sockets that a service manager has passed, and binds every other address that is wanted.
    pub(super) fn open(config: &mut Config) -> Result<Self, ServerError> {
        let mut bound = Vec::new();
        for (role, socket) in std::mem::take(&mut config.passed) {
            let address = adopt::listener(&socket).map_err(|error| ServerError::Passed(role, error))?;
            bound.push(BoundAddress { role, address, listeners: vec![socket], is_passed: true, file: None });
        }
        if bound.iter().all(BoundAddress::is_control) {
            let count = if config.engine == Engine::Native { config.workers } else { 1 };
            for address in &config.listen {
                let families = Families::beside(address, &config.listen);
                bound.push(BoundAddress::bind(Role::Public, address, families, count, config.listen_mode)?);
            }
        }
        if !bound.iter().any(BoundAddress::is_control) {
            let address = &config.control;
            bound.push(BoundAddress::bind(Role::Control, address, Families::Both, 1, config.listen_mode)?);
        }
        bound.sort_by_key(BoundAddress::is_control);
        Ok(Self { bound })
    }

    /// Whether a service manager has passed those of a role.
    pub(super) fn are_passed(&self, role: Role) -> bool {
        self.bound.iter().any(|bound| bound.is_of(role) && bound.is_passed)
    }

    /// Where they listen.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&ListenAddress, Role)> {
        self.bound.iter().map(|bound| (&bound.address, bound.role))
    }

    /// Takes the listeners of a role, as one share for each worker.
    pub(super) fn take(&mut self, role: Role, workers: usize) -> io::Result<Vec<Vec<OwnedFd>>> {
        let mut shares: Vec<Vec<OwnedFd>> = (0..workers).map(|_| Vec::new()).collect();
        for bound in self.bound.iter_mut().filter(|bound| bound.is_of(role)) {
            let listeners = adopt::share(std::mem::take(&mut bound.listeners), workers)?;
            for (share, listeners) in shares.iter_mut().zip(listeners) {
                share.extend(listeners);
            }
        }
        Ok(shares)
    }

    /// Takes the socket files away. To be called when nothing listens any more.
    pub(super) fn remove_files(&mut self) {
        self.bound.iter_mut().for_each(|bound| drop(bound.file.take()));
    }
}

impl BoundAddress {
    fn bind(
        role: Role,
        address: &ListenAddress,
        families: Families,
        count: usize,
        mode: u32,
    ) -> Result<Self, ServerError> {
        let bound = listener::bind(address, families, count, mode);
        let Bound { address, listeners, file } = bound.map_err(|error| ServerError::Bind(address.clone(), error))?;
        Ok(Self { role, address, listeners, is_passed: false, file })
    }

    fn is_control(&self) -> bool {
        self.role == Role::Control
    }

    fn is_of(&self, role: Role) -> bool {
        self.role == role
    }
}
