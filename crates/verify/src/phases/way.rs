//! How long packets in flight may still make dependencies that the entries in force do not make.
//!
//! During a wait no entry changes. So a packet that was on channel a and waited for b when the wait began leaves its
//! switch within one packet lifetime, and from then on follows the entries in force. As soon as it is on a channel that
//! packets of current sources use under these entries, its dependencies are dependencies of the entries in force. That
//! is often the next channel, because agents in all switches send to hosts. So the bound counts lifetimes until that
//! point, not until delivery.

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::Lids;
use selvedge_types::Lid;

use super::drift::{Drift, Made};
use super::net::{Links, Net, Owner, Way};
use super::trial::{LidPlan, Trial};
use crate::finding::Traffic;

/// Returns for each step how many lifetimes the wait before it must last; 0 without a wait. After that time, packets of
/// traffic up to class `upto` make only dependencies that the entries in force make.
pub fn lifetimes(trial: &Trial<'_>, waits: &[bool], upto: Traffic) -> Vec<u32> {
    let mut needed: Vec<u32> = waits.iter().map(|wait| u32::from(*wait)).collect();
    if !waits.contains(&true) {
        return needed;
    }
    // If lanes change from hop to hop, or with the plan, channels alone do not identify the known dependencies.
    let is_plain = trial.rules.maps.len() == 1 && trial.rules.maps[0].exceptions.is_empty();
    let mut drift = Drift::new(&trial.net, trial.subject.tables, &trial.rules);
    let mut ways = Ways::new(&trial.net);
    let mut rest = Rest::new(&trial.net);
    for plan in &trial.plans {
        drift.follow(plan.lid, plan.owner, &plan.writes, waits);
        drift.made.retain(|made| made.traffic <= upto);
        // Windows of one service level after those of the other.
        drift.made.sort_by_key(|made| made.until);
        rest.load(|switch| trial.subject.tables.get(SwitchIdx(switch), plan.lid));
        let mut written = 0;
        // Turns of one window end together. There is no wait after the last window.
        for window in drift.made.chunk_by(|a, b| a.until == b.until) {
            let until = window[0].until;
            if until >= trial.steps {
                break;
            }
            written += rest.settle(&plan.writes[written..], until);
            let lifetimes = match is_plain {
                true => rest.of_window(window, plan, upto),
                false => ways.longest(window),
            };
            let most = &mut needed[until as usize];
            *most = lifetimes.max(*most);
        }
    }
    needed
}

/// Returns how many packet lifetimes to wait after the entries of the LIDs in `changed` were written. After this time,
/// wherever a packet to one of these LIDs was before, it causes only channel dependencies that the entries in force
/// cause too. The cost is one visit of all switches for each LID of a switch, and almost nothing for a LID of a host.
#[must_use]
pub fn lifetimes_after(
    fabric: &Fabric,
    lids: &Lids,
    entry: impl Fn(SwitchIdx, Lid) -> u8,
    changed: impl IntoIterator<Item = Lid>,
) -> u32 {
    // Links that are not ACTIVE yet may become ACTIVE meanwhile.
    let [active, trained] = [Links::Active, Links::Trained].map(|links| Net::new(fabric, links));
    let mut rest = Rest::new(&active);
    let mut most = 0;
    for lid in changed {
        let owner = active.owner(fabric, lids, lid);
        if !matches!(owner, Owner::Switch(_)) {
            // Agents of all switches send, so on the second channel at the latest packets share their place with
            // current traffic.
            most = most.max(2);
            continue;
        }
        rest.load(|switch| entry(SwitchIdx(switch), lid));
        rest.net = &active;
        rest.mark(owner, Traffic::Agents);
        rest.net = &trained;
        for switch in 0..active.switches {
            if let Some(channel) = rest.next(switch) {
                most = most.max(2 + rest.behind(channel));
            }
        }
    }
    most
}

/// Entries of one LID. They do not change during the wait.
struct Rest<'a> {
    net: &'a Net,
    column: Vec<u8>,
    round: u32,
    /// By channel: the round in which packets of current sources reach it.
    marked: Vec<u32>,
    /// By channel: the round, and the number of dependencies that packets on it still make and that the entries in
    /// force do not make.
    known: Vec<(u32, u32)>,
    path: Vec<u32>,
}

impl<'a> Rest<'a> {
    fn new(net: &'a Net) -> Self {
        Self {
            net,
            column: vec![0; net.switches],
            round: 0,
            marked: vec![0; net.channels.len()],
            known: vec![(0, 0); net.channels.len()],
            path: Vec::new(),
        }
    }

    fn load(&mut self, entry: impl Fn(u32) -> u8) {
        for (switch, place) in (0..).zip(&mut self.column) {
            *place = entry(switch);
        }
    }

    /// Applies the writes before a step. Returns their number.
    fn settle(&mut self, writes: &[(u32, u32, u8)], until: u32) -> usize {
        let count = writes.iter().take_while(|write| write.0 < until).count();
        for &(_, switch, entry) in &writes[..count] {
            self.column[switch as usize] = entry;
        }
        count
    }

    fn next(&self, switch: usize) -> Option<u32> {
        match self.net.way(switch, self.column[switch]) {
            Way::Channel(channel) => Some(channel),
            Way::Host(_) | Way::Own | Way::Dead => None,
        }
    }

    fn after(&self, channel: u32) -> Option<u32> {
        self.next(self.net.channels[channel as usize].dst as usize)
    }

    /// Marks the channels that packets of current sources reach.
    fn mark(&mut self, owner: Owner, upto: Traffic) {
        self.round += 1;
        let agents = upto == Traffic::Switches || !matches!(owner, Owner::Switch(_));
        for switch in 0..self.net.switches {
            let here = matches!(owner, Owner::Host(_, leaf) if leaf as usize == switch);
            let sends = match owner {
                Owner::Switch(own) if own as usize == switch => false,
                _ => agents || self.net.hosts_of(switch).len() > usize::from(here),
            };
            let mut open = if sends { self.next(switch) } else { None };
            while let Some(channel) = open {
                let mark = &mut self.marked[channel as usize];
                if *mark == self.round {
                    break;
                }
                *mark = self.round;
                open = self.after(channel);
            }
        }
    }

    fn of_window(&mut self, window: &[Made], plan: &LidPlan, upto: Traffic) -> u32 {
        self.mark(plan.owner, upto);
        let mut most = 0;
        for made in window {
            let (from, to) = (made.turn.from, made.turn.to);
            let stands = self.marked[from as usize] == self.round && self.after(from) == Some(to);
            if !stands {
                most = most.max(1 + self.behind(to));
            }
        }
        most
    }

    /// Returns the number of dependencies that packets on a channel still make from there on, and that the entries in
    /// force do not make.
    fn behind(&mut self, channel: u32) -> u32 {
        let mut at = channel;
        self.path.clear();
        let mut count = loop {
            if self.marked[at as usize] == self.round {
                break 0;
            }
            let (round, count) = self.known[at as usize];
            if round == self.round {
                break count;
            }
            let Some(next) = self.after(at) else {
                self.known[at as usize] = (self.round, 0);
                break 0;
            };
            if self.path.len() > self.net.switches {
                // A forwarding loop, which the judge of plans reports.
                return self.net.switches as u32;
            }
            self.path.push(at);
            at = next;
        };
        for &channel in self.path.iter().rev() {
            count += 1;
            self.known[channel as usize] = (self.round, count);
        }
        count
    }
}

/// Arrays for the longest path of one window, reused for the next. Dependencies that the entries in force make do not
/// count.
struct Ways<'a> {
    net: &'a Net,
    /// Channels in turns.
    used: Vec<u32>,
    /// By channel: turns that lead to it and are not counted yet.
    waiting: Vec<u32>,
    /// By channel: number of switches on the longest path to its end; 0: not used.
    length: Vec<u32>,
    /// Linked lists. By channel: index of its first turn plus 1; by turn: index of the next turn plus 1.
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl<'a> Ways<'a> {
    fn new(net: &'a Net) -> Self {
        let channels = net.channels.len();
        Self {
            net,
            used: Vec::new(),
            waiting: vec![0; channels],
            length: vec![0; channels],
            heads: vec![0; channels],
            next: Vec::new(),
        }
    }

    /// Returns the largest number of switches on a path along these turns. If the turns form a loop when lanes are
    /// ignored, returns the number of all switches.
    fn longest(&mut self, made: &[Made]) -> u32 {
        self.next.clear();
        for made in made {
            let (from, to) = (made.turn.from as usize, made.turn.to as usize);
            for channel in [from, to] {
                if self.length[channel] == 0 {
                    self.length[channel] = 2;
                    self.used.push(channel as u32);
                }
            }
            self.waiting[to] += 1;
            self.next.push(self.heads[from]);
            self.heads[from] = self.next.len() as u32;
        }
        let is_first = |channel: &u32| self.waiting[*channel as usize] == 0;
        let mut order: Vec<u32> = self.used.iter().copied().filter(is_first).collect();
        let (mut done, mut most) = (0, 0);
        while let Some(&from) = order.get(done) {
            done += 1;
            let length = self.length[from as usize];
            most = most.max(length);
            let mut link = self.heads[from as usize];
            while link != 0 {
                let to = made[link as usize - 1].turn.to as usize;
                link = self.next[link as usize - 1];
                self.length[to] = self.length[to].max(length + 1);
                self.waiting[to] -= 1;
                if self.waiting[to] == 0 {
                    order.push(to as u32);
                }
            }
        }
        let goes_round = done < self.used.len();
        for channel in self.used.drain(..) {
            let channel = channel as usize;
            (self.waiting[channel], self.length[channel], self.heads[channel]) = (0, 0, 0);
        }
        if goes_round { self.net.switches as u32 } else { most }
    }
}
