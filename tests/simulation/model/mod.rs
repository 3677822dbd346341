//! The contract's promises, as small and as literal as possible. Keeps every way in which the service's time and state may
//! stand, with the answers to each request and the outcome of a start in each. Written from the contract's words, and knows
//! nothing of the code that it judges. Each answer rules out the ways that do not give it.

mod starts;
pub(crate) mod time;
mod voter;
mod words;
pub(crate) mod world;

use std::rc::Rc;
use std::sync::Arc;
use time::{FUZZ_MS, HOLD_MS, Lines, Note, Reading, once};
pub(crate) use words::{Accepts, Answer, Asked, Asking, Listed, Named, Request, Settings, Sight};
use world::{Moment, Token, Way, World};

/// The most that a new vote's instant is ahead of the clock, in seconds.
pub(crate) const AHEAD_MAX_S: i64 = 5;
/// The longest time for which a start answers 429.
const REFUSES_MAX_MS: i64 = 6_000;
/// The start from which the model counts is over within this.
const REFUSES_LESS_MS: i64 = 3_000;
/// The most ways that a simulation follows.
const WAYS_MAX: usize = 96;

/// One way in which the running service may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) lines: Lines,
    pub(crate) world: Rc<World>,
    /// After a start the service knows only the latest spent instant, not its pair. The instant, whether it is sure, and until
    /// when (boot time) votes up to it are refused.
    noted_spent: Option<(i64, bool, i64)>,
}

impl Live {
    pub(crate) fn may_see(&self, asking: &Asking, sight: Sight) -> bool {
        let voter = self.world.voter(asking.address);
        self.world.may_see(asking.server, asking.token.as_deref(), voter, sight.now_s, sight.seen)
    }

    fn moment(&self, now_s: i64) -> Moment {
        let certain_ms = (self.lines.certain_ms() - FUZZ_MS, self.lines.certain_ms() + FUZZ_MS);
        let is_after_start = self.noted_spent.map_or((false, false), |(_, is_sure, until_ms)| {
            let boot_ms = self.lines.boot_ms();
            (boot_ms <= until_ms + FUZZ_MS, is_sure && boot_ms < until_ms - FUZZ_MS - REFUSES_LESS_MS)
        });
        Moment {
            now_s,
            certain_ms,
            ended_by_ms: self.lines.certain_ms(),
            spent_up_to_s: self.noted_spent.map(|(up_to_s, ..)| up_to_s),
            is_after_start,
        }
    }
}

/// One way in which the store may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    /// None where nothing was ever kept. Compared before the world, which takes long.
    note: Option<Note>,
    /// When the state was written (boot time).
    at_ms: i64,
    world: Rc<World>,
}

/// The promises of the contract, as the ways that are left.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// The settings of the last start that was ready.
    pub(crate) settings: Settings,
    /// The ways in which the running service may stand.
    pub(crate) live: Vec<Live>,
    /// The states that a start may find.
    disk: Vec<Stored>,
    /// The latest certain line before the last end of the process.
    had_ended_by_ms: i64,
    /// The states that commits in doubt may have made.
    doubted: Vec<Rc<World>>,
    /// The time shown when the last step began.
    shown_before_ms: i64,
    /// A change was acknowledged in this step.
    has_committed: bool,
    /// There are more ways than the model follows.
    pub(crate) is_lost: bool,
}

type Outcome = Result<(), String>;

impl Model {
    /// An empty store.
    pub(crate) fn new(settings: Settings) -> Model {
        let stored = Stored { world: Rc::new(World::new(settings)), note: None, at_ms: 0 };
        Model {
            settings,
            live: Vec::new(),
            disk: vec![stored],
            had_ended_by_ms: 0,
            doubted: Vec::new(),
            shown_before_ms: 0,
            has_committed: false,
            is_lost: false,
        }
    }

    /// One of the ways, where any will do.
    pub(crate) fn any(&self) -> Option<&Live> {
        self.live.first()
    }

    // Time.

    /// The service looks at its clocks, and has shown `before_ms` until now.
    pub(crate) fn look(&mut self, reading: Reading, before_ms: i64, may_wait: bool) {
        (self.doubted, self.has_committed) = (Vec::new(), false);
        let live = std::mem::take(&mut self.live).into_iter();
        let ways = live.flat_map(|live| {
            let ways = live.lines.look(reading, before_ms, may_wait);
            ways.into_iter().map(move |lines| Live { lines, ..live.clone() }.left_out())
        });
        self.live = once(ways);
        self.is_lost |= self.live.len() > WAYS_MAX;
    }

    /// Requires that the time shown after a step fits one of the ways. Where the time went back, so did the state.
    pub(crate) fn shows(&mut self, shown_ms: i64, took: (Reading, Reading), may_wait: bool) -> Outcome {
        let took_ms = took.1.boot_ms - took.0.boot_ms;
        self.shown_before_ms = self.live.first().map_or(shown_ms, |live| live.lines.shown_ms);
        let mut ways = Vec::new();
        for live in &self.live {
            let all = live.lines.looked_again(shown_ms, took, may_wait);
            for (lines, is_back) in all.iter().flat_map(|lines| lines.shows(shown_ms, took_ms, may_wait)) {
                ways.extend(live.shown_as(lines, is_back, live.lengths_s(), took_ms));
            }
        }
        let ways = once(ways.into_iter().map(Live::left_out));
        if ways.is_empty() {
            let lines: Vec<Lines> = self.live.iter().map(|live| live.lines).collect();
            return Err(format!("the time shown is {shown_ms}, but the lines are {lines:?}"));
        }
        self.live = ways;
        Ok(())
    }

    /// The ways after the change that goes back.
    fn gone_back(&self) -> Vec<Live> {
        let back = self.live.iter().filter(|live| live.lines.goes_back().0);
        let ways = back.flat_map(|live| {
            let shown = live.lines.back_unseen();
            shown.into_iter().flat_map(|lines| live.shown_as(lines, true, live.lengths_s(), 0))
        });
        once(ways)
    }

    /// The process has died: the change that goes back may have been made.
    pub(crate) fn may_have_gone_back(&mut self) {
        let back = self.gone_back();
        self.live.extend(back);
    }

    // Requests.

    /// A part of a request was answered so, in one of these seconds.
    pub(crate) fn answered(&mut self, request: &Request, part: usize, seconds: &[i64], answer: &Answer) -> Outcome {
        if *answer == Answer::Refused {
            return Ok(());
        }
        if *answer == Answer::InDoubt {
            self.doubt(request, part, seconds);
            return Ok(());
        }
        let listed = request.server(part);
        let is_untold = self.live.iter().any(|live| listed.is_some_and(|server| live.world.is_untold(server)));
        let (mut ways, mut expected) = (Vec::new(), Vec::new());
        for live in &self.live {
            for (wanted, mut world) in seconds.iter().flat_map(|now_s| live.ways(request, part, *now_s)) {
                if !answer.fits(&wanted) {
                    expected.push(wanted);
                    continue;
                }
                if let Answer::Listed { token: Some(Token::Known(token)), .. } = answer
                    && let Some(server) = listed
                {
                    world.learn_token(server, token);
                }
                let world = if world == *live.world { Rc::clone(&live.world) } else { Rc::new(world) };
                ways.push(Live { world, ..live.clone() });
            }
        }
        if ways.is_empty() {
            let expected = once(expected);
            return Err(format!("{answer:?} to part {part} of {request:?} at {seconds:?}; allowed is {expected:?}"));
        }
        self.live = once(ways);
        self.is_lost |= self.live.len() > WAYS_MAX;
        if let (Answer::Listed { token: Some(Token::Known(token)), .. }, Some(server), true) =
            (answer, listed, is_untold)
        {
            // The store may have had the token before any caller was told.
            self.disk.iter_mut().for_each(|stored| Rc::make_mut(&mut stored.world).learn_token(server, token));
        }
        self.has_committed |= answer.is_commit();
        Ok(())
    }

    /// A copy of the store may have this token, which a caller has just been told.
    pub(crate) fn may_have_token(&mut self, server: u32, token: &Arc<str>) {
        let mut told: Vec<Stored> = self.disk.iter().filter(|stored| stored.world.is_untold(server)).cloned().collect();
        told.iter_mut().for_each(|stored| Rc::make_mut(&mut stored.world).learn_token(server, token));
        self.disk.extend(told);
    }

    /// The change is in doubt. The state shown is as before.
    fn doubt(&mut self, request: &Request, part: usize, seconds: &[i64]) {
        // The case is given up, as each part would multiply the ways.
        if self.is_lost {
            return;
        }
        let mut heads: Vec<Live> = self.live.clone();
        if !self.doubted.is_empty() {
            let first = self.live[0].clone();
            heads.extend(self.doubted.iter().map(|world| Live { world: Rc::clone(world), ..first.clone() }));
        }
        let ways = heads.iter().flat_map(|live| seconds.iter().flat_map(|now_s| live.ways(request, part, *now_s)));
        let worlds: Vec<Rc<World>> = once(ways.map(|(_, world)| Rc::new(world)));
        for live in &mut self.live {
            worlds.iter().for_each(|doubted| Rc::make_mut(&mut live.world).may_have_spent(doubted));
        }
        self.doubted.extend(worlds);
        self.doubted = once(std::mem::take(&mut self.doubted));
        self.is_lost |= self.doubted.len() > WAYS_MAX;
    }

    /// Requires that the sights fit at least one of the ways.
    pub(crate) fn sees(&mut self, all: &[(Asking, Sight)]) -> Outcome {
        let fits = |live: &Live| all.iter().all(|(asking, sight)| live.may_see(asking, *sight));
        if !self.live.iter().any(fits) {
            let wrong = |live: &Live| {
                let (asking, sight) = all.iter().find(|(asking, sight)| !live.may_see(asking, *sight)).expect("one");
                let server = live.world.servers.get(&asking.server);
                let vote = server.and_then(|server| server.votes.get(&live.world.voter(asking.address)));
                let token = server.map(|server| &server.token);
                format!("{sight:?} to {asking:?}, but there is {vote:?}, {token:?}, with {:?}", live.lines)
            };
            return Err(self.live.iter().take(4).map(wrong).collect::<Vec<_>>().join(", or "));
        }
        self.live.retain(fits);
        for live in &mut self.live {
            for (asking, sight) in all {
                let voter = live.world.voter(asking.address);
                let by = asking.token.as_deref();
                World::see(&mut live.world, asking.server, by, voter, sight.now_s, sight.seen);
            }
        }
        if self.live.len() > 1 {
            self.live = once(std::mem::take(&mut self.live));
        }
        Ok(())
    }

    /// The service need not remember the spent instants.
    pub(crate) fn forget_spent(&mut self) {
        self.live.iter_mut().for_each(|live| Rc::make_mut(&mut live.world).forget_spent());
    }

    // The store.

    /// Notes what a step may have stored. Where nothing was acknowledged, the store may be as before.
    pub(crate) fn wrote(&mut self, took: (Reading, Reading)) {
        if self.has_committed {
            self.disk.clear();
        }
        let mut found = Vec::new();
        for live in &self.live {
            let mut all = vec![live.lines];
            if took.0 != took.1 {
                let took_ms = took.1.boot_ms - took.0.boot_ms;
                // A commit that takes long notes the time shown when it began, which may have stood still since.
                for shown_ms in [live.lines.shown_ms - took_ms, self.shown_before_ms] {
                    let mut begun = live.lines;
                    begun.shown_ms = shown_ms;
                    all.push(begun);
                }
                all.extend(live.lines.look(took.1, live.lines.shown_ms, true));
                all.extend(live.lines.look(took.1, live.lines.shown_ms + took_ms, true));
            }
            for lines in all {
                found.push(Live { lines, ..live.clone() });
            }
        }
        let lines: Vec<Lines> = once(found.iter().map(|live| live.lines));
        let doubted = self.doubted.iter().flat_map(|world| lines.iter().map(|lines| (Rc::clone(world), *lines)));
        let shown = found.iter().map(|live| (Rc::clone(&live.world), live.lines));
        let mut disk = std::mem::take(&mut self.disk);
        for (world, lines) in shown.chain(doubted) {
            let stored = Stored { world, note: Some(lines.note()), at_ms: took.1.boot_ms };
            match disk.iter_mut().find(|other| other.note == stored.note && other.world == stored.world) {
                // A clock that was set back may have the same note again.
                Some(other) => other.at_ms = stored.at_ms,
                None => disk.push(stored),
            }
        }
        self.disk = disk;
    }

    /// The change that goes back may have failed behind its write: it is stored, or not.
    pub(crate) fn tried_to_go_back(&mut self, at_ms: i64) {
        let back = self.gone_back().into_iter();
        let back = back.map(|live| Stored { note: Some(live.lines.note()), world: live.world, at_ms });
        self.disk = once(std::mem::take(&mut self.disk).into_iter().chain(back));
        self.is_lost |= self.disk.len() > WAYS_MAX;
    }

    /// States that were written before this are superseded.
    pub(crate) fn supersede(&mut self, before_ms: i64) {
        self.disk.retain(|stored| stored.at_ms >= before_ms);
    }

    /// When the newest possible state was written (boot time).
    pub(crate) fn newest_ms(&self) -> i64 {
        self.disk.iter().map(|stored| stored.at_ms).max().unwrap_or(0)
    }

    /// A reader saw this before the process died, so it is stored.
    pub(crate) fn was_seen(&mut self, asking: &Asking, sight: Sight) {
        let shows = |stored: &Stored| {
            let voter = stored.world.voter(asking.address);
            stored.world.may_see(asking.server, asking.token.as_deref(), voter, sight.now_s, sight.seen)
        };
        if self.disk.iter().any(shows) {
            self.disk.retain(shows);
        }
    }

    /// The process has ended.
    pub(crate) fn ends(&mut self) {
        let ended = self.live.iter().map(|live| live.lines.ended_by_ms()).max();
        self.had_ended_by_ms = self.had_ended_by_ms.max(ended.unwrap_or(0));
        self.live.clear();
    }

    /// The operator puts another copy of the store in its place.
    pub(crate) fn replaced_by(&mut self, copy: &Model) {
        self.disk.clone_from(&copy.disk);
    }

    /// The most votes that the service may hold: those that have not ended by this.
    pub(crate) fn held_max(&self, certain_ms: i64) -> usize {
        self.live.iter().map(|live| live.world.held(certain_ms)).max().unwrap_or(0)
    }

    /// The earliest that the certain line may be.
    pub(crate) fn certain_ms(&self) -> i64 {
        self.live.iter().map(|live| live.lines.certain_ms()).min().unwrap_or(0)
    }

    /// The latest that the certain line may be.
    pub(crate) fn latest_certain_ms(&self) -> i64 {
        self.live.iter().map(|live| live.lines.certain_ms()).max().unwrap_or(0)
    }

    /// About how long the lines still have to be apart before the service takes the wall line.
    pub(crate) fn left_ms(&self, reading: Reading) -> Option<i64> {
        let since_ms = self.live.iter().find_map(|live| live.lines.apart_since_ms());
        since_ms.map(|since_ms| since_ms + HOLD_MS - reading.boot_ms)
    }
}

impl Live {
    fn ways(&self, request: &Request, part: usize, now_s: i64) -> Vec<Way> {
        once(self.world.asked(request, part, self.moment(now_s)))
    }

    /// Where an earlier line has become certain, leaves out votes that had ended before, as they would count again. A vote that
    /// is recorded from then on has not ended by the line before.
    fn left_out(mut self) -> Live {
        if let Some(ended_by_ms) = self.lines.take_left_out() {
            let lengths_s = self.lengths_s();
            Rc::make_mut(&mut self.world).leaves_out(ended_by_ms, lengths_s);
        }
        self
    }

    /// The cooldown's length, which stays as it was.
    fn lengths_s(&self) -> (i64, i64) {
        (self.world.settings.cooldown_s, self.world.settings.cooldown_s)
    }

    /// The same with these lines, once for each second that the change may have gone back to in a step that took `took_ms`.
    /// The contract does not say whether the time goes back before votes get another length, or after.
    fn shown_as(&self, lines: Lines, is_back: bool, lengths_s: (i64, i64), took_ms: i64) -> Vec<Live> {
        if !is_back {
            return vec![Live { lines, ..self.clone() }];
        }
        let (shown_ms, target_ms) = (lines.shown_ms, lines.target_ms());
        let second = |ms: i64| ms.div_euclid(1_000);
        let seconds = second(target_ms.min(shown_ms - took_ms))..=second(target_ms.max(shown_ms));
        let with = |to_s: i64| {
            let mut world = (*self.world).clone();
            world.goes_back(self.lines.leaves_out_by_ms(), to_s, lengths_s);
            // Spent instants need not be remembered, nor does a start know them.
            let noted_spent = self.noted_spent.map(|(up_to_s, _, until_ms)| (up_to_s, false, until_ms));
            Live { lines, world: Rc::new(world), noted_spent }
        };
        seconds.map(with).collect()
    }

    /// The ways of a start with these settings. Of votes that become one pair's, the latest stays. The contract does not say
    /// whether by their instants before the time goes back, or after.
    fn started_as(&self, lines: Lines, is_back: bool, options: Settings, took_ms: i64) -> Vec<Live> {
        let lengths_s = (self.world.settings.cooldown_s, options.cooldown_s);
        let mut ways = self.shown_as(lines, is_back, lengths_s, took_ms);
        if is_back && self.world.settings != options {
            let mut settled = self.clone();
            settled.settle(options);
            ways.extend(settled.shown_as(lines, is_back, lengths_s, took_ms));
        }
        ways.iter_mut().for_each(|way| way.settle(options));
        once(ways)
    }

    /// The last step of a start: settings, and the instants that are not given.
    fn settle(&mut self, options: Settings) {
        if self.world.settings != options {
            let (certain_ms, ended_by_ms) = (self.lines.certain_ms(), self.lines.ended_by_ms());
            Rc::make_mut(&mut self.world).settle(options, certain_ms, self.lines.shown_ms, ended_by_ms);
        }
        let latest_s = self.world.latest_spent_s(self.lines.shown_ms.div_euclid(1_000));
        self.noted_spent = latest_s.map(|(up_to_s, is_sure)| (up_to_s, is_sure, self.lines.boot_ms() + REFUSES_MAX_MS));
    }
}

#[cfg(test)]
mod tests;
