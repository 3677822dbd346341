//! What is kept of a status request that is answered later than it came: whose content is waited for, or
//! that asks to be told at once (`?wait=N`). Whatever wakes it, everything is decided anew.

use super::{PublicReply, StatusReader};
use crate::http::route;
use crate::http::session::{Context, Holding};
use crate::http::wait::{self, WaitSeconds};
use crate::vote::answer::Answer;
use crate::waiting::{Bell, WaitOutcome, WaitingPlace, WaitingRoom};

/// A request until it is answered.
pub struct HeldPath {
    /// Decoded. Its server and its address are looked for anew each time.
    path: Box<[u8]>,
    /// For how long it asks to wait.
    wait: Option<WaitSeconds>,
    /// Once it is held.
    place: Option<WaitingPlace>,
}

impl HeldPath {
    /// Takes parts of a head, not the whole: that would have to be put together in memory for every request.
    #[cold]
    #[inline(never)]
    pub(super) fn of(path: &[u8], query: Option<&[u8]>) -> Box<Self> {
        Box::new(Self { path: route::decode(path).into(), wait: query.and_then(wait::asked), place: None })
    }

    pub(super) const fn bytes(&self) -> usize {
        size_of::<Self>() + self.path.len()
    }
}

/// That a request waits, where it asks for it and has nothing else to be told.
#[cold]
#[inline(never)]
pub(super) fn wish(query: &[u8], reply: PublicReply) -> PublicReply {
    match wait::asked(query) {
        Some(seconds) if reply.can_vote() => PublicReply::Waiting(seconds),
        _ => reply,
    }
}

/// Where the requests of one worker wait.
pub(super) struct WorkerWaits {
    room: WaitingRoom,
    bell: Bell,
}

impl WorkerWaits {
    pub(super) const fn new(room: WaitingRoom, bell: Bell) -> Self {
        Self { room, bell }
    }

    /// What the request is answered now, or that it waits. The order is what keeps a vote from being missed:
    /// the interest is registered, then the table is looked at again. Each time, as a bell rings once, and the
    /// token may be another server's by now.
    #[cold]
    pub(super) fn decide(&self, kept: &mut HeldPath, reader: &mut StatusReader, context: &Context) -> PublicReply {
        let mut reply = reader.reply_again(&kept.path, context.now);
        let Some(seconds) = kept.wait else { return reply };
        if reply.can_vote() && context.holding == Holding::Allowed {
            kept.place = kept.place.take().or_else(|| self.room.enter());
            if let (Some(place), Some(pair)) = (&mut kept.place, reader.pair_at(&kept.path)) {
                place.register(pair, &self.bell, context.ticket.0);
                reply = reader.reply_again(&kept.path, context.now);
                if reply.can_vote() {
                    return PublicReply::Waiting(seconds);
                }
            }
        }
        match kept.place.take() {
            Some(place) => place.leave(match (reply, context.holding) {
                (PublicReply::Status(_, Answer::InCooldown { .. }), _) => WaitOutcome::Told,
                (_, Holding::TimeIsUp) => WaitOutcome::TimedOut,
                (_, Holding::Allowed | Holding::Ended) => WaitOutcome::Ended,
            }),
            None if !reply.can_vote() => {}
            None if context.holding == Holding::Allowed => self.room.count(WaitOutcome::Refused),
            None => self.room.count(WaitOutcome::Ended),
        }
        reply
    }
}
