//! The service's own lines in the log, at its start and at its end.

use super::Config;
use super::state::Run;
use crate::control::metrics::Sources;

/// Says that the service answers from a loaded state.
pub(super) fn say_ready(run: &mut Run) {
    let (servers, cooldowns) = (run.views.directory.current().len(), run.views.cooldowns.len());
    let load_ms = run.sources.recorder.load_ms.get();
    let Config { store, settings, engine, workers, limits, shares, .. } = &run.config;
    log::info!(
        "version {} ready: {servers} servers, {cooldowns} cooldowns of {} minutes, read in {load_ms} ms from {store}",
        env!("CARGO_PKG_VERSION"),
        settings.cooldown.minutes()
    );
    let listeners: Vec<_> = run.sockets.addresses().map(|(address, role)| format!("{address} ({role})")).collect();
    log::info!("listening on {}; engine {}, {workers} workers", listeners.join(", "), engine.name());
    log::info!(
        "limits: {} connections, which hold {} bytes together; heads of {} bytes and {} lines; content of {} bytes (public) and {} (control); {} ms for a request, {} ms idle, {} ms to take an answer",
        shares.connections_max,
        limits.buffer_bytes_max,
        limits.head_bytes_max,
        limits.header_lines_max,
        limits.skip_body_bytes_max,
        limits.body_bytes_max,
        limits.head_timeout_ms,
        limits.idle_timeout_ms,
        limits.write_timeout_ms,
    );
}

/// Says that the service has ended in order.
pub(super) fn say_stopped(sources: &Sources, seconds: u32) {
    let requests: u64 = sources.answers.iter().map(|answers| answers.total()).sum();
    let votes = sources.recorder.votes().find(|(outcome, _)| *outcome == "recorded").map_or(0, |(_, votes)| votes);
    log::info!("stopped after {seconds} s: {requests} status requests answered, {votes} votes recorded");
}
