//! Judges connectivity: parts of the fabric without a link between them, and hosts without any other node.

use selvedge_fabric::PortRef;
use selvedge_types::PortNum;

use crate::finding::{Fault, Finding, Place, Severity};
use crate::ground::Ground;
use crate::whole::Whole;

/// Reports several connected parts (once) and every isolated host.
pub fn findings(ground: &Ground<'_>) -> Vec<Finding> {
    let whole = Whole::new(ground);
    let mut found = Vec::new();
    let parts = whole.live_of_part.len() as u64;
    if parts > 1 {
        let host_pairs_apart = whole.pairs_apart();
        let severity = match host_pairs_apart {
            0 => Severity::Info,
            _ => Severity::Warning,
        };
        found.push(Finding::new(
            severity,
            Fault::Separated {
                parts,
                hosts_of_largest: whole.live_of_part.iter().copied().max().unwrap_or(0),
                hosts: whole.live_of_part.iter().sum(),
                host_pairs_apart,
            },
        ));
    }
    found.extend(hosts_without_link(ground));
    let alone = ground.hosts.iter().filter(|host| {
        let part = ground.part[host.switch as usize] as usize;
        whole.live_of_part[part] == 1 && whole.live_of_plane[whole.plane_of[part]] > 1
    });
    found.extend(alone.map(|host| alone_finding(Place::port(ground.subject.fabric, host.at), true)));
    found
}

/// Returns hosts without a trained link at any port.
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

#[cfg(test)]
mod tests {
    use selvedge_types::{Guid, NodeKind, PortState};

    use super::*;
    use crate::{Subject, support};

    fn check(net: support::Net, want: &[&str]) {
        let fabric = net.finish(PortState::Init);
        let lids = support::lids(&fabric, 0);
        let tables = support::updown(&fabric, &lids, selvedge_fabric::SwitchIdx(0));
        let plan = support::plan(&fabric, lids, tables);
        let found = findings(&Ground::new(Subject::plan(&fabric, &plan)));
        let found: Vec<_> = found.iter().map(|f| f.fault.to_string()).collect();
        assert_eq!(found.len(), want.len(), "{found:?}");
        for (found, want) in found.iter().zip(want) {
            assert!(found.contains(want), "{found} has no {want}");
        }
    }

    #[test]
    fn parts_and_hosts_alone() {
        let mut net = support::Net::new(3, 4);
        net.link(0, 1).host(0).host(1);
        check(
            net,
            &["2 parts without a link between them, as rails have; the largest has 2 of 2"],
        );
        let mut net = support::Net::new(2, 4);
        net.host(0).host(0).host(1);
        check(
            net,
            &[
                "2 parts without a link between them; the largest has 2 of 3 host ports, 4 pairs",
                "\"h2\"[1] reaches no other",
            ],
        );
        let mut net = support::Net::new(1, 4);
        net.host(0).host(0).down(0, support::port(2));
        check(net, &["\"h1\" has no trained link"]);
    }

    #[test]
    fn two_hosts_on_one_cable() {
        let mut net = support::Net::new(0, 1);
        let builder = net.builder();
        let a = builder.add(selvedge_fabric::Node::new(NodeKind::Ca, Guid(1), 1, "a"));
        let b = builder.add(selvedge_fabric::Node::new(NodeKind::Ca, Guid(2), 1, "b"));
        builder.link((a, support::port(1)), (b, support::port(1))).unwrap();
        let fabric = net.finish(PortState::Init);
        let lids = support::lids(&fabric, 0);
        let tables = support::minhop(&fabric, &lids);
        let plan = support::plan(&fabric, lids, tables);
        let verdict = crate::verify(Subject::plan(&fabric, &plan), &crate::JudgeOptions::default());
        assert_eq!(verdict.findings, []);
        let figures = verdict.figures;
        assert_eq!(
            (figures.host_ports, figures.host_pairs, figures.host_pairs_reached),
            (2, 2, 2)
        );
        assert_eq!((figures.parts, figures.pairs.delivered), (1, 2));
    }
}
