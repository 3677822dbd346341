//! The operator's view: a scrape is as Prometheus wants it. Every metric in the documentation,
//! dashboard and alert rules is in it, and the other way round.

mod alertmanager;
mod dashboard;
mod documented;
mod expression;
mod prometheus;
mod scrape;

use crate::util::client::get;
use crate::util::server::Server;
use scrape::Scrape;

/// A scrape of a service after a vote and a question.
fn scrape() -> Scrape {
    let server = Server::listed(&[]);
    server.control_client().cast(28, [203, 0, 113, 7]);
    get(server.public(), "/api/vote/28/status/203.0.113.7");
    Scrape::parse(get(server.control(), "/metrics").text())
}
