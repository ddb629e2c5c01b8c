//! Drops old entries that the plan does not want before they can take effect.
//!
//! These are entries of three kinds. They lead to links that are about to become ACTIVE, or they are above a
//! LinearFDBTop that is about to be raised. Or they lead to ACTIVE ports behind which no agent answers: a switch that
//! is also reached over another link may be there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, NO_PATH, Op, Phase, Plan, Tables};
use selvedge_types::{Idx, Lid, PortNum, PortState};
use selvedge_verify::Subject;
use selvedge_verify::phases::{self, Links, Measured, PhaseOptions, Proposal, Wake, Write};

use super::WayOptions;
use crate::past::{FOG_LIFETIMES, drain_time, longest};

const LABEL: &str = "drop old entries that lead to links which come up";
const ABOVE: &str = "drop old entries that lie above LinearFDBTop";
const DARK: &str = "drop old entries that lead to agents that do not answer";

/// Drops old entries before they would take effect. Returns the phase that drops them, and the tables of the switches
/// after this phase; `None` if there is no such entry.
///
/// An entry that equals the plan is not dropped, unless it could make packets loop, or wait for each other in a cycle,
/// together with other old entries.
pub fn drop_first(
    fabric: &Fabric,
    installed: &Installed,
    plan: &Plan,
    base: &ChangeSet,
    options: &WayOptions<'_>,
) -> Option<(Installed, Phase)> {
    let silent = silent_ports(fabric);
    if silent.is_empty() && !Wake::may_be_of(fabric, base) {
        return None;
    }
    let held = phases::in_force(installed, plan);
    let wake = Wake::of_changes(fabric, &held, base);
    let dark = into_the_dark(&held, &plan.tables, &silent);
    let all: Vec<Write> = wake.entries(&held).collect();
    let is_planned = |write: &Write| plan.tables.get(write.switch, write.lid) == write.egress;
    let (planned, mut others): (Vec<Write>, Vec<Write>) = all.into_iter().partition(is_planned);
    if !planned.is_empty() && !may_wake(fabric, &held, plan, &others, options) {
        others.extend(planned);
    }
    let top = |write: &Write| fabric.switch(write.switch).switch_settings.linear_top;
    let label = match others.iter().all(|write| write.lid.0 > top(write)) {
        _ if others.is_empty() => DARK,
        true => ABOVE,
        false => LABEL,
    };
    others.extend(dark);
    if others.is_empty() {
        return None;
    }
    let mut blocks: BTreeMap<(usize, SwitchIdx), [u8; BLOCK_LIDS]> = BTreeMap::new();
    for write in &others {
        let (block, column) = (write.lid.index() / BLOCK_LIDS, write.lid.index() % BLOCK_LIDS);
        let data = blocks
            .entry((block, write.switch))
            .or_insert_with(|| *held.block(write.switch, block));
        data[column] = NO_PATH;
    }
    let mut after = installed.clone();
    let mut ops = Vec::with_capacity(blocks.len());
    for ((block, switch), data) in blocks {
        after.learn(switch, block, data);
        ops.push(Op::Lft {
            node: fabric.switches()[switch],
            // Blocks go up to LID 0xBFFF.
            block: block as u16,
            data,
        });
    }
    let phase = Phase {
        label,
        wait_before_ns: 0,
        ops,
    };
    Some((after, phase))
}

/// Returns how long packets of entries that are dropped first may be in flight at places that no proof covers.
///
/// If two switches each have a port behind which no agent answers, a cable may connect these ports. Packets that one
/// switch has just sent over it follow the entries of the other, and no proof considers a cable that is not seen. Zero
/// if no entry that is dropped was for a LID of a switch, or of a port with a link: then these ports are assumed to
/// lead to hosts.
pub fn out_of_sight(fabric: &Fabric, installed: &Installed, plan: &Plan) -> Duration {
    let silent = silent_ports(fabric);
    let switches: BTreeSet<SwitchIdx> = silent.iter().map(|(switch, _)| *switch).collect();
    if switches.len() < 2 || !phases::is_live(fabric) {
        return Duration::ZERO;
    }
    let held = phases::in_force(installed, plan);
    let is_seen = |write: &Write| {
        let owner = plan.lids.owner(write.lid);
        owner.is_some_and(|at| at.port == PortNum::MANAGEMENT || fabric.link_is_up(at))
    };
    if !into_the_dark(&held, &plan.tables, &silent).iter().any(is_seen) {
        return Duration::ZERO;
    }
    drain_time(longest(fabric), FOG_LIFETIMES)
}

/// Returns ACTIVE ports of switches without a known node behind them.
fn silent_ports(fabric: &Fabric) -> BTreeSet<(SwitchIdx, u8)> {
    let ports = fabric.switches().iter_enumerated().flat_map(|(switch, &node)| {
        let ports = fabric.node(node).external_ports();
        let silent = ports.filter(|(_, seen)| seen.link.state == PortState::Active && seen.peer.is_none());
        silent.map(move |(port, _)| (switch, port.get()))
    });
    ports.collect()
}

/// Returns the entries that lead to ports with a silent peer but shall lead elsewhere.
fn into_the_dark(held: &Tables, wanted: &Tables, silent: &BTreeSet<(SwitchIdx, u8)>) -> Vec<Write> {
    let mut dark = Vec::new();
    let switches: BTreeSet<SwitchIdx> = silent.iter().map(|(switch, _)| *switch).collect();
    let lids = || (1..=held.top().0).map(Lid);
    for switch in switches
        .into_iter()
        .filter(|switch| switch.to_usize() < held.switches())
    {
        for lid in lids() {
            let egress = held.get(switch, lid);
            if silent.contains(&(switch, egress)) && wanted.get(switch, lid) != egress {
                dark.push(Write { switch, lid, egress });
            }
        }
    }
    dark
}

/// True if the tables have no cycle when all entries of `held` except `dropped` take effect.
fn may_wake(fabric: &Fabric, held: &Tables, plan: &Plan, dropped: &[Write], options: &WayOptions<'_>) -> bool {
    let mut tables = held.clone();
    for write in dropped {
        tables.set(write.switch, write.lid, NO_PATH);
    }
    let (levels, map) = options.lanes_in_force.unwrap_or((&plan.service_levels, &plan.sl_to_vl));
    let subject = Subject::tables(fabric, &plan.lids, &tables, levels, map);
    let phase_options = PhaseOptions {
        drain_ns: None,
        links: Links::Trained,
        lost: Vec::new(),
        switch_pairs: options.switch_pairs,
        listed_max: 1,
        measured: Measured::Costs,
        par: options.par,
    };
    // A step that writes nothing new, so only the tables are judged.
    phases::prove(subject, None, &Proposal::default(), &phase_options).is_ok()
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, LinkState, Node, PortRef};
    use selvedge_types::{Guid, LidRange, Lmc, NodeKind, PhysState};

    use super::*;
    use crate::made::empty_plan;

    /// Checks two switches with a link at their ports 1. Port 2 of the first is in the given state, without a known
    /// node behind it. The tables send LID 5 to port 2 and LID 6 to port 1.
    fn check(state: PortState, wanted: (u8, u8), want: &[(u16, u8)]) {
        let port = |n| PortNum::new(n).unwrap();
        let mut b = FabricBuilder::new();
        let keys = [1, 2].map(|guid| {
            let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
            for (n, state) in [(1, PortState::Active), (2, state)] {
                let link = &mut node.port_mut(port(n)).unwrap().link;
                *link = LinkState { state, ..*link };
            }
            b.add(node)
        });
        b.link((keys[0], port(1)), (keys[1], port(1))).unwrap();
        let fabric = b.finish().unwrap();
        let tables = |(five, six): (u8, u8)| {
            let mut tables = Tables::new(2, Lid(9));
            tables.set(SwitchIdx(0), Lid(5), five);
            tables.set(SwitchIdx(0), Lid(6), six);
            tables
        };
        let dark = into_the_dark(&tables((2, 1)), &tables(wanted), &silent_ports(&fabric));
        let found: Vec<(u16, u8)> = dark.iter().map(|write| (write.lid.0, write.egress)).collect();
        assert_eq!(found, want, "{state:?} {wanted:?}");
    }

    #[test]
    fn entries_into_the_dark_are_those_that_change_and_lead_to_active_ports_with_nobody_behind() {
        check(PortState::Active, (1, 2), &[(5, 2)]);
        check(PortState::Active, (NO_PATH, 1), &[(5, 2)]);
        check(PortState::Active, (2, NO_PATH), &[]);
        check(PortState::Init, (1, 2), &[]);
    }

    /// Checks two switches with a link at their ports 1. Port 2 of both has no known node behind it; that of the second
    /// is in the given state. The first sends LID 5 to port 2; the plan wants the given port.
    fn waits(second: PortState, is_of_somebody: bool, wanted: u8) -> bool {
        let port = |n| PortNum::new(n).unwrap();
        let mut b = FabricBuilder::new();
        let keys = [(1, PortState::Active), (2, second)].map(|(guid, state)| {
            let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
            node.switch_settings.lifetime = 3;
            for (n, state) in [(1, PortState::Active), (2, state)] {
                let link = &mut node.port_mut(port(n)).unwrap().link;
                (link.state, link.phys) = (state, PhysState::LinkUp);
            }
            b.add(node)
        });
        b.link((keys[0], port(1)), (keys[1], port(1))).unwrap();
        let fabric = b.finish().unwrap();
        let mut plan = Plan {
            tables: Tables::new(2, Lid(9)),
            ..empty_plan()
        };
        plan.tables.set(SwitchIdx(0), Lid(5), wanted);
        if is_of_somebody {
            let (node, port) = (fabric.switches()[SwitchIdx(1)], PortNum::MANAGEMENT);
            let (base, lmc) = (Lid(5), Lmc::default());
            let range = LidRange { base, lmc };
            plan.lids.insert(PortRef { node, port }, range).unwrap();
        }
        let mut installed = Installed::unknown(2);
        let mut data = [NO_PATH; BLOCK_LIDS];
        data[5] = 2;
        installed.learn(SwitchIdx(0), 0, data);
        let wait = out_of_sight(&fabric, &installed, &plan);
        // Two lifetimes of 4.096 µs × 2^3.
        assert!(
            wait.is_zero() || wait == Duration::from_nanos(2 * (4_096 << 3)),
            "{wait:?}"
        );
        !wait.is_zero()
    }

    #[test]
    fn what_may_cross_a_cable_out_of_sight_is_waited_for() {
        use PortState::{Active, Down};
        assert!(waits(Active, true, 1));
        // The node behind the only such port forwards nothing.
        assert!(!waits(Down, true, 1));
        // A host that does not answer.
        assert!(!waits(Active, false, 1));
        assert!(!waits(Active, true, 2));
    }
}
