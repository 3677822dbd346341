//! The parameter by which a request asks to wait for a vote: `?wait=N`.

/// The time that a request may wait: whole seconds from 1 to [`WaitSeconds::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitSeconds(u8);

impl WaitSeconds {
    /// The longest wait, in seconds: ten less than clients commonly wait for an answer.
    pub const MAX: u8 = 50;

    /// This number of seconds, but at most [`WaitSeconds::MAX`]; `None` for 0.
    #[must_use]
    pub fn at_most(seconds: u64) -> Option<Self> {
        let seconds = seconds.min(u64::from(Self::MAX)) as u8;
        (seconds > 0).then_some(Self(seconds))
    }

    /// The number of seconds.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The time that a query asks to wait: `wait=N` in whole seconds, once, in decimal digits. Any other value, and 0, is
/// ignored. Other parameters are the client's own, for instance against caches.
#[must_use]
pub fn asked(query: &[u8]) -> Option<WaitSeconds> {
    let mut values = query.split(|byte| *byte == b'&').filter_map(|pair| pair.strip_prefix(b"wait="));
    let (Some(digits), None) = (values.next(), values.next()) else { return None };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    WaitSeconds::at_most(is_number.then(|| digits.iter().fold(0, add))?)
}
