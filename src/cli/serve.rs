//! `vote-status serve`: options are read into [`ServeOptions`], then checked, then acted on.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::panic;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use clap::ArgMatches;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::logger::Logger;
use super::serve_options::{Keeping, ServeOptions};
use super::{CliError, Exit, demo, exposure, hint, key, one, progress, say};
use crate::control::ControlKey;
use crate::limits::{CONNECTIONS_MAX_DEFAULT, Limits, Shares};
use crate::net::listen::address::ListenAddress;
use crate::net::listen::systemd_sockets;
use crate::readiness::Readiness;
use crate::recorder::OpenStore;
use crate::server::{self, Config, Ended, Events, Role, StoreChoice};
use crate::store::directory::DataDirectory;
use crate::store::embedded::{EmbeddedStore, Wanted};
use crate::store::memory::MemoryStore;
use crate::store::{self, StoreError};

/// Serves until told to stop.
///
/// # Errors
/// What kept the service from starting or going on.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, CliError> {
    let logger = Logger::start(one(matches, "log-format")?, one(matches, "log-level")?)?;
    for name in hint::unknown_variables() {
        log::warn!("the environment variable {name} means nothing here");
    }
    let options = ServeOptions::parse(matches)?;
    if options.is_only_checked {
        return check_config(&options, &logger);
    }
    let passed = passed()?;
    options.check(&passed)?;
    let (control_key, key_source) = key::of_service(options.key_file.as_ref(), &options.data_dir)?;
    if options.is_demo && control_key.get().is_none() {
        control_key.set(key_source.look().ok().flatten().map_or_else(key::generate, Ok)?);
    }
    if !options.keeps_nothing() || (control_key.get().is_none() && !key_source.is_named()) {
        key::refuse_file(&options.data_dir)?;
    }
    let settings = config(&options, control_key.clone(), &logger)?;

    let readiness = Readiness::default();
    let key_file = key_source.file();
    let mut key_source = Some(key_source);
    if let Some(named) = key_source.take_if(|source| source.is_named()) {
        named.seek(control_key.clone(), readiness.clone());
    }
    let seek_key = {
        let (control_key, readiness) = (control_key.clone(), readiness.clone());
        let data_dir = options.data_dir.clone();
        let keeps_nothing = options.keeps_nothing();
        move || {
            if let Some(source) = key_source {
                source.seek(control_key.clone(), readiness);
            }
            if let Some(key) = control_key.get() {
                exposure::warn_of_key(key, (!keeps_nothing).then_some(&*data_dir));
            }
            exposure::warn(key_file.as_deref(), &data_dir);
        }
    };
    let (store, store_name) = store(&options, seek_key);
    let config = Config { passed, store: store_name, readiness, ..settings };
    let events = catch_signals(reloader(&options))?;
    progress::watch_load(config.readiness.clone());
    let announcer = start_announcer(options.is_demo.then(|| control_key.clone()))?;
    let announce = |address: &ListenAddress, role: Role| {
        if role == Role::Control {
            exposure::warn_of_control(address);
        }
        // The thread takes lines for as long as there is a sender.
        let _taken = announcer.send((address.clone(), role));
    };
    match server::run(config, store, events, announce).map_err(CliError::new)? {
        Ended::Cleanly => Ok(Exit::Success),
        Ended::AtOnce | Ended::Overdue => Ok(Exit::Negative),
    }
}

/// Starts the thread that says where the service listens, and with the key of a demonstration what to try there. It
/// alone waits for the reader of standard output, which may have stopped: signals are handled meanwhile.
fn start_announcer(demo_key: Option<ControlKey>) -> Result<Sender<(ListenAddress, Role)>, CliError> {
    let (announcer, addresses) = channel();
    let work = move || {
        let mut announced = Vec::new();
        for (address, role) in addresses {
            if announced.is_empty() {
                // A program that waits for these lines should find the log's earlier lines written.
                log::logger().flush();
            }
            let mut out = std::io::stdout().lock();
            // A closed standard output is no reason to stop serving.
            let _closed = writeln!(out, "listening on {address} ({role})").and_then(|()| out.flush());
            announced.push((address, role));
            if let Some(key) = demo_key.as_ref().filter(|_| role == Role::Control) {
                demo::say_what_to_try(&announced, key.get().unwrap_or_default());
            }
        }
    };
    let started = thread::Builder::new().name("announce".into()).spawn(work);
    started.map_err(|error| CliError::new(format_args!("cannot start the thread that says the addresses: {error}")))?;
    Ok(announcer)
}

/// Says whether all that the options name can be used, and changes nothing. Whether an address is free and the store
/// whole is not looked at: only using them would tell.
fn check_config(options: &ServeOptions, logger: &Logger) -> Result<Exit, CliError> {
    options.check(&[])?;
    let (key_file, data_dir) = (options.key_file.as_ref(), &options.data_dir);
    key::refuse_file(data_dir)?;
    let (control_key, source) = key::of_service(key_file, data_dir)?;
    if control_key.get().is_none()
        && let Some(key) = source.look()?
    {
        control_key.set(key);
    }
    if let Some(key) = control_key.get() {
        exposure::warn_of_key(key, (!options.keeps_nothing()).then_some(data_dir));
    }
    exposure::warn(source.file().as_deref(), data_dir);
    let config = config(options, control_key, logger)?;
    exposure::warn_of_control(&config.control);
    log::logger().flush();
    let public: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    let (public, control, data_dir) = (public.join(", "), config.control, data_dir.display());
    say(format_args!("the options are good: public {public}; control {control}; data directory {data_dir}"))
}

/// What SIGHUP does, if anything.
fn reloader(options: &ServeOptions) -> Option<Box<dyn Fn() + Send>> {
    match &options.keeping {
        #[cfg(feature = "redis")]
        Keeping::Shared(store) => Some(super::store::checker(store)),
        Keeping::Memory | Keeping::DataDir => None,
    }
}

/// The store, and what it is called in the log. The key is looked for when the store is opened, not before: until
/// then the data directory may be an empty folder, over which the right one is still to be mounted.
fn store(options: &ServeOptions, seek_key: impl FnOnce() + Send + 'static) -> (StoreChoice, String) {
    let name = match &options.keeping {
        Keeping::Memory => "memory, where nothing is kept".to_owned(),
        Keeping::DataDir => options.data_dir.display().to_string(),
        #[cfg(feature = "redis")]
        Keeping::Shared(store) => {
            seek_key();
            return super::store::shared(store, &options.data_dir, options.ipv6_prefix);
        }
    };
    let open = own_store(options, seek_key);
    let ServeOptions { accepts_clock, accepts_settings, ipv6_prefix, .. } = *options;
    (StoreChoice::Own { open, accepts_clock, accepts_settings, ipv6_prefix }, name)
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
fn own_store(options: &ServeOptions, seek_key: impl FnOnce() + Send + 'static) -> OpenStore {
    let (keeps_nothing, data_dir) = (options.keeps_nothing(), options.data_dir.clone());
    let wanted = if options.requires_store { Wanted::Existing } else { Wanted::Any };
    let mut seek_key = Some(seek_key);
    Box::new(move || {
        let store: Box<dyn store::Store> =
            if keeps_nothing { Box::new(MemoryStore) } else { Box::new(open_quietly(&data_dir, wanted)?) };
        if let Some(seek) = seek_key.take() {
            seek();
        }
        Ok(store)
    })
}

/// Opens the store without the usual report of a panic: a damaged file makes the library panic, and the error that
/// comes of it is told in one line.
fn open_quietly(data_dir: &Path, wanted: Wanted) -> Result<EmbeddedStore, StoreError> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let store = EmbeddedStore::open(DataDirectory::at(data_dir), wanted);
    panic::set_hook(hook);
    store
}

/// What the run is told. Raises the limit on descriptors.
fn config(options: &ServeOptions, control_key: ControlKey, logger: &Logger) -> Result<Config, CliError> {
    let Shares { connections_max, control_connections_max, turned_away_max } =
        shares(options.max_connections, options.workers);
    let waiting_max = options.max_waiting.unwrap_or_else(|| Limits::waiting_of(connections_max)).min(connections_max);
    Ok(Config {
        listen: options.listen.clone(),
        control: options.control.clone(),
        listen_mode: options.listen_mode,
        engine: options.engine,
        workers: options.workers,
        cooldown: options.cooldown,
        control_key,
        limits: Limits { connections_max, waiting_max, control_connections_max, turned_away_max, ..options.limits },
        log_dropped: logger.dropped(),
        store: String::new(),
        drain_delay_ms: options.drain_delay_ms,
        drain_timeout_ms: options.drain_timeout_ms,
        seed: if options.is_demo { demo::seed() } else { Vec::new() },
        readiness: Readiness::default(),
        passed: Vec::new(),
    })
}

/// How the descriptors are shared out. The process raises its limit as far as it may; some descriptors are kept for
/// other uses than public clients, among them the control listener and newcomers that are told 503.
fn shares(asked: Option<usize>, workers: usize) -> Shares {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    let descriptors = limit.current.map_or(1 << 20, |current| usize::try_from(current).unwrap_or(1 << 20));
    let shares = Shares::of(descriptors, workers, asked);
    let room = shares.connections_max;
    if let Some(asked) = asked.filter(|asked| *asked > room) {
        log::warn!("--max-connections {asked} is more than the descriptor limit of {descriptors} allows; it is {room}");
    }
    Shares { connections_max: asked.unwrap_or(CONNECTIONS_MAX_DEFAULT).min(room).max(1), ..shares }
}

/// Catches the signals to stop, and SIGHUP where there is something to reload. Where there is not, SIGHUP ends the
/// process as usual.
fn catch_signals(reload: Option<Box<dyn Fn() + Send>>) -> Result<Events, CliError> {
    let fail = |error| CliError::new(format_args!("cannot catch signals: {error}"));
    // Where a file may not grow any more the write is to fail, as on a full disk. Uncaught, this signal would end
    // the process.
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, ignored).map_err(fail)?;
    let mut caught = Signals::new([SIGINT, SIGTERM]).map_err(fail)?;
    if reload.is_some() {
        caught.add_signal(SIGHUP).map_err(fail)?;
    }
    let (stopper, events) = server::events();
    let work = move || {
        for signal in caught.forever() {
            match &reload {
                Some(reload) if signal == SIGHUP => reload(),
                _ => stopper.stop(),
            }
        }
    };
    thread::Builder::new().name("signal-wait".into()).spawn(work).map_err(fail)?;
    Ok(events)
}
