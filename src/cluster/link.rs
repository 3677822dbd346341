//! A connection to one machine of the store: questions out, replies in, each within its time. Knows
//! the protocol's library, not what is asked.

use std::fmt;
use std::time::Duration;

use redis::{Client, Cmd, Connection, ConnectionInfo, RedisError, Value, cmd};

use super::address::Host;
use super::entry::text;
use crate::store::StoreError;

/// A connection, and then each reply, is there within this, or the machine is taken to be gone.
pub const TIMEOUT: Duration = Duration::from_millis(1_000);
/// The same for a sentinel: there are others.
pub const SENTINEL_TIMEOUT: Duration = Duration::from_millis(500);

/// Why there is no reply to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The connection is of no use any more. What was asked may have been done.
    Lost(String),
    /// The machine answered that it will not. Nothing was done.
    Refused(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Lost(what) | Self::Refused(what)) = self;
        formatter.write_str(what)
    }
}

impl std::error::Error for LinkError {}

impl From<LinkError> for StoreError {
    fn from(error: LinkError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// An open connection.
pub struct Link {
    connection: Connection,
    host: Host,
}

impl Link {
    /// Connects and greets within `timeout`; replies may take as long.
    ///
    /// # Errors
    /// [`LinkError::Lost`], with what to look at.
    pub fn connect(info: ConnectionInfo, host: &Host, timeout: Duration) -> Result<Self, LinkError> {
        let open = || {
            let connection = Client::open(info)?.get_connection_with_timeout(timeout)?;
            connection.set_read_timeout(Some(timeout))?;
            connection.set_write_timeout(Some(timeout))?;
            Ok(connection)
        };
        match open() {
            Ok(connection) => Ok(Self { connection, host: host.clone() }),
            Err(error) => Err(LinkError::Lost(format!("the store at {host} cannot be reached: {}", say(&error)))),
        }
    }

    /// Where it leads.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Waits so long for each reply from now on.
    ///
    /// # Errors
    /// [`LinkError::Lost`]
    pub fn set_read_timeout(&mut self, timeout: Duration) -> Result<(), LinkError> {
        self.connection.set_read_timeout(Some(timeout)).map_err(|error| self.lost(&error))
    }

    /// Asks one thing.
    ///
    /// # Errors
    /// Either kind.
    pub fn ask(&mut self, command: &Cmd) -> Result<Value, LinkError> {
        self.connection.send_packed_command(&command.get_packed_command()).map_err(|error| self.lost(&error))?;
        self.reply()
    }

    /// Asks `count` things, written one behind the other in `packed`, in one go. Gives the replies
    /// that came before the connection was lost, if it was, each with its own refusal.
    pub fn ask_all(&mut self, packed: &[u8], count: usize) -> (Vec<Result<Value, LinkError>>, Option<LinkError>) {
        let mut replies = Vec::with_capacity(count);
        if packed.is_empty() {
            return (replies, None);
        }
        if let Err(error) = self.connection.send_packed_command(packed) {
            return (replies, Some(self.lost(&error)));
        }
        while replies.len() < count {
            match self.reply() {
                Err(LinkError::Lost(why)) => return (replies, Some(LinkError::Lost(why))),
                reply => replies.push(reply),
            }
        }
        (replies, None)
    }

    fn reply(&mut self) -> Result<Value, LinkError> {
        match self.connection.recv_response() {
            Ok(Value::ServerError(error)) => {
                let host = &self.host;
                let details = error.details().unwrap_or_default();
                Err(LinkError::Refused(format!("the store at {host} refuses: {} {details}", error.code())))
            }
            Ok(value) => Ok(value),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn lost(&self, error: &RedisError) -> LinkError {
        LinkError::Lost(format!("the store at {} does not answer: {}", self.host, say(error)))
    }

    /// A reply that makes no sense: what is there is no store of ours.
    #[must_use]
    pub fn strange(&self, what: &str) -> LinkError {
        LinkError::Lost(format!("the store at {} gives {what} that makes no sense; who else writes there?", self.host))
    }

    /// What this machine is.
    ///
    /// # Errors
    /// Either kind.
    pub fn role(&mut self) -> Result<Role, LinkError> {
        let reply = self.ask(&Role::question())?;
        let info = match &reply {
            Value::VerbatimString { text, .. } => Some(text.as_str()),
            other => text(other),
        };
        info.and_then(Role::read).ok_or_else(|| self.strange("a description of itself"))
    }
}

/// What a machine says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Whether it takes writes.
    pub is_primary: bool,
    /// Another one means another process.
    pub run_id: String,
    /// Another one means another past.
    pub replid: String,
    /// Whether its past goes on from one that it had under another primary.
    pub was_replica: bool,
    /// How it makes room when it is full, where that drops keys.
    pub eviction: Option<String>,
}

impl Role {
    /// What a machine is asked for it.
    #[must_use]
    pub fn question() -> Cmd {
        let mut command = cmd("INFO");
        command.arg("server").arg("replication").arg("memory");
        command
    }

    /// Reads the answer.
    #[must_use]
    pub fn read(info: &str) -> Option<Self> {
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        // All noughts where it is the only past that this machine has.
        let was_replica = field("master_replid2").is_some_and(|replid| replid.bytes().any(|digit| digit != b'0'));
        let is_bounded = field("maxmemory").is_some_and(|bytes| bytes != "0");
        let eviction = field("maxmemory_policy").filter(|policy| is_bounded && *policy != "noeviction");
        Some(Self {
            is_primary: field("role")? == "master",
            run_id: field("run_id")?.to_owned(),
            replid: field("master_replid")?.to_owned(),
            was_replica,
            eviction: eviction.map(str::to_owned),
        })
    }
}

/// An error of the library in a few words.
fn say(error: &RedisError) -> String {
    if error.is_timeout() {
        return "it takes too long".into();
    }
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.category()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Role;

    const INFO: &str = "# Server\r\nrun_id:5f\r\n# Replication\r\nrole:master\r\nmaster_replid:a1\r\n\
        master_replid2:0000\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n";

    #[test]
    fn descriptions() {
        let role = Role::read(INFO).expect("a description");
        let expected =
            Role { is_primary: true, run_id: "5f".into(), replid: "a1".into(), was_replica: false, eviction: None };
        assert_eq!(role, expected);
        let replica = INFO.replace("role:master", "role:slave").replace("0000", "0b00");
        let role = Role::read(&replica).expect("a description");
        assert_eq!((role.is_primary, role.was_replica), (false, true));
        let bounded = INFO.replace("maxmemory:0", "maxmemory:1000");
        assert_eq!(Role::read(&bounded).and_then(|role| role.eviction).as_deref(), Some("allkeys-lru"));
        let refusing = bounded.replace("allkeys-lru", "noeviction");
        assert_eq!(Role::read(&refusing).and_then(|role| role.eviction), None);
        assert_eq!(Role::read(&INFO.replace("run_id", "walk_id")), None);
    }
}
