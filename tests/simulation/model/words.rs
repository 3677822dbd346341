//! Requests and answers, in words of the contract.

use super::world::{Seen, Token};
use std::net::IpAddr;
use std::sync::Arc;

/// The settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) cooldown_s: i64,
    pub(crate) prefix: u8,
}

/// How a vote names its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Id(u32),
    Token(Arc<str>),
}

/// A vote as the caller sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) server: Named,
    /// One to eight.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) voted_at: Option<i64>,
}

/// A server to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) server: u32,
    pub(crate) token: Option<Arc<str>>,
}

/// A request to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// `mode=record`: the later of two votes stays.
    Votes {
        asked: Vec<Asked>,
        is_record: bool,
    },
    Cancel(u32, IpAddr),
    CancelAll(IpAddr),
    /// A server that is listed already keeps its token, or gets the one of the request.
    List {
        servers: Vec<Listed>,
        keeps: bool,
    },
    Rotate(u32),
    Remove(u32),
}

impl Request {
    /// The number of its answers.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Request::Votes { asked, .. } => asked.len(),
            Request::List { servers, .. } => servers.len(),
            _ => 1,
        }
    }
}

/// The answer to a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Recorded {
        voted_at: i64,
        next_vote_at: i64,
    },
    Unchanged,
    InCooldown {
        next_vote_at: i64,
    },
    UnknownServer,
    Expired,
    InFuture,
    TooManyChanges,
    Cancelled,
    NoCooldown,
    CancelledAll(u32),
    Listed {
        token: Option<Token>,
        is_new: bool,
    },
    TokenDiffers,
    TokenInUse,
    Removed,
    /// 503: the change has not happened.
    Refused,
    /// 503, or no answer: the change may have happened or not.
    InDoubt,
}

impl Answer {
    /// Whether the request has changed something.
    pub(crate) fn is_commit(&self) -> bool {
        match self {
            Answer::Recorded { .. } | Answer::Cancelled | Answer::Removed => true,
            Answer::CancelledAll(count) => *count > 0,
            Answer::Listed { is_new, .. } => *is_new,
            _ => false,
        }
    }

    /// Whether this is the expected answer. Any token fits a generated one.
    pub(super) fn fits(&self, expected: &Answer) -> bool {
        match (self, expected) {
            (Answer::Listed { is_new, .. }, Answer::Listed { token: Some(Token::Generated), is_new: expected }) => {
                is_new == expected
            }
            _ => self == expected,
        }
    }
}

/// The risks that a start is told to accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepts {
    pub(crate) clock: bool,
    pub(crate) settings: bool,
}

/// A status question: a server by id, or by its token, and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    pub(crate) server: u32,
    pub(crate) token: Option<Arc<str>>,
    pub(crate) address: IpAddr,
}

/// The answer to a question, and the second of the service in which it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sight {
    pub(crate) now_s: i64,
    pub(crate) seen: Seen,
}

impl Request {
    /// The server that a part of the request lists.
    pub(crate) fn server(&self, part: usize) -> Option<u32> {
        match self {
            Request::List { servers, .. } => Some(servers[part].server),
            Request::Rotate(server) => Some(*server),
            _ => None,
        }
    }
}
