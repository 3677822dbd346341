//! A client of TLS, certificates to serve with, and what may be wrong with either. Knows sockets
//! and records, not what is said inside.

use crate::util::random::Random;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A client's side of TLS over a socket.
#[derive(Debug)]
pub(crate) struct TlsStream {
    stream: StreamOwned<ClientConnection, Wire>,
}

/// The socket, which may take what is written in pieces.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: TcpStream,
    slices: Option<Random>,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.slices {
            Some(random) if !bytes.is_empty() => {
                let longest = *random.pick(&[1, 7, 100, bytes.len()]);
                self.socket.write(&bytes[..1 + random.below(longest.min(bytes.len()))])
            }
            _ => self.socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl TlsStream {
    /// A client that has not said anything yet.
    pub(crate) fn new(socket: TcpStream, config: Arc<ClientConfig>, slices: Option<Random>) -> TlsStream {
        let name = ServerName::try_from("vote.example").expect("a name");
        let connection = ClientConnection::new(config, name).expect("a client may be made");
        TlsStream { stream: StreamOwned::new(connection, Wire { socket, slices }) }
    }

    pub(crate) fn connection(&mut self) -> &mut ClientConnection {
        &mut self.stream.conn
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream.sock.socket
    }

    /// Says that nothing more will be sent.
    pub(crate) fn close_notify(&mut self) -> io::Result<()> {
        self.stream.conn.send_close_notify();
        self.stream.flush()
    }
}

impl Read for TlsStream {
    /// The end of the stream is one that was announced; one that was not is an error.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::new(ErrorKind::ConnectionAborted, "an end without close_notify"),
            _ => error,
        })
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// What a client speaks: TLS 1.3, and what it has kept of earlier sessions.
pub(crate) fn client() -> Arc<ClientConfig> {
    client_of(&TLS13)
}

/// The same with TLS 1.2.
pub(crate) fn old_client() -> Arc<ClientConfig> {
    client_of(&TLS12)
}

fn client_of(version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&[version]);
    let verifier = Arc::new(AnyCertificate { provider });
    let builder = builder.expect("the version is there").dangerous().with_custom_certificate_verifier(verifier);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::in_memory_sessions(16);
    Arc::new(config)
}

/// Takes every certificate, but wants it to be that of who signs the handshake.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A certificate that signs itself, and its key, as files.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pair {
    /// A new one in `folder`, by the program `openssl`, with the key that its option `-newkey` names.
    pub(crate) fn make(folder: &Path, name: &str, newkey: &str) -> Pair {
        let path = |end: &str| folder.join(format!("{name}.{end}"));
        let pair = Pair { cert: path("cert.pem"), key: path("key.pem") };
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=vote.example"]);
        openssl.args(["-addext", "subjectAltName=DNS:vote.example,DNS:localhost", "-newkey", newkey]);
        if newkey == "ec" {
            openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        }
        openssl.arg("-keyout").arg(&pair.key).arg("-out").arg(&pair.cert);
        let made = openssl.output().expect("openssl is installed: the tests of TLS make certificates with it");
        assert!(made.status.success(), "{made:?}");
        pair
    }
}
