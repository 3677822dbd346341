//! The service in one thread: the real recorder over the simulated disk and clocks, and readers that look at its state
//! as the public service does. Puts the model's words into commands, and replies into the model's.

use super::clocks::Clocks;
use super::model::world::Seen;
use super::model::{Accepts, Answer, Asked, Settings};
use super::seam::{Folder, SimulatedDisk};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use vote_status::clock::Clock;
use vote_status::readiness::{Readiness, Trouble};
use vote_status::recorder::command::{
    Command, Mode, NewServer, Reply, ServerName, ServerOutcome, Tokens, Vote, VoteOutcome,
};
use vote_status::recorder::{OpenStore, Recorder, RecorderHandle};
use vote_status::store::embedded::{EmbeddedStore, Wanted};
use vote_status::store::{Store, StoreError};
use vote_status::vote::address::{Voter, VoterAddress};
use vote_status::vote::answer::{self, Question, ServerKey};
use vote_status::vote::directory::DirectoryView;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv6::Ipv6Prefix;
use vote_status::vote::table::{CooldownView, Pair};
use vote_status::vote::time::{Cooldown, UnixSeconds};
use vote_status::waiting::{Bell, WaitingList, WaitingSlot};

/// What a caller asks of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Of one mode.
    Votes(Vec<Asked>),
    Cancel(u32, IpAddr),
    List(u32, String),
    Remove(u32),
}

/// A status question: a server by id, or by its token, and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    pub(crate) server: u32,
    pub(crate) token: Option<String>,
    pub(crate) address: IpAddr,
}

/// Looks at the state as the public service does.
pub(crate) struct Reader {
    clock: Clock,
    directory: DirectoryView,
    cooldowns: CooldownView,
}

impl Reader {
    pub(crate) fn now(&self) -> i64 {
        i64::from(self.clock.now().wall.0)
    }

    pub(crate) fn ask(&mut self, asking: &Asking) -> Seen {
        let server = match &asking.token {
            Some(token) => ServerKey::Token(token.as_bytes()),
            None => ServerKey::Id(Ok(ServerId(asking.server))),
        };
        let question = Question { server, address: Some(voter_address(asking.address)) };
        let now = self.clock.now().wall;
        match answer::decide(question, self.directory.current(), &self.cooldowns, now) {
            answer::Answer::CanVote => Seen::CanVote,
            answer::Answer::InCooldown { expires_at } => Seen::InCooldown { next_vote_at: i64::from(expires_at.0) },
            answer::Answer::UnknownServer | answer::Answer::UnknownToken => Seen::UnknownServer,
            other => panic!("{asking:?}: {other:?}"),
        }
    }
}

/// What readers have seen while the recorder was at work.
#[derive(Default)]
pub(crate) struct Looks {
    /// What they ask.
    pub(crate) asking: Vec<Asking>,
    /// What each of these was answered, once for each answer.
    pub(crate) seen: Vec<(usize, Seen)>,
    /// The same, at the moments at which a caller was told that a change is done.
    pub(crate) seen_when_told: Vec<(usize, Seen)>,
}

/// A process: from its start to its stop or kill.
pub(crate) struct Process {
    _eyes: Eyes,
    recorder: Recorder,
    _handle: RecorderHandle,
    pub(crate) readiness: Readiness,
    clock: Clock,
    pub(crate) options: Settings,
    pub(crate) accepts: Accepts,
    pub(crate) reader: Reader,
    pub(crate) looks: Arc<Mutex<Looks>>,
    /// Looks as a caller is told.
    told: Arc<dyn Fn() + Send + Sync>,
    /// Rings inside the recorder's work, as soon as a change is visible.
    bell: Bell,
    room: WaitingList,
    places: Vec<WaitingSlot>,
    /// When the recorder wants to be called again (its monotonic clock).
    call_at_ms: u64,
    pub(crate) was_ready: bool,
}

/// Most requests that wait for a vote at one time.
const PLACES: usize = 64;

impl Process {
    /// A new process. Nothing is opened before its first step.
    pub(crate) fn new(disk: &Arc<SimulatedDisk>, clocks: &Arc<Clocks>, options: Settings, accepts: Accepts) -> Process {
        let clock = Clock::of(clocks.clone());
        let readiness = Readiness::default();
        let minutes = u32::try_from(options.cooldown_s / 60).expect("minutes");
        let cooldown = Cooldown::from_minutes(minutes).expect("a cooldown");
        let open = opens(disk);
        let ipv6_prefix = Ipv6Prefix::from_bits(options.prefix).expect("a prefix");
        let settings = vote_status::vote::settings::Settings { cooldown, ipv6_prefix };
        let takes = vote_status::recorder::Accepts { clock: accepts.clock, settings: accepts.settings };
        let (recorder, handle) = Recorder::new(clock.clone(), settings, takes, readiness.clone(), open);
        let reader = |recorder: &Recorder| Reader {
            clock: clock.clone(),
            directory: recorder.live().directory.view(),
            cooldowns: recorder.live().table.view(),
        };
        let looks = Arc::new(Mutex::new(Looks::default()));
        let (its_reader, its_looks) = (Mutex::new(reader(&recorder)), Arc::clone(&looks));
        let look = Arc::new(move |is_told: bool| {
            let mut reader = its_reader.lock().expect("no look panics");
            let mut looks = its_looks.lock().expect("no look panics");
            let Looks { asking, seen, seen_when_told } = &mut *looks;
            let seen = if is_told { seen_when_told } else { seen };
            for (index, asking) in asking.iter().enumerate() {
                let now_seen = (index, reader.ask(asking));
                if !seen.contains(&now_seen) {
                    seen.push(now_seen);
                }
            }
        });
        let (behind_operations, its_readiness) = (Arc::clone(&look), readiness.clone());
        disk.set_look(Some(Box::new(move || {
            if its_readiness.is_ready() {
                behind_operations(false);
            }
        })));
        let room = recorder.live().waiting.clone();
        room.set_slots(PLACES);
        Process {
            reader: reader(&recorder),
            recorder,
            _handle: handle,
            readiness,
            clock,
            options,
            accepts,
            looks,
            told: {
                let look = Arc::clone(&look);
                Arc::new(move || look(true))
            },
            bell: Arc::new(move |_tickets| look(false)),
            room,
            places: Vec::new(),
            call_at_ms: 0,
            was_ready: false,
            _eyes: Eyes(Arc::clone(disk)),
        }
    }

    /// One step of the recorder with what is asked, and the answers.
    pub(crate) fn step(&mut self, requests: &[Request]) -> Result<Vec<Vec<Answer>>, StoreError> {
        let (sender, replies) = channel();
        let asked = requests.iter().enumerate().map(|(index, request)| {
            let (sender, told) = (sender.clone(), Arc::clone(&self.told));
            let respond: Box<dyn FnOnce(Reply) + Send> = Box::new(move |reply| {
                told();
                sender.send((index, reply)).expect("it is waited for");
            });
            (command(request), respond)
        });
        self.call_at_ms = self.recorder.step(asked.collect())?;
        let mut answers = vec![Vec::new(); requests.len()];
        for (index, reply) in replies.try_iter() {
            answers[index] = answers_of(&requests[index], reply);
        }
        Ok(answers)
    }

    /// How long the recorder wants to be left alone, in milliseconds.
    pub(crate) fn rest_ms(&self) -> i64 {
        let rest_ms = self.call_at_ms.saturating_sub(self.clock.now().monotonic_ms);
        i64::try_from(rest_ms.min(600_000)).expect("a short time")
    }

    /// Somebody waits for a vote of each of these.
    pub(crate) fn wait_for(&mut self, asking: &[Asking]) {
        self.places.clear();
        for asking in asking.iter().take(PLACES) {
            if let Some(mut place) = self.room.enter() {
                let pair = Pair { server: ServerId(asking.server), address: voter_address(asking.address) };
                let pair = Pair { address: self.reader.cooldowns.voter(pair.address), ..pair };
                place.register(pair, &self.bell, 0);
                self.places.push(place);
            }
        }
    }

    /// A stop in order.
    pub(crate) fn close(self) {
        self.recorder.close();
    }

    /// The trouble that keeps it from being ready, or from taking votes.
    pub(crate) fn trouble(&self) -> Option<(Trouble, String)> {
        self.readiness.gravest()
    }
}

/// Readers look while their process lives.
struct Eyes(Arc<SimulatedDisk>);

impl Drop for Eyes {
    fn drop(&mut self) {
        self.0.set_look(None);
    }
}

/// Opens the store as `serve` does.
fn opens(disk: &Arc<SimulatedDisk>) -> OpenStore {
    let disk = Arc::clone(disk);
    Box::new(move || {
        let store = EmbeddedStore::open(Arc::new(Folder(Arc::clone(&disk))), Wanted::Any, Arc::default())?;
        Ok(Box::new(store) as Box<dyn Store>)
    })
}

thread_local! {
    /// Parsing anew for each question would be a tenth of a simulation.
    static PARSED: RefCell<BTreeMap<IpAddr, VoterAddress>> = const { RefCell::new(BTreeMap::new()) };
}

fn voter_address(address: IpAddr) -> VoterAddress {
    let parse = || VoterAddress::parse_user(address.to_string().as_bytes()).expect("an address");
    PARSED.with_borrow_mut(|parsed| *parsed.entry(address).or_insert_with(parse))
}

fn seconds(at: i64) -> UnixSeconds {
    UnixSeconds(u32::try_from(at).expect("seconds since 1970"))
}

fn command(request: &Request) -> Command {
    match request {
        Request::Votes(asked) => Command::Votes(asked.iter().map(vote).collect(), mode(&asked[0])),
        Request::Cancel(server, address) => Command::Cancel(ServerId(*server), voter_address(*address)),
        Request::List(server, token) => {
            let server = NewServer { server: ServerId(*server), token: Token::new(token) };
            Command::Servers(vec![server], Tokens::Replace)
        }
        Request::Remove(server) => Command::Remove(ServerId(*server)),
    }
}

fn mode(asked: &Asked) -> Mode {
    if asked.is_record { Mode::Record } else { Mode::Cast }
}

fn vote(asked: &Asked) -> Vote {
    let addresses: Vec<_> = asked.addresses.iter().map(|address| voter_address(*address)).collect();
    Vote {
        server: ServerName::Id(ServerId(asked.server)),
        voter: Voter::new(&addresses).expect("one to eight addresses"),
        voted_at: asked.voted_at.map(seconds),
    }
}

fn answers_of(request: &Request, reply: Reply) -> Vec<Answer> {
    let one = |answer| vec![answer];
    match (request, reply) {
        (Request::Votes(asked), Reply::StoreUnavailable) => vec![Answer::Refused; asked.len()],
        (Request::Votes(asked), Reply::StoreSilent) => vec![Answer::InDoubt; asked.len()],
        (_, Reply::StoreUnavailable) => one(Answer::Refused),
        (_, Reply::StoreSilent) => one(Answer::InDoubt),
        (Request::Votes(_), Reply::Votes(outcomes)) => outcomes.into_iter().map(voted).collect(),
        (Request::Cancel(..), Reply::Cancelled(cancelled)) => one(match cancelled {
            Some(true) => Answer::Cancelled,
            Some(false) => Answer::NoCooldown,
            None => Answer::UnknownServer,
        }),
        (Request::List(..), Reply::Servers(outcomes)) => outcomes.into_iter().map(listed).collect(),
        (Request::Remove(_), Reply::Removed(Some(_))) => one(Answer::Removed),
        (Request::Remove(_), Reply::Removed(None)) => one(Answer::UnknownServer),
        (request, reply) => panic!("{request:?}: {reply:?}"),
    }
}

fn voted(outcome: VoteOutcome) -> Answer {
    match outcome {
        VoteOutcome::Recorded(recorded) => Answer::Recorded {
            voted_at: i64::from(recorded.voted_at.0),
            next_vote_at: i64::from(recorded.expires_at.0),
        },
        VoteOutcome::Unchanged(_) => Answer::Unchanged,
        VoteOutcome::InCooldown(_, next_vote_at) => Answer::InCooldown { next_vote_at: i64::from(next_vote_at.0) },
        VoteOutcome::Expired | VoteOutcome::InFuture => Answer::Invalid,
        VoteOutcome::UnknownServer => Answer::UnknownServer,
        VoteOutcome::TooManyChanges => Answer::TooManyChanges,
    }
}

fn listed(outcome: ServerOutcome) -> Answer {
    match outcome {
        ServerOutcome::Created(_, token) | ServerOutcome::Changed(_, token) | ServerOutcome::Unchanged(_, token) => {
            Answer::Listed { token: token.as_str().to_owned() }
        }
        other => panic!("a server was not listed: {other:?}"),
    }
}
