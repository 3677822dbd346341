//! CSV with a header line into the interface's JSON lines. Knows the names of the columns, not
//! what may stand in them: that is the service's to judge.

use serde_json::{Map, Value};

use super::utc_offset::UtcOffset;
use super::votes::instant;
use crate::json::echo;
use crate::limits::ECHO_BYTES_MAX;

/// The columns that are known; what a column is called is what the interface calls it.
const COLUMNS: [&str; 4] = ["server_id", "token", "ip", "voted_at"];
/// What may stand between columns, the usual one first.
const SEPARATORS: [char; 3] = [',', ';', '\t'];
/// How many bytes of a column's name an error repeats: the known names and the remedy have to fit behind it.
const NAME_ECHO_BYTES_MAX: usize = 64;
/// What databases write for a value that is not known.
const NULLS: [&str; 2] = ["NULL", "\\N"];

/// A header line.
#[derive(Debug)]
pub(super) struct Header {
    separator: char,
    /// None for a column that is to be ignored.
    columns: Vec<Option<&'static str>>,
}

impl Header {
    /// Reads the header line, in which the columns `ignored` may stand as well.
    ///
    /// # Errors
    /// Why it is none. A column that is not known is refused: if a misspelt `token` were left out, servers
    /// would be listed with tokens that nobody knows.
    pub(super) fn parse(line: &[u8], ignored: &[String]) -> Result<Self, String> {
        let line = std::str::from_utf8(line).map_err(|_| "the header is not UTF-8".to_owned())?;
        let separator = SEPARATORS.into_iter().find(|separator| line.contains(*separator)).unwrap_or(',');
        let (mut columns, mut strange) = (Vec::new(), Vec::new());
        for name in fields(line, separator)? {
            let name = name.trim();
            let known = COLUMNS.into_iter().find(|column| column.eq_ignore_ascii_case(name));
            if known.is_none() && !ignored.iter().any(|ignored| ignored.trim().eq_ignore_ascii_case(name)) {
                strange.push(name.to_owned());
            }
            if known.is_some() && columns.contains(&known) {
                return Err(format!("the column {name} is there twice"));
            }
            columns.push(known);
        }
        let is_header = columns.iter().any(Option::is_some);
        match strange.first() {
            None => Ok(Self { separator, columns }),
            Some(name) => {
                let (name, known) = (echo(name, NAME_ECHO_BYTES_MAX), COLUMNS.join(", "));
                let remedy = echo(&strange.join(","), ECHO_BYTES_MAX);
                Err(match is_header {
                    true => format!("{name:?} is none of {known}; leave columns out by --ignore-columns {remedy}"),
                    false => format!("neither a JSON object nor a CSV header: {name:?} is none of {known}"),
                })
            }
        }
    }

    /// One line as a JSON object; `offset` is that of dates without one.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn object(&self, line: &[u8], offset: Option<&UtcOffset>) -> Result<Vec<u8>, String> {
        let line = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
        let values = fields(line, self.separator)?;
        if values.len() != self.columns.len() {
            return Err(format!("{} fields, but the header has {}", values.len(), self.columns.len()));
        }
        let is_of_votes = self.columns.contains(&Some("ip"));
        let mut object = Map::new();
        for (column, value) in self.columns.iter().zip(values) {
            let (Some(column), value) = (*column, value.trim()) else { continue };
            match column {
                // A vote names its server by number or by token: the empty field is the one not used.
                "server_id" | "token" if value.is_empty() && is_of_votes => {}
                "token" if value.is_empty() || NULLS.contains(&value) => {
                    return Err(format!(
                        "token is {value:?}, which is none: leave the column out to have tokens made, or the server"
                    ));
                }
                "server_id" => drop(object.insert(column.to_owned(), instant(value))),
                "voted_at" => {
                    let completed = offset.map(|offset| offset.complete(value)).transpose()?.flatten();
                    object.insert(column.to_owned(), instant(completed.as_deref().unwrap_or(value)));
                }
                "ip" if value.contains(' ') => {
                    object.insert("ips".to_owned(), value.split_ascii_whitespace().collect());
                }
                _ => drop(object.insert(column.to_owned(), Value::from(value))),
            }
        }
        Ok(Value::Object(object).to_string().into_bytes())
    }
}

/// The fields of one line: bare up to the separator, or quoted with `""` for a quote. None of the
/// columns can hold a line end, so a quote that is open at the end of its line is a fault.
fn fields(line: &str, separator: char) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.trim_start_matches(' ').strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(separator).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        let after = after.trim_start_matches(' ');
        match after.strip_prefix(separator) {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err("a quoted field goes on after its closing quote".to_owned()),
        }
    }
}

/// A field behind its opening quote, and what follows its closing one.
fn quoted_field(mut rest: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    loop {
        let Some((text, after)) = rest.split_once('"') else {
            return Err("a quote is not closed on its line".to_owned());
        };
        field.push_str(text);
        let Some(after_second) = after.strip_prefix('"') else { return Ok((field, after)) };
        field.push('"');
        rest = after_second;
    }
}

#[cfg(test)]
mod tests {
    use super::Header;
    use crate::cli::utc_offset::UtcOffset;
    use crate::vote::time::UnixSeconds;

    #[test]
    fn lines_become_objects() {
        let offset = UtcOffset::new("-05:00".to_owned(), UnixSeconds(1_795_178_096));
        for (header, line, expected) in [
            ("server_id,token", "28,demo", Ok(r#"{"server_id":28,"token":"demo"}"#)),
            ("server_id", "28", Ok(r#"{"server_id":28}"#)),
            ("server_id,token,ip", "28,,1.2.3.4", Ok(r#"{"ip":"1.2.3.4","server_id":28}"#)),
            ("name,server_id,created", "a,28,2026", Ok(r#"{"server_id":28}"#)),
            ("\"server_id\";\"token\"", "\"28\" ; \"de\"\"mo\"", Ok(r#"{"server_id":28,"token":"de\"mo"}"#)),
            ("Token,Server_ID", "a;b, 28 ", Ok(r#"{"server_id":28,"token":"a;b"}"#)),
            (
                "server_id,ip",
                "28,203.0.113.7  2001:db8::7 ",
                Ok(r#"{"ips":["203.0.113.7","2001:db8::7"],"server_id":28}"#),
            ),
            ("token,ip", "\"a,b\",\"203.0.113.7\"", Ok(r#"{"ip":"203.0.113.7","token":"a,b"}"#)),
            (
                "server_id\tip\tvoted_at",
                "28\t203.0.113.7\t1795178096",
                Ok(r#"{"ip":"203.0.113.7","server_id":28,"voted_at":1795178096}"#),
            ),
            (
                "server_id,ip,voted_at",
                "28,203.0.113.7,2026-11-20T12:34:56Z",
                Ok(r#"{"ip":"203.0.113.7","server_id":28,"voted_at":"2026-11-20T12:34:56Z"}"#),
            ),
            ("server_id,ip,voted_at", "28,,", Ok(r#"{"ip":"","server_id":28,"voted_at":""}"#)),
            ("server_id", "028", Ok(r#"{"server_id":"028"}"#)),
            (
                "server_id,ip,voted_at",
                "28,203.0.113.7,2026-11-22 12:34:56",
                Ok(r#"{"ip":"203.0.113.7","server_id":28,"voted_at":"2026-11-22 12:34:56-05:00"}"#),
            ),
            ("server_id,token", "28", Err("1 fields, but the header has 2")),
            ("server_id,token", "28,a,b", Err("3 fields, but the header has 2")),
            ("server_id,token", "28,\"a", Err("a quote is not closed on its line")),
            ("server_id,token", "\"28\"x,a", Err("a quoted field goes on after its closing quote")),
        ] {
            let ignored = ["Name".to_owned(), "created".to_owned()];
            let header = Header::parse(header.as_bytes(), &ignored).unwrap_or_else(|error| panic!("{header}: {error}"));
            let object = header.object(line.as_bytes(), Some(&offset));
            let object = object.as_ref().map(|bytes| std::str::from_utf8(bytes).expect("JSON is UTF-8"));
            assert_eq!(object.map_err(String::as_str), expected, "{line}");
        }
    }

    /// Regression: a table's NULL, as `mysql --batch` writes it, was taken as the token NULL, and an empty one
    /// as none, so that a token was made that nobody was told.
    #[test]
    fn what_a_database_writes_for_no_token_is_none() {
        let header = Header::parse(b"server_id\ttoken", &[]).expect("a header");
        for line in ["43\tNULL", "43\t\\N", "43\t", "43\t  "] {
            let error = header.object(line.as_bytes(), None).expect_err(line);
            assert!(error.contains("leave the column out to have tokens made"), "{line:?}: {error}");
        }
        assert!(header.object(b"43\tnull", None).is_ok(), "a token may be any word");
    }

    #[test]
    fn headers_that_are_none() {
        for (line, expected) in [
            ("id,token", "\"id\" is none of server_id, token, ip, voted_at; leave columns out by --ignore-columns id"),
            ("28,demo", "neither a JSON object nor a CSV header: \"28\" is none of server_id, token, ip, voted_at"),
            ("server_id,token,server_id", "the column server_id is there twice"),
            (
                "server_id,created_at,name",
                "\"created_at\" is none of server_id, token, ip, voted_at; \
                 leave columns out by --ignore-columns created_at,name",
            ),
        ] {
            assert_eq!(Header::parse(line.as_bytes(), &[]).expect_err(line), expected, "{line}");
        }
        assert!(Header::parse(b"server_id,", &[]).expect_err("an empty name").contains("\"\" is none of"));
        assert!(Header::parse(b"\xFF\xFE", &[]).is_err());
    }
}
