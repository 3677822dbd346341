//! Crowds that hold places: they begin requests without an end, and come again when they are sent away.
//! Good clients are answered all the same, on the public listener and on the control one.

use super::GET;
use crate::util::answers::CAN_VOTE;
use crate::util::client::{Client, get};
use crate::util::endpoint::Endpoint;
use crate::util::figures::{connections_affordable, one_worker};
use crate::util::load::{Caller, Load, Notes};
use crate::util::needs::is_long;
use crate::util::patience::{Wait, in_time};
use crate::util::server::Server;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The address of a crowd, where the server has to tell it from the good client.
pub(crate) const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A connection that takes next to nothing of its answers.
pub(crate) fn connect_from(source: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    set_socket_recv_buffer_size(&socket, 4_096)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// Keeps `count` connections on which `says` was sent, and reopens each that was closed, until told
/// to end. Counts the connections that it has opened.
fn hold(source: Ipv4Addr, to: SocketAddr, count: usize, says: &[u8]) -> Load<usize> {
    let mut crowd: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    let says = says.to_vec();
    let keep_on = move |opened: &Notes<usize>| {
        for member in &mut crowd {
            // Reads the answer as far as it has come. The end of the stream means that the server has closed.
            let is_closed = member.as_mut().is_none_or(|stream| {
                let read = stream.read(&mut [0; 2_048]);
                !says.ends_with(b"deaf")
                    && !matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
            });
            if is_closed && let Ok(mut stream) = connect_from(source, to) {
                let said = says.strip_suffix(b"deaf").unwrap_or(&says);
                stream.set_nonblocking(true).expect("a socket takes that");
                // A connection that was closed at once comes again.
                let _sent = stream.write(said);
                *member = Some(stream);
                *opened.open() += 1;
            }
        }
        sleep(Duration::from_millis(1));
    };
    Load::start([Box::new(keep_on) as Caller<usize>])
}

/// Requests of a good client, each on a connection of its own. Gives how many there were, how many were
/// not answered 200, and the longest time.
fn ask_for(time: Duration, endpoint: &Endpoint) -> (usize, usize, Duration) {
    let (mut count, mut failed, mut longest) = (0, 0, Duration::ZERO);
    let until = Instant::now() + time;
    while Instant::now() < until || count < 200 {
        let wait = Wait::begin();
        let answer = Client::try_connect(endpoint).and_then(|mut client| {
            client.try_send(GET)?;
            client.try_read_response(false)
        });
        longest = longest.max(wait.counted());
        count += 1;
        failed += usize::from(!answer.is_ok_and(|response| response.status == 200 && response.text() == CAN_VOTE.body));
    }
    (count, failed, longest)
}

/// A slow client has its time, however fast another client begins again and again.
#[test]
fn a_crowd_of_one_address_ends_its_own_and_not_who_is_slow() {
    let server = one_worker(&["--max-connections", "50"]);
    let crowd = hold(ELSEWHERE, server.public(), 100, b"GET / HTTP/1.1\r\nHo");
    sleep(Duration::from_millis(300));
    let mut slow = Client::connect(server.public());
    for piece in GET.chunks(4) {
        slow.send(piece);
        sleep(Duration::from_millis(100));
    }
    assert_eq!(slow.read_response(false).text(), CAN_VOTE.body);
    let opened = crowd.stop();
    assert!(opened > 200, "{opened}");
}

/// The bytes of each kind of crowd without a key, and its number of connections.
fn kinds() -> [(&'static str, usize, Vec<u8>); 7] {
    let upload = |line: &str| format!("{line} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n{{").into_bytes();
    let deaf = |requests: &[u8]| [requests, b"deaf"].concat();
    [
        ("silence", 5_000, Vec::new()),
        ("half heads", 5_000, b"POST /v1/votes HTTP/1.1\r\nHo".to_vec()),
        ("idle", 5_000, b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()),
        ("content of a probe", 5_000, upload("GET /healthz")),
        ("content without a key", 5_000, upload("POST /v1/votes/batch")),
        (
            "chunks without a key",
            5_000,
            b"POST /v1/votes HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n".to_vec(),
        ),
        ("deaf", 600, deaf(&b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n".repeat(20))),
    ]
}

#[test]
fn whoever_has_no_key_delays_no_vote() {
    let server = one_worker(&[]);
    let mut voters = (0x0A00_0000..).map(Ipv4Addr::from_bits);
    for (place, (kind, count, says)) in (2..).zip(kinds()) {
        // Each crowd has an address of its own, so that it finds ports at once.
        let source = Ipv4Addr::new(127, 0, 1, place);
        let count = connections_affordable(count);
        let crowd = hold(source, server.control(), count, &says);
        sleep(Duration::from_millis(300));
        let until = Instant::now() + Duration::from_millis(1_200);
        while Instant::now() < until {
            let voter = voters.next().expect("one more");
            let cast = in_time(kind, || server.control_client().cast(1, voter));
            assert_eq!(cast.status, 201, "{kind}: {cast:?}");
            let ready = in_time(kind, || get(server.control(), "/readyz"));
            assert_eq!(ready.status, 200, "{kind}: {ready:?}");
        }
        crowd.stop();
    }
}

/// Clients with the key may hold every place while more of them come, and the balancer asks.
#[test]
fn uploads_that_stand_still_leave_room_for_a_vote() {
    let server = one_worker(&[]);
    let control = server.control_client();
    let batch = control.request_bytes("POST", "/v1/votes/batch", None);
    let batch = batch.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n");
    let uploads: Vec<Client> = (0..512)
        .map(|_| {
            let mut client = Client::connect(server.control());
            client.send(&batch);
            client
        })
        .collect();
    for voter in 1..20 {
        assert_eq!(control.cast(1, [203, 0, 113, voter]).status, 201);
        assert_eq!(get(server.control(), "/readyz").status, 200);
    }
    drop(uploads);
}

/// The request, the status without the key, and the status with it, unless the request needs content then.
const DECIDED: [(&str, u16, Option<u16>); 15] = [
    ("POST /nothing", 404, Some(404)),
    ("POST /healthz", 405, Some(405)),
    ("GET /healthz", 200, Some(200)),
    ("GET /readyz", 200, Some(200)),
    ("GET /metrics", 200, Some(200)),
    ("GET /", 200, Some(200)),
    ("POST /v1/votes", 401, None),
    ("POST /v1/votes/batch", 401, None),
    ("PUT /v1/servers/1", 401, None),
    ("GET /v1/nothing", 401, Some(404)),
    ("PATCH /v1/votes", 401, Some(405)),
    ("POST /v1/votes?mode=x", 401, Some(400)),
    ("DELETE /v1/votes/1/x", 401, Some(422)),
    ("GET /v1/servers/1", 401, Some(200)),
    ("GET /v1/export", 401, Some(200)),
];

#[test]
fn what_the_head_decides_is_answered_before_the_content_and_closes() {
    let server = one_worker(&[]);
    let key = format!("Authorization: Bearer {}\r\n", Server::KEY);
    for (line, without, with) in DECIDED {
        for (authorization, status) in [("", Some(without)), (&key, with)] {
            let Some(status) = status else { continue };
            let head = |framing| format!("{line} HTTP/1.1\r\nHost: h\r\n{authorization}{framing}\r\n\r\n");
            answered_at_the_head(&server, &head("Content-Length: 1000000"), status);
            answered_at_the_head(&server, &head("Content-Length: 99999999"), status);
            answered_at_the_head(&server, &head("Transfer-Encoding: chunked"), status);
            answered_at_the_head(&server, &head("Content-Length: 9\r\nExpect: 100-continue"), status);
            // The answer is not lost to a reset while all of the content is under way.
            let mut client = Client::connect(server.control());
            client.send([head("Content-Length: 500000").as_bytes(), &[b' '; 500_000]].concat());
            assert_eq!(client.read_response(false).status, status, "{line}");
        }
    }
}

/// Requires that the first answer is the last one, and comes without any content. Content that does come is
/// not taken for a request.
fn answered_at_the_head(server: &Server, head: &str, status: u16) {
    for content in ["", "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"] {
        let mut client = Client::connect(server.control());
        client.send([head, content].concat());
        let response = client.read_response(false);
        assert_eq!(response.status, status, "{head}: {response:?}");
        assert!(response.says_close(), "{head}: {response:?}");
        client.expect_closed();
    }
}

/// Regression: clients that were answered 503 for want of memory were counted as turned away.
#[test]
fn newcomers_that_are_turned_away_are_counted() {
    let server = with_descriptors(100, "1");
    let upload = server.control_client().request_bytes("POST", "/v1/votes/batch", None);
    let upload = upload.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    let mut uploads = Vec::new();
    let turned_away = loop {
        let mut client = Client::connect(server.control());
        client.send(&upload);
        match client.read_response(false) {
            interim if interim.status == 100 => uploads.push(client),
            response => break response,
        }
        assert!(uploads.len() < 100, "more than there are descriptors");
    };
    assert_eq!((turned_away.status, turned_away.says_close()), (503, true), "{turned_away:?}");
    for upload in &mut uploads {
        upload.send("0\r\n\r\n");
        assert_eq!(upload.read_response(false).status, 200);
    }
    drop(uploads);
    assert_eq!(server.metric(r#"vote_status_turned_away_total{listener="control"}"#), 1);
    assert_eq!(server.metric(r#"vote_status_turned_away_total{listener="public"}"#), 0);
}

/// A server with this many descriptors and one public listener. The descriptors end long before its `--max-connections`.
pub(crate) fn with_descriptors(descriptors: usize, workers: &str) -> Server {
    let options = ["--in-memory", "--workers", workers, "--head-timeout", "60", "--max-connections", "100000"];
    let command = Server::serve(&options);
    let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
    let server = Server::spawn(Server::under(&["sh", "-c", &script], command));
    server.control_client().add_server(1, "t");
    server
}

fn never_stalls(descriptors: usize, workers: &str) {
    let server = with_descriptors(descriptors, workers);
    let count = connections_affordable(descriptors * 5 / 4);
    let on_control = hold(ELSEWHERE, server.control(), count / 4, b"GET / HT");
    let crowd = hold(ELSEWHERE, server.public(), count, b"GET / HTTP/1.1\r\nHo");
    sleep(Duration::from_millis(1_000));
    let (asked, failed, longest) = ask_for(Duration::from_secs(1), &server.publics()[0]);
    assert_eq!(server.control_client().cast(1, [203, 0, 113, 7]).status, 201);
    let page = get(server.control(), "/metrics");
    crowd.stop();
    on_control.stop();
    let shortages = page.text().lines().filter(|line| line.starts_with("vote_status_accept_shortages_total"));
    let shortages: Vec<&str> = shortages.filter(|line| !line.ends_with(" 0")).collect();
    assert!(failed * 100 <= asked, "{failed} of {asked}");
    assert_eq!(shortages, [""; 0], "newcomers had to wait for a descriptor");
    assert!(longest < Duration::from_secs(4), "{longest:?}");
}

#[test]
fn few_descriptors_are_shared_out_so_that_nobody_waits_for_one() {
    never_stalls(256, "1");
    never_stalls(256, "4");
    never_stalls(1_024, "3");
    if is_long() {
        never_stalls(20_000, "2");
    }
}
