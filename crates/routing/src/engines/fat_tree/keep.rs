//! Keeps entries in force that are still correct. If a fault hits a fabric that was taken over or rebalanced, only the
//! entries that led over the fault change.

use selvedge_fabric::SwitchIdx;
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_types::{Idx, Lid};

use super::FatTree;
use super::net::Link;
use super::targets::Target;
use crate::error::EngineError;

impl FatTree {
    /// Puts entries of `previous` (of the same switches) back into `tables`, which [`Self::fill`] wrote, wherever such
    /// an entry still begins a path up, then down, to the same destination. It must lead over a live link, and the next
    /// switch must have a live entry.
    ///
    /// Any mixture of such entries is free of loops and deadlocks: all of them lead up or down by the same rule.
    pub fn keep(&self, lids: &Lids, previous: &Tables, tables: &mut Tables) -> Result<(), EngineError> {
        let real = self.rule.net.real;
        for have in [previous.switches(), tables.switches()] {
            if have != real {
                return Err(EngineError::ForeignPrevious { have, want: real });
            }
        }
        for block in 0..tables.blocks().min(previous.blocks()) {
            let mut targets: Option<Vec<Target>> = None;
            for s in 0..real {
                let at = SwitchIdx::from_usize(s);
                let was = previous.block(at, block);
                if was == tables.block(at, block) {
                    continue;
                }
                let targets = match &mut targets {
                    Some(known) => known,
                    unknown => unknown.insert(self.targets_of(lids, block)?),
                };
                let now = tables.block_mut(at, block);
                for (i, (now, &was)) in now.iter_mut().zip(was).enumerate() {
                    let behind = |peer: u32| previous.block(SwitchIdx(peer), block)[i];
                    if *now != was && was != NO_PATH && self.is_right(s, targets[i], was, behind) {
                        *now = was;
                    }
                }
            }
        }
        Ok(())
    }

    fn targets_of(&self, lids: &Lids, block: usize) -> Result<Vec<Target>, EngineError> {
        let of = |i| u16::try_from(block * BLOCK_LIDS + i).map(Lid).unwrap_or(Lid::NONE);
        (0..BLOCK_LIDS).map(|i| self.target(lids, of(i))).collect()
    }

    /// True if an entry of switch `s` still leads to a destination. `behind` returns the entries of other switches.
    fn is_right(&self, s: usize, target: Target, egress: u8, behind: impl Fn(u32) -> u8) -> bool {
        let rule = &self.rule;
        let Some(to) = self.switch_of(target).filter(|&to| to != s) else {
            return false;
        };
        let Some(link) = self.link_at(s, egress) else {
            return false;
        };
        let peer = link.peer as usize;
        if !rule.leads(s, peer, to) {
            return false;
        }
        // If one of several parallel links below is lost, its destinations go by other positions: see `rule`.
        peer == to || !rule.below.has(peer, to) || self.link_at(peer, behind(link.peer)).is_some()
    }

    /// Returns the switch at which a destination is.
    pub(super) fn switch_of(&self, target: Target) -> Option<usize> {
        match target {
            Target::Nowhere => None,
            Target::Leaf { leaf, .. } => Some(self.rule.shape.leaves[leaf as usize] as usize),
            Target::Upper { upper } => Some(self.targets.uppers[upper as usize].switch as usize),
        }
    }

    /// Returns the live link to another switch at a port.
    pub(super) fn link_at(&self, s: usize, port: u8) -> Option<&Link> {
        let links = self.rule.net.links.get(s);
        let found = links.binary_search_by_key(&port, |k| k.port).ok()?;
        Some(&links[found]).filter(|k| k.alive)
    }
}
