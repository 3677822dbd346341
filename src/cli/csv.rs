//! CSV with a header line into the interface's JSON lines. Knows the names of the columns, not
//! what may stand in them: that is the service's to judge.

use serde_json::{Map, Value};

use super::votes::instant;
use crate::json::echo;
use crate::limits::ECHO_BYTES_MAX;

/// The columns that are known; what a column is called is what the interface calls it.
const COLUMNS: [&str; 4] = ["server_id", "token", "ip", "voted_at"];
/// What may stand between columns, the usual one first.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// A header line.
#[derive(Debug)]
pub(super) struct Header {
    separator: char,
    columns: Vec<&'static str>,
}

impl Header {
    /// Reads the header line.
    ///
    /// # Errors
    /// Why it is none. A column that is not known is refused: left out, a misspelt `voted_at`
    /// would make every vote a vote of today.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let line = std::str::from_utf8(line).map_err(|_| "the header is not UTF-8".to_owned())?;
        let separator = SEPARATORS.into_iter().find(|separator| line.contains(*separator)).unwrap_or(',');
        let mut columns = Vec::new();
        for name in fields(line, separator)? {
            let name = name.trim();
            let Some(column) = COLUMNS.iter().find(|column| column.eq_ignore_ascii_case(name)) else {
                let known = COLUMNS.join(", ");
                return Err(format!(
                    "neither a JSON object nor a CSV header: {:?} is none of {known}",
                    echo(name, ECHO_BYTES_MAX)
                ));
            };
            if columns.contains(column) {
                return Err(format!("the column {column} is there twice"));
            }
            columns.push(*column);
        }
        Ok(Self { separator, columns })
    }

    /// One line as a JSON object.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn object(&self, line: &[u8]) -> Result<Vec<u8>, String> {
        let line = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
        let values = fields(line, self.separator)?;
        if values.len() != self.columns.len() {
            return Err(format!("{} fields, but the header has {}", values.len(), self.columns.len()));
        }
        let mut object = Map::new();
        for (column, value) in self.columns.iter().zip(values) {
            let value = value.trim();
            match *column {
                // A server is named by one or the other: an empty field is the one that it is not.
                "server_id" | "token" if value.is_empty() => {}
                "server_id" | "voted_at" => drop(object.insert((*column).to_owned(), instant(value))),
                _ => drop(object.insert((*column).to_owned(), Value::from(value))),
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

    #[test]
    fn lines_become_objects() {
        for (header, line, expected) in [
            ("server_id,token", "28,demo", Ok(r#"{"server_id":28,"token":"demo"}"#)),
            ("server_id,token", "28,", Ok(r#"{"server_id":28}"#)),
            ("\"server_id\";\"token\"", "\"28\" ; \"de\"\"mo\"", Ok(r#"{"server_id":28,"token":"de\"mo"}"#)),
            ("Token,Server_ID", "a;b, 28 ", Ok(r#"{"server_id":28,"token":"a;b"}"#)),
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
            ("server_id,token", "28", Err("1 fields, but the header has 2")),
            ("server_id,token", "28,a,b", Err("3 fields, but the header has 2")),
            ("server_id,token", "28,\"a", Err("a quote is not closed on its line")),
            ("server_id,token", "\"28\"x,a", Err("a quoted field goes on after its closing quote")),
        ] {
            let header = Header::parse(header.as_bytes()).unwrap_or_else(|error| panic!("{header}: {error}"));
            let object = header.object(line.as_bytes());
            let object = object.as_ref().map(|bytes| std::str::from_utf8(bytes).expect("JSON is UTF-8"));
            assert_eq!(object.map_err(String::as_str), expected, "{line}");
        }
    }

    #[test]
    fn headers_that_are_none() {
        for (line, expected) in [
            ("id,token", "\"id\" is none of server_id, token, ip, voted_at"),
            ("28,demo", "\"28\" is none of"),
            ("server_id,token,server_id", "the column server_id is there twice"),
            ("server_id,created_at", "\"created_at\" is none of"),
            ("server_id,", "\"\" is none of"),
        ] {
            let error = Header::parse(line.as_bytes()).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
        assert!(Header::parse(b"\xFF\xFE").is_err());
    }
}
