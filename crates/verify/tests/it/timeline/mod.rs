//! All possible effects of a transition, found by trying every order of every step's entries, one after another, with
//! packets that stay on any channel for any time. Slow and simple, without code of the judge.
use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_types::{Lid, PortNum, PortState, Sl, Vl};
use selvedge_verify::Traffic;
use selvedge_verify::phases::Write;

/// A transition to try, and the state before it.
pub struct Case<'a> {
    pub fabric: &'a Fabric,
    pub lids: &'a Lids,
    pub tables: &'a Tables,
    /// Service levels before and after the transition.
    pub levels: [&'a ServiceLevels; 2],
    pub maps: [&'a SlToVl; 2],
    /// The writes of each step, and whether a wait that is long enough comes before it.
    pub steps: Vec<(bool, Vec<Write>)>,
}

/// An egress port on a lane.
type Held = (PortRef, u8);
type Turns = BTreeSet<(Held, Held)>;
/// One LID at a moment: the step, whether packets have drained before, and all entries.
type Column = (usize, bool, Vec<u8>);
/// One moment: the step, true if packets have drained before, and the entries that differ from the start.
type Moment = (usize, bool, BTreeMap<(SwitchIdx, Lid), u8>);

impl Case<'_> {
    /// Returns for each step, the start first, the smallest class of traffic that can deadlock in it.
    pub fn verdicts(&self) -> Vec<Option<Traffic>> {
        let mut worst = vec![None; self.steps.len() + 1];
        let mut known: BTreeMap<(Lid, Vec<Column>), Vec<[Turns; 3]>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for moments in self.orders() {
            let mut sum: Vec<[Turns; 3]> = vec![<[Turns; 3]>::default(); worst.len()];
            for (lid, _) in self.lids.by_lid() {
                let column = |moment: &Moment| {
                    let entries = self.fabric.switches().indices().map(|s| self.entry(moment, s, lid));
                    (moment.0, moment.1, entries.collect::<Vec<u8>>())
                };
                let key = (lid, moments.iter().map(column).collect());
                let turns = known.entry(key).or_insert_with(|| self.follow(lid, &moments));
                for (sum, more) in sum.iter_mut().zip(turns.iter()) {
                    sum.iter_mut().zip(more).for_each(|(sum, more)| sum.extend(more));
                }
            }
            if !seen.insert(sum.clone()) {
                continue;
            }
            for (worst, classes) in worst.iter_mut().zip(&sum) {
                let mut turns = Turns::new();
                for (traffic, more) in [Traffic::Hosts, Traffic::Agents, Traffic::Switches]
                    .into_iter()
                    .zip(classes)
                {
                    turns.extend(more);
                    if worst.is_none_or(|worst| traffic < worst) && is_cyclic(&turns) {
                        *worst = Some(traffic);
                    }
                }
            }
        }
        worst
    }

    fn entry(&self, moment: &Moment, switch: SwitchIdx, lid: Lid) -> u8 {
        let written = moment.2.get(&(switch, lid));
        written.copied().unwrap_or_else(|| self.tables.get(switch, lid))
    }

    /// Every order of the writes of every step, as the moments between them.
    fn orders(&self) -> Vec<Vec<Moment>> {
        let mut all: Vec<Vec<Moment>> = vec![vec![(0, false, BTreeMap::new())]];
        for (number, (wait, writes)) in (1..).zip(&self.steps) {
            let mut longer = Vec::new();
            for moments in &all {
                for order in permutations(writes) {
                    let mut moments = moments.clone();
                    let mut entries = moments.last().unwrap().2.clone();
                    // Nothing has arrived yet.
                    moments.push((number, *wait, entries.clone()));
                    for write in order {
                        entries.insert((write.switch, write.lid), write.egress);
                        moments.push((number, false, entries.clone()));
                    }
                    longer.push(moments);
                }
            }
            all = longer;
        }
        all
    }

    /// The turns of a LID that may exist in each step, by sender and owner.
    fn follow(&self, lid: Lid, moments: &[Moment]) -> Vec<[Turns; 3]> {
        let mut steps = vec![<[Turns; 3]>::default(); self.steps.len() + 1];
        let owner = self.lids.owner(lid);
        let is_switch = |node: NodeIdx| self.fabric.node(node).is_switch();
        let sls: BTreeSet<Sl> = self.levels.iter().map(|levels| levels.to(lid)).collect();
        for (source, switch, ingress) in self.sources().filter(|source| Some(source.0) != owner) {
            let traffic = match (is_switch(source.node), owner.is_some_and(|at| is_switch(at.node))) {
                (false, _) => Traffic::Hosts,
                (true, false) => Traffic::Agents,
                (true, true) => Traffic::Switches,
            };
            for &sl in &sls {
                self.send(sl, (switch, ingress), lid, moments, |first, last, turn| {
                    steps[first..=last].iter_mut().for_each(|step| {
                        step[traffic as usize].insert(turn);
                    });
                });
            }
        }
        steps
    }

    /// Host ports, with where they enter, and switches.
    fn sources(&self) -> impl Iterator<Item = (PortRef, NodeIdx, PortNum)> {
        let fabric = self.fabric;
        let zero = PortNum::MANAGEMENT;
        let entering = fabric.end_ports().filter_map(move |(at, _)| {
            let peer = fabric.peer(at)?;
            let enters = is_active(fabric, at) && fabric.node(peer.node).is_switch();
            enters.then_some((at, peer.node, peer.port))
        });
        let own = fabric
            .switches()
            .iter()
            .map(move |&node| (PortRef { node, port: zero }, node, zero));
        entering.chain(own)
    }

    /// Sends a packet at every moment and lets it stay everywhere for any time, until a wait ends it.
    fn send(
        &self,
        sl: Sl,
        start: (NodeIdx, PortNum),
        lid: Lid,
        moments: &[Moment],
        mut made: impl FnMut(usize, usize, (Held, Held)),
    ) {
        // When, where, by which port, on what.
        let mut seen: BTreeSet<(usize, NodeIdx, PortNum, Option<Held>)> = BTreeSet::new();
        let mut open: Vec<_> = (0..moments.len()).map(|t| (t, start.0, start.1, None)).collect();
        while let Some(state) = open.pop() {
            if !seen.insert(state) {
                continue;
            }
            let (sent, node, ingress, held) = state;
            let end = (sent + 1..moments.len())
                .find(|&t| moments[t].1)
                .unwrap_or(moments.len());
            let switch = self.fabric.switch_index(node).unwrap();
            for (now, moment) in moments.iter().enumerate().take(end).skip(sent) {
                let Some(port) = PortNum::new(self.entry(moment, switch, lid)) else {
                    continue;
                };
                let at = PortRef { node, port };
                let Some(peer) = self.fabric.peer(at).filter(|_| is_active(self.fabric, at)) else {
                    continue;
                };
                if !self.fabric.node(peer.node).is_switch() {
                    continue;
                }
                for vl in self.maps.map(|map| map.vl(switch, ingress, port, sl)) {
                    if vl == Vl::MANAGEMENT {
                        continue;
                    }
                    let wanted = (at, vl.get());
                    if let Some(held) = held {
                        made(moments[now].0, moments[end - 1].0, (held, wanted));
                    }
                    open.push((now, peer.node, peer.port, Some(wanted)));
                }
            }
        }
    }
}

fn is_active(fabric: &Fabric, at: PortRef) -> bool {
    let active = |at| fabric.port(at).is_some_and(|p| p.link.state == PortState::Active);
    active(at) && fabric.peer(at).is_some_and(active)
}

fn permutations(writes: &[Write]) -> Vec<Vec<Write>> {
    let Some((&first, rest)) = writes.split_first() else {
        return vec![Vec::new()];
    };
    let mut all = Vec::new();
    for shorter in permutations(rest) {
        for place in 0..=shorter.len() {
            let mut longer = shorter.clone();
            longer.insert(place, first);
            all.push(longer);
        }
    }
    all
}

/// Removes channels that wait for nothing until nothing changes.
fn is_cyclic(turns: &Turns) -> bool {
    let mut left = turns.clone();
    loop {
        let holders: BTreeSet<Held> = left.iter().map(|turn| turn.0).collect();
        let before = left.len();
        left.retain(|turn| holders.contains(&turn.1));
        if left.len() == before {
            return before > 0;
        }
    }
}
