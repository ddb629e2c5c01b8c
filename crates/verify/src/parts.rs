//! Parts of the fabric without a link between them, and hosts that are alone.

use selvedge_fabric::PortRef;
use selvedge_types::PortNum;

use crate::finding::{Fault, Finding, Place, Severity};
use crate::ground::Ground;

/// Reports several parts (once) and every host that is alone.
pub fn findings(ground: &Ground<'_>) -> Vec<Finding> {
    let mut hosts_of = vec![0_u64; ground.parts];
    for host in &ground.hosts {
        hosts_of[ground.part[host.switch as usize] as usize] += 1;
    }
    let mut found = Vec::new();
    let parts = (ground.parts + ground.back_to_back.len()) as u64;
    if parts > 1 {
        hosts_of.extend(ground.back_to_back.iter().map(|_| 2));
        let hosts: u64 = hosts_of.iter().sum();
        found.push(Finding::new(
            Severity::Info,
            Fault::Separated {
                parts,
                hosts_of_largest: hosts_of.iter().copied().max().unwrap_or(0),
                hosts,
                host_pairs_apart: hosts * hosts - hosts_of.iter().map(|n| n * n).sum::<u64>(),
            },
        ));
    }
    found.extend(hosts_without_link(ground));
    let alone = ground
        .hosts
        .iter()
        .filter(|host| ground.hosts.len() > 1 && hosts_of[ground.part[host.switch as usize] as usize] == 1);
    found.extend(alone.map(|host| alone_finding(Place::port(ground.subject.fabric, host.at), true)));
    found
}

/// Hosts none of whose ports has a trained link.
fn hosts_without_link<'a>(ground: &'a Ground<'_>) -> impl Iterator<Item = Finding> + 'a {
    let fabric = ground.subject.fabric;
    let hosts = fabric.nodes().iter_enumerated().filter(|(_, node)| !node.is_switch());
    hosts.filter_map(move |(idx, node)| {
        let up = |port: PortNum| fabric.link_is_up(PortRef { node: idx, port });
        let is_alone = !node.external_ports().any(|(port, _)| up(port));
        is_alone.then(|| alone_finding(Place::node(fabric, idx), false))
    })
}

fn alone_finding(host: Place, has_link: bool) -> Finding {
    Finding::new(Severity::Warning, Fault::HostAlone { host, has_link })
}
