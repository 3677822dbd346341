//! A connection to one machine of the store: it sends questions and reads replies, each within its time-out. It knows how
//! machines refuse, and does not know the questions.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

use super::access::StoreAccess;
use super::address::Host;
use super::entry::text;
use super::keys;
use super::reason::Reason;
use super::resp::{self, ReadError, Value};
use super::socket::{SocketCloser, StoreSocket, fault};

/// The longest wait for a connection or a reply: a slower machine counts as gone.
pub const TIMEOUT: Duration = Duration::from_millis(1_000);
/// The same wait for a sentinel. It is shorter, as there are others to ask.
pub const SENTINEL_TIMEOUT: Duration = Duration::from_millis(500);
/// The size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Why there is no usable reply: the kind, and a message of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The connection is of no use any more. The store may have done what it was asked.
    Lost(Reason, String),
    /// The machine refused.
    Refused(Reason, String),
}

impl LinkError {
    /// The kind of the error.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        let (Self::Lost(reason, _) | Self::Refused(reason, _)) = self;
        *reason
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Lost(_, what) | Self::Refused(_, what)) = self;
        formatter.write_str(what)
    }
}

/// An open connection.
pub struct StoreLink {
    /// Buffered, for replies on their way.
    socket: BufReader<StoreSocket>,
    host: Host,
}

impl StoreLink {
    /// Connects and logs in. The connection and each reply may take up to `timeout`.
    ///
    /// # Errors
    /// [`LinkError::Lost`], with the cause.
    pub fn connect(access: &StoreAccess, host: &Host, timeout: Duration) -> Result<Self, LinkError> {
        let password = access.password.read().map_err(|why| LinkError::Lost(Reason::Authentication, why))?;
        let socket = StoreSocket::connect(host, &access.security, timeout).map_err(|(reason, why)| {
            LinkError::Lost(reason, format!("the store at {host} cannot be reached: {why}"))
        })?;
        let socket = BufReader::with_capacity(BUFFER_BYTES, socket);
        let mut link = Self { socket, host: host.clone() };
        if let Some(password) = password {
            let words = ["AUTH"].into_iter().chain(access.user.as_deref()).chain([password.as_str()]);
            link.greet(&words.collect::<Vec<_>>())?;
        }
        if access.database != 0 {
            link.greet(&["SELECT", &access.database.to_string()])?;
        }
        Ok(link)
    }

    /// Sends a command of the login. A refusal counts as a lost connection: the machine is of no use.
    fn greet(&mut self, words: &[&str]) -> Result<(), LinkError> {
        match self.ask(words) {
            Ok(_) => Ok(()),
            Err(LinkError::Lost(reason, why) | LinkError::Refused(reason, why)) => Err(LinkError::Lost(reason, why)),
        }
    }

    /// The handle that closes the connection from another thread.
    ///
    /// # Errors
    /// [`LinkError::Lost`]
    pub fn closer(&self) -> Result<SocketCloser, LinkError> {
        self.socket.get_ref().closer().map_err(|error| self.lost(&error))
    }

    /// The machine at the other end.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The unread bytes, for a caller that parses a reply itself and reads it to its end.
    pub(super) fn unread(&mut self) -> &mut impl BufRead {
        &mut self.socket
    }

    /// Sets the longest wait for each reply.
    ///
    /// # Errors
    /// [`LinkError::Lost`]
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), LinkError> {
        self.socket.get_ref().set_timeout(timeout).map_err(|error| self.lost(&error))
    }

    /// Sends one command, and reads its reply.
    ///
    /// # Errors
    /// If the connection is lost, or the machine refuses.
    pub fn ask(&mut self, words: &[impl AsRef<str>]) -> Result<Value, LinkError> {
        let mut packed = Vec::new();
        resp::pack(words, &mut packed);
        self.send(&packed)?;
        self.reply().map_err(|error| match error {
            LinkError::Refused(reason, why) => LinkError::Refused(reason, with_key(why, words)),
            lost => lost,
        })
    }

    /// Sends these commands in one go. Gives the replies, each with its own refusal, and the error if the connection was lost
    /// before the last reply.
    pub fn ask_all(
        &mut self,
        questions: impl IntoIterator<Item = Vec<String>>,
    ) -> (Vec<Result<Value, LinkError>>, Option<LinkError>) {
        let (mut packed, mut count, mut replies) = (Vec::new(), 0, Vec::new());
        for question in questions {
            resp::pack(&question, &mut packed);
            count += 1;
        }
        if let Err(error) = self.send(&packed) {
            return (replies, Some(error));
        }
        while replies.len() < count {
            match self.reply() {
                Err(error @ LinkError::Lost(..)) => return (replies, Some(error)),
                reply => replies.push(reply),
            }
        }
        (replies, None)
    }

    /// Sends packed commands, one behind the other.
    ///
    /// # Errors
    /// [`LinkError::Lost`]
    pub fn send(&mut self, packed: &[u8]) -> Result<(), LinkError> {
        let socket = self.socket.get_mut();
        let sent = socket.write_all(packed).and_then(|()| socket.flush());
        sent.map_err(|error| self.lost(&error))
    }

    fn reply(&mut self) -> Result<Value, LinkError> {
        match self.read_value()? {
            Value::Error(why) => Err(self.refused(&why)),
            value => Ok(value),
        }
    }

    /// Reads the next reply; a refusal is one too.
    ///
    /// # Errors
    /// [`LinkError::Lost`]
    pub fn read_value(&mut self) -> Result<Value, LinkError> {
        resp::read(&mut self.socket).map_err(|error| match error {
            ReadError::Io(error) => self.lost(&error),
            ReadError::Form => self.strange("an answer"),
        })
    }

    /// The error for a refusal in these words.
    pub(super) fn refused(&self, why: &str) -> LinkError {
        LinkError::Refused(refusal(why), format!("the store at {} refuses: {why}", self.host))
    }

    /// The error for a connection that failed.
    pub(super) fn lost(&self, error: &io::Error) -> LinkError {
        let (reason, why) = fault(error);
        LinkError::Lost(reason, format!("the store at {} does not answer: {why}", self.host))
    }

    /// The error for a reply that makes no sense: the machine is no store of ours.
    #[must_use]
    pub fn strange(&self, what: &str) -> LinkError {
        let why =
            format!("the store at {} gives {what} that makes no sense; does another program write there?", self.host);
        LinkError::Lost(Reason::Garbled, why)
    }

    /// The machine's report of itself.
    ///
    /// # Errors
    /// If the connection is lost, or the machine refuses.
    pub fn role(&mut self) -> Result<StoreRole, LinkError> {
        let reply = self.ask(&["INFO", "server", "replication", "memory", "stats", "cluster"])?;
        let Some(info) = text(&reply) else { return Err(self.strange("a description of itself")) };
        StoreRole::read(info).map_err(|field| {
            let why =
                format!("the store at {} does not say its {field} (INFO): that is needed to follow it", self.host);
            LinkError::Lost(Reason::Unfit, why)
        })
    }
}

/// A refusal with the key among these words: a store that finds a key of a wrong type does not name the key.
pub(super) fn with_key(why: String, words: &[impl AsRef<str>]) -> String {
    let key = words.iter().map(AsRef::as_ref).find(|word| word.starts_with(keys::PREFIX));
    match key {
        Some(key) if why.contains("WRONGTYPE") => format!("{why}: {key}"),
        _ => why,
    }
}

/// The kind of a refusal, by its code or, where no code fits, by its words.
#[must_use]
pub fn refusal(why: &str) -> Reason {
    /// Beginnings of refusals of Redis and Valkey; the first one that fits counts.
    const CODES: [(&str, Reason); 29] = [
        ("WRONGPASS", Reason::Authentication),
        ("NOAUTH", Reason::Authentication),
        ("ERR AUTH", Reason::Authentication),
        ("ERR Client sent AUTH", Reason::Authentication),
        ("NOPERM", Reason::Rights),
        ("READONLY", Reason::ReadOnly),
        ("LOADING", Reason::Loading),
        ("NOREPLICAS", Reason::NoReplicas),
        ("OOM", Reason::Memory),
        ("MISCONF", Reason::Disk),
        ("MASTERDOWN", Reason::Role),
        ("UNBLOCKED", Reason::Role),
        ("MOVED", Reason::Slot),
        ("ASK", Reason::Slot),
        ("TRYAGAIN", Reason::Slot),
        ("CLUSTERDOWN", Reason::Slot),
        ("CROSSSLOT", Reason::Slot),
        ("BUSY", Reason::TimeOut),
        ("UNSETTLED", Reason::Unsettled),
        ("PAUSED", Reason::Unsettled),
        ("UNREACHABLE", Reason::Unreachable),
        ("FUNCTIONS", Reason::Functions),
        ("GARBLED", Reason::Garbled),
        ("VSSTORE", Reason::WrongStore),
        ("VSLATE", Reason::TimeOut),
        ("VSRIGHTS", Reason::Rights),
        ("VSLOST", Reason::Unsettled),
        ("VSKEY", Reason::Garbled),
        ("WRONGTYPE", Reason::Garbled),
    ];
    /// Words at any place of a refusal.
    const WORDS: [(&str, Reason); 6] = [
        ("Function not found", Reason::Functions),
        ("can't run this command", Reason::Rights),
        ("can't access at least one of the keys", Reason::Rights),
        ("unknown command", Reason::Rights),
        ("ACL failure in script", Reason::Rights),
        ("command called from script", Reason::Rights),
    ];
    let code = CODES.iter().find(|(code, _)| why.starts_with(code));
    let word = || WORDS.iter().find(|(word, _)| why.contains(word));
    code.or_else(word).map_or(Reason::Refused, |(_, reason)| *reason)
}

/// A machine's report of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreRole {
    /// Whether the machine is a primary.
    pub is_primary: bool,
    /// The id of its process: a restart changes it.
    pub run_id: String,
    /// Its eviction policy, if that drops keys. A memory limit may be set at any moment.
    pub policy: Option<String>,
    /// The number of keys that it has evicted since its start.
    pub evicted: u64,
    /// Whether it is in cluster mode, and shares the keys with other machines.
    pub is_clustered: bool,
}

impl StoreRole {
    /// Reads a machine's report.
    ///
    /// # Errors
    /// The name of a missing field.
    pub fn read(info: &str) -> Result<Self, &'static str> {
        let field = |name: &'static str| info_field(info, name);
        Ok(Self {
            is_primary: field("role").ok_or("role")? == "master",
            run_id: field("run_id").ok_or("run_id")?.to_owned(),
            policy: field("maxmemory_policy").filter(|policy| *policy != "noeviction").map(str::to_owned),
            evicted: field("evicted_keys").and_then(|count| count.parse().ok()).unwrap_or_default(),
            is_clustered: field("cluster_enabled") == Some("1"),
        })
    }
}

/// A field of a machine's report.
#[must_use]
pub fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::{StoreRole, refusal};
    use crate::cluster::reason::Reason;

    const INFO: &str = "# Server\r\nrun_id:5f\r\n# Replication\r\nrole:master\r\n# Memory\r\nmaxmemory_policy:allkeys-lru\r\n\
        # Stats\r\nevicted_keys:4\r\n# Cluster\r\ncluster_enabled:1\r\n";

    #[test]
    fn descriptions() {
        let role = StoreRole::read(INFO).expect("a description");
        assert_eq!((role.is_primary, role.is_clustered), (true, true));
        assert_eq!((role.run_id.as_str(), role.evicted), ("5f", 4));
        assert_eq!(role.policy.as_deref(), Some("allkeys-lru"));
        let replica = INFO.replace("role:master", "role:slave");
        assert!(!StoreRole::read(&replica).expect("a description").is_primary);
        let refusing = INFO.replace("allkeys-lru", "noeviction");
        assert_eq!(StoreRole::read(&refusing).expect("a description").policy, None);
        for field in ["role", "run_id"] {
            assert_eq!(StoreRole::read(&INFO.replace(&format!("{field}:"), "other:")), Err(field));
        }
    }

    #[test]
    fn refusals_have_kinds() {
        for (why, expected) in [
            ("WRONGPASS invalid username-password pair or user is disabled.", Reason::Authentication),
            ("NOAUTH Authentication required.", Reason::Authentication),
            (
                "ERR AUTH <password> called without any password configured for the default user.",
                Reason::Authentication,
            ),
            ("NOPERM this user has no permissions to run the 'zadd' command", Reason::Rights),
            (
                "ERR The user executing the script can't run this command or subcommand script: vote_status_vote",
                Reason::Rights,
            ),
            ("ERR unknown command 'FUNCTION', with args beginning with: 'LIST'", Reason::Rights),
            (
                "ERR ACL failure in script: User default has no permissions to run the 'zscore' command script: on",
                Reason::Rights,
            ),
            ("ERR Unknown Redis command called from script script: vote_status_vote", Reason::Rights),
            ("ERR Function not found", Reason::Functions),
            ("MOVED 13907 127.0.0.1:7001", Reason::Slot),
            ("ERR something else", Reason::Refused),
        ] {
            assert_eq!(refusal(why), expected, "{why}");
        }
    }
}
