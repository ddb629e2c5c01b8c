//! GUIDs that the operator's lists name and the fabric does not have: engines leave them out, so somebody must say so.

use std::fmt;

use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_types::Guid;

use crate::event::Event;
use crate::io::Output;

/// Some GUIDs of a list are not in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The list, as its key is written, and OpenSM's name of it.
    pub list: (&'static str, &'static str),
    /// How many GUIDs are not there, of how many.
    pub guids: (usize, usize),
    /// The first of them.
    pub first: Guid,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((key, option), (guids, all)) = (self.list, self.guids);
        write!(
            f,
            "{guids} of {all} GUIDs of {key} ({option}) are not in this fabric, the first is {}: what is meant is not \
             routed as the list says; correct the list, or connect what it names",
            self.first
        )
    }
}

/// What was said of the lists: it is said again when it is no longer true.
#[derive(Debug, Default)]
pub struct Listed {
    told: Vec<Absent>,
}

impl Listed {
    /// Says of which lists some GUIDs are not there, unless that has been said.
    pub fn tell(&mut self, fabric: &Fabric, policy: &Policy, out: &mut Vec<Output>) {
        let found = absent(fabric, policy);
        let news = found.iter().filter(|absent| !self.told.contains(absent));
        out.extend(news.map(|absent| Output::Event(Event::ListedAbsent(*absent))));
        self.told = found;
    }
}

/// The lists of which some GUIDs are not there. Roots are switches, or hosts whose switch is meant; the others are
/// ports.
fn absent(fabric: &Fabric, policy: &Policy) -> Vec<Absent> {
    let is_port = |guid: Guid| fabric.find_port(guid).is_some();
    let is_root = |guid: Guid| fabric.find(guid).is_some() || is_port(guid);
    let missing = |list, guids: &[Guid], is_there: &dyn Fn(Guid) -> bool| {
        let mut absent = guids.iter().copied().filter(|guid| !is_there(*guid));
        let first = absent.next()?;
        Some(Absent {
            list,
            guids: (1 + absent.count(), guids.len()),
            first,
        })
    };
    let all = [
        missing(("routing.roots", "root_guid_file"), &policy.roots, &is_root),
        missing(("routing.compute", "cn_guid_file"), &policy.compute, &is_port),
        missing(("routing.io", "io_guid_file"), &policy.io, &is_port),
        missing(
            ("routing.guid_order", "guid_routing_order_file"),
            &policy.guid_order,
            &is_port,
        ),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use selvedge_topology::Spec;

    use super::*;

    fn said(listed: &mut Listed, fabric: &Fabric, policy: &Policy) -> Vec<String> {
        let mut out = Vec::new();
        listed.tell(fabric, policy, &mut out);
        let text = |output: &Output| match output {
            Output::Event(event) => event.to_string(),
            other => panic!("{other:?}"),
        };
        out.iter().map(text).collect()
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
        // Only what has changed is said, and what was right for a while is said anew.
        policy.compute = vec![nobody, nobody];
        policy.io.clear();
        assert_eq!(said(&mut listed, &fabric, &policy).len(), 1);
        policy.io = vec![nobody];
        assert_eq!(said(&mut listed, &fabric, &policy).len(), 1);
        // A node's GUID is no port's.
        policy.compute = vec![host];
        assert_eq!(said(&mut listed, &fabric, &policy).len(), 1);
    }
}
