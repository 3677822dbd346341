//! Tells watchers of the public service's questions and answers, and takes samples of the questions. One observer
//! follows the requests of one worker.
//!
//! A worker never waits for a watcher. While no client watches and no sample is taken, the worker checks that once a
//! turn and does nothing else.

use std::collections::HashMap;

use super::{PublicReply, StatusReader};
use crate::http::head::Head;
use crate::http::route;
use crate::http::session::{Context, Ticket};
use crate::metrics::answers::Variant;
use crate::vote::answer::{Question, ServerKey};
use crate::vote::id::ServerId;
use crate::vote::table::Pair;
use crate::watch::{Seen, WatchPost, WatchedQuestion, token_beginning};

/// Known paths that are no questions.
const OTHER_PATHS: [&str; 5] = ["*", "/", "/openapi.json", "/healthz", "/readyz"];

/// Tells watchers of public requests, never with a server's token or a key.
pub(super) struct QuestionObserver {
    watch: WatchPost,
    /// Watched questions that are not answered yet, by their connection. They are not in the exchanges: these
    /// would then carry more for every request.
    begun: HashMap<Ticket, WatchedQuestion>,
}

impl QuestionObserver {
    /// An observer that tells `watch`.
    pub(super) fn new(watch: WatchPost) -> Self {
        Self { watch, begun: HashMap::new() }
    }

    /// A turn of the loop begins. Whether the observer wants to know of its requests.
    pub(super) fn turn_begins(&mut self) -> bool {
        // The observer follows each question that has begun until it is answered or its client has gone.
        self.watch.look_for_questions() || !self.begun.is_empty()
    }

    /// The service has taken a request's head.
    #[cold]
    pub(super) fn begun(&mut self, head: &Head<'_>, ticket: Ticket, reader: &mut StatusReader) {
        // A question that was never answered makes room.
        self.begun.remove(&ticket);
        if !self.watch.look_for_questions() {
            return;
        }
        let Some(asked) = question(head, reader) else { return };
        // Sampled at once: the answer to a question that waits may be a minute away.
        if self.watch.is_sampling()
            && let WatchedQuestion { server: Some(server), address: Some(address), .. } = asked
            && reader.directory.current().contains(server)
        {
            self.watch.sample(Pair { server, address });
        }
        if self.watch.is_watched() {
            self.begun.insert(ticket, asked);
        }
    }

    /// A request is answered. Called just before the answer leaves.
    #[cold]
    pub(super) fn done(&mut self, reply: PublicReply, context: &Context<'_>) {
        if let (Some(asked), Some(answer)) = (self.begun.remove(&context.ticket), reply.word()) {
            let seen = Seen::Question { asked, answer, status: reply.status(), peer: context.client.peer() };
            self.watch.note(context.now, seen);
        }
    }

    /// A connection has gone, whatever its client had asked for.
    pub(super) fn gone(&mut self, ticket: Ticket) {
        self.begun.remove(&ticket);
    }
}

/// The question of a request; `None` if there is nothing to watch.
fn question(head: &Head<'_>, reader: &mut StatusReader) -> Option<WatchedQuestion> {
    let decoded = route::decode(head.path);
    let Some(Question { server, address }) = route::question(&decoded) else {
        // An unknown path may be a question with a wrong path.
        return (!OTHER_PATHS.iter().any(|path| path.as_bytes() == head.path)).then(WatchedQuestion::default);
    };
    let servers = reader.directory.current();
    let address = address.map(|address| reader.cooldowns.voter(address));
    let mut asked = WatchedQuestion { address, ..WatchedQuestion::default() };
    match server {
        ServerKey::Token(token) => {
            asked.variant = Some(Variant::Token.label());
            asked.server = servers.find(token);
            if asked.server.is_none() {
                asked.token_begins = token_beginning(token, servers);
            }
        }
        ServerKey::Id(server) => {
            asked.variant = Some(Variant::Id.label());
            // Watchers do not see a number that is a token in the wrong place.
            let is_secret = |server: &ServerId| servers.find(server.to_string().as_bytes()).is_some();
            asked.server = server.ok().filter(|server| servers.contains(*server) || !is_secret(server));
        }
    }
    Some(asked)
}

#[cfg(test)]
mod tests {
    use super::{QuestionObserver, StatusReader};
    use crate::http::field::Section;
    use crate::http::head::{Head, HeadLimits, parse};
    use crate::http::session::Ticket;
    use crate::readiness::Readiness;
    use crate::vote::directory::Directory;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::table::CooldownTable;
    use crate::watch::{WatchBoard, WatchFilter};

    fn head(request: &[u8]) -> Head<'_> {
        match parse(request, HeadLimits { head_bytes_max: 1_024, header_lines_max: 10 }) {
            Section::Complete(head, _) => head,
            _ => panic!("it is whole"),
        }
    }

    #[test]
    fn what_would_be_told_of_a_request_goes_with_its_connection() {
        let board = WatchBoard::default();
        let _watcher = board.sit(WatchFilter::default(), 0, 0).expect("a place");
        let (directory, table) = (Directory::default(), CooldownTable::default());
        let mut reader = StatusReader::new(directory.view(), table.view(), Readiness::default());
        let mut observer = QuestionObserver::new(board.post());
        let head = head(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
        for number in 0..3 {
            assert!(observer.turn_begins());
            observer.begun(&head, Ticket(number), &mut reader);
        }
        assert_eq!(observer.begun.len(), 3);
        for number in 0..3 {
            observer.gone(Ticket(number));
        }
        assert_eq!(observer.begun.len(), 0);
    }

    /// A sample leaves nothing behind that would cost time with each request.
    #[test]
    fn a_sample_is_taken_of_questions_about_listed_servers_and_ends() {
        let board = WatchBoard::default();
        let (mut directory, table) = (Directory::default(), CooldownTable::default());
        let mut servers = directory.snapshot().as_ref().clone();
        (1..100).for_each(|id| assert!(servers.insert(ServerId(id), Token::new(&format!("t{id}")).expect("a token"))));
        directory.publish(servers);
        let mut reader = StatusReader::new(directory.view(), table.view(), Readiness::default());
        let mut observer = QuestionObserver::new(board.post());
        assert!(!observer.turn_begins(), "nobody wants anything");
        board.sample_questions(0);
        let mut taken = 0;
        for id in 1..200 {
            let path = if id % 2 == 0 { format!("vote/{id}/status") } else { format!("servers/t{id}/vote-status") };
            let request = format!("GET /api/{path}/203.0.113.7?wait=50 HTTP/1.1\r\nHost: a\r\n\r\n");
            let head = head(request.as_bytes());
            if observer.turn_begins() {
                observer.begun(&head, Ticket(id), &mut reader);
                taken += 1;
            }
            assert_eq!(observer.begun.len(), 0);
        }
        assert_eq!((taken, board.one_address_servers()), (16, 16));
        // Questions about unlisted servers are no samples.
        board.sample_questions(1_000);
        let head = head(b"GET /api/vote/100/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n");
        observer.begun(&head, Ticket(0), &mut reader);
        assert_eq!(board.one_address_servers(), 16);
        assert!(observer.turn_begins(), "it goes on");
    }
}
