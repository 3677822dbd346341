//! `GET /v1/watch`: questions and votes, a line each, for as long as the client reads them.
//!
//! Once every [`PACE_MS`], the control worker wakes the connection of each watcher with waiting lines.

use super::reply::ControlAnswer;
use super::stream::{append_lines, append_stream_end, append_stream_head};
use crate::clock::Now;
use crate::http::response::Framing;
use crate::http::session::{Step, Ticket};
use crate::net::mailbox::{Letter, Mailbox};
use crate::watch::{PACE_MS, WATCHERS_MAX, WatchBoard, WatchFilter, WatchSeat};

const PARKED: Step = Step::Parked { ends_with_input: true };

/// One answer to a watcher, from its head to its end.
pub struct WatchStream {
    seat: WatchSeat,
    is_begun: bool,
}

/// Wakes the watchers.
pub struct WatchDesk {
    board: WatchBoard,
    mailbox: Mailbox,
    next_round_ms: u64,
    /// All streams end.
    is_closed: bool,
}

impl WatchDesk {
    /// The desk of the worker that `mailbox` reaches.
    #[must_use]
    pub fn new(board: WatchBoard, mailbox: Mailbox) -> Self {
        Self { board, mailbox, next_round_ms: 0, is_closed: false }
    }

    /// Adds a watcher.
    ///
    /// # Errors
    /// The answer if there are [`WATCHERS_MAX`] already.
    pub fn begin(&mut self, filter: WatchFilter, ticket: Ticket, now_ms: u64) -> Result<WatchStream, ControlAnswer> {
        let Some(seat) = self.board.sit(filter, ticket.0, now_ms) else {
            let message = format!("{WATCHERS_MAX} watch already: end one of them, or try again when one has gone");
            return Err(ControlAnswer::error(503, "too_many_watchers", &message).with(("Retry-After", "5")));
        };
        Ok(WatchStream { seat, is_begun: false })
    }

    /// Ends every stream in order; streams that begin later end at once.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.wake(u64::MAX);
    }

    /// The longest rest of the worker, in milliseconds: while a client watches, until the next round.
    #[must_use]
    pub fn rest_ms(&self) -> Option<u64> {
        let [watchers, ..] = self.board.counted();
        (watchers > 0).then_some(PACE_MS)
    }

    /// Wakes the watchers with waiting lines, once every [`PACE_MS`].
    pub fn turn_begins(&mut self, now_ms: u64) {
        if now_ms >= self.next_round_ms {
            self.next_round_ms = now_ms + PACE_MS;
            self.wake(now_ms);
        }
    }

    /// Wakes the watchers that are due by then.
    fn wake(&self, now_ms: u64) {
        let due = self.board.due(now_ms).into_iter();
        due.for_each(|ticket| self.mailbox.send(Letter::Wake(Ticket(ticket))));
    }

    /// Appends the head, and the lines that wait for this watcher.
    pub fn append(&mut self, stream: &mut WatchStream, framing: Framing, now: Now, out: &mut Vec<u8>) -> Step {
        if !std::mem::replace(&mut stream.is_begun, true) {
            append_stream_head(framing, now.wall, out);
            if framing.head_only {
                return Step::Done;
            }
        }
        append_lines(framing, stream.seat.take(now.wall, now.monotonic_ms).as_bytes(), out);
        if !self.is_closed {
            return PARKED;
        }
        append_stream_end(framing, out);
        Step::Done
    }
}

#[cfg(test)]
mod tests {
    use super::{PARKED, WatchDesk};
    use crate::clock::Now;
    use crate::http::response::{ConnectionField, Framing};
    use crate::http::session::Ticket;
    use crate::net::mailbox::Mailbox;
    use crate::vote::id::ServerId;
    use crate::vote::time::UnixSeconds;
    use crate::watch::{ALIVE_MS, PACE_MS, Seen, WAITING_BYTES_MAX, WatchBoard, WatchFilter};
    use mio::{Poll, Token};

    const FRAMING: Framing = Framing { head_only: false, http_1_0: true, connection: ConnectionField::Close };

    fn at(monotonic_ms: u64) -> Now {
        Now { monotonic_ms, monotonic_us: 1_000 * monotonic_ms, wall: UnixSeconds(1_795_178_096) }
    }

    #[test]
    fn who_takes_nothing_is_told_what_it_has_missed() {
        let poll = Poll::new().expect("a poll");
        let mailbox = Mailbox::new(&poll, Token(0)).expect("a mailbox");
        let board = WatchBoard::default();
        let mut desk = WatchDesk::new(board.clone(), mailbox);
        let mut post = board.post();
        let mut watchers: Vec<_> =
            (0..3).filter_map(|number| desk.begin(WatchFilter::default(), Ticket(number), 0).ok()).collect();
        assert!(post.look());
        let mut now_ms = 0;
        let mut rounds = |desk: &mut WatchDesk, sightings: usize| {
            for _ in 0..sightings {
                post.note(UnixSeconds(1_795_178_096), Seen::Registration(ServerId(1_000_000)));
            }
            now_ms += PACE_MS;
            desk.turn_begins(now_ms);
            now_ms
        };
        const LINE: &str = r#"{"at":"2026-11-20T12:34:56Z","kind":"registration","server_id":1000000}"#;
        const SEEN: usize = 100_000;
        let now_ms = rounds(&mut desk, SEEN);
        assert!(watchers[1].seat.take(UnixSeconds(0), 0).capacity() <= 2 * WAITING_BYTES_MAX);
        let mut out = Vec::new();
        assert_eq!(desk.append(&mut watchers[0], FRAMING, at(now_ms), &mut out), PARKED);
        let fit = WAITING_BYTES_MAX / (LINE.len() + 1);
        let told = String::from_utf8(out).expect("ASCII");
        let body = told.split_once("\r\n\r\n").expect("a head").1;
        let missed = format!(r#"{{"kind":"dropped","lines":{}}}"#, SEEN - fit);
        assert_eq!(body, format!("{}{missed}\n", format!("{LINE}\n").repeat(fit)));
        assert_eq!(board.counted(), [3, 3 * fit, 3 * (SEEN - fit)].map(|count| count as u64));
        // A watcher that has taken its lines misses none from then on.
        let now_ms = rounds(&mut desk, 1);
        let mut out = Vec::new();
        desk.append(&mut watchers[0], FRAMING, at(now_ms), &mut out);
        assert_eq!(out, format!("{LINE}\n").into_bytes());
        // The seats of watchers that have gone count as free.
        watchers.truncate(1);
        rounds(&mut desk, 0);
        assert_eq!((board.counted()[0], desk.rest_ms()), (1, Some(PACE_MS)));
        drop(watchers);
        assert_eq!((board.counted()[0], desk.rest_ms()), (0, None));
    }

    #[test]
    fn a_line_says_that_there_is_somebody() {
        let poll = Poll::new().expect("a poll");
        let mailbox = Mailbox::new(&poll, Token(0)).expect("a mailbox");
        let mut desk = WatchDesk::new(WatchBoard::default(), mailbox.clone());
        let mut stream = desk.begin(WatchFilter::default(), Ticket(7), 0).expect("a place");
        desk.append(&mut stream, FRAMING, at(0), &mut Vec::new());
        let woken_at = |desk: &mut WatchDesk, now_ms| {
            desk.turn_begins(now_ms);
            let mut letters = Vec::new();
            mailbox.take(&mut letters);
            letters.len()
        };
        assert_eq!(woken_at(&mut desk, ALIVE_MS - 1), 0);
        assert_eq!(woken_at(&mut desk, ALIVE_MS + PACE_MS), 1);
        // Only once, until the watcher has taken the line.
        assert_eq!(woken_at(&mut desk, 2 * ALIVE_MS), 0);
        let mut out = Vec::new();
        assert_eq!(desk.append(&mut stream, FRAMING, at(2 * ALIVE_MS), &mut out), PARKED);
        assert_eq!(out, b"{\"at\":\"2026-11-20T12:34:56Z\",\"kind\":\"alive\"}\n");
        assert_eq!(woken_at(&mut desk, 3 * ALIVE_MS - 1), 0);
        assert_eq!(woken_at(&mut desk, 3 * ALIVE_MS + PACE_MS), 1);
    }
}
