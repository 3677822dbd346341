//! Tools of both kinds of benchmark: the heads seen in the field, and a service that answers.

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

/// The moment of every benchmark.
pub(crate) const NOW: UnixSeconds = UnixSeconds(1_795_178_096);

/// The request line of an address that can vote.
pub(crate) const CAN_VOTE: &str = "GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\n";
/// The request line of an address in cooldown.
pub(crate) const IN_COOLDOWN: &str = "GET /api/vote/28/status/198.51.100.9 HTTP/1.1\r\n";
/// The request line of a server that is not listed.
pub(crate) const UNKNOWN_SERVER: &str = "GET /api/vote/29/status/203.0.113.7 HTTP/1.1\r\n";
/// The request line of the token variant.
pub(crate) const BY_TOKEN: &str =
    "GET /api/servers/4f3c2b1a09f8e7d6c5b4a39281706f5e/vote-status/203.0.113.7 HTTP/1.1\r\n";

/// Header lines: curl without options.
pub(crate) const CURL: &str = "Host: votes.example\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";

/// Header lines: PHP Guzzle behind a content delivery network, 24 of them.
pub(crate) const GUZZLE: &str = "Host: votes.example\r\n\
User-Agent: GuzzleHttp/7\r\n\
Accept: application/json\r\n\
Accept-Encoding: gzip, br\r\n\
Content-Type: application/json\r\n\
CDN-Loop: edge; loops=1\r\n\
X-Forwarded-For: 192.0.2.44, 198.51.100.17\r\n\
X-Forwarded-Proto: https\r\n\
X-Forwarded-Host: votes.example\r\n\
X-Forwarded-Port: 443\r\n\
X-Real-IP: 192.0.2.44\r\n\
X-Request-ID: 5f2b9f6e-7f0e-4e7b-9d0a-3a5f8f1c2d3e\r\n\
X-Request-Start: t=1795178096123\r\n\
X-Edge-Location: CDG53\r\n\
X-Edge-Country: FR\r\n\
X-Edge-Ray: 8f1c2d3e4f5a6b7c-CDG\r\n\
X-Edge-Visitor: {\"scheme\":\"https\"}\r\n\
X-Edge-Client: 192.0.2.44\r\n\
Via: 1.1 edge-cache-17\r\n\
Forwarded: for=192.0.2.44;proto=https;host=votes.example\r\n\
True-Client-IP: 192.0.2.44\r\n\
Cache-Control: no-cache\r\n\
Pragma: no-cache\r\n\
Priority: u=3\r\n\r\n";

/// Header lines: a browser.
pub(crate) const BROWSER: &str = "Host: votes.example\r\n\
Connection: keep-alive\r\n\
sec-ch-ua: \"Chromium\";v=\"142\", \"Not=A?Brand\";v=\"8\"\r\n\
sec-ch-ua-mobile: ?0\r\n\
sec-ch-ua-platform: \"Linux\"\r\n\
Upgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: none\r\n\
Sec-Fetch-Mode: navigate\r\n\
Sec-Fetch-User: ?1\r\n\
Sec-Fetch-Dest: document\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Accept-Language: fr-FR,fr;q=0.9,en-US;q=0.8,en;q=0.7\r\n\r\n";

/// The three, by name.
pub(crate) const HEADS: [(&str, &str); 3] = [("curl", CURL), ("guzzle", GUZZLE), ("browser", BROWSER)];

/// The request lines, each with the start and the end of its answer.
const OUTCOMES: [(&str, &str, &str); 4] = [
    (CAN_VOTE, "HTTP/1.1 200 OK\r\n", "\"next_vote_at\":null,\"cooldown_minutes\":90}"),
    (IN_COOLDOWN, "HTTP/1.1 200 OK\r\n", "\"next_vote_at\":\"2026-11-20T13:54:56Z\",\"cooldown_minutes\":90}"),
    (UNKNOWN_SERVER, "HTTP/1.1 404 Not Found\r\n", "\"error\":\"unknown_server\"}"),
    (BY_TOKEN, "HTTP/1.1 200 OK\r\n", "\"next_vote_at\":null,\"cooldown_minutes\":90}"),
];

/// A service with server 28 and one address in cooldown, and a connection to it.
pub(crate) struct Bench {
    service: PublicService,
    session: Session<PublicService>,
    limits: HeadLimits,
    out: Vec<u8>,
}

impl Bench {
    /// Builds the state.
    pub(crate) fn new() -> Self {
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let (mut directory, mut table) = (Directory::default(), CooldownTable::default());
        let mut servers = directory.snapshot().as_ref().clone();
        servers.insert(ServerId(28), Token::new("4f3c2b1a09f8e7d6c5b4a39281706f5e").expect("a token"));
        directory.publish(servers);
        let cooling = Pair { server: ServerId(28), address: VoterAddress::V4(Ipv4(0xC633_6409)) };
        table.insert(cooling, cooldown.expires_at(NOW.minus(600)));
        let readiness = Readiness::default();
        readiness.set_loaded();
        let reader = StatusReader::new(directory.view(), table.view(), readiness);
        let (list, watch) = (WaitingList::default(), WatchBoard::default().post());
        let service = PublicService::new(reader, cooldown, 65_536, list, Arc::new(|_| {}), watch);
        let limits = HeadLimits { head_bytes_max: 16_384, header_lines_max: 100 };
        Self { service, session: Session::default(), limits, out: Vec::with_capacity(4_096) }
    }

    /// Checks the last answer, after a measurement. Before it, one more call would change the inlining.
    pub(crate) fn check(&self, request: &[u8]) {
        let outcome = OUTCOMES.iter().find(|(line, ..)| request.starts_with(line.as_bytes()));
        let (line, begin, end) = outcome.expect("a line with an outcome");
        let answer = String::from_utf8_lossy(&self.out);
        assert!(answer.starts_with(begin) && answer.ends_with(end), "{line}{answer}");
    }

    /// Bytes of a request to bytes of its response.
    #[inline]
    pub(crate) fn answer(&mut self, request: &[u8]) -> &[u8] {
        self.out.clear();
        // As a worker calls it while there is no watcher.
        let mut call = SessionCall {
            service: &mut self.service,
            now: NOW,
            ticket: Ticket(0),
            waiting: Waiting::Allowed,
            limits: self.limits,
            unsent_bytes_max: 65_536,
            closing: false,
            out: &mut self.out,
        };
        let advanced = self.session.advance(request, &None, &mut call);
        assert_eq!(advanced.consumed, request.len());
        &self.out
    }
}
