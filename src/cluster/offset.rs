//! How far the store's clock is from the monotonic clock of this process, from the times that
//! questions took. Pure arithmetic: reads no clock.

/// Samples that are looked at; with one a second they are never older than this many seconds.
const SAMPLES: usize = 8;
/// What two samples may differ by beside their own uncertainty, in microseconds: more is a step.
const SLACK_US: i64 = 5_000;

#[derive(Clone, Copy, Debug)]
struct ClockSample {
    offset_us: i64,
    round_trip_us: i64,
}

/// The latest samples.
#[derive(Debug, Default)]
pub struct Offsets {
    samples: Vec<ClockSample>,
}

impl Offsets {
    /// The store said that it was `store_us`; the question left at `sent_us` of the monotonic clock,
    /// and the answer was there at `received_us`. Gives the best estimate of the store's time minus
    /// the monotonic clock: that of the shortest round trip, as its middle can be the least wrong.
    pub fn add(&mut self, store_us: i64, sent_us: i64, received_us: i64) -> i64 {
        let round_trip_us = (received_us - sent_us).max(0);
        let new = ClockSample { offset_us: store_us - sent_us - round_trip_us / 2, round_trip_us };
        // Two samples that differ by more than both can be wrong are of two clocks: it was set meanwhile.
        self.samples.retain(|old| {
            let apart_us = (old.offset_us - new.offset_us).abs();
            apart_us <= (old.round_trip_us + new.round_trip_us) / 2 + SLACK_US
        });
        if self.samples.len() == SAMPLES {
            self.samples.remove(0);
        }
        self.samples.push(new);
        let best = self.samples.iter().min_by_key(|sample| sample.round_trip_us);
        best.map_or(new.offset_us, |best| best.offset_us)
    }
}

#[cfg(test)]
mod tests {
    use super::Offsets;

    #[test]
    fn the_shortest_round_trip_of_the_last_eight_counts() {
        let mut offsets = Offsets::default();
        // The store is 1,000,000 ahead. A long way out and a short way back look like 300 more.
        assert_eq!(offsets.add(1_000_900, 0, 1_200), 1_000_300);
        assert_eq!(offsets.add(1_001_050, 1_000, 1_100), 1_000_000);
        for second in 2..9 {
            let sent = second * 1_000;
            assert_eq!(offsets.add(1_000_000 + sent + 300, sent, sent + 400), 1_000_000, "{second}");
        }
        // The best one has left the window.
        assert_eq!(offsets.add(1_009_300, 9_000, 9_400), 1_000_100);
    }

    #[test]
    fn a_step_is_followed_at_once_either_way() {
        let mut offsets = Offsets::default();
        assert_eq!(offsets.add(1_000_050, 0, 100), 1_000_000);
        assert_eq!(offsets.add(61_002_000, 1_000, 2_000), 61_000_500);
        assert_eq!(offsets.add(1_004_000, 3_000, 4_000), 1_000_500);
        assert_eq!(offsets.add(1_005_050, 5_000, 5_100), 1_000_000);
    }

    #[test]
    fn a_slow_drift_is_no_step() {
        let mut offsets = Offsets::default();
        let mut last = offsets.add(1_000_050, 0, 100);
        for second in 1..100 {
            let sent = second * 1_000_000;
            let new = offsets.add(1_000_000 + sent + 50 + second * 50, sent, sent + 100);
            assert!((new - last).abs() <= 500, "{second}");
            last = new;
        }
        assert!((1_004_500..=1_005_000).contains(&last), "{last}");
    }
}
