//! Follows the packets of one LID through tables that change while the packets are in flight.
//!
//! A packet uses at each switch the entry that is in force when it arrives. Within a step that is the old or the new
//! entry. The packet may have entered its channel in an earlier step. So a turn from channel a to channel b exists from
//! the step on in which an entry to b is in force and packets may be on a. It ends when a wait has let all packets in
//! flight drain.

use selvedge_fabric::SwitchIdx;
use selvedge_plan::{ServiceLevels, SlToVl, Tables};
use selvedge_types::{Idx, Lid, PortNum, Sl, Vl};

use super::net::{Net, Owner, Way};
use super::trial::Entry;
use super::turns::Turn;
use crate::finding::Traffic;
use crate::subject::Subject;

/// Bits of the kinds of senders: hosts, switches.
const HOSTS: usize = 0;
const SWITCHES: usize = 1;
/// Stands for the missing channel before the first one of a path: the switch's agent, or a host attached to the switch,
/// has sent the packet there.
pub const SOURCE: u32 = u32::MAX;

/// Service levels and lanes: both the old and the new ones if they differ.
#[derive(Clone, Debug)]
pub struct LaneRules<'a> {
    /// Service levels towards destinations.
    pub levels: Vec<&'a ServiceLevels>,
    /// Lanes of hops.
    pub maps: Vec<&'a SlToVl>,
}

impl<'a> LaneRules<'a> {
    /// Returns the rules of a subject.
    pub fn of(subject: Subject<'a>) -> Self {
        Self {
            levels: vec![subject.service_levels],
            maps: vec![subject.sl_to_vl],
        }
    }

    /// Returns the service levels that packets to a LID may carry.
    pub fn levels_to(&self, lid: Lid) -> Vec<Sl> {
        let mut levels: Vec<Sl> = self.levels.iter().map(|levels| levels.to(lid)).collect();
        levels.dedup();
        levels
    }

    /// Returns the lane of a level, if it is the same on every hop.
    pub fn only(&self, sl: Sl) -> Option<u8> {
        let [map] = self.maps[..] else { return None };
        let vl = map.default[usize::from(sl.get())];
        (map.exceptions.is_empty() && vl != Vl::MANAGEMENT).then(|| vl.get())
    }

    /// Calls `f` with each lane that a hop may use. Lanes on which packets are dropped are left out.
    #[inline]
    fn for_each_lane(&self, switch: usize, ingress: u8, egress: u8, sl: Sl, mut f: impl FnMut(u8)) {
        for map in &self.maps {
            let vl = if map.exceptions.is_empty() {
                map.default[usize::from(sl.get())]
            } else {
                // Both are ports of the fabric, so they are at most 254.
                let port = |number| PortNum::new(number).unwrap_or_default();
                map.vl(SwitchIdx::from_usize(switch), port(ingress), port(egress), sl)
            };
            if vl != Vl::MANAGEMENT {
                f(vl.get());
            }
        }
    }
}

/// Changes of one LID: (step, switch, entry), by step, then switch. Step 0 is the start and writes nothing.
pub type Writes = [Entry];

/// A turn, the class of traffic that makes it, and the steps in which it exists.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// The turn.
    pub turn: Turn,
    /// The smallest class of traffic that makes the turn.
    pub traffic: Traffic,
    /// First step in which the turn exists.
    pub since: u32,
    /// The first step in which the turn no longer exists, because a wait comes before that step. The number of steps if
    /// there is none.
    pub until: u32,
}

/// Arrays for one LID, reused for the next.
#[derive(Debug)]
pub struct Drift<'a> {
    net: &'a Net,
    tables: &'a Tables,
    rules: &'a LaneRules<'a>,
    /// Entries in force.
    column: Vec<u8>,
    /// Entries that the step writes; equal to `column` where it writes nothing.
    written: Vec<u8>,
    /// Lanes of each channel that may carry packets: of hosts in the lower half, of switches in the upper half.
    lanes: Vec<u32>,
    /// By sender: the channel from which each channel was entered first.
    before: [Vec<u32>; 2],
    reached: Vec<u32>,
    /// Channels still to follow: channel, lane, senders.
    open: Vec<(u32, u8, u8)>,
    /// The host number and switch of the LID's owner, if it is a host.
    owner_host: Option<u32>,
    owner_leaf: Option<u32>,
    owner_switch: Option<u32>,
    to_host: bool,
    /// Switches that packets to the LID may have entered by a link that has gone down since, with the ingress port.
    strays: Vec<(u32, u8)>,
    /// True until the first wait: packets in `strays` may exist.
    is_first_window: bool,
    sl: Sl,
    /// The lane on all hops, if it is the same on all.
    only: Option<u8>,
    span: (u32, u32),
    /// Turns found.
    pub made: Vec<Made>,
}

impl<'a> Drift<'a> {
    /// Prepares to follow LIDs of these tables.
    pub fn new(net: &'a Net, tables: &'a Tables, rules: &'a LaneRules<'a>) -> Self {
        let channels = net.channels.len();
        Self {
            net,
            tables,
            rules,
            column: vec![0; net.switches],
            written: vec![0; net.switches],
            lanes: vec![0; channels],
            before: [vec![SOURCE; channels], vec![SOURCE; channels]],
            reached: Vec::new(),
            open: Vec::new(),
            owner_host: None,
            owner_leaf: None,
            owner_switch: None,
            to_host: false,
            strays: Vec::new(),
            is_first_window: true,
            sl: Sl::default(),
            only: None,
            span: (0, 0),
            made: Vec::new(),
        }
    }

    /// Follows a LID through all steps. `waits[k]`: all packets have drained before step k.
    pub fn follow(&mut self, lid: Lid, owner: Owner, writes: &Writes, waits: &[bool]) {
        self.made.clear();
        let switch;
        (self.owner_host, self.owner_leaf, switch) = match owner {
            Owner::Host(host, leaf) => (Some(host), Some(leaf), None),
            Owner::Switch(switch) => (None, None, Some(switch)),
            Owner::Nobody => (None, None, None),
        };
        self.owner_switch = switch;
        self.to_host = switch.is_none();
        self.note_strays(lid, writes);
        for sl in self.rules.levels_to(lid) {
            self.sl = sl;
            self.only = self.rules.only(sl);
            self.load(lid);
            self.through(writes, waits);
        }
    }

    /// Fills `strays` with packets that crossed a lost link earlier and are now where no current path leads. Only
    /// packets to switches can be at such a place, because agents of all switches send to hosts.
    fn note_strays(&mut self, lid: Lid, writes: &Writes) {
        self.strays.clear();
        if self.to_host || writes.is_empty() {
            return;
        }
        for lost in &self.net.lost {
            let led = |from: SwitchIdx| {
                let was_written = |write: &Entry| (write.1, write.2) == (from.0, lost.port);
                self.tables.get(from, lid) == lost.port || writes.iter().any(was_written)
            };
            if lost.from.is_none_or(led) {
                self.strays.push((lost.to.0, lost.into));
            }
        }
    }

    fn load(&mut self, lid: Lid) {
        for (switch, entry) in self.column.iter_mut().enumerate() {
            *entry = self.tables.get(SwitchIdx::from_usize(switch), lid);
        }
        self.written.copy_from_slice(&self.column);
    }

    /// Processes the windows between waits in order. Windows without a write are equal and processed once.
    fn through(&mut self, writes: &Writes, waits: &[bool]) {
        let steps = waits.len() as u32;
        let mut left = writes;
        let mut first = 0;
        while first < steps {
            let mut end = next_wait(waits, first);
            let in_window = left.iter().take_while(|write| write.0 < end).count();
            let (mut window, rest) = left.split_at(in_window);
            left = rest;
            let next_write = left.first().map_or(steps, |write| write.0);
            while window.is_empty() && end < steps && next_wait(waits, end) <= next_write {
                end = next_wait(waits, end);
            }
            self.span = (first, end);
            self.is_first_window = first == 0;
            self.clear();
            self.begin(&mut window, first);
            while let Some(&(step, ..)) = window.first() {
                self.step(&mut window, step, end);
            }
            first = end;
        }
    }

    fn clear(&mut self) {
        for channel in self.reached.drain(..) {
            self.lanes[channel as usize] = 0;
        }
    }

    /// Processes the first step of a window: every source sends.
    fn begin(&mut self, window: &mut &Writes, step: u32) {
        let writes = self.take(window, step);
        for switch in 0..self.net.switches {
            self.send(switch, self.column[switch]);
            if self.written[switch] != self.column[switch] {
                self.send(switch, self.written[switch]);
            }
        }
        self.spread();
        self.settle(writes);
    }

    /// Processes a later step: only its writes are new.
    fn step(&mut self, window: &mut &Writes, step: u32, end: u32) {
        self.span = (step, end);
        let writes = self.take(window, step);
        for &(_, switch, entry) in writes {
            let switch = switch as usize;
            self.send(switch, entry);
            let net = self.net;
            for &channel in net.entering(switch) {
                let lanes = self.lanes[channel as usize];
                let mut any = (lanes | lanes >> 16) & 0xffff;
                while any != 0 {
                    let vl = any.trailing_zeros();
                    any &= any - 1;
                    let senders = (lanes >> vl & 1) | (lanes >> (vl + 16) & 1) << 1;
                    self.turn(channel, vl as u8, senders as u8, entry);
                }
            }
        }
        self.spread();
        self.settle(writes);
    }

    /// Takes the writes of a step from the list and merges them with the entries in force.
    fn take<'w>(&mut self, window: &mut &'w Writes, step: u32) -> &'w Writes {
        let count = window.iter().take_while(|write| write.0 == step).count();
        let (now, later) = window.split_at(count);
        *window = later;
        for &(_, switch, entry) in now {
            self.written[switch as usize] = entry;
        }
        now
    }

    /// Applies the writes when the step is acknowledged.
    fn settle(&mut self, writes: &Writes) {
        for &(_, switch, entry) in writes {
            self.column[switch as usize] = entry;
        }
    }

    /// Lets the hosts of a switch and its port 0 send by an entry.
    fn send(&mut self, switch: usize, entry: u8) {
        let Way::Channel(channel) = self.net.way(switch, entry) else {
            return;
        };
        let (net, rules, sl) = (self.net, self.rules, self.sl);
        let is_owner = |place: Option<u32>| place == Some(switch as u32);
        let hosts = net.hosts_of(switch);
        let has_host = hosts.len() > usize::from(is_owner(self.owner_leaf));
        let has_own = !is_owner(self.owner_switch);
        // After the first wait no such packets are left.
        let strays = if self.is_first_window { self.strays.len() } else { 0 };
        if let Some(vl) = self.only {
            let has_host = has_host || self.strays[..strays].iter().any(|stray| stray.0 as usize == switch);
            let senders = u8::from(has_host) << HOSTS | u8::from(has_own) << SWITCHES;
            self.reach(SOURCE, channel, vl, senders);
            return;
        }
        if has_host {
            let others = (net.first_host(switch)..).zip(hosts);
            let owner = self.owner_host;
            for (_, host) in others.filter(|(number, _)| owner != Some(*number)) {
                rules.for_each_lane(switch, host.port, entry, sl, |vl| {
                    self.reach(SOURCE, channel, vl, 1 << HOSTS);
                });
            }
        }
        for number in 0..strays {
            let (at, into) = self.strays[number];
            if at as usize == switch {
                rules.for_each_lane(switch, into, entry, sl, |vl| {
                    self.reach(SOURCE, channel, vl, 1 << HOSTS)
                });
            }
        }
        if has_own {
            rules.for_each_lane(switch, 0, entry, sl, |vl| {
                self.reach(SOURCE, channel, vl, 1 << SWITCHES);
            });
        }
    }

    #[inline]
    fn reach(&mut self, from: u32, channel: u32, vl: u8, senders: u8) {
        let at = channel as usize;
        let senders = u32::from(senders);
        let asked = ((senders & 1) | (senders & 2) << 15) << vl;
        let known = self.lanes[at];
        let new = asked & !known;
        if new == 0 {
            return;
        }
        if known == 0 {
            self.reached.push(channel);
        }
        for (sender, half) in [(HOSTS, 0xffff), (SWITCHES, 0xffff_0000)] {
            if new & half != 0 && known & half == 0 {
                self.before[sender][at] = from;
            }
        }
        self.lanes[at] = known | new;
        let new = (new >> vl & 1) | (new >> (vl + 16) & 1) << 1;
        self.open.push((channel, vl, new as u8));
    }

    fn spread(&mut self) {
        while let Some((channel, vl, senders)) = self.open.pop() {
            let switch = self.net.channels[channel as usize].dst as usize;
            let (old, new) = (self.column[switch], self.written[switch]);
            self.turn(channel, vl, senders, old);
            if new != old {
                self.turn(channel, vl, senders, new);
            }
        }
    }

    /// Adds the turns of packets on a channel that reach a switch and use an entry.
    fn turn(&mut self, from: u32, from_vl: u8, senders: u8, entry: u8) {
        let held = self.net.channels[from as usize];
        let Way::Channel(to) = self.net.way(held.dst as usize, entry) else {
            return;
        };
        let traffic = match (senders >> HOSTS & 1, self.to_host) {
            (1, _) => Traffic::Hosts,
            (_, true) => Traffic::Agents,
            (_, false) => Traffic::Switches,
        };
        let (rules, sl, (since, until)) = (self.rules, self.sl, self.span);
        if let Some(to_vl) = self.only {
            let turn = Turn {
                from,
                to,
                from_vl,
                to_vl,
            };
            self.made.push(Made {
                turn,
                traffic,
                since,
                until,
            });
            self.reach(from, to, to_vl, senders);
            return;
        }
        rules.for_each_lane(held.dst as usize, held.into, entry, sl, |to_vl| {
            let turn = Turn {
                from,
                to,
                from_vl,
                to_vl,
            };
            self.made.push(Made {
                turn,
                traffic,
                since,
                until,
            });
            self.reach(from, to, to_vl, senders);
        });
    }

    /// Returns the first channel of a path that leads to the given channel, for the witness of a turn. Depending on
    /// `traffic`, the path begins at a host or at a switch.
    pub fn origin(&self, channel: u32, traffic: Traffic) -> u32 {
        let sender = if traffic == Traffic::Hosts { HOSTS } else { SWITCHES };
        let mut at = channel;
        // Each channel was entered after the one before it, so this loop ends.
        while self.before[sender][at as usize] != SOURCE {
            at = self.before[sender][at as usize];
        }
        at
    }
}

/// Returns the step that has the next wait after `step`.
fn next_wait(waits: &[bool], step: u32) -> u32 {
    let later = (0..).zip(waits).skip(step as usize + 1).find(|(_, wait)| **wait);
    later.map_or(waits.len() as u32, |(at, _)| at)
}
