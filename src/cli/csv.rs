//! CSV with a header line into the interface's JSON lines, as RFC 4180 says. Knows the names of the columns, not
//! their values: the service judges these.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use serde_json::{Map, Value};

use super::votes::instant;
use crate::json::echo;
use crate::limits::ECHO_BYTES_MAX;

/// The columns that are known, by the names of the interface.
const COLUMNS: [&str; 4] = ["server_id", "token", "ip", "voted_at"];
/// The separators of columns, the usual one first.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];
/// Longest record, in bytes. An ignored column may hold a long text.
pub(super) const RECORD_BYTES_MAX: usize = 1024 * 1024;
/// The most bytes of a column's name that an error repeats: the known names and the remedy have to fit behind it.
const NAME_ECHO_BYTES_MAX: usize = 64;
/// The texts that databases write for an unknown value.
const NULLS: [&str; 2] = ["NULL", "\\N"];

/// The reason to refuse a record without a certain end.
pub(super) const OVERLONG: &str = "the record is longer than a MiB: is a quote not closed?";
/// See [`is_escaped`].
const ESCAPED: &str = "a backslash stands before a quote or a line's end: write the file as RFC 4180 says, or leave that column out of it";
/// See [`CsvReader::is_written_so`].
const MISPLACED: &str =
    "a quote stands where RFC 4180 has none: quote the field and double the quote, or leave that column out of it";

/// The reason why a record gives no object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordFault {
    /// The record is wrong. The next one may be right.
    Refused(String),
    /// The bounds of records are no longer certain. A player's text could pass for a vote, so nothing is read from
    /// here on.
    Lost(String),
}

/// The records behind a header line, put together from the file's lines.
pub(super) struct CsvReader {
    separator: u8,
    /// `None` for an ignored column.
    columns: Vec<Option<&'static str>>,
    parser: Reader,
    /// The lines of the record at hand, each with its end. At most `RECORD_BYTES_MAX` and one line.
    record: Vec<u8>,
    /// Whether a quote is open at the end of `record`.
    is_open: bool,
    /// The record's fields, one behind the other.
    fields: Vec<u8>,
    /// The end of each field in `fields`.
    ends: Vec<usize>,
}

impl CsvReader {
    /// Reads the header line, which may have the columns `ignored` as well. The advice for an unknown column
    /// depends on whether the file may hold votes.
    ///
    /// # Errors
    /// The reason why it is no header. An unknown column is refused: if a misspelt `token` were left out,
    /// servers would be listed with tokens that nobody knows.
    pub(super) fn new(line: &[u8], ignored: &[String], may_hold_votes: bool) -> Result<Self, String> {
        let separator = SEPARATORS.into_iter().find(|separator| line.contains(separator)).unwrap_or(b',');
        // Only a line feed ends a record: a text without quotes may contain a carriage return.
        let parser = ReaderBuilder::new().delimiter(separator).terminator(Terminator::Any(b'\n')).build();
        let record = [line, b"\n"].concat();
        let (columns, fields, ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut reader = Self { separator, columns, parser, record, is_open: false, fields, ends };
        reader.split().map_err(|why| format!("no CSV header of {}: {why}", COLUMNS.join(", ")))?;
        reader.columns = reader.header(ignored, may_hold_votes)?;
        reader.record.clear();
        Ok(reader)
    }

    fn header(&self, ignored: &[String], may_hold_votes: bool) -> Result<Vec<Option<&'static str>>, String> {
        let (mut columns, mut strange) = (Vec::new(), Vec::new());
        for name in self.fields() {
            let name = std::str::from_utf8(name).map_err(|_| "the header is not UTF-8".to_owned())?.trim();
            let known = COLUMNS.into_iter().find(|column| column.eq_ignore_ascii_case(name));
            if known.is_none() && !ignored.iter().any(|ignored| ignored.trim().eq_ignore_ascii_case(name)) {
                strange.push(name.to_owned());
            }
            if known.is_some() && columns.contains(&known) {
                return Err(format!("the column {name} is there twice"));
            }
            columns.push(known);
        }
        let Some(name) = strange.first() else { return Ok(columns) };
        let (name, known) = (echo(name, NAME_ECHO_BYTES_MAX), COLUMNS.join(", "));
        if columns.iter().all(Option::is_none) {
            return Err(format!("neither a JSON object nor a CSV header: {name:?} is none of {known}"));
        }
        // An unknown column may be the vote's address or time, unless the header has these.
        let is_whole = !may_hold_votes || ["ip", "voted_at"].iter().all(|name| columns.contains(&Some(*name)));
        Err(match is_whole {
            true => {
                let strange = echo(&strange.join(","), ECHO_BYTES_MAX);
                format!("{name:?} is none of {known}; leave columns out by --ignore-columns {strange}")
            }
            false => format!(
                "{name:?} is none of {known}; rename the columns that hold the address and the time of a vote, \
                 and leave the others out by --ignore-columns"
            ),
        })
    }

    /// Whether the next line begins a record.
    pub(super) const fn is_between_records(&self) -> bool {
        self.record.is_empty()
    }

    /// Takes a line without its end. Gives the record as a JSON object if the line ends it, or `None` if it goes on.
    ///
    /// # Errors
    /// The reason why there is no object.
    pub(super) fn object(&mut self, line: &[u8]) -> Result<Option<Vec<u8>>, RecordFault> {
        self.record.extend_from_slice(line);
        self.record.push(b'\n');
        if self.record.len() > RECORD_BYTES_MAX {
            return Err(RecordFault::Lost(OVERLONG.to_owned()));
        }
        if is_escaped(line) {
            return Err(RecordFault::Lost(ESCAPED.to_owned()));
        }
        // If the number of quotes is even, the last one is closed. Tabs come from programs that write a quote as
        // it is, so behind such a header a record is one line.
        self.is_open ^= self.separator != b'\t' && memchr::memchr_iter(b'"', line).count() % 2 == 1;
        if self.is_open {
            return Ok(None);
        }
        self.split().map_err(RecordFault::Lost)?;
        self.record.clear();
        self.object_of_fields().map(Some).map_err(RecordFault::Refused)
    }

    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.fields[start..*end])
    }

    /// Splits the record at hand into its fields.
    fn split(&mut self) -> Result<(), String> {
        self.fields.resize(self.record.len(), 0);
        self.ends.resize(self.record.len(), 0);
        let (result, _, _, count) = self.parser.read_record(&self.record, &mut self.fields, &mut self.ends);
        self.ends.truncate(count);
        let is_split = matches!(result, ReadRecordResult::Record) && self.is_written_so();
        if is_split { Ok(()) } else { Err(MISPLACED.to_owned()) }
    }

    /// Whether the fields, written as RFC 4180 says, are the record. The parser takes quotes anywhere, and may
    /// misread those in a wrong place.
    fn is_written_so(&self) -> bool {
        if !self.record.contains(&b'"') {
            return true;
        }
        let mut written = Vec::with_capacity(self.record.len());
        for field in self.fields() {
            // As long as both are equal, this field begins here in the record.
            if self.record.get(written.len()) == Some(&b'"') {
                written.push(b'"');
                for piece in field.split_inclusive(|byte| *byte == b'"') {
                    written.extend_from_slice(piece);
                    written.extend_from_slice(if piece.ends_with(b"\"") { b"\"" } else { b"" });
                }
                written.push(b'"');
            } else if field.contains(&b'"') && self.separator != b'\t' {
                return false;
            } else {
                written.extend_from_slice(field);
            }
            written.push(self.separator);
        }
        written.pop();
        self.record.strip_suffix(b"\n") == Some(&written)
    }

    fn object_of_fields(&self) -> Result<Vec<u8>, String> {
        if self.ends.len() != self.columns.len() {
            return Err(format!("{} fields, but the header has {}", self.ends.len(), self.columns.len()));
        }
        let is_of_votes = self.columns.contains(&Some("ip"));
        let mut object = Map::new();
        for (column, value) in self.columns.iter().zip(self.fields()) {
            let Some(column) = *column else { continue };
            let value = std::str::from_utf8(value).map_err(|_| format!("{column} is not UTF-8"))?.trim();
            match column {
                // A vote names its server by number or by token: the other field is empty.
                "server_id" | "token" if value.is_empty() && is_of_votes => {}
                "token" if value.is_empty() || NULLS.contains(&value) => {
                    return Err(format!(
                        "token is {value:?}, which is none: leave the column out to have tokens made, or the server"
                    ));
                }
                "server_id" | "voted_at" => drop(object.insert(column.to_owned(), instant(value))),
                "ip" if value.contains(' ') => {
                    object.insert("ips".to_owned(), value.split_ascii_whitespace().collect());
                }
                _ => drop(object.insert(column.to_owned(), Value::from(value))),
            }
        }
        Ok(Value::Object(object).to_string().into_bytes())
    }
}

/// Whether a backslash makes a quote or the line's end a part of a text, as in MySQL's `INTO OUTFILE`. RFC 4180 has no
/// such escape: the text would end there.
fn is_escaped(line: &[u8]) -> bool {
    let is_escape = |at: usize| line[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    is_escape(line.len()) || memchr::memchr_iter(b'"', line).any(is_escape)
}

#[cfg(test)]
mod tests {
    use super::{CsvReader, ESCAPED, MISPLACED, OVERLONG, RECORD_BYTES_MAX, RecordFault};

    fn reader(header: &str) -> CsvReader {
        let ignored = ["Name".to_owned(), "created".to_owned()];
        CsvReader::new(header.as_bytes(), &ignored, true).unwrap_or_else(|error| panic!("{header}: {error}"))
    }

    /// The result of the last of these lines; those before it end no record.
    fn object(header: &str, lines: &[u8]) -> Result<Option<String>, RecordFault> {
        let mut reader = reader(header);
        let mut last = Ok(None);
        for line in lines.split(|byte| *byte == b'\n') {
            assert_eq!(last, Ok(None), "{header}");
            last = reader.object(line);
        }
        last.map(|object| object.map(|bytes| String::from_utf8(bytes).expect("JSON is UTF-8")))
    }

    #[test]
    fn records_become_objects() {
        for (header, lines, expected) in [
            ("server_id,token", "28,demo", r#"{"server_id":28,"token":"demo"}"#),
            ("server_id,token,ip", "28,,1.2.3.4", r#"{"ip":"1.2.3.4","server_id":28}"#),
            ("name,server_id,created", "a,28,2026", r#"{"server_id":28}"#),
            ("\"server_id\";\"token\"", "\"28\";\"de\"\"mo\"", r#"{"server_id":28,"token":"de\"mo"}"#),
            ("Token,Server_ID", "a;b, 28 ", r#"{"server_id":28,"token":"a;b"}"#),
            ("server_id,ip", "28,203.0.113.7  2001:db8::7 ", r#"{"ips":["203.0.113.7","2001:db8::7"],"server_id":28}"#),
            ("server_id\tvoted_at", "28\t1795178096", r#"{"server_id":28,"voted_at":1795178096}"#),
            ("server_id,voted_at", "28,1795178096.75", r#"{"server_id":28,"voted_at":1795178096.75}"#),
            ("server_id,voted_at", "28,2026-11-20 12:34:56", r#"{"server_id":28,"voted_at":"2026-11-20 12:34:56"}"#),
            ("server_id,ip,voted_at", "28,,", r#"{"ip":"","server_id":28,"voted_at":""}"#),
            ("server_id", "028", r#"{"server_id":"028"}"#),
            ("server_id", "\"\"", r#"{"server_id":""}"#),
            ("name,server_id", "\"a\n\nb,29\n\"\"\",28", r#"{"server_id":28}"#),
            ("name,server_id", "a\r29,28", r#"{"server_id":28}"#),
            ("name,server_id", "\"C:\\\\\",28", r#"{"server_id":28}"#),
            ("name\tserver_id", "The \"Best\t28", r#"{"server_id":28}"#),
            ("name\tserver_id", "\"Best, \"\"of\"\" all\"\t28", r#"{"server_id":28}"#),
            ("name\tserver_id", "\\n\\\\\t28", r#"{"server_id":28}"#),
        ] {
            assert_eq!(object(header, lines.as_bytes()), Ok(Some(expected.to_owned())), "{lines:?}");
        }
        assert_eq!(object("name,server_id", b"Ren\xE9,28"), Ok(Some(r#"{"server_id":28}"#.to_owned())));
    }

    #[test]
    fn what_is_no_record_is_refused_or_ends_the_file() {
        let refused = |reason: &str| Err(RecordFault::Refused(reason.to_owned()));
        let lost = |reason: &str| Err(RecordFault::Lost(reason.to_owned()));
        for (header, lines, expected) in [
            ("server_id,token", "28", refused("1 fields, but the header has 2")),
            // A quote is open at the end.
            ("server_id,token", "28,\"a\n29,b", Ok(None)),
            ("server_id,token", "\"28\"x,a", lost(MISPLACED)),
            ("server_id,token", "28,a\"b\"", lost(MISPLACED)),
            ("server_id,token", "28,a\"\nb\",29", lost(MISPLACED)),
            ("server_id,token", "a\"b,\"c", lost(MISPLACED)),
            ("name,server_id", "\"a\\\"b\",28", lost(ESCAPED)),
            ("server_id,name", "28,a\\", lost(ESCAPED)),
            ("server_id\tname", "28\ta\\", lost(ESCAPED)),
            // If a quote may be written as it is, a text of two lines cannot be told from two records.
            ("name\tserver_id", "\"a\t28", lost(MISPLACED)),
            ("name\tserver_id", "\"Best\" server\t28", lost(MISPLACED)),
        ] {
            assert_eq!(object(header, lines.as_bytes()), expected, "{lines:?}");
        }
        let mut reader = reader("name,server_id");
        assert_eq!(reader.object(b"\"a"), Ok(None));
        assert!(!reader.is_between_records());
        let line = vec![b'a'; RECORD_BYTES_MAX / 2];
        assert_eq!(reader.object(&line), Ok(None));
        assert_eq!(reader.object(&line), Err(RecordFault::Lost(OVERLONG.to_owned())));
    }

    /// Regression: a table's NULL, as `mysql --batch` writes it, was taken as the token NULL. An empty field was
    /// taken as no token, so the service made one that nobody was told.
    #[test]
    fn what_a_database_writes_for_no_token_is_none() {
        for line in ["43\tNULL", "43\t\\N", "43\t", "43\t  "] {
            let Err(RecordFault::Refused(error)) = object("server_id\ttoken", line.as_bytes()) else {
                panic!("{line:?} is taken");
            };
            assert!(error.contains("leave the column out to have tokens made"), "{line:?}: {error}");
        }
        assert!(object("server_id\ttoken", b"43\tnull").is_ok(), "a token may be any word");
    }

    #[test]
    fn headers_that_are_none() {
        let error_in =
            |may_hold_votes, line: &[u8]| CsvReader::new(line, &[], may_hold_votes).err().unwrap_or_default();
        let error = |line: &[u8]| error_in(false, line);
        for (line, expected) in [
            ("id,token", "\"id\" is none of server_id, token, ip, voted_at; leave columns out by --ignore-columns id"),
            ("28,demo", "neither a JSON object nor a CSV header: \"28\" is none of server_id, token, ip, voted_at"),
            ("server_id,token,server_id", "the column server_id is there twice"),
            (
                "server_id,created_at,name",
                "\"created_at\" is none of server_id, token, ip, voted_at; \
                 leave columns out by --ignore-columns created_at,name",
            ),
            ("server_id,\"token", &format!("no CSV header of server_id, token, ip, voted_at: {MISPLACED}")),
        ] {
            assert_eq!(error(line.as_bytes()), expected, "{line}");
        }
        assert!(error(b"server_id,").contains("\"\" is none of"));
        // Regression: the hint told to leave out the column with the time of the votes.
        for line in [&b"server_id,ip,created_at"[..], b"server_id,voted_at,address", b"server_id,user_ip,created_at"] {
            let error = error_in(true, line);
            assert!(error.contains("rename the columns that hold the address and the time"), "{error}");
            assert!(error.ends_with("leave the others out by --ignore-columns"), "{error}");
        }
        let error_of_votes = error_in(true, b"server_id,ip,voted_at,name");
        assert!(error_of_votes.ends_with("leave columns out by --ignore-columns name"), "{error_of_votes}");
        assert_eq!(error(b"\xFF\xFE"), "the header is not UTF-8");
    }
}
