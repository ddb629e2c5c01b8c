//! The hardware state of one subnet, as input for a judge.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::Emulator;
use selvedge_fabric::{Fabric, FabricBuilder, LinkState, PortRef};
use selvedge_plan::{LidConflict, Lids, ServiceLevels, SlToVl, Tables};
use selvedge_types::{LidRange, Lmc, PortNum, PortState};
use selvedge_verify::{JudgeOptions, Subject, Verdict, verify};

use crate::subnet::{Subnets, is_up, ports_of};

/// One subnet as its hardware is now, whichever managers have programmed it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The subnet's nodes that have power, and their cables.
    pub fabric: Fabric,
    /// LIDs that the subnet's ports hold.
    pub lids: Lids,
    /// Ports that hold no LID, or one that another port holds too, with the reason.
    pub without_lid: Vec<(PortRef, LidConflict)>,
    /// The tables by which the switches forward.
    pub tables: Tables,
    /// The SL2VL tables of switches, between ports with links that are up.
    pub lanes: SlToVl,
}

/// A fault of a subnet in which all managers are idle.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The link of the port with this name is trained, and the port is not ACTIVE.
    NotActive(String),
    /// Anything else, in words.
    Other(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotActive(port) => write!(f, "{port} is not ACTIVE"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

impl Observed {
    /// Returns the subnet around a port.
    #[must_use]
    pub fn around(emulator: &Emulator, at: PortIdx) -> Self {
        let chassis = emulator.chassis();
        let subnets = Subnets::of(chassis);
        let fabric = reachable(chassis, &subnets, at);
        let mut lids = Lids::new();
        let mut without_lid = Vec::new();
        let in_use = |at: PortRef| at.port == PortNum::MANAGEMENT || fabric.link_is_up(at);
        for (at, port) in fabric.end_ports().filter(|(at, _)| in_use(*at)) {
            let range: LidRange = port.settings.lids;
            if let Err(conflict) = lids.insert(at, range) {
                without_lid.push((at, conflict));
            }
        }
        let all = chassis.tables();
        let mut tables = Tables::new(fabric.switches().len(), all.top());
        let held = chassis.sl_to_vl();
        let mut lanes = SlToVl {
            default: held.default,
            exceptions: BTreeMap::new(),
        };
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let guid = fabric.node(node).guid;
            let built = chassis.fabric();
            let Some(source) = built.find(guid).and_then(|n| built.switch_index(n)) else {
                continue;
            };
            for block in 0..tables.blocks() {
                *tables.block_mut(switch, block) = *all.block(source, block);
            }
            let is_used = |port: PortNum| port == PortNum::MANAGEMENT || fabric.link_is_up(PortRef { node, port });
            let (first, last) = (PortNum::MANAGEMENT, PortNum::MAX);
            let rows = held.exceptions.range((source, first, first)..=(source, last, last));
            let used = rows.filter(|((_, ingress, egress), _)| is_used(*ingress) && is_used(*egress));
            lanes
                .exceptions
                .extend(used.map(|(&(_, ingress, egress), row)| ((switch, ingress, egress), *row)));
        }
        Self {
            fabric,
            lids,
            without_lid,
            tables,
            lanes,
        }
    }

    /// Returns the judge's verdict on the installed tables, for senders that use these levels, on the installed lanes.
    #[must_use]
    pub fn judge_levels(&self, levels: &ServiceLevels) -> Verdict {
        let subject = Subject::tables(&self.fabric, &self.lids, &self.tables, levels, &self.lanes);
        verify(subject, &JudgeOptions::default())
    }

    /// Returns the judge's verdict on the installed tables as if all routes used one lane: if one lane has no credit
    /// loop, several lanes have none either.
    #[must_use]
    pub fn judge(&self) -> Verdict {
        let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
        let subject = Subject::tables(&self.fabric, &self.lids, &self.tables, &levels, &lanes);
        verify(subject, &JudgeOptions::default())
    }

    /// Returns the ports with a trained link that are not ACTIVE.
    pub fn not_active(&self) -> impl Iterator<Item = PortRef> + '_ {
        let nodes = self.fabric.nodes().iter_enumerated();
        let ports = nodes.flat_map(|(node, n)| n.external_ports().map(move |(port, p)| (PortRef { node, port }, p)));
        let up = ports.filter(|(at, _)| self.fabric.link_is_up(*at));
        up.filter(|(_, p)| p.link.state != PortState::Active).map(|(at, _)| at)
    }

    /// Returns the first fault when all managers are idle: a port without a LID, a port of a host with an LMC other
    /// than this one, a port that is not ACTIVE, or an error that the judge finds. Ports in `kept_off` are left out.
    pub(crate) fn trouble(&self, lmc: Option<Lmc>, kept_off: &BTreeSet<PortRef>) -> Option<Trouble> {
        let mut without_lid = self.without_lid.iter().filter(|(at, _)| !kept_off.contains(at));
        if let Some((at, conflict)) = without_lid.next() {
            return Some(Trouble::Other(format!("{}: {conflict:?}", self.fabric.port_name(*at))));
        }
        if let Some(other) = lmc.and_then(|lmc| self.other_lmc(lmc, kept_off)) {
            return Some(Trouble::Other(other));
        }
        if let Some(idle) = self.not_active().find(|at| !kept_off.contains(at)) {
            return Some(Trouble::NotActive(self.fabric.port_name(idle)));
        }
        self.without_hosts(kept_off)
            .judge()
            .errors()
            .next()
            .map(|error| Trouble::Other(error.to_string()))
    }

    /// Returns this subnet with the links of hosts that end at one of these ports down: packets need not arrive there.
    fn without_hosts(&self, kept_off: &BTreeSet<PortRef>) -> Self {
        let is_host = |at: PortRef| self.fabric.switch_index(at.node).is_none();
        let hosts = kept_off.iter().copied().filter(|&at| is_host(at));
        let mut less = self.clone();
        for host in hosts {
            less.lids.remove(host);
            for end in [Some(host), self.fabric.peer(host)].into_iter().flatten() {
                let Some(port) = self.fabric.port(end) else { continue };
                let link = LinkState {
                    state: PortState::Down,
                    ..port.link
                };
                less.fabric.set_port(end, link, port.settings);
            }
        }
        less
    }

    /// Names the first port of a host with another LMC than the policy's. A port with a link that is down is left out:
    /// the second port of a host may be in a subnet without a manager.
    fn other_lmc(&self, policy: Lmc, kept_off: &BTreeSet<PortRef>) -> Option<String> {
        let mut ends = self.fabric.end_ports();
        let (at, _) = ends.find(|(at, port)| {
            let is_host = !self.fabric.node(at.node).is_switch();
            is_host && self.fabric.link_is_up(*at) && !kept_off.contains(at) && port.settings.lids.lmc != policy
        })?;
        let (port, want) = (self.fabric.port_name(at), policy.get());
        Some(format!("{port} has another LMC than the policy's {want}"))
    }
}

/// Returns the nodes that can be reached from `at`, as their agents would describe themselves.
fn reachable(chassis: &Chassis, subnets: &Subnets, at: PortIdx) -> Fabric {
    let seen = chassis.observe();
    let mut builder = FabricBuilder::new();
    let mut keys = Vec::new();
    for (node, built) in seen.nodes().iter_enumerated() {
        let here = |port: PortIdx| subnets.connected(port, at) && (is_up(chassis, port) || chassis.is_switch(node));
        let is_here = chassis.is_powered(node) && ports_of(chassis, node).any(here);
        keys.push(is_here.then(|| builder.add(built.clone())));
    }
    for link in seen.links() {
        let ends = [link.a, link.b].map(|end| Some((keys[end.node.0 as usize]?, end.port)));
        if let [Some(a), Some(b)] = ends {
            // The cables come from a fabric that a builder accepted, so none is refused.
            let _ = builder.link(a, b);
        }
    }
    // The GUIDs come from a fabric that a builder accepted, so they are unique.
    builder.finish().unwrap_or_default()
}
