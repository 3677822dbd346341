//! Situations: changes and faults in an order that chance alone brings too seldom. Some hundredths of a second decide how they
//! end, and are drawn.

use crate::events::{Heal, Planned, Situation};
use crate::promises::{CLOCK_STEP_US_MAX, voter};
use crate::run::{Run, SECOND};
use crate::world::{HeldUp, Race, World};
use vote_status::cluster::node::changes::{WantedChange, WantedServer};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::ServerId;
use vote_status::vote::time::UnixSeconds;

const MS: u64 = 1_000;
/// The server of the situations at the end of a rest. No other caller names it.
const SERVER: ServerId = ServerId(8);

impl Run {
    /// Begins a situation.
    pub(crate) fn stage(&mut self, world: &mut World<'_>, situation: Situation) {
        world.tell(|| format!("SITUATION {situation:?}"));
        match situation {
            Situation::Race => self.race(world),
            Situation::HalfKnown => self.half_know(world),
            Situation::OneName | Situation::LateGift | Situation::Moved => {
                let host = self.host(world);
                let list = self.list(SERVER, None);
                self.want(world, host, list);
                let mut after_us = SECOND + self.random.below(SECOND / 2);
                if situation == Situation::OneName {
                    // The whole situation is within one step of the clock.
                    after_us += CLOCK_STEP_US_MAX - (world.store_raw_us() + after_us) % CLOCK_STEP_US_MAX;
                }
                world.plan(after_us, Planned::Act(situation, host));
            }
        }
    }

    /// Goes on with a situation: all nodes know the server.
    pub(crate) fn act(&mut self, world: &mut World<'_>, situation: Situation, host: usize) {
        match situation {
            Situation::OneName => self.one_name(world, host),
            Situation::LateGift => self.late_gift(world, host),
            Situation::Moved => self.moved(world, host),
            Situation::Race | Situation::HalfKnown => {}
        }
    }

    /// One node alone knows of a vote, which the store forgets within a tenth of a second. The other nodes were cut off just
    /// before the vote, and come back later. Gives the node beside that one.
    fn known_to_one(&mut self, world: &mut World<'_>, host: usize, [is_clock_back, is_cut_off]: [bool; 2]) -> usize {
        world.copy();
        let copied_us = world.store_us();
        (0..world.hosts.len()).filter(|other| *other != host).for_each(|other| world.cut_off(other));
        let voted_us = self.random.below(20 * MS);
        let vote = WantedChange::Cast(WantedServer::Id(SERVER), None, vec![voter(1)]);
        world.plan(voted_us, Planned::Want(host, vote));
        let forgotten_us = voted_us + 10 * MS + self.random.below(40 * MS);
        world.plan(forgotten_us, Planned::Undo { copied_us, is_clock_back });
        if is_cut_off {
            world.plan(forgotten_us, Planned::Cut(host));
        }
        (host + 1) % world.hosts.len()
    }

    /// The clock of the store goes back with it, and a change elsewhere makes an entry with the name of the vote's entry. No
    /// entry comes behind it.
    fn one_name(&mut self, world: &mut World<'_>, host: usize) {
        let is_cut_off = self.random.is(20);
        let other = self.known_to_one(world, host, [true, is_cut_off]);
        let change = match self.random.below(4) {
            0 => self.rotate(SERVER),
            1 => WantedChange::Cast(WantedServer::Id(SERVER), None, vec![voter(1)]),
            _ => WantedChange::Cast(WantedServer::Id(SERVER), None, vec![voter(2)]),
        };
        world.plan(120 * MS + self.random.below(100 * MS), Planned::Want(other, change));
    }

    /// The network holds up the call that gives the vote back. Meanwhile the server is removed elsewhere, listed again, and voted
    /// for. The new vote is no later than the first one, by a caller's own records or a clock that was set back.
    fn late_gift(&mut self, world: &mut World<'_>, host: usize) {
        let (is_clock_back, is_cut_off) = (self.random.is(50), self.random.is(80));
        let other = self.known_to_one(world, host, [is_clock_back, is_cut_off]);
        let at = UnixSeconds(world.store_s().0 - u32::try_from(self.random.below(20)).expect("few"));
        let vote = if self.random.is(70) {
            WantedChange::Record(WantedServer::Id(SERVER), at, vec![voter(1)])
        } else {
            WantedChange::Cast(WantedServer::Id(SERVER), None, vec![voter(1)])
        };
        let changes = vec![WantedChange::Remove(SERVER), self.list(SERVER, None), vote];
        let (_, meanwhile) = self.one_after_another(other, changes, 80 * MS);
        let (what, held_us) = (HeldUp::Gift(SERVER), self.random.below(SECOND));
        world.race = Some(Race { host, what, held_us, meanwhile });
    }

    /// The store's name leads to a promoted replica, and the former primary still answers. All connections of the other nodes go
    /// there, and one connection of a node. Later that node takes a vote, and another node is asked for the same one.
    fn moved(&mut self, world: &mut World<'_>, host: usize) {
        world.promote();
        (0..world.hosts.len()).filter(|other| *other != host).for_each(|other| world.cut_off(other));
        world.trouble(host, SECOND);
        let first_to_go = usize::from(self.random.is(50));
        world.cut(2 * host + first_to_go);
        let vote = || WantedChange::Cast(WantedServer::Id(SERVER), None, vec![voter(1)]);
        let after_us = SECOND / 10 + self.random.below(3 * SECOND);
        world.plan(after_us, Planned::Want(host, vote()));
        let again_us = after_us + 20 * MS + self.random.below(SECOND);
        world.plan(again_us, Planned::Want((host + 1) % world.hosts.len(), vote()));
        world.plan(again_us + 3 * SECOND, Planned::Heal(Heal::Former));
    }

    /// A change is on its way. Changes elsewhere take away its target, and put another one in its place. The store may forget all
    /// of it. No other caller names that server.
    pub(crate) fn race(&mut self, world: &mut World<'_>) {
        let (host, server, address) = (self.host(world), ServerId(9), self.addresses()[0]);
        if self.random.is(50) {
            self.slow(world, host);
        }
        let (other, cast) = self.vote_beside(world, host, server, address);
        let (late, overtake) = match self.random.below(3) {
            0 => (WantedChange::Cancel(server, address), vec![WantedChange::Cancel(server, address), cast]),
            1 => (WantedChange::Remove(server), vec![WantedChange::Remove(server), self.list(server, None), cast]),
            _ => (self.rotate(server), vec![WantedChange::Remove(server)]),
        };
        let (after_us, mut meanwhile) = self.one_after_another(other, overtake, SECOND / 4);
        if self.random.is(30) {
            meanwhile.push((after_us + self.random.below(SECOND), Planned::Back));
        }
        let what = HeldUp::Meant(server);
        world.race = Some(Race { host, what, held_us: after_us + self.random.below(SECOND), meanwhile });
        world.plan(SECOND / 5, Planned::Want(host, late));
    }

    /// Changes to want at a host, each less than `below_us` after the one before. Gives the time of the last one, and all.
    fn one_after_another(
        &mut self,
        host: usize,
        changes: Vec<WantedChange>,
        below_us: u64,
    ) -> (u64, Vec<(u64, Planned)>) {
        let (mut after_us, mut planned) = (0, Vec::new());
        for change in changes {
            after_us += self.random.below(below_us);
            planned.push((after_us, Planned::Want(host, change)));
        }
        (after_us, planned)
    }

    /// Lists a server at the node beside this one, and plans a vote for it a moment later. Gives that node, and the vote.
    fn vote_beside(
        &mut self,
        world: &mut World<'_>,
        host: usize,
        server: ServerId,
        address: VoterAddress,
    ) -> (usize, WantedChange) {
        let other = (host + 1) % world.hosts.len();
        let list = self.list(server, None);
        self.want(world, other, list);
        let cast = WantedChange::Cast(WantedServer::Id(server), None, vec![address]);
        world.plan(SECOND / 10, Planned::Want(other, cast.clone()));
        (other, cast)
    }

    /// A slow node knows of a vote and not yet that it was taken away, and the store forgets both.
    pub(crate) fn half_know(&mut self, world: &mut World<'_>) {
        let (host, server, address) = (self.host(world), ServerId(9), self.addresses()[0]);
        self.slow(world, host);
        let (other, cast) = self.vote_beside(world, host, server, address);
        if self.random.is(50) {
            world.plan(SECOND, Planned::Want(other, WantedChange::Cancel(server, address)));
        } else {
            let list = self.list(server, None);
            world.plan(SECOND, Planned::Want(other, WantedChange::Remove(server)));
            world.plan(SECOND + SECOND / 10, Planned::Want(other, list));
        }
        world.plan(SECOND + self.random.below(SECOND), Planned::Back);
        // The store's clock may come to the same instants once more.
        for _ in 0..4 {
            world.plan(2 * SECOND + self.random.below(4 * SECOND), Planned::Want(self.host(world), cast.clone()));
        }
    }
}
