//! Wall time as the tests see it: Unix seconds, and the two date formats of the wire. Written
//! apart from the library's own, so that the two check each other.

use std::time::{SystemTime, UNIX_EPOCH};

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Whole Unix seconds now.
pub(crate) fn now_unix() -> i64 {
    now_unix_ms() / 1000
}

/// Unix milliseconds now.
pub(crate) fn now_unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    i64::try_from(since.as_millis()).expect("the clock is before the year 292 million")
}

/// `2026-11-20T12:34:56Z`.
pub(crate) fn rfc3339(unix: i64) -> String {
    let (year, month, day) = civil(unix.div_euclid(86_400));
    let second = unix.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The second that prints as `text`, near now: the result must print as the same text.
pub(crate) fn from_rfc3339(text: &str) -> i64 {
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().expect("digits");
    // Months of 31 days are too long by some days: at most as many as the search goes back.
    let days = (number(0, 4) - 1970) * 365 + (number(0, 4) - 1969) / 4 + (number(5, 7) - 1) * 31 + number(8, 10) - 1;
    let second = number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19);
    let found = (0..=8).map(|back| (days - back) * 86_400 + second).find(|&unix| rfc3339(unix) == text);
    found.unwrap_or_else(|| panic!("{text} is no instant"))
}

/// `Fri, 20 Nov 2026 12:34:56 GMT`.
pub(crate) fn imf_fixdate(unix: i64) -> String {
    let days = unix.div_euclid(86_400);
    let (year, month, day) = civil(days);
    let second = unix.rem_euclid(86_400);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        WEEKDAYS[usize::try_from(days.rem_euclid(7)).expect("0 to 6")],
        MONTHS[month - 1],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Whether `date` is a second of the last or the next ten, as a busy machine may stop for seconds between an answer and
/// this look. A comparison with printed candidates checks the format more strictly than a parser would.
pub(crate) fn is_imf_fixdate_of_now(date: &str) -> bool {
    let now = now_unix();
    (now - 10..=now + 10).any(|unix| imf_fixdate(unix) == date)
}

/// Days since 1970-01-01 to year, month and day, by walking years and months: slow and plain.
fn civil(mut days: i64) -> (i64, usize, i64) {
    assert!(days >= 0, "the tests need no date before 1970");
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(leap(year)) {
        days -= 365 + i64::from(leap(year));
        year += 1;
    }
    let february = 28 + i64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}
