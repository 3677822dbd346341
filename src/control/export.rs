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

enum ExportStage {
    Head,
    Servers(Option<ServerId>),
    Votes(usize),
}

/// One export between its head and its last chunk.
pub struct Export {
    stage: ExportStage,
    servers: Arc<Snapshot>,
    cooldowns: CooldownView,
    cooldown: Cooldown,
    lines: Vec<u8>,
    shard: Vec<Cooling>,
}

impl Export {
    /// An export of this state.
    #[must_use]
    pub const fn new(servers: Arc<Snapshot>, cooldowns: CooldownView, cooldown: Cooldown) -> Self {
        Self { stage: ExportStage::Head, servers, cooldowns, cooldown, lines: Vec::new(), shard: Vec::new() }
    }

    /// Appends the next part.
    pub fn append(&mut self, framing: Framing, now: UnixSeconds, out: &mut Vec<u8>) -> Step {
        if let ExportStage::Head = self.stage {
            append_stream_head(framing, now, out);
            self.stage = ExportStage::Servers(None);
            return if framing.head_only { Step::Done } else { Step::More };
        }
        let mut is_over = false;
        while self.lines.len() < CHUNK_BYTES && !is_over {
            is_over = !self.add_lines(now);
        }
        append_lines(framing, &self.lines, out);
        // While a slow reader takes this part, no memory is used for the next one.
        (self.lines, self.shard) = (Vec::new(), Vec::new());
        if is_over {
            append_stream_end(framing, out);
            return Step::Done;
        }
        Step::More
    }

    /// The memory that it uses between two parts: none but that the servers of its beginning stay in memory,
    /// which exports share.
    #[must_use]
    pub const fn used_bytes(&self) -> usize {
        self.lines.capacity() + self.shard.capacity() * size_of::<Cooling>()
    }

    /// Adds the lines of some servers or of one shard; `false` at the end.
    fn add_lines(&mut self, now: UnixSeconds) -> bool {
        match self.stage {
            ExportStage::Head => {}
            ExportStage::Servers(after) => {
                let mut last = None;
                for (id, token) in self.servers.iter_after(after).take(256) {
                    // A Vec takes whatever is written to it.
                    let _written = serde_json::to_writer(&mut self.lines, &ServerBody::new(id, token));
                    self.lines.push(b'\n');
                    last = Some(id);
                }
                self.stage = if last.is_some() { ExportStage::Servers(last) } else { ExportStage::Votes(0) };
            }
            ExportStage::Votes(index) => {
                self.shard.clear();
                if !self.cooldowns.copy_shard(index, now, &mut self.shard) {
                    return false;
                }
                // A server that came after the export began is not in it, nor are its votes.
                self.shard.retain(|entry| self.servers.contains(entry.pair.server));
                for Cooling { pair, expires_at } in &self.shard {
                    let voted_at = self.cooldown.voted_at(*expires_at);
                    let (server, address) = (pair.server, pair.address);
                    let _written =
                        writeln!(self.lines, r#"{{"server_id":{server},"ip":"{address}","voted_at":"{voted_at}"}}"#);
                }
                self.stage = ExportStage::Votes(index + 1);
            }
        }
        true
    }
}
