//! The report of a node on a shared store: on `/readyz`, `/v1/cluster` and the metrics page.

use std::sync::Arc;

use serde_json::{Value, json};

use super::reason::{Reason, RebuildCause};
use super::status::NodeStatus;
use crate::clock::Clock;
use crate::metrics::MetricsText;
use crate::recorder::shared::SharedStore;
use crate::vote::settings::Settings;

/// A view of the node's standing.
pub struct ClusterView {
    /// The status that the recorder keeps.
    pub status: Arc<NodeStatus>,
    /// The clock, for the age of the state.
    pub clock: Clock,
    /// The cooldown and the IPv6 prefix.
    pub settings: Settings,
}

impl ClusterView {
    /// The greatest possible age of the state, in seconds to the millisecond.
    fn staleness_seconds(&self) -> f64 {
        (self.status.staleness_us(self.clock.now().monotonic_us) / 1_000) as f64 / 1_000.0
    }

    /// The present failures: why the log is not followed, and why votes are refused.
    fn reasons(&self) -> [Option<(Reason, String)>; 2] {
        let status = &self.status;
        [status.feed_reason.get(), status.barrier.get().or_else(|| status.votes_reason.get())]
    }
}

impl SharedStore for ClusterView {
    fn refusal(&self) -> Option<(&'static str, String)> {
        self.status.refusal().map(|(reason, message)| (reason.label(), message))
    }

    fn unreadable(&self) -> Option<String> {
        self.status.feed_reason.get().map(|(_, message)| message)
    }

    fn add_to_ready(&self, body: &mut Value, is_loaded: bool) {
        if is_loaded {
            body["staleness_seconds"] = self.staleness_seconds().into();
        }
        let [feed, votes] =
            self.reasons().map(|told| told.map(|(reason, what)| json!({ "reason": reason.label(), "message": what })));
        body["store"] = json!({ "following": self.status.is_following(), "feed": feed, "votes": votes });
    }

    fn standing(&self) -> Value {
        let (n, id) = self.status.position();
        json!({
            "store_id": self.status.store.get(),
            "cooldown_minutes": self.settings.cooldown.minutes(),
            "ipv6_prefix": self.settings.ipv6_prefix.bits(),
            "following": self.status.is_following(),
            "id": id.to_string(),
            "n": n,
            "lag_events": self.status.lag_events(),
            "staleness_seconds": self.staleness_seconds(),
        })
    }

    fn add_to(&self, page: &mut MetricsText) {
        let status = &self.status;
        let seconds = |us: f64| us / 1_000_000.0;
        let following = f64::from(u8::from(status.is_following()));
        page.single("vote_status_store_following", "1 while the shared store's log is followed.", following);
        let staleness = seconds(status.staleness_us(self.clock.now().monotonic_us) as f64);
        page.single("vote_status_store_staleness_seconds", "Age of the state of this node.", staleness);
        let lag = status.lag_events() as f64;
        page.single("vote_status_store_lag_events", "Entries of the log not applied yet, at the last look.", lag);
        let round_trip = seconds(status.round_trip_us.get() as f64);
        page.single("vote_status_store_round_trip_seconds", "Time that the store took to answer last.", round_trip);
        let offset_us = status.clock_offset_us() - self.clock.system_offset_us();
        let offset = seconds(offset_us as f64);
        page.single("vote_status_store_clock_offset_seconds", "The store's clock minus this machine's.", offset);

        let owed = status.owed.get() as f64;
        page.single("vote_status_store_owed", "Lost votes and servers that the store has not taken back yet.", owed);
        let name = "vote_status_store_reason";
        page.family(name, "1 for the reason why the log is not followed, or votes are refused.");
        for (connection, now) in ["feed", "votes"].into_iter().zip(self.reasons()) {
            for reason in Reason::ALL {
                let is_it = now.as_ref().is_some_and(|(now, _)| *now == reason);
                page.sample(name, &[("connection", connection), ("reason", reason.label())], u64::from(is_it));
            }
        }
        let name = "vote_status_store_rebuilds_total";
        page.family(name, "States read whole from the store, by cause.");
        for cause in RebuildCause::ALL {
            page.sample(name, &[("cause", cause.label())], status.rebuilds[cause as usize].get());
        }
        let name = "vote_status_store_reoffers_total";
        page.family(name, "Recent votes that the store had lost, offered to it again.");
        page.sample(name, &[("outcome", "restored")], status.restored.get());
        page.sample(name, &[("outcome", "refused")], status.not_restored.get());
        let name = "vote_status_store_connection_failures_total";
        page.family(name, "Failures of the connections to the store.");
        page.sample(name, &[("connection", "feed")], status.feed_failures.get());
        page.sample(name, &[("connection", "votes")], status.submitter_failures.get());
        page.single("vote_status_store_events_total", "Entries of the log that were applied.", status.events.get());
        page.single(
            "vote_status_store_strange_total",
            "Entries of the log that another program wrote.",
            status.strange.get(),
        );
        page.single(
            "vote_status_store_gaps_total",
            "Times that the log did not continue where this node had read to.",
            status.rebuilds[RebuildCause::Gap as usize].get() + status.rebuilds[RebuildCause::History as usize].get(),
        );
        let unconfirmed = status.unconfirmed.get();
        page.single(
            "vote_status_store_unconfirmed_total",
            "Votes that too few replicas confirmed in time.",
            unconfirmed,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::ClusterView;
    use crate::clock::Clock;
    use crate::cluster::link::LinkError;
    use crate::cluster::reason::Reason;
    use crate::metrics::MetricsText;
    use crate::recorder::shared::SharedStore;
    use crate::vote::ipv6::Ipv6Prefix;
    use crate::vote::settings::Settings;
    use crate::vote::time::Cooldown;

    fn view() -> ClusterView {
        let settings = Settings { cooldown: Cooldown::USUAL, ipv6_prefix: Ipv6Prefix::USUAL };
        ClusterView { status: Arc::default(), clock: Clock::new(), settings }
    }

    /// Compares the items of the documented list, by kind and labels, with the families of a page.
    #[test]
    fn every_figure_has_its_row_in_the_documentation_and_no_other() {
        let text = include_str!("../../docs/REFERENCE.md");
        let table = text.split_once("behind `vote_status_store_`").map_or("", |(_, rest)| rest);
        let items = table.lines().filter_map(|line| line.strip_prefix("* `")?.split_once("` ("));
        let documented: Vec<String> = items
            .map(|(name, rest)| {
                let name = name.trim_end_matches('}');
                let (name, labels) = name.split_once('{').unwrap_or((name, ""));
                let (kind, _) = rest.split_once("): ").expect("a meaning behind the kind");
                format!("vote_status_store_{name} {kind} {labels}")
            })
            .collect();
        let mut page = MetricsText::default();
        view().add_to(&mut page);
        let text = page.0;
        let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let told: Vec<String> = families
            .map(|family| {
                let name = family.split(' ').next().unwrap_or_default();
                let sample = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
                let labels =
                    sample.and_then(|sample| sample.split_once('{')?.1.split_once('}')).map_or("", |(all, _)| all);
                let names: Vec<&str> = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
                format!("{family} {}", names.join(","))
            })
            .collect();
        assert_eq!(told, documented);
    }

    /// Votes wait for the feed: none is taken while it does not follow, or facts that may be lost are not given back.
    #[test]
    fn votes_are_refused_unless_all_is_well() {
        let view = view();
        let status = &view.status;
        let word = || view.refusal().map(|(word, _)| word);
        let lost = |reason: Reason| LinkError::Lost(reason, "a line".to_owned());
        status.set_refusal(Some("UNSETTLED store: its state is read".to_owned()));
        assert_eq!(word(), Some("unsettled"));
        status.feed_reason.note(Some(&lost(Reason::Unreachable)), 0, "");
        assert_eq!(word(), Some("unreachable"));
        status.feed_reason.note(None, 0, "");
        assert_eq!(word(), Some("unsettled"));
        status.set_refusal(None);
        assert_eq!(word(), None);
        status.votes_reason.note(Some(&lost(Reason::Memory)), 0, "");
        assert_eq!(word(), Some("memory"));
        status.barrier.note(Some(&lost(Reason::Eviction)), 0, "");
        assert_eq!(word(), Some("eviction"));
    }
}
