//! The second engine: the crate `may_minihttp` behind the same addresses, to compare with. A thin
//! adapter: sockets, request lines and response heads are that crate's, and so are its limits,
//! which docs/DEPENDENCIES.md lists; what a head means is read by [`head`], like everywhere. It must not
//! know what the requests are about.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use may_minihttp::{HttpService, HttpServiceFactory, Request, Response};
use parking_lot::Mutex;

use super::mailbox::Letter;
use crate::clock::Clock;
use crate::http::body::Length;
use crate::http::fault::{Fault, reason};
use crate::http::field::Section;
use crate::http::head::{self, Head, HeadLimits};
use crate::http::response::{ConnectionField, Framing};
use crate::http::session::is_head_method;
use crate::limits::Limits;
use crate::readiness::Readiness;
use crate::vote::time::UnixSeconds;

/// Stack of a connection's coroutine, in words. Pages that are not touched take no memory.
const STACK_WORDS: usize = 8 * 1_024;

/// After newcomers are no longer wanted, what is under way is given this long, in milliseconds.
const DRAIN_GRACE_MS: u64 = 500;

/// What this engine serves: a request's head in, the parts of the answer out. The engine writes
/// status line, `Date` and `Content-Length` in its own way.
pub trait PartsService: Send + 'static {
    /// Answers a request, or what is wrong with it.
    fn answer(&mut self, request: Result<&Head<'_>, Fault>, now: UnixSeconds) -> ResponseParts<'_>;
}

/// A response, but for what the engine writes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseParts<'a> {
    /// The status code.
    pub status: u16,
    /// Field lines without their line ends; that crate takes only what lives for ever.
    pub lines: &'a [&'static str],
    /// The body.
    pub body: &'a [u8],
}

/// What the engine is set up with.
#[derive(Clone)]
pub struct EngineSettings {
    /// Those that can be held here: the sizes of heads and of skipped content.
    pub limits: Limits,
    /// The time.
    pub clock: Clock,
    /// While the service is going away, every answer is the last on its connection.
    pub readiness: Readiness,
}

/// Serves `addresses` on one event loop for each of `services`. There is no way to take it back;
/// see [`run`]. To be called once in a process: the crate's event loops are global.
///
/// # Errors
/// Where an address cannot be listened on.
pub fn start<S: PartsService>(
    addresses: Vec<SocketAddr>,
    services: Vec<S>,
    settings: &EngineSettings,
) -> io::Result<()> {
    may::config().set_workers(services.len()).set_stack_size(STACK_WORDS).set_worker_pin(false);
    let loop_states =
        services.into_iter().map(|service| Mutex::new(LoopState { service, head_bytes: Vec::new() })).collect();
    let loop_states: Arc<[Mutex<LoopState<S>>]> = loop_states;
    for address in addresses {
        let clients = Clients { loop_states: Arc::clone(&loop_states), settings: settings.clone() };
        // Its end is never waited for: the accepting coroutine ends with the process.
        let _accepting = clients.start(address)?;
    }
    Ok(())
}

/// Waits for the letter to drain, and then until that is as done as it can be: newcomers are still
/// taken, since nothing can be told to close, but all are told that their connection ends.
///
/// # Errors
/// None; an engine may have some.
pub fn run(letters: &Receiver<Letter>) -> io::Result<()> {
    while let Ok(letter) = letters.recv() {
        if let Letter::Drain { accept_ms, timeout_ms } = letter {
            thread::sleep(Duration::from_millis(accept_ms.saturating_add(timeout_ms.min(DRAIN_GRACE_MS))));
            break;
        }
    }
    Ok(())
}

/// What one event loop answers with. A connection keeps to its loop, so that the lock is free;
/// it is never held while a client is waited for.
struct LoopState<S> {
    service: S,
    head_bytes: Vec<u8>,
}

/// Makes what serves a connection.
struct Clients<S> {
    loop_states: Arc<[Mutex<LoopState<S>>]>,
    settings: EngineSettings,
}

impl<S: PartsService> HttpServiceFactory for Clients<S> {
    type Service = Client<S>;

    fn new_service(&self, id: usize) -> Client<S> {
        let loop_state = id % self.loop_states.len();
        Client {
            loop_states: Arc::clone(&self.loop_states),
            loop_state,
            settings: self.settings.clone(),
            is_over: false,
        }
    }
}

/// One connection.
struct Client<S> {
    loop_states: Arc<[Mutex<LoopState<S>>]>,
    loop_state: usize,
    settings: EngineSettings,
    /// The last answer said `Connection: close`. It is the client that has to.
    is_over: bool,
}

impl<S: PartsService> HttpService for Client<S> {
    fn call(&mut self, request: Request<'_, '_, '_>, response: &mut Response<'_>) -> io::Result<()> {
        let mut loop_state = self.loop_states[self.loop_state].lock();
        let LoopState { service, head_bytes } = &mut *loop_state;
        copy_head(&request, head_bytes);
        let has_content = self.read(head_bytes).is_ok_and(|head| head.length != Length::None);
        let connection = if has_content {
            let bytes = head_bytes.clone();
            drop(loop_state);
            // Legal, and of no meaning here: dropping its reader skips it. What is asked is decided after.
            drop(request.body());
            self.answer(&bytes, &mut self.loop_states[self.loop_state].lock().service, response)
        } else {
            self.answer(head_bytes, service, response)
        };
        self.is_over = connection == ConnectionField::Close;
        Ok(())
    }
}

impl<S: PartsService> Client<S> {
    /// Answers this head; what becomes of the connection.
    fn answer(&self, head_bytes: &[u8], service: &mut S, response: &mut Response<'_>) -> ConnectionField {
        let head = self.read(head_bytes);
        let framing = match &head {
            Ok(head) => Framing::of(head, self.settings.readiness.is_stopping()),
            Err(_) => Framing::last(is_head_method(head_bytes)),
        };
        let now = self.settings.clock.now().wall;
        write(service.answer(head.as_ref().map_err(|fault| *fault), now), framing, response);
        framing.connection
    }

    /// The head, unless it is refused. Content of a refused one is not skipped; what is taken for
    /// a request in its place is refused too.
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

fn write(parts: ResponseParts<'_>, framing: Framing, response: &mut Response<'_>) {
    response.status_code(parts.status.into(), reason(parts.status));
    for line in parts.lines {
        response.header(line);
    }
    match framing.connection {
        ConnectionField::Persistent => {}
        ConnectionField::KeepAlive => drop(response.header("Connection: keep-alive")),
        ConnectionField::Close => drop(response.header("Connection: close")),
    }
    if !framing.head_only {
        response.body_mut().extend_from_slice(parts.body);
    }
}
