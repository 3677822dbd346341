//! Checks, before the first node is started, whether a store has all that nodes need. All defects are reported together, so that
//! the operator asks the provider once.

use super::address::{StoreAddress, StoreTarget};
use super::entry::{items, text};
use super::functions;
use super::keys;
use super::link::{LinkError, StoreLink, TIMEOUT, info_field};
use super::primary::Primary;
use super::reason::Reason;

/// The first major version of Redis that has functions.
const MAJOR_MIN: u32 = 7;

/// The defects of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Defects that keep nodes from working.
    pub needed: Vec<String>,
    /// Defects that an operator should know of, each with its consequence.
    pub advised: Vec<String>,
}

/// Asks the store for all that nodes will ask of it, and changes nothing.
///
/// # Errors
/// If the store cannot be reached at all.
pub fn look(address: &StoreAddress) -> Result<Lacks, LinkError> {
    let mut link = match Primary::open(address) {
        Ok(primary) => primary.link,
        // The machine is there and does not report its role: the rest of the list is worth asking for.
        Err(error) if matches!(error.reason(), Reason::Rights | Reason::Unfit) => {
            let StoreTarget::Direct(hosts) = &address.target else { return Err(error) };
            StoreLink::connect(&address.access, &hosts[0], TIMEOUT)?
        }
        Err(error) => return Err(error),
    };
    let mut lacks = Lacks::default();
    look_at_info(&mut link, &mut lacks);
    // A dedicated user may not ask for the limit, and each try would be a line in the store's ACL log.
    if address.access.user.is_none() {
        look_at_limit(&mut link, &mut lacks);
    }
    for words in QUESTIONS {
        if let Err(error) = link.ask(words) {
            match error {
                LinkError::Lost(..) => return Err(error),
                // A refusal of another kind is about a key or a function that is not there.
                LinkError::Refused(Reason::Rights, why) => {
                    let name = if words[0] == "FUNCTION" { "FUNCTION LIST" } else { words[0] };
                    lacks.needed.push(format!("{name}: {why}"));
                }
                LinkError::Refused(..) => {}
            }
        }
    }
    Ok(lacks)
}

fn look_at_info(link: &mut StoreLink, lacks: &mut Lacks) {
    let info = match link.ask(&["INFO"]).map(|reply| text(&reply).map(str::to_owned)) {
        Ok(Some(info)) => info,
        Ok(None) => return lacks.needed.push("INFO: it says nothing of itself".into()),
        Err(error) => return lacks.needed.push(format!("INFO: {error}")),
    };
    let field = |name| info_field(&info, name);
    let major = |version: &str| version.split('.').next()?.parse::<u32>().ok();
    match field("redis_version").map(|version| (version, major(version))) {
        Some((_, Some(MAJOR_MIN..))) => {}
        Some((version, _)) => lacks.needed.push(format!("functions: it is of version {version}, and 7.0 is wanted")),
        None => lacks.needed.push("INFO: redis_version".into()),
    }
    for name in ["role", "run_id", "maxmemory_policy"] {
        if field(name).is_none() {
            lacks.needed.push(format!("INFO: the field {name}, without which a lost vote would not be noticed"));
        }
    }
    if let Some(policy) = field("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        lacks.needed.push(format!("maxmemory-policy {policy} drops votes when it is full; set noeviction"));
    }
    if field("aof_enabled") == Some("0") {
        lacks.advised.push("appendonly is off: a restart forgets what no node still knows; set appendonly yes".into());
    }
}

/// Redis has no limit by default. If the provider forbids the question, nothing is reported.
fn look_at_limit(link: &mut StoreLink, lacks: &mut Lacks) {
    let Ok(reply) = link.ask(&["CONFIG", "GET", "client-output-buffer-limit"]) else { return };
    let limits = items(&reply).and_then(|pair| text(pair.get(1)?)).unwrap_or_default();
    if let Some(hard) = hard_limit(limits).filter(|hard| *hard > 0) {
        lacks.advised.push(format!(
            "client-output-buffer-limit normal has a hard limit of {hard} bytes: a node that reads more at once, as all votes of a server, is cut off and does not start; set client-output-buffer-limit normal 0 0 0"
        ));
    }
}

/// The hard limit of ordinary clients, in bytes: `normal HARD SOFT SECONDS slave …`.
fn hard_limit(limits: &str) -> Option<u64> {
    let mut words = limits.split_whitespace();
    words.find(|word| *word == "normal")?;
    words.next()?.parse().ok()
}

/// One question for each command that nodes use, by themselves or within a function; none of them changes anything. The functions
/// check the rights to write: see [`functions::missing_rights`].
const QUESTIONS: [&[&str]; 15] = [
    &["FUNCTION", "LIST", "LIBRARYNAME", functions::LIBRARY],
    &["EXISTS", keys::META],
    &["HGET", keys::META, "store"],
    &["HMGET", keys::TOKENS, "x"],
    &["HGETALL", keys::NODES],
    &["HSCAN", keys::DIRECTORY, "0"],
    &["XREVRANGE", keys::LOG, "+", "-", "COUNT", "1"],
    &["XREAD", "COUNT", "1", "STREAMS", keys::LOG, "0-0"],
    &["ZRANGE", keys::GONE, "0", "0"],
    &["ZRANGEBYSCORE", "vs:{0}:s:0", "0", "0"],
    &["ZSCORE", "vs:{0}:s:0", "0"],
    &["TIME"],
    &["WAIT", "0", "1"],
    // No function has this name, and the store says so to a user that may call functions.
    &["FCALL", "vs3_probe", "0"],
    &["FCALL_RO", "vs3_probe", "0"],
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{QUESTIONS, hard_limit};
    use crate::cluster::functions::CODE;

    const DOCUMENT: &str = include_str!("../../docs/CLUSTER.md");

    #[test]
    fn the_limit_of_ordinary_clients_is_read_from_that_of_all() {
        let limits = "normal 262144 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(hard_limit(limits), Some(262_144));
        assert_eq!(hard_limit("slave 1 2 3"), None);
        assert_eq!(hard_limit("normal"), None);
    }

    /// The documents' user may do what this file and the functions check. Beyond that the user may only find the machine and load
    /// the functions, where each lack has an error of its own.
    #[test]
    fn documents_functions_and_this_look_give_one_list_of_rights() {
        let user = DOCUMENT.lines().find(|line| line.starts_with("user vote-status on")).expect("the user");
        let given: BTreeSet<String> =
            user.split([' ', '(']).filter_map(|word| word.strip_prefix('+')).map(named).collect();
        let asked = QUESTIONS.iter().map(|words| named(words[0]));
        let (_, rights) = CODE.split_once("local function rights(keys)").expect("the function");
        let (rights, _) = rights.split_once("\nend\n").expect("its end");
        let called =
            rights.lines().filter_map(|line| Some(named(line.trim().strip_prefix("{ '")?.split('\'').next()?)));
        let called: BTreeSet<String> = called.collect();
        assert!(called.len() > 15, "{called:?}");
        let elsewhere = ["@connection", "cluster", "info"].map(str::to_owned);
        let needed: BTreeSet<String> = asked.chain(called).chain(elsewhere).collect();
        assert_eq!(given, needed);
    }

    /// A command without its subcommand.
    fn named(command: &str) -> String {
        command.split(['|', ')']).next().unwrap_or_default().to_lowercase()
    }
}
