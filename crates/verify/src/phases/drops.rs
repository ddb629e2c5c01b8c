//! Counts the pairs that lose packets during a transition.

use selvedge_fabric::SwitchIdx;
use selvedge_types::{Idx, Lid};

use super::net::{Net, Owner, Way};
use super::trial::{Entry, LidPlan, Trial};
use crate::finding::Sources;

/// Cost of a step, in pairs of a source and a LID.
#[derive(Clone, Debug, Default)]
pub struct Drops {
    /// Pairs with packets that are delivered before and after the transition, but may be dropped in this step.
    pub live: Sources,
    /// Pairs without delivery before the transition and with delivery after it, for which this step may still drop
    /// packets.
    pub waiting: Sources,
    /// LIDs of the live pairs, each with the first affected switch.
    pub examples: Vec<(Lid, u32)>,
}

/// Cost of a whole transition.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Each step; the start is the first.
    pub steps: Vec<Drops>,
    /// Pairs with a path before the transition and none after it.
    pub lost: Sources,
}

/// Returns the cost of all steps.
pub fn drops(trial: &Trial<'_>, examples_max: usize) -> Costs {
    let mut all = vec![Drops::default(); trial.steps as usize];
    let mut lost = Sources::default();
    let mut column = Column::new(&trial.net);
    for plan in &trial.plans {
        column.load(trial, plan);
        let before = column.arriving(plan.owner);
        column.settle(&plan.writes);
        let after = column.arriving(plan.owner);
        column.load(trial, plan);
        for switch in (0..trial.net.switches).filter(|&s| before[s] && !after[s]) {
            add(&mut lost, sources_of(&trial.net, plan.owner, switch));
        }
        let mut left = &plan.writes[..];
        let mut step = 0;
        while step < trial.steps {
            let (now, later) = left.split_at(left.iter().take_while(|write| write.0 == step).count());
            left = later;
            // Nothing changes until the next write.
            let next = if now.is_empty() {
                left.first().map_or(trial.steps, |write| write.0)
            } else {
                step + 1
            };
            let safe = column.safe(plan.owner, now);
            let hurt = (0..trial.net.switches).filter(|&s| after[s] && !safe[s]);
            let cost = cost(trial, plan, hurt, &before);
            for drops in &mut all[step as usize..next as usize] {
                add(&mut drops.live, cost.live);
                add(&mut drops.waiting, cost.waiting);
                let room = examples_max.saturating_sub(drops.examples.len());
                drops.examples.extend(cost.examples.iter().take(room));
            }
            column.settle(now);
            step = next;
        }
    }
    Costs { steps: all, lost }
}

/// Returns the cost of packets dropped at some switches.
fn cost(trial: &Trial<'_>, plan: &LidPlan, hurt: impl Iterator<Item = usize>, before: &[bool]) -> Drops {
    let mut drops = Drops::default();
    for switch in hurt {
        let sources = sources_of(&trial.net, plan.owner, switch);
        if !before[switch] {
            add(&mut drops.waiting, sources);
            continue;
        }
        add(&mut drops.live, sources);
        if drops.examples.is_empty() && sources != Sources::default() {
            drops.examples.push((plan.lid, switch as u32));
        }
    }
    drops
}

fn add(sum: &mut Sources, more: Sources) {
    sum.hosts += more.hosts;
    sum.switches += more.switches;
}

/// Returns the sources at a switch that send to an owner.
fn sources_of(net: &Net, owner: Owner, switch: usize) -> Sources {
    let at = |place: u32| place as usize == switch;
    Sources {
        hosts: net.hosts_of(switch).len() as u64 - u64::from(matches!(owner, Owner::Host(_, leaf) if at(leaf))),
        switches: 1 - u64::from(matches!(owner, Owner::Switch(place) if at(place))),
    }
}

/// The entries of one LID.
struct Column<'a> {
    net: &'a Net,
    entries: Vec<u8>,
    /// Linked lists of switches by next switch: (switch, index of the next element plus 1).
    chain: Vec<(u32, u32)>,
    /// For each switch, the index of its first list element plus 1.
    heads: Vec<u32>,
}

impl<'a> Column<'a> {
    fn new(net: &'a Net) -> Self {
        Self {
            net,
            entries: vec![0; net.switches],
            chain: Vec::new(),
            heads: vec![0; net.switches],
        }
    }

    fn load(&mut self, trial: &Trial<'_>, plan: &LidPlan) {
        for (switch, entry) in self.entries.iter_mut().enumerate() {
            *entry = trial.subject.tables.get(SwitchIdx::from_usize(switch), plan.lid);
        }
    }

    fn settle(&mut self, writes: &[Entry]) {
        for &(_, switch, entry) in writes {
            self.entries[switch as usize] = entry;
        }
    }

    /// Returns the switches from which packets are delivered under the entries in force.
    fn arriving(&mut self, owner: Owner) -> Vec<bool> {
        self.reaching(owner, &[], true)
    }

    /// Returns the switches from which no packet is dropped, under any mix of old entries and writes. A packet that
    /// only loops does not count as dropped: loops are findings of their own.
    fn safe(&mut self, owner: Owner, writes: &[Entry]) -> Vec<bool> {
        let dropping = self.reaching(owner, writes, false);
        dropping.into_iter().map(|dropping| !dropping).collect()
    }

    /// Returns the switches with a path to a switch that delivers (or that does not).
    fn reaching(&mut self, owner: Owner, writes: &[Entry], delivering: bool) -> Vec<bool> {
        let Self {
            net,
            entries,
            chain,
            heads,
        } = self;
        chain.clear();
        heads.fill(0);
        let in_force = (0..).zip(entries.iter().copied());
        let written = writes.iter().map(|&(_, switch, entry)| (switch, entry));
        let (mut found, mut open) = (vec![false; net.switches], Vec::new());
        for (switch, entry) in in_force.chain(written) {
            let delivers = match net.way(switch as usize, entry) {
                Way::Channel(channel) => {
                    let head = &mut heads[net.channels[channel as usize].dst as usize];
                    chain.push((switch, *head));
                    *head = chain.len() as u32;
                    continue;
                }
                Way::Host(host) => matches!(owner, Owner::Host(own, _) if own == host),
                Way::Own => owner == Owner::Switch(switch),
                Way::Dead => false,
            };
            if delivers == delivering && !found[switch as usize] {
                found[switch as usize] = true;
                open.push(switch);
            }
        }
        while let Some(switch) = open.pop() {
            let mut link = heads[switch as usize];
            while link != 0 {
                let (from, next) = chain[link as usize - 1];
                link = next;
                if !found[from as usize] {
                    found[from as usize] = true;
                    open.push(from);
                }
            }
        }
        found
    }
}
