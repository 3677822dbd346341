//! The summary of a watch, in words: above all the addresses with questions and no vote, and those with votes and
//! no question. Lines in, a text out.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// The most addresses that are remembered, of all servers together. A longer list would be of no use.
const ADDRESSES_MAX: usize = 10_000;
/// The most addresses of each kind that the summary names; of the others it gives the number.
const NAMED_MAX: usize = 10;

/// The counts so far.
#[derive(Default)]
pub(super) struct Tally {
    /// Questions by their answer.
    answers: BTreeMap<String, u64>,
    /// Votes that were not recorded, by reason.
    refused: BTreeMap<String, u64>,
    /// By server and address.
    pairs: BTreeMap<(u64, String), AskedPair>,
    /// Lines that the service could not send in time.
    missed: u64,
}

#[derive(Default)]
struct AskedPair {
    /// Questions that were answered "can vote".
    asked: u64,
    /// Its vote was seen, or a question about it was answered "in cooldown".
    has_vote: bool,
    /// A vote of it was seen.
    voted: bool,
    /// A question about it was seen, whatever the answer.
    was_asked: bool,
}

impl Tally {
    /// Takes one line.
    pub(super) fn add(&mut self, line: &Value) {
        let is_vote = match line["kind"].as_str() {
            Some("question") => false,
            Some("vote") => true,
            Some("attempt") => {
                let outcome = line["outcome"].as_str().unwrap_or_default();
                return *self.refused.entry(outcome.to_owned()).or_default() += 1;
            }
            Some("dropped") => return self.missed += line["lines"].as_u64().unwrap_or_default(),
            _ => return,
        };
        let answer = line["answer"].as_str().unwrap_or_default();
        if !is_vote {
            *self.answers.entry(answer.to_owned()).or_default() += 1;
        }
        let (Some(server), Some(ip)) = (line["server_id"].as_u64(), line["ip"].as_str()) else { return };
        let key = (server, ip.to_owned());
        if self.pairs.len() >= ADDRESSES_MAX && !self.pairs.contains_key(&key) {
            return;
        }
        let pair = self.pairs.entry(key).or_default();
        pair.was_asked |= !is_vote;
        pair.asked += u64::from(answer == "can_vote");
        pair.voted |= is_vote;
        pair.has_vote |= is_vote || answer == "in_cooldown";
    }

    /// The whole summary.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // A String takes whatever is written to it.
        let _written = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let questions: u64 = self.answers.values().sum();
        let answers: Vec<String> = self.answers.iter().map(|(answer, count)| format!("{count} {answer}")).collect();
        match questions {
            0 => writeln!(text, "No question was seen.")?,
            1 => writeln!(text, "1 question: {}.", answers.join(", "))?,
            _ => writeln!(text, "{questions} questions: {}.", answers.join(", "))?,
        }
        let refused: u64 = self.refused.values().sum();
        let outcomes: Vec<String> = self.refused.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        match refused {
            0 => {}
            1 => writeln!(text, "1 vote was not recorded: {}.", outcomes.join(", "))?,
            _ => writeln!(text, "{refused} votes were not recorded: {}.", outcomes.join(", "))?,
        }
        for (answer, meaning) in MEANINGS {
            if self.answers.contains_key(answer) {
                writeln!(text, "{answer}: {meaning}")?;
            }
        }
        let mut servers: Vec<u64> = self.pairs.keys().map(|(server, _)| *server).collect();
        servers.dedup();
        for server in servers {
            self.write_server(server, text)?;
        }
        if self.missed > 0 {
            writeln!(text, "{} lines were missed, so that this may not be all.", self.missed)?;
        }
        Ok(())
    }

    fn write_server(&self, server: u64, text: &mut String) -> std::fmt::Result {
        let of_server = || self.pairs.iter().filter(|((of, _), _)| *of == server).map(|((_, ip), pair)| (ip, pair));
        let asked = of_server().filter(|(_, pair)| pair.asked > 0 && !pair.has_vote);
        let asked = named(asked.map(|(ip, pair)| format!("{ip} ({})", times(pair.asked))));
        let voted = of_server().filter(|(_, pair)| pair.voted && !pair.was_asked);
        let voted = named(voted.map(|(ip, _)| ip.clone()));
        match (asked, voted) {
            (Some(asked), Some(voted)) => writeln!(
                text,
                "Server {server}: asked with {asked}, voted with {voted}.\n  If these are one player, the plugin asks \
                 with another address than the one that voted:\n  let the site record both (\"ips\"), or make both \
                 see the same one."
            ),
            (Some(asked), None) => writeln!(
                text,
                "Server {server}: asked with {asked}, and no vote of these was seen:\n  the site has not recorded \
                 one, or with another address."
            ),
            (None, Some(voted)) => writeln!(
                text,
                "Server {server}: voted with {voted}, and nobody asked about these:\n  the plugin does not ask, \
                 asks elsewhere, or asks with another address or token."
            ),
            (None, None) => Ok(()),
        }
    }
}

/// The meaning of an answer for the plugin that asked.
const MEANINGS: [(&str, &str); 5] = [
    ("unknown_token", "the plugin has an old token, or one that is misspelt."),
    ("unknown_server", "the plugin asks by a number that no server has."),
    (
        "invalid_server_id",
        "the plugin asks by something that is not a number: a token goes to /api/servers/{token}/vote-status/{ip}.",
    ),
    ("invalid_ip", "the plugin asks about something that is not an address."),
    ("not_found", "the plugin asks by a wrong path, or another client asked for something else."),
];

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// The first [`NAMED_MAX`], and the number of the others; `None` if there is none.
fn named(all: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<String> = all.collect();
    let first = all.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len() {
        0 => None,
        count if count > NAMED_MAX => Some(format!("{first} and {} more", count - NAMED_MAX)),
        _ => Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    fn told(lines: &[&str]) -> String {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.add(&serde_json::from_str(line).expect("JSON")));
        tally.text()
    }

    const ASKED: &str =
        r#"{"kind":"question","variant":"token","server_id":28,"ip":"2001:db8::","answer":"can_vote","status":200}"#;
    const VOTED: &str = r#"{"kind":"vote","server_id":28,"ip":"203.0.113.7"}"#;
    const COOLING: &str = r#"{"kind":"question","server_id":28,"ip":"203.0.113.7","answer":"in_cooldown"}"#;

    #[test]
    fn one_half_alone_is_told_too() {
        assert!(told(&[ASKED]).contains("asked with 2001:db8:: (once), and no vote of these was seen"));
        assert!(
            told(&[VOTED]).starts_with("No question was seen.\nServer 28: voted with 203.0.113.7, and nobody asked")
        );
        // A pair with a question and a vote, in either order, is no problem.
        for lines in [&[VOTED, COOLING][..], &[COOLING]] {
            assert_eq!(told(lines), "1 question: 1 in_cooldown.\n");
        }
    }

    #[test]
    fn servers_are_told_apart_and_answers_explained() {
        let other = r#"{"kind":"question","server_id":29,"ip":"203.0.113.7","answer":"unknown_server"}"#;
        let token = r#"{"kind":"question","token_begins":"4f3c","ip":"203.0.113.7","answer":"unknown_token"}"#;
        let dropped = r#"{"kind":"dropped","lines":412}"#;
        let text = told(&[VOTED, other, token, dropped]);
        assert!(text.starts_with("2 questions: 1 unknown_server, 1 unknown_token.\nunknown_token: "), "{text}");
        assert!(text.contains("\nServer 28: voted with 203.0.113.7, and nobody asked"), "{text}");
        assert!(!text.contains("Server 29"), "{text}");
        assert!(text.ends_with("412 lines were missed, so that this may not be all.\n"), "{text}");
    }

    #[test]
    fn votes_that_were_not_recorded_are_counted_by_why() {
        let refused =
            |outcome: &str| format!(r#"{{"kind":"attempt","server_id":28,"ip":"203.0.113.7","outcome":"{outcome}"}}"#);
        let [cooling, expired] = ["in_cooldown", "expired"].map(refused);
        assert_eq!(told(&[&expired]), "No question was seen.\n1 vote was not recorded: 1 expired.\n");
        let all = told(&[&cooling, &expired, &cooling]);
        assert_eq!(all, "No question was seen.\n3 votes were not recorded: 1 expired, 2 in_cooldown.\n");
    }

    #[test]
    fn what_is_kept_and_what_is_named_have_bounds() {
        let lines: Vec<String> = (0..super::ADDRESSES_MAX + 5)
            .map(|index| format!(r#"{{"kind":"vote","server_id":28,"ip":"{index:05}"}}"#))
            .collect();
        let text = told(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(
            text.contains(
                "voted with 00000, 00001, 00002, 00003, 00004, 00005, 00006, 00007, 00008, 00009 and 9990 more,"
            ),
            "{text}"
        );
    }
}
