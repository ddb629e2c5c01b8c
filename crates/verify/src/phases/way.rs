//! How far packets that are under way may still go.

use super::drift::{Drift, Made};
use super::net::Net;
use super::trial::Trial;
use crate::finding::Traffic;

/// Most switches that a packet of traffic up to `upto` to any LID that changes may pass, from one wait to the next.
pub fn longest(trial: &Trial<'_>, waits: &[bool], upto: Traffic) -> u32 {
    let mut drift = Drift::new(&trial.net, trial.subject.tables, &trial.rules);
    let mut ways = Ways::new(&trial.net);
    let mut most = 0;
    for plan in &trial.plans {
        drift.follow(plan.lid, plan.owner, &plan.writes, waits);
        drift.made.retain(|made| made.traffic <= upto);
        // Turns of one window end together.
        for window in drift.made.chunk_by(|a, b| a.until == b.until) {
            most = most.max(ways.longest(window));
        }
    }
    // Without a turn a packet passes the two ends of a channel at most.
    if trial.plans.is_empty() {
        0
    } else {
        most.max(trial.net.switches.min(2) as u32)
    }
}

/// Arrays of one window, used again for the next.
struct Ways<'a> {
    net: &'a Net,
    /// Channels in turns.
    used: Vec<u32>,
    /// By channel: turns that lead there and are not counted yet.
    waiting: Vec<u32>,
    /// By channel: switches on the longest way up to its end; 0: not used.
    length: Vec<u32>,
    /// By channel: the first of its turns plus 1; of each turn the next plus 1.
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

    /// Most switches on a way along these turns; as many as there are if they go round without regard to lanes.
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
