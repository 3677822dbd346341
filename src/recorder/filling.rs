//! Fills the table with the votes that a start reads. Putting a vote into memory takes about as long as reading its
//! row. So with many votes, a second thread puts them in while the recorder's thread reads.

use std::mem;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use crate::vote::table::{CooldownTable, Cooling, Loader};

/// Votes that are handed over to the second thread at once. Fewer in all need no second thread.
const PIECE_VOTES: usize = 4_096;
/// The most pieces that wait to be put in, so that neither thread waits for the other's short pauses.
const PIECES_MAX: usize = 8;

/// Fills `table` with the votes that `read` passes on, and returns the result of `read`.
pub(super) fn fill<T>(table: &mut CooldownTable, read: impl FnOnce(&mut dyn FnMut(Cooling)) -> T) -> T {
    let (sender, pieces) = sync_channel(PIECES_MAX);
    let mut piece = Vec::new();
    let mut waiting = Some((table.loader(), pieces));
    thread::scope(|threads| {
        // If the other thread has panicked, it takes no piece, and the scope panics as well.
        let hand_over = |piece: &mut Vec<Cooling>| {
            let _gone = sender.send(mem::take(piece));
        };
        let outcome = read(&mut |vote| {
            piece.push(vote);
            if piece.len() == PIECE_VOTES {
                hand_over(&mut piece);
                if let Some((loader, pieces)) = waiting.take() {
                    threads.spawn(move || put_in(loader, pieces));
                }
            }
        });
        hand_over(&mut piece);
        drop(sender);
        if let Some((loader, pieces)) = waiting.take() {
            put_in(loader, pieces);
        }
        outcome
    })
}

/// Puts in all pieces, up to the last.
fn put_in(mut loader: Loader<'_>, pieces: Receiver<Vec<Cooling>>) {
    pieces.into_iter().flatten().for_each(|vote| loader.put(vote));
    loader.finish();
}

#[cfg(test)]
mod tests {
    use super::{PIECE_VOTES, PIECES_MAX, fill};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::{CooldownTable, Cooling, Pair};
    use crate::vote::time::UnixSeconds;

    #[test]
    fn few_votes_and_many_come_into_the_table_and_of_two_the_later_stays() {
        let vote = |number: usize, ends: u32| Cooling {
            pair: Pair {
                server: ServerId(1),
                address: VoterAddress::V4(Ipv4(u32::try_from(number).expect("a small number"))),
            },
            expires_at: UnixSeconds(ends),
        };
        for count in [0, 1, PIECE_VOTES - 1, PIECE_VOTES, 3 * (PIECES_MAX + 2) * PIECE_VOTES + 5] {
            let mut table = CooldownTable::default();
            let outcome = fill(&mut table, |put| {
                (0..count).for_each(|number| put(vote(number, 10)));
                (0..count).for_each(|number| put(vote(number, if number % 2 == 0 { 20 } else { 5 })));
                count
            });
            assert_eq!((outcome, table.view().len()), (count, count));
            for number in 0..count {
                let ends = UnixSeconds(if number % 2 == 0 { 20 } else { 10 });
                assert_eq!(table.expires_at(vote(number, 0).pair), Some(ends), "{number} of {count}");
            }
        }
    }
}
