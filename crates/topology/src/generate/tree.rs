//! Parallel-port generalised fat-trees, and the trees that are special cases of them.

use crate::SpecError;
use crate::generate::plane::Plane;
use crate::generate::{Recipe, Size};

/// PGFT(h; m₁…m_h; w₁…w_h; p₁…p_h): a tree of `h` levels of switches.
///
/// A node of level `l` has `m_l` children on level `l-1`; a node of level `l-1` has `w_l` parents on level `l`; `p_l`
/// parallel cables join each such pair. Hosts are level 0. There are `m₁…m_h` hosts and, on level `l`,
/// `w₁…w_l · m_{l+1}…m_h` switches. An XGFT has every `p_l` = 1.
/// Source: Öhring et al., IPPS 1995 (XGFT); Zahavi, "Fat-tree routing and node ordering", JPDC 2012 (PGFT).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// `m_l`, lowest level first; each at least 1.
    pub children: Vec<u32>,
    /// `w_l`, lowest level first; each at least 1, the first 1.
    pub parents: Vec<u32>,
    /// `p_l`, lowest level first; each at least 1, the first 1.
    pub links: Vec<u32>,
}

impl Tree {
    /// Returns the k-ary n-tree: `k^n` hosts and `n·k^(n-1)` switches of `2k` ports. Switches of the top level use half
    /// of their ports. Source: Petrini, Vanneschi, IPPS 1997.
    #[must_use]
    pub fn k_ary(arity: u32, levels: u8) -> Self {
        let levels = usize::from(levels);
        Self {
            children: vec![arity; levels],
            parents: first_one(arity, levels),
            links: vec![1; levels],
        }
    }

    /// Returns the m-port n-tree FT(m, n): `2(m/2)^n` hosts, `(2n-1)(m/2)^(n-1)` switches of `m` ports, all used.
    /// Source: Lin, Chung, Huang, IPDPS 2004. `ports` is even.
    #[must_use]
    pub fn m_port(ports: u32, levels: u8) -> Self {
        let mut tree = Self::k_ary(ports / 2, levels);
        if let Some(top) = tree.children.last_mut() {
            *top = ports;
        }
        tree
    }

    /// Returns a 324-port director switch: 18 leaves and 9 spines of 36 ports, two cables between each pair.
    #[must_use]
    pub fn sx6536() -> Self {
        Self {
            children: vec![18, 18],
            parents: vec![1, 9],
            links: vec![1, 2],
        }
    }

    /// Returns the switches and cables. All switches have the port count of the switch that uses most.
    pub(super) fn plane(&self, recipe: &Recipe) -> Result<Plane, SpecError> {
        let mut plane = Plane::new(recipe, self.size(recipe)?)?;
        let height = self.children.len();
        let mut first_of_level = Vec::with_capacity(height);
        for level in 1..=height {
            first_of_level.push(plane.switches.len());
            let hosts = if level == 1 { self.children[0] } else { 0 };
            for index in 0..self.switches_of(level) {
                plane.add(format!("L{level}-{index}"), hosts);
            }
        }
        for level in 2..=height {
            self.cable_level(level, first_of_level[level - 2], first_of_level[level - 1], &mut plane);
        }
        Ok(plane)
    }

    /// Connects the switches of `level - 1`, from index `lower_first`, to those of `level`, from index `upper_first`.
    ///
    /// A switch of level `l` is (a₁…a_l, b_{l+1}…b_h) with aᵢ < wᵢ and bᵢ < mᵢ; its index has a₁ as the lowest digit.
    /// It is connected to the switches of the next level with the same digits except digit `l + 1`.
    fn cable_level(&self, level: usize, lower_first: usize, upper_first: usize, plane: &mut Plane) {
        // Number of (a₁…a_l) on the lower level; below a million, because the size was checked.
        let low_digits: usize = self.parents[..level - 1].iter().map(|&w| w as usize).product();
        let (children, parents) = (self.children[level - 1] as usize, self.parents[level - 1] as usize);
        for lower in 0..upper_first - lower_first {
            let (low, high) = (lower % low_digits, lower / low_digits / children);
            for parent in 0..parents {
                let upper = low + low_digits * (parent + parents * high);
                for _ in 0..self.links[level - 1] {
                    plane.cable(lower_first + lower, upper_first + upper);
                }
            }
        }
    }

    fn size(&self, recipe: &Recipe) -> Result<Size, SpecError> {
        let vectors = [&self.children, &self.parents, &self.links];
        let lengths_differ = vectors.iter().any(|v| v.len() != self.children.len());
        let has_zero = vectors.iter().any(|v| v.contains(&0));
        let is_wide_below = self.parents.first() != Some(&1) || self.links.first() != Some(&1);
        if lengths_differ || has_zero || is_wide_below {
            let want = "at least one level, every number at least 1, the lowest w and p 1";
            return Err(recipe.bad("m;w;p", &format!("{vectors:?}"), want));
        }
        let height = self.children.len();
        let ports = (0..height).map(|at| {
            let per_child = if at == 0 {
                recipe.ports_per_plane()
            } else {
                self.links[at]
            };
            let down = u128::from(self.children[at]) * u128::from(per_child);
            let up = self.parents.get(at + 1).zip(self.links.get(at + 1));
            down + up.map_or(0, |(&w, &p)| u128::from(w) * u128::from(p))
        });
        Ok(Size {
            switches: (1..=height).fold(0, |sum, level| sum.saturating_add(self.switches_of(level))),
            hosts: product(&self.children),
            ports: ports.max().unwrap_or(0),
        })
    }

    /// Returns the number of switches on a level; the lowest level is 1.
    fn switches_of(&self, level: usize) -> u128 {
        product(&self.parents[..level]).saturating_mul(product(&self.children[level..]))
    }
}

fn first_one(number: u32, levels: usize) -> Vec<u32> {
    (0..levels).map(|level| if level == 0 { 1 } else { number }).collect()
}

fn product(numbers: &[u32]) -> u128 {
    numbers.iter().fold(1, |product, &n| product.saturating_mul(n.into()))
}
