//! Who is master: SMInfo asked and answered, elections, and a standby's watch over the master.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{PortCapability, PortRef};
use selvedge_mad::AgentId;
use selvedge_plan::Installed;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::{Attribute, AttributeId, Bits, Datagram, Mad, Method, SmInfo, SmState, Status};

use crate::core::{Sm, ok};
use crate::event::{Event, SweepReason};
use crate::inventory::Inventory;
use crate::io::Output;
use crate::stage::{Stage, Token};
use crate::view::Role;
use crate::{report, smp};

impl Sm {
    /// Answers SMInfo, whatever else is going on.
    pub(crate) fn sm_info_asked(&mut self, datagram: &Datagram, out: &mut Vec<Output>) {
        if self.view.role == Role::NotActive {
            self.view.mads.dropped += 1;
            return;
        }
        self.act_count = self.act_count.wrapping_add(1);
        let mut answer = *datagram;
        if datagram.mad.method() == Method::Set {
            // Handover and the other controls need a master that gives way; until it does, it says so.
            answer.mad.set_status(Status::BAD_METHOD_ATTRIBUTE);
        }
        answer.mad.set_method(Method::GetResp);
        answer
            .mad
            .set_returning(answer.mad.class() == selvedge_wire::Class::SubnDirected);
        answer.mad.set_smp_data(&self.own_sm_info().emit());
        self.send_only(answer, out);
    }

    /// What this manager says about itself to others.
    #[must_use]
    pub fn own_sm_info(&self) -> SmInfo {
        SmInfo {
            guid: self.port_guid(),
            sm_key: self.config.sm_key,
            act_count: self.act_count,
            priority: Bits::saturating(self.config.priority),
            state: match self.view.role {
                Role::Discovering => SmState::Discovering,
                Role::Standby => SmState::Standby,
                Role::Master => SmState::Master,
                Role::NotActive => SmState::NotActive,
            },
        }
    }

    /// Asks every port that shows IsSM who its manager is.
    pub(crate) fn begin_election(&mut self, inventory: Arc<Inventory>) {
        let m_key = self.config.policy.m_key;
        let others = inventory
            .fabric
            .end_ports()
            .filter(|(at, port)| *at != inventory.local && port.capability.mask & PortCapability::IS_SM != 0);
        for (at, _) in others {
            let route = inventory.agents[at.node].route_to(at.port);
            let get = smp::get(AttributeId::SM_INFO, 0, route, m_key);
            self.exchange.submit(AgentId(at.node.0), (Token::OtherSm(at), get));
        }
        self.stage = Stage::Electing {
            inventory,
            others: BTreeMap::new(),
            silent: 0,
        };
    }

    /// Takes another manager's SMInfo. One that shows IsSM but does not answer is treated as gone.
    pub(crate) fn other_sm(&mut self, at: PortRef, answer: Option<&Mad>, events: &mut Vec<Event>) {
        let Stage::Electing { others, silent, .. } = &mut self.stage else {
            return;
        };
        match ok(answer).map(|mad| SmInfo::parse(mad.smp_data())) {
            Some(Ok(info)) => drop(others.insert(info.guid, (at, info))),
            Some(Err(error)) => events.push(Event::BadDatagram { why: error.to_string() }),
            None => *silent += 1,
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
        let superior = others
            .values()
            .filter(|(_, other)| yields(&own, other))
            .max_by_key(|(_, other)| rank(other));
        match superior {
            Some(&(at, other)) => {
                self.change_role(Role::Standby, Some(other.guid), out);
                self.next_poll = Some(now + self.config.poll_interval);
                self.sweep_due = None;
                // Should the master die, these are the LIDs to keep, also of ports that are away just then.
                self.lids.of_another(&inventory.fabric);
                // Whatever this manager planned, the master writes over it.
                self.view.plan = None;
                let (fabric, installed) = (Arc::clone(&inventory.fabric), Installed::default());
                self.finish(&inventory, fabric, installed, &report::Failures::none());
                self.stage = Stage::Standby {
                    at,
                    inventory,
                    misses: 0,
                };
            }
            None => {
                self.change_role(Role::Master, None, out);
                self.begin_reading(inventory);
            }
        }
    }

    /// Why a manager that is about to become master must look once more, if it must.
    fn look_again(&self, own: &SmInfo, nobody: bool, silent: usize) -> Option<SweepReason> {
        match self.sweep_reason {
            // Once is enough; and a lost master has been silent for long.
            SweepReason::Asked | SweepReason::Unanswered | SweepReason::MasterLost => None,
            _ if own.state != SmState::Discovering => None,
            // It may have been busy setting LIDs when it ended, after we had read them.
            _ if silent > 0 => Some(SweepReason::Unanswered),
            // Somebody asked us while we looked, and we did not find him: he came when we had passed. Both of us may
            // then think that nobody else is there.
            _ if nobody && self.act_count != self.asked_before => Some(SweepReason::Asked),
            _ => None,
        }
    }

    pub(crate) fn change_role(&mut self, role: Role, other: Option<Guid>, out: &mut Vec<Output>) {
        self.view.master = other;
        if self.view.role != role {
            self.view.role = role;
            if role != Role::Master {
                self.leave_multicast();
            }
            out.push(Output::Event(Event::Role { role, other }));
        }
    }

    /// A standby asks the master whether it is still there.
    pub(crate) fn poll(&mut self, now: Time) {
        let Stage::Standby { at, inventory, .. } = &self.stage else {
            return;
        };
        let (agent, route) = (AgentId(at.node.0), *inventory.agents[at.node].route_to(at.port));
        self.next_poll = Some(now + self.config.poll_interval);
        if self.exchange.open() == 0 {
            let get = smp::get(AttributeId::SM_INFO, 0, &route, self.config.policy.m_key);
            self.exchange.submit(agent, (Token::Poll, get));
        }
    }

    /// The master's answer, or none: after enough misses, or when it is master no longer, look for yourself.
    pub(crate) fn polled(&mut self, answer: Option<&Mad>) {
        let limit = self.config.poll_misses;
        let Stage::Standby { misses, .. } = &mut self.stage else {
            return;
        };
        match ok(answer).and_then(|mad| SmInfo::parse(mad.smp_data()).ok()) {
            Some(info) if matches!(info.state, SmState::Master | SmState::Discovering) => *misses = 0,
            Some(_) => *misses = limit,
            None => *misses += 1,
        }
        if *misses >= limit {
            self.view.role = Role::Discovering;
            self.view.master = None;
            self.sweep_due = Some(SweepReason::MasterLost);
        }
    }
}

/// Priority, then the lower GUID. Source: IBA vol 1 §14.4.1.1.
fn rank(info: &SmInfo) -> (u8, std::cmp::Reverse<Guid>) {
    (info.priority.get(), std::cmp::Reverse(info.guid))
}

/// True if the manager `own` must stand by for `other`.
///
/// Source: IBA vol 1 §14.4.1: a manager that is not master gives way to any master, and to a better one that is still
/// discovering or standing by; of two masters the better one stays.
fn yields(own: &SmInfo, other: &SmInfo) -> bool {
    let better = rank(other) > rank(own);
    match (own.state, other.state) {
        (_, SmState::NotActive) => false,
        (SmState::Master, SmState::Master) => better,
        (SmState::Master, SmState::Discovering | SmState::Standby) => false,
        (_, SmState::Master) => true,
        (_, SmState::Discovering | SmState::Standby) => better,
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
        check((Master, 0, 9), (Standby, 5, 1), false);
        check((Master, 0, 9), (Master, 0, 1), true);
        check((Master, 1, 9), (Master, 0, 1), false);
        check((Discovering, 0, 9), (NotActive, 15, 1), false);
    }
}
