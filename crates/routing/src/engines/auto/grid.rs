//! Recognises meshes, tori and hypercubes, whole or damaged, from the neighbours of each switch alone.
//!
//! In such a grid, two links of different dimensions at a switch belong to exactly one square of four switches, and
//! opposite sides of a square are parallel. Two links that belong to no square lie in one line. The squares give
//! classes of parallel links; the lines give dimensions. The links of a dimension then give coordinates, and a ring
//! gives its length. In the end every link is checked against the coordinates, so that no other graph is called a
//! torus.
//!
//! Work: for each switch a few steps for each pair of its neighbours and each pair of neighbours of these. A fabric in
//! which a switch has more than [`NEIGHBOURS_MAX`] neighbours is not analysed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use selvedge_graph::Graph;

/// A switch with more neighbours is in no real grid: a torus of ten dimensions has twenty.
const NEIGHBOURS_MAX: usize = 20;
/// Largest number of dimensions searched for; a hypercube of sixteen has 65,536 switches.
const DIMENSIONS_MAX: usize = 16;
/// If more than one link or switch in this number is missing, the graph is called irregular.
const MISSING_SHARE: u64 = 10;

/// One dimension of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side {
    /// Switches in a line.
    pub length: u32,
    /// True if the last switch of a line has a link to the first.
    pub wraps: bool,
}

/// A mesh, torus or hypercube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The dimensions of the grid, longest first. A ring of four that crosses another dimension is reported as two
    /// dimensions of length two, because the graph is the same.
    pub sides: Vec<Side>,
    /// Number of places without a switch.
    pub switches_missing: u64,
    /// Number of missing links between switches that are present. Parallel links count once.
    pub links_missing: u64,
}

impl Grid {
    /// True if every side has length two, and there are three or more sides.
    #[must_use]
    pub fn is_hypercube(&self) -> bool {
        self.sides.len() > 2 && self.sides.iter().all(|side| side.length == 2)
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<String> = self.sides.iter().map(|side| side.length.to_string()).collect();
        let sizes = lengths.join("x");
        let wraps = self.sides.iter().filter(|side| side.wraps).count();
        match (self.sides.len(), wraps) {
            (dimensions, _) if self.is_hypercube() => {
                write!(f, "hypercube of {dimensions} dimensions")?;
                if dimensions.is_multiple_of(2) {
                    write!(f, " (a torus of {} is the same)", vec!["4"; dimensions / 2].join("x"))?;
                }
            }
            (1, 0) => write!(f, "line of {sizes} switches")?,
            (1, _) => write!(f, "ring of {sizes} switches")?,
            (_, 0) => write!(f, "mesh of {sizes}")?,
            (dimensions, all) if all == dimensions => write!(f, "torus of {sizes}")?,
            (_, some) => write!(f, "grid of {sizes}, {some} of its dimensions rings")?,
        }
        let (links, switches) = (self.links_missing, self.switches_missing);
        write!(f, ", {links} links and {switches} switches missing")
    }
}

/// Returns the grid that the switches of one part form, if they form one.
pub(crate) fn recognise(graph: &Graph, part: usize) -> Option<Grid> {
    let members: Vec<usize> = (0..graph.switches()).filter(|&s| graph.component(s) == part).collect();
    let degree = members.iter().map(|&s| graph.neighbours(s).len()).max()?;
    if members.len() < 3 || degree > NEIGHBOURS_MAX {
        return None;
    }
    let edges = Edges::new(graph, &members);
    let mut parallel = Parallel::new(edges.count);
    let straight = squares(graph, &members, &edges, &mut parallel)?;
    join_lines(&edges, &straight, &mut parallel)?;
    let dimension = dimensions(&edges, &mut parallel)?;
    let mut places = places(graph, &members, &edges, &dimension)?;
    places.complete(graph, &members);
    places.grid(graph)
}

/// Links of a part, by number. Parallel links count as one.
struct Edges {
    /// Number of the link between two switches, the lower first.
    of: BTreeMap<(u32, u32), usize>,
    count: usize,
}

impl Edges {
    fn new(graph: &Graph, members: &[usize]) -> Self {
        let mut of = BTreeMap::new();
        for &s in members {
            for &n in graph.neighbours(s).iter().filter(|&&n| n as usize > s) {
                of.insert((s as u32, n), of.len());
            }
        }
        let count = of.len();
        Self { of, count }
    }

    /// Returns the number of the link between two switches, and true if the step begins at the switch with the higher
    /// index.
    fn step(&self, from: u32, to: u32) -> (usize, bool) {
        let at = self.of.get(&(from.min(to), from.max(to)));
        // Both are neighbours, or the caller would not ask.
        (at.copied().unwrap_or(0), from > to)
    }
}

/// Classes of parallel links, each with a direction relative to its class.
struct Parallel {
    parent: Vec<(usize, bool)>,
}

impl Parallel {
    fn new(count: usize) -> Self {
        Self {
            parent: (0..count).map(|i| (i, false)).collect(),
        }
    }

    /// Returns the class of a link, and whether the link runs against the direction of the class.
    fn find(&mut self, edge: usize) -> (usize, bool) {
        let (mut at, mut turned) = (edge, false);
        while self.parent[at].0 != at {
            let (up, turn) = self.parent[at];
            // Halves the path for later calls.
            let (over, more) = self.parent[up];
            self.parent[at] = (over, turn ^ more);
            turned ^= turn ^ more;
            at = over;
        }
        (at, turned)
    }

    /// Records that two steps go in the same direction. `None`: they are known to go in opposite directions.
    fn join(&mut self, a: (usize, bool), b: (usize, bool)) -> Option<()> {
        let (ra, ta) = self.find(a.0);
        let (rb, tb) = self.find(b.0);
        let turned = ta ^ tb ^ a.1 ^ b.1;
        if ra == rb {
            return (!turned).then_some(());
        }
        self.parent[ra.max(rb)] = (ra.min(rb), turned);
        Some(())
    }
}

/// The pairs of steps that go straight on through a switch: into it, and out of it. Found by joining opposite sides of
/// squares.
type Straight = Vec<((u32, u32), (u32, u32))>;

fn squares(graph: &Graph, members: &[usize], edges: &Edges, parallel: &mut Parallel) -> Option<Straight> {
    let mut straight = Vec::new();
    for &s in members {
        let (u, near) = (s as u32, graph.neighbours(s));
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); near.len()];
        for (i, &v) in near.iter().enumerate() {
            for (j, &w) in near.iter().enumerate().skip(i + 1) {
                let beside = graph.neighbours(w as usize);
                let fourth = graph.neighbours(v as usize).iter();
                let mut fourth = fourth.filter(|&&x| x != u && beside.binary_search(&x).is_ok());
                match (fourth.next(), fourth.next()) {
                    (None, _) => {
                        on[i].push(j);
                        on[j].push(i);
                    }
                    (Some(&x), None) => {
                        parallel.join(edges.step(u, v), edges.step(w, x))?;
                        parallel.join(edges.step(u, w), edges.step(v, x))?;
                    }
                    (Some(_), Some(_)) => {}
                }
            }
        }
        // Where links are missing, a turn can look like a line: only a link without another choice is one.
        for (i, partners) in on.iter().enumerate() {
            if let [j] = partners[..]
                && j > i
                && on[j].len() == 1
            {
                straight.push(((near[i], u), (u, near[j])));
            }
        }
    }
    Some(straight)
}

/// Joins classes of links that follow each other along lines, if at least a quarter of their links agree. Around a
/// missing link there is no evidence, and at corners some evidence is wrong.
fn join_lines(edges: &Edges, straight: &Straight, parallel: &mut Parallel) -> Option<()> {
    let mut size: BTreeMap<usize, usize> = BTreeMap::new();
    for edge in 0..edges.count {
        *size.entry(parallel.find(edge).0).or_default() += 1;
    }
    let mut votes: BTreeMap<(usize, usize, bool), usize> = BTreeMap::new();
    for &(into, out) in straight {
        let ((a, from_a), (b, from_b)) = (edges.step(into.0, into.1), edges.step(out.0, out.1));
        let ((ra, ta), (rb, tb)) = (parallel.find(a), parallel.find(b));
        let turned = ta ^ tb ^ from_a ^ from_b;
        *votes.entry((ra.min(rb), ra.max(rb), turned)).or_default() += 1;
    }
    for ((a, b, turned), votes) in votes {
        if 4 * votes >= size[&a].min(size[&b]) {
            parallel.join((a, false), (b, turned))?;
        }
    }
    Some(())
}

/// The number of dimensions; and for each link its dimension, and whether the link runs against the direction of that
/// dimension. `None` for a stray link, which belongs to no dimension.
type Dimensions = (usize, Vec<Option<(usize, bool)>>);

fn dimensions(edges: &Edges, parallel: &mut Parallel) -> Option<Dimensions> {
    let mut size: BTreeMap<usize, usize> = BTreeMap::new();
    for edge in 0..edges.count {
        *size.entry(parallel.find(edge).0).or_default() += 1;
    }
    // A dimension has a link per switch, or half as many if it is two long: less are single ones around holes.
    let least = size.values().max()?.div_ceil(3);
    let main: Vec<usize> = size
        .iter()
        .filter(|(_, links)| **links >= least)
        .map(|(&class, _)| class)
        .collect();
    if main.is_empty() || main.len() > DIMENSIONS_MAX {
        return None;
    }
    let of = |edge| {
        let (class, turned) = parallel.find(edge);
        main.binary_search(&class).ok().map(|dimension| (dimension, turned))
    };
    Some((main.len(), (0..edges.count).map(of).collect()))
}

/// Coordinates of the switches, as far as links of known dimension lead to them.
struct Places {
    sides: Vec<Side>,
    at: BTreeMap<u32, Vec<i64>>,
}

fn places(graph: &Graph, members: &[usize], edges: &Edges, (count, of): &Dimensions) -> Option<Places> {
    let moved = |from: u32, to: u32, at: &[i64]| {
        let (edge, back) = edges.step(from, to);
        let (dimension, turned) = of[edge]?;
        let mut there = at.to_vec();
        there[dimension] += if back ^ turned { -1 } else { 1 };
        Some(there)
    };
    let first = u32::try_from(*members.first()?).ok()?;
    let mut at = BTreeMap::from([(first, vec![0; *count])]);
    let mut queue = vec![first];
    let mut head = 0;
    // How far circles miss their start, by dimension: multiples of a ring's length.
    let mut gap = vec![0_u64; *count];
    while let Some(&from) = queue.get(head) {
        head += 1;
        for &to in graph.neighbours(from as usize) {
            let Some(there) = moved(from, to, &at[&from]) else {
                continue;
            };
            let Some(known) = at.get(&to) else {
                at.insert(to, there);
                queue.push(to);
                continue;
            };
            let misses: Vec<(usize, u64)> = (0..)
                .zip(there.iter().zip(known))
                .map(|(d, (a, b))| (d, a.abs_diff(*b)))
                .filter(|(_, miss)| *miss > 0)
                .collect();
            match misses[..] {
                [] => {}
                [(dimension, miss)] => gap[dimension] = gcd(gap[dimension], miss),
                _ => return None,
            }
        }
    }
    let side = |d: usize| {
        let spread = || at.values().map(|place| place[d]);
        let (low, high) = (spread().min()?, spread().max()?);
        let length = if gap[d] > 0 { gap[d] } else { high.abs_diff(low) + 1 };
        let side = Side {
            length: u32::try_from(length).ok()?,
            wraps: gap[d] > 0,
        };
        Some((side, low))
    };
    let sides: Vec<(Side, i64)> = (0..*count).map(side).collect::<Option<_>>()?;
    for place in at.values_mut() {
        for (x, (side, low)) in place.iter_mut().zip(&sides) {
            *x = (*x - low).rem_euclid(i64::from(side.length));
        }
    }
    let is_full = at.len() as u64 * MISSING_SHARE >= members.len() as u64 * (MISSING_SHARE - 1);
    let sides = sides.into_iter().map(|(side, _)| side).collect();
    is_full.then_some(Places { sides, at })
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Places {
    /// Places switches that have only stray links: next to all their neighbours, if exactly one place is possible.
    fn complete(&mut self, graph: &Graph, members: &[usize]) {
        let mut taken: BTreeSet<Vec<i64>> = self.at.values().cloned().collect();
        loop {
            let before = self.at.len();
            for (s, near) in members.iter().map(|&s| (s as u32, graph.neighbours(s))) {
                let mut near = near.iter().filter_map(|n| self.at.get(n));
                let Some(first) = near.next().filter(|_| !self.at.contains_key(&s)) else {
                    continue;
                };
                let others: Vec<&Vec<i64>> = near.collect();
                let fits = |place: &Vec<i64>| others.iter().all(|other| self.is_beside(other, place));
                let free: BTreeSet<Vec<i64>> = self
                    .beside(first)
                    .filter(|place| !taken.contains(place) && fits(place))
                    .collect();
                if let (Some(place), 1) = (free.first(), free.len()) {
                    taken.insert(place.clone());
                    self.at.insert(s, place.clone());
                }
            }
            if self.at.len() == before {
                return;
            }
        }
    }

    /// Checks places and links. Returns the grid if nothing contradicts it and little is missing.
    fn grid(&self, graph: &Graph) -> Option<Grid> {
        let mut taken = BTreeSet::new();
        if !self.at.values().all(|place| taken.insert(place)) {
            return None;
        }
        let (mut links, mut ends_missing) = (0_u64, 0_u64);
        for (&s, here) in &self.at {
            let mut beside = BTreeSet::new();
            for to in graph.neighbours(s as usize).iter().filter_map(|n| self.at.get(n)) {
                if !self.is_beside(here, to) {
                    return None;
                }
                beside.insert(to);
            }
            for there in self.beside(here) {
                links += 1;
                ends_missing += u64::from(taken.contains(&there) && !beside.contains(&there));
            }
        }
        let places = self
            .sides
            .iter()
            .try_fold(1_u64, |n, side| n.checked_mul(side.length.into()))?;
        let (switches_missing, links_missing) = (places.checked_sub(self.at.len() as u64)?, ends_missing / 2);
        let is_near = switches_missing * MISSING_SHARE <= places && links_missing * MISSING_SHARE <= links / 2;
        let mut sides = self.sides.clone();
        pair_up(&mut sides);
        sides.sort_unstable_by(|a, b| b.cmp(a));
        is_near.then_some(Grid {
            sides,
            switches_missing,
            links_missing,
        })
    }

    fn is_beside(&self, a: &[i64], b: &[i64]) -> bool {
        self.beside(a).any(|place| place == b)
    }

    /// Returns the places that are one step away.
    fn beside<'a>(&'a self, place: &'a [i64]) -> impl Iterator<Item = Vec<i64>> + 'a {
        let steps = self.sides.iter().enumerate().flat_map(|(d, side)| {
            let (length, x) = (i64::from(side.length), place[d]);
            let (next, last) = (x + 1, x - 1);
            let inside = move |x: i64| (0..length).contains(&x);
            let wrapped = move |x: i64| if side.wraps { x.rem_euclid(length) } else { x };
            [wrapped(next), wrapped(last)]
                .into_iter()
                .filter(move |&x| inside(x))
                .map(move |x| (d, x))
        });
        steps.map(|(d, x)| {
            let mut there = place.to_vec();
            there[d] = x;
            there
        })
    }
}

/// Joins pairs of sides of length two into rings of four, if there is no other side, or if there are other rings.
fn pair_up(sides: &mut Vec<Side>) {
    let two = Side {
        length: 2,
        wraps: false,
    };
    let is_other = |side: &Side| *side != two;
    let twos = sides.len() - sides.iter().filter(|side| is_other(side)).count();
    let is_ring = sides.len() == 2 && twos == 2;
    if is_ring || sides.iter().any(|side| is_other(side) && side.wraps) {
        sides.retain(is_other);
        let four = Side { length: 4, wraps: true };
        sides.extend(std::iter::repeat_n(four, twos / 2));
        sides.extend(std::iter::repeat_n(two, twos % 2));
    }
}
