//! The status resource on axum. One thread: the run gives every competitor one CPU, and the
//! current-thread runtime is the quicker of tokio's two there.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use peer_status::{Status, Votes, arguments};
use tokio::net::TcpListener;

async fn status(
    State(votes): State<Arc<Votes>>,
    Path((server, ip)): Path<(u32, String)>,
) -> Response {
    let (code, body) = match ip.parse::<Ipv4Addr>() {
        Err(_) => (StatusCode::BAD_REQUEST, Status::invalid_ip()),
        Ok(ip) => match votes.status(server, ip) {
            Some(body) => (StatusCode::OK, body),
            None => (StatusCode::NOT_FOUND, Status::unknown_server()),
        },
    };
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (code, headers, Json(body)).into_response()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (port, cooldowns) = arguments()?;
    let app = Router::new()
        .route("/api/vote/{server}/status/{ip}", get(status))
        .with_state(Arc::new(Votes::filled(cooldowns)));
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await?
        .tap_io(|connection| {
            // A socket that refuses the option is merely slower.
            connection.set_nodelay(true).ok();
        });
    axum::serve(listener, app).await?;
    Ok(())
}
