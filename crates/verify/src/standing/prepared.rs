//! Where packets under way may wait for each other, worked out before the next fault.
//!
//! For a second or two after a repair packets may be where its replaced entries have sent them, and another repair must
//! be proved with them. Which dependencies they make depends on tables and links alone, so it is known before the next
//! fault comes, but for LIDs whose entries that fault changes. A link that is lost meanwhile takes dependencies away
//! and adds none: whatever is proved with all that were worked out before is proved without some of them.

use selvedge_types::Lid;

use super::Standing;
use super::graph::Edges;
use super::left::Replaced;
use super::repair::HOSTS;
use super::shape::Shape;

/// Dependencies that packets under way may make, beyond those that stand.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    /// What they were worked out for.
    replaced: Vec<Replaced>,
    /// LIDs of it, each once.
    lids: Vec<Lid>,
    /// The dependencies: vertex and egress port, each once.
    turns: Vec<(u32, u8)>,
}

impl Prepared {
    /// True if this was worked out for what is under way now.
    pub(super) fn is_for(&self, under_way: &[Replaced]) -> bool {
        self.replaced == under_way
    }

    /// How many of its LIDs are not among these, which are in order.
    pub(super) fn others(&self, lids: &[Lid]) -> u64 {
        let others = self.lids.iter().filter(|lid| lids.binary_search(lid).is_err());
        others.count() as u64
    }

    /// The dependencies that are left when some vertices are lost.
    pub(super) fn without(&self, edges: &Edges, shape: &Shape, lost: &[u32]) -> impl Iterator<Item = (u32, u8)> {
        let is_left =
            |&(vertex, port): &(u32, u8)| !lost.contains(&vertex) && !lost.contains(&edges.behind(shape, vertex, port));
        self.turns.iter().copied().filter(is_left)
    }
}

impl Standing {
    /// Works out where packets may wait for each other that are under way by entries that were replaced lately, so that
    /// the next repair need not. Forgotten with the next change; to be called when there is time.
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
