//! Who is master: elections, and a standby's watch over the master.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_mad::AgentId;
use selvedge_plan::Installed;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_verify::phases::is_live;
use selvedge_wire::{Attribute, AttributeId, Bits, Mad, SmInfo, SmState};

use crate::core::{Sm, ok};
use crate::event::{Event, SweepReason};
use crate::io::Output;
use crate::milestone::Milestone;
use crate::register::Reregister;
use crate::stage::{Stage, Token};
use crate::view::Role;
use crate::{report, smp, standby};

impl Sm {
    /// What this manager says about itself to others.
    #[must_use]
    pub fn own_sm_info(&self) -> SmInfo {
        SmInfo {
            guid: self.port_guid(),
            sm_key: self.config.sm_key,
            act_count: self.act_count(),
            priority: Bits::saturating(self.config.priority),
            state: match self.view.role {
                Role::Discovering => SmState::Discovering,
                // What hosts have registered is not known here yet.
                Role::Standby if self.others.holds_back => SmState::Discovering,
                Role::Standby => SmState::Standby,
                Role::Master => SmState::Master,
                Role::NotActive => SmState::NotActive,
            },
        }
    }

    /// SMPs sent so far: proof of life. Source: OpenSM (`stats.qp0_mads_sent`).
    const fn act_count(&self) -> u32 {
        let mads = &self.view.mads;
        (mads.gets + mads.sets + mads.others) as u32
    }

    /// Asks every port that shows IsSM who its manager is.
    pub(crate) fn begin_election(&mut self, inventory: Arc<Inventory>) {
        let m_key = self.config.policy.m_key;
        let silent = self.others.silent.take();
        for at in standby::managers(&inventory) {
            let route = inventory.agents[at.node].route_to(at.port);
            let guid = inventory.fabric.port(at).map(|port| port.guid);
            if silent.is_some_and(|(who, way)| Some(who) == guid && way == *route) {
                continue;
            }
            let get = smp::get(AttributeId::SM_INFO, 0, route, m_key);
            self.exchange.submit(AgentId(at.node.0), (Token::OtherSm(at), get));
        }
        self.stage = Stage::Electing {
            inventory,
            others: BTreeMap::new(),
            silent: 0,
        };
    }

    /// Takes another manager's SMInfo. One that shows IsSM but does not answer is treated as gone, one that shows
    /// another SM_Key as none of ours.
    pub(crate) fn other_sm(&mut self, at: PortRef, answer: Option<&Mad>, events: &mut Vec<Event>) {
        let info = match ok(answer).map(|mad| SmInfo::parse(mad.smp_data())) {
            Some(Ok(info)) => Some(info).filter(|info| self.believes(info, events)),
            Some(Err(error)) => {
                events.push(Event::BadDatagram { why: error.to_string() });
                None
            }
            None => None,
        };
        let Stage::Electing { others, silent, .. } = &mut self.stage else {
            return;
        };
        match info {
            Some(info) => drop(others.insert(info.guid, (at, info))),
            None => *silent += usize::from(answer.is_none()),
        }
    }

    /// Everybody has been asked: master, or standby of the best.
    pub(crate) fn elected(
        &mut self,
        inventory: Arc<Inventory>,
        (others, silent): (&BTreeMap<Guid, (PortRef, SmInfo)>, usize),
        now: Time,
        out: &mut Vec<Output>,
    ) {
        let own = self.own_sm_info();
        if let Some(reason) = self.look_again(&own, others.is_empty(), silent) {
            self.sweep_due = Some(reason);
            return;
        }
        if others.values().any(|(_, other)| other.state == SmState::Master) {
            self.forget_plan();
        } else {
            self.others.renamed.clear();
            let mut others = others.values();
            if others.any(|&(at, _)| self.was_out_of_sight(&inventory.fabric, at)) {
                self.others.met = Some(now);
            }
        }
        let from = self.others.from.take();
        let superior = others
            .values()
            .map(|&(at, other)| (at, as_left(other, from)))
            .filter(|(_, other)| yields(&own, other))
            .max_by_key(|(_, other)| rank(other));
        match superior {
            Some((_, other)) if own.state == SmState::Master && self.puts_off(&inventory, &other, now) => {
                self.begin_reading(inventory);
            }
            Some(better) if own.state == SmState::Master => self.hand_over(inventory, better, out),
            Some((at, other)) => self.yield_to(inventory, (at, &other), now, out),
            None => {
                self.change_role(Role::Master, None, out);
                self.begin_reading(inventory);
            }
        }
    }

    /// Another master was here: who wrote which table last nobody knows, whatever the switches say of their manager, so
    /// all are read; nor by which entries packets are under way, so those are waited for; nor what hosts registered with
    /// it that were written to meanwhile.
    pub(crate) fn forget_plan(&mut self) {
        self.remember_served();
        self.doubt_renamed();
        // Without a plan in force hosts that name the other one may be those of which it was told, or new ones.
        self.others.has_stood_by &= self.served.is_some();
        self.drop_plans();
        self.others.met = Some(self.now);
    }

    /// True if another manager comes from where this one, a master with a plan, could not see it: it may have been
    /// master there until a moment ago, and its Sets may have gone along a cable that was moved, to switches of this
    /// one.
    fn was_out_of_sight(&self, now: &Fabric, at: PortRef) -> bool {
        let known = self.view.fabric.as_ref().filter(|_| self.view.plan.is_some());
        let guid = now.port(at).map(|port| port.guid);
        known.zip(guid).is_some_and(|(known, guid)| {
            let before = known.find_port(guid);
            before.is_none_or(|at| !known.link_is_up(at))
        })
    }

    /// Somebody showed the GUID of this manager's own node, in this sweep or in the one `before` it: whoever has it may
    /// manage as well, and neither can tell the other from himself.
    pub(crate) fn note_doubles(&mut self, own: Guid, before: &BTreeSet<Guid>) {
        if self.duplicates.contains(&own) || before.contains(&own) {
            self.others.met = Some(self.now);
        }
    }

    /// True if another manager has been met, and tables have not been read since: it may have written any of them.
    pub(crate) const fn has_met_another(&self) -> bool {
        self.others.met.is_some()
    }

    /// Sets have been sent, and another master was met meanwhile: what it had written they were not planned for.
    pub(crate) fn applied_beside_another(&mut self) {
        if self.others.met.is_some() {
            self.forget_plan();
        }
    }

    /// True if a link between switches is ACTIVE that this manager has not made so: only managers do that, so another
    /// one is or was here, out of sight.
    pub(crate) fn has_been_set_up_by_another(&self, fabric: &Fabric) -> bool {
        let known = self.view.fabric.as_ref().filter(|_| self.view.plan.is_some());
        known.is_some_and(|known| self.wires.has_new_active(known, fabric))
    }

    /// Everything has been read: packets of the time of another master are waited for.
    pub(crate) fn note_strangers(&mut self, fabric: &Fabric) {
        if let Some(at) = self.others.met.take().filter(|_| is_live(fabric)) {
            self.past.note_stranger(at, fabric);
        }
    }

    /// Stands by for another manager, with what it takes to stand in for it.
    pub(crate) fn yield_to(
        &mut self,
        inventory: Arc<Inventory>,
        master: (PortRef, &SmInfo),
        now: Time,
        out: &mut Vec<Output>,
    ) {
        // Should the master die, these are the LIDs to keep, also of ports that are away just then.
        self.lids.of_another(&inventory.fabric);
        // Whatever this manager planned, the master writes over it.
        self.drop_plans();
        self.stand_by(Arc::clone(&inventory), master, now, out);
        let (fabric, installed) = (Arc::clone(&inventory.fabric), Installed::default());
        self.finish(&inventory, fabric, installed, &report::Failures::none());
    }

    /// Why a manager that is about to become master must look once more, if it must.
    fn look_again(&self, own: &SmInfo, nobody: bool, silent: usize) -> Option<SweepReason> {
        match self.sweep_reason {
            // Once is enough; and a lost master has been silent for long.
            SweepReason::Asked
            | SweepReason::Unanswered
            | SweepReason::MasterLost
            | SweepReason::HandedOver
            | SweepReason::Told => None,
            _ if own.state != SmState::Discovering => None,
            // It may have been busy setting LIDs when it ended, after we had read them.
            _ if silent > 0 => Some(SweepReason::Unanswered),
            // Somebody asked us while we looked, and we did not find him: he came when we had passed. Both of us may
            // then think that nobody else is there.
            _ if nobody && self.others.asked != self.others.asked_before => Some(SweepReason::Asked),
            _ => None,
        }
    }

    pub(crate) fn change_role(&mut self, role: Role, other: Option<Guid>, out: &mut Vec<Output>) {
        self.view.master = other;
        if self.view.role != role {
            self.view.role = role;
            match role {
                Role::Master => {
                    self.others.copied_from = None;
                    self.others.leans_on_copy = false;
                }
                // Its own link is down: what hosts had registered is known still.
                Role::Discovering => self.leave_what_hosts_registered(),
                Role::Standby | Role::NotActive => {
                    self.served = None;
                    self.others.leans_on_copy = true;
                    self.leave_what_hosts_registered();
                }
            }
            out.push(Output::Milestone(Milestone::RoleChanged { role }));
            out.push(Output::Event(Event::Role { role, other }));
        }
    }

    /// A standby asks the master whether it is still there. What was asked before and is still open was missed: an
    /// interval shorter than what repeats take is kept.
    pub(crate) fn poll(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.exchange.open() > 0 {
            self.exchange.clear();
            let mut events = Vec::new();
            let is_lost = self.unanswered(&mut events);
            out.extend(events.into_iter().map(Output::Event));
            if is_lost {
                return;
            }
        }
        let Stage::Standby { at, inventory, .. } = &self.stage else {
            return;
        };
        let (agent, route) = (AgentId(at.node.0), *inventory.agents[at.node].route_to(at.port));
        self.next_poll = Some(now + self.config.poll_interval);
        let get = smp::get(AttributeId::SM_INFO, 0, &route, self.config.policy.m_key);
        self.exchange.submit(agent, (Token::Poll, get));
    }

    /// Nobody answered a poll; true if that is enough to look for oneself. Who was silent so often need not be asked
    /// once more by the same way.
    fn unanswered(&mut self, events: &mut Vec<Event>) -> bool {
        let (way, missed) = match &self.stage {
            Stage::Standby { at, inventory, misses } => (
                Some(*inventory.agents[at.node].route_to(at.port)),
                misses.saturating_add(1),
            ),
            _ => (None, 0),
        };
        let silent = self.view.master.zip(way);
        let of = self.config.poll_misses;
        events.extend(silent.map(|(master, _)| Event::PollMissed { master, missed, of }));
        let is_lost = self.missed(1);
        if is_lost {
            self.others.silent = silent;
        }
        is_lost
    }

    /// So many polls brought nothing; true if that is enough to look for oneself.
    fn missed(&mut self, polls: u32) -> bool {
        let limit = self.config.poll_misses;
        let Stage::Standby { misses, .. } = &mut self.stage else {
            return false;
        };
        *misses = misses.saturating_add(polls);
        let is_lost = *misses >= limit;
        if is_lost {
            self.view.role = Role::Discovering;
            self.view.master = None;
            self.sweep_due = Some(SweepReason::MasterLost);
        }
        is_lost
    }

    /// The master's answer, or none: after enough misses, or when it is master no longer, look for yourself.
    pub(crate) fn polled(&mut self, answer: Option<&Mad>, events: &mut Vec<Event>, out: &mut Vec<Output>) {
        let info = ok(answer).and_then(|mad| SmInfo::parse(mad.smp_data()).ok());
        // Who has another key is not the one that was elected.
        let info = info.filter(|info| self.believes(info, events));
        let master = self.view.master;
        let is_it = |info: &SmInfo| {
            let is_active = matches!(info.state, SmState::Master | SmState::Discovering);
            is_active && Some(info.guid) == master
        };
        match &info {
            Some(info) if is_it(info) => {
                if let Stage::Standby { misses, .. } = &mut self.stage {
                    *misses = 0;
                }
                if std::mem::take(&mut self.others.is_unproven) {
                    self.reregister = Reregister::Wanted;
                }
                self.tell_worse_master(info, out);
            }
            Some(_) => _ = self.missed(self.config.poll_misses),
            None => _ = self.unanswered(events),
        }
    }
}

/// Priority, then the lower GUID. Source: IBA vol 1 §14.4.1.1.
pub fn rank(info: &SmInfo) -> (u8, std::cmp::Reverse<Guid>) {
    (info.priority.get(), std::cmp::Reverse(info.guid))
}

/// True if the manager `own` must give way to `other`: stand by for it or, as master, hand the subnet over to it.
///
/// Source: IBA vol 1 §14.4.1: a manager that is not master gives way to any master, and to a better one that is still
/// discovering or standing by; a master gives way to a better one that is master or stands by. One that is discovering
/// will find the master, stand by, and say that it is better when it is ready for the subnet.
pub fn yields(own: &SmInfo, other: &SmInfo) -> bool {
    let better = rank(other) > rank(own);
    match (own.state, other.state) {
        (_, SmState::NotActive) => false,
        (SmState::Master, SmState::Discovering) => false,
        (SmState::Master, SmState::Master | SmState::Standby) => better,
        (_, SmState::Master) => true,
        (_, SmState::Discovering | SmState::Standby) => better,
    }
}

/// What a manager is, now that it may have handed the subnet over.
fn as_left(info: SmInfo, from: Option<Guid>) -> SmInfo {
    match info.state {
        SmState::Master if from == Some(info.guid) => SmInfo {
            state: SmState::Standby,
            ..info
        },
        _ => info,
    }
}

#[cfg(test)]
mod tests {
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
}
