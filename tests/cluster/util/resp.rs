//! A small client of the Redis protocol (RESP2), written apart from the library's own, so that the
//! two check each other. Knows words and replies, not the meaning of keys.

use crate::util::DEADLINE;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A status or a string.
    Text(String),
    /// An integer.
    Number(i64),
    /// Redis has no such value.
    Nil,
    /// An array.
    List(Vec<Value>),
    /// An error reply, its code first.
    Refused(String),
}

impl Value {
    /// The text. Panics on any other value.
    pub(crate) fn text(&self) -> &str {
        let Value::Text(text) = self else { panic!("no text: {self:?}") };
        text
    }

    /// The number, also from digits in a string.
    pub(crate) fn number(&self) -> i64 {
        match self {
            Value::Number(number) => *number,
            Value::Text(text) => text.parse().unwrap_or_else(|_| panic!("no number: {self:?}")),
            _ => panic!("no number: {self:?}"),
        }
    }

    /// The elements.
    pub(crate) fn list(&self) -> &[Value] {
        let Value::List(list) = self else { panic!("no list: {self:?}") };
        list
    }
}

/// A connection to a Redis.
#[derive(Debug)]
pub(crate) struct Redis {
    replies: BufReader<TcpStream>,
}

impl Redis {
    /// Connects, or panics.
    pub(crate) fn connect(addr: SocketAddr) -> Redis {
        Self::try_connect(addr).unwrap_or_else(|error| panic!("no connection to Redis at {addr}: {error}"))
    }

    /// Connects, or gives the reason of the failure.
    pub(crate) fn try_connect(addr: SocketAddr) -> io::Result<Redis> {
        let stream = TcpStream::connect_timeout(&addr, DEADLINE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        Ok(Redis { replies: BufReader::with_capacity(256 * 1024, stream) })
    }

    /// Gives the reply to a command. Panics on an error reply, or without one.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Value {
        match self.try_ask(words) {
            Ok(Value::Refused(why)) => panic!("{words:?}: {why}"),
            Ok(value) => value,
            Err(error) => panic!("{words:?}: {error}"),
        }
    }

    /// Gives the reply to a command. An error reply is a value; the error is the connection's.
    pub(crate) fn try_ask(&mut self, words: &[&str]) -> io::Result<Value> {
        self.send(&[words])?;
        self.read()
    }

    /// Sends many commands in one write, and reads their replies.
    pub(crate) fn pipeline(&mut self, commands: &[&[&str]]) -> io::Result<Vec<Value>> {
        self.send(commands)?;
        commands.iter().map(|_| self.read()).collect()
    }

    /// A field of Redis' INFO; empty where there is no such field.
    pub(crate) fn info(&mut self, field: &str) -> String {
        let said = self.ask(&["INFO", "all"]).text().to_owned();
        let value = said.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_default().trim().to_owned()
    }

    /// How often Redis has run this command so far.
    pub(crate) fn calls(&mut self, command: &str) -> u64 {
        let said = self.info(&format!("cmdstat_{command}"));
        said.strip_prefix("calls=")
            .and_then(|rest| rest.split(',').next())
            .map_or(0, |count| count.parse().expect("a count"))
    }

    /// Sends commands and reads nothing.
    pub(crate) fn send(&mut self, commands: &[&[&str]]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in *words {
                bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            }
        }
        self.replies.get_mut().write_all(&bytes)
    }

    /// Reads one reply.
    pub(crate) fn read(&mut self) -> io::Result<Value> {
        read_value(&mut self.replies)
    }
}

fn read_value(from: &mut impl BufRead) -> io::Result<Value> {
    let line = read_line(from)?;
    let (kind, rest) = line.split_at_checked(1).ok_or(ErrorKind::InvalidData)?;
    let length = || rest.parse::<i64>().map_err(|_| io::Error::from(ErrorKind::InvalidData));
    match kind {
        "+" => Ok(Value::Text(rest.to_owned())),
        "-" => Ok(Value::Refused(rest.to_owned())),
        ":" => Ok(Value::Number(length()?)),
        "$" => match usize::try_from(length()?) {
            Err(_) => Ok(Value::Nil),
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                from.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
        },
        "*" => match usize::try_from(length()?) {
            Err(_) => Ok(Value::Nil),
            Ok(length) => (0..length).map(|_| read_value(from)).collect::<io::Result<_>>().map(Value::List),
        },
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}
