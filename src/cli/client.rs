//! A client of the control interface: a request out, its answer in. Knows HTTP and the key, not
//! what is asked for.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::Value;
use ureq::http::{Method, Request, Response, Uri, header};
use ureq::{Agent, Body, BodyReader, Error};

use super::{CliError, key, one};

/// A connection is there within this, or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The answer to a batch comes once all of it is durable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// Nothing comes for so long: the peer is gone.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is read whole: a batch of which every line is refused.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The control interface of a running service.
pub(super) struct ControlClient {
    agent: Agent,
    url: String,
    key: Vec<u8>,
}

/// What came back, whatever the status.
pub(super) struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body as sent.
    pub text: String,
    /// The body's object.
    pub body: Value,
    url: String,
}

impl ControlClient {
    /// A client by the options of `connection`.
    ///
    /// # Errors
    /// Where the address is none, or there is no key.
    pub(super) fn new(options: &ArgMatches) -> Result<Self, CliError> {
        let url = base_url(&one::<String>(options, "control-url")?, "--control-url")?;
        let data_dir = one::<PathBuf>(options, "data-dir")?;
        let key = key::find(options.get_one("control-key-file"), &data_dir)?.ok_or_else(|| {
            CliError::new(format_args!(
                "no control key: there is none in {}; name the service's --data-dir or --control-key-file, or set {}",
                data_dir.display(),
                key::VARIABLE
            ))
        })?;
        let config = agent_config().timeout_recv_response(Some(ANSWER_TIMEOUT)).timeout_per_read(Some(READ_TIMEOUT));
        Ok(Self { agent: config.build().new_agent(), url, key })
    }

    /// `GET path`.
    ///
    /// # Errors
    /// Where there is no JSON answer, or the key is refused.
    pub(super) fn get(&self, path: &str) -> Result<Answer, CliError> {
        self.answer(self.agent.run(self.request(Method::GET, path)?.map(|_| ())))
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn delete(&self, path: &str) -> Result<Answer, CliError> {
        self.answer(self.agent.run(self.request(Method::DELETE, path)?.map(|_| ())))
    }

    /// `PUT path` or `POST path` with a body.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn send(&self, method: Method, path: &str, body: &[u8]) -> Result<Answer, CliError> {
        self.answer(self.agent.run(self.request(method, path)?.map(|()| body)))
    }

    /// `GET path`, of which the body streams.
    ///
    /// # Errors
    /// Where there is no answer with status 200, or its end could not be told from a cut.
    pub(super) fn stream(&self, path: &str) -> Result<BodyReader<'static>, CliError> {
        let response = self.agent.run(self.request(Method::GET, path)?).map_err(|error| self.failure(&error))?;
        if response.status() != 200 {
            return Err(self.answer(Ok(response))?.refusal());
        }
        let headers = response.headers();
        if !headers.contains_key(header::TRANSFER_ENCODING) && !headers.contains_key(header::CONTENT_LENGTH) {
            return Err(CliError::new(format_args!("{} does not say where its answer ends", self.url)));
        }
        Ok(response.into_body().into_reader())
    }

    /// Where the interface is.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    fn request(&self, method: Method, path: &str) -> Result<Request<()>, CliError> {
        let credentials = [b"Bearer ", self.key.as_slice()].concat();
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let request = request.header(header::AUTHORIZATION, credentials.as_slice()).body(());
        request.map_err(|error| CliError::new(format_args!("{}{path} cannot be asked for: {error}", self.url)))
    }

    fn answer(&self, sent: Result<Response<Body>, Error>) -> Result<Answer, CliError> {
        let response = sent.map_err(|error| self.failure(&error))?;
        let status = response.status().as_u16();
        if status == 401 {
            return Err(CliError::new(format_args!(
                "{} refuses the control key: give the one of that service by {}, --control-key-file or --data-dir",
                self.url,
                key::VARIABLE
            )));
        }
        let text = response.into_body().into_with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.failure(&error))?;
        match serde_json::from_str(&text) {
            Ok(body @ Value::Object(_)) => Ok(Answer { status, text, body, url: self.url.clone() }),
            _ => Err(CliError::new(format_args!(
                "{} answers with status {status} and no JSON object: is it the control interface?",
                self.url
            ))),
        }
    }

    fn failure(&self, error: &Error) -> CliError {
        failure(&self.url, error, "start `vote-status serve`, or name its control interface by --control-url")
    }
}

impl Answer {
    /// The member of this name, where it is a string.
    pub(super) fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }

    /// The answer as an error.
    pub(super) fn refusal(&self) -> CliError {
        let (url, status) = (&self.url, self.status);
        CliError::new(format_args!("{}: {} ({url} answers {status})", self.text("error"), self.text("message")))
    }

    /// The answer, if its status is one of `expected`.
    ///
    /// # Errors
    /// What the service says instead.
    pub(super) fn expect(self, expected: &[u16]) -> Result<Self, CliError> {
        if expected.contains(&self.status) { Ok(self) } else { Err(self.refusal()) }
    }
}

/// A configuration that shows every status and follows no redirect; secrets go to nobody but to
/// the address that was named, so no proxy of the environment is used either.
pub(super) fn agent_config() -> ureq::config::ConfigBuilder<ureq::typestate::AgentScope> {
    let user_agent = concat!("vote-status/", env!("CARGO_PKG_VERSION"));
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent(user_agent)
        .accept("application/json")
        .timeout_connect(Some(CONNECT_TIMEOUT))
}

/// An address without its trailing slash, checked as far as it can be.
///
/// # Errors
/// Where it is none, or needs what was not built in.
pub(super) fn base_url(text: &str, option: &str) -> Result<String, CliError> {
    let fail = |why: &str| Err(CliError::new(format_args!("{option} {text}: {why}")));
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(['?', '#']);
    let Some(uri) = text.parse::<Uri>().ok().filter(|uri| is_plain && uri.host().is_some_and(|host| !host.is_empty()))
    else {
        return fail("an address such as http://127.0.0.1:8081 is wanted");
    };
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") if cfg!(feature = "tls") => {}
        Some("https") => return fail("https needs a build with the cargo feature tls"),
        _ => return fail("an address that begins with http:// is wanted"),
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Why there is no answer, in one line. `remedy` is for where nobody listens.
pub(super) fn failure(url: &str, error: &Error, remedy: &str) -> CliError {
    match error {
        Error::Io(io) if io.kind() == ErrorKind::ConnectionRefused => {
            CliError::new(format_args!("nothing listens at {url}: {remedy}"))
        }
        Error::Timeout(_) => CliError::new(format_args!("{url} did not answer in time")),
        Error::HostNotFound => CliError::new(format_args!("{url}: there is no such host")),
        Error::Io(io) => CliError::new(format_args!("the connection to {url} failed: {io}")),
        Error::Protocol(_) => CliError::new(format_args!("{url} does not speak HTTP as it should: {error}")),
        other => CliError::new(format_args!("{url} cannot be asked: {other}")),
    }
}

/// `text` as one segment of a path.
pub(super) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if crate::vote::id::is_unreserved(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{base_url, segment};

    #[test]
    fn addresses() {
        for good in ["http://127.0.0.1:8081", "http://localhost:8081/", "http://[::1]:8081", "http://vote.example/a/"] {
            let base = base_url(good, "--url").unwrap_or_else(|error| panic!("{good}: {error}"));
            assert_eq!(base, good.trim_end_matches('/'));
        }
        for bad in ["", "127.0.0.1:8081", "localhost:8081", "ftp://a", "http://", "http://a b", "http://a/?x", "/v1"] {
            assert!(base_url(bad, "--url").is_err(), "{bad}");
        }
        assert_eq!(base_url("https://a", "--url").is_ok(), cfg!(feature = "tls"));
    }

    #[test]
    fn segments() {
        assert_eq!(segment("203.0.113.7"), "203.0.113.7");
        assert_eq!(segment("a/b ?é~"), "a%2Fb%20%3F%C3%A9~");
    }
}
