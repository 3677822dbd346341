//! The callers' knowledge of their votes, and a check that a running service shows the same on
//! both listeners. Knows the wire, not the library.

use crate::util::client::Client;
use crate::util::control::Control;
use crate::util::server::{Ended, Server};
use crate::util::time::{now_unix, rfc3339};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The server of all votes in these tests, unless they name another.
pub(crate) const SERVER: u32 = 28;
/// The usual cooldown.
pub(crate) const COOLDOWN_S: i64 = 5_400;
/// Requests that are sent before their answers are read.
const PIPELINED: usize = 50;

/// A server's id and a client's address.
pub(crate) type Pair = (u32, IpAddr);

/// Starts the service on a data directory.
pub(crate) fn serve(folder: &Path, more: &[&str]) -> Server {
    try_serve(folder, more)
        .unwrap_or_else(|ended| panic!("the server did not start: {:?}, stderr:\n{}", ended.status, ended.stderr))
}

/// Starts the service on a data directory, or gives the output of its early end.
pub(crate) fn try_serve(folder: &Path, more: &[&str]) -> Result<Server, Ended> {
    let mut command = Server::on(folder);
    command.args(more);
    Server::try_spawn(command)
}

/// Starts the service on a data directory, lists [`SERVER`], and records `votes` votes.
pub(crate) fn voted(folder: &Path, votes: u32) -> (Server, Ledger) {
    let (server, mut ledger) = (serve(folder, &[]), Ledger::default());
    server.control_client().add_server(SERVER, "demo");
    ledger.cast_all(&server, 0..votes);
    (server, ledger)
}

/// The `number`th of many addresses: an IPv4 for an even number, and else the first address of an IPv6 network.
pub(crate) fn address(number: u32) -> IpAddr {
    if number.is_multiple_of(2) {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    } else {
        Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(number) << 64).into()
    }
}

/// The bytes that cast a vote.
pub(crate) fn cast_bytes(control: &Control, (server, ip): Pair, voted_at: i64) -> String {
    let body = format!(r#"{{"server_id":{server},"ip":"{ip}","voted_at":{voted_at}}}"#);
    control.request_bytes("POST", "/v1/votes", Some(&body))
}

/// Votes with their instants, in Unix seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Votes answered 201.
    pub(crate) recorded: BTreeMap<Pair, i64>,
    /// Votes without an answer, or in doubt: they may be there or not.
    pub(crate) unanswered: BTreeMap<Pair, i64>,
    /// Votes answered as not recorded, cancelled, or gone: they must not be there.
    pub(crate) refused: Vec<Pair>,
}

impl Ledger {
    /// Casts a vote that must be taken, and notes it.
    pub(crate) fn cast(&mut self, control: &Control, pair: Pair, voted_at: i64) {
        let response = control.cast_at(pair.0, &pair.1.to_string(), voted_at);
        assert_eq!(response.status, 201, "{response:?}");
        assert_eq!(response.json()["next_vote_at"], rfc3339(voted_at + COOLDOWN_S), "{response:?}");
        self.recorded.insert(pair, voted_at);
    }

    /// Casts votes that must be taken, now, each for an address of its own.
    #[track_caller]
    pub(crate) fn cast_all(&mut self, server: &Server, numbers: Range<u32>) {
        numbers.for_each(|number| self.cast(&server.control_client(), (SERVER, address(number)), now_unix()));
    }

    /// Casts a vote for an address of its own, now, and notes the outcome. Gives whether the vote was recorded.
    pub(crate) fn try_cast(&mut self, server: &Server, number: u32) -> bool {
        let (pair, voted_at) = ((SERVER, address(number)), now_unix());
        let response = server.control_client().cast_at(pair.0, &pair.1.to_string(), voted_at);
        match response.status {
            201 => drop(self.recorded.insert(pair, voted_at)),
            503 if response.text().contains("it may have been recorded or not") => {
                self.unanswered.insert(pair, voted_at);
            }
            503 if response.json()["error"] == "store_unavailable" => self.refused.push(pair),
            _ => panic!("{response:?}"),
        }
        response.status == 201
    }

    /// Casts until a vote is taken, which must happen `within` this time. Gives the number after that vote's.
    #[track_caller]
    pub(crate) fn cast_until_taken(&mut self, server: &Server, mut number: u32, within: Duration) -> u32 {
        let until = Instant::now() + within;
        while !self.try_cast(server, number) {
            assert!(Instant::now() < until, "votes are taken again:\n{}", server.stderr());
            number += 1;
            sleep(Duration::from_millis(20));
        }
        number + 1
    }

    /// Requires that the service shows the same votes. Export and public listener agree, each
    /// recorded vote is there with its instants, no refused one is, and the service has no vote
    /// that was never sent.
    pub(crate) fn expect(&self, server: &Server, what: &str) {
        let exported = exported_votes(&server.control_client());
        for (pair, voted_at) in &self.recorded {
            let found = exported.get(pair).map(String::as_str);
            assert_eq!(found, Some(rfc3339(*voted_at).as_str()), "{what}: the export of {pair:?}");
        }
        for (pair, voted_at) in &exported {
            let sent = self.recorded.get(pair).or_else(|| self.unanswered.get(pair));
            assert_eq!(sent.map(|sent| rfc3339(*sent)).as_ref(), Some(voted_at), "{what}: nobody sent {pair:?}");
        }
        self.expect_public(server, &exported, what);
    }

    /// Kills the service, and requires that the next process on the data directory shows the same votes.
    pub(crate) fn expect_after_kill(&self, server: Server, folder: &Path, what: &str) {
        drop(server);
        self.expect(&serve(folder, &[]), &format!("{what}, after a kill and a restart"));
    }

    fn expect_public(&self, server: &Server, exported: &BTreeMap<Pair, String>, what: &str) {
        let votes = self.recorded.iter().chain(&self.unanswered);
        let asked = votes.map(|(pair, at)| (*pair, Some(*at))).chain(self.refused.iter().map(|pair| (*pair, None)));
        let asked: Vec<(Pair, Option<i64>)> = asked.collect();
        let pairs: Vec<Pair> = asked.iter().map(|(pair, _)| *pair).collect();
        for ((pair, voted_at), shown) in asked.iter().zip(next_votes(server, &pairs)) {
            let expected = voted_at.filter(|_| exported.contains_key(pair));
            let expected = expected.map(|voted_at| rfc3339(voted_at + COOLDOWN_S));
            assert_eq!(shown, expected, "{what}: the status of {pair:?}");
        }
    }
}

/// Every vote of an export, with its `voted_at`.
pub(crate) fn exported_votes(control: &Control) -> BTreeMap<Pair, String> {
    let mut votes = BTreeMap::new();
    for line in control.exported() {
        let line: Value = serde_json::from_str(&line).expect("a line of the export is JSON");
        let Some(ip) = line["ip"].as_str() else { continue };
        let server = u32::try_from(line["server_id"].as_u64().expect("a server id")).expect("a u32");
        let voted_at = line["voted_at"].as_str().expect("an instant").to_owned();
        let twice = votes.insert((server, ip.parse().expect("an address")), voted_at);
        assert_eq!(twice, None, "{ip} is in the export twice");
    }
    votes
}

/// The public listener's `next_vote_at` of each pair, or `None` for a pair that may vote.
pub(crate) fn next_votes(server: &Server, pairs: &[Pair]) -> Vec<Option<String>> {
    let mut client = Client::connect(server.public());
    let mut found = Vec::new();
    for part in pairs.chunks(PIPELINED) {
        let request = |(server, ip): &Pair| format!("GET /api/vote/{server}/status/{ip} HTTP/1.1\r\nHost: h\r\n\r\n");
        client.send(part.iter().map(request).collect::<String>());
        for pair in part {
            let response = client.read_response(false);
            assert_eq!(response.status, 200, "{pair:?}: {response:?}");
            let body = response.json();
            let next = body["next_vote_at"].as_str().map(str::to_owned);
            assert_eq!(body["can_vote"], next.is_none(), "{response:?}");
            assert_eq!(body["success"], next.is_none(), "{response:?}");
            found.push(next);
        }
    }
    found
}
