//! The thread of one of a node's two connections: it carries questions to the store and answers back, and decides nothing. It
//! sends all waiting questions in one write, and reads their replies before the next write.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use super::address::{Host, StoreAddress};
use super::entry::number;
use super::keys;
use super::link::{LinkError, StoreLink};
use super::node::output::NodeLine;
use super::primary::{Look, Primary};
use super::reply_reader;
use super::resp::{self, Value};
use super::socket::SocketCloser;
use super::wire::answer::{Done, StoreAnswer, StoreReply};
use super::wire::question::StoreQuestion;
use crate::clock::Clock;

/// The longest wait for a reply. The node's machine gives up earlier; this bounds the replies that the machine does not wait for.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after entries have come. Every entry wakes every node: the pause lets several entries come together, and leaves the
/// store time for votes.
const NAP: Duration = Duration::from_millis(1);

/// An order to a line. Each connection has a number, by which a line tells orders for an earlier one.
pub(super) enum LineOrder {
    /// Connect, to this machine if it is known.
    Connect(u64, Option<Host>),
    /// Ask this question.
    Ask(u64, StoreQuestion),
}

/// News of a line, with the number of its connection.
pub(super) struct LineNews {
    pub(super) line: NodeLine,
    pub(super) connection: u64,
    pub(super) what: Learnt,
}

/// The content of [`LineNews`].
pub(super) enum Learnt {
    /// The connection is open: its closer, its machine, and the id of the store's process there.
    Connected(SocketCloser, Host, String),
    /// The connection could not be made, or is lost.
    Lost(LinkError),
    /// An answer.
    Answered(LineAnswer),
    /// A part of an answer has come.
    Progressed,
    /// The primary's report of itself.
    Looked(Look),
}

/// An answer.
pub(super) struct LineAnswer {
    pub(super) answer: StoreAnswer,
    /// When the question left and when the answer was there, in microseconds of the monotonic clock.
    pub(super) asked_us: u64,
    pub(super) answered_us: u64,
    /// The bits of a change that too few replicas hold.
    pub(super) unconfirmed: Option<i64>,
}

/// A connection's thread.
pub(super) struct Line {
    line: NodeLine,
    address: StoreAddress,
    orders: Receiver<LineOrder>,
    /// Gives news to the recorder.
    tell: Box<dyn Fn(LineNews) + Send>,
    clock: Clock,
    /// How long a change waits until a replica holds it too, in milliseconds; `None` for no wait.
    confirm_ms: Option<u64>,
    /// The number of looks at the store.
    looks: usize,
}

impl Line {
    /// A line that has not connected yet.
    pub(super) fn new(
        line: NodeLine,
        address: StoreAddress,
        orders: Receiver<LineOrder>,
        tell: Box<dyn Fn(LineNews) + Send>,
        clock: Clock,
        confirm_ms: Option<u64>,
    ) -> Self {
        Self { line, address, orders, tell, clock, confirm_ms, looks: 0 }
    }

    /// Runs until no more orders can come.
    pub(super) fn run(mut self) {
        let mut open: Option<(u64, Primary)> = None;
        while let Ok(first) = self.orders.recv() {
            let mut questions = Vec::new();
            let mut next = Some(first);
            while let Some(order) = next {
                match order {
                    LineOrder::Connect(connection, host) => {
                        questions.clear();
                        open = self.connect(connection, host.as_ref()).map(|primary| (connection, primary));
                    }
                    LineOrder::Ask(asked_on, question) => {
                        let is_open = open.as_ref().is_some_and(|(connection, _)| *connection == asked_on);
                        questions.extend(is_open.then_some(question));
                    }
                }
                next = self.orders.try_recv().ok();
            }
            let Some((connection, primary)) = open.as_mut().filter(|_| !questions.is_empty()) else { continue };
            let connection = *connection;
            if let Err(error) = self.exchange(connection, primary, &questions) {
                open = None;
                self.learnt(connection, Learnt::Lost(error));
            }
        }
    }

    fn learnt(&self, connection: u64, what: Learnt) {
        (self.tell)(LineNews { line: self.line, connection, what });
    }

    fn connect(&self, connection: u64, host: Option<&Host>) -> Option<Primary> {
        let opened = self.open(host).and_then(|(primary, look)| {
            let closer = primary.link.closer()?;
            Ok((primary, look, closer))
        });
        match opened {
            Ok((primary, look, closer)) => {
                self.learnt(
                    connection,
                    Learnt::Connected(closer, primary.link.host().clone(), primary.role.run_id.clone()),
                );
                if let Some(look) = look {
                    self.learnt(connection, Learnt::Looked(look));
                }
                Some(primary)
            }
            Err(error) => {
                self.learnt(connection, Learnt::Lost(error));
                None
            }
        }
    }

    /// The feed finds the primary and sees to its functions; the votes' line connects to the feed's machine.
    fn open(&self, host: Option<&Host>) -> Result<(Primary, Option<Look>), LinkError> {
        let mut primary = match host {
            Some(host) => Primary::at(&self.address, host)?,
            None => Primary::open(&self.address)?,
        };
        let look = match self.line {
            NodeLine::Feed => Some(primary.prepare()?),
            NodeLine::Votes => None,
        };
        primary.link.set_timeout(TIMEOUT)?;
        Ok((primary, look))
    }

    fn exchange(
        &mut self,
        connection: u64,
        primary: &mut Primary,
        questions: &[StoreQuestion],
    ) -> Result<(), LinkError> {
        let asked_us = self.clock.now().monotonic_us;
        let mut packed = Vec::new();
        for question in questions {
            resp::pack(&question.words(), &mut packed);
        }
        let is_change = |question: &StoreQuestion| matches!(question, StoreQuestion::Change(..));
        // A fact that is given back needs no confirmation: every node that knows it writes it.
        let confirm_ms = self.confirm_ms.filter(|_| self.line == NodeLine::Votes && questions.iter().any(is_change));
        if let Some(confirm_ms) = confirm_ms {
            resp::pack(&wait(confirm_ms), &mut packed);
        }
        primary.link.send(&packed)?;
        let (mut held, mut is_news, mut is_to_look) = (Vec::new(), false, false);
        for question in questions {
            let answer = self.answer(connection, &mut primary.link, question)?;
            is_news |= matches!(&answer.reply, StoreReply::Log(items) if !items.is_empty());
            is_to_look |= matches!(question, StoreQuestion::Node(..));
            if confirm_ms.is_some() && is_change(question) {
                held.push((question, answer));
            } else {
                self.answered(connection, answer, asked_us, None);
            }
        }
        if let Some(confirm_ms) = confirm_ms {
            let is_confirmed = self.is_confirmed(&mut primary.link, confirm_ms, &held)?;
            for (question, answer) in held {
                let bits = if let StoreQuestion::Change(_, _, terms) = question { Some(terms.bits) } else { None };
                self.answered(connection, answer, asked_us, bits.filter(|_| !is_confirmed));
            }
        }
        if is_to_look {
            self.looks += 1;
            let look = primary.look(&self.address, self.looks)?;
            self.learnt(connection, Learnt::Looked(look));
        }
        if is_news {
            thread::sleep(NAP);
        }
        Ok(())
    }

    fn answered(&self, connection: u64, answer: StoreAnswer, asked_us: u64, unconfirmed: Option<i64>) {
        let answered_us = self.clock.now().monotonic_us;
        self.learnt(connection, Learnt::Answered(LineAnswer { answer, asked_us, answered_us, unconfirmed }));
    }

    fn answer(
        &self,
        connection: u64,
        link: &mut StoreLink,
        question: &StoreQuestion,
    ) -> Result<StoreAnswer, LinkError> {
        reply_reader::answer(link, question, &|| self.learnt(connection, Learnt::Progressed))
    }

    /// Whether a replica holds these changes. Newer stores confirm only writes of this connection. So if a vote was there
    /// already, the line makes a write that changes nothing.
    fn is_confirmed(
        &self,
        link: &mut StoreLink,
        confirm_ms: u64,
        changes: &[(&StoreQuestion, StoreAnswer)],
    ) -> Result<bool, LinkError> {
        let is_confirmed = holds_a_replica(&link.read_value()?);
        let is_there = |answer: &StoreAnswer| matches!(answer.reply, StoreReply::Done(Done::Unchanged(_), _));
        if !is_confirmed || !changes.iter().any(|(_, answer)| is_there(answer)) {
            return Ok(is_confirmed);
        }
        let (replies, lost) = link.ask_all([self.touch(), wait(confirm_ms)]);
        if let Some(lost) = lost {
            return Err(lost);
        }
        Ok(matches!(replies.as_slice(), [Ok(_), Ok(replicas)] if holds_a_replica(replicas)))
    }

    /// A write that changes no vote and no server. Its score is a new one each time, as a store sends its replicas only changes.
    fn touch(&self) -> Vec<String> {
        let now = self.clock.now();
        let place = format!("{}.{:06}", now.wall.0, now.monotonic_us % 1_000_000);
        ["ZADD", keys::GONE, &place, "touched"].map(str::to_owned).to_vec()
    }
}

/// The command that waits until a replica holds the earlier writes of the connection.
fn wait(confirm_ms: u64) -> Vec<String> {
    ["WAIT", "1", &confirm_ms.to_string()].map(str::to_owned).to_vec()
}

/// Whether the reply to [`wait`] says that a replica holds them.
fn holds_a_replica(replicas: &Value) -> bool {
    number(replicas).is_some_and(|replicas| replicas > 0)
}
