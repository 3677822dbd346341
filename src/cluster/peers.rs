//! The other nodes of a store. Each says in the store up to which of its histories it has given back all that
//! it knew. A node that starts in a history that it does not know would take a vote again that others still
//! show: so it waits for them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use redis::{Value, cmd};

use super::calls;
use super::entry::{items, text};
use super::identity;
use super::keys;
use super::link::LinkError;
use super::primary::Primary;
use crate::random;

/// The others are waited for no longer than this, in milliseconds.
const WAIT_MAX_MS: u64 = 5_000;

/// This node among the others.
///
/// A history is told by its name and by how many keys the store has dropped in it: of what was dropped the others
/// know, as of what another history lacks.
pub struct Peers {
    path: PathBuf,
    /// The name by which the others know this process. A restart has another one.
    name: String,
    /// By what they knew the process before this one, and the history that it followed last.
    before: Option<(String, String)>,
    /// The history to which nothing is owed, as it was said last.
    told: String,
    /// Whether the store took that: the others know it.
    pub is_told: bool,
    /// This node has just started, and takes no votes before this, in milliseconds of the monotonic clock.
    wait_until_ms: Option<u64>,
}

/// Whether something may be lost that others know: not in the history that this node followed, nor in a new store.
fn has_to_wait(followed: Option<&str>, history: &str, is_new: bool) -> bool {
    followed.map_or(!is_new, |followed| followed != history)
}

impl Peers {
    /// Reads what was kept at `path`.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        // What cannot be read is as if there were nothing: the node waits for the others then.
        let kept = identity::read(&path).ok().flatten();
        let words = kept.as_deref().and_then(|kept| kept.split_once(' '));
        let before = words.map(|(name, history)| (name.to_owned(), history.to_owned()));
        // Without random numbers the process id is the name: it differs at least between nodes of one machine.
        let name = random::bits().map_or_else(|_| std::process::id().into(), u128::from_be_bytes);
        Self { path, name: format!("{name:032x}"), before, told: String::new(), is_told: false, wait_until_ms: None }
    }

    /// Begins to wait for the others, where that is needed, when the state was read for the first time.
    pub fn begin(&mut self, primary: &Primary, is_new: bool, now_ms: u64) {
        let followed = self.before.as_ref().map(|(_, history)| history.as_str());
        if !has_to_wait(followed, &primary.history(), is_new) {
            return;
        }
        self.wait_until_ms = Some(now_ms + WAIT_MAX_MS);
        log::info!(
            "the store at {} has a history that this node does not know: votes wait until the other nodes have given back what it may have lost, {} s at most",
            primary.link.host(),
            WAIT_MAX_MS / 1_000
        );
    }

    /// Begins the wait anew, if this node waits, as the store may have lost something since.
    pub fn begin_again(&mut self, now_ms: u64) {
        self.wait_until_ms = self.wait_until_ms.map(|_| now_ms + WAIT_MAX_MS);
    }

    /// Whether this node waits for others.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.wait_until_ms.is_some()
    }

    /// Tells the others again what was told last, so that it is known to be there.
    ///
    /// # Errors
    /// [`LinkError::Lost`]. A store that takes no writes is no failure: it takes no votes either.
    pub fn repeat(&mut self, primary: &mut Primary, store: &str) -> Result<(), LinkError> {
        self.say(primary, store, "tidy")
    }

    /// Tells the others that nothing is owed to this history, where it was not told yet.
    ///
    /// # Errors
    /// As [`Peers::repeat`].
    pub fn tell(&mut self, primary: &mut Primary, store: &str) -> Result<(), LinkError> {
        let history = primary.history();
        if self.told == history {
            return Ok(());
        }
        self.told = history;
        self.say(primary, store, "")
    }

    fn say(&mut self, primary: &mut Primary, store: &str, tidy: &str) -> Result<(), LinkError> {
        let former = self.before.as_ref().map_or("", |(name, _)| name.as_str());
        let said = calls::node(store, &self.name, &self.told, former, tidy);
        let answer = primary.link.ask(&said);
        self.is_told = answer.is_ok();
        match answer {
            Err(error @ LinkError::Lost(..)) => Err(error),
            // A store that refuses this refuses votes as well, and that is told.
            Err(LinkError::Refused(..)) | Ok(_) => Ok(()),
        }
    }

    /// Whether there is no node left to wait for.
    ///
    /// # Errors
    /// [`LinkError`]
    pub fn is_over(&mut self, primary: &mut Primary, now_ms: u64) -> Result<bool, LinkError> {
        let Some(until_ms) = self.wait_until_ms else { return Ok(true) };
        let reply = primary.link.ask(cmd("HGETALL").arg(keys::NODES))?;
        let mut others = read(&reply).ok_or_else(|| primary.link.strange("a list of nodes"))?;
        others.remove(&self.name);
        if let Some((former, _)) = &self.before {
            others.remove(former);
        }
        let own = primary.history();
        let behind = others.values().filter(|history| **history != own).count();
        // Finding no node is no proof that there is none: the store may have lost what the others said.
        let is_known = !others.is_empty() && behind == 0;
        if is_known {
            log::info!("all {} other nodes have given back what they knew: votes are taken", others.len());
        } else if now_ms >= until_ms {
            let (seconds, count) = (WAIT_MAX_MS / 1_000, others.len());
            log::warn!(
                "{behind} of {count} other nodes have not said within {seconds} s that they gave back what the store may have lost: votes are taken without them"
            );
        } else {
            return Ok(false);
        }
        self.wait_until_ms = None;
        Ok(true)
    }

    /// Keeps on disk what was told last, for the process after this one.
    pub fn keep(&self) {
        let line = format!("{} {}", self.name, self.told);
        if let Err(why) = identity::keep(&self.path, &line) {
            log::warn!("cannot keep the store's history in {why}; the next start waits for the other nodes");
        }
    }
}

/// Nodes, each with the history to which it owes nothing: names and records in turn.
fn read(reply: &Value) -> Option<BTreeMap<String, String>> {
    let pairs = items(reply)?.chunks_exact(2);
    let history = |record: &str| record.split(';').next().unwrap_or_default().to_owned();
    pairs.map(|pair| Some((text(&pair[0])?.to_owned(), history(text(&pair[1])?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::has_to_wait;

    #[test]
    fn who_knows_the_history_does_not_wait() {
        assert!(!has_to_wait(Some("a"), "a", false));
        assert!(!has_to_wait(None, "a", true), "the first start on a new store");
        assert!(has_to_wait(None, "a", false));
        assert!(has_to_wait(Some("b"), "a", false));
        assert!(has_to_wait(Some("b"), "a", true), "a store that has lost everything looks new");
    }
}
