//! Computes how long packets in flight must be considered after a change, even if the entries on their path have
//! changed again.
//!
//! Consider a packet that was in flight during the change. In the end it is at a place to which a packet sent later
//! could have come in the same way. From then on the proof for later packets covers it, so the change need not be
//! considered any more. How long does that take? The packet leaves its present switch within one packet lifetime, by an
//! old or a new entry. It leaves the next switch within another lifetime, by an entry that was in force after the
//! change.
//!
//! The agents of all switches send to hosts, so towards hosts two lifetimes are enough. Only hosts send to switches. At
//! a switch where no packet of a host passes under any entry in force, the old packet is followed further, for one
//! lifetime per switch.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{Lids, LostLink};
use selvedge_types::{Idx, Lid, PortNum};

use super::net::{Links, Net, Way};
use crate::standing::Replaced;

/// Number of lifetimes until an entry that was in force after the change has forwarded the packet.
const LIFETIMES: u32 = 2;
/// Largest number of switches in a row that a packet passes alone; beyond it no bound is given. 64 switches are 69 s at
/// 1.07 s each.
const ALONE_MAX: usize = 64;

/// Entries of a switch for one LID, and the steps between which each was in force.
struct Held {
    egress: u8,
    since: u16,
    until: u16,
}

/// Computes for each LID how long an earlier change must be considered.
pub struct Aging<'a> {
    fabric: &'a Fabric,
    lids: &'a Lids,
    /// Links that carry packets now.
    active: Net,
    /// Links that have gone down since the change and have ports that are cabled to other places now.
    moved: Vec<&'a LostLink>,
    /// By switch: packets from hosts pass here under all entries that were in force.
    is_busy: Vec<bool>,
    /// By switch and step: the number of switches in a row, from this one on, that an old packet may pass while packets
    /// of hosts pass none of them; the largest such number. `None` while it is being counted.
    alone: BTreeMap<(usize, u16), Option<u32>>,
}

impl<'a> Aging<'a> {
    /// Starts with the current fabric. `lost`: links that have gone down since the first of the changes.
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

    /// Returns how many packet lifetimes after a change of a LID's entries the packets in flight at that time must be
    /// considered. `None`: no bound is known.
    ///
    /// `entry` returns the entries in force now. `replaced` lists the entries replaced since, each with its step.
    pub fn lifetimes(&mut self, lid: Lid, entry: impl Fn(SwitchIdx) -> u8, replaced: &[Replaced]) -> Option<u32> {
        let owner = self.lids.owner(lid);
        if owner.is_some_and(|at| at.port != PortNum::MANAGEMENT) {
            return Some(LIFETIMES);
        }
        // A LID without an owner may have belonged to a switch.
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

    /// Returns all entries that packets may have used, by switch.
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

    /// Marks the switches that packets of hosts pass: the switches with hosts, and the switches that these hosts reach
    /// by entries that have not changed.
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

    /// Returns the largest number of switches that an old packet may pass before it meets one that packets of hosts
    /// pass too. The old packet arrives at `switch` in the given step or later. `None` if it may loop, or if there are
    /// too many.
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

    /// Returns the switches behind a port, now or at any time since the change.
    fn behind(&self, switch: usize, port: u8) -> Vec<usize> {
        let is_here = |link: &&&LostLink| link.port == port && link.from.is_some_and(|from| from.to_usize() == switch);
        let moved = self.moved.iter().filter(is_here).map(|link| link.to.to_usize());
        let all = moved.chain(self.active.cable(switch, port));
        all.filter(|next| *next < self.active.switches).collect()
    }
}
