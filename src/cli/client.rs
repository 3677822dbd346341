//! A client of the control interface: a request out, its answer in. Knows HTTP and the key, not
//! the meaning of requests.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde_json::Value;
use ureq::http::{Method, Request, Response, header};
use ureq::{Agent, Body, BodyReader, Error};

use super::endpoint::{CONTROL_REMEDY, Endpoint, agent_config};
use super::{CliError, key, one};
use crate::http::byte::is_unreserved;

/// The longest wait for an answer to begin. The answer to a batch begins once the whole batch is durable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// The longest silence of a service, after which it counts as lost.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is read whole, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The control interface of a running service.
pub(super) struct ControlClient {
    agent: Agent,
    site: Endpoint,
    key: Vec<u8>,
    /// The source of the key.
    key_source: String,
}

/// An answer of the service, whatever the status.
pub(super) struct HttpAnswer {
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
    /// Where the address is invalid, or there is no key.
    pub(super) fn new(options: &ArgMatches) -> Result<Self, CliError> {
        let site = Endpoint::of_control(options)?;
        let data_dir = one::<PathBuf>(options, "data-dir")?;
        let mut key = key::find(options.get_one("control-key-file"), &data_dir)?;
        if key.is_none() && options.value_source("data-dir") == Some(ValueSource::DefaultValue) {
            let packaged = PathBuf::from(key::PACKAGED);
            key = packaged.exists().then(|| key::find(Some(&packaged), &data_dir)).transpose()?.flatten();
        }
        let (key, key_source) = key.ok_or_else(|| {
            CliError::new(format_args!(
                "no control key: there is none in {}; name the service's --data-dir or --control-key-file, or set {}",
                data_dir.display(),
                key::VARIABLE
            ))
        })?;
        let config = agent_config().timeout_recv_response(Some(ANSWER_TIMEOUT)).timeout_per_read(Some(READ_TIMEOUT));
        Ok(Self { agent: site.agent(config), site, key, key_source })
    }

    /// `GET path`.
    ///
    /// # Errors
    /// Where there is no JSON answer, or the key is refused.
    pub(super) fn get(&self, path: &str) -> Result<HttpAnswer, CliError> {
        self.answer(self.agent.run(self.request(Method::GET, path)?.map(|_| ())))
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn delete(&self, path: &str) -> Result<HttpAnswer, CliError> {
        self.answer(self.agent.run(self.request(Method::DELETE, path)?.map(|_| ())))
    }

    /// `PUT path` or `POST path` with a body.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn send(&self, method: Method, path: &str, body: &[u8]) -> Result<HttpAnswer, CliError> {
        self.answer(self.agent.run(self.request(method, path)?.map(|()| body)))
    }

    /// `GET path`, with the body of the answer as a stream.
    ///
    /// # Errors
    /// Where there is no answer with status 200. Also where the answer does not tell its end: a stream that was cut
    /// would look whole.
    pub(super) fn stream(&self, path: &str) -> Result<BodyReader<'static>, CliError> {
        let response = self.agent.run(self.request(Method::GET, path)?).map_err(|error| self.failure(&error))?;
        if response.status() != 200 {
            return Err(self.answer(Ok(response))?.refusal());
        }
        let headers = response.headers();
        if !headers.contains_key(header::TRANSFER_ENCODING) && !headers.contains_key(header::CONTENT_LENGTH) {
            return Err(CliError::new(format_args!("{} does not say where its answer ends", self.url())));
        }
        Ok(response.into_body().into_reader())
    }

    /// The address of the interface.
    pub(super) fn url(&self) -> &str {
        self.site.name()
    }

    fn request(&self, method: Method, path: &str) -> Result<Request<()>, CliError> {
        let credentials = [b"Bearer ", self.key.as_slice()].concat();
        let request = Request::builder().method(method).uri(self.site.uri(path));
        let request = request.header(header::AUTHORIZATION, credentials.as_slice()).body(());
        request.map_err(|error| CliError::new(format_args!("{}{path} cannot be asked for: {error}", self.url())))
    }

    fn answer(&self, sent: Result<Response<Body>, Error>) -> Result<HttpAnswer, CliError> {
        let response = sent.map_err(|error| self.failure(&error))?;
        let status = response.status().as_u16();
        if status == 401 {
            return Err(CliError::new(format_args!(
                "{} refuses the control key of {}: give the one of that service by {}, --control-key-file or --data-dir",
                self.url(),
                self.key_source,
                key::VARIABLE
            )));
        }
        let text = response.into_body().into_with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.failure(&error))?;
        match serde_json::from_str(&text) {
            Ok(Value::Object(body)) if body.contains_key("can_vote") => Err(CliError::new(format_args!(
                "{} is the public listener: name the control interface by --control-url, by default http://127.0.0.1:8081",
                self.url()
            ))),
            Ok(body @ Value::Object(_)) => Ok(HttpAnswer { status, text, body, url: self.url().to_owned() }),
            _ => Err(CliError::new(format_args!(
                "{} answers with status {status} and no JSON object: is it the control interface?",
                self.url()
            ))),
        }
    }

    fn failure(&self, error: &Error) -> CliError {
        self.site.failure(error, CONTROL_REMEDY)
    }
}

impl HttpAnswer {
    /// The member of this name, if it is a string, and else an empty text.
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
    /// The service's refusal.
    pub(super) fn expect(self, expected: &[u16]) -> Result<Self, CliError> {
        if expected.contains(&self.status) { Ok(self) } else { Err(self.refusal()) }
    }
}

/// `text` as one segment of a path.
pub(super) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_unreserved(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
