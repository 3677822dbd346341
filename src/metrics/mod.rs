//! Counters that one thread writes and another reads, and the text that Prometheus reads.
//!
//! Counters are declared beside the code that counts. Each counter has one writer. Adding is a load
//! and a store in a cache line of its own: on the hot path, no two threads write one line.

pub mod answers;

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Call it from one thread only: a second writer's additions could be lost.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Replaces the number, for one that goes up and down.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The number.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of values at or below each of some bounds.
#[derive(Debug)]
pub struct Histogram<const BOUNDS: usize> {
    bounds: [u64; BOUNDS],
    /// One for each bound; a value above all of them is in `count` alone.
    at_most: [Counter; BOUNDS],
    count: Counter,
    sum: Counter,
}

impl<const BOUNDS: usize> Histogram<BOUNDS> {
    /// A histogram with these bounds, rising.
    #[must_use]
    pub fn new(bounds: [u64; BOUNDS]) -> Self {
        Self {
            bounds,
            at_most: std::array::from_fn(|_| Counter::default()),
            count: Counter::default(),
            sum: Counter::default(),
        }
    }

    /// Counts a value.
    #[inline]
    pub fn record(&self, value: u64) {
        if let Some(index) = self.bounds.iter().position(|bound| value <= *bound) {
            self.at_most[index].add(1);
        }
        self.count.add(1);
        self.sum.add(value);
    }

    /// How many values were counted, and their sum.
    #[cfg(test)]
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.count.get(), self.sum.get())
    }
}

/// A page in the Prometheus text format.
#[derive(Debug, Default)]
pub struct MetricsText(pub String);

impl MetricsText {
    /// Begins a family: its samples follow. Its name says its kind: a counter ends in `_total`, and nothing else does.
    pub fn family(&mut self, name: &str, help: &str) {
        self.family_of(name, if name.ends_with("_total") { "counter" } else { "gauge" }, help);
    }

    /// Begins a family of histograms.
    pub fn histogram_family(&mut self, name: &str, help: &str) {
        self.family_of(name, "histogram", help);
    }

    fn family_of(&mut self, name: &str, kind: &str, help: &str) {
        // A String takes whatever is written to it.
        let _written = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample; labels have constant values that need no escapes.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        let mut separator = '{';
        for (label, text) in labels {
            let _written = write!(self.0, "{separator}{label}=\"{text}\"");
            separator = ',';
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _written = writeln!(self.0, "{end} {value}");
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help);
        self.sample(name, &[], value);
    }

    /// The samples of a family that is a histogram: `parts`, which have the same bounds, added up.
    /// The page shows values divided by `unit`.
    pub fn histogram<const BOUNDS: usize>(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        unit: f64,
        parts: &[&Histogram<BOUNDS>],
    ) {
        let Some(first) = parts.first() else { return };
        let sum_of = |value: &dyn Fn(&Histogram<BOUNDS>) -> u64| parts.iter().map(|part| value(part)).sum::<u64>();
        let bucket = format!("{name}_bucket");
        let at_most = |page: &mut Self, bound: &str, count: u64| {
            page.sample(&bucket, &[labels, &[("le", bound)]].concat(), count);
        };
        let mut total = 0;
        for (index, bound) in first.bounds.iter().enumerate() {
            total += sum_of(&|part| part.at_most[index].get());
            at_most(self, &(*bound as f64 / unit).to_string(), total);
        }
        // The writers count while this reads: the last bucket must not be less than those before it.
        let count = sum_of(&|part| part.count.get()).max(total);
        at_most(self, "+Inf", count);
        self.sample(&format!("{name}_sum"), labels, sum_of(&|part| part.sum.get()) as f64 / unit);
        self.sample(&format!("{name}_count"), labels, count);
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, MetricsText};

    #[test]
    fn pages_are_spelled_as_prometheus_reads_them() {
        let parts = [Histogram::new([500, 1_000]), Histogram::new([500, 1_000])];
        for value in [1, 500, 501] {
            parts[0].record(value);
        }
        parts[1].record(2_000);
        let mut page = MetricsText::default();
        page.family("a_total", "How many.");
        page.sample("a_total", &[("b", "c"), ("d", "e")], 7);
        page.single("g", "Now.", 1.5);
        page.histogram_family("h_seconds", "How long.");
        page.histogram("h_seconds", &[("b", "c")], 1_000.0, &parts.each_ref());
        assert_eq!(
            page.0,
            "# HELP a_total How many.\n# TYPE a_total counter\na_total{b=\"c\",d=\"e\"} 7\n\
             # HELP g Now.\n# TYPE g gauge\ng 1.5\n\
             # HELP h_seconds How long.\n# TYPE h_seconds histogram\n\
             h_seconds_bucket{b=\"c\",le=\"0.5\"} 2\nh_seconds_bucket{b=\"c\",le=\"1\"} 3\n\
             h_seconds_bucket{b=\"c\",le=\"+Inf\"} 4\n\
             h_seconds_sum{b=\"c\"} 3.002\nh_seconds_count{b=\"c\"} 4\n"
        );
    }
}
