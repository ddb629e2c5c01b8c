//! How long packets under way matter although the entries that they meet have changed again.
//!
//! A change can be forgotten when every packet that was under way then is somewhere a packet can be that was sent since
//! and has met nothing but what was in force since: what it does from then on is counted with those. It leaves its
//! switch within one lifetime, by whatever entry; the next one within another, by an entry that was in force since. To
//! hosts agents in all switches send, so that is all. To switches only hosts do: where none of theirs comes through
//! whatever is in force, it goes on alone, one lifetime a switch.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{Lids, LostLink};
use selvedge_types::{Idx, Lid, PortNum};

use super::net::{Links, Net, Way};
use crate::standing::Replaced;

/// Lifetimes until a packet is where an entry has sent it that was in force after a change.
const LIFETIMES: u32 = 2;
/// More switches in a row than a packet goes through alone, or nobody says how long it matters: 69 s at 1.07 s each.
const ALONE_MAX: usize = 64;

/// Entries of a switch for one LID, and the steps between which each was in force.
struct Held {
    egress: u8,
    since: u16,
    until: u16,
}

/// Says of one LID after another how long what was changed matters.
pub struct Aging<'a> {
    fabric: &'a Fabric,
    lids: &'a Lids,
    /// Links that carry packets now.
    active: Net,
    /// Links that have gone down since, whose cables lead elsewhere now.
    moved: Vec<&'a LostLink>,
    /// By switch: packets of hosts come through, whatever has been in force.
    is_busy: Vec<bool>,
    /// By switch and step: switches that a packet goes through alone from there on; none while that is being counted.
    alone: BTreeMap<(usize, u16), Option<u32>>,
}

impl<'a> Aging<'a> {
    /// Of a fabric as it is now. `lost`: links that have gone down since the first of the changes.
    #[must_use]
    pub fn new(fabric: &'a Fabric, lids: &'a Lids, lost: &'a [LostLink]) -> Self {
        let active = Net::new(fabric, Links::Active);
        let leads_elsewhere = |link: &&LostLink| {
            let from = link.from.filter(|from| from.to_usize() < active.switches);
            from.is_some_and(|from| active.cable(from.to_usize(), link.port) != Some(link.to.to_usize()))
        };
        Self {
            moved: lost.iter().filter(leads_elsewhere).collect(),
            is_busy: vec![false; active.switches],
            alone: BTreeMap::new(),
            fabric,
            lids,
            active,
        }
    }

    /// How many lifetimes after a change of a LID's entries packets matter that were under way then. `entry` is what is
    /// in force now, `replaced` what was replaced since, and in which of the steps since. `None`: no bound is known.
    pub fn lifetimes(&mut self, lid: Lid, entry: impl Fn(SwitchIdx) -> u8, replaced: &[Replaced]) -> Option<u32> {
        let owner = self.lids.owner(lid);
        if owner.is_some_and(|at| at.port != PortNum::MANAGEMENT) {
            return Some(LIFETIMES);
        }
        // Nobody's: what was sent there may have been a switch's.
        let own = owner.and_then(|at| self.fabric.switch_index(at.node));
        let held = self.held(entry, replaced);
        self.find_busy(own, &held);
        self.alone.clear();
        let mut most = 0;
        for switch in 0..held.len() {
            most = self.alone(&held, (switch, 0), 0)?.max(most);
        }
        Some(LIFETIMES + most)
    }

    /// All entries that packets have met, by switch.
    fn held(&self, entry: impl Fn(SwitchIdx) -> u8, replaced: &[Replaced]) -> Vec<Vec<Held>> {
        let now = |switch| Held {
            egress: entry(SwitchIdx::from_usize(switch)),
            since: 0,
            until: u16::MAX,
        };
        let mut all: Vec<Vec<Held>> = (0..self.active.switches).map(|switch| vec![now(switch)]).collect();
        for old in replaced {
            let Some(held) = all.get_mut(old.entry.switch.to_usize()) else {
                continue;
            };
            held[0].since = held[0].since.max(old.until);
            held.push(Held {
                egress: old.entry.egress,
                since: old.since,
                until: old.until,
            });
        }
        all
    }

    /// Packets of hosts go through where they are sent, and on from there by entries that have not changed.
    fn find_busy(&mut self, own: Option<SwitchIdx>, held: &[Vec<Held>]) {
        let sends = |switch: &usize| {
            let is_own = own.is_some_and(|own| own.to_usize() == *switch);
            !is_own && !self.active.hosts_of(*switch).is_empty()
        };
        let mut open: Vec<usize> = (0..held.len()).filter(sends).collect();
        self.is_busy.fill(false);
        open.iter().for_each(|&switch| self.is_busy[switch] = true);
        while let Some(switch) = open.pop() {
            let [only] = &held[switch][..] else { continue };
            let Way::Channel(channel) = self.active.way(switch, only.egress) else {
                continue;
            };
            let next = self.active.channels[channel as usize].dst as usize;
            if !std::mem::replace(&mut self.is_busy[next], true) {
                open.push(next);
            }
        }
    }

    /// How many switches a packet goes through alone that comes to one in a step or later; `None` if it may go round,
    /// or too far.
    fn alone(&mut self, held: &[Vec<Held>], (switch, step): (usize, u16), depth: usize) -> Option<u32> {
        if self.is_busy[switch] {
            return Some(0);
        }
        match self.alone.entry((switch, step)) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(new) => drop(new.insert(None)),
        }
        if depth >= ALONE_MAX {
            return None;
        }
        let mut most = 0;
        for entry in held[switch].iter().filter(|entry| entry.until >= step) {
            let later = entry.since.max(step);
            for next in self.behind(switch, entry.egress) {
                most = (1 + self.alone(held, (next, later), depth + 1)?).max(most);
            }
        }
        self.alone.insert((switch, step), Some(most));
        Some(most)
    }

    /// Switches behind a port: whatever its link carries now, it may have carried something since the change.
    fn behind(&self, switch: usize, port: u8) -> Vec<usize> {
        let is_here = |link: &&&LostLink| link.port == port && link.from.is_some_and(|from| from.to_usize() == switch);
        let moved = self.moved.iter().filter(is_here).map(|link| link.to.to_usize());
        let all = moved.chain(self.active.cable(switch, port));
        all.filter(|next| *next < self.active.switches).collect()
    }
}
