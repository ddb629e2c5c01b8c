//! A standing picture of how all switches forward, mended after each change: who reaches which LID, what goes in
//! circles, which channels wait for which.
//!
//! Only entries whose egress link is ACTIVE at both ends count: a packet leaves by no other. It shares no code with the
//! judge of `selvedge-verify` on purpose.

mod follow;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx, TableKind};
use selvedge_fabric::NodeIdx;
use selvedge_plan::NO_PATH;
use selvedge_sim::Time;
use selvedge_types::{Lid, PhysState, PortState};

use super::channels::{Channels, Circle, Ghost, lifetime};
use super::rule::Rule;
use crate::subnet::Subnets;

/// What lies behind a port of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Far {
    /// Nothing that a packet could be sent to.
    #[default]
    Dead,
    /// Another switch, by position, and the port by which it is entered.
    Switch(u8, u8),
    /// A port of a host.
    Host(PortIdx),
}

/// Switches as bits.
pub(super) type Switches = u64;

/// The most switches that are watched: a bit each.
pub(super) const SWITCHES_MAX: usize = 64;

/// What a change did to the routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    /// LIDs to which packets go in circles now and did not before, each with the switches of the circle.
    pub loops: Vec<(Lid, Vec<NodeIdx>)>,
    /// Ports of a circle of channels that a new dependency closed, and the ghosts in it.
    pub cycle: Option<(Vec<PortIdx>, Vec<Haunt>)>,
    /// LIDs that some switches reached before and do not now.
    pub lost: Vec<(Lid, Switches)>,
    /// LIDs that some switches reach now and did not before.
    pub gained: Vec<(Lid, Switches)>,
    /// Entries that are others than before, and packets arrived by them.
    pub changed: Vec<Changed>,
}

/// Packets that may wait for a channel although no entry leads on to it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Haunt {
    /// Where the channel begins in which they wait.
    pub at: PortIdx,
    /// When the last entry changed that led them on.
    pub since: Time,
    /// The LID they are for.
    pub lid: Lid,
}

/// An entry that is another one than before, and packets arrived by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub lid: Lid,
    /// The switch, by position.
    pub at: u8,
    /// The port by which packets left.
    pub was: u8,
    /// Switches from which they arrived.
    pub from: Switches,
}

#[derive(Clone, Copy, Debug, Default)]
struct Version {
    links: u32,
    settings: u32,
    linear: u32,
}

/// The standing picture.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    switches: Vec<NodeIdx>,
    /// Position of a node among the switches.
    position: Vec<Option<u8>>,
    stride: usize,
    versions: Vec<Version>,
    /// Entries as they forward, by switch, then LID.
    rows: Vec<Vec<u8>>,
    /// By switch, then port.
    far: Vec<Far>,
    /// The same when it last was a switch.
    led: Vec<Far>,
    /// Switches at which a host with an ACTIVE link sits.
    with_hosts: Switches,
    /// LIDs of end ports as last seen, by port.
    held: Vec<(u16, u16)>,
    /// By port: the switches from which it can be reached, over links that are up.
    reach: Vec<Switches>,
    /// Switches from which a port that holds the LID can be reached.
    of_somebody: Vec<Switches>,
    /// Whether port 0 of a switch holds the LID.
    of_switch: Vec<bool>,
    /// Switches from which packets arrive, by LID.
    delivered: Vec<Switches>,
    circles: Vec<bool>,
    /// Where packets go, by LID, then switch.
    ways: Vec<(u8, Far)>,
    /// The same before the last change of the LID.
    before: Vec<(u8, Far)>,
    channels: Channels,
    /// Blocks that their switches acknowledged and do not hold: position and block.
    pub liars: BTreeSet<(u8, usize)>,
    /// When ghosts began that entries of such blocks had made.
    pub ghosts_of_liars: Vec<Time>,
    /// The same of blocks of which nobody knows what they hold, and why.
    pub strays: BTreeMap<(u8, usize), Rule>,
    /// When ghosts began that entries of those had made, and why.
    pub ghosts_of_strays: Vec<(Time, Rule)>,
    /// Since when what no entry makes any more is a ghost.
    ghosts_since: Option<Time>,
    /// How long packets may wait in each switch, at least.
    lifetimes: Vec<Duration>,
    scratch: Vec<u8>,
    stale: BTreeSet<u16>,
}

impl Routes {
    pub fn new(chassis: &Chassis) -> Self {
        let fabric = chassis.fabric();
        let switches: Vec<NodeIdx> = fabric.switches().iter().copied().take(SWITCHES_MAX).collect();
        let mut position = vec![None; fabric.nodes().len()];
        for (at, node) in (0_u8..).zip(&switches) {
            position[node.0 as usize] = Some(at);
        }
        let ports = switches.iter().map(|&s| usize::from(fabric.node(s).port_count()) + 1);
        let stride = ports.max().unwrap_or(1);
        Self {
            position,
            stride,
            versions: vec![Version::default(); fabric.nodes().len()],
            rows: vec![Vec::new(); switches.len()],
            far: vec![Far::Dead; switches.len() * stride],
            led: vec![Far::Dead; switches.len() * stride],
            with_hosts: 0,
            held: vec![(0, 0); chassis.port_count()],
            reach: Vec::new(),
            of_somebody: Vec::new(),
            of_switch: Vec::new(),
            delivered: Vec::new(),
            circles: Vec::new(),
            ways: Vec::new(),
            before: Vec::new(),
            channels: Channels::new(switches.len(), stride),
            liars: BTreeSet::new(),
            ghosts_of_liars: Vec::new(),
            strays: BTreeMap::new(),
            ghosts_of_strays: Vec::new(),
            ghosts_since: None,
            lifetimes: Vec::new(),
            scratch: Vec::new(),
            stale: BTreeSet::new(),
            switches,
        }
    }

    /// Takes in what changed since the last call.
    pub fn mend(&mut self, now: Time, chassis: &Chassis) -> Delta {
        self.stale.clear();
        let (mut links, mut lids) = (false, false);
        let mut delta = Delta::default();
        for node in chassis.fabric().nodes().indices() {
            let now = Version {
                links: chassis.version(node, TableKind::Links),
                settings: chassis.version(node, TableKind::Settings),
                linear: chassis.version(node, TableKind::Linear),
            };
            let before = std::mem::replace(&mut self.versions[node.0 as usize], now);
            if before.settings != now.settings {
                self.read_lids(chassis, node);
                lids = true;
            }
            links |= before.links != now.links;
            if let Some(at) = self.position(node).filter(|_| before.linear != now.linear) {
                self.read_row(chassis, at.into());
            }
        }
        if links {
            self.read_links(chassis);
        }
        if links || self.reach.is_empty() {
            self.read_reach(chassis);
        }
        if links || lids {
            self.read_holders(chassis);
        }
        // Where a link goes down, what waited for it is thrown away.
        self.ghosts_since = (!links).then_some(now);
        let lifetimes = self.switches.iter().map(|&node| lifetime(chassis, node));
        self.lifetimes.clear();
        self.lifetimes.extend(lifetimes);
        self.follow_stale(now, chassis, &mut delta);
        delta
    }

    /// Switches at which a host with an ACTIVE link sits.
    pub const fn with_hosts(&self) -> Switches {
        self.with_hosts
    }

    /// The switches and ports that packets to `lid` pass from a switch on; `None` if they do not arrive.
    pub fn way(&self, lid: Lid, from: u8) -> Option<Vec<(u8, u8)>> {
        let mut way = Vec::new();
        let mut at = usize::from(from);
        while way.len() <= self.switches.len() {
            let port = self.rows[at].get(lid.index()).copied().unwrap_or(NO_PATH);
            way.push((u8::try_from(at).unwrap_or(u8::MAX), port));
            match self.next(at, lid.0) {
                Far::Switch(next, _) => at = next.into(),
                Far::Dead | Far::Host(_) => return (self.delivered(lid) & 1 << from != 0).then_some(way),
            }
        }
        None
    }

    /// The ways from some switches to a LID as they were before the last change of them.
    pub fn ways_before(&self, lid: Lid, from: Switches) -> Vec<Vec<(u8, u8)>> {
        let before = |at: usize| self.before.get(lid.index() * self.switches.len() + at).copied();
        let one = |from: usize| {
            let (mut way, mut at) = (Vec::new(), from);
            while way.len() <= self.switches.len() {
                let (port, far) = before(at)?;
                way.push((u8::try_from(at).unwrap_or(u8::MAX), port));
                let Far::Switch(next, _) = far else { return Some(way) };
                at = next.into();
            }
            None
        };
        (0..self.switches.len())
            .filter(|at| from & 1 << at != 0)
            .filter_map(one)
            .collect()
    }

    /// Switches from which packets to `lid` arrive.
    pub fn delivered(&self, lid: Lid) -> Switches {
        self.delivered.get(lid.index()).copied().unwrap_or(0)
    }

    /// LIDs to which packets go in circles.
    pub fn circles(&self) -> impl Iterator<Item = Lid> + '_ {
        let circles = (0_u16..).zip(&self.circles).filter(|(_, circle)| **circle);
        circles.map(|(lid, _)| Lid(lid))
    }

    /// Ports of a circle of channels that begins at one of these switches, if there is one.
    pub fn any_cycle(&mut self, chassis: &Chassis, switches: Switches) -> Option<Vec<PortIdx>> {
        let (far, stride) = (&self.far, self.stride);
        let is_here = |channel: u32| switches & 1 << (channel as usize / stride) != 0;
        let end_here = |channel| end(far, channel).filter(|_| is_here(channel));
        let cycle = self.channels.any_cycle(end_here)?;
        Some(self.ports_of(chassis, &cycle))
    }

    fn ports_of(&self, chassis: &Chassis, circle: &Circle) -> Vec<PortIdx> {
        let ports = circle.channels.iter().filter_map(|&c| self.port_of(chassis, c));
        ports.collect()
    }

    fn port_of(&self, chassis: &Chassis, channel: u32) -> Option<PortIdx> {
        let (switch, port) = (channel as usize / self.stride, channel as usize % self.stride);
        chassis.port_at(*self.switches.get(switch)?, u8::try_from(port).ok()?)
    }

    /// The port by which a switch sends packets to a LID.
    pub fn entry(&self, at: u8, lid: Lid) -> u8 {
        let row = self.rows.get(usize::from(at));
        row.and_then(|row| row.get(lid.index())).copied().unwrap_or(NO_PATH)
    }

    /// The switch at a position.
    pub fn switch(&self, position: usize) -> Option<NodeIdx> {
        self.switches.get(position).copied()
    }

    /// The position of a switch.
    pub fn position(&self, node: NodeIdx) -> Option<u8> {
        self.position.get(node.0 as usize).copied().flatten()
    }

    fn look(&self, chassis: &Chassis, at: usize) -> Far {
        let (switch, port) = (at / self.stride, at % self.stride);
        let port = u8::try_from(port).ok().filter(|port| *port > 0);
        let Some(port) = port.and_then(|port| chassis.port_at(self.switches[switch], port)) else {
            return Far::Dead;
        };
        let Some(peer) = chassis
            .wire(port)
            .peer()
            .filter(|&peer| is_active(chassis, port) && is_active(chassis, peer))
        else {
            return Far::Dead;
        };
        let wire = chassis.wire(peer);
        match self.position(wire.node()) {
            Some(switch) => Far::Switch(switch, wire.num().get()),
            None => Far::Host(peer),
        }
    }

    /// Reads which links are ACTIVE; what leads over one that changed is looked at again.
    fn read_links(&mut self, chassis: &Chassis) {
        let before = self.far.clone();
        for at in 0..self.far.len() {
            let now = self.look(chassis, at);
            if std::mem::replace(&mut self.far[at], now) == now {
                continue;
            }
            self.discard(&before, at);
            if matches!(now, Far::Switch(..)) && std::mem::replace(&mut self.led[at], now) != now {
                self.channels.forget_all(at);
            }
            let port = u8::try_from(at % self.stride).unwrap_or(0);
            let row = self.rows[at / self.stride].iter();
            self.stale
                .extend((0..).zip(row).filter(|(_, entry)| **entry == port).map(|(lid, _)| lid));
        }
        let before = self.with_hosts;
        self.with_hosts = 0;
        for (at, far) in self.far.iter().enumerate() {
            if matches!(far, Far::Host(_)) {
                self.with_hosts |= 1 << (at / self.stride);
            }
        }
        if before != self.with_hosts {
            let of_switch = (0..).zip(&self.of_switch).filter(|(_, of_switch)| **of_switch);
            self.stale.extend(of_switch.map(|(lid, _)| lid));
        }
    }

    /// What waits in a switch for a link that goes down is thrown away.
    fn discard(&mut self, before: &[Far], out: usize) {
        let (switch, port) = (out / self.stride, out % self.stride);
        if !matches!(before[out], Far::Switch(..)) {
            return;
        }
        for (channel, far) in before.iter().enumerate() {
            if matches!(far, Far::Switch(entered, _) if usize::from(*entered) == switch) {
                self.channels.forget(channel, port);
            }
        }
    }

    fn read_row(&mut self, chassis: &Chassis, at: usize) {
        let Some(switch) = chassis.switch(self.switches[at]) else {
            return;
        };
        let held = switch.linear_blocks().concat();
        let top = usize::from(switch.settings().linear_top);
        let row = &mut self.rows[at];
        for lid in 0..held.len().max(row.len()) {
            let entry = held.get(lid).copied().filter(|_| lid <= top).unwrap_or(NO_PATH);
            if lid >= row.len() {
                row.push(NO_PATH);
            }
            if row[lid] != entry {
                row[lid] = entry;
                self.stale.insert(u16::try_from(lid).unwrap_or(u16::MAX));
            }
        }
    }

    fn read_lids(&mut self, chassis: &Chassis, node: NodeIdx) {
        for num in 0..=chassis.fabric().node(node).port_count() {
            let Some(port) = chassis
                .port_at(node, num)
                .filter(|&port| chassis.end_port(port) == port)
            else {
                continue;
            };
            let range = chassis.port(port).settings().lids;
            let now = match range.base.is_unicast() {
                true => (range.base.0, range.last().0),
                false => (0, 0),
            };
            let before = std::mem::replace(&mut self.held[port.0 as usize], now);
            if before == now {
                continue;
            }
            self.stale.extend(before.0..=before.1);
            self.stale.extend(now.0..=now.1);
        }
    }

    /// Which switches each port is connected with: what lies apart from them sends them nothing, and gets nothing.
    fn read_reach(&mut self, chassis: &Chassis) {
        let subnets = Subnets::of(chassis);
        let own = |&node: &NodeIdx| chassis.port_at(node, 0).map(|own| subnets.group(own));
        let groups: Vec<Option<PortIdx>> = self.switches.iter().map(own).collect();
        let reach = |port: PortIdx| {
            let group = Some(subnets.group(port));
            let switches = groups.iter().enumerate().filter(|(_, of)| **of == group);
            switches.fold(0, |bits, (at, _)| bits | 1 << at)
        };
        self.reach.clear();
        self.reach.extend((0..).map(PortIdx).take(self.held.len()).map(reach));
    }

    /// Which LIDs belong to somebody who can be reached, and from where: no packet is meant for the others.
    fn read_holders(&mut self, chassis: &Chassis) {
        let mut now = vec![0; self.of_somebody.len()];
        for (port, &(from, to)) in (0..).map(PortIdx).zip(&self.held).filter(|(_, held)| held.0 > 0) {
            let node = chassis.wire(port).node();
            let is_there = chassis.is_powered(node) && (chassis.is_switch(node) || crate::subnet::is_up(chassis, port));
            if is_there {
                let to = usize::from(to);
                if now.len() <= to {
                    now.resize(to + 1, 0);
                }
                let reach = self.reach.get(port.0 as usize).copied().unwrap_or(0);
                now[usize::from(from)..=to].iter_mut().for_each(|held| *held |= reach);
            }
        }
        self.of_somebody.resize(now.len(), 0);
        let changed = (0_u16..)
            .zip(self.of_somebody.iter().zip(&now))
            .filter(|(_, (before, now))| before != now);
        self.stale.extend(changed.map(|(lid, _)| lid));
        self.of_somebody = now;
    }

    /// True if somebody who can be reached holds a LID.
    pub fn is_of_somebody(&self, lid: Lid) -> bool {
        self.reaches(lid) != 0
    }

    /// Switches from which somebody who holds a LID can be reached.
    pub(super) fn reaches(&self, lid: Lid) -> Switches {
        self.of_somebody.get(lid.index()).copied().unwrap_or(0)
    }

    fn follow_stale(&mut self, now: Time, chassis: &Chassis, delta: &mut Delta) {
        let stale = std::mem::take(&mut self.stale);
        for &lid in stale.iter().filter(|lid| **lid > 0) {
            self.follow(chassis, lid, delta);
        }
        self.stale = stale;
        let far = &self.far;
        let cycle = self.channels.close(now, |channel| end(far, channel));
        let count = self.switches.len();
        let haunt = |ghost: &Ghost| {
            Some(Haunt {
                at: self.port_of(chassis, ghost.channel)?,
                since: ghost.since,
                lid: Lid(u16::try_from(ghost.place / count).ok()?),
            })
        };
        delta.cycle = cycle.map(|circle| {
            let haunts = circle.ghosts.iter().filter_map(haunt);
            (self.ports_of(chassis, &circle), haunts.collect())
        });
    }
}

/// The switch that a channel leads to.
fn end(far: &[Far], channel: u32) -> Option<u8> {
    match far.get(channel as usize) {
        Some(&Far::Switch(switch, _)) => Some(switch),
        Some(Far::Dead | Far::Host(_)) | None => None,
    }
}

/// True if a port's link is trained and ACTIVE, and its node has power.
pub(super) fn is_active(chassis: &Chassis, port: PortIdx) -> bool {
    let wire = chassis.wire(port);
    wire.state() == PortState::Active && wire.phys() == PhysState::LinkUp && chassis.is_powered(wire.node())
}
