//! A TCP proxy in this process, in place of a bad network. The proxy passes bytes, or holds them back, both ways or one (a
//! hole: the peers see silence). It can cut connections, let replies trickle, delay bytes, forget idle connections, and end
//! a connection in the middle of a reply. Knows bytes only.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// The pause between two looks for a new connection.
const POLL: Duration = Duration::from_millis(1);
/// The pause between two bytes that trickle: shorter than a reader's deadline for each read.
const TRICKLE: Duration = Duration::from_millis(900);

/// The way that bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    There,
    Back,
}

/// What happens to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They pass.
    Pass,
    /// They wait, as in a network that loses every packet for a while. The proxy accepts new connections,
    /// which receive nothing.
    Hole,
    /// The same in one way alone.
    HoleOneWay(Way),
    /// Replies come byte by byte.
    Trickle,
    /// Connections end now, and new ones at once.
    Cut,
    /// As `Cut`, and the proxy accepts no more connections.
    Over,
}

/// A running proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    addr: SocketAddr,
    line: Arc<Line>,
    accepting: Option<JoinHandle<()>>,
}

/// The state that all connections of a proxy share.
#[derive(Debug)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Where the next connections go, one each; the last one stays.
    to: VecDeque<SocketAddr>,
    mode: Mode,
    /// How long bytes take there and back.
    delays: [Duration; 2],
    /// The proxy forgets a connection that was idle for longer: it swallows what still comes on it.
    idle_max: Option<Duration>,
    /// The proxy passes half of the next reply, and ends the connection.
    cuts_reply: bool,
    /// Both ends of every connection that was not seen to end.
    open: Vec<TcpStream>,
}

impl Proxy {
    /// A proxy to `to` that passes bytes.
    pub(crate) fn to(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        // A thread that blocks in `accept` could not be ended.
        listener.set_nonblocking(true).expect("a socket option");
        let addr = listener.local_addr().expect("its address");
        let state = Mutex::new(State {
            to: [to].into(),
            mode: Mode::Pass,
            delays: [Duration::ZERO; 2],
            idle_max: None,
            cuts_reply: false,
            open: Vec::new(),
        });
        let line = Arc::new(Line { state, changed: Condvar::new() });
        let accepting = spawn({
            let line = Arc::clone(&line);
            move || line.accept(&listener)
        });
        Proxy { addr, line, accepting: Some(accepting) }
    }

    /// Where the proxy listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// New connections go to another address from now on.
    pub(crate) fn aim(&self, to: SocketAddr) {
        self.aim_in_turn(&[to]);
    }

    /// The next connections go to these, one to each, and all that follow to the last one.
    pub(crate) fn aim_in_turn(&self, to: &[SocketAddr]) {
        self.line.lock().to = to.iter().copied().collect();
    }

    /// Sets how long bytes take there and back from now on.
    pub(crate) fn set_delays(&self, there: Duration, back: Duration) {
        self.line.lock().delays = [there, back];
    }

    /// The next reply ends in its middle, and its connection with it.
    pub(crate) fn cut_reply(&self) {
        self.line.lock().cuts_reply = true;
    }

    /// The proxy forgets connections that are idle for longer from now on.
    pub(crate) fn set_idle_max(&self, idle_max: Duration) {
        self.line.lock().idle_max = Some(idle_max);
    }

    /// Sets the mode from now on.
    pub(crate) fn set(&self, mode: Mode) {
        let mut state = self.line.lock();
        state.mode = mode;
        if matches!(mode, Mode::Cut | Mode::Over) {
            for stream in state.open.drain(..) {
                // An end that is gone already is no failure.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        drop(state);
        self.line.changed.notify_all();
    }
}

/// The idle time of one connection.
#[derive(Debug)]
struct Track {
    passed_at: Instant,
    is_forgotten: bool,
}

impl State {
    fn next(&mut self) -> SocketAddr {
        let next = self.to[0];
        if self.to.len() > 1 {
            self.to.pop_front();
        }
        next
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Mode::Over);
        let joined = self.accepting.take().map(JoinHandle::join);
        assert!(joined.is_none_or(|joined| joined.is_ok()) || std::thread::panicking(), "the proxy failed");
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn accept(self: &Arc<Line>, listener: &TcpListener) {
        loop {
            let mode = self.lock().mode;
            match (mode, listener.accept()) {
                (Mode::Over, _) => return,
                (Mode::Cut, Ok(_)) => {}
                (_, Ok((client, _))) => {
                    let line = Arc::clone(self);
                    spawn(move || line.join(client));
                }
                (_, Err(_)) => sleep(POLL),
            }
        }
    }

    /// Joins a client to the other side once bytes may pass.
    fn join(self: &Arc<Line>, client: TcpStream) {
        if !self.wait_for_pass(None) {
            return;
        }
        let to = self.lock().next();
        let Ok(server) = TcpStream::connect(to) else { return };
        let ends = [&client, &server].map(|stream| {
            stream.set_nodelay(true).expect("a socket option");
            stream.try_clone().expect("a descriptor")
        });
        {
            let mut state = self.lock();
            if matches!(state.mode, Mode::Cut | Mode::Over) {
                return;
            }
            state.open.extend(ends);
        }
        let halves = (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
        let track = Arc::new(Mutex::new(Track { passed_at: Instant::now(), is_forgotten: false }));
        let (line, track_back) = (Arc::clone(self), Arc::clone(&track));
        spawn(move || line.pump(&server, &client, Way::Back, &track_back));
        self.pump(&halves.0, &halves.1, Way::There, &track);
    }

    /// Carries bytes one way until that way ends; the end passes as the bytes do.
    fn pump(&self, mut from: &TcpStream, to: &TcpStream, way: Way, track: &Mutex<Track>) {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut bytes).unwrap_or(0);
            let delay = self.lock().delays[way as usize];
            sleep(delay);
            if !self.wait_for_pass(Some(way)) || count == 0 {
                break;
            }
            if self.is_forgotten(track) {
                continue;
            }
            if way == Way::Back && count > 1 && std::mem::take(&mut self.lock().cuts_reply) {
                let _ = self.write(to, &bytes[..count / 2], way);
                break;
            }
            if self.write(to, &bytes[..count], way).is_err() {
                break;
            }
        }
        // The other side may be gone already.
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }

    /// Whether the connection was idle for too long, now or before.
    fn is_forgotten(&self, track: &Mutex<Track>) -> bool {
        let idle_max = self.lock().idle_max;
        let mut track = track.lock().expect("nobody panics with it");
        track.is_forgotten |= idle_max.is_some_and(|idle_max| track.passed_at.elapsed() > idle_max);
        track.passed_at = Instant::now();
        track.is_forgotten
    }

    fn write(&self, mut to: &TcpStream, bytes: &[u8], way: Way) -> io::Result<()> {
        let mut rest = bytes;
        while way == Way::Back && rest.len() > 1 && self.lock().mode == Mode::Trickle {
            to.write_all(&rest[..1])?;
            rest = &rest[1..];
            let waited = self.changed.wait_timeout_while(self.lock(), TRICKLE, |state| state.mode == Mode::Trickle);
            drop(waited.expect("nobody panics with it"));
        }
        to.write_all(rest)
    }

    /// Waits out a hole of this way or of both. Gives whether bytes may pass.
    fn wait_for_pass(&self, way: Option<Way>) -> bool {
        let is_hole = |mode| mode == Mode::Hole || way.is_some_and(|way| mode == Mode::HoleOneWay(way));
        let state = self.changed.wait_while(self.lock(), |state| is_hole(state.mode));
        !matches!(state.expect("nobody panics with it").mode, Mode::Cut | Mode::Over)
    }
}
