//! A short proof for hosts that join a switch which has other hosts already: their packets use the same turns as those
//! of the other hosts.
//!
//! With this proof the whole fabric need not be followed for one new host. Agents of all switches send to every host,
//! so the turns towards the new LID are given by its entries. Two kinds of turn are harmless: a turn that also exists
//! towards another host on the same lane, and a turn onto a channel from which no packet continues to another channel,
//! under the current or recent entries (the last link to a leaf of a tree). If every turn is of these kinds, the new
//! host adds no cycle. What the new host sends adds nothing if another host of its switch sends already. Otherwise its
//! paths to switch agents, which only hosts use, are checked in the same manner.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet};
use selvedge_types::{Lid, Sl};

use super::net::{Links, Net, Owner, Way};
use super::{Past, newcomers};
use crate::subject::Subject;

/// True if packets from or to the new hosts may close a cycle, together with the tables in force and with the packets
/// of `past` in flight: then the whole fabric must be followed. False proves that they close none.
#[must_use]
pub fn newcomers_may_meet(subject: Subject<'_>, past: &Past, changes: &ChangeSet) -> bool {
    match newcomers::hosts(subject.fabric, changes) {
        Some(hosts) => !hosts.is_empty() && !go_as_others(subject, past, &hosts),
        None => true,
    }
}

/// True if these hosts provably add no cycle. False means that this proof does not apply.
fn go_as_others(subject: Subject<'_>, past: &Past, comers: &BTreeSet<PortRef>) -> bool {
    // Lanes that differ from hop to hop may depend on the ingress port.
    if !subject.sl_to_vl.exceptions.is_empty() {
        return false;
    }
    let alike = Alike::new(subject, comers);
    let mut turns = BTreeSet::new();
    for (lid, owner) in subject.lids.by_lid() {
        if comers.contains(&owner) {
            alike.turns_to(lid, &mut turns);
        }
    }
    for &at in comers {
        let leaf = subject
            .fabric
            .peer(at)
            .and_then(|far| subject.fabric.switch_index(far.node));
        let Some(leaf) = leaf else { return false };
        if !alike.has_sender(leaf, comers) {
            alike.turns_from(leaf, &mut turns);
        }
    }
    let mut ends = BTreeMap::new();
    turns
        .iter()
        .all(|&turn| *ends.entry(turn.1).or_insert_with(|| alike.ends(turn.1, past)) || alike.stands(turn))
}

/// A turn from one channel to another, at a service level.
type Turn = (u32, u32, Sl);

struct Alike<'a> {
    subject: Subject<'a>,
    net: Net,
    /// By LID: the service level of packets to it, if its owner is another host.
    others: Vec<Option<Sl>>,
}

impl<'a> Alike<'a> {
    fn new(subject: Subject<'a>, comers: &BTreeSet<PortRef>) -> Self {
        let net = Net::new(subject.fabric, Links::Active);
        let mut others = vec![None; subject.tables.blocks() * BLOCK_LIDS];
        for (lid, owner) in subject.lids.by_lid() {
            let is_host = || matches!(net.owner(subject.fabric, subject.lids, lid), Owner::Host(..));
            if let Some(other) = others.get_mut(lid.index())
                && !comers.contains(&owner)
                && is_host()
            {
                *other = Some(subject.service_levels.to(lid));
            }
        }
        Self { subject, net, others }
    }

    /// True if a host of the switch sends that is not one of the new hosts.
    fn has_sender(&self, leaf: SwitchIdx, comers: &BTreeSet<PortRef>) -> bool {
        let hosts = self.net.hosts_of(leaf.0 as usize);
        hosts.iter().any(|host| !comers.contains(&host.at))
    }

    fn next(&self, switch: u32, lid: Lid) -> Option<u32> {
        match self
            .net
            .way(switch as usize, self.subject.tables.get(SwitchIdx(switch), lid))
        {
            Way::Channel(channel) => Some(channel),
            Way::Host(_) | Way::Own | Way::Dead => None,
        }
    }

    fn after(&self, channel: u32, lid: Lid) -> Option<u32> {
        self.next(self.net.channels[channel as usize].dst, lid)
    }

    /// Adds the turns of packets from all sources to a LID.
    fn turns_to(&self, lid: Lid, turns: &mut BTreeSet<Turn>) {
        let sl = self.subject.service_levels.to(lid);
        let first = (0..self.net.switches as u32).filter_map(|switch| self.next(switch, lid));
        turns.extend(first.filter_map(|from| Some((from, self.after(from, lid)?, sl))));
    }

    /// Adds the turns of packets from a switch to all switch agents.
    fn turns_from(&self, leaf: SwitchIdx, turns: &mut BTreeSet<Turn>) {
        let fabric = self.subject.fabric;
        let of_agents = self
            .subject
            .lids
            .by_lid()
            .filter(|(_, at)| fabric.switch_index(at.node).is_some());
        for (lid, _) in of_agents {
            let sl = self.subject.service_levels.to(lid);
            let mut at = self.next(leaf.0, lid);
            // A packet that loops has passed every switch of its loop by then.
            for _ in 0..self.net.switches {
                let Some(from) = at else { break };
                at = self.after(from, lid);
                turns.extend(at.map(|to| (from, to, sl)));
            }
        }
    }

    /// True if packets from the agent of the first channel's switch to another host make this turn.
    fn stands(&self, (from, to, sl): Turn) -> bool {
        let (from, to) = (self.net.channels[from as usize], self.net.channels[to as usize]);
        let tables = self.subject.tables;
        (0..tables.blocks()).any(|block| {
            let rows = [from.src, from.dst].map(|switch| tables.block(SwitchIdx(switch), block));
            let others = &self.others[block * BLOCK_LIDS..][..BLOCK_LIDS];
            let entries = rows[0].iter().zip(rows[1]).zip(others);
            entries
                .into_iter()
                .any(|((&first, &second), &other)| first == from.out && second == to.out && other == Some(sl))
        })
    }

    /// True if no packet continues from this channel to another.
    fn ends(&self, channel: u32, past: &Past) -> bool {
        let channel = self.net.channels[channel as usize];
        let goes_on = |entry: u8| matches!(self.net.way(channel.dst as usize, entry), Way::Channel(_));
        let comes = self.lids_that(channel.src, past, |entry| entry == channel.out);
        let leaves = self.lids_that(channel.dst, past, goes_on);
        !comes.iter().zip(&leaves).any(|(comes, leaves)| *comes && *leaves)
    }

    /// By LID: whether a current or recent entry of a switch satisfies `is_it`.
    fn lids_that(&self, switch: u32, past: &Past, is_it: impl Fn(u8) -> bool) -> Vec<bool> {
        let (switch, mut found) = (SwitchIdx(switch), vec![false; self.others.len()]);
        for tables in [self.subject.tables, &past.tables] {
            let blocks = (0..tables.blocks()).flat_map(|block| tables.block(switch, block));
            blocks
                .zip(&mut found)
                .for_each(|(&entry, found)| *found |= is_it(entry));
        }
        let writes = past.steps.iter().flat_map(|step| &step.writes);
        for write in writes.filter(|write| write.switch == switch && is_it(write.egress)) {
            if let Some(found) = found.get_mut(write.lid.index()) {
                *found = true;
            }
        }
        found
    }
}
