//! A store that nodes share: Redis or Valkey. It is the service's second implementation of a store.
//!
//! ```text
//! recorder (table, machine) ─ questions ─→ line ─→ functions in the store ─→ a ZSET for each server: the truth
//!     ↑                                                                  └─→ log
//!     └──────────────────────── answers ── line ←──────────────────────────────┘
//! ```
//!
//! The store is one primary and its replicas. A status request never comes here.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::clock::Clock;
use crate::random;
use crate::readiness::Readiness;
use crate::recorder::RecorderHandle;
use crate::recorder::live_state::LiveState;
use crate::store::StoreError;
use crate::vote::settings::Settings;
use crate::vote::table::CooldownTable;

pub mod access;
pub mod address;
pub mod admin;
pub mod digest;
pub mod entry;
pub mod failure_log;
pub mod functions;
pub mod identity;
pub mod keys;
mod line;
pub mod link;
pub mod mirror;
pub mod node;
pub mod offset;
pub mod preflight;
pub mod primary;
pub mod reason;
pub mod recorder;
pub mod reply_reader;
pub mod resp;
pub mod socket;
pub mod state;
pub mod status;
#[cfg(feature = "tls")]
pub mod tls;
pub mod view;
pub mod wire;

use address::StoreAddress;
use line::Line;
use node::bounds::Bounds;
use node::output::NodeLine;
use node::{NodeMachine, Start};
use recorder::{LineEnd, NodeMessage, NodeRecorder, RecorderParts};
use view::ClusterView;

/// The largest step back of the store's clock that the node waits out, in microseconds (contract, "Time").
const STANDSTILL_MAX_US: i64 = 60_000_000;

/// The store that a node shares, and the node's settings for it.
#[derive(Clone)]
pub struct RedisStore {
    /// The store's address.
    pub address: StoreAddress,
    /// How long a vote waits until a replica holds it too, in milliseconds; `None` for no wait.
    pub confirm_ms: Option<u64>,
    /// The file that keeps the store's id over restarts.
    pub id_path: PathBuf,
    /// The greatest age of the state of a node that is ready, in milliseconds.
    pub stale_max_ms: Option<u64>,
}

/// The work of a thread.
pub type NodeWork = Box<dyn FnOnce() + Send>;

/// The parts of a node, before its threads are started.
pub struct Node {
    /// Owns the state, and the machine that knows the store.
    pub recorder: NodeRecorder,
    /// The control service's handle of the recorder.
    pub handle: RecorderHandle,
    /// The view of the node's standing.
    pub view: Arc<ClusterView>,
    /// The thread of the feed's connection. It ends with the recorder.
    pub feed: NodeWork,
    /// The thread of the votes' connection. It ends with the recorder.
    pub votes: NodeWork,
    /// The thread that takes commands to the recorder. It ends with the last handle.
    pub submitter: NodeWork,
}

impl RedisStore {
    /// A node on this store, which has these settings.
    #[must_use]
    pub fn open(self, clock: &Clock, settings: Settings, readiness: Readiness) -> Node {
        let Self { address, confirm_ms, id_path, stale_max_ms } = self;
        let kept_id = identity::read(&id_path).map_err(|error| {
            StoreError::Unusable(format!(
                "cannot read {}, which says what store this node follows: {error}; put that right, or remove it to follow the store at {address}",
                id_path.display()
            ))
        });
        let live = LiveState::new(CooldownTable::with_prefix(settings.ipv6_prefix));
        let (sender, messages) = channel();
        // A call may wait for a replica too.
        let (usual, confirm_max_ms) = (Bounds::USUAL, confirm_ms.unwrap_or_default());
        let (patience_ms, answer_min_ms) = (usual.patience_ms + confirm_max_ms, usual.answer_min_ms + confirm_max_ms);
        let bounds = Bounds { patience_ms, answer_min_ms, ..usual };
        let machine = NodeMachine::new(Start {
            bounds,
            settings,
            name: name(),
            store: kept_id.as_ref().ok().cloned().flatten(),
            version: functions::version().to_owned(),
            seed: [random::number(), random::number()],
            shown: live.table.view(),
        });
        let line = |line, confirm_ms| {
            let (orders, ordered) = channel();
            let (news, clock, address) = (sender.clone(), clock.clone(), address.clone());
            // After an error the recorder has ended, and needs no news.
            let tell = Box::new(move |what| drop(news.send(NodeMessage::News(what))));
            let line = Line::new(line, address, ordered, tell, clock, confirm_ms);
            (LineEnd::new(orders), Box::new(|| line.run()) as NodeWork)
        };
        let ((feed_end, feed), (votes_end, votes)) = (line(NodeLine::Feed, None), line(NodeLine::Votes, confirm_ms));
        let (handle, requests) = RecorderHandle::new();
        let submitter = move || {
            for request in requests {
                if sender.send(NodeMessage::Request(request)).is_err() {
                    return;
                }
            }
            // The recorder may have gone first: then it needs no telling.
            let _gone = sender.send(NodeMessage::NoMoreRequests);
        };
        let recorder = NodeRecorder::new(RecorderParts {
            messages,
            live,
            machine,
            lines: [feed_end, votes_end],
            clock: clock.clone(),
            settings,
            readiness,
            stale_max_ms,
            id_path,
            kept_id,
        });
        let view = ClusterView { status: recorder.status(), clock: clock.clone(), settings };
        Node { recorder, handle, view: Arc::new(view), feed, votes, submitter: Box::new(submitter) }
    }
}

/// The name by which the other nodes know this process. A restarted process has another name.
fn name() -> String {
    // Without random numbers the process id is a part of the name: names differ at least between nodes of one machine.
    let own = || u128::from(std::process::id()) << 64 | u128::from(random::number());
    format!("{:032x}", random::bits().map_or_else(|_| own(), u128::from_be_bytes))
}
