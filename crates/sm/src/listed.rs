//! Reports GUIDs that the operator's lists name and the fabric does not have: engines leave such GUIDs out silently.

use std::collections::BTreeSet;
use std::fmt;

use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_plan::partition::Who;
use selvedge_types::Guid;

/// Some GUIDs of a list are no ports of the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Name of the list: its configuration key or flag, and OpenSM's name of it.
    pub list: (&'static str, &'static str),
    /// How many GUIDs of the list are no ports, and how many GUIDs it has.
    pub guids: (usize, usize),
    /// The first GUID that is no port.
    pub first: Guid,
    /// The node with `first` as its node GUID, and its ports' GUIDs; none: the fabric has no such node.
    pub node: Option<String>,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((key, option), (guids, all)) = (self.list, self.guids);
        match &self.node {
            None => write!(
                f,
                "{guids} of {all} GUIDs of {key} ({option}) are not in this fabric, the first is {}: these entries of \
                 the list have no effect; correct the list, or connect the nodes",
                self.first
            ),
            Some(node) => write!(
                f,
                "{guids} of {all} GUIDs of {key} ({option}) are not port GUIDs, the first is {}, the node GUID of \
                 {node}: these entries of the list have no effect; write port GUIDs",
                self.first
            ),
        }
    }
}

/// GUIDs that were reported as absent. A GUID is reported again if it was present in between.
#[derive(Debug, Default)]
pub struct Listed {
    told: Vec<Absent>,
}

impl Listed {
    /// Reports GUIDs of the lists that are absent, unless that was reported before.
    pub fn handle(&mut self, fabric: &Fabric, policy: &Policy, news: &mut Vec<Absent>) {
        let found = absent(fabric, policy);
        news.extend(found.iter().filter(|absent| !self.told.contains(absent)).cloned());
        self.told = found;
    }
}

/// Returns the lists that name a GUID which is not of the right kind. A list of roots names switches, or hosts that
/// stand for their switch; the other lists name ports.
///
/// In guid2lid a GUID without a port is no mistake, because the port may be off; the GUID of a node is.
fn absent(fabric: &Fabric, policy: &Policy) -> Vec<Absent> {
    let is_port = |guid: Guid| fabric.find_port(guid).is_some();
    let is_root = |guid: Guid| fabric.find(guid).is_some() || is_port(guid);
    let is_port_or_off = |guid: Guid| is_port(guid) || fabric.find(guid).is_none();
    let missing = |list, guids: &[Guid], is_there: &dyn Fn(Guid) -> bool| {
        let mut absent = guids.iter().copied().filter(|guid| !is_there(*guid));
        let first = absent.next()?;
        Some(Absent {
            list,
            guids: (1 + absent.count(), guids.len()),
            first,
            node: node_in_words(fabric, first),
        })
    };
    let members: Vec<Guid> = members(policy).into_iter().collect();
    let known: Vec<Guid> = policy.known_lids.keys().copied().collect();
    let all = [
        missing(("routing.roots", "root_guid_file"), &policy.roots, &is_root),
        missing(("routing.compute", "cn_guid_file"), &policy.compute, &is_port),
        missing(("routing.io", "io_guid_file"), &policy.io, &is_port),
        missing(
            ("routing.guid_order", "guid_routing_order_file"),
            &policy.guid_order,
            &is_port,
        ),
        missing(("fabric.partitions", "partition_config_file"), &members, &is_port),
        missing(("--guid2lid", "guid2lid"), &known, &is_port_or_off),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the port GUIDs that rules of partitions name.
fn members(policy: &Policy) -> BTreeSet<Guid> {
    let rules = policy
        .partitions
        .partitions
        .values()
        .flat_map(|partition| &partition.rules);
    let of_port = rules.filter_map(|rule| match rule.who {
        Who::Port(guid) => Some(guid),
        Who::All | Who::Kind(_) | Who::Manager => None,
    });
    of_port.collect()
}

/// Returns the node with a node GUID, and the GUIDs of its ports, for example `"host 1", whose ports have 0x…1, 0x…2`.
fn node_in_words(fabric: &Fabric, guid: Guid) -> Option<String> {
    let node = fabric.find(guid)?;
    let ports = fabric.end_ports().filter(|(at, _)| at.node == node);
    let guids: Vec<String> = ports.map(|(_, port)| port.guid.to_string()).collect();
    let name = &fabric.node(node).description;
    Some(format!("\"{name}\" with port GUID {}", guids.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use selvedge_plan::partition::{Partitions, Rule};
    use selvedge_topology::Spec;
    use selvedge_types::{Lid, LidRange};

    use super::*;
    use crate::event::Event;

    fn said(listed: &mut Listed, fabric: &Fabric, policy: &Policy) -> Vec<String> {
        let mut news = Vec::new();
        listed.handle(fabric, policy, &mut news);
        let events = news.into_iter().map(Event::ListedAbsent);
        events.map(|event| event.to_string()).collect()
    }

    #[test]
    fn each_list_is_named_once_until_something_changes() {
        let Ok(Spec::Generated(recipe)) = "mport:m=4,n=2".parse() else {
            panic!("no such fabric")
        };
        let fabric = recipe.fabric().unwrap();
        let switch = fabric.node(fabric.switches()[selvedge_fabric::SwitchIdx(0)]).guid;
        let is_host = |at: &selvedge_fabric::PortRef| !fabric.node(at.node).is_switch();
        let (host, port) = fabric.end_ports().find(|(at, _)| is_host(at)).unwrap();
        let (host, port, nobody) = (fabric.node(host.node).guid, port.guid, Guid(0xDEAD));
        let mut policy = Policy {
            roots: vec![switch, host, port],
            compute: vec![port],
            io: vec![port],
            guid_order: vec![port],
            ..Policy::default()
        };
        let mut listed = Listed::default();
        assert_eq!(said(&mut listed, &fabric, &policy), [] as [&str; 0]);
        policy.roots.extend([nobody, Guid(0xBEEF)]);
        policy.compute.insert(0, nobody);
        policy.io = vec![nobody];
        policy.guid_order = vec![Guid(0xBEEF), nobody];
        let told = said(&mut listed, &fabric, &policy);
        for (text, want) in told.iter().zip([
            "SLV-SM-0048 2 of 5 GUIDs of routing.roots (root_guid_file) are not in this fabric, the first is \
             0x000000000000dead:",
            "SLV-SM-0048 1 of 2 GUIDs of routing.compute (cn_guid_file) are not in this fabric, the first is \
             0x000000000000dead:",
            "SLV-SM-0048 1 of 1 GUIDs of routing.io (io_guid_file) are not in this fabric, the first is \
             0x000000000000dead:",
            "SLV-SM-0048 2 of 2 GUIDs of routing.guid_order (guid_routing_order_file) are not in this fabric, the \
             first is 0x000000000000beef:",
        ]) {
            assert!(text.starts_with(want), "{text}");
        }
        assert_eq!(told.len(), 4);
        assert_eq!(said(&mut listed, &fabric, &policy), [] as [&str; 0], "said before");
        // Only changes are reported, and a GUID that was present for a while is reported again.
        policy.compute = vec![nobody, nobody];
        policy.io.clear();
        assert_eq!(said(&mut listed, &fabric, &policy).len(), 1);
        policy.io = vec![nobody];
        assert_eq!(said(&mut listed, &fabric, &policy).len(), 1);
        // A node's GUID is no port's.
        policy.compute = vec![host];
        assert_eq!(said(&mut listed, &fabric, &policy).len(), 1);
    }

    /// If a list of port GUIDs has the GUID of a node, the event names the node and the GUIDs of its ports. Tested for
    /// each list.
    #[test]
    fn a_node_guid_in_place_of_a_port_guid_is_named() {
        let Ok(Spec::Generated(recipe)) = "mport:m=4,n=2".parse() else {
            panic!("no such fabric")
        };
        let fabric = recipe.fabric().unwrap();
        let is_host = |at: &selvedge_fabric::PortRef| !fabric.node(at.node).is_switch();
        let (at, port) = fabric.end_ports().find(|(at, _)| is_host(at)).unwrap();
        let host = fabric.node(at.node);
        let rule = |guid| Rule {
            who: Who::Port(guid),
            is_full: true,
            is_first: false,
        };
        let lids = |guid| [(guid, LidRange::single(Lid(5)))].into();
        let with = |guid: Guid| {
            let guids = vec![guid];
            [
                Policy {
                    compute: guids.clone(),
                    ..Policy::default()
                },
                Policy {
                    io: guids.clone(),
                    ..Policy::default()
                },
                Policy {
                    guid_order: guids,
                    ..Policy::default()
                },
                Policy {
                    partitions: Arc::new(Partitions::only_default(&[rule(guid)])),
                    ..Policy::default()
                },
                Policy {
                    known_lids: lids(guid),
                    ..Policy::default()
                },
            ]
        };
        let want = format!("the node GUID of \"{}\" with port GUID {}", host.description, port.guid);
        for policy in with(host.guid) {
            let told = said(&mut Listed::default(), &fabric, &policy);
            assert!(told.len() == 1 && told[0].contains(&want), "{told:?}");
        }
        for policy in with(port.guid) {
            assert_eq!(said(&mut Listed::default(), &fabric, &policy), [] as [&str; 0]);
        }
        // What matches nothing is named, too; but a host of guid2lid may be off.
        let said = with(Guid(0xDEAD)).map(|policy| said(&mut Listed::default(), &fabric, &policy).len());
        assert_eq!(said, [1, 1, 1, 1, 0]);
        let roots = vec![host.guid, Guid(0xDEAD)];
        let told = super::absent(
            &fabric,
            &Policy {
                roots,
                ..Policy::default()
            },
        );
        assert_eq!((told[0].first, told[0].guids), (Guid(0xDEAD), (1, 2)));
    }
}
