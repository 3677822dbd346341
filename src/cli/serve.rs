//! `vote-status serve`: from options to a running service.

use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use clap::ArgMatches;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::logger::Logger;
use super::{CliError, Exit, certificates, exposure, hint, key, machine, one, progress, say};
use crate::control::ControlKey;
use crate::limits::{CONNECTIONS_MAX_DEFAULT, Limits, Shares};
use crate::net::listen::address::ListenAddress;
use crate::net::listen::systemd_sockets;
use crate::readiness::Readiness;
use crate::recorder::OpenStore;
use crate::recorder::command::{Command, Mode, NewServer, ServerName, Tokens, Vote};
use crate::server::{self, AccessConfig, Config, Ended, Engine, Role, Signal, StoreChoice};
use crate::store::directory::{DirectoryStore, Wanted};
use crate::store::memory::MemoryStore;
use crate::store::{self, StoreError};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::time::Cooldown;

/// In the data directory: where a new process calls to take over.
const GATE_FILE: &str = "takeover";

/// What `--store` is told in a build that knows no store but its own.
#[cfg(not(feature = "redis"))]
const NEEDS_REDIS: &str = "--store needs a build with the cargo feature redis";

/// The address that is in cooldown in the demonstration: 198.51.100.9, of a range for documentation.
const DEMO_COOLING: VoterAddress = VoterAddress::V4(Ipv4(0xC633_6409));

/// Serves until told to stop.
///
/// # Errors
/// What kept the service from starting or going on.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let logger = Logger::start(one(options, "log-format")?, one(options, "log-level")?)?;
    hint::for_environment().iter().for_each(|found| log::warn!("the environment variable {found}"));
    if options.get_flag("check-config") {
        return check_config(options, &logger);
    }
    let passed = passed()?;
    let is_demo = options.get_flag("demo");
    let data_dir = one::<PathBuf>(options, "data-dir")?;
    let (control_key, key_source) = key::of_service(options.get_one("control-key-file"), &data_dir)?;
    if is_demo && control_key.get().is_none() {
        let found = key::find(None, &data_dir).ok().flatten();
        control_key.set(found.map_or_else(key::generate, Ok)?);
    }
    if !keeps_nothing(options) || control_key.get().is_none() {
        key::refuse_file(&data_dir)?;
    }
    let readiness = Readiness::default();
    let gate = data_dir.join(GATE_FILE);
    if one::<Engine>(options, "engine")? != Engine::Native && passed.iter().any(|(role, _)| *role == Role::Public) {
        return Err(CliError::new(
            "a public socket was passed, and only the native engine takes one: leave --engine out",
        ));
    }
    let seek_key = {
        let (control_key, readiness) = (control_key.clone(), readiness.clone());
        let (key_file, data_dir, keeps_nothing) = (key_source.file(), data_dir.clone(), keeps_nothing(options));
        move || {
            key_source.seek(control_key.clone(), readiness);
            if let Some(key) = control_key.get() {
                exposure::warn_of_key(key, (!keeps_nothing).then_some(&*data_dir));
            }
            exposure::warn(key_file.as_deref(), &data_dir);
        }
    };
    let (store, store_name) = store(options, data_dir, &readiness, seek_key)?;
    let settings = config(options, control_key.clone(), gate, &logger)?;
    let config = Config { passed, store: store_name, readiness, ..settings };
    let signals = catch_signals(reloader(options, &config))?;
    progress::watch_load(config.readiness.clone());
    let mut announced = Vec::new();
    let announce = |address: &ListenAddress, role: Role| {
        if announced.is_empty() {
            // Who waits for these lines finds those of the log before them.
            log::logger().flush();
        }
        if role == Role::Control {
            exposure::warn_of_control(address);
        }
        announced.push((address.clone(), role));
        let mut out = std::io::stdout().lock();
        // A closed standard output is no reason to stop serving.
        let _closed = writeln!(out, "listening on {address} ({role})").and_then(|()| out.flush());
        if is_demo && role == Role::Control {
            say_what_to_try(&announced, control_key.get().unwrap_or_default());
        }
    };
    match server::run(config, store, signals, announce).map_err(CliError::new)? {
        Ended::Cleanly => Ok(Exit::Success),
        Ended::AtOnce => Ok(Exit::Negative),
    }
}

/// Says whether all that the options name can be used, and leaves everything as it is. Whether an address is
/// free, and the store whole, is seen by using them.
fn check_config(options: &ArgMatches, logger: &Logger) -> Result<Exit, CliError> {
    let data_dir = one::<PathBuf>(options, "data-dir")?;
    key::refuse_file(&data_dir)?;
    let key_file = options.get_one("control-key-file");
    let (control_key, source) = key::of_service(key_file, &data_dir)?;
    if let Some(key) = key::find(key_file, &data_dir)? {
        exposure::warn_of_key(&key, (!keeps_nothing(options)).then_some(&*data_dir));
    }
    exposure::warn(source.file().as_deref(), &data_dir);
    let config = config(options, control_key, data_dir.join(GATE_FILE), logger)?;
    exposure::warn_of_control(&config.control);
    if options.contains_id("store") {
        #[cfg(feature = "redis")]
        super::store::address(options)?;
        #[cfg(not(feature = "redis"))]
        return Err(CliError::new(NEEDS_REDIS));
    }
    log::logger().flush();
    let public: Vec<String> = config.listen.iter().chain(&config.listen_plain).map(ToString::to_string).collect();
    let (public, control, data_dir) = (public.join(", "), config.control, data_dir.display());
    say(format_args!("the options are good: public {public}; control {control}; data directory {data_dir}"))
}

/// What SIGHUP does, if anything.
fn reloader(options: &ArgMatches, config: &Config) -> Option<Box<dyn Fn() + Send>> {
    #[cfg(feature = "redis")]
    if let Some(check) = super::store::checker(options) {
        let certificates = certificates::reloader(config);
        return Some(Box::new(move || {
            certificates.iter().for_each(|reload| reload());
            check();
        }));
    }
    let _only_a_shared_store_is_looked_up = options;
    certificates::reloader(config)
}

fn keeps_nothing(options: &ArgMatches) -> bool {
    options.get_flag("in-memory") || options.get_flag("demo")
}

/// The store, and what it is called in the log. The key is sought where it is used first: before that,
/// the data directory may be another one than the one that is mounted there.
fn store(
    options: &ArgMatches,
    data_dir: PathBuf,
    readiness: &Readiness,
    seek_key: impl FnOnce() + Send + 'static,
) -> Result<(StoreChoice, String), CliError> {
    if !options.contains_id("store") {
        let name = if keeps_nothing(options) {
            "memory, where nothing is kept".to_owned()
        } else {
            data_dir.display().to_string()
        };
        let accepts_clock = options.get_flag("accept-clock");
        let open = own_store(options, data_dir, readiness.clone(), seek_key);
        return Ok((StoreChoice::Own { open, accepts_clock }, name));
    }
    seek_key();
    #[cfg(feature = "redis")]
    return super::store::shared(options, &data_dir);
    #[cfg(not(feature = "redis"))]
    Err(CliError::new(NEEDS_REDIS))
}

/// The sockets that a service manager has opened, each for what its name says.
fn passed() -> Result<Vec<(Role, OwnedFd)>, CliError> {
    let taken =
        systemd_sockets::take().map_err(|error| CliError::new(format_args!("a passed socket is of no use: {error}")));
    let role = |name: &str| match name {
        "public" | "" => Ok(Role::Public),
        "control" => Ok(Role::Control),
        name => Err(CliError::new(format_args!(
            "a socket was passed as {name:?}: name it public or control (FileDescriptorName= under systemd)"
        ))),
    };
    taken?.into_iter().map(|passed| Ok((role(&passed.name)?, passed.socket))).collect()
}

/// Opens the store when it is called.
fn own_store(
    options: &ArgMatches,
    data_dir: PathBuf,
    readiness: Readiness,
    seek_key: impl FnOnce() + Send + 'static,
) -> OpenStore {
    let keeps_nothing = keeps_nothing(options);
    let wanted = if options.get_flag("require-store") { Wanted::Existing } else { Wanted::Any };
    let (mut seek_key, mut known) = (Some(seek_key), None);
    Box::new(move || {
        let store: Box<dyn store::Store> = if keeps_nothing {
            Box::new(MemoryStore)
        } else {
            // What is in memory goes with no other store than the one that it was read from.
            let wanted = known.filter(|_| readiness.was_loaded()).map_or(wanted, Wanted::This);
            let store = open_quietly(&data_dir, wanted)?;
            known = store.identity();
            Box::new(store)
        };
        if let Some(seek) = seek_key.take() {
            seek();
        }
        Ok(store)
    })
}

/// A damaged file makes the library panic; that is told in one line, not as a back-trace.
fn open_quietly(data_dir: &Path, wanted: Wanted) -> Result<DirectoryStore, StoreError> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let store = DirectoryStore::open(data_dir, wanted);
    panic::set_hook(hook);
    store
}

fn config(options: &ArgMatches, control_key: ControlKey, gate: PathBuf, logger: &Logger) -> Result<Config, CliError> {
    let minutes = u32::try_from(one::<u64>(options, "cooldown-minutes")?).unwrap_or(u32::MAX);
    let cooldown = Cooldown::from_minutes(minutes).ok_or_else(|| CliError::new("--cooldown-minutes is 1 to 10080"))?;
    #[cfg(not(feature = "tls"))]
    certificates::refuse(options)?;
    let (engine, takes_over) = (one(options, "engine")?, options.get_flag("takeover"));
    // Nodes that share a store stand behind a load balancer: they are upgraded one by one.
    let can_be_followed = engine == Engine::Native && !keeps_nothing(options) && !options.contains_id("store");
    if takes_over && !can_be_followed {
        return Err(CliError::new("--takeover is for the native engine and a store in the data directory"));
    }
    let format = logger.format();
    let addresses = |name| options.get_many::<ListenAddress>(name).unwrap_or_default().cloned().collect();
    let asked = options.get_one::<u64>("max-connections").copied();
    let Shares { connections_max, control_connections_max, turned_away_max } = shares(asked, size(options, "workers")?);
    let limits = Limits {
        head_bytes_max: size(options, "head-bytes-max")?,
        header_lines_max: size(options, "header-lines-max")?,
        body_bytes_max: one(options, "body-bytes-max")?,
        skip_body_bytes_max: one(options, "skip-body-bytes-max")?,
        head_timeout_ms: one(options, "head-timeout")?,
        idle_timeout_ms: one(options, "idle-timeout")?,
        write_timeout_ms: one(options, "write-timeout")?,
        connections_max,
        control_connections_max,
        turned_away_max,
        buffer_bytes_max: options.get_one("buffer-bytes-max").copied().unwrap_or_else(machine::buffer_bytes_max),
    };
    Ok(Config {
        listen: addresses("listen"),
        listen_plain: addresses("listen-plain"),
        #[cfg(feature = "tls")]
        tls: certificates::load(options)?,
        control: one(options, "control")?,
        listen_mode: one(options, "listen-mode")?,
        engine,
        workers: size(options, "workers")?,
        cooldown,
        control_key,
        limits,
        access_log: options
            .get_one::<NonZeroU32>("access-log")
            .map(|one_in| AccessConfig { one_in: *one_in, write: Box::new(move |entry| format.write_access(entry)) }),
        log_dropped: logger.dropped(),
        store: String::new(),
        drain_delay_ms: one(options, "drain-delay")?,
        drain_timeout_ms: one(options, "drain-timeout")?,
        seed: if options.get_flag("demo") { demo_seed() } else { Vec::new() },
        readiness: Readiness::default(),
        passed: Vec::new(),
        gate: can_be_followed.then_some(gate),
        takes_over,
    })
}

fn size(options: &ArgMatches, name: &'static str) -> Result<usize, CliError> {
    usize::try_from(one::<u64>(options, name)?).map_err(|_| CliError::new(format_args!("--{name} is too large")))
}

/// The process takes all descriptors that it may have; some are kept for other uses than public
/// clients: among them those that are told 503, and the control listener's.
fn shares(asked: Option<u64>, workers: usize) -> Shares {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    let descriptors = limit.current.map_or(1 << 20, |current| usize::try_from(current).unwrap_or(1 << 20));
    let shares = Shares::of(descriptors, workers);
    let room = shares.connections_max;
    let asked = asked.map(|asked| usize::try_from(asked).unwrap_or(usize::MAX));
    if let Some(asked) = asked.filter(|asked| *asked > room) {
        log::warn!("--max-connections {asked} is more than the descriptor limit of {descriptors} allows; it is {room}");
    }
    Shares { connections_max: asked.unwrap_or(CONNECTIONS_MAX_DEFAULT).min(room).max(1), ..shares }
}

/// Signals to stop, and what to do on SIGHUP; without that, it ends the process as usual.
fn catch_signals(reload: Option<Box<dyn Fn() + Send>>) -> Result<Receiver<Signal>, CliError> {
    let fail = |error| CliError::new(format_args!("cannot catch signals: {error}"));
    // A file-size limit is a full disk: an error of the write, not the end of the process.
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, ignored).map_err(fail)?;
    let mut caught = Signals::new([SIGINT, SIGTERM]).map_err(fail)?;
    if reload.is_some() {
        caught.add_signal(SIGHUP).map_err(fail)?;
    }
    let (sender, signals) = channel();
    let work = move || {
        for signal in caught.forever() {
            match &reload {
                Some(reload) if signal == SIGHUP => reload(),
                _ if sender.send(Signal::Stop).is_err() => return,
                _ => {}
            }
        }
    };
    thread::Builder::new().name("signal-wait".into()).spawn(work).map_err(fail)?;
    Ok(signals)
}

fn demo_seed() -> Vec<Command> {
    let (server, token) = (ServerId(28), Token::new("demo"));
    let vote = Vote { server: ServerName::Id(server), address: DEMO_COOLING, voted_at: None };
    vec![Command::Servers(vec![NewServer { server, token }], Tokens::Replace), Command::Votes(vec![vote], Mode::Cast)]
}

fn say_what_to_try(announced: &[(ListenAddress, Role)], key: &[u8]) {
    let is_public = |role| role != Role::Control;
    let find = |wanted| announced.iter().find(|(_, role)| is_public(*role) == wanted);
    let (Some((public, role)), Some((control, _))) = (find(true), find(false)) else { return };
    let (public, control) = (reachable(public, *role), reachable(control, Role::Control));
    let key = String::from_utf8_lossy(key);
    eprintln!("A demonstration: nothing is kept. Server 28 has the token demo. Try:");
    eprintln!("  curl -s {public}/api/vote/28/status/203.0.113.7");
    eprintln!("  curl -s {public}/api/servers/demo/vote-status/{DEMO_COOLING}");
    eprintln!(
        r#"  curl -s -H 'Authorization: Bearer {key}' -d '{{"server_id":28,"ip":"203.0.113.7"}}' {control}/v1/votes"#
    );
}

/// How curl on this machine is told an address.
fn reachable(address: &ListenAddress, role: Role) -> String {
    // The certificate is for another name than that of this machine.
    let scheme = if role == Role::PublicTls { "-k https" } else { "http" };
    match address {
        ListenAddress::Unix(path) => format!("--unix-socket '{}' http://localhost", path.display()),
        ListenAddress::Tcp(address) if address.ip().is_unspecified() => {
            let ip = if address.is_ipv4() { [127, 0, 0, 1].into() } else { Ipv6Addr::LOCALHOST.into() };
            format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
        }
        ListenAddress::Tcp(address) => format!("{scheme}://{address}"),
    }
}
