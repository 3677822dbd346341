//! `GET /metrics`: everything that is counted, added up at the scrape.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use crate::metrics::answers::{AnswerCounters, Outcome, Variant};
use crate::metrics::{Counter, Kind, Page};
use crate::net::counters::{Cause, EngineCounters};
use crate::readiness::Readiness;
use crate::recorder::counters::RecorderCounters;

/// Whatever counts.
#[derive(Clone, Default)]
pub struct Sources {
    /// Each public worker's answers.
    pub answers: Vec<Arc<AnswerCounters>>,
    /// Each worker's connections, and the listener that it serves.
    pub engines: Vec<(&'static str, Arc<EngineCounters>)>,
    /// The recorder.
    pub recorder: Arc<RecorderCounters>,
}

/// The page; `cooldowns` are the entries that the table holds.
#[must_use]
pub fn metrics(sources: &Sources, readiness: &Readiness, cooldowns: usize) -> String {
    let mut page = Page::default();
    page.family("vote_status_build_info", Kind::Gauge, "Always 1; the labels tell what runs.");
    page.sample("vote_status_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let ready = u8::from(readiness.is_ready());
    page.single("vote_status_ready", Kind::Gauge, "1 while a load balancer should send requests here.", ready);
    answers(&mut page, &sources.answers);
    connections(&mut page, &sources.engines);
    recorder(&mut page, &sources.recorder);
    page.single(
        "vote_status_cooldowns",
        Kind::Gauge,
        "Cooldowns held, expired ones not swept yet included.",
        cooldowns,
    );
    process(&mut page);
    page.into_text()
}

fn answers(page: &mut Page, answers: &[Arc<AnswerCounters>]) {
    let name = "vote_status_requests_total";
    page.family(name, Kind::Counter, "Status requests by variant and outcome.");
    for (variant, variant_label) in Variant::ALL {
        for (outcome, outcome_label) in Outcome::ALL {
            let total: u64 = answers.iter().map(|answers| answers.requests(variant, outcome)).sum();
            page.sample(name, &[("variant", variant_label), ("outcome", outcome_label)], total);
        }
    }
    let mut by_status = BTreeMap::<u16, u64>::new();
    for (status, count) in answers.iter().flat_map(|answers| answers.responses()) {
        *by_status.entry(status).or_default() += count;
    }
    let name = "vote_status_responses_total";
    page.family(name, Kind::Counter, "Public responses by status.");
    for (status, count) in by_status {
        page.sample(name, &[("listener", "public"), ("status", &status.to_string())], count);
    }
}

fn connections(page: &mut Page, engines: &[(&'static str, Arc<EngineCounters>)]) {
    let listeners = ["public", "control"];
    let sum = |listener: &str, value: &dyn Fn(&EngineCounters) -> u64| -> u64 {
        engines.iter().filter(|(name, _)| *name == listener).map(|(_, counters)| value(counters)).sum()
    };
    let mut family = |name: &str, kind: Kind, help: &str, value: &dyn Fn(&EngineCounters) -> u64| {
        page.family(name, kind, help);
        for listener in listeners {
            page.sample(name, &[("listener", listener)], sum(listener, value));
        }
    };
    family("vote_status_connections_open", Kind::Gauge, "Open connections.", &EngineCounters::open);
    family("vote_status_connections_accepted_total", Kind::Counter, "Accepted connections.", &|engine| {
        engine.accepted.get()
    });
    family(
        "vote_status_accept_shortages_total",
        Kind::Counter,
        "Newcomers that met a system out of descriptors.",
        &|engine| engine.accept_shortages.get(),
    );
    family("vote_status_event_loop_turns_total", Kind::Counter, "Turns of the event loops.", &|engine| {
        engine.turns.get()
    });
    let name = "vote_status_connections_closed_total";
    page.family(name, Kind::Counter, "Closed connections by cause.");
    for listener in listeners {
        for (cause, label) in Cause::ALL {
            let count = sum(listener, &|engine| engine.closed[cause as usize].get());
            page.sample(name, &[("listener", listener), ("cause", label)], count);
        }
    }
}

fn recorder(page: &mut Page, recorder: &RecorderCounters) {
    page.family("vote_status_votes_total", Kind::Counter, "Votes asked to be recorded, by outcome.");
    for (outcome, count) in recorder.votes() {
        page.sample("vote_status_votes_total", &[("outcome", outcome)], count);
    }
    let commit = "Time of a successful commit, until it is durable.";
    page.histogram("vote_status_commit_duration_seconds", commit, 1_000_000.0, &recorder.commit_us);
    page.histogram("vote_status_commit_events", "Changes in a successful commit.", 1.0, &recorder.commit_events);
    let mut single =
        |name: &str, kind: Kind, help: &str, counter: &Counter| page.single(name, kind, help, counter.get());
    single("vote_status_commit_failures_total", Kind::Counter, "Commits that failed.", &recorder.commit_failures);
    single("vote_status_swept_total", Kind::Counter, "Expired cooldowns taken out of the table.", &recorder.swept);
    single("vote_status_dropped_total", Kind::Counter, "Expired rows dropped from the store.", &recorder.dropped);
    single("vote_status_clock_steps_total", Kind::Counter, "Steps of the wall clock.", &recorder.clock_steps);
    single("vote_status_servers", Kind::Gauge, "Listed servers.", &recorder.servers);
    single("vote_status_store_bytes", Kind::Gauge, "Size of the store on disk.", &recorder.store_bytes);
    let load_s = recorder.load_ms.get() as f64 / 1_000.0;
    page.single("vote_status_load_seconds", Kind::Gauge, "Time that the load at the start took.", load_s);
}

/// The figures of the process under their usual names; what the system does not tell is left out.
fn process(page: &mut Page) {
    let fields = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the name in parentheses and may hold anything; the rest is plain.
    let fields: Vec<u64> = fields
        .rsplit_once(") ")
        .map(|(_, rest)| rest.split(' ').map(|field| field.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    if let (Some(user), Some(system)) = (fields.get(11), fields.get(12)) {
        let seconds = (user + system) as f64 / TICKS_PER_SECOND;
        page.single("process_cpu_seconds_total", Kind::Counter, "CPU time, user and system.", seconds);
    }
    if let Some(pages) = fields.get(21) {
        let bytes = pages * PAGE_BYTES;
        page.single("process_resident_memory_bytes", Kind::Gauge, "Resident memory.", bytes);
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        page.single("process_open_fds", Kind::Gauge, "Open descriptors.", descriptors.count());
    }
}

/// Linux counts CPU time in these for every program, whatever the kernel's own tick is.
const TICKS_PER_SECOND: f64 = 100.0;
/// Of every machine that this runs on.
const PAGE_BYTES: u64 = 4_096;
