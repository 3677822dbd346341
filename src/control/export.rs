//! Everything out again: the servers, then the votes still in cooldown, as NDJSON in chunks.
//!
//! What comes out stands for no single moment: a shard is as it was when its turn came. Memory is
//! bounded by one shard and one chunk.

use std::io::Write;
use std::sync::Arc;

use super::reply::ServerBody;
use super::stream::{append_lines, append_stream_end, append_stream_head};
use crate::http::response::Framing;
use crate::http::session::Step;
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::vote::table::{CooldownView, Cooling};
use crate::vote::time::{Cooldown, UnixSeconds};

/// A chunk is sent once it holds this much, in bytes.
const CHUNK_BYTES: usize = 32 * 1024;

/// What comes next.
enum ExportStage {
    Servers(Option<ServerId>),
    Votes(usize),
}

/// One export between its head and its last chunk.
pub struct Export {
    is_begun: bool,
    stage: ExportStage,
    servers: Arc<Snapshot>,
    cooldowns: CooldownView,
    cooldown: Cooldown,
}

impl Export {
    /// An export of this state.
    #[must_use]
    pub const fn new(servers: Arc<Snapshot>, cooldowns: CooldownView, cooldown: Cooldown) -> Self {
        Self { is_begun: false, stage: ExportStage::Servers(None), servers, cooldowns, cooldown }
    }

    /// Appends the next part.
    pub fn append(&mut self, framing: Framing, now: UnixSeconds, out: &mut Vec<u8>) -> Step {
        if !std::mem::replace(&mut self.is_begun, true) {
            append_stream_head(framing, now, out);
            return if framing.head_only { Step::Done } else { Step::More };
        }
        let (mut lines, mut shard, mut is_over) = (Vec::new(), Vec::new(), false);
        while lines.len() < CHUNK_BYTES && !is_over {
            is_over = !self.add_lines(now, &mut lines, &mut shard);
        }
        append_lines(framing, &lines, out);
        if is_over {
            append_stream_end(framing, out);
            return Step::Done;
        }
        Step::More
    }

    /// Adds the lines of some servers or of one shard; `false` at the end.
    fn add_lines(&mut self, now: UnixSeconds, lines: &mut Vec<u8>, shard: &mut Vec<Cooling>) -> bool {
        match self.stage {
            ExportStage::Servers(after) => {
                let mut last = None;
                for (id, token) in self.servers.iter_after(after).take(256) {
                    // A Vec takes whatever is written to it.
                    let _written = serde_json::to_writer(&mut *lines, &ServerBody::new(id, token));
                    lines.push(b'\n');
                    last = Some(id);
                }
                self.stage = if last.is_some() { ExportStage::Servers(last) } else { ExportStage::Votes(0) };
            }
            ExportStage::Votes(index) => {
                shard.clear();
                if !self.cooldowns.copy_shard(index, now, shard) {
                    return false;
                }
                // A server that came after the export began is not in it, nor are its votes.
                shard.retain(|entry| self.servers.contains(entry.pair.server));
                for Cooling { pair, expires_at } in shard.iter() {
                    let voted_at = self.cooldown.voted_at(*expires_at);
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
