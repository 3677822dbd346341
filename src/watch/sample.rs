//! Counts the servers that one address asks about, by a sample of the questions. A plugin that mistakes its proxy's
//! address for its players' asks with one address for all players. So does each other plugin behind that proxy.
//!
//! Between two samples a question costs nothing. If a service has few questions, all are in the sample. The sample
//! keeps only a hash of an address; `watch` shows the address itself.

use std::hash::{BuildHasher, RandomState};

use crate::vote::id::ServerId;
use crate::vote::table::Pair;

/// Questions in one sample.
pub(super) const QUESTIONS: u32 = 16;
/// The time between the beginnings of two samples, in milliseconds.
pub(super) const PAUSE_MS: u64 = 500;
/// The length of a window, in milliseconds: then counting begins anew.
const WINDOW_MS: u64 = 3_600_000;
/// Addresses that are counted at a time. One with a thousandth of all questions is likely to be among them.
const ADDRESSES_MAX: usize = 1_000;
/// Servers that are counted for one address.
const SERVERS_MAX: usize = 64;

/// The sample, and what it has shown so far.
#[derive(Debug, Default)]
pub(super) struct QuestionSample {
    /// Questions that are still taken: up to [`QUESTIONS`].
    left: u32,
    next_ms: u64,
    /// When counting begins anew.
    until_ms: u64,
    /// The highest count of the window before.
    before: usize,
    /// The counted addresses, the oldest first.
    askers: Vec<Asker>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Asker {
    address_hash: u64,
    /// Each once, up to [`SERVERS_MAX`].
    servers: Vec<ServerId>,
}

impl QuestionSample {
    /// Whether questions are taken.
    pub(super) const fn is_open(&self) -> bool {
        self.left > 0
    }

    /// Begins a sample, if it is time for one; gives whether none was open before.
    pub(super) fn open(&mut self, now_ms: u64) -> bool {
        if now_ms < self.next_ms {
            return false;
        }
        if now_ms >= self.until_ms {
            (self.before, self.until_ms) = (self.most(), now_ms + WINDOW_MS);
            self.askers.clear();
        }
        self.next_ms = now_ms + PAUSE_MS;
        std::mem::replace(&mut self.left, QUESTIONS) == 0
    }

    /// Takes a question about a listed server; gives whether it is the last one of this sample.
    pub(super) fn take(&mut self, asked: Pair) -> bool {
        if !self.is_open() {
            return false;
        }
        self.left -= 1;
        self.count(asked);
        !self.is_open()
    }

    /// Most servers that one address has asked about, in this window or the one before; never too high.
    pub(super) fn shown(&self) -> usize {
        self.most().max(self.before)
    }

    fn most(&self) -> usize {
        self.askers.iter().map(|asker| asker.servers.len()).max().unwrap_or(0)
    }

    fn count(&mut self, Pair { server, address }: Pair) {
        let address_hash = self.hasher.hash_one(address);
        if let Some(asker) = self.askers.iter_mut().find(|asker| asker.address_hash == address_hash) {
            if asker.servers.len() < SERVERS_MAX && !asker.servers.contains(&server) {
                asker.servers.push(server);
            }
            return;
        }
        if self.askers.len() == ADDRESSES_MAX {
            // Drops the oldest of the addresses with fewest servers: one with many is never lost to passers-by.
            let fewest = self.askers.iter().enumerate().min_by_key(|(_, asker)| asker.servers.len());
            let index = fewest.map_or(0, |(index, _)| index);
            self.askers.remove(index);
        }
        self.askers.push(Asker { address_hash, servers: vec![server] });
    }
}

#[cfg(test)]
mod tests {
    use super::{ADDRESSES_MAX, PAUSE_MS, QUESTIONS, QuestionSample, SERVERS_MAX, WINDOW_MS};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::Pair;

    fn asked(server: u32, address: u32) -> Pair {
        Pair { server: ServerId(server), address: VoterAddress::V4(Ipv4(address)) }
    }

    #[test]
    fn a_sample_ends_by_itself_and_the_next_one_comes_in_time() {
        let mut sample = QuestionSample::default();
        assert!(!sample.is_open() && !sample.take(asked(1, 7)));
        assert!(sample.open(0));
        for number in 1..=QUESTIONS {
            assert_eq!(sample.take(asked(number, 7)), number == QUESTIONS, "{number}");
        }
        assert!(!sample.is_open() && !sample.take(asked(100, 7)));
        assert!(!sample.open(PAUSE_MS - 1) && !sample.is_open());
        assert!(sample.open(PAUSE_MS) && sample.is_open());
        // A sample that is still open is no news.
        assert!(!sample.open(2 * PAUSE_MS) && sample.is_open());
        assert_eq!(sample.shown(), QUESTIONS as usize);
    }

    #[test]
    fn one_address_among_many_is_found() {
        let mut sample = QuestionSample::default();
        let mut now_ms = 0;
        // A two-hundredth of the questions is the proxy's, about 30 servers. The others ask about three at most.
        for number in 0..60_000_u32 {
            if !sample.is_open() {
                now_ms += PAUSE_MS;
                assert!(sample.open(now_ms));
            }
            let is_proxy = number.is_multiple_of(200);
            sample.take(if is_proxy { asked(number / 200 % 30, 7) } else { asked(number % 3, 1_000 + number / 4) });
        }
        assert_eq!(sample.shown(), 30);
        assert!(sample.askers.len() <= ADDRESSES_MAX, "{}", sample.askers.len());
        // The proxy's count lasts for one window more, and no longer.
        assert!(now_ms < WINDOW_MS);
        for (windows, expected) in [(1, 30), (2, 1)] {
            sample.open(now_ms + windows * WINDOW_MS);
            sample.take(asked(1, 8));
            assert_eq!(sample.shown(), expected, "{windows} later");
        }
    }

    #[test]
    fn the_servers_of_one_address_are_bounded() {
        let mut sample = QuestionSample::default();
        for number in 0..1_000 {
            sample.open(u64::from(number) * PAUSE_MS);
            sample.take(asked(number, 7));
        }
        assert_eq!((sample.shown(), sample.askers[0].servers.len()), (SERVERS_MAX, SERVERS_MAX));
    }
}
