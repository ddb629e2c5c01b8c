//! The engines, and the fabrics that each routes.

use std::collections::VecDeque;
use std::fmt;

use selvedge_fabric::Fabric;
use selvedge_topology::{LinkRemoval, Options, Recipe, Shape, Spec};
use selvedge_types::Guid;

use crate::error::BenchError;

/// Intact trees: 324, 324 and 1,728 hosts.
const TREES: [&str; 3] = ["sx6536", "karytree:k=18,n=2", "karytree:k=12,n=3"];
/// Random graphs, one for each seed.
const RANDOM: [&str; 2] = [
    "random:switches=128,degree=4,hosts=2",
    "random:switches=256,degree=4,hosts=2",
];
/// Trees that lost links, one for each seed. With 1,728 hosts each takes OpenSM half a minute, so only the most
/// important ones are listed.
const DAMAGED: [&str; 8] = [
    "sx6536:remove-links=1",
    "sx6536:remove-links=1%",
    "sx6536:remove-links=3%",
    "karytree:k=18,n=2,remove-links=1",
    "karytree:k=18,n=2,remove-links=1%",
    "karytree:k=18,n=2,remove-links=3%",
    "karytree:k=12,n=3,remove-links=1%",
    "karytree:k=12,n=3,remove-links=3%",
];
/// Largest number of switches for which `lash` is measured: its time grows with about the fourth power, 20 to 50 s at
/// 432 switches.
const LASH_MAX: usize = 300;

/// The fabrics of a quick run.
pub const QUICK: [&str; 3] = [
    "random:switches=16,degree=4,hosts=2,seed=21",
    "karytree:k=4,n=2",
    "karytree:k=4,n=2,remove-links=1,seed=21",
];

/// Returns the fabrics of a full run. A specification that depends on chance stands for one fabric for each seed.
#[must_use]
pub fn default_fabrics() -> Vec<String> {
    let all = RANDOM.iter().chain(&TREES).chain(&DAMAGED);
    all.map(|spec| (*spec).to_owned()).collect()
}

/// Returns one specification for each seed, if the fabric depends on chance and `spec` names no seed.
#[must_use]
pub fn seeded(spec: &str, seeds: impl Iterator<Item = u64>) -> Vec<String> {
    let by_chance = spec.starts_with("random") || spec.contains("remove-links=");
    if by_chance && !spec.contains("seed=") {
        seeds.map(|seed| add(spec, &format!("seed={seed}"))).collect()
    } else {
        vec![spec.to_owned()]
    }
}

fn add(spec: &str, key: &str) -> String {
    format!("{spec}{}{key}", if spec.contains(':') { ',' } else { ':' })
}

/// A family of fabrics, which differ only in their seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The specification without its seed.
    pub name: String,
    /// The kind of the family, which decides what engines can do with it.
    pub kind: FamilyKind,
}

/// The kind of a family, which decides what engines can do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// A fat tree with all of its links.
    Tree,
    /// A fat tree that has lost links.
    DamagedTree,
    /// Any other fabric.
    Other,
}

/// The family of a generated fabric, and the fabric with all of its links.
pub fn family(spec: &str) -> Result<(Family, Fabric), BenchError> {
    let Spec::Generated(recipe) = spec.parse()? else {
        return Err(BenchError::NoCase {
            spec: spec.to_owned(),
            problem: "it is a file",
        });
    };
    let is_whole = matches!(
        recipe.options.removal,
        LinkRemoval::Count(0) | LinkRemoval::PerMillion(0)
    );
    let kind = match (&recipe.shape, is_whole) {
        (Shape::Tree(_), true) => FamilyKind::Tree,
        (Shape::Tree(_), false) => FamilyKind::DamagedTree,
        _ => FamilyKind::Other,
    };
    let intact = Recipe {
        options: Options {
            removal: LinkRemoval::Count(0),
            ..recipe.options
        },
        ..recipe
    };
    let keys = spec
        .split_once(':')
        .map_or(Vec::new(), |(_, keys)| keys.split(',').collect());
    let head = spec.split(':').next().unwrap_or(spec);
    let name = keys
        .iter()
        .filter(|key| !key.starts_with("seed="))
        .fold(head.to_owned(), |name, key| add(&name, key));
    Ok((Family { name, kind }, intact.fabric()?))
}

/// Returns the switches to name as roots: those farthest from all hosts; or, if every switch has hosts, the one in the
/// middle.
#[must_use]
pub fn roots(fabric: &Fabric) -> Vec<Guid> {
    let switches: Vec<_> = fabric.switches().iter().copied().collect();
    let has_hosts = |node| {
        let peers = fabric.node(node).external_ports().filter_map(|(_, port)| port.peer);
        peers.into_iter().any(|peer| !fabric.node(peer.node).is_switch())
    };
    let (leaves, others): (Vec<_>, Vec<_>) = switches.iter().copied().partition(|&node| has_hosts(node));
    let guid = |node| fabric.node(node).guid;
    if others.is_empty() {
        let middle = leaves
            .iter()
            .min_by_key(|&&node| (far(fabric, &[node]).iter().flatten().sum::<usize>(), guid(node)));
        return middle.into_iter().map(|&node| guid(node)).collect();
    }
    let away = far(fabric, &leaves);
    let most = others.iter().filter_map(|node| away[node.0 as usize]).max();
    others
        .into_iter()
        .filter(|node| away[node.0 as usize] == most)
        .map(guid)
        .collect()
}

/// Returns for each node the number of links between switches from the nearest of `starts`.
fn far(fabric: &Fabric, starts: &[selvedge_fabric::NodeIdx]) -> Vec<Option<usize>> {
    let mut found = vec![None; fabric.nodes().len()];
    let mut queue: VecDeque<_> = starts.iter().copied().collect();
    starts.iter().for_each(|node| found[node.0 as usize] = Some(0));
    while let Some(node) = queue.pop_front() {
        let next = found[node.0 as usize].map(|hops| hops + 1);
        for peer in fabric.node(node).external_ports().filter_map(|(_, port)| port.peer) {
            if fabric.node(peer.node).is_switch() && found[peer.node.0 as usize].is_none() {
                found[peer.node.0 as usize] = next;
                queue.push_back(peer.node);
            }
        }
    }
    found
}

/// The maker of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    /// Selvedge.
    Selvedge,
    /// OpenSM.
    OpenSm,
}

/// The option of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// No option.
    Nothing,
    /// The roots of the tree.
    Roots,
    /// The engine may change any entry, not only those that led over lost links.
    Rebalance,
}

/// An engine and its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contestant {
    /// The maker.
    pub maker: Maker,
    /// Its name.
    pub engine: &'static str,
    /// The option.
    pub told: Told,
    /// Data lanes that the engine may use.
    pub lanes: u8,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Roots => "roots",
            Self::Rebalance => "rebalance",
        })
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Selvedge => "selvedge",
            Self::OpenSm => "OpenSM",
        })
    }
}

impl Contestant {
    /// The engine and its option.
    #[must_use]
    pub fn name(&self) -> String {
        let told = match self.told {
            Told::Nothing => "",
            Told::Roots => " with roots",
            Told::Rebalance => " rebalanced",
        };
        format!("{}{told}", self.engine)
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, lanes {}", self.maker, self.name(), self.lanes)
    }
}

/// Returns the engines for a fabric with this number of switches. A quick run leaves out engines that are similar to
/// others.
#[must_use]
pub fn contestants(family: &Family, switches: usize, quick: bool) -> Vec<Contestant> {
    let is_tree = family.kind != FamilyKind::Other;
    let mut all = Vec::new();
    let mut add = |maker, engine, told, lanes| {
        all.push(Contestant {
            maker,
            engine,
            told,
            lanes,
        });
    };
    let weave_lanes: &[u8] = match (is_tree, quick) {
        (true, _) => &[1],
        (false, true) => &[1, 8],
        (false, false) => &[1, 2, 4, 8],
    };
    if is_tree {
        add(Maker::Selvedge, "fat-tree", Told::Nothing, 1);
        if family.kind == FamilyKind::DamagedTree {
            add(Maker::Selvedge, "fat-tree", Told::Rebalance, 1);
        }
        add(Maker::Selvedge, "ftree", Told::Nothing, 1);
        add(Maker::Selvedge, "ftree", Told::Roots, 1);
    }
    weave_lanes
        .iter()
        .for_each(|&lanes| add(Maker::Selvedge, "weave", Told::Nothing, lanes));
    add(Maker::Selvedge, "updn", Told::Nothing, 1);
    add(Maker::Selvedge, "updn", Told::Roots, 1);
    add(Maker::Selvedge, "sssp", Told::Nothing, 1);
    add(Maker::Selvedge, "dfsssp", Told::Nothing, 8);
    add(Maker::OpenSm, "minhop", Told::Nothing, 1);
    add(Maker::OpenSm, "updn", Told::Nothing, 1);
    add(Maker::OpenSm, "updn", Told::Roots, 1);
    add(Maker::OpenSm, "ftree", Told::Nothing, 1);
    if is_tree {
        add(Maker::OpenSm, "ftree", Told::Roots, 1);
    }
    weave_lanes
        .iter()
        .for_each(|&lanes| add(Maker::OpenSm, "nue", Told::Nothing, lanes));
    add(Maker::OpenSm, "sssp", Told::Nothing, 1);
    add(Maker::OpenSm, "dfsssp", Told::Nothing, 8);
    if switches <= LASH_MAX {
        add(Maker::OpenSm, "lash", Told::Nothing, 8);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds() {
        let check = |spec: &str, want: &[&str]| assert_eq!(seeded(spec, 21..=22), want, "{spec}");
        check("sx6536", &["sx6536"]);
        let lost = ["sx6536:remove-links=1%,seed=21", "sx6536:remove-links=1%,seed=22"];
        check("sx6536:remove-links=1%", &lost);
        check("sx6536:remove-links=1%,seed=4", &["sx6536:remove-links=1%,seed=4"]);
        let random = ["random:switches=8,seed=21", "random:switches=8,seed=22"];
        check("random:switches=8", &random);
    }

    #[test]
    fn families() {
        let check = |spec: &str, name: &str, kind: FamilyKind, links: usize| {
            let (family, intact) = family(spec).unwrap();
            assert_eq!((family.name.as_str(), family.kind), (name, kind), "{spec}");
            assert_eq!(intact.links().count(), links, "{spec}");
        };
        check("sx6536", "sx6536", FamilyKind::Tree, 324 + 324);
        let name = "sx6536:remove-links=1%";
        check(
            "sx6536:seed=5,remove-links=1%",
            name,
            FamilyKind::DamagedTree,
            324 + 324,
        );
        let random = "random:switches=8,degree=3,hosts=1";
        check(
            "random:switches=8,degree=3,hosts=1,seed=2",
            random,
            FamilyKind::Other,
            12 + 8,
        );
    }

    #[test]
    fn roots_are_the_top_or_the_middle() {
        let check = |spec: &str, count: usize| {
            let (_, intact) = family(spec).unwrap();
            assert_eq!(roots(&intact).len(), count, "{spec}");
        };
        check("sx6536", 9);
        check("karytree:k=4,n=3", 16);
        check("karytree:k=4,n=3,remove-links=3", 16);
        check("random:switches=16,degree=4,hosts=2", 1);
    }
}
