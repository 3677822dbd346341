//! `vote-status import`: servers and votes out of files, line by line.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write, stdin};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::{Value, json};

use super::batch_upload::{Refusal, Totals, UploadBatch};
use super::client::ControlClient;
use super::csv::{CsvReader, OVERLONG, RECORD_BYTES_MAX, RecordFault};
use super::lines::{Lines, TextLine};
use super::progress::Progress;
use super::{CliError, Exit, is_store, note, say, unwritable};
use crate::control::export_header;
use crate::json::{self, escaped};
use crate::limits::BATCH_LINE_BYTES_MAX;

const BUFFER_BYTES: usize = 256 * 1024;

/// Imports the files that the options name.
///
/// # Errors
/// Where a file cannot be read, or the service cannot be reached. Lines taken until then stay,
/// and taking them again changes nothing.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let sources = sources(options)?;
    let client = ControlClient::new(options)?;
    // This tells a wrong address or key before any file is read.
    client.get("/v1/servers?limit=1")?.expect(&[200])?;
    let refused = RefusalLog::new(options.get_one::<PathBuf>("refused"), &sources)?;
    let [replaces, accepts] = ["replace-tokens", "accept-settings"].map(|flag| u8::from(options.get_flag(flag)));
    let asked = format!("errors_max=10000&accept_settings={accepts}");
    let mut import = Import {
        client,
        progress: Progress::new(sources.iter().map(ImportSource::bytes).sum()),
        bytes_before: 0,
        ignored: options.get_many("ignore-columns").unwrap_or_default().cloned().collect(),
        refused,
        tokenless: Vec::new(),
        generated: Vec::new(),
        servers: UploadBatch::new(format!("/v1/servers/batch?{asked}&replace_tokens={replaces}")),
        votes: UploadBatch::new(format!("/v1/votes/batch?{asked}")),
    };
    let mut taken = TakenFile::Whole;
    for source in &sources {
        taken = import.take(source)?;
        if !matches!(taken, TakenFile::Whole) {
            break;
        }
    }
    let exit = import.finish(options.get_flag("json"), &sources)?;
    match taken {
        TakenFile::Whole => Ok(exit),
        TakenFile::Nothing(why) => {
            note(format_args!("vote-status: {why}; nothing was taken from this file"));
            Ok(Exit::Negative)
        }
        TakenFile::Part(fault) => Err(fault),
    }
}

/// How far a file was taken.
enum TakenFile {
    Whole,
    /// The file is empty, or of the wrong kind, as the text says.
    Nothing(String),
    /// The lines up to the fault.
    Part(CliError),
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileContent {
    Servers,
    Votes,
    Both,
}

struct ImportSource {
    path: PathBuf,
    content: FileContent,
}

/// Servers first: votes need listed servers.
fn sources(options: &ArgMatches) -> Result<Vec<ImportSource>, CliError> {
    let named = [("servers", FileContent::Servers), ("votes", FileContent::Votes), ("file", FileContent::Both)];
    let source = |(name, content)| {
        options.get_one::<PathBuf>(name).map(|path: &PathBuf| ImportSource { path: path.clone(), content })
    };
    let sources: Vec<ImportSource> = named.into_iter().filter_map(source).collect();
    if sources.len() > 1 && sources.iter().all(ImportSource::is_stdin) {
        return Err(CliError::new("standard input can be read once: name a file for --servers or for --votes"));
    }
    Ok(sources)
}

impl ImportSource {
    fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    fn name(&self) -> String {
        if self.is_stdin() { "standard input".to_owned() } else { self.path.display().to_string() }
    }

    /// The size of the file in bytes, if it is known.
    fn bytes(&self) -> Option<u64> {
        self.path.metadata().ok().filter(|metadata| metadata.is_file() && !self.is_stdin()).map(|file| file.len())
    }

    fn open(&self) -> Result<Box<dyn BufRead>, CliError> {
        if self.is_stdin() {
            return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, stdin())));
        }
        let file = File::open(&self.path).map_err(|error| self.unreadable(&error))?;
        Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
    }

    fn unreadable(&self, error: &std::io::Error) -> CliError {
        CliError::new(format_args!("cannot read {}: {error}", self.name()))
    }
}

/// The format of a file's lines, by its first line that is not blank.
enum FileFormat {
    Json,
    Csv(Box<CsvReader>),
}

impl FileFormat {
    fn detect(source: &ImportSource, line: &[u8], ignored: &[String]) -> Result<Self, String> {
        let path: &Path = &source.path;
        let csv = || CsvReader::new(line, ignored, source.content != FileContent::Servers);
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "csv" | "tsv" => Ok(Self::Csv(csv()?.into())),
            "ndjson" | "jsonl" => Ok(Self::Json),
            _ if line.trim_ascii().starts_with(b"{") => Ok(Self::Json),
            _ => Ok(Self::Csv(csv()?.into())),
        }
    }

    fn is_between_records(&self) -> bool {
        match self {
            Self::Json => true,
            Self::Csv(reader) => reader.is_between_records(),
        }
    }

    /// The JSON object that a line is or ends; `None` if the record goes on. A line without its text is too long.
    fn object<'a>(&mut self, text: Option<&'a [u8]>) -> Result<Option<Cow<'a, [u8]>>, RecordFault> {
        let object = match (self, text) {
            (Self::Json, text) => Cow::Borrowed(text.ok_or_else(overlong).map_err(RecordFault::Refused)?),
            (Self::Csv(reader), Some(text)) => match reader.object(text)? {
                Some(object) => Cow::Owned(object),
                None => return Ok(None),
            },
            (Self::Csv(_), None) => return Err(RecordFault::Lost(OVERLONG.to_owned())),
        };
        if object.len() > BATCH_LINE_BYTES_MAX { Err(RecordFault::Refused(overlong())) } else { Ok(Some(object)) }
    }
}

fn overlong() -> String {
    format!("the line is longer than {BATCH_LINE_BYTES_MAX} bytes")
}

struct Import {
    client: ControlClient,
    progress: Progress,
    /// Bytes of the files that are done.
    bytes_before: u64,
    /// Columns to ignore.
    ignored: Vec<String>,
    refused: RefusalLog,
    /// Servers on their way that come without a token.
    tokenless: Vec<u64>,
    /// Servers that were not listed and came without a token, with the token that the service made.
    generated: Vec<(u64, String)>,
    servers: UploadBatch,
    votes: UploadBatch,
}

impl Import {
    fn take(&mut self, source: &ImportSource) -> Result<TakenFile, CliError> {
        let mut lines = Lines::new(source.open()?);
        let judged = self.judged();
        self.begin(None);
        let taken = self.take_lines(source, &mut lines)?;
        let bytes_read = lines.bytes_read();
        self.post(source, bytes_read)?;
        self.bytes_before += bytes_read;
        if matches!(taken, TakenFile::Whole) && self.judged() == judged && !self.votes.has_header() {
            let name = source.name();
            return Ok(TakenFile::Nothing(match source.content {
                FileContent::Servers if self.servers.totals.skipped > 0 => {
                    format!("{name} holds votes, and --servers wants servers")
                }
                FileContent::Votes if self.votes.totals.skipped > 0 => {
                    format!("{name} holds servers, and --votes wants votes")
                }
                _ => format!("{name} has no line of a server or a vote"),
            }));
        }
        Ok(taken)
    }

    const fn judged(&self) -> u64 {
        self.servers.totals.judged() + self.votes.totals.judged()
    }

    /// Takes lines up to the end or to the first fault.
    fn take_lines(
        &mut self,
        source: &ImportSource,
        lines: &mut Lines<Box<dyn BufRead>>,
    ) -> Result<TakenFile, CliError> {
        let (mut format, mut is_warned): (Option<FileFormat>, bool) = (None, false);
        // The number of the record's first line.
        let mut first = 0;
        let lost = |line: u64, reason: &str| {
            let name = source.name();
            let what = "the lines before it were taken, and none from there on";
            TakenFile::Part(CliError::new(format_args!("{name} line {line}: {reason}; {what}")))
        };
        while let Some(TextLine { number, text }) = lines.next().map_err(|error| source.unreadable(&error))? {
            let is_new = format.as_ref().is_none_or(FileFormat::is_between_records);
            if is_new {
                if text.is_some_and(|text| text.trim_ascii().is_empty()) {
                    continue;
                }
                first = number;
            }
            let format = match &mut format {
                Some(format) => format,
                None => {
                    let detect = |text| FileFormat::detect(source, text, &self.ignored);
                    let format = match text.ok_or_else(overlong).and_then(detect) {
                        Ok(detected) => format.insert(detected),
                        Err(reason) => {
                            let name = source.name();
                            return Ok(TakenFile::Nothing(format!("{name} line {number}: {reason}")));
                        }
                    };
                    if matches!(format, FileFormat::Csv(_)) {
                        // This line was the header.
                        lines.set_bytes_max(RECORD_BYTES_MAX);
                        continue;
                    }
                    format
                }
            };
            match format.object(text) {
                Ok(None) => {}
                Ok(Some(object)) if export_header::is_header(&object) => {
                    let header = object.into_owned();
                    self.post(source, lines.bytes_read())?;
                    self.begin(Some(&header));
                }
                Ok(Some(object)) => {
                    if matches!(format, FileFormat::Json)
                        && source.content == FileContent::Both
                        && !self.votes.has_header()
                        && !is_warned
                    {
                        is_warned = true;
                        self.warn_of_no_header(source);
                    }
                    if self.push(source.content, first, &object) {
                        self.post(source, lines.bytes_read())?;
                    }
                }
                Err(RecordFault::Refused(reason)) => self.refuse(source, first, &reason)?,
                Err(RecordFault::Lost(reason)) => return Ok(lost(first, &reason)),
            }
        }
        let is_whole = format.is_none_or(|format| format.is_between_records());
        Ok(if is_whole { TakenFile::Whole } else { lost(first, "a quote is never closed") })
    }

    /// Begins the lines of an export with this header, or of a file without one.
    fn begin(&mut self, header: Option<&[u8]>) {
        self.servers.begin(header);
        self.votes.begin(header);
    }

    /// Warns that the settings by which a file was made are unknown.
    fn warn_of_no_header(&self, source: &ImportSource) {
        self.progress.clear();
        let name = source.name();
        note(format_args!(
            "vote-status: {name} has no header, as exports of 1.0.0: its votes count by the service's settings"
        ));
    }

    /// Adds a line to its batch; true if it is time to post.
    fn push(&mut self, content: FileContent, number: u64, object: &[u8]) -> bool {
        let members = match content {
            FileContent::Votes => None,
            FileContent::Servers | FileContent::Both => json::object::<Members>(object).ok(),
        };
        let is_server = members.as_ref().is_some_and(|members| !members.ip && !members.ips && !members.voted_at);
        if let Some(Members { server_id, token: None, .. }) = members
            && is_server
        {
            self.tokenless.extend(server_id.as_u64());
        }
        let is_servers = is_server || content == FileContent::Servers;
        let batch = if is_servers { &mut self.servers } else { &mut self.votes };
        batch.push(number, object);
        batch.is_full()
    }

    /// Posts the servers, and then the votes, which may be for these servers.
    fn post(&mut self, source: &ImportSource, bytes_read: u64) -> Result<(), CliError> {
        let tokenless = std::mem::take(&mut self.tokenless);
        let new = self.unlisted(tokenless)?;
        for batch in [&mut self.servers, &mut self.votes] {
            let lines = batch.len();
            let posted = batch.post(&self.client).map_err(|error| {
                let name = source.name();
                CliError::new(format_args!("{error}; what was taken of {name} stays, and may be imported again"))
            });
            for refusal in posted?.into_iter().filter(|refusal| refusal.word != "expired") {
                self.refused.tell(&self.progress, source, &refusal)?;
            }
            self.progress.advance(self.bytes_before + bytes_read, lines);
        }
        for id in new {
            let record = self.client.get(&format!("/v1/servers/{id}"))?;
            // A refused line leaves its server unlisted.
            if record.status == 200 {
                self.generated.push((id, record.text("token").to_owned()));
            }
        }
        Ok(())
    }

    /// The ids among `servers` that the service does not list.
    fn unlisted(&self, mut servers: Vec<u64>) -> Result<Vec<u64>, CliError> {
        servers.sort_unstable();
        servers.dedup();
        let mut unlisted = Vec::new();
        for id in servers {
            if self.client.get(&format!("/v1/servers/{id}"))?.status == 404 {
                unlisted.push(id);
            }
        }
        Ok(unlisted)
    }

    /// Refuses a line that never reaches the service.
    fn refuse(&mut self, source: &ImportSource, line: u64, reason: &str) -> Result<(), CliError> {
        let (totals, word) = match source.content {
            FileContent::Servers => (&mut self.servers.totals, "invalid_server"),
            FileContent::Votes | FileContent::Both => (&mut self.votes.totals, "invalid_vote"),
        };
        totals.invalid += 1;
        self.refused.tell(&self.progress, source, &Refusal { line, word: word.into(), message: reason.into() })
    }

    fn finish(self, is_json: bool, sources: &[ImportSource]) -> Result<Exit, CliError> {
        let (servers, votes) = (self.servers.totals, self.votes.totals);
        self.refused.finish()?;
        drop(self.progress);
        if is_json {
            let generated = |(id, token): &(u64, String)| json!({ "server_id": id, "token": token });
            let generated: Vec<Value> = self.generated.iter().map(generated).collect();
            say(json!({ "servers": servers, "votes": votes, "generated": generated }))?;
        } else {
            for (id, token) in &self.generated {
                say(format_args!("server {id} came without a token, and was given {token}"))?;
            }
            for (name, content, totals) in
                [("servers", FileContent::Servers, servers), ("votes", FileContent::Votes, votes)]
            {
                if sources.iter().any(|source| source.content == content || source.content == FileContent::Both) {
                    say(summary(name, &totals))?;
                }
            }
        }
        let is_clean = servers.refused() + votes.refused() == 0;
        Ok(if is_clean { Exit::Success } else { Exit::Negative })
    }
}

fn summary(name: &str, totals: &Totals) -> String {
    let Totals { recorded, unchanged, expired, unknown_server, token_differs, invalid, skipped } = totals;
    let refused = totals.refused();
    let mut line = format!("{name}: {recorded} recorded, {unchanged} unchanged, {refused} refused");
    if refused > 0 {
        line += &format!(" ({unknown_server} of an unknown server, {invalid} invalid)");
    }
    if *token_differs > 0 {
        line.truncate(line.len() - 1);
        line += &format!(", {token_differs} with another token than the server has)");
    }
    if *expired > 0 {
        line += &format!(", {expired} expired");
    }
    if *skipped > 0 {
        line += &format!(", {skipped} of the other kind skipped");
    }
    line
}

/// The members of a line that tell a server from a vote. The service judges their values.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Members {
    #[serde(deserialize_with = "is_there")]
    ip: bool,
    #[serde(deserialize_with = "is_there")]
    ips: bool,
    #[serde(deserialize_with = "is_there")]
    voted_at: bool,
    token: Option<IgnoredAny>,
    server_id: Value,
}

/// Whether the member is there, null or not: a vote with an unknown member is still a vote.
fn is_there<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// The target of refused lines: a file, or else standard error.
struct RefusalLog(Option<(BufWriter<File>, PathBuf)>);

impl RefusalLog {
    fn new(path: Option<&PathBuf>, sources: &[ImportSource]) -> Result<Self, CliError> {
        let file_id = |path: &PathBuf| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let open = |path: &PathBuf| {
            if file_id(path).is_some_and(|id| sources.iter().any(|source| file_id(&source.path) == Some(id))) {
                let path = path.display();
                return Err(CliError::new(format_args!("{path} is imported: give --refused another file")));
            }
            if path.is_file() && is_store(path).map_err(|error| unwritable(path, &error))? {
                let path = path.display();
                return Err(CliError::new(format_args!("{path}: it is a store: give --refused another file")));
            }
            match File::create(path) {
                Ok(file) => Ok((BufWriter::new(file), path.clone())),
                Err(error) => Err(unwritable(path, &error)),
            }
        };
        path.map(open).transpose().map(Self)
    }

    fn tell(&mut self, progress: &Progress, source: &ImportSource, refusal: &Refusal) -> Result<(), CliError> {
        let Refusal { line, word, message } = refusal;
        let text = format!("{}: line {line}: {word}: {message}", source.name());
        match &mut self.0 {
            Some((file, path)) => writeln!(file, "{}", escaped(&text)).map_err(|error| unwritable(path, &error)),
            None => {
                progress.clear();
                note(text);
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<(), CliError> {
        let Some((mut file, path)) = self.0 else { return Ok(()) };
        file.flush().map_err(|error| unwritable(&path, &error))
    }
}
