//! The cables that connections use.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_dataplane::Ps;
use selvedge_fabric::PortRef;
use selvedge_hca::{Path, Qp};
use selvedge_tolerance::Reach;
use selvedge_types::{Lid, PortNum};

use super::{HOPS_MAX, World};

impl World<'_> {
    /// Returns the queue pairs of which the path in use crosses a cable, there or back.
    pub(super) fn over(&self, cut: PortRef) -> Vec<(u32, Qp)> {
        let mut found = Vec::new();
        for (host, program) in (0..).zip(&self.programs) {
            let Ok(hca) = self.cluster.hca(program.place) else {
                continue;
            };
            for end in &program.ends {
                let path = hca.query_qp(end.qp).map(|attr| attr.primary);
                let cables = path.ok().and_then(|path| self.cables(host, &path));
                if cables.is_some_and(|cables| cables.contains(&cut)) {
                    found.push((host, end.qp));
                }
            }
        }
        found
    }

    /// Returns what has changed for the paths of each host since the last call: the LIDs that packets do not reach any
    /// more, or reach again.
    pub(super) fn reach(&mut self, at: Ps) -> BTreeMap<u32, Vec<Reach>> {
        let mut broken = BTreeSet::new();
        for (host, program) in (0..).zip(&self.programs) {
            for path in program.ends.iter().flat_map(|end| &end.paths) {
                let Some((lids, ports)) = self.ends_of(host, path) else {
                    continue;
                };
                let mut cables = Vec::new();
                let arrives = self.walk(ports, lids.1, &mut cables).is_some();
                if !arrives || cables.iter().any(|cable| self.cuts.contains(cable)) {
                    broken.insert(lids);
                }
            }
        }
        let before = std::mem::replace(&mut self.broken, broken);
        let changed: BTreeSet<(Lid, Lid)> = before.symmetric_difference(&self.broken).copied().collect();
        let mut news: BTreeMap<u32, Vec<Reach>> = BTreeMap::new();
        if changed.is_empty() {
            return news;
        }
        for (host, program) in (0..).zip(&self.programs) {
            for path in program.ends.iter().flat_map(|end| &end.paths) {
                let Some(((from, to), _)) = self.ends_of(host, path) else {
                    continue;
                };
                for (from, to) in [(from, to), (to, from)] {
                    if changed.contains(&(from, to)) {
                        news.entry(host).or_default().push(Reach {
                            at,
                            from: Some(from),
                            to,
                            dies: self.broken.contains(&(from, to)),
                        });
                    }
                }
            }
        }
        news
    }

    /// True if the tables in force lead along the path there and back, and no cable of it is cut.
    pub(super) fn carries(&self, host: u32, path: &Path) -> bool {
        let cables = self.cables(host, path);
        cables.is_some_and(|cables| cables.iter().all(|cable| !self.cuts.contains(cable)))
    }

    /// Returns the cables of a path, there and back; `None` if the tables do not lead to its ends.
    fn cables(&self, host: u32, path: &Path) -> Option<Vec<PortRef>> {
        let ((slid, dlid), (source, target)) = self.ends_of(host, path)?;
        let mut cables = Vec::new();
        self.walk((source, target), dlid, &mut cables)?;
        self.walk((target, source), slid, &mut cables)?;
        Some(cables)
    }

    /// Returns LIDs and ports of a path: source, then destination.
    fn ends_of(&self, host: u32, path: &Path) -> Option<((Lid, Lid), (PortRef, PortRef))> {
        let node = self.programs[host as usize].node;
        let port = PortNum::new(path.port)?;
        let source = PortRef { node, port };
        let lids = &self.force.lids;
        let slid = Lid(lids.base(source)?.0 + u16::from(path.ah.src_path_bits));
        let target = lids.owner(path.ah.dlid)?;
        Some(((slid, path.ah.dlid), (source, target)))
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
