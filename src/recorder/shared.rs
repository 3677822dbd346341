//! A store that nodes share, as far as the control interface tells of it. Knows no store: whatever follows one says it.

use serde_json::Value;

use crate::metrics::MetricsText;

/// What is told of a shared store.
pub trait SharedStore: Send + Sync {
    /// Why votes are refused, if they are: a word and a line.
    fn refusal(&self) -> Option<(&'static str, String)>;

    /// Why its state cannot be read, if that is so: a line.
    fn unreadable(&self) -> Option<String>;

    /// Adds its part of `GET /readyz`.
    fn add_to_ready(&self, body: &mut Value, is_loaded: bool);

    /// The body of `GET /v1/cluster`.
    fn standing(&self) -> Value;

    /// Adds its figures to a page.
    fn add_to(&self, page: &mut MetricsText);
}
