//! Reads very many votes out of the store. The library makes a value of each number on the way,
//! which takes three times as long; these replies have one form, and are read as they come.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use redis::{Cmd, ConnectionInfo, cmd};

use super::address::Host;
use super::link::{LinkError, Role, TIMEOUT};

/// Room for replies on their way, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;
/// Longest text of a number or a length, with its line end.
const LINE_BYTES_MAX: u64 = 64;
/// Longest description that a machine gives of itself.
const TEXT_BYTES_MAX: u32 = 64 * 1024;

/// A connection for such replies only.
pub struct Wire {
    reader: BufReader<TcpStream>,
    host: Host,
}

impl Wire {
    /// Connects and greets, at the machine of this process: a name may stand for several.
    ///
    /// # Errors
    /// Where it is at none of the addresses.
    pub fn open(info: &ConnectionInfo, host: &Host, run_id: &str) -> Result<Self, LinkError> {
        let found = (host.name.as_str(), host.port).to_socket_addrs().map_err(|error| unreachable(host, &error))?;
        let mut why = LinkError::Lost(format!("there is no host {host}"));
        for address in found {
            match Self::open_at(&address, info, host, run_id) {
                Ok(wire) => return Ok(wire),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn open_at(address: &SocketAddr, info: &ConnectionInfo, host: &Host, run_id: &str) -> Result<Self, LinkError> {
        let fail = |error: std::io::Error| unreachable(host, &error);
        let stream = TcpStream::connect_timeout(address, TIMEOUT).map_err(fail)?;
        stream.set_nodelay(true).map_err(fail)?;
        // A primary that is busy saving takes its time, and a start can be begun again.
        stream.set_read_timeout(Some(TIMEOUT * 5)).map_err(fail)?;
        stream.set_write_timeout(Some(TIMEOUT * 5)).map_err(fail)?;
        let mut wire = Self { reader: BufReader::with_capacity(BUFFER_BYTES, stream), host: host.clone() };
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            wire.greet(cmd("AUTH").arg(settings.username()).arg(password))?;
        }
        if settings.db() != 0 {
            wire.greet(cmd("SELECT").arg(settings.db()))?;
        }
        wire.check_machine(run_id)?;
        Ok(wire)
    }

    /// What is read here goes with the log that is read there: both have to be of one machine.
    fn check_machine(&mut self, run_id: &str) -> Result<(), LinkError> {
        self.send(&Role::question().get_packed_command())?;
        let text = read_text(&mut self.reader).map_err(|error| self.failed(error))?;
        let role = Role::read(&text).ok_or_else(|| self.failed(Fault::Form))?;
        if role.is_primary && role.run_id == run_id {
            return Ok(());
        }
        Err(LinkError::Lost(format!("the store at {} is another machine at each connection", self.host)))
    }

    fn greet(&mut self, command: &Cmd) -> Result<(), LinkError> {
        self.send(&command.get_packed_command())?;
        let mut line = Vec::new();
        read_line(&mut self.reader, &mut line).map_err(|error| self.failed(error))?;
        if line.as_slice() == b"+OK" { Ok(()) } else { Err(self.refused(&line)) }
    }

    /// Sends commands, one behind the other.
    ///
    /// # Errors
    /// [`LinkError::Lost`]
    pub fn send(&mut self, packed: &[u8]) -> Result<(), LinkError> {
        self.reader.get_mut().write_all(packed).map_err(|error| self.failed(Fault::Io(error)))
    }

    /// Reads one reply: pairs of whole numbers.
    ///
    /// # Errors
    /// Either kind.
    pub fn pairs(&mut self, visit: &mut dyn FnMut(u32, u32)) -> Result<(), LinkError> {
        read_pairs(&mut self.reader, visit).map_err(|error| self.failed(error))
    }

    fn failed(&self, fault: Fault) -> LinkError {
        let host = &self.host;
        match fault {
            Fault::Io(error) => LinkError::Lost(format!("the store at {host} does not answer: {error}")),
            Fault::Form => LinkError::Lost(format!("the store at {host} gives votes that make no sense")),
            Fault::Refusal(line) => self.refused(&line),
        }
    }

    fn refused(&self, line: &[u8]) -> LinkError {
        LinkError::Refused(format!("the store at {} refuses: {}", self.host, String::from_utf8_lossy(line)))
    }
}

#[derive(Debug)]
enum Fault {
    Io(std::io::Error),
    /// Not what was asked for.
    Form,
    /// An error of the store, as it said it.
    Refusal(Vec<u8>),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

fn unreachable(host: &Host, error: &std::io::Error) -> LinkError {
    LinkError::Lost(format!("the store at {host} cannot be reached: {error}"))
}

/// A text of several lines: its length on one line, then itself.
fn read_text(reader: &mut impl BufRead) -> Result<String, Fault> {
    let mut line = Vec::new();
    read_line(reader, &mut line)?;
    if line.starts_with(b"-") {
        return Err(Fault::Refusal(line));
    }
    let length = line.strip_prefix(b"$").and_then(decimal).filter(|length| *length <= TEXT_BYTES_MAX);
    let mut bytes = vec![0; length.ok_or(Fault::Form)? as usize + 2];
    reader.read_exact(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") {
        return Err(Fault::Form);
    }
    bytes.truncate(bytes.len() - 2);
    String::from_utf8(bytes).map_err(|_| Fault::Form)
}

fn read_pairs(reader: &mut impl BufRead, visit: &mut dyn FnMut(u32, u32)) -> Result<(), Fault> {
    let mut line = Vec::with_capacity(LINE_BYTES_MAX as usize);
    read_line(reader, &mut line)?;
    let count: u32 = match line.split_first() {
        Some((b'*', count)) => decimal(count).ok_or(Fault::Form)?,
        Some((b'-', _)) => return Err(Fault::Refusal(line)),
        _ => return Err(Fault::Form),
    };
    if !count.is_multiple_of(2) {
        return Err(Fault::Form);
    }
    for _ in 0..count / 2 {
        let first = read_number(reader, &mut line)?;
        let second = read_number(reader, &mut line)?;
        visit(first, second);
    }
    Ok(())
}

/// A text that is a number: its length on one line, itself on the next.
fn read_number(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<u32, Fault> {
    read_line(reader, line)?;
    let length: u32 = line.strip_prefix(b"$").and_then(decimal).ok_or(Fault::Form)?;
    read_line(reader, line)?;
    if line.len() != length as usize {
        return Err(Fault::Form);
    }
    decimal(line).ok_or(Fault::Form)
}

/// A line without its end.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<(), Fault> {
    line.clear();
    reader.by_ref().take(LINE_BYTES_MAX * 4).read_until(b'\n', line)?;
    if line.is_empty() {
        return Err(Fault::Io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    if !line.ends_with(b"\r\n") {
        return Err(Fault::Form);
    }
    line.truncate(line.len() - 2);
    Ok(())
}

fn decimal(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 10 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    u32::try_from(text.iter().fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'))).ok()
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{Fault, decimal, read_pairs, read_text};

    /// What is read of `wire`, whatever size the pieces are that it comes in.
    fn read(wire: &str) -> Result<Vec<(u32, u32)>, Fault> {
        let mut outcomes = (1..=wire.len().max(1)).map(|piece| {
            let mut pairs = Vec::new();
            let mut reader = BufReader::with_capacity(piece, wire.as_bytes());
            read_pairs(&mut reader, &mut |first, second| pairs.push((first, second))).map(|()| pairs)
        });
        let first = outcomes.next().expect("one");
        for other in outcomes {
            assert_eq!(format!("{other:?}"), format!("{first:?}"), "{wire:?}");
        }
        first
    }

    #[test]
    fn pairs_are_read_in_pieces_of_any_size() {
        let wire = "*4\r\n$1\r\n7\r\n$10\r\n1795172696\r\n$10\r\n4294967295\r\n$1\r\n0\r\n";
        assert_eq!(read(wire).expect("pairs"), [(7, 1_795_172_696), (u32::MAX, 0)]);
        assert_eq!(read("*0\r\n").expect("nothing"), []);
    }

    #[test]
    fn texts_are_read_whole() {
        let read = |wire: &str| read_text(&mut BufReader::with_capacity(3, wire.as_bytes()));
        assert_eq!(read("$6\r\na:1\r\nb\r\n").expect("a text"), "a:1\r\nb");
        assert!(matches!(read("-NOPERM no\r\n"), Err(Fault::Refusal(_))));
        assert!(matches!(read("$3\r\nabcde"), Err(Fault::Form)));
        assert!(matches!(read("$70000\r\n"), Err(Fault::Form)));
        assert!(matches!(read("$6\r\nabc"), Err(Fault::Io(_))));
    }

    #[test]
    fn anything_else_is_refused() {
        for wire in [
            "*1\r\n$1\r\n7\r\n",
            "*2\r\n$2\r\n7\r\n$1\r\n1\r\n",
            "*2\r\n$1\r\nx\r\n$1\r\n1\r\n",
            "*2\r\n$1\r\n7\n$1\r\n1\r\n",
            "*2\r\n:7\r\n$1\r\n1\r\n",
            "*-1\r\n",
            "$1\r\n7\r\n",
            "*2\r\n$10\r\n4294967296\r\n$1\r\n1\r\n",
            "\r\n",
        ] {
            assert!(matches!(read(wire), Err(Fault::Form)), "{wire:?}");
        }
        assert!(matches!(read("*2\r\n$1\r\n7\r\n"), Err(Fault::Io(_))), "cut off");
        assert!(matches!(read("-LOADING it is\r\n"), Err(Fault::Refusal(line)) if line == b"-LOADING it is"));
        assert_eq!(decimal(b"99999999999"), None);
    }
}
