//! Repairs in place: values that change tables in force to route around lost links.

use crate::engine::InForce;
use crate::engines::fat_tree::{LikelyTurn, TreeMender};
use crate::engines::weave::WeaveMender;

/// Changes few entries of tables in force to route around lost links.
#[derive(Clone, Debug)]
pub enum Mender {
    /// Repairs a fat tree: by the tree's rule, with detours where the rule gives no path.
    Tree(Box<TreeMender>),
    /// Repairs any tables that are free of credit loops: by the order of their dependency graph.
    Ordered(Box<WeaveMender>),
}

impl Mender {
    /// Prepares repairs of any tables. `None` if the tables do not lead from every switch to every LID of a connected
    /// fabric, or have a credit loop.
    #[must_use]
    pub fn of_any_tables(force: &InForce<'_>) -> Option<Self> {
        let levels = (force.service_levels, force.lanes);
        let mender = WeaveMender::new(force.fabric, force.lids, force.tables, levels)?;
        Some(Self::Ordered(Box::new(mender)))
    }

    /// Returns true if a repair searches the dependency graph: that takes longer than a rule does.
    #[must_use]
    pub const fn searches(&self) -> bool {
        matches!(self, Self::Ordered(_))
    }

    /// Returns the turns that repairs may need, where that is known beforehand.
    pub fn likely_turns(&self) -> impl Iterator<Item = LikelyTurn> + '_ {
        let tree = match self {
            Self::Tree(tree) => Some(tree),
            Self::Ordered(_) => None,
        };
        tree.into_iter().flat_map(|tree| tree.likely_turns())
    }
}
