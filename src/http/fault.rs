//! The reasons to refuse a request, by HTTP status and by the contract's stable word.

/// A reason to refuse a request. Each names its one status and its one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Malformed HTTP.
    BadRequest,
    /// No such resource.
    NotFound,
    /// A known resource, another method.
    MethodNotAllowed,
    /// The request was begun and not finished in time.
    RequestTimeout,
    /// The content is larger than its bound.
    ContentTooLarge,
    /// The request line is longer than its bound.
    UriTooLong,
    /// An `Expect` other than `100-continue`.
    ExpectationFailed,
    /// The head is larger, or has more lines, than its bound.
    HeadersTooLarge,
    /// A fault of the service itself.
    Internal,
    /// A transfer coding other than `chunked`.
    NotImplemented,
    /// The state is not loaded yet, or there is no room for the connection.
    NotReady,
    /// A version other than HTTP/1.x.
    VersionNotSupported,
}

impl Fault {
    /// Every fault in its order, with its status code and its stable word for machines.
    pub const ALL: [(Self, u16, &'static str); 12] = [
        (Self::BadRequest, 400, "bad_request"),
        (Self::NotFound, 404, "not_found"),
        (Self::MethodNotAllowed, 405, "method_not_allowed"),
        (Self::RequestTimeout, 408, "request_timeout"),
        (Self::ContentTooLarge, 413, "content_too_large"),
        (Self::UriTooLong, 414, "uri_too_long"),
        (Self::ExpectationFailed, 417, "expectation_failed"),
        (Self::HeadersTooLarge, 431, "headers_too_large"),
        (Self::Internal, 500, "internal_error"),
        (Self::NotImplemented, 501, "not_implemented"),
        (Self::NotReady, 503, "not_ready"),
        (Self::VersionNotSupported, 505, "http_version_not_supported"),
    ];

    /// The status code.
    #[must_use]
    pub const fn status(self) -> u16 {
        Self::ALL[self as usize].1
    }

    /// The stable word for machines.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

/// The reason phrase of every status that this service sends.
#[must_use]
pub const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}
