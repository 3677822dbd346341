//! Restarts under load through a proxy that keeps connections to the service.

use crate::proxies::front::{Front, Kind};
use crate::restart::util::manager::Manager;
use crate::restart::util::under_load;
use crate::util::endpoint::Endpoint;

/// An answer of nginx in the service's place is no "can vote", so the load would count it as a failure.
#[test]
fn no_restart_of_the_service_is_seen_through_nginx() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(manager) = Manager::start(folder.path(), &[], &["--workers", "2"]) else { return };
    let Some(front) = Front::start(Kind::Nginx, &[manager.server.public()]) else { return };
    under_load("through nginx", &manager, &Endpoint::Tcp(front.plain));
}
