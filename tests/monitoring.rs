//! What operators watch: a scrape is what Prometheus wants, and every metric that is told of
//! (documentation, dashboard, alert rules) is in it, and the other way round.

mod alertmanager;
mod dashboard;
mod documented;
mod expression;
mod prometheus;
mod scrape;

use crate::util::client::get;
use crate::util::server::Server;
use scrape::Scrape;

/// A scrape of a service that has seen something.
fn scrape() -> Scrape {
    let server = Server::listed(&[]);
    server.control_client().cast(28, [203, 0, 113, 7]);
    get(server.public(), "/api/vote/28/status/203.0.113.7");
    Scrape::parse(get(server.control(), "/metrics").text())
}
