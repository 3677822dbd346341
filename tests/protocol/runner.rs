//! Sends cases in every way a network may cut them, and compares the answers. Knows sockets and the
//! order of things; must not know the subject of any single case.

use super::case::{Answer, CONTINUE, Case, End, full};
use crate::util::answers::CAN_VOTE;
use crate::util::checks::{Closed, KeptAlive, Open, head};
use crate::util::client::Client;
use crate::util::response::Response;
use std::net::SocketAddr;

/// The request behind a case. Its answer is unlike every expected answer of a case, so that it cannot be taken for one.
const FOLLOWER: &[u8] = b"GET /api/vote/1/status/5.6.7.8 HTTP/1.1\r\nHost: behind\r\n\r\n";
const FOLLOWER_ANSWER: &str = r#"{"success":false,"can_vote":false,"message":"Vous pourrez"#;
/// The most connections that are open at once.
const WAVE: usize = 256;
/// Up to this size a case is cut at every byte. A longer one is cut near both of its ends and here and
/// there between.
const CUT_EVERYWHERE_MAX: usize = 700;
const CUT_NEAR_THE_ENDS: usize = 150;
const CUT_STRIDE: usize = 6_007;

/// The listener of a running server with a single worker, which makes [`Target::settle`] exact.
pub(super) struct Target {
    addr: SocketAddr,
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
    /// Whether the request that shows a kept connection follows the case's own.
    followed: bool,
    /// Whether the sending side is shut right behind the last byte.
    shut: bool,
}

impl<'c> Attempt<'c> {
    fn new(case: &'c Case, way: impl Into<String>, cuts: Vec<usize>, followed: bool, shut: bool) -> Attempt<'c> {
        let bytes = [&case.bytes[..], if followed { FOLLOWER } else { b"" }].concat();
        Attempt { case, way: way.into(), bytes, cuts, followed, shut }
    }

    fn uncut(case: &'c Case) -> Vec<Attempt<'c>> {
        let mut attempts = vec![
            Attempt::new(case, "in one piece", Vec::new(), true, false),
            Attempt::new(case, "in one piece, then shut", Vec::new(), true, true),
        ];
        if case.end == End::Keep {
            attempts.push(Attempt::new(case, "alone, then shut", Vec::new(), false, true));
        }
        attempts
    }

    fn byte_by_byte(case: &'c Case) -> Attempt<'c> {
        Attempt::new(case, "byte by byte", (1..case.bytes.len() + FOLLOWER.len()).collect(), true, false)
    }

    /// Two segments. The cut moves through the case, up to the first byte behind it.
    fn cut_everywhere(case: &'c Case) -> Vec<Attempt<'c>> {
        let own = case.bytes.len();
        let is_cut = |cut: &usize| {
            own <= CUT_EVERYWHERE_MAX
                || *cut <= CUT_NEAR_THE_ENDS
                || cut + CUT_NEAR_THE_ENDS > own
                || cut.is_multiple_of(CUT_STRIDE)
        };
        let cuts = (1..=own).filter(is_cut);
        cuts.map(|cut| Attempt::new(case, format!("cut at {cut}"), vec![cut], true, cut % 2 == 0)).collect()
    }
}

impl Target {
    pub(super) fn new(addr: SocketAddr) -> Target {
        Target { addr, settler: Client::connect(addr) }
    }

    /// Runs every case in every way, and gives the failures in words.
    pub(super) fn run(&mut self, cases: &[Case]) -> Vec<String> {
        let mut failures = Vec::new();
        let mut sound = Vec::new();
        for case in cases {
            let failed = self.wave(&Attempt::uncut(case));
            if failed.is_empty() {
                sound.push(case);
            }
            failures.extend(failed);
        }
        // A case that fails in one piece would fail again in each other way, each time by a deadline.
        for wave in sound.chunks(WAVE) {
            let attempts: Vec<Attempt> = wave
                .iter()
                .filter(|case| case.bytes.len() <= CUT_EVERYWHERE_MAX)
                .map(|case| Attempt::byte_by_byte(case))
                .collect();
            failures.extend(self.wave(&attempts));
        }
        for case in sound {
            for wave in Attempt::cut_everywhere(case).chunks(WAVE) {
                failures.extend(self.wave(wave));
            }
        }
        failures
    }

    /// Opens the attempts' connections and sends their pieces in step. The server has read one
    /// piece of all connections before the next piece is sent.
    fn wave(&mut self, attempts: &[Attempt]) -> Vec<String> {
        let mut clients: Vec<Client> = attempts.iter().map(|_| Client::connect(self.addr)).collect();
        // Connected behind them all: the server answers it once it has accepted them, only some in each turn.
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
        let mut failures = Vec::new();
        for (attempt, mut client) in attempts.iter().zip(clients) {
            if let Err(failure) = Self::compare(attempt, &mut client) {
                let Attempt { case, way, bytes, .. } = attempt;
                let bytes = bytes.escape_ascii().to_string();
                failures.push(format!("{}, {way}: {failure:.900}\n    sent {bytes:.900}", case.name));
            }
        }
        failures
    }

    /// Makes two round trips. When the second is answered, the one worker has read everything that
    /// was readable before the first.
    fn settle(&mut self) {
        for _ in 0..2 {
            self.settler.send("GET /nope HTTP/1.1\r\nHost: h\r\n\r\n");
            let response = self.settler.read_response(false);
            assert_eq!(response.status, 404, "{response:?}");
        }
    }

    fn compare(attempt: &Attempt, client: &mut Client) -> Result<(), String> {
        let Case { answers, end, .. } = attempt.case;
        for (number, &answer) in answers.iter().enumerate() {
            let response = read(client, answer, number)?;
            let is_last = number + 1 == answers.len();
            let end = if is_last { *end } else { End::Keep };
            check(&response, answer, end).map_err(|error| format!("answer {number}: {error}"))?;
        }
        if *end == End::Keep {
            if attempt.followed {
                let response = read(client, full(&CAN_VOTE), answers.len())?;
                let is_own = response.text().starts_with(FOLLOWER_ANSWER) && !response.says_close();
                if response.status != 200 || !is_own {
                    return Err(format!("the request behind was answered {response:?}"));
                }
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
        .map_err(|error| format!("answer {number}, {}: {error}", answer.outcome.status))
}

/// Compares an answer byte for byte; `end` is what the connection is about to do after it.
fn check(response: &Response, expected: Answer, end: End) -> Result<(), String> {
    let Answer { outcome, head_only } = expected;
    if *outcome == CONTINUE {
        return equal(&response.raw_head, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    let date = response.header("Date").ok_or("no Date")?;
    let after = match (end, response.header("Connection")) {
        (End::Close, _) => Closed,
        // The answer to an HTTP/1.0 client that asked for it.
        (End::Keep, Some("keep-alive")) => KeptAlive,
        (End::Keep, _) => Open,
    };
    equal(&response.raw_head, &head(outcome, date, after))?;
    equal(response.text(), if head_only { "" } else { outcome.body })
}

fn equal(got: &str, expected: &str) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("got {got:?} instead of {expected:?}")) }
}

/// Sends one piece. A send that fails is no failure yet, as the server may have refused already. Only
/// the arrival of its answer counts.
fn send_piece(attempt: &Attempt, client: &mut Client, step: usize) {
    let Attempt { bytes, cuts, .. } = attempt;
    if step > cuts.len() {
        return;
    }
    let from = if step == 0 { 0 } else { cuts[step - 1] };
    let to = cuts.get(step).copied().unwrap_or(bytes.len());
    let sent = client.try_send(&bytes[from..to]);
    if step == cuts.len() && attempt.shut && sent.is_ok() {
        // The system refuses this where the server has closed and lingered to its end, which is fine as well.
        let _ = client.socket().shutdown(std::net::Shutdown::Write);
    }
}
