//! What TLS adds to a stream: the half of [`Stream`] that a plain one does without.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use rustix::net::SendFlags;
use rustls::ServerConfig;

use super::session::{Broken, Layer, TlsSession, is_tls};
use crate::net::counters::{EngineCounters, Handshake};
use crate::net::stream::{ClientSocket, Received, Stream, receive};

impl Stream {
    /// The bytes of a socket that was just accepted, under TLS.
    #[must_use]
    pub fn secured(socket: ClientSocket, config: Arc<ServerConfig>) -> Self {
        Self { layer: Layer::Awaited(config), ..Self::new(socket) }
    }

    /// Whether what is sent reaches the client: always, but for a handshake that is not done.
    pub(in crate::net) fn is_layer_established(&self) -> bool {
        match &self.layer {
            Layer::Plain => true,
            Layer::Awaited(_) => false,
            Layer::Open(session) => session.is_established(),
        }
    }

    /// Whether the layer has nothing under way.
    pub(in crate::net) fn is_layer_idle(&self) -> bool {
        match &self.layer {
            Layer::Plain | Layer::Awaited(_) => true,
            Layer::Open(session) => session.is_idle(),
        }
    }

    /// What the layer holds, in bytes.
    pub(in crate::net) fn layer_held_bytes(&self) -> usize {
        match &self.layer {
            Layer::Plain | Layer::Awaited(_) => 0,
            Layer::Open(session) => session.held_bytes(),
        }
    }

    /// Reads the wire once, at most `bytes_max`. One half of `buffer` takes that, the other what it says.
    pub(in crate::net) fn read_layer(
        &mut self,
        buffer: &mut [u8],
        bytes_max: usize,
        counters: &EngineCounters,
    ) -> io::Result<Received> {
        if let Layer::Open(session) = &self.layer
            && session.is_ended()
        {
            return Ok(Received::End);
        }
        let (plain, wire) = buffer.split_at_mut(buffer.len().div_ceil(2));
        let held = match &self.layer {
            Layer::Open(session) => session.held(),
            Layer::Plain | Layer::Awaited(_) => &[],
        };
        let held_bytes = held.len();
        let room_bytes = wire.len().min(held_bytes + bytes_max);
        let wire = &mut wire[..room_bytes];
        wire[..held_bytes].copy_from_slice(held);
        let read = receive(&self.socket, &mut wire[held_bytes..], counters)?;
        if read == 0 {
            return Ok(Received::End);
        }
        let may_be_more = held_bytes + read == wire.len();
        let wire = &mut wire[..held_bytes + read];
        if let Layer::Awaited(config) = &self.layer {
            if !is_tls(wire[0]) {
                // Nothing of TLS may be sent to it.
                self.layer = Layer::Plain;
                counters.handshakes[Handshake::NotTls as usize].add(1);
                plain[..read].copy_from_slice(wire);
                return Ok(Received::Foreign { bytes: read });
            }
            let Ok(session) = TlsSession::new(Arc::clone(config)) else { return Ok(Received::Broken) };
            self.layer = Layer::Open(Box::new(session));
            counters.handshakes[Handshake::Begun as usize].add(1);
        }
        let Layer::Open(session) = &mut self.layer else { return Err(ErrorKind::InvalidData.into()) };
        let was_established = session.is_established();
        let opened = session.open(wire, plain, &mut self.unsent);
        counters.handshakes[Handshake::Done as usize].add(u64::from(!was_established && session.is_established()));
        let is_ended = session.is_ended();
        // Where the client has spoken, it goes out with what is sent to it next.
        if !self.unsent.is_empty() && !matches!(opened, Ok(1..)) {
            self.flush_as(SendFlags::empty(), counters)?;
        }
        Ok(match opened {
            // Its end is told by the next read, and no event comes for that.
            Ok(bytes) => Received::Input { bytes, may_be_more: may_be_more || is_ended },
            Err(Broken) => Received::Broken,
        })
    }

    /// Seals and writes `out`. What cannot reach the client, as its handshake is not done, is dropped.
    pub(in crate::net) fn send_layer(
        &mut self,
        out: &mut Vec<u8>,
        is_last: bool,
        counters: &EngineCounters,
    ) -> io::Result<()> {
        let mut sealed = Ok(());
        if let Layer::Open(session) = &mut self.layer
            && session.is_established()
        {
            sealed = session.seal(out, &mut self.unsent);
            if is_last {
                session.close(&mut self.unsent);
            }
        }
        out.clear();
        sealed.map_err(|Broken| ErrorKind::BrokenPipe)?;
        if self.unsent.is_empty() {
            return Ok(());
        }
        self.flush_as(if is_last { SendFlags::MORE } else { SendFlags::empty() }, counters)
    }

    /// Tells the client that this is the end, where it can still be told.
    pub(in crate::net) fn part_layer(&mut self, counters: &EngineCounters) {
        if !self.unsent.is_empty() {
            return;
        }
        if let Layer::Open(session) = &mut self.layer {
            session.close(&mut self.unsent);
            // It is closed in any case.
            let _told = self.flush_as(SendFlags::empty(), counters);
        }
    }
}
