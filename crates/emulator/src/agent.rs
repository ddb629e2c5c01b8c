//! Agents: serial servers with a finite queue.
//!
//! VL15 has no flow control: a request that finds the queue full is dropped, and its sender waits for its time-out.

use selvedge_chassis::{Counters, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_types::Lid;
use selvedge_wire::{AttributeId, BadKey, Class, Method, PortInfo, SmpData, Status, Trap};

use crate::attribute::port_info::CLIENT_REREGISTER;
use crate::attribute::{self, Effects, Request};
use crate::count::DropReason;
use crate::emulator::{Emulator, Event, agent_index};
use crate::flight::Slot;
use crate::watch::Change;

/// One agent's queue. The requests themselves are in the event queue: each has the time when it will be served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agent {
    /// When the agent will have served all waiting requests.
    busy_until: Time,
    /// Number of requests waiting or in service.
    waiting: u16,
}

/// Place of PortSelect in every attribute with counters of a port. Source: IBA vol 1 §16.1.3.5, §16.1.4.
const PORT_SELECT: usize = 1;

impl Emulator {
    /// Adds a request to the queue of the node's agent.
    pub(crate) fn enqueue(&mut self, slot: Slot) {
        let flight = self.flights.at(slot);
        let (at, class) = (flight.at, flight.mad.class());
        let node = self.chassis.wire(at).node();
        let agent = &mut self.agents[agent_index(node, class)];
        if agent.waiting >= self.config.queue_depth {
            let counters = self.chassis.counters_mut(at);
            match class.is_smp() {
                true => Counters::count(&mut counters.vl15_dropped),
                false => Counters::count(&mut counters.qp1_dropped),
            }
            return self.drop(slot, DropReason::QueueFull);
        }
        agent.waiting += 1;
        let start = agent.busy_until.max(self.now);
        let service = self.delays.service + self.slow.get(&node).copied().unwrap_or(0);
        agent.busy_until = Time(start.0.saturating_add(service));
        let wait = agent.busy_until.0 - self.now.0;
        self.flights.at_mut(slot).boot = self.chassis.boots(node);
        self.schedule(wait, at, Event::Serve(slot));
    }

    /// Serves a request: it takes effect now, and the response is sent.
    pub(crate) fn serve(&mut self, slot: Slot) {
        let flight = self.flights.at(slot);
        let (at, class) = (flight.at, flight.mad.class());
        let node = self.chassis.wire(at).node();
        if flight.boot != self.chassis.boots(node) || !self.chassis.is_powered(node) {
            return self.drop(slot, DropReason::NoPower);
        }
        if let Some(parked) = self.hung.get_mut(&node) {
            parked.push(slot);
            return;
        }
        let agent = &mut self.agents[agent_index(node, class)];
        agent.waiting = agent.waiting.saturating_sub(1);
        match class.is_smp() {
            true => self.serve_smp(slot, node),
            false => self.serve_gmp(slot),
        }
    }

    /// Lets the agents of a node stop answering, so that their queues fill.
    pub(crate) fn hang(&mut self, node: NodeIdx) {
        self.hung.entry(node).or_default();
    }

    /// Lets the agents of a node continue with the waiting requests.
    pub(crate) fn unhang(&mut self, node: NodeIdx) {
        for slot in self.hung.remove(&node).unwrap_or_default() {
            let flight = self.flights.at(slot);
            let (at, class) = (flight.at, flight.mad.class());
            let agent = &mut self.agents[agent_index(node, class)];
            let start = agent.busy_until.max(self.now);
            agent.busy_until = Time(start.0.saturating_add(self.delays.service));
            let wait = agent.busy_until.0 - self.now.0;
            self.schedule(wait, at, Event::Serve(slot));
        }
    }

    /// Removes the agents of a node with all their state.
    pub(crate) fn reset_agents(&mut self, node: NodeIdx) {
        for class in [Class::SubnLid, Class::PerfMgt] {
            self.agents[agent_index(node, class)] = Agent::default();
        }
        for slot in self.hung.remove(&node).unwrap_or_default() {
            self.drop(slot, DropReason::NoPower);
        }
    }

    fn serve_smp(&mut self, slot: Slot, node: NodeIdx) {
        let flight = self.flights.at(slot);
        let (at, mad) = (flight.at, &flight.mad);
        let own = self.chassis.end_port(at);
        let (method, m_key) = (mad.method(), mad.m_key());
        if !self.m_key_fits(own, method, m_key) {
            return self.bad_m_key(slot, own);
        }
        let mad = &self.flights.at(slot).mad;
        if method == Method::TrapRepress {
            let transaction = mad.transaction();
            self.counts.accepted.add(mad);
            self.flights.release(slot);
            self.repress_trap(node, transaction);
            return;
        }
        let request = Request {
            node,
            ingress: at,
            modifier: mad.modifier(),
            m_key_shown: self.m_key_visible(own, m_key),
            speeds_shown: !self.shy.contains(&node) || mad.modifier() & PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS != 0,
        };
        let (id, data) = (mad.attribute(), *mad.smp_data());
        let mut effects = Effects::default();
        let answer = if mad.class_version() != 1 {
            Err(Status::BAD_VERSION)
        } else if method == Method::Get {
            attribute::smp_get(&self.chassis, &request, id)
        } else if id == AttributeId::LINEAR_FORWARDING && self.liars.contains(&node) {
            Ok(data)
        } else {
            attribute::smp_set(&mut self.chassis, &request, id, &data, &mut effects)
        };
        if method == Method::Get && id == AttributeId::LINEAR_FORWARDING && self.watch.has_lied(node) {
            self.watch.note(Change::Read {
                node,
                by: self.flights.at(slot).origin,
                modifier: request.modifier,
            });
        }
        if method == Method::Set && answer.is_ok() {
            self.watch.note(Change::Set {
                node,
                by: self.flights.at(slot).origin,
                attribute: id,
                modifier: request.modifier,
                transaction: self.flights.at(slot).mad.transaction(),
            });
            if id == AttributeId::PORT_INFO && data[CLIENT_REREGISTER.0] & CLIENT_REREGISTER.1 != 0 {
                self.watch.note_reregistered(own);
            }
        }
        self.finish_smp(slot, answer);
        self.apply_effects(effects);
    }

    fn finish_smp(&mut self, slot: Slot, answer: Result<SmpData, Status>) {
        let mad = &mut self.flights.at_mut(slot).mad;
        match &answer {
            Ok(data) => {
                self.counts.accepted.add(mad);
                mad.set_smp_data(data);
            }
            Err(_) => self.counts.refused.add(mad),
        }
        let status = answer.err().unwrap_or(Status::OK);
        self.answer(slot, status);
    }

    fn serve_gmp(&mut self, slot: Slot) {
        let flight = self.flights.at_mut(slot);
        let at = flight.at;
        let mad = &mut flight.mad;
        let data = *mad.gmp_data();
        let (id, method) = (mad.attribute(), mad.method());
        let (version, is_vendor) = (mad.class_version(), mad.is_vendor());
        self.settle_selected(at, data[PORT_SELECT]);
        let answer = match (version, method) {
            (1, Method::Get) if is_vendor => {
                attribute::vendor_get(&self.chassis, (&self.cables, self.now), at, id, &data)
            }
            (1, Method::Set) if is_vendor => Err(Status::BAD_METHOD_ATTRIBUTE),
            (1, Method::Get) => attribute::gmp_get(&self.chassis, at, id, &data),
            (1, Method::Set) => attribute::gmp_set(&mut self.chassis, at, id, &data),
            // Source: IBA vol 1 §13.4.5: only requests are answered.
            (1, _) => Err(Status::BAD_METHOD),
            (_, _) => Err(Status::BAD_VERSION),
        };
        let mad = &mut self.flights.at_mut(slot).mad;
        match &answer {
            Ok(data) => {
                self.counts.accepted.add(mad);
                mad.set_gmp_data(data);
            }
            Err(_) => self.counts.refused.add(mad),
        }
        let status = answer.err().unwrap_or(Status::OK);
        self.answer(slot, status);
    }

    /// Turns a served request into its response and sends it: the same 256 bytes go back.
    fn answer(&mut self, slot: Slot, status: Status) {
        let flight = self.flights.at_mut(slot);
        let own = self.chassis.end_port(flight.at);
        let asked_as = match flight.dlid {
            Lid::PERMISSIVE if flight.slid == Lid::PERMISSIVE => Lid::PERMISSIVE,
            Lid::PERMISSIVE => self.chassis.port(own).settings().lids.base,
            lid => lid,
        };
        (flight.slid, flight.dlid) = (asked_as, flight.slid);
        flight.hops = 0;
        flight.mad.set_method(Method::GetResp);
        self.counts.answers += 1;
        if flight.mad.class() == Class::SubnDirected {
            flight.mad.set_returning(true);
            flight.mad.set_status(status);
            self.start_directed(slot);
        } else {
            flight.mad.set_status(status);
            self.start_by_lid(slot);
        }
    }

    /// Handles a GMP with a wrong P_Key: counts it, sends a trap, drops it.
    pub(crate) fn bad_p_key(&mut self, slot: Slot, own: PortIdx) {
        let flight = self.flights.at(slot);
        let trap = Trap::BadPKey(BadKey {
            slid: flight.slid,
            dlid: flight.dlid,
            key: u32::from(flight.pkey.0),
            sl: flight.sl,
            source_qp: 1,
            destination_qp: flight.qp,
            ..BadKey::default()
        });
        let data = self.chassis.port_mut(own, selvedge_chassis::TableKind::Settings);
        data.p_key_violations = data.p_key_violations.saturating_add(1);
        self.drop(slot, DropReason::BadPKey);
        self.raise_trap(own, &trap);
    }
}
