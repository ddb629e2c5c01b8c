//! A standby polls the master, and sweeps if the master no longer answers. It becomes master only by the election after
//! that sweep: see `elect`.

use selvedge_fabric::PortRef;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::{Guid, NodeKind, PortState};
use selvedge_wire::{
    Address, Attribute, AttributeId, CapabilityMask, Class, Datagram, DirectedRoute, LocalChange, Mad, Method, Notice,
    PRODUCER_CA, PRODUCER_ROUTER, PRODUCER_SWITCH, SmInfo, SmState, Trap,
};

use super::elect::rank;
use super::{Ask, CopyNews, Ctx, Effect, Election, Other, Phase, Role, ok, request};
use crate::event::{Event, ManagerName, SweepReason};
use crate::smp;

/// A standby's watch over the master.
#[derive(Debug)]
pub(super) struct Watch {
    /// Port of the master.
    at: PortRef,
    /// Polls in a row without an answer.
    misses: u32,
    /// When the master is polled next.
    next_poll: Time,
    /// Nodes on the directed route of the polls, without the first and the last.
    between: Vec<Guid>,
}

/// A master that did not answer the polls.
#[derive(Debug)]
pub(super) struct Silent {
    /// Port GUID of the master.
    pub(super) master: Guid,
    /// The directed route of the polls.
    pub(super) route: DirectedRoute,
    /// Nodes on this route when this manager began to stand by, without the first and the last.
    between: Vec<Guid>,
}

impl Silent {
    /// True if the directed route to the master still crosses the same nodes, and its links are ACTIVE. Then no cable
    /// failed: the master itself was silent, so no host can have registered with it in the meantime. The last link of
    /// the route may be down: then the master's node was cut off.
    pub(super) fn has_same_way(&self, inventory: &Inventory) -> bool {
        let fabric = &inventory.fabric;
        let is_active = |at: PortRef| fabric.port(at).is_some_and(|port| port.link.state == PortState::Active);
        nodes_between(inventory, &self.route, is_active).is_some_and(|between| between == self.between)
    }
}

/// Returns the GUIDs of the nodes that a directed route crosses, without the first and the last. `None` if a link of
/// the route between these nodes is missing or not ACTIVE at both ends.
fn nodes_between(
    inventory: &Inventory,
    route: &DirectedRoute,
    is_right: impl Fn(PortRef) -> bool,
) -> Option<Vec<Guid>> {
    let (fabric, hops) = (&inventory.fabric, inventory.hops(route));
    let (_, crossed) = hops.split_last().filter(|_| hops.len() == usize::from(route.hops()))?;
    let crossed = crossed.iter().map(|&near| {
        let far = fabric.peer(near).filter(|&far| is_right(near) && is_right(far))?;
        Some(fabric.node(far.node).guid)
    });
    crossed.collect()
}

/// The state of this standby's copy of the registrations at the master.
#[derive(Debug, Default)]
pub(super) struct RegistrationCopy {
    /// True if this manager must have a copy whenever it stands by.
    is_wanted: bool,
    /// True while this manager stands by and its copy is not complete yet. It then shows DISCOVERING, so no master
    /// hands over to it.
    is_awaited: bool,
    /// The master with a copy that is complete, or cannot be had. It may have been unreachable since.
    of: Option<Guid>,
    /// True if the master's administrator no longer answers: the copy was complete when the administrator last
    /// answered, but if the master still runs, it may be incomplete now.
    is_doubtful: bool,
    /// True if this manager knows registrations from a copy only: it has not been master since.
    is_relied_on: bool,
}

impl RegistrationCopy {
    /// True while the copy of the current master is not complete.
    pub(super) const fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Returns true once if the copy may lack registrations of hosts, because the master may have continued after its
    /// administrator's last answer. The caller then asks all hosts to register again, so the copy is no longer doubtful
    /// after this call.
    pub(super) const fn take_doubt(&mut self) -> bool {
        std::mem::replace(&mut self.is_doubtful, false)
    }

    /// True if the registrations of hosts are known from a copy only.
    pub(super) const fn is_relied_on(&self) -> bool {
        self.is_relied_on
    }

    /// Called when the master offers the subnet although the copy is not complete: it ignores SMInfo states.
    pub(super) const fn await_no_longer(&mut self) {
        self.is_awaited = false;
    }

    /// Handles a change of this manager's role.
    pub(super) const fn role_changed(&mut self, role: Role) {
        match role {
            Role::Master => (self.of, self.is_relied_on) = (None, false),
            // Its own link is down: what hosts had registered is known still.
            Role::Discovering => {}
            Role::Standby | Role::NotActive => self.is_relied_on = true,
        }
    }
}

impl Election {
    /// Returns when the next poll of the master is due.
    pub const fn poll_due(&self) -> Option<Time> {
        match &self.phase {
            Phase::Standby(watch) => Some(watch.next_poll),
            Phase::None | Phase::Electing { .. } | Phase::Offering { .. } | Phase::Disabled => None,
        }
    }

    /// Watches a master from now on.
    pub(super) fn stand_by(&mut self, ctx: &Ctx<'_>, master: &Other, effects: &mut Vec<Effect>) {
        let Other { at, info } = master;
        self.handed_over_by = None;
        self.foreign.has_links = false;
        self.copy.is_awaited = self.copy.is_wanted && self.copy.of != Some(info.guid);
        self.copy.is_doubtful = false;
        self.peers.clear();
        effects.push(Effect::StoodBy);
        self.change_role(Role::Standby, Some(info.guid), effects);
        let between = ctx.inventory.and_then(|seen| {
            let route = seen.agents[at.node].route_to(at.port);
            nodes_between(seen, route, |_| true)
        });
        self.phase = Phase::Standby(Watch {
            at: *at,
            misses: 0,
            next_poll: ctx.now + ctx.config.poll_interval,
            between: between.unwrap_or_default(),
        });
        // A master offers the subnet only to managers that have finished discovering.
        self.notify_worse_master(ctx, info, effects);
    }

    /// Polls the master. If the previous poll has no answer yet, that poll counts as missed: all repeats of a request
    /// may take longer than the poll interval.
    pub(super) fn poll(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        if ctx.is_waiting {
            effects.push(Effect::ClearRequests);
            if self.poll_missed(ctx, effects) {
                return;
            }
        }
        if let (Phase::Standby(watch), Some(inventory)) = (&mut self.phase, ctx.inventory) {
            watch.next_poll = ctx.now + ctx.config.poll_interval;
            effects.push(request(inventory, watch.at, Ask::Poll));
        }
    }

    /// Handles the answer of the master. After enough missed polls, or if it is no longer master, a sweep follows.
    pub(super) fn master_answered(&mut self, ctx: &Ctx<'_>, answer: Option<&Mad>, effects: &mut Vec<Effect>) {
        let info = ok(answer).and_then(|mad| SmInfo::parse(mad.smp_data()).ok());
        // A manager with another SM_Key is not the one that was elected.
        let Phase::Standby(Watch { at, .. }) = self.phase else {
            return;
        };
        let info = info.filter(|info| self.believes(ctx, at, info, effects));
        let Some(info) = info else {
            self.poll_missed(ctx, effects);
            return;
        };
        let is_active = matches!(info.state, SmState::Master | SmState::Discovering);
        if !is_active || Some(info.guid) != self.master {
            self.miss(ctx, ctx.config.poll_misses, effects);
            return;
        }
        if let Phase::Standby(watch) = &mut self.phase {
            watch.misses = 0;
        }
        if self.copy.take_doubt() {
            effects.push(Effect::Reregister);
        }
        self.notify_worse_master(ctx, &info, effects);
    }

    /// Counts a poll without an answer. Returns true if the master counts as lost. A sweep follows, which does not ask
    /// the lost master again by the same route.
    fn poll_missed(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) -> bool {
        let Phase::Standby(watch) = &self.phase else {
            return false;
        };
        let route = ctx
            .inventory
            .map(|seen| *seen.agents[watch.at.node].route_to(watch.at.port));
        let silent = self.master.zip(route).map(|(master, route)| Silent {
            master,
            route,
            between: watch.between.clone(),
        });
        if let Some(Silent { master, .. }) = silent {
            let (missed, of) = (watch.misses.saturating_add(1), ctx.config.poll_misses);
            let master = ManagerName::of(ctx.inventory, master);
            effects.push(Effect::Event(Event::PollMissed { master, missed, of }));
        }
        let is_lost = self.miss(ctx, 1, effects);
        if is_lost {
            self.silent = silent;
        }
        is_lost
    }

    /// Counts polls that brought nothing. Returns true if the master counts as lost.
    fn miss(&mut self, ctx: &Ctx<'_>, polls: u32, effects: &mut Vec<Effect>) -> bool {
        let Phase::Standby(watch) = &mut self.phase else {
            return false;
        };
        watch.misses = watch.misses.saturating_add(polls);
        let is_lost = watch.misses >= ctx.config.poll_misses;
        if is_lost {
            // The role that others act upon changes with the end of the sweep: until then the copy of what hosts have
            // registered must stay.
            (self.role, self.master) = (Role::Discovering, None);
            effects.push(Effect::Sweep(SweepReason::MasterLost));
        }
        is_lost
    }

    /// Handles news about this standby's copy of the registrations at the master.
    pub(super) fn note_copy(&mut self, ctx: &Ctx<'_>, news: CopyNews) {
        match news {
            CopyNews::Wanted => self.copy.is_wanted = true,
            CopyNews::Known => self.copy.is_doubtful = false,
            // A better manager may have the subnet now. The answer to the poll names the master.
            CopyNews::Complete => {
                self.copy.of = self.master;
                if std::mem::take(&mut self.copy.is_awaited) {
                    self.poll_at_once(ctx);
                }
            }
            // Hosts may have registered something with the master if it still runs.
            CopyNews::Doubtful => {
                self.copy.is_doubtful = true;
                self.poll_at_once(ctx);
            }
        }
    }

    /// Polls the master now, unless a poll is under way.
    fn poll_at_once(&mut self, ctx: &Ctx<'_>) {
        if let Phase::Standby(watch) = &mut self.phase
            && !ctx.is_waiting
        {
            watch.next_poll = ctx.now;
        }
    }

    /// Sends the master trap 144 (SM priority) if this standby is better: the master may not have seen this manager.
    /// Source: OpenSM (`osm_send_trap144`).
    fn notify_worse_master(&self, ctx: &Ctx<'_>, master: &SmInfo, effects: &mut Vec<Effect>) {
        let (Phase::Standby(watch), Some(inventory)) = (&self.phase, ctx.inventory) else {
            return;
        };
        if self.copy.is_awaited || master.state != SmState::Master || rank(master) > rank(&self.own(ctx)) {
            return;
        }
        let fabric = &inventory.fabric;
        let lid = |at: PortRef| fabric.port(at).map(|port| port.settings.lids.base);
        let (Some(to), Some(own)) = (lid(watch.at), lid(inventory.local)) else {
            return;
        };
        // Not assigned yet: the master is busy with its first sweep, and will find this manager.
        if !to.is_unicast() || !own.is_unicast() {
            return;
        }
        let mask = fabric.port(inventory.local).map_or(0, |port| port.capability.mask);
        let change = LocalChange {
            lid: own,
            other_local_changes: true,
            capabilities: CapabilityMask(mask).with(CapabilityMask::IS_SM),
            changes: smp::SM_PRIORITY,
            ..LocalChange::default()
        };
        let producer = match fabric.node(inventory.local.node).kind {
            NodeKind::Ca => PRODUCER_CA,
            NodeKind::Switch => PRODUCER_SWITCH,
            NodeKind::Router => PRODUCER_ROUTER,
        };
        let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
        mad.write(&Notice::new(producer, own, &Trap::LocalChange(change)));
        let address = Address::smi(to);
        effects.push(Effect::Notify(Box::new(Datagram { address, mad })));
    }
}

#[cfg(test)]
mod tests {
    use super::super::In;
    use super::super::made::{Bench, answer, far};
    use super::*;
    use crate::made::{FAR, SECOND, inventory, row};

    #[test]
    fn a_master_that_misses_enough_polls_is_lost() {
        let mut bench = Bench::standby(far(SmState::Master, 9));
        let says = answer(&far(SmState::Master, 9));
        bench.now = bench.election.poll_due().unwrap();
        assert!(matches!(
            bench.hand(In::PollDue)[..],
            [Effect::Request { ask: Ask::Poll, .. }]
        ));
        assert!(matches!(
            bench.hand(In::Answered(Ask::Poll, None))[..],
            [Effect::Event(_)]
        ));
        assert!(bench.hand(In::Answered(Ask::Poll, Some(&says))).is_empty());
        // The poll is still in flight when the next one is due.
        bench.is_waiting = true;
        let effects = bench.hand(In::PollDue);
        let is_missed = matches!(
            effects[..],
            [Effect::ClearRequests, Effect::Event(_), Effect::Request { .. }]
        );
        assert!(is_missed, "{effects:?}");
        let effects = bench.hand(In::PollDue);
        let is_lost = matches!(
            effects[..],
            [
                Effect::ClearRequests,
                Effect::Event(_),
                Effect::Sweep(SweepReason::MasterLost)
            ]
        );
        assert!(is_lost, "{effects:?}");
        assert_eq!(
            (bench.election.role(), bench.election.master()),
            (Role::Discovering, None)
        );
        // The sweep that follows does not ask it again by the same route.
        assert!(bench.election.silent.is_some());
    }

    #[test]
    fn a_manager_that_is_no_longer_master_is_not_watched() {
        let check = |info: SmInfo, want: bool| {
            let mut bench = Bench::standby(far(SmState::Master, 9));
            let effects = bench.hand(In::Answered(Ask::Poll, Some(&answer(&info))));
            let is_lost = matches!(effects[..], [Effect::Sweep(SweepReason::MasterLost)]);
            assert_eq!(is_lost, want, "{effects:?}");
        };
        check(far(SmState::Master, 9), false);
        // It begins a new sweep.
        check(far(SmState::Discovering, 9), false);
        check(far(SmState::Standby, 9), true);
        check(
            SmInfo {
                guid: Guid(1),
                ..far(SmState::Master, 9)
            },
            true,
        );
    }

    #[test]
    fn a_standby_without_a_copy_shows_discovering() {
        let mut bench = Bench::new();
        bench.hand(In::Copy(CopyNews::Wanted));
        let (at, master) = (bench.far(), far(SmState::Master, 0));
        // No trap 144 to a worse master yet.
        let effects = bench.hand(In::StandBy(Other { at, info: master }));
        assert!(matches!(effects[..], [Effect::StoodBy, Effect::RoleChanged { .. }]));
        let state = |bench: &Bench| bench.election.sm_info(&bench.config, 0).state;
        assert_eq!(state(&bench), SmState::Discovering);
        bench.hand(In::Copy(CopyNews::Complete));
        assert_eq!(state(&bench), SmState::Standby);
        // The answer to this poll triggers the trap.
        assert_eq!(bench.election.poll_due(), Some(bench.now));
        let says = answer(&SmInfo {
            priority: selvedge_wire::Bits::saturating(0),
            guid: Guid(u64::MAX),
            ..master
        });
        bench.election.master = Some(Guid(u64::MAX));
        let effects = bench.hand(In::Answered(Ask::Poll, Some(&says)));
        assert!(matches!(effects[..], [Effect::Notify(_)]), "{effects:?}");
    }

    #[test]
    fn hosts_are_asked_if_the_master_lives_and_its_administrator_does_not_answer() {
        let check = |news: &[CopyNews], want: bool| {
            let mut bench = Bench::standby(far(SmState::Master, 9));
            news.iter().for_each(|&news| drop(bench.hand(In::Copy(news))));
            let says = answer(&far(SmState::Master, 9));
            let effects = bench.hand(In::Answered(Ask::Poll, Some(&says)));
            assert_eq!(matches!(effects[..], [Effect::Reregister]), want, "{effects:?}");
        };
        check(&[CopyNews::Complete], false);
        check(&[CopyNews::Complete, CopyNews::Doubtful], true);
        check(&[CopyNews::Doubtful, CopyNews::Known], false);
    }

    #[test]
    fn hosts_are_asked_if_the_way_to_a_silent_master_is_another_one() {
        // Whether the administrator beside the master was silent too, the link of the route that is no longer ACTIVE
        // when the standby sweeps, and whether hosts are asked.
        let check = |news: CopyNews, lost: Option<(usize, u8)>, want: bool| {
            let mut bench = Bench::standby(far(SmState::Master, 9));
            bench.hand(In::Copy(news));
            for _ in 0..bench.config.poll_misses {
                bench.hand(In::Answered(Ask::Poll, None));
            }
            bench.hand(In::SweepBegun);
            if let Some((node, port)) = lost {
                let mut found = row();
                found[node].ports[usize::from(port)].info.as_mut().unwrap().state = Some(PortState::Init);
                bench.inventory = inventory(found);
            }
            let effects = bench.hand(In::Swept);
            let asks = effects.iter().any(|effect| matches!(effect, Effect::Reregister));
            assert_eq!(asks, want, "{news:?} {lost:?}");
            // Once is enough.
            let effects = bench.hand(In::Swept);
            assert!(!effects.iter().any(|effect| matches!(effect, Effect::Reregister)));
        };
        check(CopyNews::Complete, Some((SECOND, 1)), false);
        check(CopyNews::Doubtful, None, false);
        check(CopyNews::Doubtful, Some((SECOND, 1)), true);
        // The last link of the route: the master's host has lost it.
        check(CopyNews::Doubtful, Some((FAR, 1)), false);
    }

    #[test]
    fn hosts_are_asked_if_a_standby_without_a_link_relies_on_a_copy() {
        for (mut bench, want) in [
            (Bench::standby(far(SmState::Master, 9)), true),
            (Bench::master(), false),
        ] {
            let effects = bench.hand(In::CutOff);
            let asks = effects.iter().any(|effect| matches!(effect, Effect::Reregister));
            assert_eq!(asks, want, "{effects:?}");
        }
    }
}
