//! The result of a batch: counts, its first refused lines and its first generated tokens. All have bounds, so that
//! neither the answer nor its memory grows with the batch.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::reply::ServerBody;
use crate::json;
use crate::limits::{BATCH_ANSWER_BYTES_MAX, ECHO_BYTES_MAX};
use crate::vote::id::{ServerId, Token};

/// Room for the counts and the frame of the answer, in bytes: more than they take with every number
/// at its longest.
const COUNTS_BYTES: usize = 512;
/// Room for the frame of one line of the answer, in bytes.
const LINE_FRAME_BYTES: usize = 64;
/// The most generated tokens that the answer lists: less than half of it. The rest stays for refused lines, of which a
/// client has no other list.
const TOKENS_MAX: usize = 4_096;

/// The counts of a batch, and the list of its refused lines.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Lines that changed something.
    pub recorded: u64,
    /// Lines that changed nothing, as the store held the same already.
    pub unchanged: u64,
    /// Recorded and unchanged votes that the replicas of a shared store did not confirm in time.
    #[serde(skip_serializing_if = "is_zero")]
    pub unconfirmed: u64,
    /// Votes that were refused for a cooldown.
    pub in_cooldown: u64,
    /// Votes whose cooldown is over.
    pub expired: u64,
    /// Votes for no listed server.
    pub unknown_server: u64,
    /// Lines that were refused for another reason.
    pub invalid: u64,
    /// Invalid lines that would have given a listed server another token.
    #[serde(skip_serializing_if = "is_zero")]
    pub token_differs: u64,
    /// Lines of the other kind: an export holds both, and each batch call takes its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Servers that came without a token and were given one.
    #[serde(skip_serializing_if = "is_zero")]
    pub generated: u64,
    /// The first of these, in the order of their lines.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_servers")]
    tokens: Vec<(ServerId, Token)>,
    /// The first refused lines, without gaps. A client that wants to know of the others asks again from the last
    /// one on.
    #[serde(rename = "errors", serialize_with = "in_order")]
    told: BTreeMap<u64, SummaryLine>,
    #[serde(skip)]
    told_max: usize,
    /// The size of the lines and the tokens in the answer, in bytes.
    #[serde(skip)]
    told_bytes: usize,
    /// The first line that had no room.
    #[serde(skip)]
    first_untold: u64,
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn in_order<S: Serializer>(lines: &BTreeMap<u64, SummaryLine>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(lines.values())
}

fn as_servers<S: Serializer>(tokens: &[(ServerId, Token)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(tokens.iter().map(|(server, token)| ServerBody::new(*server, token)))
}

#[derive(Debug, Serialize)]
struct SummaryLine {
    #[serde(rename = "line")]
    number: u64,
    #[serde(rename = "error")]
    word: &'static str,
    message: String,
}

impl SummaryLine {
    /// The most bytes that the line takes in the answer. Only quotes and backslashes are escaped: an echo has no
    /// control characters.
    fn bytes(&self) -> usize {
        let escapes = self.message.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        LINE_FRAME_BYTES + self.word.len() + self.message.len() + escapes
    }
}

impl Summary {
    /// The summary before the first line. It lists at most `told_max` refused lines.
    #[must_use]
    pub fn new(told_max: usize) -> Self {
        Self { told_max, told_bytes: COUNTS_BYTES, first_untold: u64::MAX, ..Self::default() }
    }

    /// The memory of the summary, in bytes, about: a line takes less than in the answer.
    #[must_use]
    pub const fn used_bytes(&self) -> usize {
        if self.told_bytes > COUNTS_BYTES { self.told_bytes } else { 0 }
    }

    /// Counts a refused line by its word, and notes the reason. Lines come in any order: an outcome comes later than
    /// the refusal of a line that cannot be read.
    pub fn refuse(&mut self, number: u64, word: &'static str, message: &str) {
        let count = match word {
            "in_cooldown" => &mut self.in_cooldown,
            "expired" => &mut self.expired,
            "unknown_server" => &mut self.unknown_server,
            _ => &mut self.invalid,
        };
        *count += 1;
        self.token_differs += u64::from(word == "token_differs");
        if number >= self.first_untold {
            return;
        }
        let line = SummaryLine { number, word, message: json::echo(message, ECHO_BYTES_MAX) };
        self.told_bytes += line.bytes();
        self.told.insert(number, line);
        self.fit();
    }

    /// Counts a server that was given a token, and notes the token while there is room. Tokens come in the order of
    /// their lines.
    pub fn tell_token(&mut self, server: ServerId, token: Token) {
        self.generated += 1;
        if self.tokens.len() < TOKENS_MAX {
            self.told_bytes += LINE_FRAME_BYTES + token.as_str().len();
            self.tokens.push((server, token));
            self.fit();
        }
    }

    /// Leaves the last refused lines out until the answer keeps its bounds.
    fn fit(&mut self) {
        while self.told.len() > self.told_max || self.told_bytes > BATCH_ANSWER_BYTES_MAX {
            let Some((last, line)) = self.told.pop_last() else { return };
            self.told_bytes -= line.bytes();
            self.first_untold = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Summary, TOKENS_MAX};
    use crate::limits::BATCH_ANSWER_BYTES_MAX;
    use crate::vote::id::{ServerId, Token};

    #[test]
    fn the_answer_has_its_bound_and_no_line_is_told_behind_one_that_is_not() {
        for message in ["x".repeat(1_000), "\"".repeat(1_000), "\u{1b}\\".repeat(500), "é\"".repeat(300), String::new()]
        {
            let mut summary = Summary::new(1_000_000);
            (100..50_000).for_each(|line| summary.refuse(line, "unknown_server", &message));
            // Shorter lines would find room again.
            (1..20).for_each(|line| summary.refuse(line, "unknown_server", &message));
            (50_000..50_100).for_each(|line| summary.refuse(line, "expired", ""));
            let answer = serde_json::to_vec(&summary).expect("it has a spelling");
            assert!(answer.len() <= BATCH_ANSWER_BYTES_MAX, "{} bytes of {message:.9}", answer.len());
            assert!(answer.len() > BATCH_ANSWER_BYTES_MAX / 2, "{} bytes of {message:.9}", answer.len());
            let told: Vec<u64> = summary.told.keys().copied().collect();
            let expected: Vec<u64> = (1..20).chain(100..).take(told.len()).collect();
            assert_eq!(told, expected, "{message:.9}");
        }
    }

    #[test]
    fn generated_tokens_take_their_part_of_the_answer_before_refused_lines_and_behind_them() {
        let refuse = |summary: &mut Summary| {
            (0..50_000).for_each(|line| summary.refuse(line, "unknown_server", &"x".repeat(200)));
        };
        let generate = |summary: &mut Summary| {
            (u32::MAX - 5_000..u32::MAX).for_each(|id| summary.tell_token(ServerId(id), Token::from_random([7; 16])));
        };
        for order in [[refuse as fn(&mut Summary), generate], [generate, refuse]] {
            let mut summary = Summary::new(1_000_000);
            order.iter().for_each(|tell| tell(&mut summary));
            let answer = serde_json::to_vec(&summary).expect("it has a spelling");
            assert!(answer.len() <= BATCH_ANSWER_BYTES_MAX, "{} bytes", answer.len());
            assert_eq!((summary.generated, summary.tokens.len()), (5_000, TOKENS_MAX));
            assert!(summary.told.len() > 1_000, "{} refused lines", summary.told.len());
            assert!(summary.used_bytes() <= BATCH_ANSWER_BYTES_MAX, "{} bytes", summary.used_bytes());
        }
    }
}
