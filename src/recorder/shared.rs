//! A shared store, as the control interface describes it. This module knows no store: the code that follows one
//! implements [`SharedStore`].

use serde_json::Value;

use crate::metrics::MetricsText;

/// The status of a shared store.
pub trait SharedStore: Send + Sync {
    /// Why votes are refused, as a word and a line; `None` while they are taken.
    fn refusal(&self) -> Option<(&'static str, String)>;

    /// Why the state cannot be read, as a line; `None` while it can.
    fn unreadable(&self) -> Option<String>;

    /// Adds the store's part of `GET /readyz`.
    fn add_to_ready(&self, body: &mut Value, is_loaded: bool);

    /// The body of `GET /v1/cluster`.
    fn standing(&self) -> Value;

    /// Adds the store's figures to a page of metrics.
    fn add_to(&self, page: &mut MetricsText);
}
