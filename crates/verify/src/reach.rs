//! Follows the tables: one pass per destination over all switches.
//!
//! The entries of one LID make every switch point at its next one: a forest, plus circles where packets loop. Peeling
//! it from the tips carries the number of sources down to where each packet ends, and leaves the circles over.
//! Walking the same order back gives hop counts and which loads were really delivered.

use selvedge_sim::Par;
use selvedge_types::{Lid, Sl, Vl};

use crate::cdg::Dependencies;
use crate::finding::{Cause, Sources, Traffic};
use crate::ground::{Exit, Ground, Owner, Way};
use crate::sl_vl::{LaneMap, LaneRule, level};

const NONE: u32 = u32::MAX;

/// Chunks of destinations that may run side by side; results do not depend on it.
const CHUNKS: usize = 16;
/// Memory that the dependency bits of all chunks may take together.
const CHUNK_BYTES_MAX: usize = 1 << 29;

/// How packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The switch drops them.
    Dead(Cause),
    /// They go round.
    Loop {
        /// Switches in the circle.
        length: u32,
    },
    /// They leave where the owner is not.
    Wrong(Exit),
    /// They get no lane.
    Lane(Vl),
    /// The switch does not keep its own LID.
    OwnLid,
}

impl What {
    const CLASSES: usize = 5;

    const fn class(self) -> usize {
        match self {
            Self::Dead(_) => 0,
            Self::Loop { .. } => 1,
            Self::Wrong(_) => 2,
            Self::Lane(_) => 3,
            Self::OwnLid => 4,
        }
    }
}

/// Packets of one LID that end badly at one switch.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The LID.
    pub lid: Lid,
    /// The switch; of a circle, the first.
    pub switch: u32,
    /// The entry there.
    pub entry: u8,
    /// How they end.
    pub what: What,
    /// How many sources are hit.
    pub from: Sources,
    /// True if no host is at either end.
    pub between_switches: bool,
}

/// Losses, the first of each class kept, all counted.
#[derive(Debug)]
pub struct Losses {
    /// Kept ones by class, those between switches apart.
    pub kept: Vec<Vec<Loss>>,
    /// How many there were in each of the lists.
    pub totals: Vec<u64>,
    keep: usize,
}

impl Losses {
    fn new(keep: usize) -> Self {
        Self {
            kept: vec![Vec::new(); 2 * What::CLASSES],
            totals: vec![0; 2 * What::CLASSES],
            keep,
        }
    }

    fn add(&mut self, loss: Loss) {
        let list = 2 * loss.what.class() + usize::from(loss.between_switches);
        self.totals[list] += 1;
        if self.kept[list].len() < self.keep {
            self.kept[list].push(loss);
        }
    }

    fn append(&mut self, later: Self) {
        for (list, losses) in later.kept.into_iter().enumerate() {
            let room = self.keep - self.kept[list].len();
            self.kept[list].extend(losses.into_iter().take(room));
            self.totals[list] += later.totals[list];
        }
    }
}

/// Where packets ended: pairs of a source end port and a LID.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// At the owner.
    pub delivered: u64,
    /// In a drop, a circle, at a wrong port or for want of a lane, by [`What`].
    pub lost: [u64; What::CLASSES],
    /// Dropped towards a part of the fabric that the source has no link to, or a port without a link.
    pub apart: u64,
    /// Delivered from host ports to the base LID of host ports.
    pub host_pairs: u64,
}

/// What the passes over all destinations found.
#[derive(Debug)]
pub struct Tally {
    /// Losses in order of LIDs.
    pub losses: Losses,
    /// Channel dependencies.
    pub dependencies: Dependencies,
    /// Host pairs by lane, then channel.
    pub loads: Vec<u64>,
    /// Host pairs by number of links between switches on their way.
    pub hops: Vec<u64>,
    /// Where packets ended.
    pub ends: Ends,
}

impl Tally {
    fn merge(mut self, later: Self) -> Self {
        self.losses.append(later.losses);
        self.dependencies.merge(&later.dependencies);
        add(&mut self.loads, &later.loads);
        self.hops.resize(self.hops.len().max(later.hops.len()), 0);
        add(&mut self.hops, &later.hops);
        add(&mut self.ends.lost, &later.ends.lost);
        self.ends.delivered += later.ends.delivered;
        self.ends.apart += later.ends.apart;
        self.ends.host_pairs += later.ends.host_pairs;
        self
    }
}

fn add(sum: &mut [u64], more: &[u64]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// A LID that packets are sent to.
#[derive(Clone, Copy, Debug)]
struct Destination {
    lid: Lid,
    owner: Owner,
    /// The first LID of its port: loads and hop counts are taken from one LID per port.
    is_base: bool,
}

/// Follows every LID from every source.
pub fn follow(ground: &Ground<'_>, lanes: &LaneMap, keep: usize, par: Par) -> Tally {
    let destinations: Vec<Destination> = ground
        .subject
        .lids
        .by_lid()
        .map(|(lid, at)| Destination {
            lid,
            owner: ground.owner(at),
            is_base: ground.subject.lids.base(at) == Some(lid),
        })
        .collect();
    let size = Dependencies::new(ground, lanes).bytes().max(1);
    let chunks = match par {
        Par::Sequential => 1,
        Par::Rayon => CHUNKS.min(CHUNK_BYTES_MAX / size).max(1),
    };
    let length = destinations.len().div_ceil(chunks).max(1);
    let tallies = par.map(destinations.len().div_ceil(length).max(1), |chunk| {
        let mut walker = Walker::new(ground, lanes, keep);
        let end = destinations.len().min((chunk + 1) * length);
        for &destination in &destinations[chunk * length..end] {
            walker.follow(destination);
        }
        walker.tally
    });
    // `chunks` is at least 1, so there is a first tally; without one nothing was followed.
    let empty = || Walker::new(ground, lanes, keep).tally;
    tallies.into_iter().reduce(Tally::merge).unwrap_or_else(empty)
}

/// Arrays of one pass, used again for the next.
struct Walker<'g> {
    ground: &'g Ground<'g>,
    lanes: &'g LaneMap,
    /// Slots of a route: see [`LaneRule`].
    slots: usize,
    lowest_top: Lid,
    entries: Vec<u8>,
    exits: Vec<Exit>,
    /// Next switch on the way; [`NONE`] where packets end.
    next: Vec<u32>,
    /// Switches that point here and are not peeled yet.
    waiting: Vec<u32>,
    /// Peeled switches, sources before what they point at.
    order: Vec<u32>,
    /// Own hosts that got their lane.
    own: Vec<u32>,
    /// Host sources that leave a switch, by slot.
    hosts: Vec<u32>,
    /// Switch sources that leave a switch.
    switches: Vec<u32>,
    /// Slots they leave on, as bits.
    switch_slots: Vec<u16>,
    /// Links to the owner; [`NONE`] if not delivered.
    distance: Vec<u32>,
    /// Losses of this destination.
    found: Vec<Loss>,
    tally: Tally,
}

impl<'g> Walker<'g> {
    fn new(ground: &'g Ground<'g>, lanes: &'g LaneMap, keep: usize) -> Self {
        let switches = ground.switches;
        let dependencies = Dependencies::new(ground, lanes);
        let slots = dependencies.slots();
        Self {
            ground,
            lanes,
            slots,
            lowest_top: ground.lowest_top(),
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

    /// The entries of the LID.
    fn read(&mut self, lid: Lid) {
        for switch in 0..self.ground.switches {
            (self.entries[switch], self.exits[switch]) = if lid > self.lowest_top {
                self.ground.route(switch, lid)
            } else {
                self.ground.route_below_top(switch, lid)
            };
        }
    }

    /// Who points at whom; a switch whose packets get no lane at the next points nowhere.
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

    /// The slot of a packet at a switch; any will do if it needs none.
    #[inline]
    fn slot<R: LaneRule>(&self, rule: R, switch: usize, ingress: u8) -> Result<usize, Vl> {
        if self.exits[switch].needs_lane() {
            rule.slot(self.ground, switch, ingress, self.entries[switch])
        } else {
            Ok(0)
        }
    }

    /// Every host and every switch but the owner sends one packet.
    fn start<R: LaneRule>(&mut self, rule: R, to: Destination) {
        let ground = self.ground;
        self.hosts.fill(0);
        self.switches.fill(1);
        self.switch_slots.fill(1);
        self.own.copy_from_slice(&ground.host_count);
        match to.owner {
            Owner::Host(host) => self.own[ground.hosts[host as usize].switch as usize] -= 1,
            Owner::Switch(switch) => self.switches[switch as usize] = 0,
            Owner::Dead => {}
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

    /// From the tips inwards: whoever nobody points at hands its packets on.
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

    /// Packets go from a switch to the next: notes what they wait for there, and if `count`, adds them up.
    #[inline]
    fn hand_on<R: LaneRule>(&mut self, rule: R, switch: usize, to: Destination, count: bool) {
        let Some(index) = self.exits[switch].as_channel() else {
            return;
        };
        let channel = self.ground.channels[index];
        let next = channel.dst as usize;
        let Ok(slot) = self.slot(rule, next, channel.into) else {
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
            Owner::Host(_) | Owner::Dead => Traffic::Agents,
        };
        let mut slots = self.switch_slots[switch];
        while slots != 0 {
            let held = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let row = self.tally.dependencies.row(rule.lane(held), index);
            self.tally.dependencies.set(traffic, row, slot, egress);
        }
    }

    /// Packets that end at a switch, or at the next for want of a lane.
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

    /// What peeling left over goes round; so does everything that flows into it.
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

    /// What is caught in a circle comes by every switch in it, on the lane that this one gives.
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

    /// From the owner outwards: hop counts, and the loads that arrive.
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

    /// Notes a loss, unless nothing was to be expected.
    fn lose(&mut self, to: Destination, switch: usize, what: What, from: Sources) {
        if from == Sources::default() {
            return;
        }
        let part = match to.owner {
            Owner::Host(host) => Some(self.ground.part[self.ground.hosts[host as usize].switch as usize]),
            Owner::Switch(owner) => Some(self.ground.part[owner as usize]),
            Owner::Dead => None,
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

    /// Hands the losses of a destination over: by switch, those for want of the same lane as one.
    fn settle(&mut self, to: Destination) {
        if let Owner::Switch(owner) = to.owner
            && self.exits[owner as usize] != Exit::OWN
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

fn count(hops: &mut Vec<u64>, distance: usize, hosts: u32) {
    if hosts == 0 {
        return;
    }
    if hops.len() <= distance {
        hops.resize(distance + 1, 0);
    }
    hops[distance] += u64::from(hosts);
}
