//! The listening sockets of a run: bound here, passed by a service manager, or given by the process
//! that has run until now.

use std::io;
use std::os::fd::OwnedFd;

use super::takeover::protocol::Listed;
use super::{Config, Engine, Role, ServerError};
use crate::net::listen::address::ListenAddress;
use crate::net::listen::adopt;
use crate::net::listen::listener::{self, Bound, Families, Listener};
use crate::net::listen::unix_file::SocketFile;

/// An address to listen on, and what listens there.
struct SocketPlace {
    role: Role,
    address: ListenAddress,
    families: Families,
    /// The running process has promised its listeners for this address.
    promise: Option<Listed>,
    listeners: Vec<Listener>,
    /// The file of a Unix socket, which is removed when this is dropped.
    file: Option<SocketFile>,
}

/// All addresses to listen on.
pub(super) struct Sockets {
    places: Vec<SocketPlace>,
    /// How many listeners are bound for each public address.
    count: usize,
    /// Permissions of socket files.
    mode: u32,
    are_passed: bool,
}

impl Sockets {
    /// Takes the sockets that a service manager has passed, and binds every other address that is wanted and
    /// not `promised` by a running process.
    pub(super) fn open(config: &mut Config, promised: &[Listed]) -> Result<Self, ServerError> {
        let mut places = Vec::new();
        for (role, socket) in std::mem::take(&mut config.passed) {
            let inherited = adopt::listener(socket);
            let (address, listener) = inherited.map_err(|error| ServerError::Passed(role, error))?;
            places.push(SocketPlace { listeners: vec![listener], ..SocketPlace::new(role, address, &[]) });
        }
        let are_passed = !places.is_empty();
        let mut wanted = Vec::new();
        if places.iter().all(SocketPlace::is_control) {
            let public = |address: &ListenAddress| SocketPlace::new(Role::Public, address.clone(), &config.listen);
            wanted.extend(config.listen.iter().map(public));
        }
        if !places.iter().any(SocketPlace::is_control) {
            wanted.push(SocketPlace::new(Role::Control, config.control.clone(), &[]));
        }
        let mut promised = promised.to_vec();
        for place in &mut wanted {
            // Each promise stands for one address.
            let found = promised.iter().position(|listed| place.is_met_by(listed));
            place.promise = found.map(|index| promised.swap_remove(index));
        }
        places.extend(wanted);
        places.sort_by_key(SocketPlace::is_control);
        let count = if config.engine == Engine::Native { config.workers } else { 1 };
        let mut sockets = Self { places, count, mode: config.listen_mode, are_passed };
        sockets.bind_missing(Role::Public)?;
        sockets.bind_missing(Role::Control)?;
        Ok(sockets)
    }

    /// Takes the listeners that the running process has given, and binds what it had promised and not given.
    pub(super) fn inherit(&mut self, role: Role, given: Vec<OwnedFd>) -> Result<(), ServerError> {
        for socket in given {
            let inherited = adopt::listener(socket);
            let (address, listener) = inherited.map_err(|error| ServerError::Passed(role, error))?;
            let is_it = |place: &&mut SocketPlace| place.is_of(role) && place.is_at(&address);
            match self.places.iter_mut().find(is_it) {
                Some(place) => {
                    place.listeners.push(listener);
                    place.take_file(&address);
                }
                None => log::info!("no longer listening on {address} ({role})"),
            }
        }
        for place in self.places.iter_mut().filter(|place| place.is_of(role)) {
            if let Some(listed) = place.promise.take() {
                place.address = listed.address;
            }
        }
        self.bind_missing(role)
    }

    fn bind_missing(&mut self, role: Role) -> Result<(), ServerError> {
        let count = if role == Role::Control { 1 } else { self.count };
        let is_missing = |place: &&mut SocketPlace| place.listeners.is_empty() && place.promise.is_none();
        for place in self.places.iter_mut().filter(|place| place.is_of(role)).filter(is_missing) {
            let bound = listener::bind(&place.address, place.families, count, self.mode);
            let bound = bound.map_err(|error| ServerError::Bind(place.address.clone(), error))?;
            Bound { address: place.address, listeners: place.listeners, file: place.file } = bound;
        }
        Ok(())
    }

    /// Whether a service manager has passed any of them.
    pub(super) const fn are_passed(&self) -> bool {
        self.are_passed
    }

    /// Where they listen.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&ListenAddress, Role)> {
        self.places.iter().map(|place| (&place.address, place.role))
    }

    /// The same, as it is told to a process that takes over.
    pub(super) fn places(&self) -> Vec<Listed> {
        let listed = |place: &SocketPlace| {
            let (role, address) = (place.role, place.address.clone());
            Listed { role, address, has_file: place.file.is_some() }
        };
        self.places.iter().map(listed).collect()
    }

    /// Takes the listeners of a role, as one share for each worker.
    pub(super) fn take(&mut self, role: Role, workers: usize) -> io::Result<Vec<Vec<Listener>>> {
        let mut shares: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
        for place in self.places.iter_mut().filter(|place| place.is_of(role)) {
            let listeners = adopt::share(std::mem::take(&mut place.listeners), workers)?;
            for (share, listeners) in shares.iter_mut().zip(listeners) {
                share.extend(listeners);
            }
        }
        Ok(shares)
    }

    /// Takes the socket files away. To be called when nothing listens any more.
    pub(super) fn remove_files(&mut self) {
        self.places.iter_mut().for_each(|place| drop(place.file.take()));
    }

    /// Leaves the socket files to whoever gets the listeners.
    pub(super) fn leave_files(&mut self) {
        self.places.iter_mut().filter_map(|place| place.file.take()).for_each(SocketFile::leave);
    }
}

impl SocketPlace {
    fn new(role: Role, address: ListenAddress, others: &[ListenAddress]) -> Self {
        let families = Families::beside(&address, others);
        Self { role, address, families, promise: None, listeners: Vec::new(), file: None }
    }

    /// Whether a listed address is the one that is wanted here. Port 0 stands for any port.
    fn is_met_by(&self, listed: &Listed) -> bool {
        let is_address = match (&self.address, &listed.address) {
            (ListenAddress::Tcp(wanted), ListenAddress::Tcp(there)) if wanted.port() == 0 => wanted.ip() == there.ip(),
            (wanted, there) => wanted == there,
        };
        self.is_of(listed.role) && is_address
    }

    fn is_control(&self) -> bool {
        self.role == Role::Control
    }

    fn is_of(&self, role: Role) -> bool {
        self.role == role
    }

    fn is_at(&self, address: &ListenAddress) -> bool {
        self.promise.as_ref().map_or(&self.address, |listed| &listed.address) == address
    }

    /// Takes charge of the socket file, if it comes with the listeners.
    fn take_file(&mut self, address: &ListenAddress) {
        if let (ListenAddress::Unix(path), Some(Listed { has_file: true, .. }), None) =
            (address, &self.promise, &self.file)
        {
            self.file = SocketFile::found(path).ok();
        }
    }
}
