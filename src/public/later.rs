//! Status requests that are answered later than their head came: their content comes first, or the client waits for a
//! vote (`?wait=N`). Whatever wakes such a request, the service decides everything anew.

use super::{PublicExchange, PublicReply, StatusReader};
use crate::http::route;
use crate::http::session::{Context, Waiting};
use crate::http::wait::{self, WaitSeconds};
use crate::vote::answer::Answer;
use crate::waiting::{Bell, WaitOutcome, WaitingList, WaitingSlot};

/// A request until it is answered.
pub struct LaterPath {
    /// The decoded path. Server and address are looked up anew each time.
    path: Box<[u8]>,
    /// The time that the client asks to wait.
    wait: Option<WaitSeconds>,
    /// Set once it waits.
    slot: Option<WaitingSlot>,
}

/// The exchange of a request with a query or content. Content may come minutes later, and the answer must not tell a
/// vote that was cancelled meanwhile. The function takes parts of a head: the whole would have to be put together in
/// memory for every request.
#[cold]
#[inline(never)]
pub(super) fn exchange(path: &[u8], query: Option<&[u8]>, has_content: bool, reply: PublicReply) -> PublicExchange {
    let wait = query.and_then(wait::asked);
    if (has_content && reply.is_of_its_moment()) || (wait.is_some() && reply.can_vote()) {
        PublicExchange::Later(Box::new(LaterPath { path: route::decode(path).into(), wait, slot: None }))
    } else {
        PublicExchange::Ready(reply)
    }
}

impl LaterPath {
    pub(super) const fn used_bytes(&self) -> usize {
        size_of::<Self>() + self.path.len()
    }
}

/// The decision on a request.
pub(super) enum Decision {
    /// The request is answered.
    Reply(PublicReply),
    /// The request waits on, for this time at most.
    Wait(WaitSeconds),
}

/// The waiting requests of one worker.
pub(super) struct WorkerWaits {
    list: WaitingList,
    bell: Bell,
}

impl WorkerWaits {
    pub(super) const fn new(list: WaitingList, bell: Bell) -> Self {
        Self { list, bell }
    }

    /// The answer of now, or the decision to wait. So that no vote is missed, the function first registers the
    /// interest and then reads directory and table again. If the token has moved to another server meanwhile,
    /// it registers the interest anew. A bell rings once, so this is done each time.
    #[cold]
    pub(super) fn decide(&self, later: &mut LaterPath, reader: &mut StatusReader, context: &Context<'_>) -> Decision {
        let mut reply = reader.reply_again(&later.path, context.now);
        let Some(seconds) = later.wait else { return Decision::Reply(reply) };
        if reply.can_vote() && context.waiting == Waiting::Allowed {
            later.slot = later.slot.take().or_else(|| self.list.enter());
            let mut asked = reader.pair_at(&later.path);
            while let (Some(slot), Some(pair), true) = (&mut later.slot, asked, reply.can_vote()) {
                slot.register(pair, &self.bell, context.ticket.0);
                asked = reader.pair_at(&later.path);
                reply = reader.reply_again(&later.path, context.now);
                if asked == Some(pair) && reply.can_vote() {
                    return Decision::Wait(seconds);
                }
            }
        }
        match later.slot.take() {
            Some(slot) => slot.leave(match (reply, context.waiting) {
                (PublicReply::Status(_, Answer::InCooldown { .. }), _) => WaitOutcome::Told,
                (_, Waiting::TimeIsUp) => WaitOutcome::TimedOut,
                (_, Waiting::Allowed | Waiting::Ended) => WaitOutcome::Ended,
            }),
            None if !reply.can_vote() => {}
            None if context.waiting == Waiting::Allowed => self.list.count(WaitOutcome::Refused),
            None => self.list.count(WaitOutcome::Ended),
        }
        Decision::Reply(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, WorkerWaits, exchange};
    use crate::http::session::{Context, Ticket, Waiting};
    use crate::metrics::answers::Variant;
    use crate::public::{PublicExchange, PublicReply, StatusReader};
    use crate::readiness::Readiness;
    use crate::vote::address::VoterAddress;
    use crate::vote::answer::Answer;
    use crate::vote::directory::{Directory, Snapshot};
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::{CooldownTable, Pair};
    use crate::vote::time::UnixSeconds;
    use crate::waiting::WaitingList;
    use parking_lot::Mutex;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread::scope;

    /// Two servers. `server` has the token of the request.
    fn listed(server: u32) -> Snapshot {
        let mut servers = Directory::default().snapshot().as_ref().clone();
        for (id, token) in [(server, "demo"), (3 - server, "other")] {
            servers.insert(ServerId(id), Token::new(token).expect("a token"));
        }
        servers
    }

    const fn pair(server: u32) -> Pair {
        Pair { server: ServerId(server), address: VoterAddress::V4(Ipv4(0xCB00_7107)) }
    }

    /// Regression: if a token moved to another server after the look-up of the pair and before the registration, the
    /// request waited for a vote for the old server.
    #[test]
    fn a_request_waits_for_the_server_that_has_its_token_now() {
        let (mut directory, table, readiness) = (Directory::default(), CooldownTable::default(), Readiness::default());
        directory.publish(listed(1));
        readiness.set_loaded();
        let mut reader = StatusReader::new(directory.view(), table.view(), readiness);
        let directory = Mutex::new(directory);
        let list = WaitingList::default();
        list.set_slots(2);
        // Another request waits for another pair: the list is looked through for it below.
        let mut other = list.enter().expect("a slot");
        let rung = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&rung);
        let waits = WorkerWaits::new(
            list.clone(),
            Arc::new(move |tickets| {
                counted.fetch_add(tickets.len(), Ordering::SeqCst);
            }),
        );
        let client = None;
        let context = Context { now: UnixSeconds(7), ticket: Ticket(1), waiting: Waiting::Allowed, client: &client };
        for round in 0..200 {
            other.register(pair(9), &waits.bell, 9);
            directory.lock().publish(listed(1));
            let path = b"/api/servers/demo/vote-status/203.0.113.7";
            let can_vote = PublicReply::Status(Variant::Token, Answer::CanVote);
            let PublicExchange::Later(mut later) = exchange(path, Some(b"wait=50"), false, can_vote) else {
                panic!("it asks to wait")
            };
            assert!(matches!(waits.decide(&mut later, &mut reader, &context), Decision::Wait(_)));
            list.tell(pair(1));
            assert_eq!(rung.swap(0, Ordering::SeqCst), 1);
            let is_closed = AtomicBool::new(false);
            scope(|scope| {
                // While the list is looked through, no request can register. The token moves then, later each round.
                scope.spawn(|| {
                    list.tell_where(|_| {
                        is_closed.store(true, Ordering::SeqCst);
                        (0..round * 100).for_each(|_| std::hint::spin_loop());
                        directory.lock().publish(listed(2));
                        false
                    });
                });
                while !is_closed.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                assert!(matches!(waits.decide(&mut later, &mut reader, &context), Decision::Wait(_)));
            });
            list.tell(pair(2));
            assert_eq!(rung.swap(0, Ordering::SeqCst), 1, "round {round}: a vote is not told of");
        }
    }
}
