//! The export: a header, the servers, then the votes still in cooldown, as NDJSON in chunks.
//!
//! An export is no snapshot of one moment: a shard is as it was when its turn came. One shard and
//! one chunk bound the memory.

use std::io::Write;
use std::sync::Arc;

use super::export_header;
use super::reply::ServerBody;
use super::stream::{append_lines, append_stream_end, append_stream_head};
use crate::http::response::Framing;
use crate::http::session::Step;
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::vote::settings::Settings;
use crate::vote::table::{CooldownView, Cooling};
use crate::vote::time::UnixSeconds;

/// A chunk is sent once it has this size, in bytes.
const CHUNK_BYTES: usize = 32 * 1024;

/// The next part.
enum ExportStage {
    Header(Vec<u8>),
    Servers(Option<ServerId>),
    Votes(usize),
}

/// One export between its head and its last chunk.
pub struct Export {
    is_begun: bool,
    stage: ExportStage,
    servers: Arc<Snapshot>,
    cooldowns: CooldownView,
    settings: Settings,
}

impl Export {
    /// An export of this state, which `store` holds.
    #[must_use]
    pub fn new(
        servers: Arc<Snapshot>,
        cooldowns: CooldownView,
        settings: Settings,
        store: &str,
        now: UnixSeconds,
    ) -> Self {
        let mut header = Vec::new();
        export_header::append(settings, now, store, &mut header);
        Self { is_begun: false, stage: ExportStage::Header(header), servers, cooldowns, settings }
    }

    /// Appends the next part: votes that have not ended by the `certain` line.
    pub fn append(&mut self, framing: Framing, now: UnixSeconds, certain: UnixSeconds, out: &mut Vec<u8>) -> Step {
        if !std::mem::replace(&mut self.is_begun, true) {
            append_stream_head(framing, now, out);
            return if framing.head_only { Step::Done } else { Step::More };
        }
        let (mut lines, mut shard, mut is_over) = (Vec::new(), Vec::new(), false);
        while lines.len() < CHUNK_BYTES && !is_over {
            is_over = !self.add_lines(certain, &mut lines, &mut shard);
        }
        append_lines(framing, &lines, out);
        if is_over {
            append_stream_end(framing, out);
            return Step::Done;
        }
        Step::More
    }

    /// Adds the header, the lines of some servers or of one shard; `false` at the end.
    fn add_lines(&mut self, certain: UnixSeconds, lines: &mut Vec<u8>, shard: &mut Vec<Cooling>) -> bool {
        match &mut self.stage {
            ExportStage::Header(header) => {
                lines.append(header);
                self.stage = ExportStage::Servers(None);
            }
            ExportStage::Servers(after) => {
                let mut last = None;
                for (id, token) in self.servers.iter_after(*after).take(256) {
                    // A Vec takes whatever is written to it.
                    let _written = serde_json::to_writer(&mut *lines, &ServerBody::new(id, token));
                    lines.push(b'\n');
                    last = Some(id);
                }
                self.stage = if last.is_some() { ExportStage::Servers(last) } else { ExportStage::Votes(0) };
            }
            ExportStage::Votes(index) => {
                let index = *index;
                shard.clear();
                if !self.cooldowns.copy_shard(index, certain, shard) {
                    return false;
                }
                // A server that came after the export began is not in it, nor are its votes.
                shard.retain(|entry| self.servers.contains(entry.pair.server));
                for Cooling { pair, expires_at } in shard.iter() {
                    let voted_at = self.settings.cooldown.voted_at(*expires_at);
                    let (server, address) = (pair.server, pair.address);
                    let _written =
                        writeln!(lines, r#"{{"server_id":{server},"ip":"{address}","voted_at":"{voted_at}"}}"#);
                }
                self.stage = ExportStage::Votes(index + 1);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Export;
    use crate::http::response::Framing;
    use crate::http::session::Step;
    use crate::vote::address::VoterAddress;
    use crate::vote::directory::Directory;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Prefix;
    use crate::vote::settings::Settings;
    use crate::vote::table::{CooldownTable, Pair};
    use crate::vote::time::{Cooldown, UnixSeconds};

    /// Votes of a removed server stay in the table until they expire. If they were exported, an import would bring
    /// them back once a server of that number is listed.
    #[test]
    fn votes_of_a_server_that_is_not_listed_are_left_out() {
        let (mut directory, mut table) = (Directory::default(), CooldownTable::default());
        let mut servers = directory.snapshot().as_ref().clone();
        servers.insert(ServerId(1), Token::new("one").expect("a token"));
        directory.publish(servers);
        for server in [1, 2] {
            let pair = Pair { server: ServerId(server), address: VoterAddress::V4(Ipv4(7)) };
            table.insert(pair, UnixSeconds(6_000));
        }
        let settings = Settings { cooldown: Cooldown::USUAL, ipv6_prefix: Ipv6Prefix::USUAL };
        let (framing, now) = (Framing { http_1_0: true, ..Framing::last(false) }, UnixSeconds(1_000));
        let mut export = Export::new(directory.snapshot(), table.view(), settings, "memory", now);
        let mut out = Vec::new();
        while export.append(framing, now, now, &mut out) != Step::Done {}
        let text = String::from_utf8(out).expect("it is text");
        let (_, content) = text.split_once("\r\n\r\n").expect("a head");
        let (header, lines) = content.split_once('\n').expect("a header");
        assert!(header.ends_with(r#""exported_at":"1970-01-01T00:16:40Z","store":"memory"}"#), "{header}");
        let vote = r#"{"server_id":1,"ip":"0.0.0.7","voted_at":"1970-01-01T00:10:00Z"}"#;
        assert_eq!(lines, format!("{{\"server_id\":1,\"token\":\"one\"}}\n{vote}\n"));
    }
}
