//! The certificate chain and its key: read from two PEM files at the start, and again when the
//! operator says so. What was handed out before stays as it is.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// What makes a listener speak TLS. Cheap to clone; all clones show the same certificate.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    shown: Arc<Shown>,
}

/// The certificate that newcomers are shown, and where it came from.
#[derive(Debug)]
struct Shown {
    chain_path: PathBuf,
    key_path: PathBuf,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
}

/// Why there is no certificate to show.
#[derive(Debug)]
pub enum CertificateError {
    /// A file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file is no PEM, or lacks what it is there for.
    Lacks(PathBuf, &'static str),
    /// The key is of a kind that cannot be used, or is not that of the certificate.
    Unfit(PathBuf, rustls::Error),
    /// What TLS needs of the system is not there.
    System(rustls::Error),
}

impl Tls {
    /// Reads both files: the chain with the service's own certificate first, and its key.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn load(chain_path: &Path, key_path: &Path) -> Result<Self, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let current = RwLock::new(Arc::new(read(chain_path, key_path, &provider)?));
        let (chain_path, key_path) = (chain_path.to_owned(), key_path.to_owned());
        let shown = Arc::new(Shown { chain_path, key_path, provider: Arc::clone(&provider), current });
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let resolver = Arc::clone(&shown) as Arc<dyn ResolvesServerCert>;
        let builder = versions.map_err(CertificateError::System)?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(resolver);
        // Who offers none of these is refused: libcurl offers what it was told to speak, and nothing else.
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
        // Sessions are resumed from what their clients keep: nothing is held here for those who may
        // never come back. One ticket each: its use brings the next.
        config.ticketer = ring::Ticketer::new().map_err(CertificateError::System)?;
        config.send_tls13_tickets = 1;
        Ok(Self { config: Arc::new(config), shown })
    }

    /// Reads both files again, for newcomers. Where that fails, they are shown what was before.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn reload(&self) -> Result<(), CertificateError> {
        let Shown { chain_path, key_path, provider, current } = &*self.shown;
        let fresh = Arc::new(read(chain_path, key_path, provider)?);
        *current.write() = fresh;
        Ok(())
    }

    /// What a session is made from.
    pub(in crate::net) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }
}

fn read(chain_path: &Path, key_path: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
    let chain = certificates(chain_path)?;
    let key = private_key(key_path)?;
    CertifiedKey::from_der(chain, key, provider)
        .map_err(|error| CertificateError::Unfit(path_of(&error, chain_path, key_path), error))
}

/// The file that `error` is about. An unfit pair is told of the key: it is the certificate that
/// was signed.
fn path_of(error: &rustls::Error, chain_path: &Path, key_path: &Path) -> PathBuf {
    if matches!(error, rustls::Error::InvalidCertificate(_)) { chain_path.into() } else { key_path.into() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let text = text(path)?;
    let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) | Err(pem::Error::NoItemsFound) => Err(CertificateError::Lacks(path.into(), "no certificate")),
        Err(_) => Err(CertificateError::Lacks(path.into(), "broken PEM")),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::from_pem_slice(&text(path)?).map_err(|error| {
        let what = match error {
            pem::Error::NoItemsFound => "no private key, or one under a pass phrase",
            _ => "broken PEM",
        };
        CertificateError::Lacks(path.into(), what)
    })
}

fn text(path: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|error| CertificateError::Unreadable(path.into(), error))
}

impl fmt::Display for CertificateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(formatter, "cannot read {}: {error}", path.display()),
            Self::Lacks(path, what) => {
                write!(formatter, "{} holds {what}: a PEM file without a pass phrase is wanted", path.display())
            }
            Self::Unfit(path, rustls::Error::InconsistentKeys(_)) => {
                write!(formatter, "{} is not the key of the first certificate: give the pair", path.display())
            }
            Self::Unfit(path, error) => write!(formatter, "{} cannot be used: {error}", path.display()),
            Self::System(error) => write!(formatter, "TLS cannot be set up: {error}"),
        }
    }
}

impl std::error::Error for CertificateError {}
