//! LIDs: every live end port has its own, no switch is too small for them, no entry is left over.

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::{Idx, Lid, LidRange, Lmc, PortNum};

use crate::finding::{Fault, Finding, Place, Severity};
use crate::ground::Ground;

const NO_LIDS: LidRange = LidRange {
    base: Lid::NONE,
    lmc: Lmc::ZERO,
};

/// All findings about LIDs.
pub fn findings(ground: &Ground<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    owners(ground, &mut found);
    settings(ground, &mut found);
    switches(ground, &mut found);
    found.extend(stray_entries(ground));
    found
}

fn is_end_port(fabric: &Fabric, at: PortRef) -> bool {
    let is_switch = fabric.nodes().get(at.node).is_some_and(|node| node.is_switch());
    fabric.port(at).is_some() && (!is_switch || at.port == PortNum::MANAGEMENT)
}

fn owners(ground: &Ground<'_>, found: &mut Vec<Finding>) {
    let subject = ground.subject;
    let place = |at| Place::port(subject.fabric, at);
    let unreal = subject.lids.iter().filter(|(at, _)| !is_end_port(subject.fabric, *at));
    found.extend(unreal.map(|(at, lids)| {
        let port = place(at);
        Finding::new(Severity::Error, Fault::LidOfNoPort { port, lids })
    }));
    let hosts = ground.hosts.iter().map(|host| host.at);
    let direct = ground.back_to_back.iter().flat_map(|&(a, b)| [a, b]);
    let switches = (0..ground.switches as u32).map(|switch| ground.port0(switch));
    let live = switches.chain(hosts).chain(direct);
    let missing = live.filter(|at| subject.lids.range(*at).is_none());
    found.extend(missing.map(|at| Finding::new(Severity::Error, Fault::LidMissing { port: place(at) })));
}

/// What the settings of ports say must be what is assigned: agents obey the settings.
fn settings(ground: &Ground<'_>, found: &mut Vec<Finding>) {
    let subject = ground.subject;
    let Some(ports) = subject.ports else { return };
    let mut given: Vec<Option<PortRef>> = Vec::new();
    for (&at, settings) in ports {
        let place = || Place::port(subject.fabric, at);
        let planned = subject.lids.range(at).unwrap_or(NO_LIDS);
        let lids = settings.lids;
        if lids != planned {
            let (port, settings) = (place(), lids);
            found.push(Finding::new(
                Severity::Error,
                Fault::LidMismatch {
                    port,
                    planned,
                    settings,
                },
            ));
        }
        if lids.base == Lid::NONE {
            continue;
        }
        let end = u32::from(lids.base.0) + u32::from(lids.lmc.lids()) - 1;
        if end > u32::from(Lid::UNICAST_MAX.0) || !lids.base.0.is_multiple_of(lids.lmc.lids()) {
            found.push(Finding::new(Severity::Error, Fault::LidRange { port: place(), lids }));
            continue;
        }
        if given.len() <= lids.last().index() {
            given.resize(lids.last().index() + 1, None);
        }
        for lid in lids.iter() {
            if let Some(other) = given[lid.index()].replace(at) {
                let other = Place::port(subject.fabric, other);
                found.push(Finding::new(
                    Severity::Error,
                    Fault::LidDuplicate {
                        lid,
                        port: place(),
                        other,
                    },
                ));
            }
        }
    }
}

fn switches(ground: &Ground<'_>, found: &mut Vec<Finding>) {
    let subject = ground.subject;
    let need = subject.lids.top();
    for (switch, &node) in subject.fabric.switches().iter_enumerated() {
        let place = || Place::node(subject.fabric, node);
        let top = ground.top(switch.to_usize());
        if top < need {
            let switch = place();
            found.push(Finding::new(Severity::Error, Fault::LinearTopLow { switch, top, need }));
        }
        let cap = subject.fabric.node(node).switch.map_or(u16::MAX, |s| s.linear_cap);
        let planned = if subject.switches.is_some() { top } else { Lid::NONE };
        let need = need.max(planned);
        // Entries are counted from LID 0.
        if need.0 >= cap {
            let switch = place();
            found.push(Finding::new(Severity::Error, Fault::LinearCap { switch, cap, need }));
        }
    }
}

/// One finding for all entries of LIDs without an owner: packets to them wander about before they are dropped.
fn stray_entries(ground: &Ground<'_>) -> Option<Finding> {
    let tables = ground.subject.tables;
    let mut stray = vec![0_u64; tables.top().index() + 1];
    let mut first = None;
    for block in 0..tables.blocks() {
        let lid = |i: usize| Lid(u16::try_from(block * BLOCK_LIDS + i).unwrap_or(u16::MAX));
        let unowned: Vec<usize> = (0..BLOCK_LIDS)
            .filter(|&i| (Lid(1)..=tables.top()).contains(&lid(i)) && ground.subject.lids.owner(lid(i)).is_none())
            .collect();
        for switch in tables.switch_indices() {
            let row = tables.block(switch, block);
            for &i in unowned.iter().filter(|&&i| row[i] != NO_PATH) {
                stray[lid(i).index()] += 1;
                first.get_or_insert((switch, lid(i)));
            }
        }
    }
    let (switch, lid) = first?;
    let fault = Fault::StrayEntries {
        lids: stray.iter().filter(|&&n| n > 0).count() as u64,
        entries: stray.iter().sum(),
        switch: Place::node(ground.subject.fabric, ground.node_of(switch.0)),
        lid,
    };
    Some(Finding::new(Severity::Warning, fault))
}
