//! The second engine: the crate `may_minihttp` behind the same addresses, to compare with. A thin
//! adapter: sockets, request lines and response heads are that crate's, and so are its limits,
//! which docs/DEPENDENCIES.md lists. As everywhere, [`head`] reads a head's meaning, and
//! [`StatusReader`] decides the answer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use may_minihttp::{HttpService, HttpServiceFactory, Request, Response};
use parking_lot::Mutex;

use super::responses::{PublicReply, ResponseSet};
use super::{PublicCounters, StatusReader};
use crate::clock::Clock;
use crate::http::body::Length;
use crate::http::fault::{Fault, reason};
use crate::http::field::Section;
use crate::http::head::{self, Head, HeadLimits};
use crate::http::response::{ConnectionField, Framing, HeaderFields};
use crate::http::session::is_head_method;
use crate::limits::{DRAIN_GRACE_MS, Limits};
use crate::net::mailbox::Letter;
use crate::pages::DocumentForm;
use crate::readiness::Readiness;
use crate::vote::time::{Cooldown, UnixSeconds};

/// Stack of a connection's coroutine, in words. Pages that are not touched take no memory.
const STACK_WORDS: usize = 8 * 1_024;

/// The settings of the engine.
#[derive(Clone)]
pub struct EngineSettings {
    /// The limits. This engine keeps only those of heads and of skipped content.
    pub limits: Limits,
    /// The time.
    pub clock: Clock,
    /// While the service is going away, every answer is the last on its connection.
    pub readiness: Readiness,
}

/// Serves `addresses` on one event loop for each of `services`. It cannot be undone, see [`run`].
/// Call it once in a process: the crate's event loops are global.
///
/// # Errors
/// Where an address cannot be listened on.
pub fn start(addresses: Vec<SocketAddr>, services: Vec<PublicParts>, settings: &EngineSettings) -> io::Result<()> {
    may::config().set_workers(services.len()).set_stack_size(STACK_WORDS).set_worker_pin(false);
    let loop_states =
        services.into_iter().map(|service| Mutex::new(LoopState { service, head_bytes: Vec::new() })).collect();
    let loop_states: Arc<[Mutex<LoopState>]> = loop_states;
    for address in addresses {
        let clients = Clients { loop_states: Arc::clone(&loop_states), settings: settings.clone() };
        // Never waited for: the accepting coroutine ends with the process.
        let _accepting = clients.start(address)?;
    }
    Ok(())
}

/// Waits for the letter to drain, and then for the time of the drain. The engine cannot close
/// anything, so it still takes newcomers, but tells all clients that their connection ends.
///
/// # Errors
/// Never: the signature is that of any thread that serves.
pub fn run(letters: &Receiver<Letter>) -> io::Result<()> {
    while let Ok(letter) = letters.recv() {
        match letter {
            Letter::Drain { accept_ms, timeout_ms, .. } => {
                let drain_ms = accept_ms.unwrap_or(0).saturating_add(timeout_ms.min(DRAIN_GRACE_MS));
                thread::sleep(Duration::from_millis(drain_ms));
                break;
            }
            // The crate's loops cannot be asked.
            Letter::Turn(mark) => mark.set(),
            Letter::Wake(_) | Letter::Ring(_) | Letter::Relieve => {}
        }
    }
    Ok(())
}

/// Answers requests on one event loop of the second engine.
pub struct PublicParts {
    reader: StatusReader,
    answers: Arc<ResponseSet<Ahead>>,
    /// The body that was filled last.
    filled: Vec<u8>,
}

struct Ahead {
    status: u16,
    /// Without their line ends. That crate takes only `'static` lines.
    lines: Vec<&'static str>,
    body: Vec<u8>,
}

impl PublicParts {
    /// A service for each of these readers. All share the same answers.
    #[must_use]
    pub fn at(readers: impl Iterator<Item = StatusReader>, cooldown: Cooldown) -> Vec<Self> {
        let make = |status, fields: HeaderFields<'_>, body: &[u8]| {
            // Leaked, as lines must be `'static`: some hundred short ones, made once.
            let line = |(name, value): &(&str, &str)| &*format!("{name}: {value}").leak();
            Ahead { status, lines: fields.iter().map(line).collect(), body: body.to_owned() }
        };
        let answers = Arc::new(ResponseSet::new(cooldown, make));
        readers.map(|reader| Self { reader, answers: Arc::clone(&answers), filled: Vec::new() }).collect()
    }

    /// The counters of this service.
    #[must_use]
    pub fn counters(&self) -> PublicCounters {
        self.reader.counters()
    }

    /// Answers a request or its fault. The engine writes status line, `Date` and `Content-Length` in its own
    /// way.
    #[inline]
    fn answer(
        &mut self,
        request: Result<Head<'_>, Fault>,
        framing: Framing,
        now: UnixSeconds,
        response: &mut Response<'_>,
    ) {
        let reply = match request {
            Ok(head) => {
                let reply = match self.reader.reply(&head, now) {
                    // That crate gives every answer a length, and a 304 must not have a length of 0.
                    PublicReply::Page(page, form) => PublicReply::Page(page, DocumentForm { is_known: false, ..form }),
                    reply => reply,
                };
                self.reader.count(reply);
                reply
            }
            Err(fault) => {
                self.reader.counters.responses.refused(fault);
                PublicReply::Refused(fault)
            }
        };
        let (ahead, blanks) = self.answers.find(reply, now);
        let mut body = &ahead.body[..];
        if let Some(blanks) = blanks {
            self.filled.clear();
            self.filled.extend_from_slice(body);
            blanks.fill(&mut self.filled);
            body = &self.filled;
        }
        response.status_code(ahead.status.into(), reason(ahead.status));
        for line in &ahead.lines {
            response.header(line);
        }
        match framing.connection {
            ConnectionField::Persistent => {}
            ConnectionField::KeepAlive => drop(response.header("Connection: keep-alive")),
            ConnectionField::Close => drop(response.header("Connection: close")),
        }
        if !framing.head_only {
            response.body_mut().extend_from_slice(body);
        }
    }
}

/// The state by which one event loop answers. A connection keeps to its loop, so that the lock is
/// free; no thread holds it while it waits for a client.
struct LoopState {
    service: PublicParts,
    head_bytes: Vec<u8>,
}

/// Makes the service of each connection.
struct Clients {
    loop_states: Arc<[Mutex<LoopState>]>,
    settings: EngineSettings,
}

impl HttpServiceFactory for Clients {
    type Service = ServedConnection;

    fn new_service(&self, id: usize) -> ServedConnection {
        let loop_state = id % self.loop_states.len();
        ServedConnection {
            loop_states: Arc::clone(&self.loop_states),
            loop_state,
            settings: self.settings.clone(),
            is_over: false,
        }
    }
}

/// One connection.
struct ServedConnection {
    loop_states: Arc<[Mutex<LoopState>]>,
    loop_state: usize,
    settings: EngineSettings,
    /// The last answer said `Connection: close`. Only the client can close.
    is_over: bool,
}

impl HttpService for ServedConnection {
    fn call(&mut self, request: Request<'_, '_, '_>, response: &mut Response<'_>) -> io::Result<()> {
        let mut loop_state = self.loop_states[self.loop_state].lock();
        let LoopState { service, head_bytes } = &mut *loop_state;
        copy_head(&request, head_bytes);
        let has_content = self.read(head_bytes).is_ok_and(|head| head.length != Length::None);
        let connection = if has_content {
            let bytes = head_bytes.clone();
            drop(loop_state);
            // Content is legal, and has no meaning here: dropping its reader skips it. The answer is decided after.
            drop(request.body());
            self.answer(&bytes, &mut self.loop_states[self.loop_state].lock().service, response)
        } else {
            self.answer(head_bytes, service, response)
        };
        self.is_over = connection == ConnectionField::Close;
        Ok(())
    }
}

impl ServedConnection {
    /// Answers this head. Gives the `Connection` field of the answer.
    fn answer(&self, head_bytes: &[u8], service: &mut PublicParts, response: &mut Response<'_>) -> ConnectionField {
        let head = self.read(head_bytes);
        let framing = match &head {
            Ok(head) => Framing::of(head, self.settings.readiness.is_stopping()),
            Err(_) => Framing::last(is_head_method(head_bytes)),
        };
        let now = self.settings.clock.now().wall;
        service.answer(head, framing, now, response);
        framing.connection
    }

    /// The head, unless it is refused. The content of a refused request is not skipped: the engine takes
    /// it for a request, which is refused too.
    fn read<'b>(&self, bytes: &'b [u8]) -> Result<Head<'b>, Fault> {
        let Limits { head_bytes_max, header_lines_max, skip_body_bytes_max, .. } = self.settings.limits;
        let head = match head::parse(bytes, HeadLimits { head_bytes_max, header_lines_max }) {
            Section::Complete(head, _) => head,
            Section::Rejected(fault) => return Err(fault),
            Section::Partial => return Err(Fault::BadRequest),
        };
        match head.length {
            _ if self.is_over => Err(Fault::BadRequest),
            Length::Bytes(bytes) if bytes > skip_body_bytes_max => Err(Fault::ContentTooLarge),
            // That crate knows lengths only.
            Length::Chunked => Err(Fault::NotImplemented),
            Length::None | Length::Bytes(_) => Ok(head),
        }
    }
}

/// The head as it came, or nearly: that crate keeps the bytes to itself.
fn copy_head(request: &Request<'_, '_, '_>, bytes: &mut Vec<u8>) {
    let version = if request.version() == 0 { " HTTP/1.0\r\n" } else { " HTTP/1.1\r\n" };
    bytes.clear();
    for part in [request.method(), " ", request.path(), version] {
        bytes.extend_from_slice(part.as_bytes());
    }
    for header in request.headers() {
        for part in [header.name.as_bytes(), b": ", header.value, b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
}
