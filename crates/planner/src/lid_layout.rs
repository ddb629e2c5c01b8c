//! The order in which ports of a new fabric get their LIDs.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{LidLayout, Lids, Policy};
use selvedge_routing::{FatTree, FatTreeOptions};
use selvedge_sim::Par;
use selvedge_types::{Guid, LidRange, Lmc};

/// Sorts ports that need LIDs into the order of the policy. The order changes only if all ports need LIDs and none has
/// a known one. A few new ports among many old ones get the lowest free LIDs under any layout.
pub fn arrange(
    fabric: &Fabric,
    policy: &Policy,
    (given, known): (&Lids, &BTreeMap<Guid, LidRange>),
    needy: &mut [(PortRef, Lmc)],
) {
    let is_new = given.is_empty() && known.is_empty() && policy.known_lids.is_empty();
    if policy.lid_layout == LidLayout::Sequential || !is_new {
        return;
    }
    let options = FatTreeOptions {
        roots: policy.roots.clone(),
        ..FatTreeOptions::default()
    };
    let tree = FatTree::detect(fabric, &options, Par::Sequential).ok();
    let Some(order) = tree.and_then(|tree| tree.lid_order(policy.lmc)) else {
        return;
    };
    let place: BTreeMap<PortRef, usize> = order.into_iter().zip(0..).collect();
    // Ports that are not part of the tree come last, in their original order.
    needy.sort_by_key(|(at, _)| place.get(at).copied().unwrap_or(usize::MAX));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use selvedge_topology::Spec;
    use selvedge_types::{Lid, PhysState};

    use super::*;
    use crate::lid::assign;

    fn trained(spec: &str) -> Fabric {
        let Ok(Spec::Generated(recipe)) = spec.parse() else {
            panic!("{spec}")
        };
        let mut fabric = recipe.fabric().unwrap();
        let cabled: Vec<PortRef> = fabric.links().flat_map(|l| [l.a, l.b]).collect();
        for at in cabled {
            let (mut link, settings) = fabric.port(at).map(|p| (p.link, p.settings)).unwrap();
            link.phys = PhysState::LinkUp;
            fabric.set_port(at, link, settings);
        }
        fabric
    }

    /// Returns the assigned LIDs in the order of end ports, which is the order of node GUIDs.
    fn given(fabric: &Fabric, layout: LidLayout, known: &BTreeMap<Guid, LidRange>) -> Vec<u16> {
        let policy = Policy {
            lid_layout: layout,
            ..Policy::default()
        };
        let lids = assign(fabric, &policy, known, &BTreeSet::new(), &mut Vec::new()).unwrap();
        lids.iter().map(|(_, range)| range.base.0).collect()
    }

    #[test]
    fn only_a_new_tree_of_some_size_is_laid_out() {
        let check = |spec: &str, want: bool| {
            let fabric = trained(spec);
            let none = BTreeMap::new();
            let sequential = given(&fabric, LidLayout::Sequential, &none);
            let mut by_plane = given(&fabric, LidLayout::ByPlane, &none);
            assert_eq!(
                by_plane,
                given(&fabric, LidLayout::ByPlane, &none),
                "{spec}: the same again"
            );
            assert_eq!(by_plane != sequential, want, "{spec}");
            by_plane.sort_unstable();
            assert_eq!(by_plane, sequential, "{spec}: no LID is left out");
        };
        check("karytree:k=4,n=3", true);
        check("karytree:k=4,n=3,remove-links=2,guids=shuffled", true);
        check("sx6536", true);
        check("karytree:k=4,n=2", false);
        check("single:ports=36,hosts=36", false);
        check("torus:4x4x4,hosts=1", false);
        check("random:switches=32,degree=4,hosts=2", false);
    }

    #[test]
    fn lids_that_are_held_or_known_are_kept_and_the_others_fill_up() {
        let mut fabric = trained("karytree:k=4,n=3");
        let none = BTreeMap::new();
        let (at, guid) = fabric.end_ports().nth(40).map(|(at, port)| (at, port.guid)).unwrap();
        let range = LidRange::single(Lid(1000));
        let known = BTreeMap::from([(guid, range)]);
        assert_eq!(
            given(&fabric, LidLayout::ByPlane, &known),
            given(&fabric, LidLayout::Sequential, &known)
        );
        let (link, mut settings) = fabric.port(at).map(|p| (p.link, p.settings)).unwrap();
        settings.lids = range;
        fabric.set_port(at, link, settings);
        let held = given(&fabric, LidLayout::ByPlane, &none);
        assert_eq!(held, given(&fabric, LidLayout::Sequential, &none));
        assert_eq!(held[40], 1000);
    }
}
