//! One client's TLS, without its socket: bytes of the wire in, bytes of the client out, and back.
//! Between two records it holds no buffer.

use std::mem;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    AppDataRecord, ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};

use crate::limits::{TLS_HANDSHAKE_BYTES, TLS_HELD_BYTES_MAX, TLS_SESSION_BYTES};

/// The first byte of every TLS connection: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 22;

/// A record carries at most this much.
const RECORD_BYTES_MAX: usize = 16 * 1024;
/// And takes at most so much more on the wire: its head, a nonce, and what seals it.
const RECORD_OVERHEAD_BYTES_MAX: usize = 64;

/// The session cannot go on; what tells the peer why has been appended already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// What stands between a socket and the bytes of its client.
pub enum Layer {
    /// Nothing.
    Plain,
    /// TLS, once the client speaks. Until then it costs no session.
    Awaited(Arc<ServerConfig>),
    /// TLS.
    Open(Box<TlsSession>),
}

/// One client's TLS.
pub struct TlsSession {
    connection: UnbufferedServerConnection,
    /// Came over the wire, and is no whole record or message yet; at most [`TLS_HELD_BYTES_MAX`].
    held: Vec<u8>,
    /// The peer has said that it will send nothing more.
    is_ended: bool,
    /// Nothing more may be sealed.
    is_closed: bool,
}

/// Whether what begins with `first` can be TLS.
#[must_use]
pub const fn is_tls(first: u8) -> bool {
    first == HANDSHAKE_RECORD
}

impl TlsSession {
    /// The session of a client that has begun to speak.
    ///
    /// # Errors
    /// Where `config` does not allow any.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, Broken> {
        let connection = UnbufferedServerConnection::new(config).map_err(|_refused| Broken)?;
        Ok(Self { connection, held: Vec::new(), is_ended: false, is_closed: false })
    }

    /// What the next bytes of the wire are to be put behind.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// All that it holds, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let session_bytes = if self.is_established() { TLS_SESSION_BYTES } else { TLS_HANDSHAKE_BYTES };
        session_bytes + self.held.capacity()
    }

    /// Whether the handshake is done: what is sent reaches the client.
    #[must_use]
    pub fn is_established(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Whether the client has said that it will send nothing more.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether nothing is under way: neither a handshake nor a record.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.is_established() && self.held.is_empty()
    }

    /// Works through `wire`, which begins with what was held. Gives how much of `plain`, which is
    /// no shorter than `wire`, the client's bytes take; what TLS itself has to say is appended to
    /// `reply`.
    ///
    /// # Errors
    /// Where the client does not speak TLS as it should, or nothing that is spoken here.
    pub fn open(&mut self, mut wire: &mut [u8], plain: &mut [u8], reply: &mut Vec<u8>) -> Result<usize, Broken> {
        let opened = self.open_records(&mut wire, plain, reply);
        match opened.and_then(|bytes| self.hold(wire).map(|()| bytes)) {
            Ok(bytes) => Ok(bytes),
            Err(Broken) => {
                // With an alert that says why.
                append_last_words(&mut self.connection, wire, reply);
                self.held = Vec::new();
                self.is_closed = true;
                Err(Broken)
            }
        }
    }

    /// As [`Self::open`]; leaves of `wire` what is not whole.
    fn open_records(&mut self, wire: &mut &mut [u8], plain: &mut [u8], reply: &mut Vec<u8>) -> Result<usize, Broken> {
        let mut opened = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(wire);
            let mut is_over = false;
            let mut is_broken = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(AppDataRecord { discard: more, payload })) = traffic.next_record() {
                        plain[opened..opened + payload.len()].copy_from_slice(payload);
                        opened += payload.len();
                        discard += more;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, reply),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.is_ended = true,
                // Early data is not offered.
                Ok(ConnectionState::ReadEarlyData(_)) | Err(_) => is_broken = true,
                Ok(_) => is_over = true,
            }
            *wire = &mut mem::take(wire)[discard..];
            if is_broken {
                return Err(Broken);
            }
            if is_over {
                return Ok(opened);
            }
        }
    }

    /// Keeps what is not whole, and no more memory than that.
    fn hold(&mut self, rest: &[u8]) -> Result<(), Broken> {
        self.held = Vec::new();
        if self.is_ended {
            return Ok(());
        }
        if rest.len() > TLS_HELD_BYTES_MAX {
            return Err(Broken);
        }
        self.held = rest.to_vec();
        Ok(())
    }

    /// Appends `plain` to `wire`, sealed.
    ///
    /// # Errors
    /// Where nothing can be sent any more, or not yet.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        if self.is_closed {
            return Err(Broken);
        }
        for piece in plain.chunks(RECORD_BYTES_MAX) {
            self.write(wire, piece.len() + RECORD_OVERHEAD_BYTES_MAX, |traffic, room| traffic.encrypt(piece, room))?;
        }
        Ok(())
    }

    /// Appends that nothing more will be sent, once. Before the end of the handshake there is
    /// nothing to say.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        if !mem::replace(&mut self.is_closed, true) && self.is_established() {
            // It cannot be said any more where the keys are worn out.
            let _said = self.write(wire, RECORD_OVERHEAD_BYTES_MAX, |traffic, room| traffic.queue_close_notify(room));
        }
    }

    /// Lets `put` write into a room behind `wire`.
    fn write(
        &mut self,
        wire: &mut Vec<u8>,
        room_bytes: usize,
        put: impl Fn(&mut WriteTraffic<'_, ServerConnectionData>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Broken> {
        // It looks at what is held, in vain: nothing of that is whole.
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.held);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else { return Err(Broken) };
        let begin = wire.len();
        wire.resize(begin + room_bytes, 0);
        let mut written = put(&mut traffic, &mut wire[begin..]);
        if let Err(EncryptError::InsufficientSize(room)) = &written {
            // Something of TLS itself goes first.
            wire.resize(begin + room.required_size, 0);
            written = put(&mut traffic, &mut wire[begin..]);
        }
        wire.truncate(begin + *written.as_ref().unwrap_or(&0));
        written.map(drop).map_err(|_worn_out| Broken)
    }
}

/// Appends what a connection that has failed still has to say. `rest` is not looked at again: a
/// failed connection must not see what it failed on.
fn append_last_words(connection: &mut UnbufferedServerConnection, rest: &mut [u8], wire: &mut Vec<u8>) {
    while connection.wants_write() {
        let UnbufferedStatus { state, .. } = connection.process_tls_records(rest);
        let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
        encode(&mut data, wire);
    }
}

fn encode(data: &mut EncodeTlsData<'_, ServerConnectionData>, wire: &mut Vec<u8>) {
    let begin = wire.len();
    if let Err(EncodeError::InsufficientSize(room)) = data.encode(&mut []) {
        wire.resize(begin + room.required_size, 0);
        let encoded = data.encode(&mut wire[begin..]);
        wire.truncate(begin + encoded.unwrap_or_default());
    }
}
