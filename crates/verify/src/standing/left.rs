//! Packets in flight that replaced entries have forwarded, and the turns that they may make.
//!
//! A packet moves forward in time: after an entry has forwarded it, it can meet only entries that were in force when
//! this entry took effect, or that took effect later. Time is counted in phases, because each phase began when the
//! previous one was acknowledged.

use std::collections::BTreeSet;

use selvedge_fabric::SwitchIdx;
use selvedge_types::{Idx, Lid};

use super::Entry;
use super::repair::{HOSTS, Mix, SWITCHES};
use super::shape::Arc;

/// An entry that was replaced so recently that packets it forwarded may still be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The entry.
    pub entry: Entry,
    /// The phase that wrote the entry; 0 if it existed before.
    pub since: u16,
    /// The phase that replaced the entry.
    pub until: u16,
    /// True if the link of the replaced entry has been down since. Packets that waited for the link were discarded, so
    /// no packet waits for it because of this entry. Packets that had crossed the link may still be in flight beyond
    /// it.
    pub is_emptied: bool,
}

impl From<Entry> for Replaced {
    /// Returns a replaced entry with no known times.
    fn from(entry: Entry) -> Self {
        Self {
            entry,
            since: 0,
            until: u16::MAX,
            is_emptied: false,
        }
    }
}

impl Mix<'_> {
    /// Adds turns of packets in flight. A packet that a replaced entry has forwarded may meet the entries in force, or
    /// entries that were replaced later. A packet that waits at the place to which a replaced entry sent it keeps
    /// waiting. All entries in `replaced` are of one LID, sorted by switch.
    pub(super) fn left_behind(&mut self, replaced: &[Replaced]) {
        let of_hosts = self.of_switch.then(|| self.met_by_hosts(replaced));
        for old in replaced {
            let switch = old.entry.switch.to_usize();
            self.begun[switch] = (self.round, self.begun(switch).max(old.until));
        }
        for old in replaced {
            let senders = match &of_hosts {
                Some(met) if !met.contains(&old.entry.switch) => SWITCHES,
                _ => HOSTS | SWITCHES,
            };
            let (switch, egress) = (old.entry.switch.to_usize(), old.entry.egress);
            if !old.is_emptied {
                self.leave(switch, egress, senders, (old.since, old.until));
            }
            self.reach(switch, egress, senders, old.since);
            self.drift_back(replaced);
        }
    }

    /// Adds turns of packets from hosts that crossed a link before it went down. Behind the link these packets
    /// continue, although no path in force leads to their place. All entries in `replaced` are of one LID that belongs
    /// to a switch. LIDs of hosts need no such turns, because agents send to them from everywhere.
    pub(super) fn stray(&mut self, replaced: &[Replaced]) {
        self.strays.clear();
        let is_crossed = |arc: &Arc| !self.entries_to(replaced, arc).is_empty();
        let arcs = self
            .lost
            .iter()
            .map(|&arc| self.standing.flows.shape.arcs[arc as usize]);
        let crossed: Vec<Arc> = arcs.filter(is_crossed).collect();
        if crossed.is_empty() {
            return;
        }
        let met = self.met_by_hosts(replaced);
        for arc in crossed {
            let from = SwitchIdx(arc.src.into());
            if !met.contains(&from) && !self.sends_hosts(from) {
                continue;
            }
            let to = SwitchIdx(arc.dst.into());
            self.strays.push(to);
            for time in self.entries_to(replaced, &arc) {
                for old in of_switch(replaced, to).filter(|old| old.until >= time) {
                    self.reach(to.to_usize(), old.entry.egress, HOSTS | SWITCHES, time.max(old.since));
                }
                let now = self.standing.flows.entry(arc.dst, self.lid);
                let begun = self.begun(to.to_usize());
                self.reach(to.to_usize(), now, HOSTS | SWITCHES, time.max(begun));
                self.drift_back(replaced);
            }
        }
    }

    /// Returns the phases since which current or replaced entries have led to a link.
    fn entries_to(&self, replaced: &[Replaced], arc: &Arc) -> Vec<u16> {
        let old = of_switch(replaced, SwitchIdx(arc.src.into())).filter(|old| old.entry.egress == arc.port);
        let is_now = self.standing.flows.entry(arc.src, self.lid) == arc.port;
        let now = is_now.then(|| self.begun(usize::from(arc.src)));
        old.map(|old| old.since).chain(now).collect()
    }

    /// True if a switch sends packets of hosts: it has hosts, or entries in force lead such packets to it.
    fn sends_hosts(&self, switch: SwitchIdx) -> bool {
        let has_hosts = self.standing.flows.shape.own[switch.to_usize()] > 0;
        has_hosts || self.standing.carries_hosts(switch, Lid(self.lid))
    }

    /// Continues packets that are on a channel for the first time, or earlier than known before.
    fn drift_back(&mut self, replaced: &[Replaced]) {
        while let Some((cell, senders)) = self.open.pop() {
            let (_, time) = self.senders[cell as usize].1;
            let behind = self.standing.flows.shape.behind(cell as usize);
            for old in of_switch(replaced, SwitchIdx::from_usize(usize::from(behind))) {
                let since = time.max(old.since);
                if old.until >= time && old.is_emptied {
                    self.reach(usize::from(behind), old.entry.egress, senders, since);
                } else if old.until >= time {
                    self.turn(cell, senders, old.entry.egress, since);
                }
            }
            let now = self.standing.flows.entry(behind, self.lid);
            self.turn(cell, senders, now, time.max(self.begun(usize::from(behind))));
        }
    }

    /// Returns the switches with replaced entries that packets from hosts can have met, under any mix of replaced and
    /// current entries, over links that existed. The search starts at the switches that packets from hosts pass now.
    fn met_by_hosts(&self, replaced: &[Replaced]) -> BTreeSet<SwitchIdx> {
        let (flows, shape, lid) = (&self.standing.flows, &self.standing.flows.shape, Lid(self.lid));
        let is_of_hosts = |switch: &SwitchIdx| self.standing.carries_hosts(*switch, lid);
        let written = replaced.iter().map(|old| old.entry.switch);
        let lost = self.lost.iter().map(|&arc| shape.arcs[arc as usize]);
        let crossed = lost.filter(|arc| flows.entry(arc.src, lid.0) == arc.port);
        let crossed = crossed.map(|arc| SwitchIdx(arc.src.into()));
        let mut met: BTreeSet<SwitchIdx> = written
            .chain(crossed)
            .filter(|switch| self.sends_hosts(*switch))
            .collect();
        let mut open: Vec<SwitchIdx> = met.iter().copied().collect();
        while let Some(switch) = open.pop() {
            let now = flows.entry(switch.0 as u16, lid.0);
            let old = of_switch(replaced, switch).map(|old| old.entry.egress);
            for egress in old.chain([now]) {
                let arc = shape.arc_of[shape.cell(switch.to_usize(), egress)];
                let Some(arc) = shape.arcs.get(arc as usize) else {
                    continue;
                };
                let next = SwitchIdx(arc.dst.into());
                if !is_of_hosts(&next) && met.insert(next) {
                    open.push(next);
                }
            }
        }
        met
    }
}

/// Returns the replaced entries of one switch.
fn of_switch(replaced: &[Replaced], switch: SwitchIdx) -> impl Iterator<Item = &Replaced> {
    let first = replaced.partition_point(|old| old.entry.switch < switch);
    replaced[first..]
        .iter()
        .take_while(move |old| old.entry.switch == switch)
}
