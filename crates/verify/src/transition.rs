//! Judges a change set: it must write everything in the plan, nothing else, and in a safe order.
//!
//! The Sets are replayed on the current state of the agents. If the result differs from the plan, the Set for the
//! difference is missing. This code does not depend on how the change set was computed.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, NodeIdx, Port, PortRef, PortSettings, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, LaneRows, NO_PATH, Op, Plan, partition::BLOCK_PKEYS};
use selvedge_types::{Idx, PKey, PortNum, PortState};

use crate::by_port::ByPort;
use crate::enforcement;
use crate::finding::{Attribute, Fault, Finding, Place, Severity};
use crate::lane_tables::LaneReplay;
use crate::phases;

/// Returns all findings about a change set.
pub fn findings(fabric: &Fabric, installed: &Installed, plan: &Plan, changes: &ChangeSet) -> Vec<Finding> {
    let mut replay = Replay {
        fabric,
        plan,
        installed,
        blocks: vec![None; plan.tables.switches() * plan.tables.blocks()],
        wanted: ByPort::filled(fabric, None),
        switches: vec![None; fabric.switches().len()],
        pkeys: ByPort::filled(fabric, None),
        pkey_blocks: BTreeSet::new(),
        ports: ByPort::filled(fabric, None),
        latest: None,
        is_live: phases::is_live(fabric),
        last_wait: None,
        states: ByPort::filled(fabric, None),
        lanes: LaneReplay::new(fabric, installed, plan, drain_ns(fabric, changes)),
        found: Vec::new(),
    };
    for (&at, settings) in &plan.ports {
        replay.wanted.set(at, Some(settings));
    }
    if changes.generation != plan.generation {
        replay.error(Fault::Generation {
            plan: plan.generation.0,
            changes: changes.generation.0,
        });
    }
    for (phase, number) in changes.phases.iter().zip(0_u32..) {
        if phase.wait_before_ns > 0 {
            replay.last_wait = Some(number);
        }
        replay.lanes.begin(phase.wait_before_ns);
        for op in &phase.ops {
            replay.write(op, number);
        }
        replay.lanes.end();
        replay.change_states(&phase.ops);
    }
    replay.missing(installed);
    let of_lanes = replay.lanes.findings();
    replay.found.extend(of_lanes);
    for (phase, number) in changes.phases.iter().zip(0_u32..) {
        for op in &phase.ops {
            replay.activation(op, number);
        }
    }
    replay.found.extend(enforcement::findings(fabric, plan, changes));
    replay.found
}

/// Returns the time for packets to leave a switch or to be dropped, in nanoseconds. If switches drop no packets, a
/// second: OpenSM's lifetime.
fn drain_ns(fabric: &Fabric, changes: &ChangeSet) -> u64 {
    const SECOND_NS: u64 = 1_000_000_000;
    phases::drain_bound_ns(phases::lifetimes(fabric, changes), 1).unwrap_or(SECOND_NS)
}

/// What a Set writes, other than forwarding tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Switch(SwitchIdx),
    PKeys(PortRef),
    Port(PortRef),
}

/// The last Set of tables or settings of a switch, with its phase.
#[derive(Clone, Copy, Debug)]
struct Latest {
    phase: u32,
    node: NodeIdx,
    attribute: Attribute,
}

/// The last Set of an LFT block.
#[derive(Clone, Copy, Debug)]
struct Written<'a> {
    data: &'a [u8; BLOCK_LIDS],
    /// True if the block equals the plan, or if the difference is reported already.
    is_done: bool,
}

struct Replay<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    installed: &'a Installed,
    /// The last Set of each LFT block, block by block.
    blocks: Vec<Option<Written<'a>>>,
    /// The plan's settings of each port.
    wanted: ByPort<Option<&'a PortSettings>>,
    /// The phase in which each SwitchInfo was last written.
    switches: Vec<Option<u32>>,
    /// The phase in which each P_KeyTable was last written.
    pkeys: ByPort<Option<u32>>,
    /// Written blocks of P_KeyTables. Faults in them are reported already.
    pkey_blocks: BTreeSet<(PortRef, u16)>,
    /// The phase in which each PortInfo was last written.
    ports: ByPort<Option<u32>>,
    /// The last Set on which every active port depends.
    latest: Option<Latest>,
    /// True if packets may be in flight between switches.
    is_live: bool,
    /// The last phase that waits for packets to drain.
    last_wait: Option<u32>,
    /// Port states that were changed.
    states: ByPort<Option<PortState>>,
    lanes: LaneReplay<'a>,
    found: Vec<Finding>,
}

impl<'a> Replay<'a> {
    fn error(&mut self, fault: Fault) {
        self.found.push(Finding::new(Severity::Error, fault));
    }

    /// Records a Set if it matches the plan.
    fn write(&mut self, op: &'a Op, phase: u32) {
        let plan = self.plan;
        let as_planned = match op {
            Op::Lft { node, block, data } => self.block_index(*node, *block).is_some_and(|(switch, index)| {
                let goal = plan.tables.block(switch, usize::from(*block));
                let is_goal = goal == data;
                let as_planned = is_goal || self.is_on_the_way(index, switch, data, goal);
                self.blocks[index] = Some(Written {
                    data,
                    is_done: is_goal || !as_planned,
                });
                as_planned
            }),
            Op::Switch { node, settings } => self.fabric.switch_index(*node).is_some_and(|switch| {
                self.switches[switch.to_usize()] = Some(phase);
                plan.switches.get(switch) == Some(settings)
            }),
            Op::PKeys { port, block, keys } => {
                self.pkeys.set(*port, Some(phase));
                self.pkey_blocks.insert((*port, *block));
                let first = usize::from(*block) * BLOCK_PKEYS;
                plan.end_ports.get(port).is_some_and(|want| {
                    let wanted = |place: usize| want.pkeys.get(first + place).copied().unwrap_or_default();
                    let written = |place: usize| keys.get(place).copied().unwrap_or_default();
                    keys.len() <= BLOCK_PKEYS && (0..BLOCK_PKEYS).all(|place| wanted(place) == written(place))
                })
            }
            Op::SlToVl { .. } | Op::Arbitration { .. } => self.lanes.write(op, phase),
            Op::Port { port, settings, .. } => {
                self.lanes.write(op, phase);
                self.ports.set(*port, Some(phase));
                self.wanted.get(*port).flatten() == Some(settings)
            }
            // Judged in `out_of_service`.
            Op::Link { .. } => true,
        };
        if let (Op::Lft { node, .. } | Op::Switch { node, .. }, None) = (op, self.latest.filter(|l| l.phase >= phase)) {
            let (node, attribute) = (*node, attribute_of(op));
            self.latest = Some(Latest { phase, node, attribute });
        }
        if !as_planned {
            let attribute = attribute_of(op);
            let place = match op {
                Op::Lft { node, .. } | Op::Switch { node, .. } => Place::node(self.fabric, *node),
                Op::PKeys { port, .. }
                | Op::SlToVl { port, .. }
                | Op::Arbitration { port, .. }
                | Op::Port { port, .. }
                | Op::Link { port, .. } => Place::port(self.fabric, *port),
            };
            self.error(Fault::ChangeBeyond { place, attribute });
        }
    }

    /// True if each entry is the old value, the planned value, or 255: a later phase writes the rest.
    fn is_on_the_way(&self, index: usize, switch: SwitchIdx, data: &[u8; BLOCK_LIDS], goal: &[u8; BLOCK_LIDS]) -> bool {
        let block = index / self.plan.tables.switches();
        let known = || self.installed.block(switch, block);
        let held = self.blocks[index].map(|written| written.data).or_else(known);
        let entries = data.iter().zip(goal).enumerate();
        entries
            .filter(|(_, (entry, goal))| entry != goal && **entry != NO_PATH)
            .all(|(i, (entry, _))| held.is_some_and(|held| held[i] == *entry))
    }

    fn block_index(&self, node: NodeIdx, block: u16) -> Option<(SwitchIdx, usize)> {
        let switch = self.fabric.switch_index(node)?;
        let (tables, block) = (&self.plan.tables, usize::from(block));
        let exists = switch.to_usize() < tables.switches() && block < tables.blocks();
        exists.then(|| (switch, block * tables.switches() + switch.to_usize()))
    }

    /// Updates the states of ports after a phase. Its Sets may arrive in any order, so each port may have only one new
    /// state.
    ///
    /// Source: IBA vol 1 §14.2.5.6: an agent accepts INIT to ARMED and ARMED to ACTIVE, and each state to itself.
    fn change_states(&mut self, ops: &[Op]) {
        let goal = |op: &Op| match op {
            Op::Port { port, state, .. } => state.map(|state| (*port, state)),
            Op::Lft { .. }
            | Op::Switch { .. }
            | Op::PKeys { .. }
            | Op::SlToVl { .. }
            | Op::Arbitration { .. }
            | Op::Link { .. } => None,
        };
        let mut goals: Vec<(PortRef, PortState)> = ops.iter().filter_map(goal).collect();
        goals.sort_unstable();
        goals.dedup();
        for goals in goals.chunk_by(|a, b| a.0 == b.0) {
            let at = goals[0].0;
            let from = self.state(at);
            for (&(_, to), nth) in goals.iter().zip(0..) {
                let is_legal = matches!(
                    (from, to),
                    (PortState::Init | PortState::Armed, PortState::Armed)
                        | (PortState::Armed | PortState::Active, PortState::Active)
                );
                if !is_legal || nth > 0 {
                    let port = Place::port(self.fabric, at);
                    self.error(Fault::IllegalState { port, from, to });
                }
                self.states.set(at, Some(to));
            }
        }
    }

    fn state(&self, port: PortRef) -> PortState {
        let seen = || self.fabric.port(port).map_or(PortState::Down, |p| p.link.state);
        self.states.get(port).flatten().unwrap_or_else(seen)
    }

    /// Reports what differs from the plan and was not written.
    fn missing(&mut self, installed: &Installed) {
        let (fabric, plan) = (self.fabric, self.plan);
        for (switch, &node) in fabric.switches().iter_enumerated() {
            if (switch.0 as usize) < plan.tables.switches() {
                self.missing_blocks(installed, switch, node);
            }
            let same = plan
                .switches
                .get(switch)
                .is_none_or(|want| fabric.node(node).switch_settings == *want);
            self.expect(same, Target::Switch(switch));
        }
        for (&at, end) in &plan.end_ports {
            // P_Key by P_Key: each one that differs must be in a written block.
            let is_right = |seen: &Port| {
                let places = 0..seen.pkeys.len().max(end.pkeys.len());
                let key = |table: &[PKey], place: usize| table.get(place).copied().unwrap_or_default();
                let is_written = |place: usize| {
                    let block = u16::try_from(place / BLOCK_PKEYS);
                    block.is_ok_and(|block| self.pkey_blocks.contains(&(at, block)))
                };
                let mut unlike = places.filter(|&place| key(&seen.pkeys, place) != key(&end.pkeys, place));
                unlike.all(is_written)
            };
            if !fabric.port(at).is_none_or(is_right) {
                let (place, attribute) = self.describe(Target::PKeys(at));
                self.error(Fault::ChangeMissing { place, attribute });
            }
        }
        for (&at, want) in &plan.ports {
            let Some(seen) = fabric.port(at) else { continue };
            let same = seen.settings == *want;
            self.expect(same, Target::Port(at));
            let waits = matches!(seen.link.state, PortState::Init | PortState::Armed);
            if waits && at.port != PortNum::MANAGEMENT && self.state(at) != PortState::Active {
                let place = Place::port(fabric, at);
                self.error(Fault::ChangeMissing {
                    place,
                    attribute: Attribute::PortState,
                });
            }
        }
    }

    fn missing_blocks(&mut self, installed: &Installed, switch: SwitchIdx, node: NodeIdx) {
        for block in 0..self.plan.tables.blocks() {
            let written = self.blocks[block * self.plan.tables.switches() + switch.to_usize()];
            if written.is_some_and(|written| written.is_done) {
                continue;
            }
            if written.is_none() && installed.block(switch, block) == Some(self.plan.tables.block(switch, block)) {
                continue;
            }
            let attribute = Attribute::LftBlock(u16::try_from(block).unwrap_or(u16::MAX));
            let place = Place::node(self.fabric, node);
            self.error(Fault::ChangeMissing { place, attribute });
        }
    }

    fn expect(&mut self, same: bool, target: Target) {
        let written = match target {
            Target::Switch(switch) => self.switches.get(switch.to_usize()).copied().flatten(),
            // P_Keys are checked block by block above.
            Target::PKeys(_) => None,
            Target::Port(at) => self.ports.get(at).flatten(),
        };
        if same || written.is_some() {
            return;
        }
        let (place, attribute) = self.describe(target);
        self.error(Fault::ChangeMissing { place, attribute });
    }

    fn describe(&self, target: Target) -> (Place, Attribute) {
        match target {
            Target::Switch(switch) => (
                Place::node(self.fabric, self.fabric.switches()[switch]),
                Attribute::SwitchInfo,
            ),
            Target::PKeys(at) => (Place::port(self.fabric, at), Attribute::PKeyTable),
            Target::Port(at) => (Place::port(self.fabric, at), Attribute::PortInfo),
        }
    }

    /// Checks an activation. A port may become ACTIVE only when all tables of all switches, and its own P_Keys, are
    /// acknowledged, because its packets may go anywhere from then on. (Its settings are in the same Set.)
    fn activation(&mut self, op: &Op, phase: u32) {
        let Op::Port {
            port,
            state: Some(PortState::Active),
            ..
        } = op
        else {
            return;
        };
        // If packets are in flight, the transition proof counts ports from the start, whenever they become ACTIVE.
        // Links between switches then come first, so that no entry leads to a link that carries nothing yet. Hosts need
        // not stay inactive while others wait.
        let is_switch = |at: PortRef| self.fabric.switch_index(at.node).is_some();
        let is_link = is_switch(*port) && self.fabric.peer(*port).is_some_and(is_switch);
        let is_counted = self.is_live && (is_link || self.last_wait.is_some_and(|wait| phase < wait));
        let tables = self.latest.filter(|latest| latest.phase >= phase && !is_counted);
        let own = self.pkeys.get(*port).flatten().filter(|&written| written >= phase);
        let lanes = self.lanes.touched(*port).filter(|&written| written >= phase);
        let late = match (lanes, tables, own) {
            (Some(written), _, _) => {
                let attribute = Attribute::SlToVl(PortNum::MANAGEMENT);
                Some((written, Place::port(self.fabric, *port), attribute))
            }
            (None, Some(latest), _) => Some((latest.phase, Place::node(self.fabric, latest.node), latest.attribute)),
            (None, None, Some(written)) => {
                let (place, attribute) = self.describe(Target::PKeys(*port));
                Some((written, place, attribute))
            }
            (None, None, None) => None,
        };
        if let Some((written_in, relies_on, attribute)) = late {
            let port = Place::port(self.fabric, *port);
            self.error(Fault::EarlyActivation {
                port,
                phase,
                relies_on,
                attribute,
                written_in,
            });
        }
    }
}

const fn attribute_of(op: &Op) -> Attribute {
    match op {
        Op::Lft { block, .. } => Attribute::LftBlock(*block),
        Op::Switch { .. } => Attribute::SwitchInfo,
        Op::PKeys { .. } => Attribute::PKeyTable,
        Op::SlToVl { rows, .. } => Attribute::SlToVl(match rows {
            LaneRows::From(ingress) => *ingress,
            LaneRows::FromAll | LaneRows::Whole => PortNum::MANAGEMENT,
        }),
        Op::Arbitration { block, .. } => Attribute::VlArbitration(*block),
        Op::Port { .. } | Op::Link { .. } => Attribute::PortInfo,
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::PortSettings;
    use selvedge_plan::{Phase, changes};

    use super::*;
    use crate::support;

    fn start(state: PortState) -> (Fabric, Plan, Installed) {
        let mut net = support::Net::new(2, 4);
        net.link(0, 1).host(0).host(1);
        let fabric = net.finish(state);
        let lids = support::lids(&fabric, 0);
        let tables = support::minhop(&fabric, &lids);
        let plan = support::plan(&fabric, lids, tables);
        (fabric, plan, Installed::unknown(2))
    }

    /// Compares the codes of the findings after `edit` with the expected ones.
    fn check(state: PortState, edit: impl FnOnce(&mut ChangeSet), want: &[&str]) {
        let (fabric, plan, installed) = start(state);
        let mut set = changes(&fabric, &installed, &plan);
        edit(&mut set);
        let found = findings(&fabric, &installed, &plan, &set);
        let codes: Vec<_> = found.iter().map(|f| &f.code["SLV-JUDGE-".len()..]).collect();
        assert_eq!(
            codes,
            want,
            "{:?}",
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
    }

    fn take(set: &mut ChangeSet, phase: usize, which: impl Fn(&Op) -> bool) -> Op {
        let ops = &mut set.phases[phase].ops;
        let at = ops.iter().position(which).unwrap();
        ops.remove(at)
    }

    const fn is_lft(op: &Op) -> bool {
        matches!(op, Op::Lft { .. })
    }

    #[test]
    fn a_computed_change_set_passes_whatever_the_ports_do() {
        for state in [PortState::Init, PortState::Armed, PortState::Active] {
            check(state, |_| {}, &[]);
        }
    }

    #[test]
    fn nothing_to_do_is_judged_too() {
        let (fabric, plan, mut installed) = start(PortState::Active);
        let empty = ChangeSet {
            generation: plan.generation,
            phases: Vec::new(),
        };
        let missing = findings(&fabric, &installed, &plan, &empty);
        let blocks = |found: &[Finding]| {
            let is_block = |f: &&Finding| f.to_string().contains("LFT block");
            found.iter().filter(is_block).count()
        };
        assert_eq!(blocks(&missing), 2);
        for switch in fabric.switches().indices() {
            installed.learn(switch, 0, *plan.tables.block(switch, 0));
        }
        assert_eq!(blocks(&findings(&fabric, &installed, &plan, &empty)), 0);
    }

    #[test]
    fn what_is_left_out_is_missed() {
        check(PortState::Init, |set| drop(take(set, 0, is_lft)), &["0030"]);
        let is_switch = |op: &Op| matches!(op, Op::Switch { .. });
        check(PortState::Init, |set| drop(take(set, 0, is_switch)), &["0030"]);
        let is_pkeys = |op: &Op| matches!(op, Op::PKeys { .. });
        check(PortState::Init, |set| drop(take(set, 0, is_pkeys)), &["0030"]);
        // Left in ARMED.
        let is_port = |op: &Op| matches!(op, Op::Port { .. });
        check(PortState::Init, |set| drop(take(set, 1, is_port)), &["0030"]);
    }

    #[test]
    fn what_the_plan_does_not_say_is_found() {
        let edit_first = |edit: fn(&mut Op)| move |set: &mut ChangeSet| set.phases[0].ops.iter_mut().for_each(edit);
        let entries = edit_first(|op| {
            if let Op::Lft { data, .. } = op {
                data[1] ^= 1;
            }
        });
        check(PortState::Active, entries, &["0031", "0031"]);
        let blocks = edit_first(|op| {
            if let Op::Lft { block, .. } = op {
                *block = 700;
            }
        });
        check(PortState::Active, blocks, &["0031", "0031", "0030", "0030"]);
        let settings = edit_first(|op| {
            if let Op::Switch { settings, .. } = op {
                settings.linear_top += 1;
            }
        });
        check(PortState::Active, settings, &["0031", "0031"]);
        let keys = edit_first(|op| {
            if let Op::PKeys { keys, .. } = op {
                keys.clear();
            }
        });
        check(PortState::Active, keys, &["0031", "0031", "0031", "0031"]);
        // The P_Keys of another block are not those of the plan.
        let blocks = edit_first(|op| {
            if let Op::PKeys { block, .. } = op {
                *block += 1;
            }
        });
        let of_each = [["0031"; 4], ["0030"; 4]].concat();
        check(PortState::Active, blocks, &of_each);
        let stranger = |set: &mut ChangeSet| {
            let port = PortRef {
                node: NodeIdx(99),
                port: PortNum::MANAGEMENT,
            };
            let settings = PortSettings::default();
            set.phases[0].ops.push(Op::Port {
                port,
                settings,
                state: None,
            });
        };
        check(PortState::Active, stranger, &["0031"]);
        check(
            PortState::Active,
            |set| set.generation = set.generation.next(),
            &["0034"],
        );
    }

    /// A table of several blocks is right when each block that differs was written.
    #[test]
    fn every_block_of_keys_is_written() {
        let check = |left_out: Option<u16>, want: &[&str]| {
            let (fabric, mut plan, installed) = start(PortState::Active);
            let is_host = |at: &PortRef| fabric.switch_index(at.node).is_none();
            let host = plan.end_ports.keys().copied().find(is_host).unwrap();
            let more = (1..70).map(|key| PKey(0x8000 | key));
            plan.end_ports.get_mut(&host).unwrap().pkeys.extend(more);
            let mut set = changes(&fabric, &installed, &plan);
            let is_it = |op: &Op| matches!(op, Op::PKeys { port, .. } if *port == host);
            let written = set.phases.iter().flat_map(|phase| &phase.ops).filter(|op| is_it(op));
            assert_eq!(written.count(), 3);
            for phase in &mut set.phases {
                let is_out = |op: &Op| matches!(op, Op::PKeys { block, .. } if Some(*block) == left_out);
                phase.ops.retain(|op| !(is_it(op) && is_out(op)));
            }
            let found = findings(&fabric, &installed, &plan, &set);
            let codes: Vec<_> = found.iter().map(|f| &f.code["SLV-JUDGE-".len()..]).collect();
            assert_eq!(codes, want, "without block {left_out:?}");
        };
        check(None, &[]);
        for block in 0..3 {
            check(Some(block), &["0030"]);
        }
    }

    #[test]
    fn activation_waits_for_tables() {
        let late_table = |set: &mut ChangeSet| {
            let op = take(set, 0, is_lft);
            set.phases[1].ops.push(op);
        };
        check(PortState::Init, late_table, &["0032"; 6]);
        let later_switch = |set: &mut ChangeSet| {
            let op = take(set, 0, |op| matches!(op, Op::Switch { .. }));
            set.phases.push(Phase {
                wait_before_ns: 0,
                label: "late",
                ops: vec![op],
            });
        };
        check(PortState::Init, later_switch, &["0032"; 6]);
        // The P_Keys of a host matter only for that host's port.
        let late_keys = |set: &mut ChangeSet| {
            let op = take(
                set,
                0,
                |op| matches!(op, Op::PKeys { port, .. } if port.port != PortNum::MANAGEMENT),
            );
            set.phases[1].ops.push(op);
        };
        check(PortState::Init, late_keys, &["0032"]);
        // All in one phase, so the order of the states is not known.
        let at_once = |set: &mut ChangeSet| {
            let ops = set.phases.remove(1).ops;
            set.phases[0].ops.extend(ops);
        };
        let want: Vec<&str> = ["0033"; 6].into_iter().chain(["0032"; 6]).collect();
        check(PortState::Init, at_once, &want);
        // Without being armed first.
        let unarmed = |set: &mut ChangeSet| {
            set.phases[0].ops.iter_mut().for_each(|op| {
                if let Op::Port { state, .. } = op {
                    *state = None;
                }
            });
        };
        check(PortState::Init, unarmed, &["0033"; 6]);
    }
}
