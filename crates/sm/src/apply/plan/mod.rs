//! The Sets of a plan, a repair or a step towards balance: LFT, SwitchInfo, P_KeyTable, SLtoVLMappingTable,
//! VLArbitrationTable and PortInfo.

mod answerer;
mod link;
mod met;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, LinkState, NodeIdx, PortRef, PortSettings};
use selvedge_mad::AgentId;
use selvedge_plan::partition::with_pkey_block;
use selvedge_plan::{BLOCK_LIDS, Installed, LinkOrder, Op, Phase};
use selvedge_planner::held::has_silent_link;
use selvedge_planner::past::{Taken, Unanswered};
use selvedge_planner::{Declined, Inventory, Outcome, external_settings, port_settings};
use selvedge_sim::Time;
use selvedge_types::{PortNum, PortState};
use selvedge_verify::phases;
use selvedge_wire::{Attribute, LinearForwardingTable, Mad, PKeyTable, PortInfo, SmpData, SwitchInfo};

use super::pause::{Pause, Wait};
use super::{Apply, Counts, Ctx, Effect, Request, SetId, Work};
use crate::event::{Event, SweepReason};
use crate::report::Failures;
use crate::smp::Smp;
use crate::{lane_smp, smp};
use answerer::is_anothers;

/// The Sets of a plan, and the contents that agents have acknowledged.
#[derive(Debug)]
pub struct PlanSets {
    outcome: Arc<Outcome>,
    inventory: Arc<Inventory>,
    /// The fabric with the settings acknowledged so far. It is copied when it first differs from the inventory's
    /// fabric.
    fabric: Arc<Fabric>,
    /// The tables acknowledged so far.
    installed: Installed,
    pause: Pause,
    traffic: Traffic,
    /// True if an LFT block was not acknowledged: later steps are then not proved.
    is_torn: bool,
    /// Nodes that get more Sets in this phase than others. Sets of other nodes do not delay the Sets of these nodes.
    busiest: BTreeSet<NodeIdx>,
    failures: Failures,
    /// Settings that agents changed or refused, in fields that do not affect packets.
    declined: BTreeMap<PortRef, Declined>,
}

/// Packets that may be in flight after replaced entries have forwarded them.
#[derive(Debug)]
pub struct Traffic {
    /// The tables that were changed since the last wait, step by step.
    pub taken: Taken,
    /// Tables that were sent and not acknowledged: a switch may still execute such a Set at any time.
    pub unanswered: Unanswered,
    /// True if a wait for packets in flight has ended: no packet from before the wait is left.
    pub has_drained: bool,
    /// True if packets are in flight between switches.
    is_live: bool,
    /// True if packets may be in flight between switches. This is so if `is_live` is true, or if a port is ACTIVE and
    /// the switch behind it does not answer but may forward. It is also so if links that the last sweep did not find
    /// carried packets a moment ago, by entries that this plan replaces.
    pub may_be_live: bool,
}

/// The result of applying a plan, whether complete or interrupted.
#[derive(Debug)]
pub struct Applied {
    /// The outcome that was applied.
    pub outcome: Arc<Outcome>,
    /// The fabric with the acknowledged state.
    pub fabric: Arc<Fabric>,
    /// Tables as acknowledged.
    pub installed: Installed,
    /// How Sets ended.
    pub counts: Counts,
    /// Ports and nodes with a failed Set.
    pub failures: Failures,
    /// Settings that agents changed or refused, in fields that do not affect packets.
    pub declined: BTreeMap<PortRef, Declined>,
    /// The pause during which the plan was interrupted, if any.
    pub wait: Option<Wait>,
    /// Packets that may be in flight after replaced entries have forwarded them.
    pub traffic: Traffic,
}

impl Apply {
    /// Begins to apply a plan.
    pub fn new(outcome: Arc<Outcome>, inventory: Arc<Inventory>, installed: Installed) -> Self {
        let fabric = Arc::clone(&inventory.fabric);
        let is_live = phases::is_live(&fabric);
        let traffic = Traffic {
            taken: Taken::default(),
            unanswered: Unanswered::default(),
            has_drained: false,
            is_live,
            may_be_live: is_live || has_silent_link(&fabric),
        };
        Self::of(PlanSets {
            outcome,
            inventory,
            fabric,
            installed,
            pause: Pause::default(),
            traffic,
            is_torn: false,
            busiest: BTreeSet::new(),
            failures: Failures::none(),
            declined: BTreeMap::new(),
        })
    }

    /// Returns the LFT block that a Set writes, and its switch; `None` if it writes something else.
    pub fn lft_block(&self, id: SetId) -> Option<(NodeIdx, u16)> {
        match self.work.outcome.changes.value().phases.get(id.phase)?.ops.get(id.op)? {
            Op::Lft { node, block, .. } => Some((*node, *block)),
            _ => None,
        }
    }

    /// Sets whether links between switches `carried` packets a moment ago, as far as known.
    pub fn with_traffic_of_late(mut self, carried: bool) -> Self {
        self.work.traffic.may_be_live |= carried;
        self
    }

    /// Returns the outcome that is being applied.
    pub const fn outcome(&self) -> &Arc<Outcome> {
        &self.work.outcome
    }

    /// Returns the fabric with the acknowledged state so far.
    pub const fn fabric(&self) -> &Arc<Fabric> {
        &self.work.fabric
    }

    /// Returns the current pause, if any.
    pub const fn wait(&self) -> Option<Wait> {
        self.work.pause.wait()
    }

    /// Returns when the local port must be read next; it is read once in each `interval`.
    pub fn own_port_due(&self, interval: Duration) -> Option<Time> {
        self.work.pause.due(interval)
    }

    /// Ends the application of a plan. Entries that lead to links which the last sweep did not find were dropped first.
    /// Packets of these entries may still be in flight, unless the pauses were long enough.
    pub fn end(self) -> Applied {
        let counts = self.counts();
        let mut work = self.work;
        if work.outcome.out_of_sight.as_nanos() > u128::from(work.pause.waited_ns()) {
            work.traffic.taken.note_blind();
        }
        // Each job gets a new record of packets in flight.
        (work.installed.under_way, work.installed.levels) = (None, None);
        Applied {
            outcome: work.outcome,
            fabric: work.fabric,
            installed: work.installed,
            counts,
            failures: work.failures,
            declined: work.declined,
            wait: work.pause.wait(),
            traffic: work.traffic,
        }
    }
}

impl Work for PlanSets {
    fn phases(&self) -> usize {
        self.outcome.changes.value().phases.len()
    }

    fn requests(&self, phase: usize) -> usize {
        self.outcome.changes.value().phases[phase].ops.len()
    }

    fn begin(&mut self, ctx: &Ctx<'_>, number: usize, _: Counts, effects: &mut Vec<Effect>) -> Result<(), usize> {
        let phases = &self.outcome.changes.value().phases;
        let left = phases.get(number..).unwrap_or_default();
        // Without such packets, a bring-up gives every agent the same number of requests in flight instead.
        let phase = left.first().filter(|_| self.traffic.is_live);
        self.busiest = phase.map_or_else(BTreeSet::new, busiest);
        self.traffic.taken.end_phase();
        let has_tables = |phase: &Phase| phase.ops.iter().any(|op| matches!(op, Op::Lft { .. }));
        if self.is_torn && left.iter().any(has_tables) {
            // Some switch may hold the old entries or the new: safe with this step, not proved with the next ones.
            let sets: usize = left.iter().map(|phase| phase.ops.len()).sum();
            effects.push(Effect::Event(Event::StepsLeftOut { sets }));
            return Err(sets);
        }
        if let Some(phase) = left.first().filter(|phase| phase.wait_before_ns > 0) {
            let wait = Wait {
                until: ctx.now + Duration::from_nanos(phase.wait_before_ns),
                wait_ns: phase.wait_before_ns,
                phase: number + 1,
                phases: phases.len(),
                label: phase.label,
            };
            self.pause.begin(wait, ctx.now);
            effects.push(Effect::Event(Event::Draining { wait }));
        }
        Ok(())
    }

    fn waits(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) -> bool {
        if self.pause.asks(ctx.now, ctx.config.poll_interval) {
            effects.push(Effect::AskOwnPort);
        }
        // A wait for packets by unknown entries may be too short for packets by known entries.
        let over = self.pause.end_if_over(ctx.now);
        if over.is_some_and(|wait| wait.is_longer_than(self.outcome.fog)) {
            self.traffic.taken.clear();
            self.traffic.has_drained = true;
        }
        self.pause.wait().is_some()
    }

    fn request(&mut self, _: &Ctx<'_>, id: SetId) -> Option<Request> {
        let outcome = Arc::clone(&self.outcome);
        let op = &outcome.changes.value().phases[id.phase].ops[id.op];
        if self.is_pointless(op) {
            return None;
        }
        let smp = self.build(op).map(|smp| smp.shown(self.shown_by(op)));
        self.is_torn |= smp.is_none() && matches!(op, Op::Lft { .. });
        Some(Request {
            agent: AgentId(op.node().0),
            smp: smp?,
            is_first: self.busiest.contains(&op.node()),
        })
    }

    /// Handles the end of a Set. A Set counts as acknowledged only if the agent now holds the requested contents.
    fn ended(&mut self, id: SetId, answer: Option<&Mad>, effects: &mut Vec<Effect>) -> bool {
        let outcome = Arc::clone(&self.outcome);
        let op = &outcome.changes.value().phases[id.phase].ops[id.op];
        let result = match answer {
            None => Err("no answer".to_owned()),
            Some(mad) if mad.status().0 != 0 => Err(format!("status {:#06x}", mad.status().0)),
            Some(mad) => self.check(op, mad, effects),
        };
        let Err(why) = result else { return true };
        if answer.is_none() {
            self.forget(op);
        }
        self.note_failed(op, answer.is_some());
        let what = self.describe(op);
        effects.push(Effect::Event(Event::SetFailed { what, why }));
        false
    }

    /// Called when a request was left out: the record of its agent's contents stays unchanged.
    fn left_out(&mut self, id: SetId) {
        let outcome = Arc::clone(&self.outcome);
        self.note_failed(&outcome.changes.value().phases[id.phase].ops[id.op], false);
    }

    /// Handles the end of a Get to the local port. If the port did not answer, its agent may only be busy, so the plan
    /// goes on.
    fn own_port_answered(&mut self, answer: Option<&Mad>, effects: &mut Vec<Effect>) {
        if self.pause.answered(self.fabric.port(self.inventory.local), answer) {
            effects.push(Effect::Sweep(SweepReason::Overtaken));
        }
    }
}

impl PlanSets {
    /// True for the activation of a port if an earlier Set at either end of its link has failed.
    fn is_pointless(&self, op: &Op) -> bool {
        let failed = |end: PortRef| self.failures.ports.contains(&end) || self.failures.nodes.contains(&end.node);
        match op {
            Op::Port {
                port,
                state: Some(PortState::Active),
                ..
            } => failed(*port) || self.fabric.peer(*port).is_some_and(failed),
            // Entries that were not replaced may still lead over the link.
            Op::Link {
                order: LinkOrder::Disable,
                ..
            } => !self.failures.nodes.is_empty(),
            Op::Link { .. }
            | Op::Port { .. }
            | Op::Lft { .. }
            | Op::Switch { .. }
            | Op::PKeys { .. }
            | Op::SlToVl { .. }
            | Op::Arbitration { .. } => false,
        }
    }

    fn build(&self, op: &Op) -> Option<Smp> {
        let agent = self.inventory.agents.get(op.node())?;
        Some(match op {
            Op::Lft { block, data, .. } => smp::set(&smp::lft(data), u32::from(*block), &agent.route),
            Op::Switch { settings, .. } => {
                smp::set(&smp::switch_info(agent.switch.as_ref()?, *settings), 0, &agent.route)
            }
            Op::PKeys { port, block, keys } => smp::set(
                &smp::pkeys(keys),
                smp::pkeys_modifier(&self.fabric, *port, *block),
                agent.route_to(port.port),
            ),
            Op::SlToVl { port, rows, lanes } => {
                let modifier = lane_smp::rows_modifier(self.fabric.node(port.node), port.port, *rows);
                smp::set(&lane_smp::row(lanes), modifier, agent.route_to(port.port))
            }
            Op::Arbitration { port, block, turns } => {
                let modifier = lane_smp::block_modifier(self.fabric.node(port.node), port.port, *block);
                smp::set(&lane_smp::block(turns), modifier, agent.route_to(port.port))
            }
            Op::Port { port, settings, state } => {
                let seen = self.inventory.port_info(*port)?;
                let is_last = !matches!(state, Some(PortState::Armed));
                let info = PortInfo {
                    client_reregister: is_last && self.outcome.asks.includes(&self.fabric, *port),
                    ..smp::port_info(seen, settings, *state)
                };
                let set = smp::set(&info, smp::port_modifier(seen, port.port), agent.route_to(port.port));
                // The key of port 0 guards the whole switch; other ports of a switch have none.
                match *port == self.guard_of(op) {
                    true => set.giving(settings.m_key),
                    false => set,
                }
            }
            Op::Link { port, order } => {
                let seen = self.inventory.port_info(*port)?;
                let held = &self.fabric.port(*port)?.settings;
                let info = smp::link_order(seen, held, *order);
                smp::set(&info, smp::port_modifier(seen, port.port), agent.route_to(port.port))
            }
        })
    }

    /// Returns the M_Key that an agent shows; 0 if it shows none. A key other than the manager's is either a former key
    /// of the manager, or it results from a flipped bit in a Set, or its lease has run out. The first Set of PortInfo
    /// replaces it. Source: IBA vol 1 §14.2.4.1: with M_KeyProtectBits 0 any reader may see and use the key; when a
    /// lease runs out, the bits are cleared.
    fn shown_by(&self, op: &Op) -> u64 {
        smp::shown_by(&self.fabric, self.guard_of(op))
    }

    /// Returns the port with the M_Key that guards the agent of a Set.
    fn guard_of(&self, op: &Op) -> PortRef {
        match op {
            Op::Port { port, .. } | Op::PKeys { port, .. } | Op::SlToVl { port, .. } | Op::Arbitration { port, .. }
                if !self.fabric.node(port.node).is_switch() =>
            {
                *port
            }
            Op::Port { .. }
            | Op::Link { .. }
            | Op::PKeys { .. }
            | Op::Lft { .. }
            | Op::Switch { .. }
            | Op::SlToVl { .. }
            | Op::Arbitration { .. } => PortRef {
                node: op.node(),
                port: PortNum::MANAGEMENT,
            },
        }
    }

    fn note_failed(&mut self, op: &Op, is_answered: bool) {
        match op {
            // An agent without such tables has one lane, and needs none of them.
            Op::SlToVl { .. } | Op::Arbitration { .. } if is_answered => false,
            Op::Port { port, .. }
            | Op::PKeys { port, .. }
            | Op::SlToVl { port, .. }
            | Op::Arbitration { port, .. }
            | Op::Link { port, .. } => self.failures.ports.insert(*port),
            Op::Lft { node, .. } | Op::Switch { node, .. } => self.failures.nodes.insert(*node),
        };
        // A switch that may not have taken its LifeTimeValue may keep packets longer than any wait assumes.
        self.is_torn |= match op {
            Op::Lft { .. } => true,
            Op::Switch { .. } => !is_answered,
            Op::Port { .. } | Op::PKeys { .. } | Op::SlToVl { .. } | Op::Arbitration { .. } | Op::Link { .. } => false,
        };
    }

    /// Handles the end of a Set without an answer: the agent may have executed it, so the contents are unknown.
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

    /// Handles the block in a switch's answer. If it differs from the Set, the switch may hold the block of the Set or
    /// that of the answer, or the answer is corrupt. So the block is marked as unknown, and read again.
    fn told(&mut self, (node, block): (NodeIdx, u16), op: &Op, (want, held): (&[u8; BLOCK_LIDS], [u8; BLOCK_LIDS])) {
        match held == *want {
            true => self.learn(node, block, held),
            false => self.forget(op),
        }
    }

    /// Records the contents of a block as a switch reports them.
    fn learn(&mut self, node: NodeIdx, block: u16, ports: [u8; BLOCK_LIDS]) {
        let Some(switch) = self.fabric.switch_index(node) else {
            return;
        };
        self.note_taken((node, block), &ports);
        self.installed.learn(switch, usize::from(block), ports);
    }

    fn check(&mut self, op: &Op, mad: &Mad, effects: &mut Vec<Effect>) -> Result<(), String> {
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
            Op::Port { port, settings, state } => self.check_port((*port, *state), settings, data, effects),
            Op::Link { port, .. } => self.check_link(*port, data),
        }
    }

    fn check_port(
        &mut self,
        (port, state): (PortRef, Option<PortState>),
        want: &PortSettings,
        data: &SmpData,
        effects: &mut Vec<Effect>,
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
            // A switch that was off does not know where to send traps, so only a sweep finds this.
            effects.push(Effect::Sweep(SweepReason::Overtaken));
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

    /// Handles a port that was ACTIVE and no longer is. Its node may have been off since its last answer, and a later
    /// Set may have given the port its LID again. Its lane tables become unknown.
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
            Op::Link { port, order } => {
                let word = match order {
                    LinkOrder::Down => "to Down",
                    LinkOrder::Disable => "to Disabled",
                    LinkOrder::Poll => "to Polling",
                };
                format!("PortInfo of {} ({word})", self.fabric.port_name(*port))
            }
        }
    }
}

/// Returns the nodes with the most Sets in a phase. These Sets decide how long the phase takes: the Sets of all other
/// nodes, sent in parallel, take no longer than those of one such node.
fn busiest(phase: &Phase) -> BTreeSet<NodeIdx> {
    /// The number of agents over which a window of SMPs is spread.
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

/// Names the first setting that an agent did not take.
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
