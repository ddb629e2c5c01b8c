//! A quick proof that ignores waits. It computes the dependencies that written entries add to the existing ones, and
//! reads only those parts of the graph from which they can be reached, or which can be reached from them.

use selvedge_fabric::SwitchIdx;
use selvedge_plan::Tables;
use selvedge_types::{Idx, Lid};

use super::drift::LaneRules;
use super::net::{Net, Owner, Way};
use super::trial::Entry;
use super::turns::Turn;
use crate::finding::Traffic;

const HOSTS: u8 = 1;
const SWITCHES: u8 = 2;
/// A value for a switch or channel, with the round that computed it. Values of earlier rounds are ignored.
type Noted<T> = Vec<(u32, T)>;

/// Arrays for one LID, reused for the next. Each LID is a new round, which makes old values invalid.
#[derive(Debug)]
pub struct Added<'a> {
    net: &'a Net,
    tables: &'a Tables,
    rules: &'a LaneRules<'a>,
    round: u32,
    /// For each written entry: the value before and after the last step that wrote it, and that step.
    written: Noted<(u8, u8, u32)>,
    /// Senders with packets that may be on each channel.
    senders: Noted<u8>,
    /// Whether packets from hosts pass a switch under the tables in force.
    hosts_pass: Noted<bool>,
    open: Vec<(u32, u8)>,
    lid: Lid,
    owner: Owner,
    vl: u8,
    /// Turns found.
    pub made: Vec<(Turn, Traffic)>,
}

impl<'a> Added<'a> {
    /// Prepares to follow LIDs of these tables. `None` if packets may change lanes on their path, or if a LID has more
    /// than one lane.
    pub fn new(net: &'a Net, tables: &'a Tables, rules: &'a LaneRules<'a>) -> Option<Self> {
        if rules.levels.len() > 1 {
            return None;
        }
        rules.only(selvedge_types::Sl::default())?;
        Some(Self {
            net,
            tables,
            rules,
            round: 0,
            written: vec![(0, (0, 0, 0)); net.switches],
            senders: vec![(0, 0); net.channels.len()],
            hosts_pass: vec![(0, false); net.switches],
            open: Vec::new(),
            lid: Lid::NONE,
            owner: Owner::Nobody,
            vl: 0,
            made: Vec::new(),
        })
    }

    /// Adds the dependencies that the writes of a LID make while no packets drain.
    pub fn follow(&mut self, lid: Lid, owner: Owner, writes: &[Entry]) -> Option<()> {
        self.made.clear();
        self.round += 1;
        (self.lid, self.owner) = (lid, owner);
        let [level] = self.rules.levels_to(lid)[..] else {
            return None;
        };
        self.vl = self.rules.only(level)?;
        for step in writes.chunk_by(|a, b| a.0 == b.0) {
            self.step(step);
        }
        Some(())
    }

    fn step(&mut self, writes: &[Entry]) {
        for &(step, switch, entry) in writes {
            let (_, before) = self.entries(switch as usize, step);
            self.written[switch as usize] = (self.round, (before, entry, step));
        }
        for &(step, switch, entry) in writes {
            let net = self.net;
            for &channel in net.entering(switch as usize) {
                let senders = self.on(channel);
                if senders != 0 {
                    self.turn(channel, senders, entry);
                }
            }
            self.send(switch as usize, entry);
            while let Some((channel, senders)) = self.open.pop() {
                let (before, now) = self.entries(self.net.channels[channel as usize].dst as usize, step);
                self.turn(channel, senders, before);
                if now != before {
                    self.turn(channel, senders, now);
                }
            }
        }
    }

    /// Returns the entries in force in a step: before and after it.
    fn entries(&self, switch: usize, step: u32) -> (u8, u8) {
        let (round, (before, after, last)) = self.written[switch];
        if round != self.round {
            let entry = self.in_force(switch);
            (entry, entry)
        } else if last == step {
            (before, after)
        } else {
            (after, after)
        }
    }

    /// Returns the entry before the first step.
    fn in_force(&self, switch: usize) -> u8 {
        self.tables.get(SwitchIdx::from_usize(switch), self.lid)
    }

    /// Returns the senders with packets that may be on a channel, under the tables in force and the additions.
    fn on(&mut self, channel: u32) -> u8 {
        let (round, senders) = self.senders[channel as usize];
        if round == self.round {
            return senders;
        }
        let src = self.net.channels[channel as usize].src as usize;
        let is_used = self.net.way(src, self.in_force(src)) == Way::Channel(channel);
        let senders = if !is_used {
            0
        } else if self.hosts_pass(src) {
            HOSTS | SWITCHES
        } else {
            SWITCHES
        };
        self.senders[channel as usize] = (self.round, senders);
        senders
    }

    fn has_host(&self, switch: usize) -> bool {
        let own = matches!(self.owner, Owner::Host(_, leaf) if leaf as usize == switch);
        self.net.hosts_of(switch).len() > usize::from(own)
    }

    /// True if packets from a host pass a switch under the tables in force. Searches backwards to the first host.
    fn hosts_pass(&mut self, switch: usize) -> bool {
        let mut met = vec![switch];
        let mut done = 0;
        self.hosts_pass[switch] = (
            self.round,
            self.hosts_pass[switch].0 == self.round && self.hosts_pass[switch].1,
        );
        let mut found = false;
        while let Some(&at) = met.get(done) {
            done += 1;
            if self.has_host(at) || self.hosts_pass[at].1 {
                found = true;
                break;
            }
            for &channel in self.net.entering(at) {
                let from = self.net.channels[channel as usize].src as usize;
                let leads = self.net.way(from, self.in_force(from)) == Way::Channel(channel);
                let (round, passes) = self.hosts_pass[from];
                if leads && (round != self.round || passes) {
                    if round != self.round {
                        self.hosts_pass[from] = (self.round, false);
                    }
                    met.push(from);
                }
            }
        }
        if found {
            // For the other switches the answer is still unknown.
            met.iter().for_each(|&at| self.hosts_pass[at].0 = 0);
            self.hosts_pass[switch] = (self.round, true);
        }
        found
    }

    /// Lets the sources of a switch send by a written entry.
    fn send(&mut self, switch: usize, entry: u8) {
        let Way::Channel(channel) = self.net.way(switch, entry) else {
            return;
        };
        let hosts = if self.has_host(switch) { HOSTS } else { 0 };
        let own = if self.owner == Owner::Switch(switch as u32) {
            0
        } else {
            SWITCHES
        };
        self.reach(channel, hosts | own);
    }

    fn reach(&mut self, channel: u32, senders: u8) {
        let known = self.on(channel);
        let new = senders & !known;
        if new != 0 {
            self.senders[channel as usize].1 = known | new;
            self.open.push((channel, new));
        }
    }

    fn turn(&mut self, from: u32, senders: u8, entry: u8) {
        let switch = self.net.channels[from as usize].dst as usize;
        let Way::Channel(to) = self.net.way(switch, entry) else {
            return;
        };
        let traffic = match (senders & HOSTS, self.owner) {
            (HOSTS, _) => Traffic::Hosts,
            (_, Owner::Switch(_)) => Traffic::Switches,
            _ => Traffic::Agents,
        };
        let turn = Turn {
            from,
            to,
            from_vl: self.vl,
            to_vl: self.vl,
        };
        self.made.push((turn, traffic));
        self.reach(to, senders);
    }
}
