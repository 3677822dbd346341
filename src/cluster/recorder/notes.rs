//! The reports of the log and the status about a node and its store.

use std::path::Path;

use serde_json::{Value, json};

use super::NodeRecorder;
use crate::cluster::address::Host;
use crate::cluster::digest::{Digest, NodeDigest};
use crate::cluster::keys::{self, SCHEMA};
use crate::cluster::link::{LinkError, refusal};
use crate::cluster::node::output::{NodeLine, Note, Unfit};
use crate::cluster::reason::Reason;
use crate::cluster::wire::last::Last;
use crate::recorder::command::Reply;
use crate::store::StoreError;
use crate::vote::settings::Settings;

/// The log's words on status requests while the store fails.
pub(super) const MEANWHILE: &str = "status requests are answered by what is known";
/// The same words before the first state.
const NOT_READY: &str = "status requests are answered 503";
/// The log's words on votes while the store gets none.
pub(super) const WITHOUT_VOTES: &str = "votes and changes are answered 503";

impl NodeRecorder {
    /// Answers the questions for a digest that are due: the shown state is the log up to one entry, or their wait is
    /// over.
    pub(super) fn tell_digests(&mut self) {
        if self.digests.is_empty() {
            return;
        }
        let (shown_to, now_ms) = (self.machine.shown_to(), self.now_ms());
        let due = self.digests.extract_if(.., |(_, until_ms)| shown_to.is_some() || now_ms >= *until_ms);
        for (respond, _) in due.collect::<Vec<_>>() {
            respond(Reply::Digest(self.digest(shown_to.unwrap_or(self.machine.position()))));
        }
    }

    /// The digest of the shown state, which is the log up to this entry.
    fn digest(&self, position: Last) -> Value {
        let now = self.clock.now().wall;
        let state = Digest::of(&self.live.directory.snapshot(), &self.live.table.view(), self.settings.cooldown, now);
        let store_id = self.status.store.get().cloned().unwrap_or_default();
        let (n, id) = (position.n, position.id.to_string());
        json!(NodeDigest { store_id, n, id, now: now.0, state })
    }

    /// Updates the node's standing in the status.
    pub(super) fn show_standing(&mut self) {
        let now = self.clock.now();
        let is_following = self.machine.is_following();
        if self.machine.is_at_end() {
            self.status.fresh_at_us.set(self.log_asked_us);
        }
        if is_following {
            self.reading_since_ms = None;
        } else if self.machine.is_reading() {
            self.reading_since_ms.get_or_insert(now.monotonic_ms);
        }
        let last = self.machine.position();
        self.status.set_position(last.n, last.id);
        self.status.owed.set(self.machine.owed_len() as u64);
        self.status.set_following(is_following);
        self.status.set_refusal(self.machine.refusal(true, now.monotonic_ms));
        let staleness_ms = self.status.staleness_us(now.monotonic_us) / 1_000;
        self.readiness.set_stale(self.stale_max_ms.is_some_and(|max_ms| staleness_ms > max_ms));
    }

    pub(super) fn note_lost(&mut self, line: NodeLine, error: &LinkError) {
        let now_ms = self.now_ms();
        match line {
            NodeLine::Feed => {
                self.status.feed_failures.add(1);
                if let LinkError::Refused(Reason::Unfit, why) = error {
                    self.loaded.get_or_insert(Err(StoreError::Unusable(why.clone())));
                }
                let meanwhile = if self.machine.is_loaded() { MEANWHILE } else { NOT_READY };
                self.status.feed_reason.note(Some(error), now_ms, meanwhile);
            }
            NodeLine::Votes => {
                self.status.submitter_failures.add(1);
                self.status.votes_reason.note(Some(error), now_ms, WITHOUT_VOTES);
            }
        }
    }

    fn note_unfit(&mut self, why: &Unfit) {
        let own = self.status.store.get().map(String::as_str);
        let host = self.lines[NodeLine::Feed as usize].host.as_ref();
        let error = unfit(why, host, own, self.settings, &self.id_path);
        self.note_lost(NodeLine::Feed, &error);
    }

    pub(super) fn note(&mut self, note: Note) {
        let host = |line: NodeLine| self.lines[line as usize].host.as_ref();
        let store = at(host(NodeLine::Feed));
        match note {
            Note::Late(line) => {
                let error = late(host(line));
                self.note_lost(line, &error);
            }
            Note::Unfit(why) => self.note_unfit(&why),
            Note::Read(cause, owed) => {
                let now_ms = self.now_ms();
                self.status.rebuilds[cause as usize].add(1);
                let took_ms = now_ms - self.reading_since_ms.take().unwrap_or(now_ms);
                let (label, owes) =
                    (cause.label(), if owed > 0 { "; what it has lost is given back to it" } else { "" });
                log::info!("the state was read from the store in {took_ms} ms ({label}){owes}");
                self.status.feed_reason.note(None, now_ms, MEANWHILE);
            }
            Note::Unreadable(what) => {
                log::error!(
                    "{what} cannot be read at {store}, and its votes are not shown; put the key right, or UNLINK it"
                );
            }
            Note::Strange(id) => {
                if self.status.strange.get() == 0 {
                    log::error!(
                        "STRANGE entry {id} in the log of {store}: another program wrote it; the node skips such entries, find that program"
                    );
                }
                self.status.strange.add(1);
            }
            Note::Given(stands, gone) => {
                self.status.restored.add(stands as u64);
                self.status.not_restored.add(gone as u64);
            }
            Note::GivenBack => {
                let (restored, refused) = (self.status.restored.get(), self.status.not_restored.get());
                log::info!(
                    "what the store had lost is given back: {restored} facts taken and {refused} refused since the start"
                );
            }
            Note::Refused(why) => {
                let owed = self.machine.owed_len();
                log::error!(
                    "lost votes cannot be given back yet: {store} refuses: {why}; {owed} votes and servers are known to nodes alone, and lost with the last of them: do not restart this node"
                );
            }
            Note::SetAside(server, why) => log::error!(
                "the votes of server {server} cannot be given back to {store}: {why}; put the key right, or UNLINK it"
            ),
            Note::Waits => log::info!(
                "votes wait until the other nodes have given back what {store} may have lost, 5 s at most for each that does not answer"
            ),
            Note::WaitIsOver => log::info!("the other nodes have given back what they knew: votes are taken"),
            Note::StoodStill(ms) => {
                log::warn!("this process stood still for {ms} ms: changes that were sent meanwhile are answered 503");
            }
        }
    }
}

/// The store's name in messages.
fn at(host: Option<&Host>) -> String {
    host.map_or_else(|| "the store".to_owned(), |host| format!("the store at {host}"))
}

/// The error for a reply that does not come in time.
fn late(host: Option<&Host>) -> LinkError {
    LinkError::Lost(Reason::TimeOut, format!("{} does not answer: it takes too long", at(host)))
}

/// The error for a refusal, by the store or, with a code of its own, by the node.
pub(super) fn refused(host: Option<&Host>, text: &str) -> LinkError {
    let reason = refusal(text);
    let is_own = matches!(reason, Reason::Unsettled | Reason::Unreachable);
    let why = if is_own { text.to_owned() } else { format!("{} refuses: {text}", at(host)) };
    LinkError::Refused(reason, why)
}

/// The error for a store that cannot be followed, with the remedy.
fn unfit(why: &Unfit, host: Option<&Host>, own: Option<&str>, settings: Settings, id_path: &Path) -> LinkError {
    let place = host.map_or_else(String::new, |host| format!(" at {host}"));
    let (reason, line) = match (why, own) {
        (Unfit::Empty, None) => (
            Reason::WrongStore,
            format!("EMPTY store{place}: it has no id yet; run `vote-status cluster init` once, for all nodes"),
        ),
        (Unfit::Empty, Some(own)) => (
            Reason::WrongStore,
            format!(
                "EMPTY store{place}: it has lost all of store {own}; run `vote-status reseed`, which fills it from a node"
            ),
        ),
        (Unfit::Filling, _) => (Reason::WrongStore, format!("EMPTY store{place}: it is being filled")),
        (Unfit::Other(store), own) => (
            Reason::WrongStore,
            format!(
                "OTHER store{place}: it has the id {store}, and this node follows {}; to follow it all the same stop the node and remove {}",
                own.unwrap_or_default(),
                id_path.display()
            ),
        ),
        (Unfit::Schema(schema), _) => (
            Reason::Unfit,
            format!(
                "{} has schema {schema}, and this version knows {SCHEMA}: run the version that made it, or make a new store in an empty Redis",
                at(host)
            ),
        ),
        (Unfit::Cooldown(seconds), _) => {
            let minutes = seconds / 60;
            (
                Reason::Unfit,
                format!(
                    "{} has a cooldown of {minutes} minutes, and this node was started with {}: give --cooldown-minutes {minutes}",
                    at(host),
                    settings.cooldown.minutes()
                ),
            )
        }
        (Unfit::Prefix(bits), _) => (Reason::Unfit, prefix(*bits, host, settings)),
        (Unfit::Refused(text), _) => return refused(host, text),
    };
    LinkError::Refused(reason, line)
}

fn prefix(bits: u64, host: Option<&Host>, settings: Settings) -> String {
    if !(32..=64).contains(&bits) {
        return format!("{} has no IPv6 prefix from 32 to 64: see HGET {} v6", at(host), keys::META);
    }
    format!(
        "{} tells IPv6 voters apart by {bits} bits, and this node was started with {}: give --ipv6-prefix {bits}",
        at(host),
        settings.ipv6_prefix.bits()
    )
}
