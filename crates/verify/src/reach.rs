//! Follows the tables: one pass per destination over all switches.
//!
//! The entries of one LID make every switch point at a next switch: a forest, plus loops. A switch that no other switch
//! points at is removed, and its number of sources is added to the next switch; this is repeated. At the end only the
//! loops are left, and the numbers of sources are where their packets end. A second round in reverse order gives hop
//! counts and the loads of packets that are really delivered.

use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_sim::Par;
use selvedge_types::{Lid, Sl, Vl};

use crate::cdg::Dependencies;
use crate::finding::{Sources, Traffic};
use crate::ground::{Exit, Ground, Owner, Way};
use crate::judged::{JudgeOptions, Senders};
use crate::quick::Ways;
use crate::sl_vl::{LaneMap, LaneRule, level};
use crate::tally::{Ends, Loss, Losses, Tally, What};

const NONE: u32 = u32::MAX;

/// Number of chunks of destinations that may run in parallel. Results do not depend on it.
const CHUNKS: usize = 8;
/// Most memory for the dependency bits of all chunks together, in bytes.
const CHUNK_BYTES_MAX: usize = 1 << 29;

/// A LID to which packets are sent.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The LID.
    pub lid: Lid,
    /// Owner of the LID.
    pub owner: Owner,
    /// True for the first LID of its port. Loads and hop counts are taken from one LID per port.
    pub is_base: bool,
}

/// Returns all LIDs in use, ascending.
pub fn destinations(ground: &Ground<'_>) -> Vec<Destination> {
    let lids = ground.subject.lids;
    let to = |lid: Lid| match lids.owner(lid) {
        Some(at) => Destination {
            lid,
            owner: ground.owner(at),
            // The LIDs of a port are consecutive.
            is_base: lids.owner(Lid(lid.0.saturating_sub(1))) != Some(at),
        },
        None => Destination {
            lid,
            owner: Owner::Nobody,
            is_base: false,
        },
    };
    ground.subject.lids_in_use().into_iter().map(to).collect()
}

/// Follows every LID from every sender: the quick pass if all packets are delivered, else the thorough pass.
pub fn follow(ground: &Ground<'_>, lanes: &LaneMap, senders: Senders, options: &JudgeOptions) -> Tally {
    let par = options.par;
    let Some(ways) = Ways::new(ground, lanes, senders) else {
        return follow_thoroughly(ground, lanes, senders, options, &destinations(ground));
    };
    let (mut quick, mut left) = (Vec::new(), Vec::new());
    for to in destinations(ground) {
        match ways.lane(lanes, to) {
            Some(lane) => quick.push((lane, to)),
            None => left.push(to),
        }
    }
    quick.sort_by_key(|&(lane, to)| (lane, to.lid));
    let length = quick.len().div_ceil(chunks(par, CHUNKS)).max(1);
    let found = par.map(quick.len().div_ceil(length), |chunk| {
        ways.follow(&quick[chunk * length..quick.len().min((chunk + 1) * length)])
    });
    left.extend(found.iter().flat_map(|found| &found.left));
    left.sort_by_key(|to| to.lid);
    let mut tally = follow_thoroughly(ground, lanes, senders, options, &left);
    for found in &found {
        ways.add_to(&mut tally, found);
    }
    tally
}

/// Follows these LIDs from every sender with the thorough pass, which describes all faults.
pub fn follow_thoroughly(
    ground: &Ground<'_>,
    lanes: &LaneMap,
    senders: Senders,
    options: &JudgeOptions,
    destinations: &[Destination],
) -> Tally {
    let (par, keep) = (options.par, options.kept());
    let size = Dependencies::new(ground, lanes).bytes().max(1);
    let chunks = chunks(par, CHUNK_BYTES_MAX / size).min(destinations.len().div_ceil(BLOCK_LIDS));
    let length = destinations.len().div_ceil(chunks.max(1)).max(1);
    let tallies = par.map(destinations.len().div_ceil(length).max(1), |chunk| {
        let mut walker = Walker::new(ground, lanes, senders, keep);
        let end = destinations.len().min((chunk + 1) * length);
        for &destination in &destinations[chunk * length..end] {
            walker.follow(destination);
        }
        walker.tally
    });
    // `par.map` got at least one chunk, so there is a first tally.
    let empty = || Walker::new(ground, lanes, senders, keep).tally;
    tallies.into_iter().reduce(Tally::merge).unwrap_or_else(empty)
}

fn chunks(par: Par, most: usize) -> usize {
    match par {
        Par::Sequential => 1,
        Par::Rayon => CHUNKS.min(most).max(1),
    }
}

/// Arrays for one pass, reused for the next.
struct Walker<'g> {
    ground: &'g Ground<'g>,
    lanes: &'g LaneMap,
    /// Number of sources at each switch in addition to its hosts: 1 if switches send.
    agents: u32,
    /// Number of slots of a route: see [`LaneRule`].
    slots: usize,
    lowest_top: Lid,
    /// One LFT block of every switch, by LID, then switch; and the number of the block.
    tile: Vec<u8>,
    tile_of: Option<usize>,
    entries: Vec<u8>,
    exits: Vec<Exit>,
    /// Next switch on the path. [`NONE`] where packets end.
    next: Vec<u32>,
    /// By switch: number of switches with entries that lead to it and that are not processed yet.
    waiting: Vec<u32>,
    /// Processed switches, sources before the switches that their entries lead to.
    order: Vec<u32>,
    /// Number of local hosts that got a lane.
    own: Vec<u32>,
    /// Number of hosts with packets that leave a switch, by switch and slot (see [`LaneRule`]).
    hosts: Vec<u32>,
    /// Number of switches with packets that leave a switch, by switch.
    switches: Vec<u32>,
    /// Slots on which those packets leave, as bits.
    switch_slots: Vec<u16>,
    /// Number of links to the owner. [`NONE`] if not delivered.
    distance: Vec<u32>,
    /// Losses of packets to this destination.
    found: Vec<Loss>,
    tally: Tally,
}

impl<'g> Walker<'g> {
    fn new(ground: &'g Ground<'g>, lanes: &'g LaneMap, senders: Senders, keep: usize) -> Self {
        let switches = ground.switches;
        let dependencies = Dependencies::new(ground, lanes);
        let slots = dependencies.slots();
        Self {
            ground,
            lanes,
            agents: u32::from(senders == Senders::All),
            slots,
            lowest_top: ground.lowest_top(),
            tile: vec![NO_PATH; switches * BLOCK_LIDS],
            tile_of: None,
            entries: vec![0; switches],
            exits: vec![Exit::OWN; switches],
            next: vec![NONE; switches],
            waiting: vec![0; switches],
            order: Vec::with_capacity(switches),
            own: vec![0; switches],
            hosts: vec![0; switches * slots],
            switches: vec![0; switches],
            switch_slots: vec![0; switches],
            distance: vec![NONE; switches],
            found: Vec::new(),
            tally: Tally {
                losses: Losses::new(keep),
                loads: vec![0; dependencies.lanes() * ground.channels.len()],
                dependencies,
                hops: Vec::new(),
                ends: Ends::default(),
            },
        }
    }

    fn follow(&mut self, destination: Destination) {
        let sl: Sl = level(self.ground, destination.lid);
        if self.lanes.is_uniform() {
            self.pass(self.lanes.uniform(sl), destination);
        } else {
            self.pass(self.lanes.general(sl), destination);
        }
    }

    fn pass<R: LaneRule>(&mut self, rule: R, to: Destination) {
        self.read(to.lid);
        self.point(rule);
        self.start(rule, to);
        self.peel(rule, to);
        if self.order.len() < self.ground.switches {
            self.circles(rule, to);
        }
        if to.is_base && matches!(to.owner, Owner::Host(_)) {
            self.walk_back(rule, to);
        }
        self.settle(to);
    }

    /// Reads the entries of the LID.
    fn read(&mut self, lid: Lid) {
        let switches = self.ground.switches;
        let block = lid.index() / BLOCK_LIDS;
        if self.tile_of != Some(block) {
            self.turn_tile(block);
        }
        let row = lid.index() % BLOCK_LIDS * switches;
        self.entries.copy_from_slice(&self.tile[row..row + switches]);
        for (switch, (exit, &entry)) in self.exits.iter_mut().zip(&self.entries).enumerate() {
            *exit = self.ground.exit(switch, entry);
        }
        if lid > self.lowest_top {
            for switch in 0..switches {
                self.exits[switch] = self.ground.route(switch, lid).1;
            }
        }
    }

    /// Transposes a block: tables store the LIDs of a switch together, a pass needs the switches of a LID together.
    fn turn_tile(&mut self, block: usize) {
        self.tile_of = Some(block);
        self.tile.fill(NO_PATH);
        let tables = self.ground.subject.tables;
        if block >= tables.blocks() {
            return;
        }
        let last = tables.top().index() - block * BLOCK_LIDS;
        for (column, switch) in tables.switch_indices().enumerate() {
            let row = tables.block(switch, block);
            for (i, &entry) in row.iter().enumerate().take(last + 1) {
                self.tile[i * self.ground.switches + column] = entry;
            }
        }
    }

    /// Sets the next switch of each switch. If packets get no lane at the next switch, there is none.
    fn point<R: LaneRule>(&mut self, rule: R) {
        self.waiting.fill(0);
        for switch in 0..self.ground.switches {
            self.next[switch] = NONE;
            let Some(channel) = self.exits[switch].as_channel() else {
                continue;
            };
            let channel = self.ground.channels[channel];
            if self.slot(rule, channel.dst as usize, channel.into).is_ok() {
                self.next[switch] = channel.dst;
                self.waiting[channel.dst as usize] += 1;
            }
        }
    }

    /// Returns the slot of a packet at a switch. If the packet needs no lane, any slot is returned.
    #[inline]
    fn slot<R: LaneRule>(&self, rule: R, switch: usize, ingress: u8) -> Result<usize, Vl> {
        if self.exits[switch].needs_lane() {
            rule.slot(self.ground, switch, ingress, self.entries[switch])
        } else {
            Ok(0)
        }
    }

    /// Lets every sender except the owner send one packet.
    fn start<R: LaneRule>(&mut self, rule: R, to: Destination) {
        let ground = self.ground;
        self.hosts.fill(0);
        self.switches.fill(self.agents);
        self.switch_slots.fill(1);
        self.own.copy_from_slice(&ground.host_count);
        match to.owner {
            Owner::Host(host) => self.own[ground.hosts[host as usize].switch as usize] -= 1,
            Owner::Switch(switch) => self.switches[switch as usize] = 0,
            Owner::Dead | Owner::Nobody => {}
        }
        for switch in 0..ground.switches {
            if R::BY_INGRESS {
                self.start_by_ingress(rule, switch, to);
                continue;
            }
            match self.slot(rule, switch, 0) {
                Ok(slot) => self.hosts[switch * self.slots + slot] = self.own[switch],
                Err(vl) => {
                    let from = Sources {
                        hosts: u64::from(self.own[switch]),
                        switches: u64::from(self.switches[switch]),
                    };
                    self.lose(to, switch, What::Lane(vl), from);
                    self.own[switch] = 0;
                    self.switches[switch] = 0;
                }
            }
        }
    }

    fn start_by_ingress<R: LaneRule>(&mut self, rule: R, switch: usize, to: Destination) {
        let ground = self.ground;
        self.own[switch] = 0;
        for host in ground.hosts_of(switch) {
            if to.owner == Owner::Host(u32::try_from(host).unwrap_or(NONE)) {
                continue;
            }
            match self.slot(rule, switch, ground.hosts[host].port) {
                Ok(slot) => {
                    self.hosts[switch * self.slots + slot] += 1;
                    self.own[switch] += 1;
                }
                Err(vl) => self.lose(to, switch, What::Lane(vl), Sources { hosts: 1, switches: 0 }),
            }
        }
        match self.slot(rule, switch, 0) {
            Ok(slot) => self.switch_slots[switch] = 1 << slot,
            Err(vl) => {
                let switches = u64::from(self.switches[switch]);
                self.lose(to, switch, What::Lane(vl), Sources { hosts: 0, switches });
                self.switches[switch] = 0;
            }
        }
    }

    /// Processes switches from the outside inwards: a switch passes its packets on when no unprocessed switch sends to
    /// it.
    fn peel<R: LaneRule>(&mut self, rule: R, to: Destination) {
        self.order.clear();
        for switch in 0..self.ground.switches {
            if self.waiting[switch] == 0 {
                self.order.push(switch as u32);
            }
        }
        let mut done = 0;
        while let Some(&switch) = self.order.get(done) {
            done += 1;
            let next = self.next[switch as usize];
            if next == NONE {
                self.end(rule, switch as usize, to);
                continue;
            }
            self.hand_on(rule, switch as usize, to, true);
            self.waiting[next as usize] -= 1;
            if self.waiting[next as usize] == 0 {
                self.order.push(next);
            }
        }
    }

    /// Moves packets from a switch to the next, which must exist. Records the dependencies there, and adds up the
    /// packets if `count`.
    #[inline]
    fn hand_on<R: LaneRule>(&mut self, rule: R, switch: usize, to: Destination, count: bool) {
        let Some(index) = self.exits[switch].as_channel() else {
            return;
        };
        let next = self.next[switch] as usize;
        let Ok(slot) = self.slot(rule, next, self.ground.channels[index].into) else {
            return;
        };
        let onward = self.exits[next].as_channel().is_some();
        let egress = self.entries[next];
        for held in 0..self.slots {
            let hosts = self.hosts[switch * self.slots + held];
            if hosts == 0 {
                continue;
            }
            if count {
                self.hosts[next * self.slots + slot] += hosts;
            }
            if onward {
                let row = self.tally.dependencies.row(rule.lane(held), index);
                self.tally.dependencies.set(Traffic::Hosts, row, slot, egress);
            }
        }
        if self.switches[switch] == 0 {
            return;
        }
        if count {
            self.switches[next] += self.switches[switch];
            self.switch_slots[next] |= 1 << slot;
        }
        if !onward {
            return;
        }
        let traffic = match to.owner {
            Owner::Switch(_) => Traffic::Switches,
            Owner::Host(_) | Owner::Dead | Owner::Nobody => Traffic::Agents,
        };
        let mut slots = self.switch_slots[switch];
        while slots != 0 {
            let held = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let row = self.tally.dependencies.row(rule.lane(held), index);
            self.tally.dependencies.set(traffic, row, slot, egress);
        }
    }

    /// Handles packets that end at a switch, or at the next one if it has no lane for them.
    fn end<R: LaneRule>(&mut self, rule: R, switch: usize, to: Destination) {
        let from = self.sources(switch);
        let exit = self.exits[switch];
        match exit.way() {
            Way::Channel(index) => {
                let channel = self.ground.channels[index];
                if let Err(vl) = self.slot(rule, channel.dst as usize, channel.into) {
                    self.lose(to, channel.dst as usize, What::Lane(vl), from);
                }
            }
            Way::Dead(cause) => self.lose(to, switch, What::Dead(cause), from),
            Way::Host(host) if to.owner == Owner::Host(host) => {
                self.tally.ends.delivered += from.hosts + from.switches;
                self.tally.ends.host_pairs += if to.is_base { from.hosts } else { 0 };
            }
            Way::Own if to.owner == Owner::Switch(switch as u32) => {
                self.tally.ends.delivered += from.hosts + from.switches;
            }
            Way::Host(_) | Way::Own => self.lose(to, switch, What::Wrong(exit), from),
        }
    }

    fn sources(&self, switch: usize) -> Sources {
        let hosts = &self.hosts[switch * self.slots..(switch + 1) * self.slots];
        Sources {
            hosts: hosts.iter().map(|&n| u64::from(n)).sum(),
            switches: u64::from(self.switches[switch]),
        }
    }

    /// Handles loops: all switches that are left over form loops, and all packets that enter them are caught.
    fn circles<R: LaneRule>(&mut self, rule: R, to: Destination) {
        for first in 0..self.ground.switches {
            if self.waiting[first] == 0 {
                continue;
            }
            let mut circle = Vec::new();
            let mut at = first;
            while self.waiting[at] != 0 {
                self.waiting[at] = 0;
                circle.push(at);
                at = self.next[at] as usize;
            }
            let mut from = Sources::default();
            for &switch in &circle {
                let more = self.sources(switch);
                from.hosts += more.hosts;
                from.switches += more.switches;
            }
            for &switch in &circle {
                self.go_round(rule, switch, from);
            }
            for &switch in &circle {
                self.hand_on(rule, switch, to, false);
            }
            let length = u32::try_from(circle.len()).unwrap_or(NONE);
            self.lose(to, first, What::Loop { length }, from);
        }
    }

    /// Handles one switch of a loop: packets pass every switch of the loop, on the lane that this switch gives.
    fn go_round<R: LaneRule>(&mut self, rule: R, switch: usize, from: Sources) {
        let Some(index) = self.exits[switch].as_channel() else {
            return;
        };
        let channel = self.ground.channels[index];
        let next = channel.dst as usize;
        if let Ok(slot) = self.slot(rule, next, channel.into) {
            self.hosts[next * self.slots + slot] += u32::from(from.hosts > 0);
            if from.switches > 0 {
                self.switches[next] += 1;
                self.switch_slots[next] |= 1 << slot;
            }
        }
    }

    /// Goes from the owner outwards, and adds hop counts and the loads that are delivered.
    fn walk_back<R: LaneRule>(&mut self, rule: R, to: Destination) {
        let channels = self.ground.channels.len();
        self.distance.fill(NONE);
        for &switch in self.order.iter().rev() {
            let switch = switch as usize;
            let index = match self.exits[switch].way() {
                Way::Host(host) if to.owner == Owner::Host(host) => {
                    self.distance[switch] = 0;
                    count(&mut self.tally.hops, 0, self.own[switch]);
                    continue;
                }
                Way::Channel(index) => index,
                Way::Host(_) | Way::Own | Way::Dead(_) => continue,
            };
            let next = self.next[switch];
            if next == NONE || self.distance[next as usize] == NONE {
                continue;
            }
            let distance = self.distance[next as usize] + 1;
            self.distance[switch] = distance;
            count(&mut self.tally.hops, distance as usize, self.own[switch]);
            for slot in 0..self.slots {
                let hosts = self.hosts[switch * self.slots + slot];
                if hosts > 0 {
                    self.tally.loads[rule.lane(slot) * channels + index] += u64::from(hosts);
                }
            }
        }
    }

    /// Records a loss, unless it is expected.
    fn lose(&mut self, to: Destination, switch: usize, what: What, from: Sources) {
        if from == Sources::default() {
            return;
        }
        let part = match to.owner {
            Owner::Host(host) => Some(self.ground.part[self.ground.hosts[host as usize].switch as usize]),
            Owner::Switch(owner) => Some(self.ground.part[owner as usize]),
            Owner::Dead => None,
            // An expected loss.
            Owner::Nobody => return,
        };
        let dropped = matches!(what, What::Dead(_) | What::Lane(_));
        if dropped && part != Some(self.ground.part[switch]) {
            self.tally.ends.apart += from.hosts + from.switches;
            return;
        }
        self.tally.ends.lost[what.class()] += from.hosts + from.switches;
        self.found.push(Loss {
            lid: to.lid,
            switch: u32::try_from(switch).unwrap_or(NONE),
            entry: self.entries[switch],
            what,
            from,
            between_switches: from.hosts == 0 && !matches!(to.owner, Owner::Host(_)),
        });
    }

    /// Reports the losses of a destination by switch. Losses because of the same missing lane are merged.
    fn settle(&mut self, to: Destination) {
        if let Owner::Switch(owner) = to.owner
            && self.entries[owner as usize] != 0
        {
            self.tally.losses.add(Loss {
                lid: to.lid,
                switch: owner,
                entry: self.entries[owner as usize],
                what: What::OwnLid,
                from: Sources::default(),
                between_switches: false,
            });
        }
        if self.found.is_empty() {
            return;
        }
        let lane = |loss: &Loss| match loss.what {
            What::Lane(vl) => vl.get(),
            _ => 0,
        };
        self.found
            .sort_by_key(|loss| (loss.switch, loss.what.class(), lane(loss)));
        self.found.dedup_by(|later, first| {
            let same = matches!(first.what, What::Lane(_)) && (later.switch, later.what) == (first.switch, first.what);
            if same {
                first.from.hosts += later.from.hosts;
                first.from.switches += later.from.switches;
                first.between_switches &= later.between_switches;
            }
            same
        });
        for loss in self.found.drain(..) {
            self.tally.losses.add(loss);
        }
    }
}

#[inline]
fn count(hops: &mut Vec<u64>, distance: usize, hosts: u32) {
    if hosts == 0 {
        return;
    }
    if hops.len() <= distance {
        hops.resize(distance + 1, 0);
    }
    hops[distance] += u64::from(hosts);
}
