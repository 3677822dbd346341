//! `serve --demo`: a state to try, and the commands to try with it.

use std::net::{Ipv6Addr, SocketAddr};

use crate::net::listen::Role;
use crate::net::listen::address::ListenAddress;
use crate::recorder::command::{Command, Mode, NewServer, ServerName, Tokens, Vote};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;

/// The address that is in cooldown in the demonstration: 198.51.100.9, of a range for documentation.
const DEMO_COOLING: VoterAddress = VoterAddress::V4(Ipv4(0xC633_6409));

/// The commands that make the state: a server, and an address in cooldown.
pub(super) fn seed() -> Vec<Command> {
    let (server, token) = (ServerId(28), Token::new("demo"));
    let vote = Vote { server: ServerName::Id(server), voter: DEMO_COOLING.into(), voted_at: None };
    vec![Command::Servers(vec![NewServer { server, token }], Tokens::Replace), Command::Votes(vec![vote], Mode::Cast)]
}

/// Prints commands to try on standard error. `key` is the control key, or the words of a shell that stand for it.
pub(super) fn say_what_to_try(announced: &[(ListenAddress, Role)], key: &str) {
    let find = |wanted| announced.iter().find(|(_, role)| *role == wanted).map(|(address, _)| reachable(address));
    let (Some(public), Some(control)) = (find(Role::Public), find(Role::Control)) else { return };
    let vote = r#"{"server_id":28,"ip":"203.0.113.7"}"#;
    let mut lines = vec![
        "A demonstration: nothing is kept. Server 28 has the token demo. Try:".to_owned(),
        format!("  curl -s {public}/api/vote/28/status/203.0.113.7"),
        format!("  curl -s {public}/api/servers/demo/vote-status/{DEMO_COOLING}"),
        format!(r#"  curl -s -H "Authorization: Bearer {key}" -d '{vote}' {control}/v1/votes"#),
    ];
    // A browser opens no Unix socket.
    if control.starts_with("http") {
        let key = if key.starts_with('$') { String::new() } else { format!(", which is {key}") };
        lines.push(format!("The operator's page is {control}/ and asks for the control key{key}"));
    }
    lines.iter().for_each(super::note);
}

/// An address as curl on this machine takes it.
fn reachable(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Unix(path) => format!("--unix-socket '{}' http://localhost", path.display()),
        ListenAddress::Tcp(address) if address.ip().is_unspecified() => {
            let ip = if address.is_ipv4() { [127, 0, 0, 1].into() } else { Ipv6Addr::LOCALHOST.into() };
            format!("http://{}", SocketAddr::new(ip, address.port()))
        }
        ListenAddress::Tcp(address) => format!("http://{address}"),
    }
}
