//! Sends a judged change set, phase by phase, and keeps account of what each agent answered.
//!
//! Blocks of MFTs are written by `multicast/copying.rs`, blocks of GUIDInfo by `aliases/naming.rs`.

mod answerer;
mod met;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, LinkState, NodeIdx, PortRef, PortSettings};
use selvedge_mad::AgentId;
use selvedge_plan::partition::with_pkey_block;
use selvedge_plan::{BLOCK_LIDS, Installed, Op, Phase};
use selvedge_planner::past::{Taken, Unanswered};
use selvedge_planner::{Declined, Inventory, Outcome, external_settings, port_settings};
use selvedge_sim::Time;
use selvedge_types::{PortNum, PortState};
use selvedge_verify::phases;
use selvedge_wire::{Attribute, LinearForwardingTable, Mad, PKeyTable, PortInfo, SmpData, SwitchInfo};

use self::answerer::is_anothers;
use crate::event::Event;
use crate::lane_smp;
use crate::seat::Seat;
use crate::smp::{self, Smp};

/// A Set on its way: position in the change set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetId {
    phase: usize,
    op: usize,
}

/// An application in progress.
#[derive(Debug)]
pub struct Apply {
    /// What is applied.
    pub outcome: Arc<Outcome>,
    inventory: Arc<Inventory>,
    /// What the agents hold, as acknowledged so far. Copied when it first differs from the inventory's.
    pub fabric: Arc<Fabric>,
    /// Tables as acknowledged so far.
    pub installed: Installed,
    phase: usize,
    next: usize,
    in_flight: usize,
    wait: Option<Wait>,
    /// How long it has waited on its way.
    waited_ns: u64,
    /// What is known of our own port in this wait.
    pub seat: Seat,
    /// A forwarding table block was not acknowledged: steps after it are not proved.
    is_torn: bool,
    /// Tables that have changed since the last wait, and the steps since.
    pub taken: Taken,
    /// Tables that were sent, and may be taken at any time to come.
    pub unanswered: Unanswered,
    /// A wait is over that was for packets under way: none of before is left.
    pub has_drained: bool,
    /// Packets are under way between switches.
    is_live: bool,
    /// The same, or a port is ACTIVE behind which nobody answers: what is there may forward all the same. Or links that
    /// are out of sight did so a moment ago: their packets went by what is replaced now.
    pub may_be_live: bool,
    has_begun: bool,
    /// Nodes that have more to do in this phase than others: nothing of theirs waits for those.
    busiest: BTreeSet<NodeIdx>,
    /// Sets acknowledged.
    pub acknowledged: usize,
    /// Ports whose Set failed.
    pub failed_ports: BTreeSet<PortRef>,
    /// Nodes of which a Set other than PortInfo failed.
    pub failed_nodes: BTreeSet<NodeIdx>,
    /// Sets that failed or were left out because of a failure.
    pub failed: usize,
    /// Ports whose agents answered with other settings than asked, in fields that no packet depends on.
    pub declined: BTreeMap<PortRef, Declined>,
    /// A port that was ACTIVE answered that it is not: its link was lost since the sweep.
    pub met_lost_link: bool,
}

/// A pause before a phase, until packets that old entries have sent on are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When the phase begins.
    pub until: Time,
    /// How long the pause is, in nanoseconds.
    pub wait_ns: u64,
    /// The phase, from 1.
    pub phase: usize,
    /// How many there are.
    pub phases: usize,
    /// What the phase does.
    pub label: &'static str,
}

impl Wait {
    const fn is_longer_than(&self, fog: Duration) -> bool {
        self.wait_ns as u128 > fog.as_nanos()
    }
}

/// True if a port of a switch is ACTIVE and nobody is known behind it.
pub fn has_silent_link(fabric: &Fabric) -> bool {
    let is_silent = |node: NodeIdx, port: PortNum, state: PortState| {
        state == PortState::Active && fabric.peer(PortRef { node, port }).is_none()
    };
    fabric.switches().iter().any(|&node| {
        let mut ports = fabric.node(node).external_ports();
        ports.any(|(port, seen)| is_silent(node, port, seen.link.state))
    })
}

impl Apply {
    /// Begins.
    pub fn new(outcome: Arc<Outcome>, inventory: Arc<Inventory>, installed: Installed) -> Self {
        let fabric = Arc::clone(&inventory.fabric);
        let is_live = phases::is_live(&fabric);
        let may_be_live = is_live || has_silent_link(&fabric);
        Self {
            outcome,
            inventory,
            fabric,
            installed,
            phase: 0,
            next: 0,
            in_flight: 0,
            wait: None,
            waited_ns: 0,
            seat: Seat::default(),
            is_torn: false,
            taken: Taken::default(),
            unanswered: Unanswered::default(),
            has_drained: false,
            is_live,
            may_be_live,
            has_begun: false,
            busiest: BTreeSet::new(),
            acknowledged: 0,
            failed_ports: BTreeSet::new(),
            failed_nodes: BTreeSet::new(),
            failed: 0,
            declined: BTreeMap::new(),
            met_lost_link: false,
        }
    }

    /// True when every phase is done.
    pub fn is_done(&self) -> bool {
        self.phase >= self.outcome.changes.value().phases.len()
    }

    /// The phase it is in, from 0; as many as there are when all are done.
    pub const fn phase(&self) -> usize {
        self.phase
    }

    /// The pause it is in, if it is in one.
    pub const fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// The next Set of the current phase; `None` until its answers are in, its wait is over, or everything is done.
    pub fn next(&mut self, now: Time, m_key: u64, events: &mut Vec<Event>) -> Option<(SetId, AgentId, Smp)> {
        let outcome = Arc::clone(&self.outcome);
        let phases = &outcome.changes.value().phases;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin_phase(0, phases, now, events);
        }
        loop {
            let phase = phases.get(self.phase)?;
            if self
                .wait
                .is_some_and(|wait| wait.until > now || !self.seat.is_known(&wait))
            {
                return None;
            }
            // A wait for packets that nobody knows may be too short for those that are known.
            let over = self.wait.take();
            self.waited_ns += over.map_or(0, |wait| wait.wait_ns);
            if over.is_some_and(|wait| wait.is_longer_than(outcome.fog)) {
                self.taken.clear();
                self.has_drained = true;
            }
            let Some(op) = phase.ops.get(self.next) else {
                if self.in_flight > 0 {
                    return None;
                }
                self.next = 0;
                self.begin_phase(self.phase + 1, phases, now, events);
                continue;
            };
            let id = SetId {
                phase: self.phase,
                op: self.next,
            };
            self.next += 1;
            if self.is_pointless(op) {
                self.failed += 1;
                continue;
            }
            match self.build(op, m_key) {
                Some(smp) => {
                    self.in_flight += 1;
                    return Some((id, AgentId(op.node().0), smp));
                }
                None => {
                    self.failed += 1;
                    self.is_torn |= matches!(op, Op::Lft { .. });
                }
            }
        }
    }

    /// It goes no further. What it dropped first as it leads out of sight is not known to be gone, unless it has waited
    /// for that.
    pub fn end(&mut self) {
        if self.outcome.out_of_sight.as_nanos() > u128::from(self.waited_ns) {
            self.taken.note_blind();
        }
    }

    /// True if an agent has so much to do in this phase that nothing of it should wait for others.
    pub fn is_busiest(&self, agent: AgentId) -> bool {
        self.busiest.contains(&NodeIdx(agent.0))
    }

    /// Goes on to a phase: what it relies on is acknowledged, and its wait begins now.
    fn begin_phase(&mut self, number: usize, phases: &[Phase], now: Time, events: &mut Vec<Event>) {
        self.phase = number;
        // Where no packets wait for it, a bring-up keeps everybody equally busy instead.
        let phase = phases.get(number).filter(|_| self.is_live);
        self.busiest = phase.map_or_else(BTreeSet::new, busiest);
        self.taken.end_phase();
        let left = phases.get(number..).unwrap_or_default();
        let has_tables = |phase: &Phase| phase.ops.iter().any(|op| matches!(op, Op::Lft { .. }));
        if self.is_torn && left.iter().any(has_tables) {
            // Some switch may hold the old entries or the new: safe with this step, not proved with the next ones.
            let sets: usize = left.iter().map(|phase| phase.ops.len()).sum();
            self.failed += sets;
            self.phase = phases.len();
            events.push(Event::StepsLeftOut { sets });
            return;
        }
        if let Some(phase) = left.first().filter(|phase| phase.wait_before_ns > 0) {
            let wait = Wait {
                until: now + Duration::from_nanos(phase.wait_before_ns),
                wait_ns: phase.wait_before_ns,
                phase: number + 1,
                phases: phases.len(),
                label: phase.label,
            };
            (self.wait, self.seat) = (Some(wait), Seat::new(now));
            events.push(Event::Draining { wait });
        }
    }

    /// A port is not activated when what lies before it, at either end of its link, failed.
    fn is_pointless(&self, op: &Op) -> bool {
        let failed = |end: PortRef| self.failed_ports.contains(&end) || self.failed_nodes.contains(&end.node);
        match op {
            Op::Port {
                port,
                state: Some(PortState::Active),
                ..
            } => failed(*port) || self.fabric.peer(*port).is_some_and(failed),
            Op::Port { .. }
            | Op::Lft { .. }
            | Op::Switch { .. }
            | Op::PKeys { .. }
            | Op::SlToVl { .. }
            | Op::Arbitration { .. } => false,
        }
    }

    fn build(&self, op: &Op, m_key: u64) -> Option<Smp> {
        let agent = self.inventory.agents.get(op.node())?;
        let m_key = self.key_of(op).unwrap_or(m_key);
        Some(match op {
            Op::Lft { block, data, .. } => smp::set(&smp::lft(data), u32::from(*block), &agent.route, m_key),
            Op::Switch { settings, .. } => smp::set(
                &smp::switch_info(agent.switch.as_ref()?, *settings),
                0,
                &agent.route,
                m_key,
            ),
            Op::PKeys { port, block, keys } => smp::set(
                &smp::pkeys(keys),
                smp::pkeys_modifier(&self.fabric, *port, *block),
                agent.route_to(port.port),
                m_key,
            ),
            Op::SlToVl { port, rows, lanes } => {
                let modifier = lane_smp::rows_modifier(self.fabric.node(port.node), port.port, *rows);
                smp::set(&lane_smp::row(lanes), modifier, agent.route_to(port.port), m_key)
            }
            Op::Arbitration { port, block, turns } => {
                let modifier = lane_smp::block_modifier(self.fabric.node(port.node), port.port, *block);
                smp::set(&lane_smp::block(turns), modifier, agent.route_to(port.port), m_key)
            }
            Op::Port { port, settings, state } => {
                let seen = self.inventory.port_info(*port)?;
                let is_last = !matches!(state, Some(PortState::Armed));
                let info = PortInfo {
                    client_reregister: is_last && self.outcome.asks.includes(&self.fabric, *port),
                    ..smp::port_info(seen, settings, *state)
                };
                smp::set(
                    &info,
                    smp::port_modifier(seen, port.port),
                    agent.route_to(port.port),
                    m_key,
                )
            }
        })
    }

    /// The key that guards an agent, if it shows one: another than ours was written by a flipped bit, or its lease has
    /// run out; it goes with the first Set of PortInfo. Source: IBA vol 1 §14.2.4.1: with M_KeyProtectBits 0 whoever
    /// reads the key may use it; a lease that runs out clears the bits.
    fn key_of(&self, op: &Op) -> Option<u64> {
        let at = match op {
            Op::Port { port, .. } | Op::PKeys { port, .. } | Op::SlToVl { port, .. } | Op::Arbitration { port, .. }
                if !self.fabric.node(port.node).is_switch() =>
            {
                *port
            }
            Op::Port { .. }
            | Op::PKeys { .. }
            | Op::Lft { .. }
            | Op::Switch { .. }
            | Op::SlToVl { .. }
            | Op::Arbitration { .. } => PortRef {
                node: op.node(),
                port: PortNum::MANAGEMENT,
            },
        };
        let shown = self.fabric.port(at)?.settings.m_key;
        (shown != 0).then_some(shown)
    }

    /// Takes the answer to a Set: it counts only if the agent now holds what was asked.
    pub fn ended(&mut self, id: SetId, answer: Option<&Mad>, events: &mut Vec<Event>) {
        self.in_flight -= 1;
        let outcome = Arc::clone(&self.outcome);
        let op = &outcome.changes.value().phases[id.phase].ops[id.op];
        let result = match answer {
            None => Err("nobody answered".to_owned()),
            Some(mad) if mad.status().0 != 0 => Err(format!("status {:#06x}", mad.status().0)),
            Some(mad) => self.check(op, mad),
        };
        match result {
            Ok(()) => self.acknowledged += 1,
            Err(why) => {
                self.failed += 1;
                if answer.is_none() {
                    self.forget(op);
                }
                self.note_failed(op, answer.is_some());
                events.push(Event::SetFailed {
                    what: self.describe(op),
                    why,
                });
            }
        }
    }

    fn note_failed(&mut self, op: &Op, is_answered: bool) {
        match op {
            // Whoever has no such tables has one lane, which nothing depends on.
            Op::SlToVl { .. } | Op::Arbitration { .. } if is_answered => false,
            Op::Port { port, .. } | Op::PKeys { port, .. } | Op::SlToVl { port, .. } | Op::Arbitration { port, .. } => {
                self.failed_ports.insert(*port)
            }
            Op::Lft { node, .. } | Op::Switch { node, .. } => self.failed_nodes.insert(*node),
        };
        // A switch that may not have taken its lifetime may keep packets longer than any wait counts on.
        self.is_torn |= match op {
            Op::Lft { .. } => true,
            Op::Switch { .. } => !is_answered,
            Op::Port { .. } | Op::PKeys { .. } | Op::SlToVl { .. } | Op::Arbitration { .. } => false,
        };
    }

    /// A Set was not sent, as its agent has not answered others: it has failed, and what the agent holds is as known.
    pub fn left_out(&mut self, id: SetId) {
        self.in_flight -= 1;
        self.failed += 1;
        let outcome = Arc::clone(&self.outcome);
        self.note_failed(&outcome.changes.value().phases[id.phase].ops[id.op], false);
    }

    /// Nobody answered: the Set may have been carried out all the same, so what the switch holds is unknown.
    fn forget(&mut self, op: &Op) {
        if let Op::SlToVl { .. } | Op::Arbitration { .. } = op {
            lane_smp::forget(Arc::make_mut(&mut self.installed.lanes), &self.fabric, op);
        }
        if let Op::Switch { node, settings } = op {
            self.note_lowered(*node, settings.linear_top);
        }
        let Op::Lft { node, block, data } = op else { return };
        let switch = self.fabric.switch_index(*node);
        self.note_taken((*node, *block), data);
        self.note_unanswered((*node, *block), data);
        let blocks = switch.and_then(|switch| self.installed.lfts.get_mut(switch));
        if let Some(held) = blocks.and_then(|blocks| blocks.get_mut(usize::from(*block))) {
            *held = None;
        }
    }

    /// A switch answers with a block; if it is another one, it may hold either, or the answer is not what it
    /// sent: it is to be read.
    fn told(&mut self, (node, block): (NodeIdx, u16), op: &Op, (want, held): (&[u8; BLOCK_LIDS], [u8; BLOCK_LIDS])) {
        match held == *want {
            true => self.learn(node, block, held),
            false => self.forget(op),
        }
    }

    /// A block that a switch says it holds.
    fn learn(&mut self, node: NodeIdx, block: u16, ports: [u8; BLOCK_LIDS]) {
        let Some(switch) = self.fabric.switch_index(node) else {
            return;
        };
        self.note_taken((node, block), &ports);
        self.installed.learn(switch, usize::from(block), ports);
    }

    fn check(&mut self, op: &Op, mad: &Mad) -> Result<(), String> {
        let data = mad.smp_data();
        match op {
            Op::Lft {
                node,
                block,
                data: want,
            } => {
                let held = LinearForwardingTable::parse(data).map_err(|e| e.to_string())?;
                self.told((*node, *block), op, (want, held.ports));
                expect(held.ports == *want, || {
                    "the switch answers with another table".to_owned()
                })
            }
            Op::Switch { node, settings } => {
                let held = SwitchInfo::parse(data).map_err(|e| e.to_string())?;
                self.note_lowered(*node, settings.linear_top);
                Arc::make_mut(&mut self.fabric).set_switch(*node, *settings);
                expect(held.linear_top.0 == settings.linear_top, || {
                    format!("the switch answers with LinearFDBTop {}", held.linear_top)
                })
            }
            Op::PKeys { port, block, keys } => {
                let held = PKeyTable::parse(data).map_err(|e| e.to_string())?;
                let before = self.fabric.port(*port).map(|seen| &seen.pkeys[..]);
                let now = with_pkey_block(before.unwrap_or_default(), *block, keys);
                Arc::make_mut(&mut self.fabric).set_pkeys(*port, now);
                expect(held.keys.starts_with(keys), || {
                    "the port answers with other P_Keys".to_owned()
                })
            }
            Op::SlToVl { .. } | Op::Arbitration { .. } => {
                let held = Arc::make_mut(&mut self.installed.lanes);
                let is_taken = lane_smp::taken(held, &self.fabric, op, data);
                expect(is_taken, || "the port answers with other lanes".to_owned())
            }
            Op::Port { port, settings, state } => self.check_port(*port, settings, *state, data),
        }
    }

    fn check_port(
        &mut self,
        port: PortRef,
        want: &PortSettings,
        state: Option<PortState>,
        data: &SmpData,
    ) -> Result<(), String> {
        let held = PortInfo::parse(data).map_err(|e| e.to_string())?;
        let is_switch = self.fabric.node(port.node).is_switch();
        let seen = self.inventory.port_info(port);
        let of_host = Some(port.port).filter(|_| !is_switch);
        expect(!seen.is_some_and(|seen| is_anothers(seen, &held, of_host)), || {
            "another port answers: a cable was moved".to_owned()
        })?;
        let is_external = port.port != PortNum::MANAGEMENT && is_switch;
        let mut now = match is_external {
            true => external_settings(&held),
            false => port_settings(&held),
        };
        // Agents hide the M_Key from askers without it, and some clear it in answers.
        now.m_key = want.m_key;
        let link = LinkState {
            state: held.state.unwrap_or(PortState::Down),
            phys: held.phys_state.unwrap_or_default(),
            rate: held.rate_or_unknown(),
        };
        let was = self.fabric.port(port).map(|port| port.link.state);
        if was == Some(PortState::Active) && link.state != PortState::Active {
            self.met_lost_link = true;
            self.forget_lanes(port);
        }
        Arc::make_mut(&mut self.fabric).set_port(port, link, now);
        if let Some(difference) = difference(want, &now) {
            return Err(difference);
        }
        if now != *want {
            self.declined.insert(
                port,
                Declined {
                    wanted: *want,
                    held: now,
                },
            );
        }
        expect(state.is_none() || held.state == state, || {
            format!("the port answers with state {}", link.state)
        })
    }

    /// A port that was ACTIVE has been down: its node may have been off since it was asked, and have got its LID back
    /// by what was on its way. What lanes it has now nobody knows.
    fn forget_lanes(&mut self, at: PortRef) {
        if !self.installed.lanes.is_empty() {
            let lanes = Arc::make_mut(&mut self.installed.lanes);
            lanes.forget_port(self.fabric.node(at.node), at.port);
        }
    }

    fn describe(&self, op: &Op) -> String {
        let name = |node: &NodeIdx| format!("\"{}\"", self.fabric.node(*node).description);
        match op {
            Op::Lft { node, block, .. } => format!("LinearForwardingTable block {block} of {}", name(node)),
            Op::Switch { node, .. } => format!("SwitchInfo of {}", name(node)),
            Op::PKeys { port, block, .. } => {
                format!("P_KeyTable block {block} of {}", self.fabric.port_name(*port))
            }
            Op::SlToVl { port, .. } => format!("SLtoVLMappingTable of {}", self.fabric.port_name(*port)),
            Op::Arbitration { port, block, .. } => {
                format!("VLArbitrationTable block {block} of {}", self.fabric.port_name(*port))
            }
            Op::Port {
                port,
                state: Some(state),
                ..
            } => {
                format!("PortInfo of {} (to {state})", self.fabric.port_name(*port))
            }
            Op::Port { port, state: None, .. } => format!("PortInfo of {}", self.fabric.port_name(*port)),
        }
    }
}

/// Nodes with so many Sets in a phase that all others together take no longer, side by side.
fn busiest(phase: &Phase) -> BTreeSet<NodeIdx> {
    /// As many agents as a window of SMPs is spread over.
    const AT_ONCE: usize = 32;
    let mut left: BTreeMap<NodeIdx, usize> = BTreeMap::new();
    for op in &phase.ops {
        *left.entry(op.node()).or_default() += 1;
    }
    let share = phase.ops.len().div_ceil(AT_ONCE);
    left.retain(|_, count| *count >= share.max(2));
    left.into_keys().collect()
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// The first setting that an agent did not take, in words.
fn difference(want: &PortSettings, held: &PortSettings) -> Option<String> {
    let differs = [
        ("LID", u64::from(want.lids.base.0), u64::from(held.lids.base.0)),
        ("LMC", u64::from(want.lids.lmc.get()), u64::from(held.lids.lmc.get())),
        ("MasterSMLID", u64::from(want.sm_lid.0), u64::from(held.sm_lid.0)),
        ("NeighborMTU", u64::from(want.mtu.bytes()), u64::from(held.mtu.bytes())),
        ("OperationalVLs", u64::from(want.oper_vls), u64::from(held.oper_vls)),
    ];
    differs
        .into_iter()
        .find(|(_, want, held)| want != held)
        .map(|(field, want, held)| format!("the port answers with {field} {held}, asked for {want}"))
}
