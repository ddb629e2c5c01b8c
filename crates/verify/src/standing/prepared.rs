//! Dependencies of packets in flight, computed before the next fault.
//!
//! For a second or two after a repair, packets may be at places to which the replaced entries have sent them. If
//! another repair follows, it must be proved together with these packets. Their dependencies follow from tables and
//! links alone. So they can be computed before the next fault, except those of LIDs with entries that change because of
//! the fault. A link that is lost meanwhile removes dependencies and adds none, so a proof that considers all computed
//! dependencies stays valid.

use selvedge_types::Lid;

use super::Standing;
use super::graph::Edges;
use super::left::Replaced;
use super::repair::HOSTS;
use super::shape::Shape;

/// Dependencies that packets in flight may make, beyond the existing ones.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    /// The replaced entries for which the dependencies were computed.
    replaced: Vec<Replaced>,
    /// LIDs of these entries, each once.
    lids: Vec<Lid>,
    /// The dependencies: vertex and egress port, each once.
    turns: Vec<(u32, u8)>,
}

impl Prepared {
    /// True if the dependencies were computed for the packets in flight now.
    pub(super) fn is_for(&self, under_way: &[Replaced]) -> bool {
        self.replaced == under_way
    }

    /// Returns how many of the prepared LIDs are not in `lids`, which is sorted.
    pub(super) fn others(&self, lids: &[Lid]) -> u64 {
        let others = self.lids.iter().filter(|lid| lids.binary_search(lid).is_err());
        others.count() as u64
    }

    /// Returns the dependencies that are left when some vertices are lost.
    pub(super) fn without(&self, edges: &Edges, shape: &Shape, lost: &[u32]) -> impl Iterator<Item = (u32, u8)> {
        let is_left =
            |&(vertex, port): &(u32, u8)| !lost.contains(&vertex) && !lost.contains(&edges.behind(shape, vertex, port));
        self.turns.iter().copied().filter(is_left)
    }
}

impl Standing {
    /// Computes the dependencies of packets in flight after entries were replaced, so that the next repair need not
    /// compute them. The next change of the proof discards the result. Call this when no repair is pending.
    pub fn prepare_for(&mut self, replaced: &[Replaced]) {
        self.prepared = None;
        let beyond = |old: &Replaced| old.entry.lid.index() >= self.flows.shape.goals.len();
        if replaced.is_empty() || replaced.iter().any(beyond) {
            return;
        }
        let (_, mut turns) = self.turns_of(&[], replaced, HOSTS);
        turns.sort_unstable();
        turns.dedup();
        let mut lids: Vec<Lid> = replaced.iter().map(|old| old.entry.lid).collect();
        lids.sort_unstable();
        lids.dedup();
        self.prepared = Some(Prepared {
            replaced: replaced.to_vec(),
            lids,
            turns,
        });
    }
}
