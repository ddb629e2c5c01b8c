//! Faults to be tried: all kinds, and a random choice of them.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_sim::Seed;

use crate::case::Case;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A link between a switch with hosts and another switch.
    Leaf,
    /// A link between two switches without hosts.
    Mid,
    /// The death of a switch that is farthest from all hosts.
    Spine,
    /// The death of any switch but the manager's own.
    Switch,
}

impl Kind {
    /// Returns the name of the kind in options and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Mid => "mid",
            Self::Spine => "spine",
            Self::Switch => "switch",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Leaf, Self::Mid, Self::Spine, Self::Switch];
        let found = all.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| "want leaf, mid, spine or switch".to_owned())
    }
}

/// How many faults are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// All faults of the requested kinds.
    All,
    /// This number of faults, of each kind in turn.
    Of(usize),
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(Self::All),
            (_, Ok(count)) => Ok(Self::Of(count)),
            _ => Err("want a number, or all".to_owned()),
        }
    }
}

/// The part that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The link at this port of a switch.
    Link(PortRef),
    /// All links of a switch.
    Switch(NodeIdx),
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Its kind.
    pub kind: Kind,
    /// The part that fails.
    pub what: What,
}

impl Fault {
    /// Both ends of every link that fails.
    #[must_use]
    pub fn dead_ends(&self, case: &Case) -> Vec<PortRef> {
        let both = |at: PortRef| std::iter::once(at).chain(case.fabric.peer(at));
        match self.what {
            What::Link(at) => both(at).collect(),
            What::Switch(node) => {
                let ports = case.fabric.node(node).external_ports();
                let cabled = ports.filter(|(_, port)| port.peer.is_some());
                cabled.flat_map(|(port, _)| both(PortRef { node, port })).collect()
            }
        }
    }

    /// Returns the name of the node in ibsim's console and, for a link, its port.
    #[must_use]
    pub fn console_name<'c>(&self, case: &'c Case) -> (&'c str, Option<u8>) {
        match self.what {
            What::Link(at) => (&case.fabric.node(at.node).description, Some(at.port.get())),
            What::Switch(node) => (&case.fabric.node(node).description, None),
        }
    }

    /// For people: `"S-L1-0"[20]`.
    #[must_use]
    pub fn name(&self, case: &Case) -> String {
        match self.console_name(case) {
            (node, Some(port)) => format!("\"{node}\"[{port}]"),
            (node, None) => format!("\"{node}\""),
        }
    }
}

/// Links between switches on the path to the nearest host, by node; `None` for hosts and for nodes without a path.
fn ranks(case: &Case) -> Vec<Option<u32>> {
    let fabric = &case.fabric;
    let mut rank: Vec<Option<u32>> = vec![None; fabric.nodes().len()];
    let mut queue = VecDeque::new();
    let neighbours = |node: NodeIdx| {
        let ports = fabric.node(node).external_ports();
        ports.filter_map(|(_, port)| Some(port.peer?.node)).collect::<Vec<_>>()
    };
    for &node in fabric.switches().iter() {
        if neighbours(node).iter().any(|&peer| !fabric.node(peer).is_switch()) {
            rank[node.0 as usize] = Some(0);
            queue.push_back((node, 0));
        }
    }
    while let Some((node, depth)) = queue.pop_front() {
        for peer in neighbours(node) {
            let known = &mut rank[peer.0 as usize];
            if fabric.node(peer).is_switch() && known.is_none() {
                *known = Some(depth + 1);
                queue.push_back((peer, depth + 1));
            }
        }
    }
    rank
}

/// All faults of a kind, in the order of the fabric.
#[must_use]
pub fn all(case: &Case, kind: Kind) -> Vec<Fault> {
    let (fabric, rank) = (&case.fabric, ranks(case));
    let rank_of = |node: NodeIdx| rank[node.0 as usize];
    let own = case.fabric.peer(PortRef {
        node: case.host,
        port: case.host_port(),
    });
    let top = rank.iter().flatten().max().copied();
    let links = || {
        let between = fabric.links().filter(|link| {
            let ends = [link.a, link.b];
            fabric.link_is_up(link.a) && ends.iter().all(|end| fabric.node(end.node).is_switch())
        });
        between.map(|link| {
            let is_leaf = [link.a, link.b].iter().any(|end| rank_of(end.node) == Some(0));
            (link.a, is_leaf)
        })
    };
    let switches = || {
        let not_own = |node: &NodeIdx| own.is_none_or(|own| own.node != *node);
        fabric.switches().iter().copied().filter(not_own)
    };
    let whats: Vec<What> = match kind {
        Kind::Leaf => links().filter(|link| link.1).map(|link| What::Link(link.0)).collect(),
        Kind::Mid => links().filter(|link| !link.1).map(|link| What::Link(link.0)).collect(),
        Kind::Spine => {
            let is_top = |node: &NodeIdx| rank_of(*node) == top && top != Some(0);
            switches().filter(is_top).map(What::Switch).collect()
        }
        Kind::Switch => switches().map(What::Switch).collect(),
    };
    whats.into_iter().map(|what| Fault { kind, what }).collect()
}

/// Faults of these kinds in turn, each drawn uniformly among those of its kind that were not drawn before.
#[must_use]
pub fn draw(case: &Case, kinds: &[Kind], count: Count, seed: Seed) -> Vec<Fault> {
    let mut of_kind: Vec<Vec<Fault>> = kinds.iter().map(|&kind| all(case, kind)).collect();
    let wanted = match count {
        Count::All => return of_kind.concat(),
        Count::Of(count) => count,
    };
    for (kind, faults) in kinds.iter().zip(&mut of_kind) {
        seed.child(kind.name()).rng().shuffle(faults);
    }
    let longest = of_kind.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| of_kind.iter().filter_map(move |faults| faults.get(turn)));
    turns.copied().take(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_a_tree() {
        let check = |spec: &str, want: [usize; 4]| {
            let case = Case::new(spec).unwrap();
            let kinds = [Kind::Leaf, Kind::Mid, Kind::Spine, Kind::Switch];
            assert_eq!(kinds.map(|kind| all(&case, kind).len()), want, "{spec}");
        };
        check("sx6536", [324, 0, 9, 26]);
        // 4 switches a level of 2-ary 3-trees; 8 links between levels.
        check("karytree:k=2,n=3", [8, 8, 4, 11]);
        check("ring:switches=5,hosts=1", [5, 0, 0, 4]);
    }

    #[test]
    fn draws_take_turns_and_repeat_themselves() {
        let case = Case::new("karytree:k=2,n=3").unwrap();
        let kinds = [Kind::Leaf, Kind::Mid];
        let drawn = draw(&case, &kinds, Count::Of(5), Seed(3));
        let names: Vec<Kind> = drawn.iter().map(|fault| fault.kind).collect();
        assert_eq!(names, [Kind::Leaf, Kind::Mid, Kind::Leaf, Kind::Mid, Kind::Leaf]);
        assert_eq!(drawn, draw(&case, &kinds, Count::Of(5), Seed(3)));
        let mut everything = draw(&case, &kinds, Count::Of(99), Seed(4));
        assert_ne!(everything[..5], drawn);
        everything.sort();
        assert_eq!(everything, draw(&case, &kinds, Count::All, Seed(1)));
        assert_eq!(drawn[0].dead_ends(&case).len(), 2);
    }
}
