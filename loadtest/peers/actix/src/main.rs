//! The status resource on actix-web, with one worker: the run gives every competitor one CPU.

use std::net::Ipv4Addr;

use actix_web::http::header;
use actix_web::web::{Data, Path};
use actix_web::{App, HttpResponse, HttpServer, get};
use peer_status::{Status, Votes, arguments};

#[get("/api/vote/{server}/status/{ip}")]
async fn status(votes: Data<Votes>, path: Path<(u32, String)>) -> HttpResponse {
    let (server, ip) = path.into_inner();
    let (mut response, body) = match ip.parse::<Ipv4Addr>() {
        Err(_) => (HttpResponse::BadRequest(), Status::invalid_ip()),
        Ok(ip) => match votes.status(server, ip) {
            Some(body) => (HttpResponse::Ok(), body),
            None => (HttpResponse::NotFound(), Status::unknown_server()),
        },
    };
    response
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .json(body)
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let (port, cooldowns) = arguments().map_err(std::io::Error::other)?;
    let votes = Data::new(Votes::filled(cooldowns));
    HttpServer::new(move || App::new().app_data(votes.clone()).service(status))
        .workers(1)
        .backlog(4096)
        .bind(("127.0.0.1", port))?
        .run()
        .await
}
