//! Which alternate each policy gives, and which faults break both paths.

use super::*;
use crate::testing::Lab;
use crate::{Hosts, rank};

/// A pair of hosts on different leaves of a lab.
struct Pair {
    lab: Lab,
    index: Index,
    hosts: Hosts,
}

impl Pair {
    fn new(spec: &str, lmc: u8) -> Self {
        let lab = Lab::new(spec, lmc);
        let index = Index::new(lab.subnet());
        let hosts = Hosts::of(lab.subnet(), &index);
        Self { lab, index, hosts }
    }

    fn routes(&self) -> Routes<'_> {
        Routes {
            subnet: self.lab.subnet(),
            index: &self.index,
        }
    }

    fn get(&self, from: usize, to: usize, bits: u8, policy: &str) -> Result<Alternate, ApmError> {
        let pair = (&self.hosts.all()[from], &self.hosts.all()[to]);
        self.routes().alternate(pair, bits, policy.parse().unwrap())
    }
}

/// Path bits and ports of the alternate path.
fn bits_and_ports(found: &Alternate) -> (u8, u8, u8) {
    let path = found.alternate;
    (path.bits, path.source.port.get(), path.target.port.get())
}

#[test]
fn each_policy_chooses_its_path() {
    let check = |spec: &str, lmc: u8, bits: u8, policy: &str, want: (u8, u8, u8)| {
        let lab = Pair::new(spec, lmc);
        let found = lab.get(0, lab.hosts.all().len() - 1, bits, policy).unwrap();
        assert_eq!(bits_and_ports(&found), want, "{spec} {lmc} {bits} {policy}");
        let range = lab.lab.lids.range(found.alternate.target).unwrap();
        assert_eq!(found.alternate.dlid.0, range.base.0 + u16::from(found.alternate.bits));
        let range = lab.lab.lids.range(found.alternate.source).unwrap();
        assert_eq!(found.alternate.slid.0, range.base.0 + u16::from(found.alternate.bits));
    };
    let tree = "karytree:k=4,n=2";
    let dual = "karytree:k=4,n=2,ports-per-host=2";
    check(dual, 0, 0, "port", (0, 2, 2));
    check(dual, 1, 1, "port", (0, 2, 2));
    check(tree, 2, 0, "lmc=3", (3, 1, 1));
    check(tree, 2, 3, "lmc=1", (1, 1, 1));
    check(tree, 2, 3, "lmc=0", (0, 1, 1));
    check(tree, 2, 1, "openmpi", (2, 1, 1));
    check(tree, 2, 0, "mvapich2", (1, 1, 1));
    check(tree, 2, 3, "mvapich2", (0, 1, 1));
    check(tree, 2, 3, "mvapich2=2", (1, 1, 1));
}

#[test]
fn another_adapter_is_no_migration_in_hardware() {
    let lab = Pair::new("karytree:k=4,n=2,hcas=2", 0);
    let found = lab.get(0, 9, 0, "hca").unwrap();
    let name = |at: PortRef| lab.lab.fabric.port_name(at);
    assert_eq!(name(found.primary.source), "\"H-0 HCA-1\"[1]");
    assert_eq!(name(found.alternate.source), "\"H-0 HCA-2\"[1]");
    assert_eq!(name(found.alternate.target), "\"H-9 HCA-2\"[1]");
    assert!(!found.is_in_hardware() && found.shared.unavoidable.is_empty());
    let dual = Pair::new("karytree:k=4,n=2,ports-per-host=2", 0);
    assert!(dual.get(0, 9, 0, "port").unwrap().is_in_hardware());
}

#[test]
fn a_policy_that_gives_no_alternate_says_why() {
    let check = |spec: &str, lmc: u8, bits: u8, policy: &str, code: &str, part: &str| {
        let error = Pair::new(spec, lmc).get(0, 15, bits, policy).unwrap_err().to_string();
        assert!(error.starts_with(code) && error.contains(part), "{policy}: {error}");
    };
    let tree = "karytree:k=4,n=2";
    check(tree, 0, 0, "openmpi", "SLV-APM-0005", "\"H-0\"[1] has LMC 0");
    check(tree, 0, 0, "mvapich2", "SLV-APM-0005", "LMC 0");
    check(tree, 0, 0, "lmc=1", "SLV-APM-0005", "LMC 0");
    check(tree, 1, 0, "lmc=2", "SLV-APM-0006", "path bits up to 1");
    check(tree, 1, 1, "openmpi", "SLV-APM-0006", "needs path bits 2");
    check(tree, 1, 2, "openmpi", "SLV-APM-0006", "of the primary path");
    check(tree, 1, 0, "mvapich2=2", "SLV-APM-0004", "again");
    check(tree, 1, 0, "lmc=0", "SLV-APM-0004", "again");
    check(tree, 1, 0, "port", "SLV-APM-0007", "\"H-0\"");
    check(tree, 1, 0, "hca", "SLV-APM-0008", "H-0");
    check(tree, 0, 0, "manager", "SLV-APM-0010", "only one path");
    let lab = Pair::new(tree, 1);
    let error = lab.get(3, 3, 0, "manager").unwrap_err().to_string();
    assert!(error.starts_with("SLV-APM-0003") && error.contains("'H-3'"), "{error}");
}

#[test]
fn tables_that_lead_nowhere_are_no_path() {
    let mut lab = Pair::new("karytree:k=4,n=2", 1);
    let dlid = lab.get(0, 15, 0, "openmpi").unwrap().alternate.dlid;
    for switch in lab.lab.tables.switch_indices() {
        lab.lab.tables.set(switch, dlid, selvedge_plan::NO_PATH);
    }
    let error = lab.get(0, 15, 0, "openmpi").unwrap_err().to_string();
    assert!(error.starts_with("SLV-APM-0009"), "{error}");
    let found = lab.get(0, 15, 0, "manager").unwrap();
    assert_ne!(found.alternate.dlid, dlid, "the manager takes a path that exists");
}

#[test]
fn what_both_paths_need_is_told_apart() {
    // Four LIDs of one port: the port and the leaf cannot be avoided, everything above can.
    let lab = Pair::new("karytree:k=4,n=2", 2);
    let found = lab.get(0, 15, 0, "manager").unwrap();
    let name = |fault: &Fault| format!("{} {}", fault.kind(), fault.name(&lab.lab.fabric));
    let mut names: Vec<String> = found.shared.unavoidable.iter().map(name).collect();
    names.sort();
    let want = [
        "port \"H-0\"[1]",
        "port \"H-15\"[1]",
        "switch \"S-L1-0\"",
        "switch \"S-L1-3\"",
    ];
    assert_eq!(names, want);
    assert!(found.shared.is_disjoint(), "{:?}", found.shared);
    assert_eq!((found.primary_way.hops(), found.alternate_way.hops()), (4, 4));
    // On one leaf, both paths are the same two links, and none of them can be avoided.
    let near = lab.get(0, 1, 0, "manager").unwrap();
    assert!(near.shared.is_disjoint());
    assert_eq!(near.shared.unavoidable.len(), 3);
    // Two ports on two leaves: LMC offsets of the first port could have avoided port and leaf.
    let dual = Pair::new("karytree:k=4,n=2,ports-per-host=2", 1);
    let found = dual.get(0, 10, 0, "lmc=1").unwrap();
    assert_eq!(
        (found.shared.links(), found.shared.switches()),
        (2, 2),
        "{:?}",
        found.shared
    );
    let found = dual.get(0, 10, 0, "manager").unwrap();
    assert!(found.shared.is_disjoint() && found.shared.unavoidable.is_empty());
    assert_ne!(found.alternate.source, found.primary.source);
    // Both ports on the only switch.
    let single = Pair::new("single:ports=8,hosts=4,ports-per-host=2", 0);
    let found = single.get(0, 2, 0, "port").unwrap();
    assert!(found.shared.is_disjoint());
    assert_eq!(found.shared.unavoidable, [Fault::Switch(switch(0))]);
}

/// The faults of the answer are those that break both paths when they are tried.
#[test]
fn shared_faults_are_those_that_break_both_paths() {
    for (spec, lmc) in [
        ("karytree:k=3,n=2", 1),
        ("torus:3x3,hosts=1", 1),
        ("ring:switches=5,hosts=2", 2),
    ] {
        let lab = Pair::new(spec, lmc);
        let fabric = &lab.lab.fabric;
        let found = lab.get(0, 7, 0, "manager").unwrap();
        let mut all = [found.shared.avoidable.clone(), found.shared.unavoidable.clone()].concat();
        all.sort();
        let breaks = |path: &Path, fault: Fault| !steps(&lab, path).iter().all(|step| *step != fault);
        let links = fabric.links().map(|link| {
            let host = [link.a, link.b]
                .into_iter()
                .find(|end| !fabric.node(end.node).is_switch());
            host.map_or(Fault::Link(link.a), Fault::Port)
        });
        let switches = (0..fabric.switches().len() as u32).map(|at| Fault::Switch(switch(at)));
        let tried = links.chain(switches);
        let mut both: Vec<Fault> = tried
            .filter(|&fault| breaks(&found.primary, fault) && breaks(&found.alternate, fault))
            .collect();
        both.sort();
        assert_eq!(all, both, "{spec}");
    }
}

/// Every part of a round trip, from the tables alone.
fn steps(lab: &Pair, path: &Path) -> Vec<Fault> {
    let (fabric, mut found) = (&lab.lab.fabric, Vec::new());
    for (from, to, dlid) in [
        (path.source, path.target, path.dlid),
        (path.target, path.source, path.slid),
    ] {
        found.push(Fault::Port(from));
        let mut at = fabric.peer(from).unwrap();
        while at != to {
            let here = fabric.switch_index(at.node).unwrap();
            let egress = lab.lab.tables.get(here, dlid);
            let out = PortRef {
                node: at.node,
                port: selvedge_types::PortNum::new(egress).unwrap(),
            };
            at = fabric.peer(out).unwrap();
            found.push(Fault::Switch(here));
            found.push(if at == to {
                Fault::Port(to)
            } else {
                Fault::Link(out.min(at))
            });
        }
    }
    found
}

#[test]
fn the_manager_takes_the_second_path_of_the_order() {
    let lab = Pair::new("karytree:k=4,n=2", 2);
    let found = lab.get(0, 13, 0, "manager").unwrap();
    let routes = lab.routes();
    let all = routes.candidates((found.primary.source, found.primary.target), None);
    let ways: Vec<Option<Way>> = all.iter().map(|path| routes.way(path)).collect();
    let order = rank(&ways);
    assert_eq!((order.len(), all[0]), (16, found.primary));
    assert_eq!((all[order[0]], all[order[1]]), (found.primary, found.alternate));
}
