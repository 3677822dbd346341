//! TLS to the store. Each connection reads the files again.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The files of the certificates that systems trust: Debian and Alpine, Red Hat, SUSE, BSD. A list in the program would lack the
/// authorities that an operator has added, and would age with the program.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificate to show to the store, and the authorities to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that may vouch for the store; `None` for the system's.
    pub ca: Option<PathBuf>,
    /// A certificate with its chain, and its key, for a store that wants to know its clients.
    pub pair: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Makes the handshake with the machine of this name. The time-outs of the stream bound it.
    ///
    /// # Errors
    /// The fault of a file, or the reason why the two ends do not trust each other.
    pub fn secure(
        &self,
        stream: TcpStream,
        host_name: &str,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
        let name = ServerName::try_from(host_name.to_owned()).map_err(|_| format!("{host_name} is no name for TLS"))?;
        let connection = ClientConnection::new(Arc::new(self.config()?), name).map_err(|error| error.to_string())?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                // A process that was stopped and continued finds its call interrupted.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    return Err(if is_late { "it takes too long".to_owned() } else { error.to_string() });
                }
            }
        }
        Ok(stream)
    }

    /// Reads the files.
    ///
    /// # Errors
    /// The file at fault, and the cause.
    pub fn config(&self) -> Result<ClientConfig, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(self.roots()?);
        let Some((chain, key)) = &self.pair else { return Ok(builder.with_no_client_auth()) };
        let unfit = |error: &dyn std::fmt::Display| format!("the key in {} is of no use: {error}", key.display());
        let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unfit(&error))?;
        builder.with_client_auth_cert(certificates(chain)?, private).map_err(|error| unfit(&error))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let system = || SYSTEM_FILES.into_iter().map(PathBuf::from).find(|path| path.exists());
        let path = self.ca.clone().or_else(system);
        let path =
            path.ok_or("this system keeps no list of trusted certificates where it is looked for: give --store-ca")?;
        let mut roots = RootCertStore::empty();
        // A system's list may hold certificates that the library cannot read.
        let (known, _unknown) = roots.add_parsable_certificates(certificates(&path)?);
        if known == 0 {
            Err(format!("{} holds no certificate that could be trusted", path.display()))
        } else {
            Ok(roots)
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    match CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} holds no certificate in PEM", path.display())),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
