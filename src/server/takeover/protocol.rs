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
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::net::fd_channel::FdChannel;
use crate::net::listen::address::ListenAddress;
use crate::server::Role;

/// Version of what is said here.
pub(in crate::server) const VERSION: u32 = 2;

/// What is wrong with an answer that makes no sense.
pub(in crate::server) const UNKNOWN_WORDS: &str = "it answers in a way that this version does not know";

/// A message of the drawing above: a line of text. What clients have sent stands behind it.
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
    /// The store is still being read.
    Loading,
    Ready,
    /// So many listening sockets come with it.
    Listeners {
        role: Role,
        count: usize,
    },
    /// A socket for each client comes with it. What the clients have sent stands behind it, one after the
    /// other, of these lengths.
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
        Role::Public => "public",
        Role::Control => "control",
    }
}

fn role(text: &str) -> Option<Role> {
    [Role::Public, Role::Control].into_iter().find(|role| word(*role) == text)
}

/// A message as it was received, with what belongs to it.
pub(in crate::server) struct Delivery {
    pub(in crate::server) message: TakeoverMessage,
    pub(in crate::server) input: Vec<u8>,
    pub(in crate::server) sockets: Vec<OwnedFd>,
}

/// Says something that nothing else belongs to.
pub(in crate::server) fn say(channel: &FdChannel, message: &TakeoverMessage) -> io::Result<()> {
    send(channel, message, &[], &[])
}

/// Waits for what is said next; `None` where the other process has hung up, or ended.
pub(in crate::server) fn hear(channel: &FdChannel) -> io::Result<Option<Delivery>> {
    let received = channel.receive().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other("it does not answer"),
        _ => error,
    });
    let Some((bytes, sockets)) = received? else { return Ok(None) };
    let end = memchr::memchr(b'\n', &bytes).unwrap_or(bytes.len());
    let message = std::str::from_utf8(&bytes[..end]).ok().and_then(TakeoverMessage::parse);
    let message = message.ok_or_else(|| io::Error::other(UNKNOWN_WORDS))?;
    Ok(Some(Delivery { message, input: bytes.get(end + 1..).unwrap_or_default().to_vec(), sockets }))
}

/// Says something, with what clients have sent and with sockets that go to the other process.
pub(in crate::server) fn send(
    channel: &FdChannel,
    message: &TakeoverMessage,
    input: &[u8],
    sockets: &[BorrowedFd<'_>],
) -> io::Result<()> {
    channel.send(&[format!("{message}\n").as_bytes(), input].concat(), sockets)
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
