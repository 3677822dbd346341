//! The address of a service in the options of subcommands: an `http` address, or the path of a Unix
//! socket behind `unix:`. Knows how to reach the service and how to report a failure, not the requests.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use ureq::config::ConfigBuilder;
use ureq::http::Uri;
#[cfg(feature = "tls")]
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::AgentScope;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};
use ureq::{Agent, Error};

use super::{CliError, one};

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest body that [`Endpoint::get`] reads, in bytes. No answer of the service to it comes near.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// The remedy if nothing listens at the control interface.
pub(super) const CONTROL_REMEDY: &str = "start `vote-status serve`, or name its control interface by --control-url";

/// A service that can be asked.
pub(super) struct Endpoint {
    /// The address as given, without its trailing slash.
    name: String,
    /// The part before every path.
    base: String,
    socket: Option<PathBuf>,
    /// The authorities that an `https` address is checked against.
    #[cfg(feature = "tls")]
    authorities: RootCerts,
}

impl Endpoint {
    /// The control interface that the options name.
    ///
    /// # Errors
    /// As [`Self::parse`], and where the file of `--control-ca` cannot be used.
    pub(super) fn of_control(options: &ArgMatches) -> Result<Self, CliError> {
        let site = Self::parse(&one::<String>(options, "control-url")?, "--control-url")?;
        let Some(path) = options.get_one::<PathBuf>("control-ca") else { return Ok(site) };
        #[cfg(feature = "tls")]
        return Ok(Self { authorities: authorities(path)?, ..site });
        #[cfg(not(feature = "tls"))]
        Err(CliError::new(format_args!("--control-ca {}: it needs a build with the cargo feature tls", path.display())))
    }

    /// Checks the form of an address, without a request. `option` is the address's option, for the error.
    ///
    /// # Errors
    /// Where it is no address, or needs a feature that is not built in.
    pub(super) fn parse(text: &str, option: &str) -> Result<Self, CliError> {
        let fail = |why: &str| Err(CliError::new(format_args!("{option} {text}: {why}")));
        match text.strip_prefix("unix:") {
            Some("") => return fail("a path is wanted behind unix:"),
            Some(path) => {
                // A path needs no look-up, but the client wants an address.
                let base = "http://127.0.0.1".to_owned();
                return Ok(Self { socket: Some(path.into()), ..Self::at(text.to_owned(), base) });
            }
            None => {}
        }
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(['?', '#']);
        let uri = text.parse::<Uri>().ok().filter(|_| is_plain);
        let Some(uri) = uri.filter(|uri| uri.host().is_some_and(|host| !host.is_empty())) else {
            return fail("an address such as http://127.0.0.1:8081 or unix:PATH is wanted");
        };
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => return fail("https needs a build with the cargo feature tls"),
            _ => return fail("an address that begins with http:// or unix: is wanted"),
        }
        let base = text.trim_end_matches('/').to_owned();
        Ok(Self::at(base.clone(), base))
    }

    const fn at(name: String, base: String) -> Self {
        Self {
            name,
            base,
            socket: None,
            #[cfg(feature = "tls")]
            authorities: RootCerts::WebPki,
        }
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The address of `path`.
    pub(super) fn uri(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The HTTP client for it.
    pub(super) fn agent(&self, config: ConfigBuilder<AgentScope>) -> Agent {
        #[cfg(feature = "tls")]
        let config = config.tls_config(TlsConfig::builder().root_certs(self.authorities.clone()).build());
        let config = config.build();
        match &self.socket {
            Some(path) => Agent::with_parts(config, UnixConnector { path: path.clone() }, DefaultResolver::default()),
            None => config.new_agent(),
        }
    }

    /// Status and body of the answer to `GET path`, for which the client waits `timeout` at most. A body that is too
    /// long counts as empty: neither is an answer of the service, and the network has not failed. `remedy` is as with
    /// [`Self::failure`].
    ///
    /// # Errors
    /// Where there is no answer.
    pub(super) fn get(&self, path: &str, timeout: Duration, remedy: &str) -> Result<(u16, Vec<u8>), CliError> {
        let fail = |error: Error| self.failure(&error, remedy);
        let agent = self.agent(agent_config().timeout_global(Some(timeout)));
        let response = agent.get(self.uri(path)).call().map_err(fail)?;
        let status = response.status().as_u16();
        match response.into_body().into_with_config().limit(ANSWER_BYTES_MAX).read_to_vec() {
            Err(Error::BodyExceedsLimit(_)) => Ok((status, Vec::new())),
            body => Ok((status, body.map_err(fail)?)),
        }
    }

    /// The reason for no answer, in one line. `remedy` is the advice if nothing listens.
    pub(super) fn failure(&self, error: &Error, remedy: &str) -> CliError {
        let name = &self.name;
        match error {
            Error::Io(io) if is_nobody_there(io, self.socket.is_some()) => {
                CliError::new(format_args!("nothing listens at {name}: {remedy}"))
            }
            Error::Timeout(_) => CliError::new(format_args!("{name} did not answer in time")),
            Error::HostNotFound => CliError::new(format_args!("{name}: there is no such host")),
            Error::Io(io) => CliError::new(format_args!("the connection to {name} failed: {io}")),
            Error::Protocol(_) => CliError::new(format_args!("{name} does not speak HTTP as it should: {error}")),
            other => CliError::new(format_args!("{name} cannot be asked: {other}")),
        }
    }
}

#[cfg(feature = "tls")]
fn authorities(path: &std::path::Path) -> Result<RootCerts, CliError> {
    let fail = |why: &dyn std::fmt::Display| CliError::new(format_args!("--control-ca {}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| fail(&error))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| fail(&error))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() { Err(fail(&"it contains no certificate in PEM")) } else { Ok(certificates.into()) }
}

fn is_nobody_there(error: &io::Error, is_file: bool) -> bool {
    error.kind() == ErrorKind::ConnectionRefused || (is_file && error.kind() == ErrorKind::NotFound)
}

/// A configuration in which an error status is an answer like any other. The client follows neither redirects nor the
/// environment's proxy: the key may go only to the named address.
pub(super) fn agent_config() -> ConfigBuilder<AgentScope> {
    let user_agent = concat!("vote-status/", env!("CARGO_PKG_VERSION"));
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent(user_agent)
        .accept("application/json")
        .timeout_connect(Some(CONNECT_TIMEOUT))
}

/// Connects to one socket file, whatever the address says.
#[derive(Debug)]
struct UnixConnector {
    path: PathBuf,
}

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, _chained: Option<()>) -> Result<Option<UnixTransport>, Error> {
        let timeout = details.timeout;
        let stream = connected(&self.path, timeout.not_zero().map(|time| *time));
        let stream = stream.map_err(|error| timed_out(error, timeout))?;
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(UnixTransport { stream, buffers: LazyBuffers::new(input, output) }))
    }
}

/// A connection to the socket file. Linux waits for room in a listener's backlog as long as the socket may send.
fn connected(path: &Path, timeout: Option<Duration>) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, timeout)?;
    let address = SocketAddrUnix::new(path)?;
    retry_on_intr(|| connect(&socket, &address))?;
    Ok(socket.into())
}

#[derive(Debug)]
struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(timeout.not_zero().map(|time| *time))?;
        let sent = self.stream.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|error| timed_out(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(timeout.not_zero().map(|time| *time))?;
        let read = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| timed_out(error, timeout))?,
            }
        };
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    /// Never, so that each request gets a connection of its own: that is cheap here, and a kept one may be
    /// closing.
    fn is_open(&mut self) -> bool {
        false
    }
}

fn timed_out(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn addresses() {
        for good in ["http://127.0.0.1:8081", "http://localhost:8081/", "http://[::1]:8081", "http://vote.example/a/"] {
            let site = Endpoint::parse(good, "--url").unwrap_or_else(|error| panic!("{good}: {error}"));
            assert_eq!(site.name(), good.trim_end_matches('/'));
            assert_eq!(site.uri("/v1"), format!("{}/v1", good.trim_end_matches('/')));
        }
        for bad in ["", "127.0.0.1:8081", "localhost:8081", "ftp://a", "http://", "http://a b", "http://a/?x", "unix:"]
        {
            assert!(Endpoint::parse(bad, "--url").is_err(), "{bad}");
        }
        assert_eq!(Endpoint::parse("https://a", "--url").is_ok(), cfg!(feature = "tls"));
        let site = Endpoint::parse("unix:/run/a b", "--url").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(site.name(), "unix:/run/a b");
        assert_eq!(site.uri("/v1"), "http://127.0.0.1/v1");
    }
}
