//! Judges SLtoVLMappingTables and VLArbitrationTables: complete at the end of a change set, and written in a safe
//! order.
//!
//! If the routes are proved to have no cycle on a single lane, these tables cannot create one: a cycle over links with
//! several lanes would also be a cycle over the same links with one lane. Two faults remain: packets on a lane that the
//! link does not have are dropped, and packets on a lane that the arbiter never serves wait for ever. If the routes are
//! proved on several lanes, the tables must map service levels as in the proof.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{
    ArbBlock, HeldLanes, Installed, LaneRows, LaneTable, Op, Plan, has_sl_mapping, link_lanes, ports_in_use, tables_of,
};
use selvedge_types::{PortNum, PortState, Sl, Vl};

use crate::by_port::ByPort;
use crate::finding::{Attribute, Fault, Finding, LaneFault, Place, Severity};
use crate::quality;

/// Replays the Sets of lane tables.
pub struct LaneReplay<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    held: Arc<HeldLanes>,
    /// Tables in force before the change set.
    before: Arc<HeldLanes>,
    /// Phase of the last Set that affects packets through a port.
    touched: ByPort<Option<u32>>,
    /// Phase of the first Set of a port's settings.
    settings: ByPort<Option<u32>>,
    /// Phase of the first Set of a port's VLArbitrationTable.
    turns: ByPort<Option<u32>>,
    /// Rows of SLtoVLMappingTable towards each port, with their phases.
    rows: Vec<(PortRef, LaneRows, [Vl; Sl::COUNT], u32)>,
    drain: Drain,
}

/// Lanes that rows no longer use, with packets that may still be on them.
#[derive(Debug)]
struct Drain {
    /// Time for packets to leave a switch or to be dropped, in nanoseconds.
    bound_ns: u64,
    /// Sum of the waits before the phases so far, in nanoseconds.
    now_ns: u64,
    /// For each lane of a port: when a row to it was last replaced.
    left: BTreeMap<(PortRef, Vl), u64>,
    /// Ports with new arbitration tables in the current phase.
    written: BTreeSet<PortRef>,
    /// Lanes that lose their turn too early.
    cut: Vec<(PortRef, Vl)>,
    /// Lanes without a turn when rows to them were written.
    early: Vec<(PortRef, Vl)>,
}

impl<'a> LaneReplay<'a> {
    /// `bound_ns` is the time for packets to leave a switch or to be dropped.
    pub fn new(fabric: &'a Fabric, installed: &Installed, plan: &'a Plan, bound_ns: u64) -> Self {
        Self {
            fabric,
            plan,
            held: Arc::clone(&installed.lanes),
            before: Arc::clone(&installed.lanes),
            touched: ByPort::filled(fabric, None),
            settings: ByPort::filled(fabric, None),
            turns: ByPort::filled(fabric, None),
            rows: Vec::new(),
            drain: Drain {
                bound_ns,
                now_ns: 0,
                left: BTreeMap::new(),
                written: BTreeSet::new(),
                cut: Vec::new(),
                early: Vec::new(),
            },
        }
    }

    /// Begins a phase after a wait.
    pub const fn begin(&mut self, wait_ns: u64) {
        self.drain.now_ns = self.drain.now_ns.saturating_add(wait_ns);
    }

    /// Ends a phase: finds lanes that new arbitration tables no longer serve, although packets may be on them.
    pub fn end(&mut self) {
        // A plan that only spreads packets over another number of lanes changes its tables at once.
        let tables = self.plan.lane_tables.as_ref();
        if !tables.is_some_and(|tables| tables.qos.is_some() || tables.lanes <= 1) {
            return;
        }
        for port in std::mem::take(&mut self.drain.written) {
            let is_active = self
                .fabric
                .port(port)
                .is_some_and(|seen| seen.link.state == PortState::Active);
            if !is_active {
                continue;
            }
            let mut used = self.lanes_in_use(port);
            let Drain {
                left, bound_ns, now_ns, ..
            } = &self.drain;
            let on_port = left.range((port, Vl::default())..=(port, Vl::MANAGEMENT));
            let recent = on_port.filter(|(_, since)| now_ns.saturating_sub(**since) < *bound_ns);
            recent.for_each(|((_, vl), _)| used |= 1 << vl.get());
            // Lanes that the plan itself leaves without a turn are judged by the plan alone.
            let idle = quality::lanes_without_turn(self.plan, port);
            let unserved = lanes_of(used & !idle).find(|vl| !self.is_served(port, *vl));
            self.drain.cut.extend(unserved.map(|vl| (port, vl)));
        }
    }

    /// Returns the lanes that known rows towards a port use, as bits; lane 15 too, which drops packets.
    fn lanes_in_use(&self, port: PortRef) -> u16 {
        let node = self.fabric.node(port.node);
        let external = node.external_ports().map(|(ingress, _)| ingress);
        let ingresses = std::iter::once(PortNum::MANAGEMENT).chain(external);
        let rows = ingresses.filter_map(|ingress| self.held.row(node.guid, port.port, ingress));
        rows.flatten().fold(0, |lanes, vl| lanes | 1 << vl.get())
    }

    /// Replays a Set. True if it matches the plan.
    pub fn write(&mut self, op: &Op, phase: u32) -> bool {
        match op {
            Op::SlToVl { port, rows, lanes } => self.write_rows(*port, *rows, lanes, phase),
            Op::Arbitration { port, block, turns } => {
                if self.fabric.port(*port).is_none() {
                    return false;
                }
                if self.turns.get(*port).flatten().is_none() {
                    self.turns.set(*port, Some(phase));
                }
                self.touched.set(*port, Some(phase));
                self.drain.written.insert(*port);
                let guid = self.fabric.node(port.node).guid;
                let as_planned = self.plan.arbitration(self.fabric, *port, *block) == Some(*turns);
                let is_fine = as_planned || self.is_between(*port, turns);
                Arc::make_mut(&mut self.held).learn_turns(guid, port.port, *block, *turns);
                is_fine
            }
            Op::Port { port, .. } => {
                if self.settings.get(*port).flatten().is_none() {
                    self.settings.set(*port, Some(phase));
                }
                true
            }
            Op::Lft { .. } | Op::Switch { .. } | Op::PKeys { .. } | Op::Link { .. } => true,
        }
    }

    /// True if an arbitration table only serves lanes that the planned tables of the port serve, or that packets are on
    /// by rows in force. Such a table lets packets drain before the planned one is written.
    fn is_between(&self, port: PortRef, turns: &ArbBlock) -> bool {
        let is_planned = |vl: Vl| {
            let mut blocks = (1..=4).filter_map(|block| self.plan.arbitration(self.fabric, port, block));
            blocks.any(|block| block.turns.iter().any(|turn| turn.0 == vl && turn.1 > 0))
        };
        let used = self.lanes_in_use(port);
        let mut lanes = turns.turns.iter().filter(|turn| turn.1 > 0).map(|turn| turn.0);
        used > 0 && lanes.all(|vl| used >> vl.get() & 1 == 1 || is_planned(vl))
    }

    fn write_rows(&mut self, port: PortRef, rows: LaneRows, lanes: &[Vl; Sl::COUNT], phase: u32) -> bool {
        if self.fabric.port(port).is_none() {
            return false;
        }
        let node = self.fabric.node(port.node);
        let at = |port_num: PortNum| PortRef {
            node: port.node,
            port: port_num,
        };
        let egresses = match rows {
            LaneRows::Whole => ports_in_use(self.fabric, self.plan, port.node).egress,
            LaneRows::FromAll | LaneRows::From(_) => vec![port.port],
        };
        let ingresses = match rows {
            LaneRows::From(ingress) => vec![ingress],
            LaneRows::FromAll | LaneRows::Whole => node.all_ports().map(|(port, _)| port).collect(),
        };
        for &touched in egresses.iter().chain(&ingresses) {
            self.touched.set(at(touched), Some(phase));
        }
        for &egress in &egresses {
            let before = ingresses
                .iter()
                .filter_map(|&ingress| self.held.row(node.guid, egress, ingress));
            let left = before.flatten().fold(0, |lanes, vl| lanes | 1 << vl.get());
            self.drain
                .left
                .extend(lanes_of(left).map(|vl| ((at(egress), vl), self.drain.now_ns)));
        }
        for &egress in &egresses {
            let unserved = lanes
                .iter()
                .find(|vl| **vl != Vl::MANAGEMENT && !self.is_served(at(egress), **vl));
            self.drain.early.extend(unserved.map(|vl| (at(egress), *vl)));
        }
        let held = Arc::make_mut(&mut self.held);
        held.learn_rows(node.guid, port.port, rows, node.port_count(), *lanes);
        self.rows.push((port, rows, *lanes, phase));
        let is_one = matches!(rows, LaneRows::From(_));
        let knows_wildcards = node.switch.as_ref().is_some_and(|switch| switch.optimized_sl2vl);
        let as_planned = |egress: PortNum| {
            let mut ingresses = ingresses.iter();
            ingresses.all(|&ingress| self.plan.row(at(egress), ingress) == Some(*lanes))
        };
        (is_one || knows_wildcards) && has_sl_mapping(node, port.port) && egresses.into_iter().all(as_planned)
    }

    /// Returns the last phase that wrote something on which packets through a port depend.
    pub fn touched(&self, port: PortRef) -> Option<u32> {
        self.touched.get(port).flatten()
    }

    /// Returns the faults at the end of the change set and in its order.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let Some(tables) = &self.plan.lane_tables else {
            return found;
        };
        let relied_on = (&self.plan.service_levels, &tables.levels);
        if self.plan.lanes > 1 && relied_on.0 != relied_on.1 {
            let place = Place {
                node_guid: selvedge_types::Guid::NONE,
                port: None,
                name: "the plan".to_owned(),
            };
            found.push(lane_error(place, Sl::default(), Vl::default(), LaneFault::NotProved));
        }
        for node in self.fabric.nodes().indices() {
            let in_use = ports_in_use(self.fabric, self.plan, node);
            for table in tables_of(self.fabric, node, &in_use) {
                self.check(table, &mut found);
            }
        }
        for &(port, vl) in &self.drain.cut {
            let place = Place::port(self.fabric, port);
            found.push(lane_error(place, Sl::default(), vl, LaneFault::Cut));
        }
        // Other lanes without a turn are found above, or their tables come in the same phase or later.
        let in_steps = |(port, vl): &&(PortRef, Vl)| {
            let first = self.turns.get(*port).flatten();
            let is_to_it = |row: &&(PortRef, LaneRows, _, u32)| {
                row.0 == *port || (row.1 == LaneRows::Whole && row.0.node == port.node)
            };
            let mut rows = self.rows.iter().filter(is_to_it);
            self.is_served(*port, *vl) && rows.all(|row| first.is_some_and(|first| first < row.3))
        };
        for &(port, vl) in self.drain.early.iter().filter(in_steps) {
            let place = Place::port(self.fabric, port);
            found.push(lane_error(place, Sl::default(), vl, LaneFault::Early));
        }
        // What tables of quality of service give to each service level is judged by the plan alone.
        found.extend(quality::findings(self.fabric, self.plan));
        found.extend(quality::former(self.fabric, self.plan, &self.before));
        for &(port, rows, lanes, phase) in &self.rows {
            if rows != LaneRows::Whole {
                self.check_order((port, &lanes, phase), &mut found);
                continue;
            }
            for egress in ports_in_use(self.fabric, self.plan, port.node).egress {
                let port = PortRef { port: egress, ..port };
                self.check_order((port, &lanes, phase), &mut found);
            }
        }
        found
    }

    /// Checks a table at the end of the change set.
    fn check(&self, table: LaneTable, found: &mut Vec<Finding>) {
        let port = table.port();
        let Some(settings) = self.plan.ports.get(&port) else {
            return;
        };
        let (guid, link) = (self.fabric.node(port.node).guid, link_lanes(settings));
        let place = || Place::port(self.fabric, port);
        let missing = |attribute| {
            let place = place();
            Finding::new(Severity::Error, Fault::ChangeMissing { place, attribute })
        };
        let LaneTable::SlToVl { ingress, .. } = table else {
            let LaneTable::Arbitration { block, .. } = table else {
                return;
            };
            let wanted = self.plan.arbitration(self.fabric, port, block);
            if wanted.is_some() && self.held.turns(guid, port.port, block) != wanted.as_ref() {
                found.push(missing(Attribute::VlArbitration(block)));
            }
            return;
        };
        let Some(row) = self.held.row(guid, port.port, ingress) else {
            found.push(missing(Attribute::SlToVl(ingress)));
            return;
        };
        if Some(*row) != self.plan.row(port, ingress) {
            found.push(missing(Attribute::SlToVl(ingress)));
        }
        if self
            .plan
            .lane_tables
            .as_ref()
            .is_some_and(|tables| tables.qos.is_some())
        {
            return;
        }
        let switch = self.fabric.switch_index(port.node);
        for (sl, &vl) in (0_u8..16).filter_map(Sl::new).zip(row) {
            let proved = |switch| self.plan.sl_to_vl.vl(switch, ingress, port.port, sl);
            let why = if vl.get() >= link {
                LaneFault::NoSuchLane
            } else if !self.is_served(port, vl) {
                LaneFault::NeverServed
            } else if self.plan.lanes > 1 && switch.is_some_and(|switch| proved(switch) != vl) {
                LaneFault::NotProved
            } else {
                continue;
            };
            found.push(lane_error(place(), sl, vl, why));
            return;
        }
    }

    /// True if the arbiter of a port serves the lane. An arbiter without tables serves all lanes.
    fn is_served(&self, port: PortRef, vl: Vl) -> bool {
        let guid = self.fabric.node(port.node).guid;
        let Some(capability) = self.fabric.port(port).map(|seen| seen.capability) else {
            return false;
        };
        let mut blocks = ArbBlock::blocks_of(&capability).peekable();
        if blocks.peek().is_none() {
            return true;
        }
        let has_turn = |turn: &(Vl, u8)| turn.0 == vl && turn.1 > 0;
        blocks.any(|block| {
            let turns = self.held.turns(guid, port.port, block);
            turns.is_some_and(|block| block.turns.iter().any(has_turn))
        })
    }

    /// Checks that the link and the arbiter have a lane before packets are put on it.
    fn check_order(&self, (port, lanes, phase): (PortRef, &[Vl; Sl::COUNT], u32), found: &mut Vec<Finding>) {
        // Lane 15 is no lane of the link: it drops packets.
        let data = lanes.iter().filter(|vl| **vl != Vl::MANAGEMENT);
        let highest = data.map(|vl| vl.get()).max().unwrap_or(0);
        if highest == 0 {
            return;
        }
        let ends = [Some(port), self.fabric.peer(port)];
        let has_lanes = |at: PortRef| {
            let seen = self
                .fabric
                .port(at)
                .is_some_and(|seen| link_lanes(&seen.settings) > highest);
            // An end that already has the lanes may be written again for another reason.
            seen || self.settings.get(at).flatten().is_none_or(|written| written < phase)
        };
        let is_early = !ends.into_iter().flatten().all(has_lanes)
            || self.turns.get(port).flatten().is_some_and(|written| written >= phase);
        if is_early {
            let vl = Vl::new(highest).unwrap_or_default();
            found.push(lane_error(
                Place::port(self.fabric, port),
                Sl::default(),
                vl,
                LaneFault::Early,
            ));
        }
    }
}

/// Returns the data lanes of a set of bits.
fn lanes_of(bits: u16) -> impl Iterator<Item = Vl> {
    let lanes = (0..15).filter(move |lane| bits >> lane & 1 == 1);
    lanes.filter_map(Vl::new)
}

const fn lane_error(port: Place, sl: Sl, vl: Vl, why: LaneFault) -> Finding {
    Finding::new(Severity::Error, Fault::Lane { port, sl, vl, why })
}

#[cfg(test)]
mod tests {
    use selvedge_plan::{
        ChangeSet, ENFORCE, EndPortPlan, LaneTables, PartEnforce, Phase, ServiceLevels, SlToVl, changes,
    };

    use super::*;
    use crate::{support, transition};

    /// Returns two switches with a host each, and a plan that uses four lanes.
    fn start(state: PortState) -> (Fabric, Plan) {
        let mut net = support::Net::new(2, 4);
        net.link(0, 1).host(0).host(1);
        let keys: Vec<_> = net.builder().nodes().map(|(key, _)| key).collect();
        for key in keys {
            let node = net.builder().node_mut(key);
            let ports: Vec<PortNum> = node.all_ports().map(|(port, _)| port).collect();
            for port in ports {
                node.port_mut(port).unwrap().capability.mask = 1 << 6;
            }
        }
        let fabric = net.finish(state);
        let lids = support::lids(&fabric, 0);
        let tables = support::minhop(&fabric, &lids);
        let mut plan = support::plan(&fabric, lids, tables);
        plan.lane_tables = Some(LaneTables {
            lanes: 4,
            copies: None,
            levels: ServiceLevels::default(),
            qos: None,
        });
        (fabric, plan)
    }

    /// Compares the codes of the findings with the expected ones. `edit` changes the plan and the change set first.
    fn check(state: PortState, edit: impl FnOnce(&mut Plan, &mut ChangeSet), want: &[&str]) {
        check_plan(start(state), edit, want);
    }

    fn check_plan((fabric, mut plan): (Fabric, Plan), edit: impl FnOnce(&mut Plan, &mut ChangeSet), want: &[&str]) {
        let installed = Installed::unknown(2);
        let mut set = changes(&fabric, &installed, &plan);
        edit(&mut plan, &mut set);
        let found = transition::findings(&fabric, &installed, &plan, &set);
        let codes: Vec<_> = found.iter().map(|f| &f.code["SLV-JUDGE-".len()..]).collect();
        let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(codes, want, "{texts:?}");
    }

    fn take(set: &mut ChangeSet, which: impl Fn(&Op) -> bool) -> Op {
        let phase = set
            .phases
            .iter_mut()
            .find(|phase| phase.ops.iter().any(&which))
            .unwrap();
        let at = phase.ops.iter().position(&which).unwrap();
        phase.ops.remove(at)
    }

    const fn is_row(op: &Op) -> bool {
        matches!(op, Op::SlToVl { .. })
    }

    const fn is_turns(op: &Op) -> bool {
        matches!(op, Op::Arbitration { block: 1, .. })
    }

    #[test]
    fn a_computed_change_set_passes() {
        for state in [PortState::Init, PortState::Armed, PortState::Active] {
            check(state, |_, _| {}, &[]);
        }
    }

    /// A link that carries packets gains lanes in the Set that also switches on partition enforcement: after the P_Keys
    /// and before the SLtoVL rows.
    #[test]
    fn lanes_come_with_enforcement_and_before_rows() {
        let enforcing = || {
            let (fabric, mut plan) = start(PortState::Active);
            let is_host = |at: &PortRef| fabric.switch_index(at.node).is_none();
            let host = plan.end_ports.keys().copied().find(is_host).unwrap();
            let at = fabric.peer(host).unwrap();
            plan.ports.get_mut(&at).unwrap().enforcement = PartEnforce::Both.bits();
            let pkeys = plan.end_ports[&host].pkeys.clone();
            plan.end_ports.insert(at, EndPortPlan { pkeys });
            (fabric, plan)
        };
        check_plan(enforcing(), |_, _| {}, &[]);
        let place = |set: &ChangeSet, label| set.phases.iter().position(|phase| phase.label == label);
        let late = |_: &mut Plan, set: &mut ChangeSet| {
            let enforce = set.phases.remove(place(set, ENFORCE).unwrap());
            set.phases.push(enforce);
        };
        check_plan(enforcing(), late, &["0039"; 4]);
        let early = |_: &mut Plan, set: &mut ChangeSet| {
            let enforce = set.phases.remove(place(set, ENFORCE).unwrap());
            set.phases[0].ops.extend(enforce.ops);
        };
        check_plan(enforcing(), early, &["0038"]);
    }

    #[test]
    fn what_is_left_out_is_missed() {
        check(PortState::Active, |_, set| drop(take(set, is_row)), &["0030"]);
        // Without the VLArbitrationTable Sets, no lane of the port is served either.
        let without_turns = |_: &mut Plan, set: &mut ChangeSet| drop(take(set, is_turns));
        check(PortState::Active, without_turns, &["0030", "0039", "0039", "0039"]);
    }

    #[test]
    fn what_the_plan_does_not_say_is_found() {
        let other = |_: &mut Plan, set: &mut ChangeSet| {
            if let Op::SlToVl { port, rows, .. } = take(set, is_row) {
                let lanes = SlToVl::modulo(9).default;
                set.phases[1].ops.push(Op::SlToVl { port, rows, lanes });
            }
        };
        // The Set is not in the plan, and lane 4 is never served.
        check(PortState::Active, other, &["0031", "0030", "0039"]);
        let wildcard = |_: &mut Plan, set: &mut ChangeSet| {
            if let Op::SlToVl { port, lanes, .. } = take(set, is_row) {
                let rows = LaneRows::Whole;
                set.phases[1].ops.push(Op::SlToVl { port, rows, lanes });
            }
        };
        check(PortState::Active, wildcard, &["0031"]);
        check(PortState::Active, |plan, _| plan.lane_tables = None, &["0031"; 26]);
    }

    #[test]
    fn rows_come_after_links_and_arbiters_and_before_ports_are_active() {
        let early = |_: &mut Plan, set: &mut ChangeSet| {
            let rows = set.phases.remove(1).ops;
            set.phases[0].ops.extend(rows);
        };
        check(PortState::Active, early, &["0039"; 14]);
        let late = |_: &mut Plan, set: &mut ChangeSet| {
            let rows = set.phases.remove(1).ops;
            set.phases[1].ops.extend(rows);
        };
        check(PortState::Init, late, &["0032"; 6]);
    }

    /// Returns the tables of agents that hold a plan.
    fn held_of(fabric: &Fabric, plan: &Plan) -> HeldLanes {
        let mut held = HeldLanes::default();
        for node in fabric.nodes().indices() {
            let (n, in_use) = (fabric.node(node), ports_in_use(fabric, plan, node));
            for table in tables_of(fabric, node, &in_use) {
                let port = table.port();
                match table {
                    LaneTable::SlToVl { ingress, .. } => {
                        let row = plan.row(port, ingress).unwrap();
                        held.learn_rows(n.guid, port.port, LaneRows::From(ingress), n.port_count(), row);
                    }
                    LaneTable::Arbitration { block, .. } => {
                        let turns = plan.arbitration(fabric, port, block).unwrap();
                        held.learn_turns(n.guid, port.port, block, turns);
                    }
                }
            }
        }
        held
    }

    /// Tables for four lanes are in force, and the plan uses one of them.
    #[test]
    fn a_lane_has_a_turn_until_it_is_empty() {
        let (fabric, mut plan) = start(PortState::Active);
        let held = held_of(&fabric, &plan);
        plan.lane_tables.as_mut().unwrap().lanes = 1;
        let installed = Installed {
            lanes: Arc::new(held),
            ..Installed::unknown(2)
        };
        let set = changes(&fabric, &installed, &plan);
        let bound = crate::phases::drain_bound_ns(crate::phases::lifetimes(&fabric, &set), 1).unwrap();
        let cut = |set: &ChangeSet| {
            let found = transition::findings(&fabric, &installed, &plan, set);
            let is_cut = |f: &Finding| {
                matches!(
                    &f.fault,
                    Fault::Lane {
                        why: LaneFault::Cut,
                        ..
                    }
                )
            };
            assert!(found.iter().all(is_cut), "{found:?}");
            found.len()
        };
        assert_eq!(cut(&set), plan.ports.len() - 2, "all ports but port 0 of both switches");
        // The arbiters follow the rows, and wait for the packets on the other lanes.
        let mut late = set;
        let is_turns = |op: &Op| matches!(op, Op::Arbitration { .. });
        let ops = late.phases[0].ops.extract_if(.., |op| is_turns(op)).collect();
        let wait = |wait_before_ns, late: &ChangeSet| {
            let mut set = late.clone();
            let label = "turns";
            set.phases.push(Phase {
                label,
                wait_before_ns,
                ops: Vec::clone(&ops),
            });
            set.phases.retain(|phase| !phase.ops.is_empty());
            set
        };
        assert_eq!(cut(&wait(bound, &late)), 0);
        assert_eq!(cut(&wait(bound - 1, &late)), plan.ports.len() - 2);
        // Tables between may serve both kinds of lanes, but no other lane.
        let mut other = wait(bound, &late);
        let between = |lane: u8| {
            let port = *plan.ports.keys().find(|at| at.port != PortNum::MANAGEMENT).unwrap();
            let mut turns = plan.arbitration(&fabric, port, 1).unwrap();
            turns.turns[1] = (Vl::new(1).unwrap(), 1);
            turns.turns[2] = (Vl::new(2).unwrap(), 1);
            turns.turns[3] = (Vl::new(3).unwrap(), 1);
            turns.turns[4] = (Vl::new(lane).unwrap(), 1);
            Op::Arbitration { port, block: 1, turns }
        };
        other.phases[0].ops.push(between(3));
        assert_eq!(cut(&other), 0);
        *other.phases[0].ops.last_mut().unwrap() = between(5);
        let found = transition::findings(&fabric, &installed, &plan, &other);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].code, "SLV-JUDGE-0031");
    }

    #[test]
    fn rows_say_what_was_proved() {
        let on_lanes = |plan: &mut Plan, _: &mut ChangeSet| {
            plan.lanes = 4;
            plan.sl_to_vl = SlToVl::modulo(4);
        };
        check(PortState::Active, on_lanes, &[]);
        let on_others = |plan: &mut Plan, _: &mut ChangeSet| {
            plan.lanes = 2;
            plan.sl_to_vl = SlToVl::modulo(2);
        };
        check(PortState::Active, on_others, &["0039"; 12]);
        let other_levels = |plan: &mut Plan, _: &mut ChangeSet| {
            plan.lanes = 4;
            plan.sl_to_vl = SlToVl::modulo(4);
            plan.service_levels = ServiceLevels::Uniform(Sl::new(1).unwrap());
        };
        check(PortState::Active, other_levels, &["0039"]);
    }
}
