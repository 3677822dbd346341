//! The promise of the hot path: no allocation for a request. In process, on the library, as a
//! counting allocator cannot look into another process.

use std::sync::Arc;
use vote_status::http::head::HeadLimits;
use vote_status::http::session::{Session, SessionCall, Ticket, Waiting};
use vote_status::public::{PublicService, StatusReader};
use vote_status::readiness::Readiness;
use vote_status::vote::address::VoterAddress;
use vote_status::vote::directory::Directory;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::table::{CooldownTable, Pair};
use vote_status::vote::time::{Cooldown, UnixSeconds};
use vote_status::waiting::WaitingList;
use vote_status::watch::WatchBoard;

const NOW: UnixSeconds = UnixSeconds(1_795_178_096);

#[test]
fn a_request_is_answered_without_an_allocation() {
    let cooldown = Cooldown::from_minutes(90).expect("in range");
    let (mut directory, mut table) = (Directory::default(), CooldownTable::default());
    let mut servers = directory.snapshot().as_ref().clone();
    assert!(servers.insert(ServerId(28), Token::new("demo").expect("a token")));
    directory.publish(servers);
    let cooling = Pair { server: ServerId(28), address: VoterAddress::V4(Ipv4(0xC633_6409)) };
    table.insert(cooling, cooldown.expires_at(NOW.minus(600)));
    let readiness = Readiness::default();
    readiness.set_loaded();
    let mut service = PublicService::new(
        StatusReader::new(directory.view(), table.view(), readiness),
        cooldown,
        65_536,
        WaitingList::default(),
        Arc::new(|_| {}),
        WatchBoard::default().post(),
    );
    let limits = HeadLimits { head_bytes_max: 16_384, header_lines_max: 100 };
    let mut session = Session::default();
    let mut out = Vec::with_capacity(8_192);
    let lines = "Accept: application/json\r\nX-Long: ".to_owned() + &"x".repeat(300) + "\r\n";
    for (target, status) in [
        ("/api/vote/28/status/203.0.113.7", "200"),
        ("/api/vote/28/status/198.51.100.9", "200"),
        ("/api/servers/demo/vote-status/203.0.113.7", "200"),
        ("/api/servers/demo/vote-status/198.51.100.9/?cache=7", "200"),
        ("/api/servers/nobody/vote-status/198.51.100.9", "404"),
        ("/api/vote/29/status/203.0.113.7", "404"),
        ("/api/vote/028/status/203.0.113.7", "400"),
        ("/api/vote/28/status/203.0.113.07", "400"),
        ("/api/vote/28/status/2001:DB8::7", "200"),
        ("/api/servers/demo/vote-status/64:ff9b::198.51.100.9", "200"),
        ("/api/vote/28/status/2001:db8::7::", "400"),
        ("/nowhere", "404"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: votes.example\r\n{lines}\r\n");
        let pipelined = request.repeat(3);
        // Twice: the first answer of a second formats its date, which must not allocate either.
        for second in 0..2 {
            out.clear();
            let mut call = SessionCall {
                service: &mut service,
                now: NOW.plus(second),
                ticket: Ticket(0),
                waiting: Waiting::Allowed,
                limits,
                unsent_bytes_max: 65_536,
                closing: false,
                out: &mut out,
            };
            let info = allocation_counter::measure(|| {
                session.advance(pipelined.as_bytes(), &None, &mut call);
            });
            let text = String::from_utf8_lossy(&out);
            assert_eq!(text.matches(&format!("HTTP/1.1 {status} ")).count(), 3, "{target}: {text}");
            assert_eq!(info.count_total, 0, "{target}: {} allocations", info.count_total);
        }
    }
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(vec![1_u8; 100])));
    assert_eq!(counted.count_total, 1, "the counter counts");
}
