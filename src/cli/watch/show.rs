//! A line of a watch for people: local time, columns, colour. Knows the lines, not their source.

use std::process::Command;

use serde_json::Value;

use crate::vote::time::UnixSeconds;

/// The style of instants and answers.
pub(super) struct Style {
    is_coloured: bool,
    /// The hour that was shown last, counted from 1970, and the offset of local time from UTC in it, in seconds.
    offset: Option<(u32, i64)>,
}

impl Style {
    pub(super) const fn new(is_coloured: bool) -> Self {
        Self { is_coloured, offset: None }
    }

    /// The line, without its end.
    pub(super) fn show(&mut self, line: &Value) -> String {
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        let answer = text("answer");
        let (colour, what) = match text("kind") {
            "question" => (colour(answer), format!("asked   {answer}")),
            "vote" => (CYAN, format!("VOTED   until {}", self.clock(text("next_vote_at")))),
            "attempt" => (colour(text("outcome")), self.refused(line)),
            "replacement" => (YELLOW, format!("REPLACED the vote of {}", self.clock(text("voted_at")))),
            "cancellation" => (YELLOW, "CANCELLED".to_owned()),
            "registration" => (CYAN, "listed".to_owned()),
            "rotation" => (YELLOW, "has a new token".to_owned()),
            "removal" => (YELLOW, "removed".to_owned()),
            "dropped" => return self.painted(RED, &format!("          {} lines are missing here", line["lines"])),
            _ => return String::new(),
        };
        let server = match (line["server_id"].as_u64(), text("token_begins"), text("variant")) {
            (Some(server), ..) => server.to_string(),
            (None, "", "token") => "token ?".to_owned(),
            (None, "", _) => "-".to_owned(),
            (None, begins, _) => format!("{begins}…"),
        };
        let address = Some(text("ip")).filter(|address| !address.is_empty()).unwrap_or("-");
        let from = Some(text("peer")).filter(|peer| !peer.is_empty()).map(|peer| format!("from {peer}"));
        let at = self.clock(text("at"));
        // Padded before it is painted: the codes of a colour would count as width.
        let what = self.painted(colour, &format!("{what:<26}"));
        format!("{at}  {server:<10}  {address:<21}  {what} {}", from.unwrap_or_default()).trim_end().to_owned()
    }

    /// A vote that was not recorded, and the reason.
    fn refused(&mut self, line: &Value) -> String {
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        let since = match text("since") {
            "" => String::new(),
            since => format!(" since {}", self.clock(since)),
        };
        let other = Some(text("cooldown_of")).filter(|of| !of.is_empty() && *of != text("ip"));
        let other = other.map(|of| format!(" of {of}")).unwrap_or_default();
        format!("voted   {}{other}{since}", text("outcome"))
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.is_coloured { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Hours, minutes and seconds of an instant in local time; empty for a text that is no instant.
    fn clock(&mut self, instant: &str) -> String {
        let Some(UnixSeconds(at)) = UnixSeconds::parse_rfc3339(instant) else { return String::new() };
        let hour = at / 3_600;
        let offset = match self.offset {
            Some((of, offset)) if of == hour => offset,
            // In nearly all zones, summer time begins and ends at a full hour of UTC.
            _ => self.offset.insert((hour, local_offset(at).unwrap_or_default())).1,
        };
        let seconds = (i64::from(at) + offset).rem_euclid(86_400);
        format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
    }
}

/// The offset of local time from UTC at an instant, in seconds. `date` reads it from the system's tables; without
/// `date`, times are shown in UTC.
fn local_offset(at: u32) -> Option<i64> {
    let said = Command::new("date").args(["-d", &format!("@{at}"), "+%z"]).output().ok()?;
    offset(std::str::from_utf8(&said.stdout).ok()?.trim())
}

/// `+0130`, in seconds.
fn offset(text: &str) -> Option<i64> {
    let (sign, digits) = text.split_at_checked(1)?;
    let (hours, minutes) = digits.split_at_checked(2)?;
    let seconds = 3_600 * hours.parse::<i64>().ok()? + 60 * minutes.parse::<i64>().ok()?;
    match sign {
        "+" => Some(seconds),
        "-" => Some(-seconds),
        _ => None,
    }
}

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

fn colour(answer: &str) -> &'static str {
    match answer {
        "can_vote" => GREEN,
        "in_cooldown" | "unchanged" => YELLOW,
        _ => RED,
    }
}

#[cfg(test)]
mod tests {
    use super::{Style, offset};

    #[test]
    fn lines_for_people() {
        let mut style = Style { is_coloured: false, offset: Some((1_795_178_096 / 3_600, 3_600)) };
        for (line, expected) in [
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"question","variant":"id","server_id":28,"ip":"203.0.113.7","answer":"can_vote","status":200,"peer":"192.0.2.10:53412"}"#,
                "13:34:56  28          203.0.113.7            asked   can_vote           from 192.0.2.10:53412",
            ),
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"question","variant":"token","token_begins":"4f3c","ip":"2001:db8:0:7::","answer":"unknown_token","status":404}"#,
                "13:34:56  4f3c…       2001:db8:0:7::         asked   unknown_token",
            ),
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"question","answer":"not_found","status":404}"#,
                "13:34:56  -           -                      asked   not_found",
            ),
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"vote","server_id":28,"ip":"203.0.113.7","next_vote_at":"2026-11-20T12:59:56Z"}"#,
                "13:34:56  28          203.0.113.7            VOTED   until 13:59:56",
            ),
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"attempt","server_id":28,"ip":"203.0.113.7","outcome":"in_cooldown","cooldown_of":"203.0.113.7","since":"2026-11-20T12:00:00Z","next_vote_at":"2026-11-20T13:30:00Z"}"#,
                "13:34:56  28          203.0.113.7            voted   in_cooldown since 13:00:00",
            ),
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"attempt","server_id":28,"ip":"2001:db8:0:7::","outcome":"in_cooldown","cooldown_of":"203.0.113.7","since":"2026-11-20T12:00:00Z","next_vote_at":"2026-11-20T13:30:00Z"}"#,
                "13:34:56  28          2001:db8:0:7::         voted   in_cooldown of 203.0.113.7 since 13:00:00",
            ),
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"attempt","token_begins":"4f3c","ip":"203.0.113.7","outcome":"unknown_server"}"#,
                "13:34:56  4f3c…       203.0.113.7            voted   unknown_server",
            ),
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"replacement","server_id":28,"ip":"203.0.113.7","voted_at":"2026-11-20T12:00:00Z","next_vote_at":"2026-11-20T13:30:00Z"}"#,
                "13:34:56  28          203.0.113.7            REPLACED the vote of 13:00:00",
            ),
            (
                r#"{"at":"2026-11-20T12:34:56Z","kind":"rotation","server_id":28}"#,
                "13:34:56  28          -                      has a new token",
            ),
            (r#"{"kind":"dropped","lines":412}"#, "          412 lines are missing here"),
            (r#"{"at":"2026-11-20T12:34:56Z","kind":"alive"}"#, ""),
        ] {
            assert_eq!(style.show(&serde_json::from_str(line).expect("JSON")), expected);
        }
        style.is_coloured = true;
        let line = r#"{"at":"2026-11-20T12:34:56Z","kind":"cancellation","server_id":28,"ip":"203.0.113.7"}"#;
        let shown = style.show(&serde_json::from_str(line).expect("JSON"));
        assert!(shown.contains("\x1b[33mCANCELLED"), "{shown:?}");
        assert!(shown.ends_with("\x1b[0m"), "{shown:?}");
    }

    #[test]
    fn offsets_of_zones() {
        for (text, seconds) in
            [("+0000", Some(0)), ("+0100", Some(3_600)), ("-0330", Some(-12_600)), ("UTC", None), ("", None)]
        {
            assert_eq!(offset(text), seconds, "{text}");
        }
    }
}
