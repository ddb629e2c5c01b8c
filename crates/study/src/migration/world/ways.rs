//! The cables that connections use.

use selvedge_fabric::PortRef;
use selvedge_hca::Path;
use selvedge_types::{Lid, PortNum};

use super::{HOPS_MAX, World};

impl World<'_> {
    /// Returns the queue pairs of which the path in use crosses a cable, there or back.
    pub(super) fn over(&self, cut: PortRef) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        for (host, program) in (0..).zip(&self.programs) {
            let Some(hca) = self.simulation.endpoint().hca(program.hca) else {
                continue;
            };
            for (number, end) in (0..).zip(&program.ends) {
                let path = hca.query_qp(end.qp).map(|attr| attr.primary);
                let cables = path.ok().and_then(|path| self.cables(host, &path));
                if cables.is_some_and(|cables| cables.contains(&cut)) {
                    found.push((host, number));
                }
            }
        }
        found
    }

    /// True if the tables in force lead along the path there and back, and no cable of it is cut.
    pub(super) fn carries(&self, host: u32, path: &Path) -> bool {
        let cables = self.cables(host, path);
        cables.is_some_and(|cables| cables.iter().all(|cable| !self.cuts.contains(cable)))
    }

    /// Returns the cables of a path, there and back; `None` if the tables do not lead to its ends.
    fn cables(&self, host: u32, path: &Path) -> Option<Vec<PortRef>> {
        let node = self.programs[host as usize].node;
        let port = PortNum::new(path.port)?;
        let source = PortRef { node, port };
        let lids = &self.force.lids;
        let slid = Lid(lids.base(source)?.0 + u16::from(path.ah.src_path_bits));
        let target = lids.owner(path.ah.dlid)?;
        let mut cables = Vec::new();
        self.walk((source, target), path.ah.dlid, &mut cables)?;
        self.walk((target, source), slid, &mut cables)?;
        Some(cables)
    }

    fn walk(&self, (from, to): (PortRef, PortRef), dlid: Lid, cables: &mut Vec<PortRef>) -> Option<()> {
        let fabric = &self.force.fabric;
        let mut at = from;
        for _ in 0..HOPS_MAX {
            let peer = fabric.peer(at)?;
            cables.push(at.min(peer));
            if peer == to {
                return Some(());
            }
            let switch = fabric.switch_index(peer.node)?;
            let port = PortNum::new(self.tables.get(switch, dlid))?;
            at = PortRef { node: peer.node, port };
        }
        None
    }
}
