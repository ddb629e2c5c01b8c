//! The tables of every port of a fabric, from settings and from the policy's section qos-setup.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, Node, PortRef, PortSettings};
use selvedge_plan::qos::{PortLanes, Resolved, Settings, Target};
use selvedge_types::{NodeKind, PortNum, Sl, Vl};

use super::policy::tables_in_scope;
use super::{PortFacts, PortTables, TableFinding, Template, row_target};
use crate::path::SlSet;

/// What the tables of a fabric's ports depend on.
#[derive(Clone, Copy, Debug)]
pub struct SubnetTables<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// The policy. Its section qos-setup replaces settings for the ports in its scopes.
    pub policy: Option<&'a Resolved>,
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Planned settings, with PortInfo.OperationalVLs. A port without planned settings has those of the fabric.
    pub ports: &'a BTreeMap<PortRef, PortSettings>,
}

impl SubnetTables<'_> {
    /// Returns arbitration tables and VLHighLimit of a port, with the row for packets that arrived by `ingress` (0: the
    /// node's own packets). `None`: the port gets no tables, because its link is down, or because it is port 0 of a
    /// switch that has no enhanced port 0.
    #[must_use]
    pub fn of(&self, egress: PortRef, ingress: PortNum) -> Option<PortTables> {
        let node = self.fabric.nodes().get(egress.node)?;
        let port = node.port(egress.port).filter(|_| self.has_tables(node, egress))?;
        let mut facts = PortFacts::of(node, egress.port, port);
        facts.oper_vls = self
            .ports
            .get(&egress)
            .map_or(facts.oper_vls, |planned| planned.oper_vls);
        let mut template = Template::new(self.settings, target(node.kind, egress.port));
        template.row = self.settings.sl2vl(row_target(node.kind, egress.port, ingress));
        if let Some(policy) = self.policy {
            tables_in_scope(policy, self.fabric, egress, ingress).apply(&mut template);
        }
        Some(PortTables::new(&template, &facts))
    }

    /// Returns all tables of a port. `None`: it gets no tables, as for [`Self::of`].
    #[must_use]
    pub fn port(&self, egress: PortRef) -> Option<PortLanes> {
        let node = self.fabric.nodes().get(egress.node)?;
        let tables = self.of(egress, PortNum::MANAGEMENT)?;
        let mut lanes = PortLanes {
            row: tables.row,
            rows: BTreeMap::new(),
            blocks: tables.blocks,
            high_limit: tables.high_limit,
        };
        // Rows depend on the ingress port only in scopes, and towards port 0.
        let differs = self.policy.is_some_and(|policy| !policy.policy.rows.is_empty());
        if differs || egress.port == PortNum::MANAGEMENT {
            for ingress in ingresses(node) {
                let row = self.row(egress, ingress).filter(|row| Some(*row) != lanes.row);
                lanes.rows.extend(row.map(|row| (ingress, row)));
            }
        }
        Some(lanes)
    }

    /// Returns the row of a port for packets that arrived by `ingress`; `None`: nothing is written.
    #[must_use]
    pub fn row(&self, egress: PortRef, ingress: PortNum) -> Option<[Vl; Sl::COUNT]> {
        self.of(egress, ingress)?.row
    }

    /// Returns the service levels with a lane at every hop. A hop is an egress port, and the port by which packets
    /// arrived at its node; a hop without a row keeps all service levels.
    #[must_use]
    pub fn valid(&self, hops: impl IntoIterator<Item = (PortRef, PortNum)>) -> SlSet {
        let rows = hops
            .into_iter()
            .filter_map(|(egress, ingress)| self.row(egress, ingress));
        SlSet::along(rows.collect::<Vec<_>>().iter())
    }

    /// Returns what is wrong with the tables of ports with a link: for each port, with its rows for all ingress ports.
    #[must_use]
    pub fn findings(&self) -> Vec<(PortRef, TableFinding)> {
        let mut found = Vec::new();
        for node in self.fabric.nodes().indices() {
            let n = self.fabric.node(node);
            for (port, _) in n.all_ports() {
                let egress = PortRef { node, port };
                let mut of_port: Vec<TableFinding> = Vec::new();
                for ingress in ingresses(n) {
                    let here = self.of(egress, ingress).map(|tables| tables.findings());
                    for finding in here.into_iter().flatten() {
                        if !of_port.contains(&finding) {
                            of_port.push(finding);
                        }
                    }
                }
                found.extend(of_port.into_iter().map(|finding| (egress, finding)));
            }
        }
        found
    }

    fn has_tables(&self, node: &Node, at: PortRef) -> bool {
        match at.port {
            PortNum::MANAGEMENT => node.switch.as_ref().is_some_and(|switch| switch.enhanced_port0),
            _ => self.fabric.link_is_up(at),
        }
    }
}

/// Returns the settings that arbitration tables and VLHighLimit of a port follow.
#[must_use]
pub fn target(kind: NodeKind, port: PortNum) -> Target {
    match kind {
        NodeKind::Ca => Target::Ca,
        NodeKind::Router => Target::Router,
        NodeKind::Switch if port == PortNum::MANAGEMENT => Target::SwitchPort0,
        NodeKind::Switch => Target::SwitchExternal,
    }
}

/// Returns the ports by which packets arrive, as far as rows depend on them.
fn ingresses(node: &Node) -> impl Iterator<Item = PortNum> + '_ {
    let external = node.external_ports().map(|(port, _)| port).filter(|_| node.is_switch());
    std::iter::once(PortNum::MANAGEMENT).chain(external)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::FabricBuilder;
    use selvedge_plan::partition::Partitions;
    use selvedge_types::{Guid, PhysState, PortState};

    use super::super::policy::{parse, resolved};
    use super::super::set;
    use super::*;

    /// PortInfo.CapabilityMask bit 6: the port has SLtoVLMappingTables.
    const HAS_SL_MAPPING: u32 = 1 << 6;

    fn num(port: u8) -> PortNum {
        PortNum::new(port).unwrap()
    }

    /// Returns a switch with a host of two lanes at port 1, a host of four lanes at port 2, and a port without a link.
    fn fabric(enhanced: bool) -> Fabric {
        let mut builder = FabricBuilder::new();
        let mut node = Node::new(NodeKind::Switch, Guid(1), 3, "S");
        node.switch.as_mut().unwrap().enhanced_port0 = enhanced;
        for (port, oper_vls) in [(0, 1), (1, 2), (2, 3)] {
            let port = node.port_mut(num(port)).unwrap();
            port.capability.mask = HAS_SL_MAPPING;
            port.settings.oper_vls = oper_vls;
            (port.link.state, port.link.phys) = (PortState::Active, PhysState::LinkUp);
        }
        let switch = builder.add(node);
        for at in 1..=2_u8 {
            let mut host = Node::new(NodeKind::Ca, Guid(u64::from(at) * 16), 1, format!("H{at}"));
            let port = host.port_mut(num(1)).unwrap();
            port.guid = Guid(u64::from(at) * 16 + 1);
            port.capability.mask = HAS_SL_MAPPING;
            port.settings.oper_vls = at + 1;
            (port.link.state, port.link.phys) = (PortState::Active, PhysState::LinkUp);
            let host = builder.add(host);
            builder.link((switch, num(at)), (host, num(1))).unwrap();
        }
        builder.finish().unwrap()
    }

    fn at(fabric: &Fabric, guid: u64, port: u8) -> PortRef {
        PortRef {
            port: num(port),
            ..fabric.find_port(Guid(guid)).unwrap()
        }
    }

    fn settings(lines: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        (lines.iter()).for_each(|(key, value)| set(&mut settings, key, value).unwrap());
        settings
    }

    fn levels(set: SlSet) -> Vec<u8> {
        (0..16)
            .filter(|sl| Sl::new(*sl).is_some_and(|sl| set.contains(sl)))
            .collect()
    }

    #[test]
    fn every_port_has_the_tables_of_its_kind_and_lanes() {
        let fabric = fabric(false);
        let settings = settings(&[
            ("qos_ca_high_limit", "3"),
            ("qos_swe_high_limit", "4"),
            ("qos_swe_vlarb_low", "3:9"),
        ]);
        let tables = SubnetTables {
            settings: &settings,
            policy: None,
            fabric: &fabric,
            ports: &BTreeMap::new(),
        };
        let first = |at: PortRef, ingress: u8| {
            let tables = tables.of(at, num(ingress))?;
            let lanes: Vec<u8> = tables.row?[..5].iter().map(|vl| vl.get()).collect();
            let (vl, weight) = tables.blocks[0]?.turns[0];
            Some((lanes, (vl.get(), weight), tables.high_limit))
        };
        assert_eq!(first(at(&fabric, 1, 1), 0), Some((vec![0, 1, 0, 1, 0], (1, 9), 4)));
        assert_eq!(first(at(&fabric, 1, 2), 1), Some((vec![0, 1, 2, 3, 0], (3, 9), 4)));
        assert_eq!(first(at(&fabric, 0x11, 1), 0), Some((vec![0, 1, 0, 1, 0], (0, 0), 3)));
        assert_eq!(first(at(&fabric, 1, 3), 0), None);
        // Port 0 is not an enhanced one.
        assert_eq!(first(at(&fabric, 1, 0), 0), None);
    }

    #[test]
    fn port_0_has_two_kinds_of_rows() {
        let fabric = fabric(true);
        let settings = settings(&[
            ("qos_sw0_sl2vl", "15,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"),
            ("qos_swe_sl2vl", "0,15,0,0,0,0,0,0,0,0,0,0,0,0,0,0"),
        ]);
        let tables = SubnetTables {
            settings: &settings,
            policy: None,
            fabric: &fabric,
            ports: &BTreeMap::new(),
        };
        let dropped = |ingress| {
            let row = tables.row(at(&fabric, 1, 0), num(ingress)).unwrap();
            row.iter().position(|vl| *vl == Vl::MANAGEMENT)
        };
        assert_eq!((dropped(0), dropped(1)), (Some(0), Some(1)));
    }

    #[test]
    fn levels_along_a_path_and_findings() {
        let fabric = fabric(false);
        let settings = settings(&[
            ("qos_ca_sl2vl", "0,1,2,3,4,5,6,7,15,15,15,15,15,15,15,15"),
            ("qos_vlarb_low", "1:4,2:4"),
        ]);
        let policy = "\
            port-groups\nport-group\nname: H\nport-guid: 0x21\nend-port-group\nend-port-groups\n\
            qos-ulps\ndefault: 0\nend-qos-ulps\nqos-setup\nsl2vl-tables\nsl2vl-scope\nacross-to: H\n\
            sl2vl-table: 0,1,2,15,0,1,2,15,0,0,0,0,0,0,0,0\nend-sl2vl-scope\nend-sl2vl-tables\nend-qos-setup\n";
        let policy = std::sync::Arc::new(parse(policy).unwrap());
        let (resolved, _) = resolved(&policy, &fabric, &Partitions::default(), None);
        let tables = SubnetTables {
            settings: &settings,
            policy: Some(&resolved),
            fabric: &fabric,
            ports: &BTreeMap::new(),
        };
        let there = [(at(&fabric, 0x11, 1), num(0)), (at(&fabric, 1, 2), num(1))];
        assert_eq!(levels(tables.valid(there)), [0, 1, 2, 4, 5, 6]);
        let back = [(at(&fabric, 0x21, 1), num(0)), (at(&fabric, 1, 1), num(2))];
        assert_eq!(levels(tables.valid(back)), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Lane 3 of four has no weight. Towards the second host no service level uses it.
        let found: Vec<_> = tables
            .findings()
            .into_iter()
            .map(|(at, found)| (fabric.port_name(at), found))
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "\"H2\"[1]", "{found:?}");
        assert!(
            found[0].1.to_string().starts_with("SLV-QOS-0050: SL 3 goes to VL 3"),
            "{found:?}"
        );
    }
}
