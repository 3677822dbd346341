//! What one process gives to the other, packed into messages and unpacked again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::protocol::{Delivery, TakeoverMessage, UNKNOWN_WORDS, say, send};
use crate::limits::{PASSED_BYTES_MAX, PASSED_SOCKETS_MAX};
use crate::net::fd_channel::FdChannel;
use crate::net::mailbox::{Handed, PassedClient};
use crate::server::Role;

/// What the new process gets, or gives back.
#[derive(Default)]
pub(in crate::server) struct Estate {
    pub(in crate::server) public: Handed,
    pub(in crate::server) control: Handed,
}

impl Estate {
    /// Sends all of it; the sockets stay open here as well. Listeners first, as everybody needs them.
    pub(in crate::server) fn send(&self, channel: &FdChannel) -> io::Result<()> {
        for (role, handed) in [(Role::Control, &self.control), (Role::Public, &self.public)] {
            for listeners in handed.listeners.chunks(PASSED_SOCKETS_MAX) {
                let sockets: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
                send(channel, &TakeoverMessage::Listeners { role, count: sockets.len() }, &[], &sockets)?;
            }
        }
        send_clients(channel, Role::Control, &self.control.clients)?;
        send_clients(channel, Role::Public, &self.public.clients)?;
        say(channel, &TakeoverMessage::Moved)
    }

    /// Adds what has come with a message.
    pub(in crate::server) fn add(&mut self, delivery: Delivery) -> io::Result<()> {
        let Delivery { message, mut input, sockets } = delivery;
        match message {
            TakeoverMessage::Listeners { count, .. } if sockets.len() < count => {
                Err(io::Error::other("it has more open files than this process may open"))
            }
            TakeoverMessage::Listeners { role, .. } => {
                self.of(role).listeners.extend(sockets);
                Ok(())
            }
            TakeoverMessage::Clients { role, input_bytes } => {
                for (socket, bytes) in sockets.into_iter().zip(input_bytes) {
                    let rest = input.split_off(bytes.min(input.len()));
                    let input = std::mem::replace(&mut input, rest);
                    self.of(role).clients.push(PassedClient { socket, input });
                }
                Ok(())
            }
            _ => Err(io::Error::other(UNKNOWN_WORDS)),
        }
    }

    fn of(&mut self, role: Role) -> &mut Handed {
        match role {
            Role::Public => &mut self.public,
            Role::Control => &mut self.control,
        }
    }
}

fn send_clients(channel: &FdChannel, role: Role, clients: &[PassedClient]) -> io::Result<()> {
    let mut parcel = Parcel::default();
    for client in clients {
        if !parcel.has_room_for(client) {
            std::mem::take(&mut parcel).send(channel, role)?;
        }
        parcel.add(client);
    }
    parcel.send(channel, role)
}

/// Clients that fit into one message.
#[derive(Default)]
struct Parcel<'a> {
    input_bytes: Vec<usize>,
    input: Vec<u8>,
    sockets: Vec<BorrowedFd<'a>>,
}

impl<'a> Parcel<'a> {
    fn has_room_for(&self, client: &PassedClient) -> bool {
        self.sockets.len() < PASSED_SOCKETS_MAX && self.input.len() + client.input.len() <= PASSED_BYTES_MAX
    }

    fn add(&mut self, client: &'a PassedClient) {
        self.input_bytes.push(client.input.len());
        self.input.extend(&client.input);
        self.sockets.push(client.socket.as_fd());
    }

    fn send(self, channel: &FdChannel, role: Role) -> io::Result<()> {
        if self.sockets.is_empty() {
            return Ok(());
        }
        send(channel, &TakeoverMessage::Clients { role, input_bytes: self.input_bytes }, &self.input, &self.sockets)
    }
}
