//! The side of the new process in a takeover: it asks for all that the running one has, and serves on.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::estate::Estate;
use super::protocol::{Listed, TakeoverMessage, UNKNOWN_WORDS, VERSION, hear, say};
use crate::net::fd_channel::FdChannel;
use crate::server::backend::WriteSide;
use crate::server::start::LoadProgress;
use crate::server::state::Run;
use crate::server::{Role, ServerError};

/// The running process is never busy for as long as this: it hangs, or is stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// While the store is read, the running process is told so that often, in milliseconds.
const LOADING_MS: u64 = 1_000;

/// A gate that still stands after so many looks belongs to a process that goes on.
const GATE_TRIES: u32 = 4;
const GATE_PAUSE: Duration = Duration::from_millis(100);

impl Run {
    /// Starts as a successor. The store first: until it is read the running process answers, and goes on
    /// where it cannot be read. Only where that process has ended, 503 is a better answer than none.
    pub(in crate::server) fn take_over(
        &mut self,
        takeover: Takeover,
        write_side: WriteSide,
    ) -> Result<LoadProgress, ServerError> {
        log::info!("taking over from the process that runs");
        takeover.release().map_err(ServerError::TakeOver)?;
        let WriteSide { backend, handle, helpers, cluster: _ } = write_side;
        self.start_writing(backend, helpers)?;
        let mut progress = LoadProgress::UnderWay;
        while progress == LoadProgress::UnderWay && !self.is_hindered() {
            takeover.say_loading();
            progress = self.wait_for_news(false, LOADING_MS)?;
        }
        if progress == LoadProgress::Stopped {
            return Ok(progress);
        }
        if let Some((_, why)) = self.config.readiness.gravest()
            && !takeover.is_gone().map_err(ServerError::TakeOver)?
        {
            return Err(ServerError::NotTaken(why));
        }
        let Estate { public, control } = takeover.take().map_err(ServerError::TakeOver)?;
        self.sockets.inherit(Role::Public, public.listeners)?;
        self.sockets.inherit(Role::Control, control.listeners)?;
        self.start_public(public.clients)?;
        let probes = self.start_probes(control.clients)?;
        takeover.wait_until_done();
        self.end_probes(Some(&probes), handle)?;
        Ok(progress)
    }
}

/// The call to the running process.
pub(in crate::server) struct Takeover {
    gate: PathBuf,
    channel: FdChannel,
    places: Vec<Listed>,
}

impl Takeover {
    /// Asks whoever runs on this data directory; `None` where nobody does.
    pub(in crate::server) fn ask(gate: &Path) -> io::Result<Option<Self>> {
        let Some(channel) = FdChannel::connect(gate, PATIENCE)? else { return Ok(None) };
        if say(&channel, &TakeoverMessage::Hello { version: VERSION }).is_err() {
            return Ok(None);
        }
        match hear(&channel)?.map(|said| said.message) {
            Some(TakeoverMessage::Listening { places }) => Ok(Some(Self { gate: gate.to_owned(), channel, places })),
            Some(TakeoverMessage::Refused { reason }) => Err(io::Error::other(reason)),
            Some(_) => Err(io::Error::other(UNKNOWN_WORDS)),
            None => Ok(None),
        }
    }

    /// What the running process listens on.
    pub(in crate::server) fn places(&self) -> &[Listed] {
        &self.places
    }

    /// Has the store closed. Where the running process ends meanwhile, it is closed as well.
    fn release(&self) -> io::Result<()> {
        // Here and below: where it cannot be said, the running process is gone, and the next hearing tells.
        let _heard = say(&self.channel, &TakeoverMessage::Release);
        match hear(&self.channel)?.map(|said| said.message) {
            None | Some(TakeoverMessage::Released) => Ok(()),
            Some(TakeoverMessage::Refused { reason }) => Err(io::Error::other(reason)),
            Some(_) => Err(io::Error::other(UNKNOWN_WORDS)),
        }
    }

    /// Says that the store is still being read.
    fn say_loading(&self) {
        let _heard = say(&self.channel, &TakeoverMessage::Loading);
    }

    /// Says that all is loaded, and takes what there is: all, or what is left of a process that has
    /// ended. Fails where the other one goes on: then nothing is this process's.
    fn take(&self) -> io::Result<Estate> {
        let _heard = say(&self.channel, &TakeoverMessage::Ready);
        let mut estate = Estate::default();
        while let Some(said) = hear(&self.channel)? {
            if said.message != TakeoverMessage::Moved {
                estate.add(said)?;
            } else if say(&self.channel, &TakeoverMessage::Taken).is_ok() {
                return Ok(estate);
            }
        }
        if self.is_gone()? {
            return Ok(estate);
        }
        Err(io::Error::other("it has waited for too long, and goes on by itself"))
    }

    /// Whether the running process has ended. The system closes its gate a moment before or after its end
    /// of the channel.
    fn is_gone(&self) -> io::Result<bool> {
        for _try in 0..GATE_TRIES {
            if FdChannel::connect(&self.gate, PATIENCE)?.is_none() {
                return Ok(true);
            }
            thread::sleep(GATE_PAUSE);
        }
        Ok(false)
    }

    /// Waits until the running process answers no status request any more, or is gone.
    fn wait_until_done(self) {
        while let Ok(Some(said)) = hear(&self.channel) {
            if said.message == TakeoverMessage::Done {
                return;
            }
        }
    }
}
