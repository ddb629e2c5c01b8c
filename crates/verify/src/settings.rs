//! Judges settings of ports and switches: complete, within limits, and equal at both ends of a link.

use selvedge_fabric::{Fabric, Port, PortCapability, PortRef, PortSettings};
use selvedge_types::{Idx, Lid, PortNum};

use crate::finding::{Fault, Finding, Place, Severity};
use crate::ground::Ground;

/// Largest values of fields with fewer than eight bits. Source: IBA vol 1 §14.2.5.4, §14.2.5.6.
mod limit {
    pub const HOQ_LIFE: u8 = 31;
    pub const LIFETIME: u8 = 31;
    pub const M_KEY_PROTECT: u8 = 3;
    pub const OPER_VLS: u8 = 5;
    pub const SUBNET_TIMEOUT: u8 = 31;
    pub const ERROR_THRESHOLD: u8 = 15;
    pub const VL_STALL_COUNT: u8 = 7;
}

/// Returns all findings about settings; none if the plan has no settings.
pub fn findings(ground: &Ground<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    switches(ground, &mut found);
    let Some(ports) = ground.subject.ports else {
        return found;
    };
    let fabric = ground.subject.fabric;
    for (at, _) in all_ports(fabric).filter(|(at, _)| ground.planned(*at).is_none() && is_in_use(fabric, *at)) {
        let place = Place::port(fabric, at);
        found.push(Finding::new(Severity::Error, Fault::Unplanned { place }));
    }
    for (&at, settings) in ports {
        match fabric.port(at) {
            Some(port) => ranges(ground, at, port, settings, &mut found),
            None => {
                let place = Place::port(fabric, at);
                found.push(Finding::new(Severity::Error, Fault::NoSuchPlace { place }));
            }
        }
    }
    for link in fabric.links().filter(|link| fabric.link_is_up(link.a)) {
        if let (Some(a), Some(b)) = (ground.planned(link.a), ground.planned(link.b)) {
            both_ends(fabric, (link.a, a), (link.b, b), &mut found);
        }
    }
    found
}

fn all_ports(fabric: &Fabric) -> impl Iterator<Item = (PortRef, &Port)> {
    let nodes = fabric.nodes().iter_enumerated();
    nodes.flat_map(|(node, n)| n.all_ports().map(move |(port, p)| (PortRef { node, port }, p)))
}

fn is_in_use(fabric: &Fabric, at: PortRef) -> bool {
    at.port == PortNum::MANAGEMENT || fabric.link_is_up(at)
}

fn switches(ground: &Ground<'_>, found: &mut Vec<Finding>) {
    let fabric = ground.subject.fabric;
    let Some(switches) = ground.subject.switches else {
        return;
    };
    for (switch, &node) in fabric.switches().iter_enumerated() {
        let place = Place::node(fabric, node);
        match switches.get(switch) {
            None => found.push(Finding::new(Severity::Error, Fault::Unplanned { place })),
            Some(settings) if settings.lifetime > limit::LIFETIME => found.push(out_of_range(
                place,
                "LifeTimeValue",
                settings.lifetime.into(),
                limit::LIFETIME.into(),
            )),
            Some(_) => {}
        }
    }
    for extra in fabric.switches().len()..switches.len() {
        let place = Place {
            node_guid: selvedge_types::Guid::NONE,
            port: None,
            name: format!("switch {}", selvedge_fabric::SwitchIdx::from_usize(extra).0),
        };
        found.push(Finding::new(Severity::Error, Fault::NoSuchPlace { place }));
    }
}

fn out_of_range(place: Place, field: &'static str, value: u64, limit: u64) -> Finding {
    Finding::new(
        Severity::Error,
        Fault::SettingRange {
            place,
            field,
            value,
            limit,
        },
    )
}

fn ranges(ground: &Ground<'_>, at: PortRef, port: &Port, settings: &PortSettings, found: &mut Vec<Finding>) {
    let checks = [
        ("HOQLife", settings.hoq_life, limit::HOQ_LIFE),
        ("VLStallCount", settings.vl_stall_count, limit::VL_STALL_COUNT),
        ("M_KeyProtectBits", settings.m_key_protect, limit::M_KEY_PROTECT),
        ("SubnetTimeOut", settings.subnet_timeout, limit::SUBNET_TIMEOUT),
        ("LocalPhyErrors", settings.local_phy_errors, limit::ERROR_THRESHOLD),
        ("OverrunErrors", settings.overrun_errors, limit::ERROR_THRESHOLD),
    ];
    let mut note = |field, value: u64, limit: u64| {
        found.push(out_of_range(
            Place::port(ground.subject.fabric, at),
            field,
            value,
            limit,
        ));
    };
    for (field, value, limit) in checks {
        if value > limit {
            note(field, value.into(), limit.into());
        }
    }
    let is_lid_unknown = settings.sm_lid != Lid::NONE && ground.subject.lids.owner(settings.sm_lid).is_none();
    if is_lid_unknown {
        note(
            "MasterSMLID",
            settings.sm_lid.0.into(),
            ground.subject.lids.top().0.into(),
        );
    }
    // Port 0 of a switch has no link. Packets meet the MTU and the lanes of the other ports.
    if at.port == PortNum::MANAGEMENT {
        return;
    }
    if settings.mtu > port.capability.mtu {
        let (value, limit) = (settings.mtu.bytes(), port.capability.mtu.bytes());
        note("NeighborMTU", value.into(), limit.into());
    }
    let lanes_max = port.capability.vls.clamp(1, limit::OPER_VLS);
    if PortCapability::lanes_of_code(settings.oper_vls) == 0 || settings.oper_vls > lanes_max {
        note("OperationalVLs", settings.oper_vls.into(), lanes_max.into());
    }
}

fn both_ends(fabric: &Fabric, a: (PortRef, &PortSettings), b: (PortRef, &PortSettings), found: &mut Vec<Finding>) {
    if (a.1.mtu, a.1.oper_vls) == (b.1.mtu, b.1.oper_vls) {
        return;
    }
    let (port, peer) = (Place::port(fabric, a.0), Place::port(fabric, b.0));
    if a.1.mtu != b.1.mtu {
        let fault = Fault::MtuMismatch {
            port: port.clone(),
            mtu: a.1.mtu,
            peer: peer.clone(),
            peer_mtu: b.1.mtu,
        };
        found.push(Finding::new(Severity::Error, fault));
    }
    if a.1.oper_vls != b.1.oper_vls {
        let fault = Fault::LanesMismatch {
            port,
            oper_vls: a.1.oper_vls,
            peer,
            peer_oper_vls: b.1.oper_vls,
        };
        found.push(Finding::new(Severity::Error, fault));
    }
}

#[cfg(test)]
mod tests {
    use selvedge_plan::Plan;
    use selvedge_types::{Mtu, PortState};

    use super::*;
    use crate::{JudgeOptions, Subject, support, verify};

    /// Compares the text of findings with the expected one, after `edit` changed a good plan: two switches with a host
    /// each.
    fn check(edit: impl FnOnce(&mut Plan, PortRef, PortRef), want: &[&str]) {
        let mut net = support::Net::new(2, 4);
        net.link(0, 1).host(0).host(1);
        let fabric = net.finish(PortState::Init);
        let lids = support::lids(&fabric, 0);
        let tables = support::minhop(&fabric, &lids);
        let mut plan = support::plan(&fabric, lids, tables);
        let link = fabric.links().next().unwrap();
        edit(&mut plan, link.a, link.b);
        let verdict = verify(Subject::plan(&fabric, &plan), &JudgeOptions::default());
        let found: Vec<_> = verdict.findings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), want.len(), "{found:?}");
        for (found, want) in found.iter().zip(want) {
            assert!(found.contains(want), "{found} has no {want}");
        }
    }

    fn edit_port(plan: &mut Plan, at: PortRef, edit: impl FnOnce(&mut PortSettings)) {
        edit(plan.ports.get_mut(&at).unwrap());
    }

    #[test]
    fn a_good_plan() {
        check(|_, _, _| {}, &[]);
    }

    #[test]
    fn both_ends_agree() {
        check(
            |plan, a, _| edit_port(plan, a, |s| s.mtu = Mtu::B2048),
            &["SLV-JUDGE-0018 error: \"s0\"[1] is to send up to 2048 bytes, \"s1\"[1] up to 4096"],
        );
        check(
            |plan, _, b| edit_port(plan, b, |s| s.oper_vls = 2),
            &["SLV-JUDGE-0019 error: \"s0\"[1] is to run OperationalVLs 4, \"s1\"[1] 2"],
        );
    }

    #[test]
    fn limits() {
        check(
            |plan, a, b| {
                edit_port(plan, a, |s| s.oper_vls = 5);
                edit_port(plan, b, |s| s.oper_vls = 5);
            },
            &[
                "OperationalVLs is 5, allowed are values up to 4",
                "\"s1\"[1]: OperationalVLs",
            ],
        );
        check(|plan, a, _| edit_port(plan, a, |s| s.hoq_life = 32), &["HOQLife is 32"]);
        check(
            |plan, a, _| edit_port(plan, a, |s| s.vl_stall_count = 8),
            &["VLStallCount"],
        );
        check(
            |plan, a, _| edit_port(plan, a, |s| s.m_key_protect = 4),
            &["M_KeyProtectBits"],
        );
        check(
            |plan, a, _| edit_port(plan, a, |s| s.subnet_timeout = 32),
            &["SubnetTimeOut"],
        );
        check(
            |plan, a, _| edit_port(plan, a, |s| s.sm_lid = Lid(77)),
            &["MasterSMLID is 77"],
        );
        check(
            |plan, _, _| plan.switches[selvedge_fabric::SwitchIdx(1)].lifetime = 32,
            &["\"s1\": LifeTimeValue is 32"],
        );
    }

    #[test]
    fn nothing_forgotten_nothing_invented() {
        check(
            |plan, a, _| assert!(plan.ports.remove(&a).is_some()),
            &["SLV-JUDGE-0021 error: \"s0\"[1] is in use"],
        );
        check(
            |plan, a, _| {
                let port = PortNum::new(9).unwrap();
                let settings = plan.ports[&a];
                plan.ports.insert(PortRef { node: a.node, port }, settings);
            },
            &["SLV-JUDGE-0022 error: the plan has settings for \"s0\"[9]"],
        );
        check(
            |plan, _, _| plan.switches = plan.switches.iter().copied().take(1).collect(),
            &["SLV-JUDGE-0021 error: \"s1\" is in use"],
        );
    }
}
