//! The head parser's promises: it accepts the same heads as the reference, gives the same content,
//! and its outcome does not depend on how much of the bytes has come.

use vote_status::http::field::Section;
use vote_status::http::head::{self, Head, HeadLimits};

use crate::cuts::Choices;
use crate::reference::{self, Reading, Told};

/// The parser under check: the service's, or a wrong one that a test plants.
pub type Parse = for<'b> fn(&'b [u8], HeadLimits) -> Section<Head<'b>>;

/// The service's defaults.
pub const ROOMY: HeadLimits = HeadLimits { head_bytes_max: 16 * 1024, header_lines_max: 100 };
/// Bounds that small inputs reach.
pub const TIGHT: HeadLimits = HeadLimits { head_bytes_max: 160, header_lines_max: 5 };

/// Shorter inputs are tried at every prefix, longer ones at this many.
const PREFIXES_MAX: usize = 48;

/// Panics where the service's head parser breaks a promise over these bytes.
pub fn check(data: &[u8]) {
    check_parser(head::parse, data);
}

/// Panics where `parse` breaks a promise over these bytes.
pub fn check_parser(parse: Parse, data: &[u8]) {
    let readable = reference::with_known_version(data);
    for limits in [ROOMY, TIGHT] {
        let outcome = told(parse(data, limits));
        match reference::read(&readable, limits) {
            Reading::Whole(expected, used) => assert_eq!(outcome, Section::Complete(expected, used), "{limits:?}"),
            Reading::Refused => {
                assert!(matches!(outcome, Section::Rejected(_)), "whole, and not to be taken: {outcome:?}, {limits:?}");
            }
            Reading::NotWhole => {
                assert!(!matches!(outcome, Section::Complete(..)), "httparse refuses: {outcome:?}, {limits:?}");
            }
        }
        if outcome == Section::Partial {
            assert!(data.len() < limits.head_bytes_max + 2, "waits beyond its bound: {limits:?}");
        }
        never_changes(parse, data, limits, &outcome);
    }
}

/// Checks that the outcome for a prefix is `Partial`, or the same as for all bytes.
fn never_changes(parse: Parse, data: &[u8], limits: HeadLimits, outcome: &Section<Told<'_>>) {
    let mut choices = Choices::of(data, 0);
    for at in 0..data.len().min(PREFIXES_MAX) {
        let end = if data.len() <= PREFIXES_MAX { at } else { choices.below(data.len()) };
        let early = told(parse(&data[..end], limits));
        assert!(early == Section::Partial || early == *outcome, "{early:?} at {end}, then {outcome:?}, {limits:?}");
    }
}

fn told(section: Section<Head<'_>>) -> Section<Told<'_>> {
    match section {
        Section::Complete(head, used) => Section::Complete(
            Told {
                method: head.method,
                path: head.path,
                query: head.query,
                http_1_0: head.http_1_0,
                keep_alive: head.keep_alive,
                length: head.length,
                expects_continue: head.expects_continue,
                authorization: head.authorization,
                accept_encoding: head.lines.values("Accept-Encoding").collect(),
            },
            used,
        ),
        Section::Partial => Section::Partial,
        Section::Rejected(fault) => Section::Rejected(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::{Parse, check_parser};
    use std::panic::catch_unwind;
    use vote_status::http::body::Length;
    use vote_status::http::fault::Fault;
    use vote_status::http::field::Section;
    use vote_status::http::head::{Head, HeadLimits, parse};

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

    fn with(section: Section<Head<'_>>, change: fn(&mut Head<'_>)) -> Section<Head<'_>> {
        match section {
            Section::Complete(mut head, used) => {
                change(&mut head);
                Section::Complete(head, used)
            }
            other => other,
        }
    }

    fn takes_too_much(bytes: &[u8], limits: HeadLimits) -> Section<Head<'_>> {
        match parse(bytes, limits) {
            Section::Complete(head, used) => Section::Complete(head, used + 1),
            other => other,
        }
    }

    fn forgets_the_end(bytes: &[u8], limits: HeadLimits) -> Section<Head<'_>> {
        with(parse(bytes, limits), |head| head.keep_alive = true)
    }

    fn forgets_the_length(bytes: &[u8], limits: HeadLimits) -> Section<Head<'_>> {
        with(parse(bytes, limits), |head| head.length = Length::None)
    }

    /// A wrong parser that accepts bare line feeds, on which request smuggling is based.
    fn takes_bare_lf(bytes: &[u8], limits: HeadLimits) -> Section<Head<'_>> {
        if bytes == b"GET / HTTP/1.1\nHost: h\n\n" {
            return match parse(GET, limits) {
                Section::Complete(head, _) => Section::Complete(head, bytes.len()),
                other => other,
            };
        }
        parse(bytes, limits)
    }

    /// A wrong parser that rejects a head which more bytes would have made whole.
    fn is_hasty(bytes: &[u8], limits: HeadLimits) -> Section<Head<'_>> {
        match parse(bytes, limits) {
            Section::Partial if bytes.len() == 20 => Section::Rejected(Fault::BadRequest),
            other => other,
        }
    }

    fn refuses_more(bytes: &[u8], limits: HeadLimits) -> Section<Head<'_>> {
        match parse(bytes, limits) {
            Section::Complete(head, _) if head.path == b"/x" => Section::Rejected(Fault::BadRequest),
            other => other,
        }
    }

    #[test]
    fn wrong_parsers_are_found_out() {
        let planted: [(&str, Parse, &[u8]); 6] = [
            ("takes too much", takes_too_much, GET),
            ("forgets the end", forgets_the_end, b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
            ("forgets the length", forgets_the_length, b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"),
            ("takes a bare LF", takes_bare_lf, b"GET / HTTP/1.1\nHost: h\n\n"),
            ("is hasty", is_hasty, GET),
            ("refuses more", refuses_more, b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"),
        ];
        for (name, wrong, data) in planted {
            check_parser(parse, data);
            assert!(catch_unwind(|| check_parser(wrong, data)).is_err(), "{name}: not found out");
        }
    }
}
