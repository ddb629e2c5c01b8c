//! Fabrics with removed cables.

use selvedge_fabric::{BuildError, Fabric, FabricBuilder, LinkState, NodeKey};
use selvedge_sim::Seed;

use crate::generate::LinkRemoval;
use crate::spec::parse_removal;

impl LinkRemoval {
    /// Parses `12` (cables), or a share as `1%` or `0.25%`. `None` if the text is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse_removal(text)
    }

    /// Returns how many of this number of cables to remove; `None` if that is more than there are.
    #[must_use]
    pub fn of(self, cables: usize) -> Option<usize> {
        let wanted = match self {
            Self::Count(count) => count as usize,
            Self::PerMillion(share) => {
                let exact = cables as u64 * u64::from(share);
                usize::try_from((exact + 500_000) / 1_000_000).unwrap_or(usize::MAX)
            }
        };
        (wanted <= cables).then_some(wanted)
    }
}

/// The reasons for which cables cannot be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageError {
    /// SLV-TOPOLOGY-0050: more links are to be removed than exist.
    #[error(
        "SLV-TOPOLOGY-0050: {wanted} links cannot be removed: there are {cables} links between switches; give a \
         smaller number"
    )]
    TooMany {
        /// Links to remove.
        wanted: u32,
        /// Trained links between switches.
        cables: usize,
    },
    /// The remaining nodes and links do not form a fabric.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Returns the fabric without some of the trained cables between its switches, drawn by `seed`. With equal seeds, a
/// larger removal contains every smaller one. The remaining fabric may be disconnected.
pub fn without_links(fabric: &Fabric, removal: LinkRemoval, seed: Seed) -> Result<Fabric, DamageError> {
    let is_between = |at: &selvedge_fabric::Link| {
        fabric.link_is_up(at.a) && [at.a, at.b].iter().all(|end| fabric.node(end.node).is_switch())
    };
    let mut between: Vec<_> = fabric.links().filter(is_between).collect();
    seed.child("lost-links").rng().shuffle(&mut between);
    let cables = between.len();
    between.truncate(removal.of(cables).ok_or(match removal {
        LinkRemoval::Count(wanted) | LinkRemoval::PerMillion(wanted) => DamageError::TooMany { wanted, cables },
    })?);
    between.sort_unstable();
    let mut builder = FabricBuilder::new();
    let keys: Vec<NodeKey> = fabric.nodes().iter().map(|node| builder.add(node.clone())).collect();
    let key = |end: selvedge_fabric::PortRef| (keys[end.node.0 as usize], end.port);
    for link in fabric.links() {
        if between.binary_search(&link).is_err() {
            builder.link(key(link.a), key(link.b))?;
            continue;
        }
        for (node, port) in [key(link.a), key(link.b)] {
            if let Some(port) = builder.node_mut(node).port_mut(port) {
                port.link = LinkState::default();
            }
        }
    }
    Ok(builder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, Summary};

    fn fabric(spec: &str) -> Fabric {
        let Ok(Spec::Generated(recipe)) = spec.parse() else {
            panic!("{spec} is no generator");
        };
        recipe.fabric().unwrap()
    }

    #[test]
    fn cables_are_lost_and_nothing_else() {
        let whole = fabric("sx6536");
        let check = |removal: &str, want: usize| {
            let removal = LinkRemoval::parse(removal).unwrap();
            let less = without_links(&whole, removal, Seed(3)).unwrap();
            let (before, after) = (Summary::of(&whole), Summary::of(&less));
            assert_eq!(before.switch_links - after.switch_links, want);
            assert_eq!((after.switches, after.hosts), (before.switches, before.hosts));
            let up = less.links().filter(|link| less.link_is_up(link.a)).count();
            assert_eq!(up + want, whole.links().count());
            less
        };
        assert_eq!(check("0", 0), whole);
        let (few, more) = (check("1%", 3), check("3%", 10));
        assert!(
            more.links().all(|link| few.peer(link.a) == Some(link.b)),
            "the lost ones are lost again"
        );
        check("100%", 324);
        let too_many = without_links(&whole, LinkRemoval::Count(325), Seed(3)).unwrap_err();
        assert_eq!(
            too_many,
            DamageError::TooMany {
                wanted: 325,
                cables: 324
            }
        );
        assert_ne!(few, without_links(&whole, LinkRemoval::Count(3), Seed(4)).unwrap());
    }
}
