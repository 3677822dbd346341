//! The service in one thread: the real recorder over the simulated disk and clocks, and readers that look at its state.
//! Translates the model's requests into commands, and replies into the model's answers.

use super::clocks::Clocks;
use super::model::time::Reading;
use super::model::world::{Seen, Token as ModelToken};
use super::model::{Accepts, Answer, Asked, Asking, Named, Request, Settings, Sight};
use super::seam::{At, Folder, SimulatedDisk};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use vote_status::clock::Clock;
use vote_status::readiness::{Readiness, Trouble};
use vote_status::recorder::command::{
    Command, Mode, NewServer, Reply, ServerName, ServerOutcome, Tokens, Vote, VoteOutcome,
};
use vote_status::recorder::{OpenStore, Recorder, RecorderHandle, Tuning};
use vote_status::store::embedded::{EmbeddedStore, Wanted};
use vote_status::store::memory::MemoryStore;
use vote_status::store::{Store, StoreError};
use vote_status::vote::address::{Voter, VoterAddress};
use vote_status::vote::answer::{self, Question, ServerKey};
use vote_status::vote::directory::DirectoryView;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv6::Ipv6Prefix;
use vote_status::vote::table::{CooldownView, Pair};
use vote_status::vote::time::{Cooldown, UnixSeconds};
use vote_status::waiting::{Bell, WaitingList, WaitingSlot};

/// Looks at the state as the public service does.
pub(crate) struct Reader {
    clock: Clock,
    directory: DirectoryView,
    cooldowns: CooldownView,
}

impl Reader {
    pub(crate) fn shown_ms(&self) -> i64 {
        i64::try_from(self.clock.shown_ms()).expect("a time of these days")
    }

    pub(crate) fn now_s(&self) -> i64 {
        i64::from(self.clock.now().wall.0)
    }

    pub(crate) fn ask(&mut self, asking: &Asking) -> Sight {
        let server = match &asking.token {
            Some(token) => ServerKey::Token(token.as_bytes()),
            None => ServerKey::Id(Ok(ServerId(asking.server))),
        };
        let question = Question { server, address: Some(voter_address(asking.address)) };
        let now = self.clock.now().wall;
        let seen = match answer::decide(question, self.directory.current(), &self.cooldowns, now) {
            answer::Answer::CanVote => Seen::CanVote,
            answer::Answer::InCooldown { expires_at } => Seen::InCooldown { next_vote_at: i64::from(expires_at.0) },
            answer::Answer::UnknownServer | answer::Answer::UnknownToken => Seen::UnknownServer,
            other => panic!("{asking:?}: {other:?}"),
        };
        Sight { now_s: i64::from(now.0), seen }
    }

    /// The number of cooldowns in the table, ended ones included.
    pub(crate) fn held(&self) -> usize {
        self.cooldowns.len()
    }
}

/// The looks of readers while the recorder was at work.
#[derive(Default)]
pub(crate) struct Looks {
    /// The readers' questions.
    pub(crate) asking: Vec<Asking>,
    /// The different answers to each question, with whether a sync had succeeded in this step by then.
    pub(crate) seen: Vec<(usize, Sight, bool)>,
    /// The answers at the moments at which a caller was told that its request is done: moment, question, answer.
    pub(crate) seen_when_told: Vec<(usize, usize, Sight)>,
    told: usize,
    /// Questions whose waiting client was woken, with the answers at that moment.
    pub(crate) rung: Vec<(usize, Sight)>,
    /// The clocks and the time shown, whenever the clocks had moved on.
    pub(crate) times: Vec<(Reading, i64)>,
    /// The service reported a trouble other than a slow store, which may be over by the end of the step.
    pub(crate) is_trouble_told: bool,
    /// A caller was told after a sync at which the store was not at its path.
    pub(crate) is_told_away: bool,
    /// Commits that took long: their milliseconds so far, and the trouble that the service reported then.
    pub(crate) stalls: Vec<(i64, Option<Trouble>)>,
    synced_before: u64,
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
    disk: Arc<SimulatedDisk>,
    looks: Arc<Mutex<Looks>>,
    /// Lets readers look at the moment at which a caller is told.
    told: Arc<dyn Fn() + Send + Sync>,
    /// The number of requests so far, and by their numbers those without an answer.
    asked: u64,
    pending: BTreeMap<u64, Request>,
    sender: Sender<(u64, Reply)>,
    replies: Receiver<(u64, Reply)>,
    watch: Arc<Mutex<Watch>>,
    room: WaitingList,
    /// When the recorder wants to be called again (its monotonic clock).
    call_at_ms: u64,
    pub(crate) was_ready: bool,
}

/// The most requests that wait for a vote at one time.
const PLACES: usize = 64;

/// Readers beside the recorder.
struct Watch {
    reader: Reader,
    looks: Arc<Mutex<Looks>>,
    clocks: Arc<Clocks>,
    readiness: Readiness,
    /// Requests that wait for a vote, by the index of their question.
    places: BTreeMap<usize, (WaitingSlot, Pair)>,
}

/// The bell that the recorder rings as soon as a change is visible.
fn bell(watch: &Arc<Mutex<Watch>>) -> Bell {
    let watch = Arc::downgrade(watch);
    Arc::new(move |tickets| {
        if let Some(watch) = watch.upgrade() {
            let rings = bell(&watch);
            watch.lock().expect("no look panics").is_rung(&tickets, &rings);
        }
    })
}

impl Watch {
    fn look(&mut self, at: At, syncs: u64) {
        if !self.readiness.is_loaded() {
            return;
        }
        let mut looks = self.looks.lock().expect("no look panics");
        if let At::Stalled(ms) = at {
            // In the service another thread looks at the readiness.
            self.readiness.look(self.reader.clock.now().monotonic_ms);
            looks.stalls.push((ms, self.readiness.gravest().map(|(trouble, _)| trouble)));
        }
        looks.is_trouble_told |= self.readiness.gravest().is_some_and(|(trouble, _)| trouble != Trouble::StoreSlow);
        let now = (self.clocks.reading(), self.reader.shown_ms());
        if looks.times.last() != Some(&now) {
            looks.times.push(now);
        }
        let is_synced = syncs > looks.synced_before;
        let Looks { asking, seen, .. } = &mut *looks;
        for (index, asking) in asking.iter().enumerate() {
            let sight = self.reader.ask(asking);
            if !seen.iter().any(|(other, known, _)| (*other, *known) == (index, sight)) {
                seen.push((index, sight, is_synced));
            }
        }
    }

    fn is_told(&mut self, is_away: bool) {
        let mut looks = self.looks.lock().expect("no look panics");
        looks.is_told_away |= is_away;
        let Looks { asking, seen_when_told, told, .. } = &mut *looks;
        for (index, asking) in asking.iter().enumerate() {
            seen_when_told.push((*told, index, self.reader.ask(asking)));
        }
        *told += 1;
    }

    /// A client that is woken looks again, and waits on where there is no vote.
    fn is_rung(&mut self, tickets: &[u64], rings: &Bell) {
        let mut looks = self.looks.lock().expect("no look panics");
        for index in tickets.iter().map(|ticket| usize::try_from(*ticket).expect("few")) {
            let sight = self.reader.ask(&looks.asking[index]);
            looks.rung.push((index, sight));
            if let Some((place, pair)) = self.places.get_mut(&index)
                && sight.seen == Seen::CanVote
            {
                place.register(*pair, rings, index as u64);
            }
        }
    }
}

impl Process {
    /// A new process. Nothing is opened before its first step.
    pub(crate) fn new(
        disk: &Arc<SimulatedDisk>,
        clocks: &Arc<Clocks>,
        options: Settings,
        accepts: Accepts,
        tuning: Tuning,
        is_in_memory: bool,
    ) -> Process {
        let clock = Clock::of(clocks.clone());
        let readiness = Readiness::default();
        let minutes = u32::try_from(options.cooldown_s / 60).expect("minutes");
        let cooldown = Cooldown::from_minutes(minutes).expect("a cooldown");
        let ipv6_prefix = Ipv6Prefix::from_bits(options.prefix).expect("a prefix");
        let settings = vote_status::vote::settings::Settings { cooldown, ipv6_prefix };
        let takes = vote_status::recorder::Accepts { clock: accepts.clock, settings: accepts.settings };
        let in_memory = || -> OpenStore { Box::new(|| Ok(Box::new(MemoryStore) as Box<dyn Store>)) };
        let open = if is_in_memory { in_memory() } else { opens(disk) };
        let (recorder, handle) = Recorder::new(clock.clone(), settings, takes, readiness.clone(), tuning, open);
        let reader = |recorder: &Recorder| Reader {
            clock: clock.clone(),
            directory: recorder.live().directory.view(),
            cooldowns: recorder.live().table.view(),
        };
        let looks = Arc::new(Mutex::new(Looks::default()));
        let watch = Watch {
            reader: reader(&recorder),
            looks: Arc::clone(&looks),
            clocks: Arc::clone(clocks),
            readiness: readiness.clone(),
            places: BTreeMap::new(),
        };
        let watch = Arc::new(Mutex::new(watch));
        let (beside, its_disk) = (Arc::clone(&watch), Arc::clone(disk));
        let (told, disk_when_told) = (Arc::clone(&watch), Arc::clone(disk));
        disk.set_look(Some(Box::new(move |at| {
            if at != At::Operation {
                let syncs = its_disk.locked().syncs;
                beside.lock().expect("no look panics").look(at, syncs);
            }
        })));
        let (sender, replies) = channel();
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
            disk: Arc::clone(disk),
            looks,
            told: Arc::new(move || {
                let is_away = disk_when_told.locked().is_synced_away;
                told.lock().expect("no look panics").is_told(is_away);
            }),
            asked: 0,
            pending: BTreeMap::new(),
            sender,
            replies,
            watch,
            room,
            call_at_ms: 0,
            was_ready: false,
            _eyes: Eyes(Arc::clone(disk)),
        }
    }

    /// Readers ask these questions from now on, and some of them wait for a vote.
    pub(crate) fn asks(&mut self, asking: Vec<Asking>, is_waiting: bool) {
        let rings = bell(&self.watch);
        let mut watch = self.watch.lock().expect("no look panics");
        watch.places.clear();
        let waiting = if is_waiting { &asking[..] } else { &[] };
        for (index, asking) in waiting.iter().enumerate().take(PLACES).filter(|(_, asking)| asking.token.is_none()) {
            if let Some(mut place) = self.room.enter() {
                let pair = Pair { server: ServerId(asking.server), address: voter_address(asking.address) };
                let pair = Pair { address: self.reader.cooldowns.voter(pair.address), ..pair };
                place.register(pair, &rings, index as u64);
                watch.places.insert(index, (place, pair));
            }
        }
        drop(watch);
        let synced_before = self.disk.locked().syncs;
        *self.looks.lock().expect("no look panics") = Looks { asking, synced_before, ..Looks::default() };
    }

    /// The readers' looks since `asks`.
    pub(crate) fn take_looks(&mut self) -> Looks {
        std::mem::take(&mut *self.looks.lock().expect("no look panics"))
    }

    /// One step of the recorder with these requests. Gives the requests that it has answered, in the order of the answers. A
    /// later step answers the rest.
    pub(crate) fn step(&mut self, requests: &[Request]) -> Result<Vec<(Request, Vec<Answer>)>, StoreError> {
        let asked = requests.iter().map(|request| {
            self.asked += 1;
            let (number, sender, told) = (self.asked, self.sender.clone(), Arc::clone(&self.told));
            self.pending.insert(number, request.clone());
            let respond: Box<dyn FnOnce(Reply) + Send> = Box::new(move |reply| {
                told();
                sender.send((number, reply)).expect("it is waited for");
            });
            (command(request), respond)
        });
        let asked = asked.collect();
        self.call_at_ms = self.recorder.step(asked)?;
        let answered = self.replies.try_iter().map(|(number, reply)| {
            let request = self.pending.remove(&number).expect("it is answered once");
            let answers = answers_of(&request, reply);
            (request, answers)
        });
        Ok(answered.collect())
    }

    /// Requests without an answer so far.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Request> {
        self.pending.values()
    }

    /// How long the recorder wants to be left alone, in milliseconds.
    pub(crate) fn rest_ms(&self) -> i64 {
        let rest_ms = self.call_at_ms.saturating_sub(self.clock.now().monotonic_ms);
        i64::try_from(rest_ms.min(600_000)).expect("a short time")
    }

    /// A stop in order.
    pub(crate) fn close(self) {
        self.recorder.close();
    }

    /// The trouble that keeps the service from being ready, or from taking votes.
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
pub(crate) fn opens(disk: &Arc<SimulatedDisk>) -> OpenStore {
    let disk = Arc::clone(disk);
    Box::new(move || {
        let (folder, writer) = (Arc::new(Folder(Arc::clone(&disk))), disk.locked().fresh());
        let store = EmbeddedStore::open(folder, Wanted::Any, Arc::default(), writer)?;
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
        Request::Votes { asked, is_record } => {
            let mode = if *is_record { Mode::Record } else { Mode::Cast };
            Command::Votes(asked.iter().map(vote).collect(), mode)
        }
        Request::Cancel(server, address) => Command::Cancel(ServerId(*server), voter_address(*address)),
        Request::CancelAll(address) => Command::CancelAll(voter_address(*address)),
        Request::List { servers, keeps } => {
            let new = |listed: &super::model::Listed| NewServer {
                server: ServerId(listed.server),
                token: listed.token.as_deref().map(|token| Token::new(token).expect("a token")),
            };
            let tokens = if *keeps { Tokens::Keep } else { Tokens::Replace };
            Command::Servers(servers.iter().map(new).collect(), tokens)
        }
        Request::Rotate(server) => Command::Rotate(ServerId(*server)),
        Request::Remove(server) => Command::Remove(ServerId(*server)),
    }
}

fn vote(asked: &Asked) -> Vote {
    let addresses: Vec<_> = asked.addresses.iter().map(|address| voter_address(*address)).collect();
    let server = match &asked.server {
        Named::Id(id) => ServerName::Id(ServerId(*id)),
        Named::Token(token) => ServerName::Token(Token::new(token).expect("a token")),
    };
    let voter = Voter::new(&addresses).expect("one to eight addresses");
    Vote { server, voter, voted_at: asked.voted_at.map(seconds) }
}

fn answers_of(request: &Request, reply: Reply) -> Vec<Answer> {
    match (request, reply) {
        (request, Reply::StoreUnavailable) => vec![Answer::Refused; request.parts()],
        (request, Reply::StoreSilent) => vec![Answer::InDoubt; request.parts()],
        (Request::Votes { .. }, Reply::Votes(outcomes)) => outcomes.into_iter().map(voted).collect(),
        (Request::Cancel(..), Reply::Cancelled(cancelled)) => vec![match cancelled {
            Some(true) => Answer::Cancelled,
            Some(false) => Answer::NoCooldown,
            None => Answer::UnknownServer,
        }],
        (Request::List { .. } | Request::Rotate(_), Reply::Servers(outcomes)) => {
            outcomes.into_iter().map(listed).collect()
        }
        (Request::Remove(_), Reply::Removed(Some(_))) => vec![Answer::Removed],
        (Request::Remove(_), Reply::Removed(None)) => vec![Answer::UnknownServer],
        (Request::CancelAll(_), Reply::CancelledAll(count)) => {
            vec![Answer::CancelledAll(u32::try_from(count).expect("few"))]
        }
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
        VoteOutcome::Expired => Answer::Expired,
        VoteOutcome::InFuture => Answer::InFuture,
        VoteOutcome::UnknownServer => Answer::UnknownServer,
        VoteOutcome::TooManyChanges => Answer::TooManyChanges,
        VoteOutcome::Cancelled => unreachable!("only a store that nodes share remembers what was taken away"),
    }
}

fn listed(outcome: ServerOutcome) -> Answer {
    let with =
        |token: Token, is_new| Answer::Listed { token: Some(ModelToken::Known(Arc::from(token.as_str()))), is_new };
    match outcome {
        ServerOutcome::Created(_, token) | ServerOutcome::Changed(_, token) => with(token, true),
        ServerOutcome::Unchanged(_, token) => with(token, false),
        ServerOutcome::TokenDiffers => Answer::TokenDiffers,
        ServerOutcome::TokenInUse => Answer::TokenInUse,
        ServerOutcome::Unknown => Answer::UnknownServer,
        ServerOutcome::NotGenerated => panic!("the system gives no random numbers"),
    }
}
