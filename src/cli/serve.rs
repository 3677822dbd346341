//! `vote-status serve`: reads the options ([`ServeOptions`]), and runs the service.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use clap::ArgMatches;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::data_dir::quietly;
use super::logger::Logger;
use super::serve_options::{self, Keeping, ServeOptions};
use super::{CliError, Exit, check_config, data_dir, demo, exposure, hint, one};
use crate::json::escaped;
use crate::net::listen::Role;
use crate::net::listen::address::ListenAddress;
use crate::random;
use crate::recorder::OpenStore;
use crate::server::{self, Ended, Events, StoreChoice};
use crate::store;
use crate::store::directory::DataDirectory;
use crate::store::embedded::{EmbeddedStore, STORE_FILE, Wanted};
use crate::store::memory::MemoryStore;

/// Serves until told to stop.
///
/// # Errors
/// The reason why the service could not start or go on.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, CliError> {
    // Before any thread starts: see `systemd_sockets::take`.
    let is_only_checked = matches.get_flag("check-config");
    let passed = if is_only_checked { Vec::new() } else { serve_options::passed()? };
    let logger = Logger::start(one(matches, "log-format")?, one(matches, "log-level")?)?;
    for name in hint::unknown_variables() {
        log::warn!("the environment variable {name} means nothing here");
    }
    let options = ServeOptions::parse(matches, passed, logger.dropped())?;
    if is_only_checked { check_config::run(&options) } else { serve(options) }
}

fn serve(options: ServeOptions) -> Result<Exit, CliError> {
    data_dir::refuse_other_store(&options)?;
    let key = &options.key;
    if let Some(mistake) = &options.mistake {
        log::warn!("an option does nothing: {mistake}");
    }
    let demo_key = if options.is_demo { Some(key.of_demonstration()?) } else { None };
    if !key.is_in_data_dir() {
        key.seek(options.config.readiness.clone());
    } else if !options.requires_store || options.data_dir.join(STORE_FILE).exists() {
        // Clients may read the key as soon as a listener answers.
        key.seek_early();
    }
    let announcer = start_announcer(demo_key)?;
    let store = store(&options);
    let events = catch_signals(reloader(&options))?;
    let announce = |address: &ListenAddress, role: Role| {
        if role == Role::Control {
            exposure::warn_of_control(address);
        }
        // The thread takes lines for as long as there is a sender.
        let _taken = announcer.send((address.clone(), role));
    };
    match server::run(options.config, store, events, announce).map_err(CliError::new)? {
        Ended::Cleanly => Ok(Exit::Success),
        Ended::AtOnce | Ended::Overdue => Ok(Exit::Negative),
    }
}

/// The store. Once it is open, the key is looked for, unless it is known. With `--require-store`, the data directory
/// may be an empty folder before that, because its volume is not mounted yet.
fn store(options: &ServeOptions) -> StoreChoice {
    let (own_data_dir, data_dir) = (options.own_data_dir().map(Path::to_owned), options.data_dir.clone());
    let (key, readiness) = (options.key.clone(), options.config.readiness.clone());
    let export_options = key.export_options();
    let seek_key = move || {
        if key.is_in_data_dir() {
            key.seek(readiness);
        }
        key.keep_open();
        if let Some(known) = key.key().get() {
            exposure::warn_of_key(known, own_data_dir.as_deref());
        }
        exposure::warn(key.file(), &data_dir);
    };
    #[cfg(feature = "redis")]
    if let Keeping::Shared(store) = &options.keeping {
        seek_key();
        return store.choice(&options.data_dir);
    }
    let open = own_store(options, export_options, seek_key);
    StoreChoice::Own { open, accepts: options.accepts }
}

/// The function that opens the store.
fn own_store(
    options: &ServeOptions,
    export_options: Arc<OnceLock<String>>,
    seek_key: impl FnOnce() + Send + 'static,
) -> OpenStore {
    let (keeps_nothing, data_dir) = (options.keeps_nothing(), options.data_dir.clone());
    let wanted = if options.requires_store { Wanted::Existing } else { Wanted::Any };
    let mut seek_key = Some(seek_key);
    Box::new(move || {
        let store: Box<dyn store::Store> = if keeps_nothing {
            Box::new(MemoryStore)
        } else {
            let export_options = Arc::clone(&export_options);
            let disk = DataDirectory::at(&data_dir);
            Box::new(quietly(|| EmbeddedStore::open(disk, wanted, export_options, random::number()))?)
        };
        if let Some(seek) = seek_key.take() {
            seek();
        }
        Ok(store)
    })
}

/// The effect of SIGHUP, if there is one.
fn reloader(options: &ServeOptions) -> Option<Box<dyn Fn() + Send>> {
    match &options.keeping {
        #[cfg(feature = "redis")]
        Keeping::Shared(store) => Some(store.checker()),
        Keeping::Memory | Keeping::DataDir => None,
    }
}

/// Catches the signals to stop, and SIGHUP if there is something to reload. If there is not, SIGHUP ends the process as
/// usual.
fn catch_signals(reload: Option<Box<dyn Fn() + Send>>) -> Result<Events, CliError> {
    let fail = |error| CliError::new(format_args!("cannot catch signals: {error}"));
    // If a file may not grow any more, the write has to fail, as on a full disk. Uncaught, this signal would end
    // the process.
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, ignored).map_err(fail)?;
    let mut caught = Signals::new([SIGINT, SIGTERM]).map_err(fail)?;
    if reload.is_some() {
        caught.add_signal(SIGHUP).map_err(fail)?;
    }
    let (stop, events) = server::events();
    let work = move || {
        for signal in caught.forever() {
            match &reload {
                Some(reload) if signal == SIGHUP => reload(),
                _ => stop(),
            }
        }
    };
    thread::Builder::new().name("signal-wait".into()).spawn(work).map_err(fail)?;
    Ok(events)
}

/// Starts the thread that prints the addresses of the listeners, and for a demonstration the commands to try. Only this
/// thread waits for the reader of standard output, which may have stopped: signals are handled meanwhile.
fn start_announcer(demo_key: Option<String>) -> Result<Sender<(ListenAddress, Role)>, CliError> {
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
            let line = format!("listening on {address} ({role})");
            let _closed = writeln!(out, "{}", escaped(&line)).and_then(|()| out.flush());
            announced.push((address, role));
            if let Some(key) = demo_key.as_ref().filter(|_| role == Role::Control) {
                demo::say_what_to_try(&announced, key);
            }
        }
    };
    let started = thread::Builder::new().name("announce".into()).spawn(work);
    started.map_err(|error| CliError::new(format_args!("cannot start the thread that says the addresses: {error}")))?;
    Ok(announcer)
}
