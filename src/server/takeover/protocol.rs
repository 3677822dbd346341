//! What a running service and the process that takes over from it say to each other. At each
//! moment one of the two answers status requests from all that is known, and one at most records.
//!
//! ```text
//!   the new process                            the running one
//!   ------------------------------------------------------------------------------------
//!   Hello                                  →
//!   binds what the other does not have     ←   Listening: its addresses
//!   Release                                →
//!                                              ends the control listener's worker; another one answers
//!                                              its probes and lets the rest wait;
//!                                              ends the recorder, closes the store;
//!                                          ←   Released; goes on answering status requests: with
//!   opens the store, loads it                  nobody recording, what it knows stays true
//!   Loading, every second                  →
//!   Ready                                  →
//!                                          ←   Listeners, Clients: everything that waits for nothing;
//!                                          ←   Moved; keeps a handle of each
//!   Taken                                  →   — from here on there is no way back —
//!   answers status requests, and probes        answers the rest, each for the last time
//!   answers all of the control listener's  ←   Done
//! ```
//!
//! Votes that are reported meanwhile wait as they came, and are given to whoever has the store next: none
//! is refused, and none is taken twice. Health, readiness and metrics are answered all the time. Where the new process ends or falls
//! silent before it has taken all, the running one hangs up, takes back what it has given away, opens
//! its store again and goes on; the new one still finds its gate open, and ends. Where the running one
//! ends, its gate is closed, and the new one binds by itself what it has not got. A signal to stop that
//! the running one gets after Release waits until it is clear which of the two goes on.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::limits::{PASSED_BYTES_MAX, PASSED_SOCKETS_MAX};
use crate::net::fd_channel::FdChannel;
use crate::net::listen::address::ListenAddress;
use crate::net::mailbox::{Handed, PassedClient};
use crate::server::Role;

/// Version of what is said here.
pub(in crate::server) const VERSION: u32 = 2;

/// The running process is never busy for as long as this: it hangs, or is stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the gate of a process that may be gone stays open for so long, it is not.
const GATE_TRIES: u32 = 4;
const GATE_PAUSE: Duration = Duration::from_millis(100);

const UNKNOWN_WORDS: &str = "it answers in a way that this version does not know";

/// See the drawing above. Each is a line of text, what belongs to it behind it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) enum TakeoverMessage {
    Hello {
        version: u32,
    },
    Refused {
        reason: String,
    },
    Listening {
        places: Vec<Listed>,
    },
    Release,
    Released,
    /// Still at it.
    Loading,
    Ready,
    /// Behind so many that come with it.
    Listeners {
        role: Role,
        count: usize,
    },
    /// Behind the message stands what each client has sent.
    Clients {
        role: Role,
        input_bytes: Vec<usize>,
    },
    Moved,
    Taken,
    Done,
}

/// An address that is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct Listed {
    pub(in crate::server) role: Role,
    pub(in crate::server) address: ListenAddress,
    /// The socket file goes with the listeners: nobody else will take it away.
    pub(in crate::server) has_file: bool,
}

impl fmt::Display for TakeoverMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello { version } => write!(formatter, "hello {version}"),
            Self::Refused { reason } => write!(formatter, "refused {reason}"),
            Self::Listening { places } => {
                formatter.write_str("listening")?;
                places.iter().try_for_each(|Listed { role, address, has_file }| {
                    let file = if *has_file { "file" } else { "plain" };
                    write!(formatter, "\t{} {file} {address}", word(*role))
                })
            }
            Self::Release => formatter.write_str("release"),
            Self::Released => formatter.write_str("released"),
            Self::Loading => formatter.write_str("loading"),
            Self::Ready => formatter.write_str("ready"),
            Self::Listeners { role, count } => write!(formatter, "listeners {} {count}", word(*role)),
            Self::Clients { role, input_bytes } => {
                write!(formatter, "clients {}", word(*role))?;
                input_bytes.iter().try_for_each(|bytes| write!(formatter, " {bytes}"))
            }
            Self::Moved => formatter.write_str("moved"),
            Self::Taken => formatter.write_str("taken"),
            Self::Done => formatter.write_str("done"),
        }
    }
}

impl TakeoverMessage {
    /// What a line says; `None` where it makes no sense.
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        Some(match word {
            "hello" => Self::Hello { version: rest.parse().ok()? },
            "refused" => Self::Refused { reason: rest.to_owned() },
            "listening" => {
                let places = rest.split('\t').filter(|place| !place.is_empty()).map(Listed::parse);
                Self::Listening { places: places.collect::<Option<_>>()? }
            }
            "release" => Self::Release,
            "released" => Self::Released,
            "loading" => Self::Loading,
            "ready" => Self::Ready,
            "listeners" => {
                let (word, count) = rest.split_once(' ')?;
                Self::Listeners { role: role(word)?, count: count.parse().ok()? }
            }
            "clients" => {
                let mut words = rest.split(' ');
                let role = role(words.next()?)?;
                Self::Clients { role, input_bytes: words.map(|bytes| bytes.parse().ok()).collect::<Option<_>>()? }
            }
            "moved" => Self::Moved,
            "taken" => Self::Taken,
            "done" => Self::Done,
            _ => return None,
        })
    }
}

impl Listed {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let role = role(parts.next()?)?;
        let has_file = parts.next()? == "file";
        Some(Self { role, address: parts.next()?.parse().ok()?, has_file })
    }
}

const fn word(role: Role) -> &'static str {
    match role {
        // Each process has its own certificate: what it listens under is no business of the other.
        Role::Public | Role::PublicTls => "public",
        Role::Control => "control",
    }
}

fn role(text: &str) -> Option<Role> {
    [Role::Public, Role::Control].into_iter().find(|role| word(*role) == text)
}

/// A message, and what belongs to it.
pub(in crate::server) struct Delivery {
    pub(in crate::server) message: TakeoverMessage,
    input: Vec<u8>,
    sockets: Vec<OwnedFd>,
}

/// Says something that needs nothing with it.
pub(in crate::server) fn say(wire: &FdChannel, message: &TakeoverMessage) -> io::Result<()> {
    send(wire, message, &[], &[])
}

/// Waits for what is said next; `None` at the end.
pub(in crate::server) fn hear(wire: &FdChannel) -> io::Result<Option<Delivery>> {
    let received = wire.receive().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other("it does not answer"),
        _ => error,
    });
    let Some((bytes, sockets)) = received? else { return Ok(None) };
    let end = memchr::memchr(b'\n', &bytes).unwrap_or(bytes.len());
    let message = std::str::from_utf8(&bytes[..end]).ok().and_then(TakeoverMessage::parse);
    let message = message.ok_or_else(|| io::Error::other(UNKNOWN_WORDS))?;
    Ok(Some(Delivery { message, input: bytes.get(end + 1..).unwrap_or_default().to_vec(), sockets }))
}

/// Gives away what workers have handed; they stay open here as well. What all need comes first.
pub(in crate::server) fn give(wire: &FdChannel, estate: &Estate) -> io::Result<()> {
    for (role, handed) in [(Role::Control, &estate.control), (Role::Public, &estate.public)] {
        for listeners in handed.listeners.chunks(PASSED_SOCKETS_MAX) {
            let sockets: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
            send(wire, &TakeoverMessage::Listeners { role, count: sockets.len() }, &[], &sockets)?;
        }
    }
    give_clients(wire, Role::Control, &estate.control.clients)?;
    give_clients(wire, Role::Public, &estate.public.clients)?;
    say(wire, &TakeoverMessage::Moved)
}

fn give_clients(wire: &FdChannel, role: Role, clients: &[PassedClient]) -> io::Result<()> {
    let mut parcel = Parcel::default();
    for client in clients {
        if !parcel.has_room_for(client) {
            std::mem::take(&mut parcel).send(wire, role)?;
        }
        parcel.add(client);
    }
    parcel.send(wire, role)
}

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

    fn send(self, wire: &FdChannel, role: Role) -> io::Result<()> {
        if self.sockets.is_empty() {
            return Ok(());
        }
        send(wire, &TakeoverMessage::Clients { role, input_bytes: self.input_bytes }, &self.input, &self.sockets)
    }
}

fn send(wire: &FdChannel, message: &TakeoverMessage, input: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    wire.send(&[format!("{message}\n").as_bytes(), input].concat(), sockets)
}

/// The new process's side.
pub(in crate::server) struct Takeover {
    gate: PathBuf,
    wire: FdChannel,
    places: Vec<Listed>,
}

/// What the new process gets, or gives back.
#[derive(Default)]
pub(in crate::server) struct Estate {
    pub(in crate::server) public: Handed,
    pub(in crate::server) control: Handed,
}

impl Takeover {
    /// Asks whoever runs on this data directory; `None` where nobody does.
    pub(in crate::server) fn ask(gate: &Path) -> io::Result<Option<Self>> {
        let Some(wire) = FdChannel::connect(gate, PATIENCE)? else { return Ok(None) };
        let refused = |reason: &str| Err(io::Error::other(reason.to_owned()));
        if say(&wire, &TakeoverMessage::Hello { version: VERSION }).is_err() {
            return Ok(None);
        }
        match hear(&wire)?.map(|said| said.message) {
            Some(TakeoverMessage::Listening { places }) => Ok(Some(Self { gate: gate.to_owned(), wire, places })),
            Some(TakeoverMessage::Refused { reason }) => refused(&reason),
            Some(_) => refused(UNKNOWN_WORDS),
            None => Ok(None),
        }
    }

    /// What the running process listens on.
    pub(in crate::server) fn places(&self) -> &[Listed] {
        &self.places
    }

    /// Has the store closed. Where the running process ends meanwhile, it is closed as well.
    pub(in crate::server) fn release(&self) -> io::Result<()> {
        // Here and below: who is gone is heard to be gone.
        let _heard = say(&self.wire, &TakeoverMessage::Release);
        match hear(&self.wire)?.map(|said| said.message) {
            None | Some(TakeoverMessage::Released) => Ok(()),
            Some(TakeoverMessage::Refused { reason }) => Err(io::Error::other(reason)),
            Some(_) => Err(io::Error::other(UNKNOWN_WORDS)),
        }
    }

    /// Says that it takes a while.
    pub(in crate::server) fn say_loading(&self) {
        let _heard = say(&self.wire, &TakeoverMessage::Loading);
    }

    /// Says that all is loaded, and takes what there is: all, or what is left of a process that has
    /// ended. Fails where the other one goes on: then nothing is this process's.
    pub(in crate::server) fn take(&self) -> io::Result<Estate> {
        let _heard = say(&self.wire, &TakeoverMessage::Ready);
        let mut estate = Estate::default();
        while let Some(said) = hear(&self.wire)? {
            match said.message {
                TakeoverMessage::Listeners { count, .. } if said.sockets.len() < count => {
                    return Err(io::Error::other("it has more open files than this process may open"));
                }
                TakeoverMessage::Listeners { role, .. } => estate.of(role).listeners.extend(said.sockets),
                TakeoverMessage::Clients { role, input_bytes } => {
                    let mut input = said.input;
                    for (socket, bytes) in said.sockets.into_iter().zip(input_bytes) {
                        let rest = input.split_off(bytes.min(input.len()));
                        let input = std::mem::replace(&mut input, rest);
                        estate.of(role).clients.push(PassedClient { socket, input });
                    }
                }
                // What cannot be said is heard below.
                TakeoverMessage::Moved if say(&self.wire, &TakeoverMessage::Taken).is_ok() => return Ok(estate),
                TakeoverMessage::Moved => {}
                _ => return Err(io::Error::other(UNKNOWN_WORDS)),
            }
        }
        if self.is_gone()? {
            return Ok(estate);
        }
        Err(io::Error::other("it has waited for too long, and goes on by itself"))
    }

    /// Whether the running process has ended. The system closes its gate a moment before or after
    /// its end of the wire.
    pub(in crate::server) fn is_gone(&self) -> io::Result<bool> {
        for _try in 0..GATE_TRIES {
            if FdChannel::connect(&self.gate, PATIENCE)?.is_none() {
                return Ok(true);
            }
            thread::sleep(GATE_PAUSE);
        }
        Ok(false)
    }

    /// Waits until the running process answers no status request any more, or is gone.
    pub(in crate::server) fn wait_until_done(self) {
        while let Ok(Some(said)) = hear(&self.wire) {
            if said.message == TakeoverMessage::Done {
                return;
            }
        }
    }
}

impl Estate {
    pub(in crate::server) fn of(&mut self, role: Role) -> &mut Handed {
        match role {
            Role::Public | Role::PublicTls => &mut self.public,
            Role::Control => &mut self.control,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Listed, TakeoverMessage};
    use crate::net::listen::address::ListenAddress;
    use crate::server::Role;

    #[test]
    fn what_is_said_is_understood() {
        let place = |role, address: &str, has_file| {
            let address: ListenAddress = address.parse().expect("an address");
            Listed { role, address, has_file }
        };
        let places =
            vec![place(Role::Public, "[::]:8080", false), place(Role::Control, "unix:/run/a folder/control", true)];
        for (message, line) in [
            (TakeoverMessage::Hello { version: 1 }, "hello 1"),
            (TakeoverMessage::Refused { reason: "it is late".to_owned() }, "refused it is late"),
            (TakeoverMessage::Listening { places: Vec::new() }, "listening"),
            (
                TakeoverMessage::Listening { places },
                "listening\tpublic plain [::]:8080\tcontrol file unix:/run/a folder/control",
            ),
            (TakeoverMessage::Release, "release"),
            (TakeoverMessage::Released, "released"),
            (TakeoverMessage::Loading, "loading"),
            (TakeoverMessage::Ready, "ready"),
            (TakeoverMessage::Listeners { role: Role::Control, count: 3 }, "listeners control 3"),
            (TakeoverMessage::Clients { role: Role::Public, input_bytes: vec![0, 17, 0] }, "clients public 0 17 0"),
            (TakeoverMessage::Moved, "moved"),
            (TakeoverMessage::Taken, "taken"),
            (TakeoverMessage::Done, "done"),
        ] {
            assert_eq!(message.to_string(), line);
            assert_eq!(TakeoverMessage::parse(line), Some(message));
        }
        for nonsense in [
            "",
            "hello",
            "hello x",
            "listening\tnobody plain [::]:1",
            "listeners",
            "listeners public",
            "clients public x",
            "x",
        ] {
            assert_eq!(TakeoverMessage::parse(nonsense), None, "{nonsense:?}");
        }
    }
}
