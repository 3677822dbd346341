//! The private service: a request becomes a command, the recorder's reply becomes an answer.
//!
//! The service reads the same views as the public one. Every change goes through the recorder, and
//! the connection is parked until the recorder has answered.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};

use serde_json::json;

use crate::clock::Clock;
use crate::http::fault::Fault;
use crate::http::head::{Head, Method};
use crate::http::response::Framing;
use crate::http::route;
use crate::http::session::{Begun, Content, Context, Intake, Service, Step, Waiting};
use crate::limits::{PAGE_SERVERS_DEFAULT, PAGE_SERVERS_MAX};
use crate::net::counters::ResponseCounters;
use crate::net::mailbox::{Letter, Mailbox};
use crate::pages::{self, Document, DocumentForm};
use crate::readiness::Readiness;
use crate::recorder::RecorderHandle;
use crate::recorder::command::{Command, Reply, ServerOutcome, Tokens};
use crate::recorder::shared::SharedStore;
use crate::vote::directory::DirectoryView;
use crate::vote::id::{ServerId, Token, is_same_secret};
use crate::vote::settings::Settings;
use crate::vote::table::{CooldownView, Pair};
use crate::vote::time::UnixSeconds;
use crate::watch::{Attempt, Seen, WatchPost};

mod attempts;
pub mod batch;
pub mod body;
pub mod export;
pub mod export_header;
pub mod metrics;
mod ready;
pub mod reply;
pub mod request;
mod stream;
pub mod summary;
pub mod watch;

use attempts::AttemptObserver;
use batch::BatchRequest;
use export::Export;
use metrics::Sources;
use reply::{ControlAnswer, ServerBody, ServersBody};
use request::{CommandRequest, KeyedRequest, Query};
use watch::{WatchDesk, WatchStream};

/// The control key, once it is known: it may be in a file that cannot be read yet.
#[derive(Clone, Default)]
pub struct ControlKey(Arc<OnceLock<Vec<u8>>>);

impl ControlKey {
    /// Makes it known; the first key stays.
    pub fn set(&self, key: Vec<u8>) {
        self.0.get_or_init(|| key);
    }

    /// The key; `None` until it is known.
    #[must_use]
    pub fn get(&self) -> Option<&[u8]> {
        self.0.get().map(Vec::as_slice)
    }
}

/// The parts of the control service.
pub struct ControlParts {
    /// The key that a client must show. Until it is known, the service answers that it is not ready.
    pub key: ControlKey,
    /// The recorder, which makes changes.
    pub recorder: RecorderHandle,
    /// The listed servers.
    pub directory: DirectoryView,
    /// The cooldowns.
    pub cooldowns: CooldownView,
    /// The readiness of the service.
    pub readiness: Readiness,
    /// The settings of the store.
    pub settings: Settings,
    /// The name of the store.
    pub store: String,
    /// The largest content of a single request, in bytes.
    pub body_bytes_max: u64,
    /// The sources of the metrics page.
    pub sources: Sources,
    /// The counters of this service's own responses.
    pub responses: Arc<ResponseCounters>,
    /// The store that other nodes share, if there is one.
    pub shared: Option<Arc<dyn SharedStore>>,
    /// The service's time.
    pub clock: Clock,
}

/// Answers the control listener's requests.
pub struct ControlService {
    parts: ControlParts,
    mailbox: Mailbox,
    desk: WatchDesk,
    /// Takes votes that were not recorded, for watchers.
    watch: WatchPost,
    /// The metrics page, once a client has asked for it in this turn of the worker.
    metrics_page: Option<Vec<u8>>,
}

/// One control request until it is answered.
pub struct ControlExchange(Box<Task>);

enum Task {
    /// The answer is known.
    Answer(ControlAnswer),
    /// The operator's page, or the description for tools.
    Page(&'static Document, DocumentForm),
    /// The content is gathered. Once it is whole it becomes a command.
    Gather { ask: CommandRequest, body: Vec<u8> },
    /// The recorder has the command.
    Submitted(Receiver<Reply>),
    /// Lines are streaming in.
    Batch(Box<BatchRequest>),
    /// Lines are streaming out.
    Export(Export),
    /// A client watches questions and votes.
    Watch(WatchStream),
}

impl Task {
    fn page(page: &'static Document, head: &Head<'_>) -> Self {
        Self::Page(page, page.form(head.lines))
    }
}

impl ControlService {
    /// A service that is woken through `mailbox`.
    #[must_use]
    pub fn new(parts: ControlParts, mailbox: Mailbox) -> Self {
        let desk = WatchDesk::new(parts.sources.watch.clone(), mailbox.clone());
        let watch = parts.sources.watch.post();
        Self { parts, mailbox, desk, watch, metrics_page: None }
    }

    /// The refusal of a request behind the key: the key is not known yet, or the client did not show it.
    fn refusal(&self, head: &Head<'_>) -> Option<ControlAnswer> {
        let Some(own) = self.parts.key.get() else { return Some(ControlAnswer::fault(Fault::NotReady)) };
        let shown = head.authorization.and_then(|value| value.split_at_checked(7));
        let is_shown = shown.is_some_and(|(scheme, key)| {
            scheme.eq_ignore_ascii_case(b"Bearer ") && is_same_secret(key.trim_ascii(), own)
        });
        (!is_shown).then(ControlAnswer::unauthorized)
    }

    /// The task of a request that needs no key.
    fn open(&mut self, path: &[u8], head: &Head<'_>) -> Result<Task, ControlAnswer> {
        let task: fn(&mut Self, &Head<'_>) -> Task = match path {
            // Needs no key: the page shows nothing by itself, and its requests need the key.
            b"/" => |_, head| Task::page(&pages::CONTROL, head),
            b"/openapi.json" => |_, head| Task::page(&pages::CONTROL_OPENAPI, head),
            b"/healthz" => |_, _| Task::Answer(ControlAnswer::json(200, &json!({ "alive": true }))),
            b"/readyz" => |service, _| {
                let ControlParts { readiness, shared, clock, .. } = &service.parts;
                Task::Answer(ready::answer(readiness, shared.as_deref(), clock.now().monotonic_ms))
            },
            b"/metrics" => |service, _| Task::Answer(service.metrics()),
            _ => return Err(ControlAnswer::fault(Fault::NotFound)),
        };
        request::by_method(head, "GET, HEAD", [Method::Get]).map(|_get| task(self, head))
    }

    fn keyed(&mut self, ask: KeyedRequest<'_>, head: &Head<'_>, context: &Context<'_>) -> Task {
        if !self.parts.readiness.is_loaded() {
            return Task::Answer(ControlAnswer::fault(Fault::NotReady));
        }
        match (ask, &self.parts.shared) {
            (KeyedRequest::Cluster | KeyedRequest::Command(CommandRequest::Whole(Command::Digest)), None) => {
                Task::Answer(ControlAnswer::fault(Fault::NotFound))
            }
            (KeyedRequest::Cluster, Some(shared)) => Task::Answer(ControlAnswer::json(200, &shared.standing())),
            (KeyedRequest::Command(ask), _) => Task::Gather { ask, body: Vec::new() },
            (KeyedRequest::Batch(lines, options), _) => {
                Task::Batch(BatchRequest::new(lines, options, self.parts.settings).into())
            }
            (KeyedRequest::ShowVote(pair), _) => Task::Answer(self.show_vote(pair, context.now)),
            (KeyedRequest::ListServers(after, limit), _) => Task::Answer(self.list(after, limit)),
            (KeyedRequest::ShowServer(server, counts), _) => Task::Answer(self.show(server, counts, context.now)),
            (KeyedRequest::Export, _) if head.http_1_0 => {
                Task::Answer(ControlAnswer::fault(Fault::VersionNotSupported))
            }
            (KeyedRequest::Export, _) => {
                log::info!("an export was asked for: it holds every server's token");
                let ControlParts { directory, cooldowns, settings, store, .. } = &mut self.parts;
                Task::Export(Export::new(directory.shared(), cooldowns.clone(), *settings, store, context.now))
            }
            (KeyedRequest::Watch(query), _) => self.watch(query, context).map_or_else(Task::Answer, Task::Watch),
        }
    }

    fn watch(&mut self, query: Query<'_>, context: &Context<'_>) -> Result<WatchStream, ControlAnswer> {
        let mut filter = query.watch_filter(self.parts.directory.current())?;
        filter.address = filter.address.map(|address| self.parts.cooldowns.voter(address));
        let stream = self.desk.begin(filter, context.ticket, self.parts.clock.now().monotonic_ms)?;
        // A vote may be reported in this very turn.
        self.watch.look();
        Ok(stream)
    }

    /// The page is made once a turn, however many clients ask: each one made would hold up the others.
    fn metrics(&mut self) -> ControlAnswer {
        let ControlParts { sources, readiness, cooldowns, shared, clock, .. } = &self.parts;
        let now_ms = clock.now().monotonic_ms;
        readiness.look(now_ms);
        let make = || metrics::metrics(sources, readiness, now_ms, cooldowns.counts(), shared.as_deref()).into_bytes();
        let body = self.metrics_page.get_or_insert_with(make).clone();
        ControlAnswer {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body,
            ..ControlAnswer::json(200, &())
        }
    }

    fn list(&mut self, after: Option<ServerId>, limit: Option<usize>) -> ControlAnswer {
        let limit = limit.unwrap_or(PAGE_SERVERS_DEFAULT).clamp(1, PAGE_SERVERS_MAX);
        let mut rest = self.parts.directory.current().iter_after(after);
        let page: Vec<(ServerId, &Token)> = rest.by_ref().take(limit).collect();
        let next = page.last().filter(|_| rest.next().is_some()).map(|(server, _)| server.0);
        let servers = page.into_iter().map(|(server, token)| ServerBody::new(server, token)).collect();
        ControlAnswer::json(200, &ServersBody { servers, next })
    }

    fn show(&mut self, server: ServerId, counts: bool, now: UnixSeconds) -> ControlAnswer {
        let ControlParts { directory, cooldowns, .. } = &mut self.parts;
        match directory.current().token(server) {
            Some(token) => {
                let cooldowns = counts.then(|| cooldowns.count(|held| held == server, now));
                ControlAnswer::json(200, &ServerBody::new(server, token).with_cooldowns(cooldowns))
            }
            None => ControlAnswer::unknown_server(),
        }
    }

    fn show_vote(&mut self, pair: Pair, now: UnixSeconds) -> ControlAnswer {
        if !self.parts.directory.current().contains(pair.server) {
            return ControlAnswer::unknown_server();
        }
        match self.parts.cooldowns.live(pair, now) {
            Some(expires_at) => {
                ControlAnswer::vote(pair, self.parts.settings.cooldown.voted_at(expires_at), expires_at)
            }
            None => ControlAnswer::no_cooldown(),
        }
    }

    /// Counts a streamed answer that is whole.
    fn counted(&self, step: Step) -> Step {
        if step == Step::Done {
            self.parts.responses.response(200);
        }
        step
    }

    /// Turns gathered content into a command under way.
    fn start(&self, ask: &CommandRequest, body: &[u8], context: &Context<'_>) -> Result<Task, ControlAnswer> {
        let command = match ask {
            CommandRequest::Vote(mode) => {
                let vote = body::vote(body).inspect_err(|invalid| {
                    let attempt = Attempt { outcome: invalid.word, ..Attempt::default() };
                    self.watch.note(context.now, Seen::Attempt(attempt));
                })?;
                Command::Votes(vec![vote], *mode)
            }
            CommandRequest::PutServer(server) => Command::Servers(vec![body::server(*server, body)?], Tokens::Replace),
            CommandRequest::Whole(command) => command.clone(),
        };
        let reply = self.submit(command, context).ok_or_else(ControlAnswer::store_unavailable)?;
        Ok(Task::Submitted(reply))
    }

    /// Sends a command, whose reply wakes the connection. `None` if the recorder does not take it.
    fn submit(&self, command: Command, context: &Context<'_>) -> Option<Receiver<Reply>> {
        if self.parts.shared.is_some() && context.client.has_ended() {
            // The node may have stood still meanwhile, and the client may have sent its request to another node.
            return None;
        }
        let (sender, receiver) = channel();
        let (mailbox, ticket) = (self.mailbox.clone(), context.ticket);
        let observer = self.observer(&command);
        let observed = observer.clone();
        let respond = move |reply| {
            if let Some(observed) = observed {
                observed.replied(&reply);
            }
            // Without a receiver, the client has gone: the vote counts all the same.
            let _client_gone = sender.send(reply);
            mailbox.send(Letter::Wake(ticket));
        };
        let taken = self.parts.recorder.submit(command, Box::new(respond));
        if let (Err(_), Some(observer)) = (taken, observer) {
            observer.replied(&Reply::StoreUnavailable);
        }
        taken.ok().map(|()| receiver)
    }

    /// The observer that tells watchers of the command's votes; `None` if no client watches.
    fn observer(&self, command: &Command) -> Option<Arc<AttemptObserver>> {
        if !self.watch.is_watched() {
            return None;
        }
        let votes = AttemptObserver::votes_of(command)?;
        let ControlParts { clock, settings, cooldowns, directory, .. } = &self.parts;
        Some(Arc::new(AttemptObserver {
            votes,
            watch: self.watch.clone(),
            clock: clock.clone(),
            cooldown: settings.cooldown,
            cooldowns: cooldowns.clone(),
            servers: directory.clone().shared(),
        }))
    }
}

/// Logs the recorder's changes: the server, but never its token. Votes are counted, not logged.
fn note(reply: &Reply) {
    match reply {
        Reply::Servers(outcomes) => match outcomes.first() {
            Some(ServerOutcome::Created(server, _)) => log::info!("server {server} is listed"),
            Some(ServerOutcome::Changed(server, _)) => log::info!("server {server} has another token"),
            _ => {}
        },
        Reply::Removed(Some(server)) => log::info!("server {server} is removed, and its cooldowns with it"),
        _ => {}
    }
}

/// The least growth of the room for content, in bytes: content that comes byte by byte is not copied each time.
const GATHER_STEP_BYTES: usize = 16 * 1024;

impl Service for ControlService {
    type Exchange = ControlExchange;

    fn begin(&mut self, head: &Head<'_>, context: &Context<'_>) -> Begun<ControlExchange> {
        let path = route::decode(head.path);
        let (task, is_keyed) = match request::behind_key(&path) {
            None => (self.open(&path, head).unwrap_or_else(Task::Answer), false),
            Some(path) => {
                let refusal = self.refusal(head);
                let is_keyed = refusal.is_none();
                let ask = refusal.map_or_else(|| request::keyed(path, head), Err);
                (ask.map_or_else(Task::Answer, |ask| self.keyed(ask, head, context)), is_keyed)
            }
        };
        let content = match &task {
            Task::Gather { ask: CommandRequest::Whole(Command::Digest), .. } => Content::Unread,
            // Only a whole request may change something, even if its content has no meaning.
            Task::Gather { .. } | Task::Submitted(_) => Content::Read(self.parts.body_bytes_max),
            // A batch is read as it comes, and has no bound.
            Task::Batch(_) => Content::Read(u64::MAX),
            Task::Answer(_) | Task::Page(..) | Task::Export(_) | Task::Watch(_) => Content::Unread,
        };
        Begun { exchange: ControlExchange(Box::new(task)), is_keyed, content }
    }

    fn content(&mut self, exchange: &mut ControlExchange, bytes: &[u8], context: &Context<'_>) -> Intake {
        match &mut *exchange.0 {
            Task::Gather { body, .. } => {
                if body.capacity() - body.len() < bytes.len() {
                    // No doubling: many uploads that grow at once would exceed any bound.
                    body.reserve_exact(bytes.len().max(GATHER_STEP_BYTES));
                }
                body.extend_from_slice(bytes);
                Intake::Open
            }
            Task::Batch(batch) => {
                let ask = |command| self.submit(command, context);
                let intake = batch.content(bytes, &ask);
                if intake == Intake::Parked && context.waiting == Waiting::TimeIsUp {
                    batch.give_up();
                    return Intake::Open;
                }
                intake
            }
            Task::Answer(_) | Task::Page(..) | Task::Submitted(_) | Task::Export(_) | Task::Watch(_) => Intake::Open,
        }
    }

    fn answer(
        &mut self,
        exchange: &mut ControlExchange,
        framing: Framing,
        context: &Context<'_>,
        out: &mut Vec<u8>,
    ) -> Step {
        loop {
            let next = match &mut *exchange.0 {
                Task::Answer(answer) => {
                    self.parts.responses.response(answer.status);
                    answer.append(framing, context.now, out);
                    return Step::Done;
                }
                Task::Page(page, form) => {
                    self.parts.responses.response(form.status());
                    page.append(*form, framing, context.now, out);
                    return Step::Done;
                }
                Task::Gather { ask, body } => self.start(ask, body, context).unwrap_or_else(Task::Answer),
                Task::Submitted(reply) => match reply::arrived(reply) {
                    Some(reply) => {
                        note(&reply);
                        Task::Answer(reply::answer(&reply))
                    }
                    None if context.waiting == Waiting::TimeIsUp => Task::Answer(reply::answer(&Reply::StoreSilent)),
                    None => return Step::Parked { ends_with_input: false },
                },
                Task::Batch(batch) => {
                    let ask = |command| self.submit(command, context);
                    match batch.answer(&ask) {
                        Some(answer) => Task::Answer(answer),
                        None if context.waiting == Waiting::TimeIsUp => {
                            batch.give_up();
                            continue;
                        }
                        None => return Step::Parked { ends_with_input: false },
                    }
                }
                Task::Export(export) => {
                    return self.counted(export.append(framing, context.now, self.parts.clock.certain(), out));
                }
                Task::Watch(stream) => {
                    let step = self.desk.append(stream, framing, self.parts.clock.now(), out);
                    return self.counted(step);
                }
            };
            *exchange.0 = next;
        }
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context<'_>, out: &mut Vec<u8>) {
        self.parts.responses.refused(fault);
        ControlAnswer::fault(fault).append(framing, context.now, out);
    }

    fn used_bytes(&self, exchange: &ControlExchange) -> usize {
        match &*exchange.0 {
            Task::Gather { body, .. } => body.capacity(),
            Task::Batch(batch) => batch.used_bytes(),
            Task::Answer(answer) => answer.body.capacity(),
            // An export uses memory for its next part only while it makes that part.
            Task::Page(..) | Task::Submitted(_) | Task::Export(_) | Task::Watch(_) => 0,
        }
    }

    fn turn_begins(&mut self) {
        self.metrics_page = None;
        self.watch.look();
        if self.desk.rest_ms().is_some() {
            self.desk.turn_begins(self.parts.clock.now().monotonic_ms);
        }
    }

    fn rest_ms(&self) -> Option<u64> {
        self.desk.rest_ms()
    }

    fn goes_away(&mut self) {
        self.desk.close();
    }
}
