//! Sends cases in every way a network may cut them, and compares what comes back. Knows sockets
//! and the order of things; must not know what any single case is about.

use super::answer::{Listener, check};
use super::case::{Answer, CONTROL_TARGET, Case, End, PUBLIC_TARGET, Where, full};
use crate::util::client::Client;
use crate::util::response::Response;
use std::net::SocketAddr;

/// Connections that are open at once.
const WAVE: usize = 256;
/// Up to this size a case is cut at every byte; a longer one near both of its ends and here and
/// there between.
const CUT_EVERYWHERE_MAX: usize = 700;
const CUT_NEAR_THE_ENDS: usize = 150;
const CUT_STRIDE: usize = 6_007;
/// Failures told in full; one cause often shows in hundreds of cuts.
const TOLD_MAX: usize = 60;

/// One listener of a running server with a single worker, which makes [`Target::settle`] exact.
pub(super) struct Target {
    addr: SocketAddr,
    listener: Listener,
    /// A connection for the round trips of `settle`, made behind those of the wave.
    settler: Client,
}

/// One connection of a wave.
struct Attempt<'c> {
    case: &'c Case,
    way: String,
    bytes: Vec<u8>,
    /// Where the bytes are cut, ascending.
    cuts: Vec<usize>,
    /// Whether the request that shows the connection to be kept is behind the case's own.
    followed: bool,
    /// Whether the sending side is shut right behind the last byte.
    shut: bool,
}

impl Target {
    pub(super) fn new(addr: SocketAddr, listener: Listener) -> Target {
        Target { addr, listener, settler: Client::connect(addr) }
    }

    /// Runs every case that holds on this listener in every way; the failures, told in words,
    /// and the number of connections it took.
    pub(super) fn run(&mut self, cases: &[Case]) -> (Vec<String>, usize) {
        let cases: Vec<Case> = match self.listener {
            Listener::Public => cases.to_vec(),
            Listener::Control => cases.iter().filter(|case| case.on == Where::Both).map(Case::on_control).collect(),
        };
        let mut failures = Vec::new();
        let mut sound = Vec::new();
        let mut connections = 0;
        for case in &cases {
            let failed = self.wave(&self.uncut(case));
            connections += 3;
            if failed.is_empty() {
                sound.push(case);
            }
            failures.extend(failed);
        }
        // A case that fails in one piece would only fail again, each time by a deadline.
        for wave in sound.chunks(WAVE) {
            let attempts: Vec<Attempt> = wave
                .iter()
                .filter(|case| case.bytes.len() <= CUT_EVERYWHERE_MAX)
                .map(|case| self.byte_by_byte(case))
                .collect();
            connections += attempts.len();
            failures.extend(self.wave(&attempts));
        }
        for case in sound {
            let attempts = self.cut_everywhere(case);
            connections += attempts.len();
            for wave in attempts.chunks(WAVE) {
                failures.extend(self.wave(wave));
            }
        }
        (failures, connections)
    }

    fn uncut<'c>(&self, case: &'c Case) -> Vec<Attempt<'c>> {
        let attempt = |way: &str, followed, shut| Attempt {
            case,
            way: way.to_owned(),
            bytes: self.bytes(case, followed),
            cuts: Vec::new(),
            followed,
            shut,
        };
        let mut attempts = vec![attempt("in one piece", true, false), attempt("in one piece, then shut", true, true)];
        if case.end == End::Keep {
            attempts.push(attempt("alone, then shut", false, true));
        }
        attempts
    }

    fn byte_by_byte<'c>(&self, case: &'c Case) -> Attempt<'c> {
        let bytes = self.bytes(case, true);
        Attempt {
            case,
            way: "byte by byte".to_owned(),
            cuts: (1..bytes.len()).collect(),
            bytes,
            followed: true,
            shut: false,
        }
    }

    /// Two segments; the cut goes through the case and up to the first byte behind it.
    fn cut_everywhere<'c>(&self, case: &'c Case) -> Vec<Attempt<'c>> {
        let bytes = self.bytes(case, true);
        let own = self.bytes(case, false).len();
        let everywhere = own <= CUT_EVERYWHERE_MAX;
        (1..=own)
            .filter(|&cut| {
                everywhere || cut <= CUT_NEAR_THE_ENDS || cut + CUT_NEAR_THE_ENDS > own || cut % CUT_STRIDE == 0
            })
            .map(|cut| Attempt {
                case,
                way: format!("cut at {cut}"),
                bytes: bytes.clone(),
                cuts: vec![cut],
                followed: true,
                shut: cut % 2 == 0,
            })
            .collect()
    }

    /// The bytes for this listener, with the request behind them that only a kept connection
    /// answers.
    fn bytes(&self, case: &Case, followed: bool) -> Vec<u8> {
        let mut bytes = match self.listener {
            Listener::Public => case.bytes.clone(),
            Listener::Control => replace(&case.bytes, PUBLIC_TARGET, CONTROL_TARGET),
        };
        if followed {
            bytes.extend_from_slice(self.follower());
        }
        bytes
    }

    /// Its answer is unlike every answer that a case expects, so that it cannot be taken for one.
    fn follower(&self) -> &'static [u8] {
        match self.listener {
            Listener::Public => b"GET /api/vote/1/status/5.6.7.8 HTTP/1.1\r\nHost: behind\r\n\r\n",
            Listener::Control => b"GET /v1/servers/1 HTTP/1.1\r\nHost: behind\r\n\r\n",
        }
    }

    fn check_follower(&self, response: &Response) -> Result<(), String> {
        let (status, start) = match self.listener {
            Listener::Public => (200, r#"{"success":false,"can_vote":false,"message":"Vous pourrez"#),
            Listener::Control => (401, r#"{"error":"unauthorized","message":""#),
        };
        let says_close = response.says_close();
        if response.status == status && response.text().starts_with(start) && !says_close {
            Ok(())
        } else {
            Err(format!("the request behind was answered {response:?}"))
        }
    }

    /// Opens the attempts' connections and sends their pieces in step. The server has read one
    /// piece of all of them before the next one leaves.
    fn wave(&mut self, attempts: &[Attempt]) -> Vec<String> {
        let mut clients: Vec<Client> = attempts.iter().map(|_| Client::connect(self.addr)).collect();
        // Behind them all: it is answered once they have been accepted, of which a turn does only some.
        self.settler = Client::connect(self.addr);
        let steps = attempts.iter().map(|attempt| attempt.cuts.len()).max();
        for step in 0..=steps.unwrap_or(0) {
            if step > 0 {
                self.settle();
            }
            for (attempt, client) in attempts.iter().zip(&mut clients) {
                send_piece(attempt, client, step);
            }
        }
        let listener = self.listener;
        let mut failures = Vec::new();
        for (attempt, mut client) in attempts.iter().zip(clients) {
            if let Err(failure) = self.compare(attempt, &mut client) {
                let Attempt { case, way, bytes, .. } = attempt;
                let bytes = shorten(&bytes.escape_ascii().to_string());
                let failure = shorten(&failure);
                failures.push(format!("{listener:?}: {}, {way}: {failure}\n    sent {bytes}", case.name));
            }
        }
        failures
    }

    /// Two round trips: when the second is answered, the one worker has been through all that
    /// was readable before the first.
    fn settle(&mut self) {
        for _ in 0..2 {
            self.settler.send("GET /nope HTTP/1.1\r\nHost: h\r\n\r\n");
            let response = self.settler.read_response(false);
            assert_eq!(response.status, 404, "{response:?}");
        }
    }

    fn compare(&self, attempt: &Attempt, client: &mut Client) -> Result<(), String> {
        let Case { answers, end, .. } = attempt.case;
        for (number, &answer) in answers.iter().enumerate() {
            let response = read(client, answer, number)?;
            let is_last = number + 1 == answers.len();
            let end = if is_last { *end } else { End::Keep };
            check(&response, answer, end, self.listener).map_err(|error| format!("answer {number}: {error}"))?;
        }
        if *end == End::Keep {
            if attempt.followed {
                let response = read(client, full(200), answers.len())?;
                self.check_follower(&response)?;
            }
            if !attempt.shut {
                client.shutdown_write();
            }
        }
        match client.try_read_to_end() {
            Ok(rest) if rest.is_empty() => Ok(()),
            Ok(rest) => Err(format!("more than the answers: {}", rest.escape_ascii())),
            Err(error) => Err(format!("after the answers, instead of an orderly end: {error}")),
        }
    }
}

fn read(client: &mut Client, answer: Answer, number: usize) -> Result<Response, String> {
    client
        .try_read_response(answer.head_only)
        .map_err(|error| format!("answer {number} of {:?}: {error}", answer.statuses))
}

/// A send that fails is no failure yet: the server may have refused already. What counts is that
/// its answer arrives.
fn send_piece(attempt: &Attempt, client: &mut Client, step: usize) {
    let Attempt { bytes, cuts, .. } = attempt;
    if step > cuts.len() {
        return;
    }
    let from = if step == 0 { 0 } else { cuts[step - 1] };
    let to = cuts.get(step).copied().unwrap_or(bytes.len());
    let sent = client.try_send(&bytes[from..to]);
    if step == cuts.len() && attempt.shut && sent.is_ok() {
        // Refused where the server has closed and lingered to its end, which is fine as well.
        let _ = client.socket().shutdown(std::net::Shutdown::Write);
    }
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}

/// Long bodies and heads say nothing in their middle.
fn shorten(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= 900 {
        return text.to_owned();
    }
    let start: String = text.chars().take(400).collect();
    let end: String = text.chars().skip(chars - 400).collect();
    format!("{start} … {end}")
}

/// The failures as one text for a panic.
pub(super) fn told(failures: &[String]) -> String {
    let told: Vec<&str> = failures.iter().take(TOLD_MAX).map(String::as_str).collect();
    format!("{} failures, the first of them:\n{}", failures.len(), told.join("\n"))
}
