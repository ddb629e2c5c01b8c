//! Shows partitions: the members by the rules in force, and the ports to which each rule applies.

use selvedge_api as api;
use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::partition::{Partition, Partitions};
use selvedge_types::{Guid, PKey};

/// Returns the partitions with the ports of `fabric` that are members. `manager` is the port GUID of the manager.
pub(crate) fn partitions(fabric: &Fabric, partitions: &Partitions, manager: Guid) -> api::Partitions {
    let all = partitions.partitions.values();
    api::Partitions {
        partitions: all.map(|partition| of(fabric, partition, manager)).collect(),
    }
}

fn of(fabric: &Fabric, partition: &Partition, manager: Guid) -> api::Partition {
    let mut rules: Vec<_> = (partition.rules.iter())
        .map(|rule| api::PartitionRule {
            rule: rule.to_string(),
            matches: 0,
            decides: 0,
        })
        .collect();
    let mut members = Vec::new();
    for (at, port) in fabric.end_ports() {
        let kind = fabric.node(at.node).kind;
        let mut decides = None;
        for (place, rule) in partition.rules.iter().enumerate() {
            if rule.applies_to(kind, port.guid, port.guid == manager) {
                rules[place].matches += 1;
                decides = Some((place, rule.is_full));
            }
        }
        if let Some((place, is_full)) = decides {
            rules[place].decides += 1;
            members.push(member(fabric, at, PKey(partition.key | u16::from(is_full) << 15)));
        }
    }
    api::Partition {
        pkey: PKey(partition.key),
        name: partition.name.clone(),
        members,
        rules,
    }
}

fn member(fabric: &Fabric, at: PortRef, key: PKey) -> api::PartitionMember {
    let (node, port) = (fabric.node(at.node), fabric.port(at));
    api::PartitionMember {
        node_guid: node.guid,
        node_name: node.description.clone(),
        port: at.port.get(),
        guid: port.map_or(Guid::NONE, |port| port.guid),
        full: key.0 & 0x8000 != 0,
        set: port.filter(|port| !port.unread).map(|port| port.pkeys.contains(&key)),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_plan::partition::{Rule, Who};
    use selvedge_topology::Spec;
    use selvedge_types::NodeKind;

    use super::*;

    /// Partition 1 with these rules on 4 switches and 4 hosts, shown as `full|limited|rule matches decides; …`.
    fn shown(rules: &[(Who, bool)]) -> String {
        let Ok(Spec::Generated(recipe)) = "ring:switches=4,hosts=1".parse() else {
            panic!("no such fabric")
        };
        let fabric = recipe.fabric().unwrap();
        let manager = fabric
            .end_ports()
            .find(|(at, _)| fabric.node(at.node).kind == NodeKind::Ca);
        let rules = rules.iter().map(|&(who, is_full)| Rule {
            who,
            is_full,
            is_first: false,
        });
        let partition = Partition {
            name: "one".to_owned(),
            key: 1,
            sl: selvedge_types::Sl::default(),
            rules: rules.collect(),
        };
        let shown = of(&fabric, &partition, manager.unwrap().1.guid);
        let count = |is_full| shown.members_of(is_full).count();
        let rules = shown.rules.iter();
        let rules: Vec<_> = rules
            .map(|rule| format!("{} {} {}", rule.rule, rule.matches, rule.decides))
            .collect();
        format!("{}|{}|{}", count(true), count(false), rules.join("; "))
    }

    #[test]
    fn the_last_rule_that_applies_decides() {
        let check = |rules: &[(Who, bool)], want: &str| assert_eq!(shown(rules), want);
        check(&[], "0|0|");
        check(&[(Who::All, true)], "8|0|ALL=full 8 8");
        check(
            &[(Who::All, false), (Who::Manager, true)],
            "1|7|ALL=limited 8 7; SELF=full 1 1",
        );
        check(
            &[(Who::Kind(NodeKind::Ca), true), (Who::Kind(NodeKind::Router), true)],
            "4|0|ALL_CAS=full 4 4; ALL_ROUTERS=full 0 0",
        );
        // A port that is not there; a rule that a later one overrules for every port.
        check(
            &[(Who::Port(Guid(0xBAD)), true), (Who::Manager, false), (Who::All, true)],
            "8|0|0x0000000000000bad=full 0 0; SELF=limited 1 0; ALL=full 8 8",
        );
    }
}
