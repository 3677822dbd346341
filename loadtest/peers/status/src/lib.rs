//! The state and the answer that both Rust peers share: a concurrent map of cooldowns, a set of
//! servers, and the body as a struct for serde. It knows nothing of any web framework.

use std::net::Ipv4Addr;

use chrono::{DateTime, SecondsFormat, Utc};
use dashmap::{DashMap, DashSet};
use serde::Serialize;

const COOLDOWN_MINUTES: i64 = 90;
/// The server and the address in cooldown that the run asks for before it measures.
const CHECKED_SERVER: u32 = 28;
const CHECKED_IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
/// The run spreads its cooldowns over these servers: see `loadtest/wrk/spread.lua`.
const FIRST_SERVER: u32 = 1000;
const SERVERS: u32 = 1000;

/// The body of an answer.
#[derive(Serialize)]
pub struct Status {
    success: bool,
    can_vote: bool,
    message: String,
    next_vote_at: Option<String>,
    cooldown_minutes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

impl Status {
    fn can_vote(message: &str, error: Option<&'static str>) -> Self {
        Self {
            success: true,
            can_vote: true,
            message: message.to_owned(),
            next_vote_at: None,
            cooldown_minutes: COOLDOWN_MINUTES,
            error,
        }
    }

    /// The answer to an address that is none.
    pub fn invalid_ip() -> Self {
        Self::can_vote("Adresse IP invalide", Some("invalid_ip"))
    }

    /// The answer for a server that is not registered.
    pub fn unknown_server() -> Self {
        Self::can_vote("Serveur inconnu", Some("unknown_server"))
    }

    fn in_cooldown(remaining_seconds: i64, next_vote_at: i64) -> Self {
        let minutes = (remaining_seconds + 59) / 60;
        let instant = DateTime::<Utc>::from_timestamp(next_vote_at, 0).unwrap_or_default();
        Self {
            success: false,
            can_vote: false,
            message: format!("Vous pourrez voter à nouveau dans {minutes} minutes"),
            next_vote_at: Some(instant.to_rfc3339_opts(SecondsFormat::Secs, true)),
            cooldown_minutes: COOLDOWN_MINUTES,
            error: None,
        }
    }
}

/// Servers and cooldowns; an expiry is in Unix seconds.
#[derive(Default)]
pub struct Votes {
    servers: DashSet<u32>,
    expiries: DashMap<(u32, Ipv4Addr), i64>,
}

impl Votes {
    /// The state of a run: the checked pair, and `cooldowns` more spread over a thousand servers. A
    /// thread of its own fills it, so that the answering thread's CPU time is all about answers.
    pub fn filled(cooldowns: u32) -> Self {
        let filling = std::thread::spawn(move || Self::fill(cooldowns));
        filling.join().expect("filling does not panic")
    }

    fn fill(cooldowns: u32) -> Self {
        let votes = Self::default();
        let expiry = Utc::now().timestamp() + COOLDOWN_MINUTES * 60;
        votes.servers.insert(CHECKED_SERVER);
        votes.expiries.insert((CHECKED_SERVER, CHECKED_IP), expiry);
        for index in 0..SERVERS {
            votes.servers.insert(FIRST_SERVER + index);
        }
        for index in 0..cooldowns {
            let server = FIRST_SERVER + index % SERVERS;
            let nth = index / SERVERS;
            let ip = Ipv4Addr::new(110, 120, 100 + (nth / 100) as u8, 100 + (nth % 100) as u8);
            votes.expiries.insert((server, ip), expiry);
        }
        votes
    }

    /// The answer for one server and address, or `None` where no such server is registered.
    pub fn status(&self, server: u32, ip: Ipv4Addr) -> Option<Status> {
        if !self.servers.contains(&server) {
            return None;
        }
        let expiry = self.expiries.get(&(server, ip)).map(|entry| *entry);
        let now = Utc::now().timestamp();
        Some(match expiry {
            Some(expiry) if expiry > now => Status::in_cooldown(expiry - now, expiry),
            _ => Status::can_vote("Vous pouvez voter maintenant", None),
        })
    }
}

/// The port and the number of cooldowns from the command line: `PEER PORT COOLDOWNS`.
pub fn arguments() -> Result<(u16, u32), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [port, cooldowns] => match (port.parse(), cooldowns.parse()) {
            (Ok(port), Ok(cooldowns)) if cooldowns <= 10_000_000 => Ok((port, cooldowns)),
            _ => Err("PORT is 0 to 65535, COOLDOWNS at most 10000000".to_owned()),
        },
        _ => Err("usage: PEER PORT COOLDOWNS".to_owned()),
    }
}
