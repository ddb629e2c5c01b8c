//! Judges LIDs: every live end port has its own LIDs, every switch has room for them, and no stale entry is left.

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::NO_PATH;
use selvedge_types::{Idx, Lid, LidRange, Lmc, PortNum};

use crate::finding::{Fault, Finding, Place, Severity};
use crate::ground::Ground;

const NO_LIDS: LidRange = LidRange {
    base: Lid::NONE,
    lmc: Lmc::ZERO,
};

/// Returns all findings about LIDs.
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

/// Checks that the settings of ports have the assigned LIDs, because agents obey the settings.
fn settings(ground: &Ground<'_>, found: &mut Vec<Finding>) {
    let subject = ground.subject;
    let Some(ports) = subject.ports else { return };
    let mut given: Vec<Option<PortRef>> = Vec::new();
    // Both are in port order.
    let mut assigned = subject.lids.iter().peekable();
    for (&at, settings) in ports {
        let place = || Place::port(subject.fabric, at);
        while assigned.next_if(|(port, _)| *port < at).is_some() {}
        let planned = assigned
            .next_if(|(port, _)| *port == at)
            .map_or(NO_LIDS, |(_, lids)| lids);
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
        let planned = subject
            .switches
            .and_then(|s| s.get(switch))
            .map_or(Lid::NONE, |s| Lid(s.linear_top));
        let need = need.max(planned);
        // Entries are counted from LID 0.
        if need.0 >= cap {
            let switch = place();
            found.push(Finding::new(Severity::Error, Fault::LinearCap { switch, cap, need }));
        }
    }
}

/// Returns one finding for all entries of LIDs without an owner. Packets to such a LID use links before they are
/// dropped.
fn stray_entries(ground: &Ground<'_>) -> Option<Finding> {
    let tables = ground.subject.tables;
    let strays = ground.subject.strays();
    let entries = |lid: Lid| {
        tables
            .switch_indices()
            .filter(move |&switch| tables.get(switch, lid) != NO_PATH)
    };
    let lid = *strays.first()?;
    let switch = entries(lid).next()?;
    let fault = Fault::StrayEntries {
        lids: strays.len() as u64,
        entries: strays.iter().map(|&lid| entries(lid).count() as u64).sum(),
        switch: Place::node(ground.subject.fabric, ground.node_of(switch.0)),
        lid,
    };
    Some(Finding::new(Severity::Warning, fault))
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, NodeIdx, SwitchIdx};
    use selvedge_plan::Plan;
    use selvedge_types::PortState;

    use super::*;
    use crate::{JudgeOptions, Subject, support, verify};

    fn small() -> support::Net {
        let mut net = support::Net::new(1, 4);
        net.host(0).host(0);
        net
    }

    /// Compares the text of findings with the expected one, after `edit` changed a good plan: a switch (LID 1) with two
    /// hosts (LIDs 2 and 3).
    fn check(net: support::Net, edit: impl FnOnce(&mut Plan, [PortRef; 3]), want: &[&str]) {
        let fabric = net.finish(PortState::Init);
        let lids = support::lids(&fabric, 0);
        let tables = support::minhop(&fabric, &lids);
        let mut plan = support::plan(&fabric, lids, tables);
        let ends: Vec<PortRef> = fabric.end_ports().map(|(at, _)| at).collect();
        edit(&mut plan, ends.try_into().unwrap());
        let verdict = verify(Subject::plan(&fabric, &plan), &JudgeOptions::default());
        let found: Vec<_> = verdict.findings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), want.len(), "{found:?}");
        for (found, want) in found.iter().zip(want) {
            assert!(found.contains(want), "{found} has no {want}");
        }
    }

    #[test]
    fn every_live_end_port_has_its_own() {
        check(small(), |_, _| {}, &[]);
        check(
            small(),
            |plan, [_, host, _]| {
                plan.lids.remove(host);
                plan.ports.get_mut(&host).unwrap().lids = NO_LIDS;
            },
            &[
                "SLV-JUDGE-0013 error: \"h0\"[1] has a trained link but no LID",
                "SLV-JUDGE-0011",
            ],
        );
        check(
            small(),
            |plan, [_, host, other]| plan.ports.get_mut(&host).unwrap().lids = plan.ports[&other].lids,
            &[
                "SLV-JUDGE-0015 error: LID 3 is given to \"h1\"[1] and to \"h0\"[1]",
                "SLV-JUDGE-0016 error: \"h0\"[1] shall have LID 2 LMC 0, but its settings have LID 3",
            ],
        );
        check(
            small(),
            |plan, [_, host, _]| {
                let lmc = Lmc::new(2).unwrap();
                plan.ports.get_mut(&host).unwrap().lids = LidRange {
                    base: Lid(0xBFFC + 1),
                    lmc,
                };
            },
            &["SLV-JUDGE-0016", "SLV-JUDGE-0017"],
        );
        check(
            small(),
            |plan, [switch, ..]| {
                let node = NodeIdx(7);
                plan.lids
                    .insert(PortRef { node, ..switch }, LidRange::single(Lid(9)))
                    .unwrap();
                plan.switches[SwitchIdx(0)].linear_top = 9;
            },
            &["SLV-JUDGE-0014 error: LID 9 is given to node 7[0]"],
        );
    }

    #[test]
    fn switches_hold_all_of_them() {
        check(
            small(),
            |plan, _| plan.switches[SwitchIdx(0)].linear_top = 2,
            &[
                "SLV-JUDGE-0001 error: \"s0\" drops LID 3 of \"h1\"[1]",
                "SLV-JUDGE-0009 error: \"s0\" is to have LinearFDBTop 2",
            ],
        );
        let few_entries = |cap: u16| {
            let mut net = small();
            let builder: &mut FabricBuilder = net.builder();
            let key = builder.nodes().next().unwrap().0;
            builder.node_mut(key).switch.as_mut().unwrap().linear_cap = cap;
            net
        };
        check(few_entries(4), |_, _| {}, &[]);
        check(
            few_entries(3),
            |_, _| {},
            &["SLV-JUDGE-0010 error: \"s0\" has 3 forwarding entries"],
        );
    }

    #[test]
    fn entries_of_nobody() {
        check(
            small(),
            |plan, _| {
                let mut tables = selvedge_plan::Tables::new(1, Lid(200));
                *tables.block_mut(SwitchIdx(0), 0) = *plan.tables.block(SwitchIdx(0), 0);
                tables.set(SwitchIdx(0), Lid(0), 1);
                tables.set(SwitchIdx(0), Lid(100), 1);
                tables.set(SwitchIdx(0), Lid(200), 2);
                plan.tables = tables;
            },
            &["SLV-JUDGE-0011 warning: 2 entries for 2 LIDs that no port owns, the first is LID 100 at \"s0\""],
        );
    }
}
