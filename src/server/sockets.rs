//! The listening sockets of a run: bound here, or passed by a service manager.

use std::io;
use std::os::fd::OwnedFd;

use super::{Config, Engine, Role, ServerError};
use crate::net::listen::address::ListenAddress;
use crate::net::listen::adopt;
use crate::net::listen::listener::{self, Bound, Families};

/// An address, and the sockets that listen there.
struct BoundAddress {
    role: Role,
    /// A service manager has opened it, and keeps it open.
    is_passed: bool,
    bound: Bound,
}

/// All addresses to listen on.
pub(super) struct Sockets {
    listening: Vec<BoundAddress>,
}

impl Sockets {
    /// Takes the sockets that a service manager has passed, and binds every other address that is wanted.
    pub(super) fn open(config: &mut Config) -> Result<Self, ServerError> {
        let mut listening = Vec::new();
        for (role, socket) in std::mem::take(&mut config.passed) {
            let adopted = adopt::listener(socket).map_err(|error| ServerError::Passed(role, error))?;
            listening.push(BoundAddress { role, is_passed: true, bound: adopted });
        }
        if listening.iter().all(|one: &BoundAddress| one.role == Role::Control) {
            let count = if config.engine == Engine::Native { config.workers } else { 1 };
            for address in &config.listen {
                let families = Families::beside(address, &config.listen);
                listening.push(BoundAddress::bind(Role::Public, address, families, count, config.listen_mode)?);
            }
        }
        if listening.iter().all(|one: &BoundAddress| one.role == Role::Public) {
            let address = &config.control;
            listening.push(BoundAddress::bind(Role::Control, address, Families::Both, 1, config.listen_mode)?);
        }
        listening.sort_by_key(|one| one.role == Role::Control);
        Ok(Self { listening })
    }

    /// Whether a service manager has passed the sockets of a role.
    pub(super) fn are_passed(&self, role: Role) -> bool {
        self.listening.iter().any(|one| one.role == role && one.is_passed)
    }

    /// The addresses of the sockets.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&ListenAddress, Role)> {
        self.listening.iter().map(|one| (&one.bound.address, one.role))
    }

    /// Takes the listeners of a role, as one share for each worker.
    pub(super) fn take(&mut self, role: Role, workers: usize) -> io::Result<Vec<Vec<OwnedFd>>> {
        let mut shares: Vec<Vec<OwnedFd>> = (0..workers).map(|_| Vec::new()).collect();
        for one in self.listening.iter_mut().filter(|one| one.role == role) {
            let listeners = adopt::share(std::mem::take(&mut one.bound.listeners), workers)?;
            shares.iter_mut().zip(listeners).for_each(|(share, listener)| share.push(listener));
        }
        Ok(shares)
    }

    /// Removes the socket files. Call it once nothing listens any more.
    pub(super) fn remove_files(&mut self) {
        self.listening.iter_mut().for_each(|one| drop(one.bound.file.take()));
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
        let bound = bound.map_err(|error| ServerError::Bind(address.clone(), error))?;
        Ok(Self { role, is_passed: false, bound })
    }
}
