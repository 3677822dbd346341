//! How long each vote is kept: for the length of the cooldown that was in force when it was cast. A
//! start with a shorter one shows shorter cooldowns and ends none for good.

use super::time::{Cooldown, UnixSeconds};

/// The lengths that have been in force, each with the instant from which on it was. Each is shorter than the
/// one before: a longer one applies to all votes that are kept, and takes the place of the shorter ones before
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths(Vec<(UnixSeconds, Cooldown)>);

impl Lengths {
    /// One length for all votes.
    #[must_use]
    pub fn of(cooldown: Cooldown) -> Self {
        Self(vec![(UnixSeconds(0), cooldown)])
    }

    /// Reads the rows of a store, each an instant and minutes; `None` where they make no sense.
    #[must_use]
    pub fn from_rows(rows: impl IntoIterator<Item = (u32, u32)>) -> Option<Self> {
        let length = |(since, minutes)| Some((UnixSeconds(since), Cooldown::from_minutes(minutes)?));
        let lengths: Vec<_> = rows.into_iter().map(length).collect::<Option<_>>()?;
        let first = lengths.first()?;
        let is_falling = lengths.is_sorted_by(|a, b| a.0 < b.0 && a.1.minutes() > b.1.minutes());
        (first.0 == UnixSeconds(0) && is_falling).then_some(Self(lengths))
    }

    /// The rows that [`Lengths::from_rows`] reads.
    pub fn rows(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().map(|(since, cooldown)| (since.0, cooldown.minutes()))
    }

    /// The longest of them.
    #[must_use]
    pub fn longest(&self) -> Cooldown {
        self.0[0].1
    }

    /// Whether a vote needs to be kept no longer at `now`.
    #[must_use]
    pub fn is_over(&self, voted_at: UnixSeconds, now: UnixSeconds) -> bool {
        let of_vote = self.0.iter().rev().find(|(since, _)| *since <= voted_at);
        of_vote.is_none_or(|(_, cooldown)| cooldown.expires_at(voted_at) <= now)
    }

    /// The spans of time, both ends included, whose votes need to be kept no longer at `now`.
    pub fn over(&self, now: UnixSeconds) -> impl Iterator<Item = (UnixSeconds, UnixSeconds)> {
        let ends = self.0.iter().skip(1).map(|(next, _)| next.minus(1)).chain([UnixSeconds(u32::MAX)]);
        self.0.iter().zip(ends).filter_map(move |((since, cooldown), end)| {
            let until = UnixSeconds(now.0.checked_sub(cooldown.seconds())?).min(end);
            (*since <= until).then_some((*since, until))
        })
    }

    /// The same with `cooldown` in force from `since` on. Votes that were over by a shorter length have to be
    /// dropped before: under a longer one they would count again.
    #[must_use]
    pub fn followed_by(&self, cooldown: Cooldown, since: UnixSeconds) -> Self {
        let longer = self.0.iter().take_while(|(_, earlier)| earlier.minutes() > cooldown.minutes());
        let mut lengths: Vec<_> = longer.copied().collect();
        let since = match (self.0.get(lengths.len()), lengths.last()) {
            (Some((since, _)), _) => *since,
            (None, Some((last, _))) => since.max(last.plus(1)),
            (None, None) => UnixSeconds(0),
        };
        lengths.push((since, cooldown));
        Self(lengths)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::Lengths;
    use crate::vote::time::{Cooldown, UnixSeconds};

    fn minutes(minutes: u32) -> Cooldown {
        Cooldown::from_minutes(minutes).expect("in range")
    }

    fn lengths(rows: &[(u32, u32)]) -> Lengths {
        Lengths::from_rows(rows.iter().copied()).expect("lengths")
    }

    #[test]
    fn a_shorter_length_is_in_force_from_then_on_and_a_longer_one_for_all() {
        let ninety = Lengths::of(minutes(90));
        assert_eq!(ninety, lengths(&[(0, 90)]));
        let one = ninety.followed_by(minutes(1), UnixSeconds(10_000));
        assert_eq!(one, lengths(&[(0, 90), (10_000, 1)]));
        assert_eq!(one.followed_by(minutes(1), UnixSeconds(20_000)), one);
        assert_eq!(one.followed_by(minutes(90), UnixSeconds(20_000)), ninety);
        assert_eq!(one.followed_by(minutes(30), UnixSeconds(20_000)), lengths(&[(0, 90), (10_000, 30)]));
        assert_eq!(one.followed_by(minutes(120), UnixSeconds(20_000)), lengths(&[(0, 120)]));
        // The clock was set back between the two.
        let three = lengths(&[(0, 90), (10_000, 30)]).followed_by(minutes(1), UnixSeconds(500));
        assert_eq!(three, lengths(&[(0, 90), (10_000, 30), (10_001, 1)]));
    }

    #[test]
    fn each_vote_is_over_by_its_own_length() {
        let kept = lengths(&[(0, 90), (10_000, 1)]);
        assert_eq!(kept.longest(), minutes(90));
        assert!(!kept.is_over(UnixSeconds(9_999), UnixSeconds(15_398)));
        assert!(kept.is_over(UnixSeconds(9_999), UnixSeconds(15_399)));
        assert!(!kept.is_over(UnixSeconds(10_000), UnixSeconds(10_059)));
        assert!(kept.is_over(UnixSeconds(10_000), UnixSeconds(10_060)));
        let over = |now| kept.over(UnixSeconds(now)).map(|(from, to)| (from.0, to.0)).collect::<Vec<_>>();
        assert_eq!(over(100), []);
        assert_eq!(over(10_059), [(0, 4_659)]);
        assert_eq!(over(10_060), [(0, 4_660), (10_000, 10_000)]);
        assert_eq!(over(20_000), [(0, 9_999), (10_000, 19_940)]);
    }

    #[test]
    fn rows_that_nobody_wrote_are_none() {
        for rows in [&[][..], &[(1, 90)], &[(0, 90), (5, 90)], &[(0, 90), (0, 1)], &[(0, 0)], &[(0, 10_081)]] {
            assert_eq!(Lengths::from_rows(rows.iter().copied()), None, "{rows:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_over_lies_in_the_ranges_and_nothing_else_does(
            starts in prop::collection::vec((1u32..40, 0u32..20_000), 1..6),
            votes in prop::collection::vec(0u32..25_000, 1..50),
            now in 0u32..30_000,
        ) {
            let mut kept = Lengths::of(minutes(starts[0].0));
            for (length, at) in &starts {
                kept = kept.followed_by(minutes(*length), UnixSeconds(*at));
                prop_assert_eq!(Lengths::from_rows(kept.rows()), Some(kept.clone()));
            }
            for vote in votes.into_iter().map(UnixSeconds) {
                let is_in_range = kept.over(UnixSeconds(now)).any(|(from, to)| (from..=to).contains(&vote));
                prop_assert_eq!(kept.is_over(vote, UnixSeconds(now)), is_in_range, "{:?} at {} of {:?}", vote, now, kept);
                prop_assert!(kept.is_over(vote, kept.longest().expires_at(vote)));
            }
        }
    }
}
