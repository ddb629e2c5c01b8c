//! Election: which of the managers that a heavy sweep found becomes master.

use std::collections::BTreeMap;

use selvedge_fabric::PortRef;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::{Attribute, CapabilityMask, Mad, SmInfo, SmState};

use super::{Ask, Ctx, Effect, Election, Foreign, Other, Phase, managers, ok, request};
use crate::event::{Event, SweepReason};

impl Election {
    /// Asks every port that shows IsSM for its SMInfo.
    pub(super) fn begin(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let Some(inventory) = ctx.inventory else { return };
        let silent = self.silent.take();
        if self.copy.take_doubt() && !silent.as_ref().is_some_and(|silent| silent.has_same_way(inventory)) {
            // This manager may have been cut off from a master that lived on, and hosts may have registered with it.
            effects.push(Effect::Reregister);
        }
        let own = inventory.fabric.port(inventory.local);
        if let Some(own) = own.filter(|own| !own.unread) {
            self.note_own_port(CapabilityMask(own.capability.mask), effects);
        }
        self.peers.asked(ctx.now, inventory);
        for at in managers(inventory) {
            let route = inventory.agents[at.node].route_to(at.port);
            let guid = inventory.fabric.port(at).map(|port| port.guid);
            // It did not answer its polls by the same route.
            if silent
                .as_ref()
                .is_some_and(|silent| Some(silent.master) == guid && silent.route == *route)
            {
                continue;
            }
            effects.push(request(inventory, at, Ask::Election(at)));
        }
        self.phase = Phase::Electing {
            others: BTreeMap::new(),
            silent: 0,
        };
    }

    /// Handles another manager's SMInfo. A manager that shows IsSM but does not answer counts as gone; a manager with
    /// another SM_Key is ignored.
    pub(super) fn manager_answered(
        &mut self,
        ctx: &Ctx<'_>,
        at: PortRef,
        answer: Option<&Mad>,
        effects: &mut Vec<Effect>,
    ) {
        let info = match ok(answer).map(|mad| SmInfo::parse(mad.smp_data())) {
            Some(Ok(info)) => Some(info).filter(|info| self.meets(ctx, at, info, effects)),
            Some(Err(error)) => {
                effects.push(Effect::Event(Event::BadDatagram { why: error.to_string() }));
                None
            }
            None => None,
        };
        if answer.is_none() {
            self.peers.silent(ctx, at);
        }
        if let Phase::Electing { others, silent } = &mut self.phase {
            match info {
                Some(info) => drop(others.insert(info.guid, Other { at, info })),
                None => *silent += usize::from(answer.is_none()),
            }
        }
    }

    /// Decides, once every manager has been asked: become master, stand by for the best manager, or offer it the
    /// subnet.
    pub(super) fn decide(
        &mut self,
        ctx: &Ctx<'_>,
        others: &BTreeMap<Guid, Other>,
        silent: usize,
        effects: &mut Vec<Effect>,
    ) {
        let own = self.own(ctx);
        if let Some(reason) = self.must_sweep_again(ctx.sweep_reason, own.state, others.is_empty(), silent) {
            effects.push(Effect::Sweep(reason));
            return;
        }
        if others.values().any(|other| other.info.state == SmState::Master) {
            self.forget_plan(ctx.now, effects);
        } else {
            effects.push(Effect::NoOtherMaster);
            if others.values().any(|other| was_out_of_sight(ctx, other.at)) {
                self.foreign.last = Some(ctx.now);
            }
        }
        let handed_over_by = self.handed_over_by.take();
        let best = others
            .values()
            .map(|other| other.as_left(handed_over_by))
            .filter(|other| yields(&own, &other.info))
            .max_by_key(|other| rank(&other.info));
        if best.is_none() {
            self.offers.none_is_better();
        }
        effects.push(match best {
            Some(to) if own.state == SmState::Master => Effect::Weigh(to),
            Some(master) => Effect::Yield(master),
            None => Effect::Lead,
        });
    }

    /// Returns why a manager that is about to become master must sweep once more, if it must.
    fn must_sweep_again(
        &self,
        reason: SweepReason,
        own: SmState,
        is_alone: bool,
        silent: usize,
    ) -> Option<SweepReason> {
        match reason {
            // Once is enough. A lost master has been silent for long.
            SweepReason::Asked
            | SweepReason::Unanswered
            | SweepReason::MasterLost
            | SweepReason::HandedOver
            | SweepReason::Told => None,
            _ if own != SmState::Discovering => None,
            // The silent manager may have been setting LIDs when it ended, after this sweep had read them.
            _ if silent > 0 => Some(SweepReason::Unanswered),
            // Another manager sent a request during the sweep, but the sweep did not find it: it joined after the sweep
            // had passed. Both may then be master without knowing of each other.
            _ if is_alone && self.asked.count != self.asked.before_sweep => Some(SweepReason::Asked),
            _ => None,
        }
    }

    /// Handles another master in this subnet. It is unknown which manager wrote a table last, whatever SMLIDs show, so
    /// all tables are read. Packets may be in flight that unknown entries forwarded, so the manager waits until they
    /// are gone. Hosts may have registered with the other master, so hosts that it may have set up are asked to
    /// register again.
    pub(super) fn forget_plan(&mut self, now: Time, effects: &mut Vec<Effect>) {
        effects.push(Effect::ForgetPlan);
        self.foreign.last = Some(now);
    }

    /// Records a sign of another master, or the end of the wait for its packets.
    pub(super) fn note_foreign(&mut self, now: Time, sign: Foreign, effects: &mut Vec<Effect>) {
        match sign {
            Foreign::OwnGuid => self.foreign.last = Some(now),
            Foreign::Links => self.foreign.has_links = true,
            Foreign::TablesRead => {
                if std::mem::take(&mut self.foreign.has_links) {
                    self.foreign.last = Some(now);
                }
                effects.extend(self.foreign.last.take().map(Effect::ForeignPackets));
            }
            // These Sets were planned without the tables that the other master had written.
            Foreign::Applied if self.has_met_another() => self.forget_plan(now, effects),
            Foreign::Applied => {}
        }
    }
}

/// True if another manager is found at a port that had no link in the fabric of the plan in force. That manager may
/// have been master of another part of the fabric until recently, and its Sets may have reached switches of this
/// manager over a moved cable.
fn was_out_of_sight(ctx: &Ctx<'_>, at: PortRef) -> bool {
    let guid = ctx
        .inventory
        .and_then(|inventory| inventory.fabric.port(at))
        .map(|port| port.guid);
    ctx.planned.zip(guid).is_some_and(|(planned, guid)| {
        let before = planned.find_port(guid);
        before.is_none_or(|at| !planned.link_is_up(at))
    })
}

/// Returns the rank of a manager: its priority, then the lower GUID. Source: IBA vol 1 §14.4.1.1.
pub(super) fn rank(info: &SmInfo) -> (u8, std::cmp::Reverse<Guid>) {
    (info.priority.get(), std::cmp::Reverse(info.guid))
}

/// True if the manager `own` must give way to `other`: stand by for it or, as master, hand the subnet over to it.
///
/// Source: IBA vol 1 §14.4.1: a manager that is not master gives way to any master, and to a better one that is still
/// discovering or standing by; a master gives way to a better one that is master or stands by. A master does not hand
/// over to a manager that is discovering: that manager will find the master, stand by, and send trap 144 when it is
/// ready for the subnet.
pub(super) fn yields(own: &SmInfo, other: &SmInfo) -> bool {
    let better = rank(other) > rank(own);
    match (own.state, other.state) {
        (_, SmState::NotActive) => false,
        (SmState::Master, SmState::Discovering) => false,
        (SmState::Master, SmState::Master | SmState::Standby) => better,
        (_, SmState::Master) => true,
        (_, SmState::Discovering | SmState::Standby) => better,
    }
}

impl Other {
    /// Returns the manager with the state that it reported; as standby if it handed the subnet over.
    fn as_left(self, handed_over_by: Option<Guid>) -> Self {
        let mut left = self;
        if left.info.state == SmState::Master && handed_over_by == Some(left.info.guid) {
            left.info.state = SmState::Standby;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use selvedge_wire::{Address, AttributeId, Bits, Class, Datagram, Method, SmControl};

    use super::super::made::{Bench, answer, far};
    use super::super::{In, Role};
    use super::*;
    #[test]
    fn who_gives_way() {
        let info = |state, priority, guid| SmInfo {
            guid: Guid(guid),
            sm_key: 0,
            act_count: 0,
            priority: Bits::saturating(priority),
            state,
        };
        let check = |own: (SmState, u8, u64), other: (SmState, u8, u64), want: bool| {
            let (own, other) = (info(own.0, own.1, own.2), info(other.0, other.1, other.2));
            assert_eq!(yields(&own, &other), want, "{own} / {other}");
        };
        use SmState::{Discovering, Master, NotActive, Standby};
        check((Discovering, 15, 1), (Master, 0, 9), true);
        check((Discovering, 0, 2), (Discovering, 0, 1), true);
        check((Discovering, 0, 1), (Discovering, 0, 2), false);
        check((Discovering, 1, 2), (Standby, 0, 1), false);
        check((Master, 0, 9), (Standby, 5, 1), true);
        check((Master, 0, 9), (Discovering, 0, 1), false);
        check((Master, 0, 1), (Standby, 0, 9), false);
        check((Master, 0, 9), (NotActive, 15, 1), false);
        check((Master, 0, 9), (Master, 0, 1), true);
        check((Master, 1, 9), (Master, 0, 1), false);
        check((Discovering, 0, 9), (NotActive, 15, 1), false);
    }

    #[test]
    fn the_best_manager_leads() {
        let check = |is_master: bool, other: Option<SmInfo>, want: &str| {
            let mut bench = if is_master { Bench::master() } else { Bench::new() };
            let at = bench.far();
            bench.hand(In::Swept);
            bench.hand(In::Answered(Ask::Election(at), other.as_ref().map(answer).as_ref()));
            let effects = bench.hand(In::AllAnswered);
            let decision = match effects.last() {
                Some(Effect::Lead) => "lead",
                Some(Effect::Weigh(..)) => "offer",
                Some(Effect::Yield(..)) => "yield",
                Some(Effect::Sweep(SweepReason::Unanswered)) => "sweep",
                other => panic!("{other:?}"),
            };
            assert_eq!(decision, want, "{is_master} {other:?}");
            let saw_master = other.is_some_and(|other| other.state == SmState::Master);
            assert_eq!(matches!(effects[0], Effect::ForgetPlan), saw_master, "{effects:?}");
        };
        let (master, standby) = (SmState::Master, SmState::Standby);
        check(false, Some(far(master, 0)), "yield");
        check(false, Some(far(standby, 9)), "yield");
        check(
            false,
            Some(SmInfo {
                priority: Bits::saturating(0),
                ..far(standby, 0)
            }),
            "lead",
        );
        // It may have been setting LIDs a moment ago.
        check(false, None, "sweep");
        check(true, Some(far(master, 9)), "offer");
        check(true, Some(far(standby, 9)), "offer");
        check(true, Some(far(master, 0)), "lead");
        check(true, None, "lead");
    }

    #[test]
    fn a_master_that_handed_over_counts_as_standby() {
        let mut bench = Bench::standby(far(SmState::Master, 0));
        bench.hand(In::Control(SmControl::Handover, far(SmState::Master, 0)));
        assert_eq!(bench.election.role(), Role::Master);
        let at = bench.far();
        bench.hand(In::SweepBegun);
        bench.hand(In::Swept);
        bench.hand(In::Answered(Ask::Election(at), Some(&answer(&far(SmState::Master, 0)))));
        assert!(matches!(bench.hand(In::AllAnswered).last(), Some(Effect::Lead)));
    }

    #[test]
    fn a_manager_that_asked_but_was_not_found_is_looked_for_once_more() {
        let mut bench = Bench::new();
        bench.hand(In::SweepBegun);
        bench.hand(In::Swept);
        let mut request = Mad::request(Class::SubnDirected, Method::Get, AttributeId::SM_INFO, 0);
        request.write(&SmInfo::default());
        let address = Address::DIRECTED;
        let effects = bench.hand(In::Requested(&Datagram { address, mad: request }));
        assert!(matches!(effects[..], [Effect::Answer(_)]));
        let effects = bench.hand(In::AllAnswered);
        assert!(
            matches!(effects[..], [Effect::Sweep(SweepReason::Asked)]),
            "{effects:?}"
        );
    }

    #[test]
    fn what_another_master_wrote_is_awaited_once_all_tables_are_read() {
        let mut bench = Bench::master();
        assert!(bench.hand(In::Foreign(Foreign::Applied)).is_empty());
        assert!(bench.hand(In::Foreign(Foreign::TablesRead)).is_empty());
        bench.hand(In::Foreign(Foreign::OwnGuid));
        assert!(matches!(
            bench.hand(In::Foreign(Foreign::Applied))[..],
            [Effect::ForgetPlan]
        ));
        assert!(matches!(
            bench.hand(In::Foreign(Foreign::TablesRead))[..],
            [Effect::ForeignPackets(_)]
        ));
        bench.hand(In::Foreign(Foreign::Links));
        assert!(!bench.election.has_met_another());
        assert!(matches!(
            bench.hand(In::Foreign(Foreign::TablesRead))[..],
            [Effect::ForeignPackets(_)]
        ));
        assert!(bench.hand(In::Foreign(Foreign::TablesRead)).is_empty());
    }
}
