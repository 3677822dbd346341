//! `GET /metrics`: all counters, added up at the scrape. docs/REFERENCE.md lists the names and
//! their meaning, and a test compares it with this module.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use crate::http::fault::Fault;
use crate::metrics::answers::{AnswerCounters, Outcome, Variant};
use crate::metrics::{Counter, Histogram, MetricsText};
use crate::net::budget::Budget;
use crate::net::counters::{CloseCause, EngineCounters, ResponseCounters};
use crate::net::listen::Role;
use crate::readiness::{Readiness, Trouble};
use crate::recorder::counters::RecorderCounters;
use crate::recorder::shared::SharedStore;
use crate::vote::time::UnixSeconds;
use crate::waiting::{WaitOutcome, WaitingList};
use crate::watch::WatchBoard;

/// The sources of the page's figures: the counters of every thread, and constants of the run.
#[derive(Clone)]
pub struct Sources {
    /// When the service was started.
    pub started_at: UnixSeconds,
    /// The engine of the public listeners.
    pub engine: &'static str,
    /// Each public worker's answers to status requests.
    pub answers: Vec<Arc<AnswerCounters>>,
    /// Each worker, with its counters.
    pub workers: Vec<WorkerSource>,
    /// The memory that all connections use.
    pub budget: Arc<Budget>,
    /// The recorder.
    pub recorder: Arc<RecorderCounters>,
    /// The list of requests that wait for votes.
    pub waiting: WaitingList,
    /// Lines of the log that were dropped.
    pub log_dropped: Arc<AtomicU64>,
    /// The watchers of questions and votes.
    pub watch: WatchBoard,
}

/// One worker and the service that it runs.
#[derive(Clone)]
pub struct WorkerSource {
    /// The role of its listeners.
    pub role: Role,
    /// Its connections.
    pub engine: Arc<EngineCounters>,
    /// Its responses, except those to status requests.
    pub responses: Arc<ResponseCounters>,
    /// Its share of the open connections.
    pub connections_max: usize,
}

/// Counters of commits and of lags are in microseconds.
const MICROSECONDS: f64 = 1_000_000.0;

/// Faults of a request that is no HTTP, or exceeds a bound.
const PARSE_FAULTS: [Fault; 7] = [
    Fault::BadRequest,
    Fault::ContentTooLarge,
    Fault::UriTooLong,
    Fault::ExpectationFailed,
    Fault::HeadersTooLarge,
    Fault::NotImplemented,
    Fault::VersionNotSupported,
];

/// The page at `now_ms` of the monotonic clock; `cooldowns` are the entries that the table holds of each family.
#[must_use]
pub fn metrics(
    sources: &Sources,
    readiness: &Readiness,
    now_ms: u64,
    cooldowns: [usize; 2],
    shared: Option<&dyn SharedStore>,
) -> String {
    let mut page = MetricsText::default();
    page.family("vote_status_build_info", "Always 1; the labels name version and engine.");
    let build = [("version", env!("CARGO_PKG_VERSION")), ("engine", sources.engine)];
    page.sample("vote_status_build_info", &build, 1);
    let ready = u8::from(readiness.is_ready());
    page.single("vote_status_ready", "1 while a load balancer should send requests here.", ready);
    troubles(&mut page, readiness);
    requests(&mut page, sources);
    waits(&mut page, sources);
    refusals(&mut page, sources);
    connections(&mut page, sources);
    buffers(&mut page, sources);
    event_loops(&mut page, sources);
    votes(&mut page, &sources.recorder);
    let help = "Lines of the log that were dropped because their reader was too slow.";
    page.single("vote_status_log_dropped_total", help, sources.log_dropped.load(Ordering::Relaxed));
    watch(&mut page, &sources.watch);
    state(&mut page, &sources.recorder, readiness, cooldowns);
    work(&mut page, readiness, now_ms);
    if let Some(shared) = shared {
        shared.add_to(&mut page);
    }
    process(&mut page, sources.started_at);
    page.0
}

impl Sources {
    fn of(&self, role: Role) -> impl Iterator<Item = &WorkerSource> {
        self.workers.iter().filter(move |worker| worker.role == role)
    }

    /// A family of one sample for each listener.
    fn family(&self, page: &mut MetricsText, name: &str, help: &str, value: &dyn Fn(&WorkerSource) -> u64) {
        page.family(name, help);
        for role in Role::ALL {
            page.sample(name, &[("listener", role.name())], self.of(role).map(value).sum::<u64>());
        }
    }
}

fn troubles(page: &mut MetricsText, readiness: &Readiness) {
    let name = "vote_status_trouble";
    page.family(name, "1 while the trouble keeps the service from being ready, or from taking votes.");
    for (trouble, word) in Trouble::ALL {
        page.sample(name, &[("reason", word)], u8::from(readiness.has(trouble)));
    }
}

fn requests(page: &mut MetricsText, sources: &Sources) {
    let name = "vote_status_requests_total";
    page.family(name, "Status requests by variant and outcome.");
    let mut by_status = BTreeMap::<(&str, u16), u64>::new();
    for (variant, label) in Variant::ALL {
        for (outcome, status, word) in Outcome::ALL {
            // A server's number is never a wrong token, nor a token a wrong number.
            let exists = match outcome {
                Outcome::InvalidServerId | Outcome::UnknownServer => variant == Variant::Id,
                Outcome::UnknownToken => variant == Variant::Token,
                _ => true,
            };
            let total: u64 = sources.answers.iter().map(|answers| answers.requests(variant, outcome)).sum();
            *by_status.entry((Role::Public.name(), status)).or_default() += total;
            let mut labels = vec![("variant", label)];
            match status {
                200 => labels.push(("outcome", word)),
                _ => labels.extend([("outcome", "refused"), ("error", word)]),
            }
            if exists {
                page.sample(name, &labels, total);
            }
        }
    }
    for worker in &sources.workers {
        for (status, count) in worker.responses.responses() {
            *by_status.entry((worker.role.name(), status)).or_default() += count;
        }
    }
    let name = "vote_status_responses_total";
    page.family(name, "Responses by status, interim ones aside.");
    for ((listener, status), count) in by_status {
        page.sample(name, &[("listener", listener), ("status", &status.to_string())], count);
    }
}

fn waits(page: &mut MetricsText, sources: &Sources) {
    let help = "Requests that wait for a vote.";
    page.single("vote_status_waiting", help, sources.waiting.waiting());
    page.single("vote_status_waiting_max", "Requests that may wait at a time.", sources.waiting.slots());
    let name = "vote_status_waits_total";
    page.family(name, "Requests that asked to wait, by outcome.");
    for (outcome, label) in WaitOutcome::ALL {
        page.sample(name, &[("outcome", label)], sources.waiting.counted(outcome));
    }
}

fn refusals(page: &mut MetricsText, sources: &Sources) {
    let name = "vote_status_parse_errors_total";
    page.family(name, "Requests that were malformed or too large, by the error answered.");
    for role in Role::ALL {
        for fault in PARSE_FAULTS {
            let count: u64 = sources.of(role).map(|worker| worker.responses.refusals(fault)).sum();
            page.sample(name, &[("listener", role.name()), ("kind", fault.word())], count);
        }
    }
    let mut family = |name: &str, help: &str, fault: Fault| {
        sources.family(page, name, help, &|worker| worker.responses.refusals(fault));
    };
    family("vote_status_request_timeouts_total", "Requests that were not complete in time.", Fault::RequestTimeout);
    family("vote_status_panics_total", "Requests that met a fault of the service and got a 500.", Fault::Internal);
}

fn connections(page: &mut MetricsText, sources: &Sources) {
    let mut family = |name: &str, help: &str, value: &dyn Fn(&WorkerSource) -> u64| {
        sources.family(page, name, help, value);
    };
    family("vote_status_connections_open", "Open connections.", &|worker| worker.engine.open());
    family("vote_status_connections_max", "Connections that may be open.", &|worker| worker.connections_max as u64);
    family("vote_status_connections_accepted_total", "Accepted connections.", &|worker| worker.engine.accepted.get());
    family(
        "vote_status_turned_away_total",
        "Connections that had not asked yet and were answered 503 for lack of room.",
        &|worker| worker.engine.turned_away.get(),
    );
    family(
        "vote_status_accept_shortages_total",
        "Times that the system could not give a new connection: no descriptor, no memory, or a refusal.",
        &|w| w.engine.accept_shortages.get(),
    );
    family("vote_status_received_bytes_total", "Bytes read from clients.", &|worker| {
        worker.engine.received_bytes.get()
    });
    family("vote_status_sent_bytes_total", "Bytes sent to clients.", &|worker| worker.engine.sent_bytes.get());
    let name = "vote_status_connections_closed_total";
    page.family(name, "Closed connections by cause.");
    for role in Role::ALL {
        for (cause, label) in CloseCause::ALL {
            let count: u64 = sources.of(role).map(|worker| worker.engine.closed[cause as usize].get()).sum();
            page.sample(name, &[("listener", role.name()), ("cause", label)], count);
        }
    }
}

fn buffers(page: &mut MetricsText, sources: &Sources) {
    let budget = &sources.budget;
    let help = "Memory that connections use: input, and output that clients have not taken.";
    page.single("vote_status_buffer_bytes", help, budget.used_bytes());
    page.single("vote_status_buffer_bytes_max", "Memory that connections may use.", budget.bytes_max());
    let name = "vote_status_buffer_cuts_total";
    page.family(name, "Connections that were evicted for lack of memory.");
    for role in Role::ALL {
        let sum = |value: &dyn Fn(&EngineCounters) -> u64| -> u64 {
            sources.of(role).map(|worker| value(&worker.engine)).sum()
        };
        let answered = sum(&|engine| engine.cut_answered.get());
        let closed = sum(&|engine| engine.closed[CloseCause::Memory as usize].get());
        for (how, count) in [("answered", answered), ("closed", closed)] {
            page.sample(name, &[("listener", role.name()), ("how", how)], count);
        }
    }
}

fn event_loops(page: &mut MetricsText, sources: &Sources) {
    let mut family = |name: &str, help: &str, histogram: fn(&EngineCounters) -> &Histogram<11>| {
        page.histogram_family(name, help);
        for role in Role::ALL {
            let parts: Vec<_> = sources.of(role).map(|worker| histogram(&worker.engine)).collect();
            page.histogram(name, &[("listener", role.name())], MICROSECONDS, &parts);
        }
    };
    let turns = "Turns of the event loops, by how long ready connections waited.";
    family("vote_status_event_loop_lag_seconds", turns, |engine| &engine.lag_us);
    let late = "Instants ten times a second, by how late an event loop was for a client of that instant.";
    family("vote_status_lateness_seconds", late, |engine| &engine.late_us);
}

fn votes(page: &mut MetricsText, recorder: &RecorderCounters) {
    let name = "vote_status_votes_total";
    page.family(name, "Votes asked to be recorded, by outcome.");
    for (outcome, count) in recorder.votes() {
        page.sample(name, &[("outcome", outcome)], count);
    }
    let cancelled = recorder.cancelled.get();
    page.single("vote_status_cancelled_total", "Cooldowns that a request has cancelled.", cancelled);
    let help = "Recorded votes of the address that has most of them, in a cooldown's length; never too high.";
    page.single("vote_status_one_address_votes", help, recorder.one_address_votes.get());
    let name = "vote_status_ended_early_total";
    page.family(name, "Cooldowns that ended before their time, by cause.");
    for (cause, count) in recorder.ended().by_cause() {
        page.sample(name, &[("cause", cause)], count);
    }
    let name = "vote_status_commit_duration_seconds";
    page.histogram_family(name, "Time of a successful commit, until it is durable.");
    page.histogram(name, &[], MICROSECONDS, &[&recorder.commit_us]);
    let name = "vote_status_commit_events";
    page.histogram_family(name, "Changes in a successful commit.");
    page.histogram(name, &[], 1.0, &[&recorder.commit_events]);
    let failures = recorder.commit_failures.get();
    page.single("vote_status_commit_failures_total", "Commits that failed.", failures);
}

fn watch(page: &mut MetricsText, board: &WatchBoard) {
    let [watchers, lines, dropped] = board.counted();
    page.single("vote_status_watchers", "Clients that watch questions and votes.", watchers);
    page.single("vote_status_watch_lines_total", "Lines written for watchers.", lines);
    let help = "Lines that watchers missed because they did not take them in time.";
    page.single("vote_status_watch_dropped_total", help, dropped);
    let help = "Most servers that one address asked about in an hour, by samples; never too high.";
    page.single("vote_status_one_address_servers", help, board.one_address_servers());
}

fn state(page: &mut MetricsText, recorder: &RecorderCounters, readiness: &Readiness, cooldowns: [usize; 2]) {
    let help = "Cooldowns held; expired ones not swept yet and those of removed servers are included.";
    page.single("vote_status_cooldowns", help, cooldowns.iter().sum::<usize>());
    let (name, help) = ("vote_status_cooldowns_by_family", "Cooldowns held, by the family of the voter's address.");
    page.family(name, help);
    for (family, count) in ["ipv4", "ipv6"].into_iter().zip(cooldowns) {
        page.sample(name, &[("family", family)], count);
    }
    let mut single = |name: &str, help: &str, counter: &Counter| page.single(name, help, counter.get());
    single("vote_status_servers", "Listed servers.", &recorder.servers);
    single("vote_status_swept_total", "Expired cooldowns taken out of the table.", &recorder.swept);
    single("vote_status_dropped_total", "Expired rows dropped from the store.", &recorder.dropped);
    single("vote_status_store_bytes", "Size of the store on disk.", &recorder.store_bytes);
    single("vote_status_store_commit", "Number of the store's last commit.", &recorder.store_commit);
    single("vote_status_clock_steps_total", "Steps of the wall clock.", &recorder.clock_steps);
    single(
        "vote_status_clock_apart_seconds",
        "Seconds between the wall clock and the certain time; 0 while they are one. The later of the two is shown.",
        &recorder.clock_apart_s,
    );
    let is_failing = u32::from(readiness.has(Trouble::StoreFailing));
    page.single("vote_status_store_failing", "1 while the store takes no changes.", is_failing);
    let sweep_s = recorder.sweep_us.get() as f64 / MICROSECONDS;
    page.single(
        "vote_status_sweep_seconds_total",
        "Time that sweeping took, in table and store, and the upkeep of the store.",
        sweep_s,
    );
    let load_s = recorder.load_ms.get() as f64 / 1_000.0;
    page.single("vote_status_load_seconds", "Time that the load at the start took.", load_s);
    page.single("vote_status_loaded_rows", "Rows that the load at the start has read.", readiness.loaded_rows());
}

fn work(page: &mut MetricsText, readiness: &Readiness, now_ms: u64) {
    let name = "vote_status_store_work_seconds";
    page.family(name, "Time that the recorder has spent so far on its present work on the store; 0 for other work.");
    for (work, ms) in readiness.work_ms(now_ms) {
        page.sample(name, &[("work", work)], ms as f64 / 1_000.0);
    }
}

/// The figures of the process under their usual names, as far as the system tells them.
fn process(page: &mut MetricsText, started_at: UnixSeconds) {
    page.single("process_start_time_seconds", "Start of the service, in Unix time.", started_at.0);
    let fields = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the name in parentheses and may hold anything; the rest is plain.
    let fields: Vec<u64> = fields
        .rsplit_once(") ")
        .map(|(_, rest)| rest.split(' ').map(|field| field.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    // proc(5) counts from 1, and the name is field 2.
    let field = |number: usize| fields.get(number - 3).copied();
    if let (Some(user), Some(system)) = (field(14), field(15)) {
        let seconds = (user + system) as f64 / clock_ticks_per_second() as f64;
        page.single("process_cpu_seconds_total", "CPU time, user and system.", seconds);
    }
    if let Some(threads) = field(20) {
        page.single("process_threads", "Threads.", threads);
    }
    if let Some(bytes) = field(23) {
        page.single("process_virtual_memory_bytes", "Virtual memory.", bytes);
    }
    if let Some(pages) = field(24) {
        let bytes = pages * page_size() as u64;
        page.single("process_resident_memory_bytes", "Resident memory.", bytes);
    }
    if let Some(descriptors) = open_descriptors() {
        page.single("process_open_fds", "Open descriptors.", descriptors);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        page.single("process_max_fds", "Descriptors that may be open.", limit);
    }
}

/// Newer kernels give the number of descriptors as the size of the directory. On others the function
/// counts them, which takes long if there are many.
fn open_descriptors() -> Option<u64> {
    const DIRECTORY: &str = "/proc/self/fd";
    match fs::metadata(DIRECTORY).ok()?.len() {
        0 => Some(fs::read_dir(DIRECTORY).ok()?.count() as u64),
        count => Some(count),
    }
}
