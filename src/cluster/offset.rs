//! The offset of the store's clock from the monotonic clock of this process, by the times that questions took. Pure arithmetic:
//! this module reads no clock.

/// Estimates the store's time minus the monotonic clock. A question left at `sent_us` of the monotonic clock, and its answer,
/// with the store's time `store_us`, came at `received_us`. The store read its clock between the two, so a known estimate within
/// these bounds stays. If it is outside, the clock was set or has drifted: then the middle has the smallest possible error.
#[must_use]
pub fn estimate(known: Option<i64>, store_us: i64, sent_us: i64, received_us: i64) -> i64 {
    let (least, most) = (store_us - received_us.max(sent_us), store_us - sent_us);
    known.filter(|known| (least..=most).contains(known)).unwrap_or(least.midpoint(most))
}

#[cfg(test)]
mod tests {
    use super::estimate;

    #[test]
    fn an_estimate_stays_until_an_answer_refutes_it() {
        // The store is 1,000,000 ahead. A long way out and a short way back look like 300 more.
        let first = estimate(None, 1_000_900, 0, 1_200);
        assert_eq!(first, 1_000_300);
        let better = estimate(Some(first), 1_001_050, 1_000, 1_100);
        assert_eq!(better, 1_000_000);
        assert_eq!(estimate(Some(better), 1_002_300, 2_000, 3_200), better);
        // A step is followed at once, either way.
        assert_eq!(estimate(Some(better), 61_002_000, 1_000, 2_000), 61_000_500);
        assert_eq!(estimate(Some(61_000_500), 1_004_000, 3_000, 4_000), 1_000_500);
    }

    #[test]
    fn a_slow_drift_is_followed_in_steps_of_half_an_answers_time() {
        let mut last = estimate(None, 1_000_050, 0, 100);
        for second in 1..100 {
            let sent = second * 1_000_000;
            let new = estimate(Some(last), 1_000_000 + sent + 50 + second * 20, sent, sent + 100);
            assert!((new - last).abs() <= 60, "{second}");
            last = new;
        }
        assert!((1_001_930..=1_002_030).contains(&last), "{last}");
    }
}
