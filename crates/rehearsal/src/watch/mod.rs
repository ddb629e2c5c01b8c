//! Who looks at the hardware from outside after every Set that an agent took, every fault and every timer.
//!
//! It believes no manager: what it knows comes from the simulated hardware, from the datagrams that left a manager, and
//! from what judges passed. What it finds and a [`Rule`] excuses is counted; the rest is a [`Violation`].

mod channels;
mod excuse;
mod heard;
mod judged;
mod late;
mod lids;
mod lids_stay;
mod moved;
mod outside;
mod routes;
mod rule;
mod stray;
mod touched;
mod unseen;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{Change, ClientId, Emulator};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_sm::Role;
use selvedge_types::{Guid, Lid, LidRange, TransactionId};
use selvedge_wire::{AttributeId, Datagram, Mad, Method};

use crate::Violation;
use crate::digest::Digest;
use crate::manager::{Life, Manager, ManagerId};
use crate::subnet::{Subnets, ports_of};

use heard::Heard;
pub(crate) use judged::{Clerk, Passed};
use late::Lie;
use lids::LidBook;
use moved::{Astray, MovedCables};
use outside::Counting;
pub use outside::{Findings, Found};
use routes::{Delta, Haunt, Routes};
pub use rule::{Checker, Exemptions, Rule};

/// A Set as it left its manager.
#[derive(Clone, Copy, Debug)]
struct Sent {
    manager: ManagerId,
    /// Of its data.
    content: u64,
    /// How many were sent before it.
    serial: u64,
    /// When it was sent.
    at: Time,
    /// When its manager had last begun to look: it is right for what was there then, however late it arrives.
    looked_at: Option<Time>,
    /// Whom it is meant for, if it is a table.
    to: Option<NodeIdx>,
    /// Whether its way is another one than its manager knows, if it is a table, or for a port.
    astray: Option<Astray>,
}

/// Requests of one manager that nobody has answered yet, with the time after which they count as lost.
#[derive(Clone, Debug, Default)]
struct OnTheWire {
    open: BTreeMap<TransactionId, Time>,
}

/// A route that a Set took away.
#[derive(Clone, Debug)]
struct Interrupted {
    /// Switches and ports of it.
    way: Vec<(u8, u8)>,
    by: NodeIdx,
}

/// The one who looks.
#[derive(Debug)]
pub(crate) struct Watcher {
    routes: Routes,
    lids: LidBook,
    /// Traps that reached a master and are not repressed yet, with when.
    traps: BTreeMap<(ClientId, TransactionId), (ManagerId, Time)>,
    changes: Vec<Change>,
    sent: BTreeMap<(ClientId, TransactionId), Sent>,
    /// How many were sent in all.
    serial: u64,
    /// The newest Set of each manager that each node has taken, by attribute and modifier: routes may change.
    taken: BTreeMap<(ClientId, NodeIdx, AttributeId, u32), u64>,
    wires: BTreeMap<ClientId, OnTheWire>,
    /// What was heard in each life, of the managers that run.
    heard: BTreeMap<ClientId, Heard>,
    lost: Vec<(ClientId, Mad)>,
    /// Switches whose agents lie just now.
    liars: BTreeSet<NodeIdx>,
    lies: BTreeMap<(NodeIdx, u32), Lie>,
    /// When a Set put right what a switch had lied about: until then it forwarded by entries that nobody knew of.
    lies_ended: Vec<Time>,
    /// Blocks of switches of which nobody knows what they hold, and why: a flipped bit took one of them to another, or
    /// changed it, or a cable did of which nobody could know that it had been moved, or an earlier life had sent one.
    strays: BTreeMap<(NodeIdx, u32), Rule>,
    moved: MovedCables,
    /// When a table last went astray over a cable of which nobody could know that it had been moved, and until when
    /// nobody could.
    unheard_at: Option<(Time, Time)>,
    /// Routes taken away by Sets since everything was at rest, by LID and first switch.
    interrupted: BTreeMap<(Lid, u8), Interrupted>,
    /// What each manager ever stored of a port, and when it had begun to look when it did, until the port holds it.
    stored: BTreeMap<(ManagerId, Guid, LidRange), Option<Time>>,
    /// When it stored something else instead.
    replaced: BTreeMap<(ManagerId, Guid, LidRange), Time>,
    /// LIDs that a manager first stored of a port while bits were flipped: one may be of a flipped bit.
    misread: BTreeSet<(ManagerId, Guid, LidRange)>,
    /// LIDs that a manager first stored of a port which had lost them before it looked: it hit on them by chance.
    guessed: BTreeSet<(ManagerId, Guid, LidRange)>,
    /// What each manager has stored of each port, and whether the port has held it since.
    believed: BTreeMap<(ManagerId, Guid), (LidRange, bool)>,
    /// LIDs of which a manager thought better before the port had held them.
    dropped: BTreeSet<(ManagerId, Guid, LidRange)>,
    /// LIDs that another manager gave a port while this one took it to have others, and has not seen since.
    unheard: BTreeSet<(ManagerId, Guid, LidRange)>,
    /// Base LIDs that a Set was to give a port and gave another one, as a cable had been moved.
    mistaken: BTreeSet<(ManagerId, Guid, Lid)>,
    /// When a Set of each manager was last taken.
    last_set: BTreeMap<ManagerId, Time>,
    /// Whose Set was last taken, and when that was first another one's than before.
    master: Option<ManagerId>,
    master_changed: Option<Time>,
    /// When a Set was last taken that an earlier life of a manager had sent.
    bequeathed: Option<Time>,
    /// What is trained and has power.
    shape: u64,
    /// When that last changed.
    disturbed: Option<Time>,
    /// When a block was last acknowledged and not taken.
    lied: Option<Time>,
    /// Whether two nodes show one GUID, and when that was last so.
    clones: bool,
    cloned: Option<Time>,
    /// While bits are flipped, and since when not any more.
    corrupting: bool,
    corrupted: Option<Time>,
    exemptions: Exemptions,
    /// Why the Set that was taken just now may do harm, if it may.
    excused: Option<Rule>,
    /// Where managers are programs: what was found.
    counting: Option<Box<Counting>>,
    /// When it was last looked.
    now: Time,
    /// Sets that were looked at.
    pub sets: u64,
    /// Looks.
    pub looks: u64,
}

impl Watcher {
    pub fn new(emulator: &mut Emulator) -> Self {
        emulator.watch_changes();
        let chassis = emulator.chassis();
        Self {
            routes: Routes::new(chassis),
            lids: LidBook::new(chassis),
            traps: BTreeMap::new(),
            changes: Vec::new(),
            sent: BTreeMap::new(),
            serial: 0,
            taken: BTreeMap::new(),
            wires: BTreeMap::new(),
            heard: BTreeMap::new(),
            lost: Vec::new(),
            liars: BTreeSet::new(),
            lies: BTreeMap::new(),
            lies_ended: Vec::new(),
            strays: BTreeMap::new(),
            moved: MovedCables::new(chassis),
            unheard_at: None,
            interrupted: BTreeMap::new(),
            stored: BTreeMap::new(),
            replaced: BTreeMap::new(),
            misread: BTreeSet::new(),
            guessed: BTreeSet::new(),
            believed: BTreeMap::new(),
            dropped: BTreeSet::new(),
            unheard: BTreeSet::new(),
            mistaken: BTreeSet::new(),
            last_set: BTreeMap::new(),
            master: None,
            master_changed: None,
            bequeathed: None,
            shape: shape(chassis),
            disturbed: None,
            lied: None,
            clones: false,
            cloned: None,
            corrupting: false,
            corrupted: None,
            exemptions: Exemptions::new(),
            excused: None,
            counting: None,
            now: Time::ZERO,
            sets: 0,
            looks: 0,
        }
    }

    pub const fn exemptions(&self) -> &Exemptions {
        &self.exemptions
    }

    /// Bits are flipped from now on, or are not any more.
    pub const fn set_corrupting(&mut self, now: Time, corrupting: bool) {
        self.corrupting = corrupting;
        self.corrupted = Some(now);
    }

    /// An operator or a start changes what is wanted.
    pub fn wanted_changed(&mut self) {
        self.interrupted.clear();
    }

    /// A manager receives a datagram.
    pub fn receives(
        &mut self,
        now: Time,
        (id, life): (ManagerId, &Life),
        (chassis, at): (&Chassis, Option<PortIdx>),
        datagram: &Datagram,
    ) {
        let client = life.client;
        if datagram.mad.method() == Method::Trap && life.sm.role() == Role::Master {
            self.traps.insert((client, datagram.mad.transaction()), (id, now));
            self.note_told(now, chassis, &datagram.mad);
        }
        if datagram.mad.method() == Method::GetResp {
            if let Some(wire) = self.wires.get_mut(&client) {
                wire.open.remove(&datagram.mad.transaction());
            }
            if let Some(at) = at {
                let heard = self.heard.entry(client).or_insert_with(|| Heard::new(chassis));
                heard.answer(chassis, at, &datagram.mad);
            }
        }
    }

    /// Takes what is as given: somebody else than a manager set something.
    pub fn excuse(&mut self, emulator: &mut Emulator) {
        self.changes.clear();
        emulator.take_changes(&mut self.changes);
        let now = emulator.now();
        let _ = self.routes.mend(now, emulator.chassis());
        self.lids.read(emulator.chassis());
    }

    /// Looks after every step.
    pub fn after_event(
        &mut self,
        now: Time,
        emulator: &mut Emulator,
        managers: &[Manager],
        subnets: &Subnets,
    ) -> Result<(), Violation> {
        self.now = now;
        self.excused = None;
        self.note_lost(emulator);
        self.read_back_in_time(now, emulator, managers, subnets)?;
        self.traps_in_time(now, managers)?;
        self.changes.clear();
        emulator.take_changes(&mut self.changes);
        if self.changes.is_empty() {
            return Ok(());
        }
        self.looks += 1;
        self.liars.clone_from(emulator.liars());
        let chassis = emulator.chassis();
        let changes = std::mem::take(&mut self.changes);
        if changes.contains(&Change::Happened) {
            self.happened(now, chassis);
        }
        let placed =
            |&(node, block): &(NodeIdx, u32)| Some((self.routes.position(node)?, usize::try_from(block).ok()?));
        let liars = self.lies.keys().filter_map(placed).collect();
        let strays = self
            .strays
            .iter()
            .filter_map(|(block, rule)| Some((placed(block)?, *rule)));
        (self.routes.liars, self.routes.strays) = (liars, strays.collect());
        let delta = self.routes.mend(now, chassis);
        if self.counting.is_some() {
            self.clock_circles(now);
        }
        let mut result = Ok(());
        for change in &changes {
            result = result.and_then(|()| self.look_at(now, chassis, managers, change, &delta));
        }
        self.changes = changes;
        let unknown = self.lies.keys().chain(self.strays.keys());
        unknown.for_each(|&(node, _)| emulator.watch_table(node));
        result
    }

    fn happened(&mut self, now: Time, chassis: &Chassis) {
        let shape = shape(chassis);
        if std::mem::replace(&mut self.shape, shape) != shape {
            self.disturbed = Some(now);
            self.moved.look(now, chassis);
            // What a fault does to a route hides what Sets do.
            self.interrupted.clear();
        }
        if self.lids.note_clones(chassis) || self.clones {
            self.cloned = Some(now);
        }
        self.clones = self.lids.note_clones(chassis);
        if self.corrupting {
            self.corrupted = Some(now);
        }
    }

    fn look_at(
        &mut self,
        now: Time,
        chassis: &Chassis,
        managers: &[Manager],
        change: &Change,
        delta: &Delta,
    ) -> Result<(), Violation> {
        let Change::Set {
            node,
            by,
            attribute,
            modifier,
            transaction,
        } = *change
        else {
            if let Change::Read { node, modifier, .. } = *change {
                self.lies.remove(&(node, modifier));
                self.strays.remove(&(node, modifier));
            }
            return Ok(());
        };
        self.sets += 1;
        let sent = by.and_then(|client| self.sent.get(&(client, transaction))).copied();
        if let Some(sent) = sent {
            self.last_set.insert(sent.manager, now);
            if self
                .master
                .replace(sent.manager)
                .is_some_and(|before| before != sent.manager)
            {
                self.master_changed = Some(now);
            }
        }
        let late = match (by, sent) {
            (Some(client), Some(sent)) => {
                let newest = self.taken.entry((client, node, attribute, modifier)).or_default();
                *newest = sent.serial.max(*newest);
                *newest > sent.serial
            }
            _ => false,
        };
        self.note_stray((node, attribute, modifier), sent, late);
        self.note_astray(chassis, (node, attribute, modifier), sent);
        let ends_lie = self.note_lie(now, chassis, (node, attribute, modifier), sent, late);
        let life = sent.and_then(|sent| managers.get(sent.manager.0)?.life.as_ref());
        // What an earlier life sent before it was killed nobody can call back.
        let is_outside = self.counting.is_some();
        let is_of_now = |life: &&Life| Some(life.client) == by || is_outside;
        if life.is_some_and(|life| !is_of_now(&life)) {
            self.bequeathed = Some(now);
            self.note_bequeathed((node, attribute, modifier));
        }
        let life = life.filter(is_of_now);
        let excuse = match late {
            true => Some(Rule::LateSet),
            false if self.counting.is_some() => self.excuse_outside(now, sent.map(|s| s.manager)),
            false => {
                let lie = ends_lie.then_some(Rule::LyingAgent);
                self.excuse_of(now, sent.map(|s| (s.manager, s.looked_at)), life)
                    .or(lie)
            }
        };
        self.excused = excuse;
        let manager = sent.and_then(|sent| managers.get(sent.manager.0));
        let renumbered = self.lids_stay(chassis, (node, attribute), (sent, manager), excuse)?;
        let looked_at = sent.map(|sent| sent.looked_at).filter(|_| self.counting.is_none());
        let excuse = excuse.or_else(|| self.unheard_excuse(looked_at?, now));
        self.routes_stay(chassis, (node, renumbered), manager, delta, excuse)
    }

    fn routes_stay(
        &mut self,
        chassis: &Chassis,
        (node, renumbered): (NodeIdx, bool),
        by: Option<&Manager>,
        delta: &Delta,
        excuse: Option<Rule>,
    ) -> Result<(), Violation> {
        for (lid, circle) in &delta.loops {
            let nobody = (!self.routes.is_of_somebody(*lid)).then_some(Rule::LidOfNobody);
            let excuse = excuse.or(nobody);
            let excuse = excuse.or_else(|| self.circle_excuse(chassis, circle, by));
            let (lid, switch) = (
                *lid,
                circle.first().map_or_else(String::new, |&node| name(chassis, node)),
            );
            self.judge(Checker::Loops, excuse, || Violation::Loop { lid, switch })?;
        }
        if let Some((cycle, ghost)) = &delta.cycle {
            let excuse = excuse.or_else(|| self.channels_excuse(chassis, cycle, by));
            let channels = haunted_ways(chassis, cycle, ghost);
            match ghost.as_slice() {
                [] => self.judge(Checker::Cycles, excuse, || Violation::Cycle { channels })?,
                ghosts => {
                    let since: Vec<Time> = ghosts.iter().map(|ghost| ghost.since).collect();
                    let excuse = excuse.or_else(|| self.ghost_excuse(&since, by));
                    // A LID that is another port's now makes other dependencies than before.
                    let excuse = excuse.or(renumbered.then_some(Rule::OtherLids));
                    self.judge(Checker::Ghosts, excuse, || Violation::Undrained { channels })?;
                }
            }
        }
        self.untouched_stay(chassis, by, delta, excuse)?;
        for &(lid, switches) in &delta.lost {
            if !self.matters(chassis, lid, switches) {
                continue;
            }
            if let Some(rule) = excuse {
                *self.exemptions.entry((Checker::Routes, rule)).or_default() += 1;
                continue;
            }
            if by.is_some_and(|manager| manager.life.is_some()) {
                // What was as planned is found by `untouched_stay`.
                *self
                    .exemptions
                    .entry((Checker::Routes, Rule::AnotherRoute))
                    .or_default() += 1;
                continue;
            }
            for way in self.routes.ways_before(lid, switches) {
                self.interrupted
                    .entry((lid, way[0].0))
                    .or_insert(Interrupted { way, by: node });
            }
        }
        self.back_as_it_was(chassis, delta)
    }

    /// Why packets of a circle, sent on by entries that changed at these times, are not held against a manager: it
    /// cannot know what its predecessor did a moment before, what a switch held that lied, what a flipped bit had
    /// brought to another switch, or what it wrote to a switch while that showed another's GUID.
    fn ghost_excuse(&self, since: &[Time], by: Option<&Manager>) -> Option<Rule> {
        let oldest = *since.iter().min()?;
        let started = by.and_then(|manager| manager.life.as_ref()).map(|life| life.started);
        let is_older = self.counting.is_none() && started.is_none_or(|started| oldest <= started);
        // Who was master before may have died at any time since.
        let by_other = self.master_changed.is_some_and(|changed| oldest <= changed);
        let by_earlier_life = self.bequeathed.is_some_and(|at| oldest <= at);
        if is_older || by_other || by_earlier_life {
            return Some(Rule::Predecessor);
        }
        if self.cloned.is_some_and(|cloned| oldest <= cloned) {
            return Some(Rule::ClonedGuid);
        }
        let is_of_liar = |at: &Time| self.lies_ended.contains(at) || self.routes.ghosts_of_liars.contains(at);
        let of_liar = since.iter().any(is_of_liar);
        let of_strays = self.routes.ghosts_of_strays.iter();
        let mut of_strays = of_strays.filter(|(at, _)| since.contains(at)).map(|(_, rule)| *rule);
        of_liar.then_some(Rule::LyingAgent).or_else(|| of_strays.next())
    }

    /// A Set may take away a route that is to be another one. Where no plan is known, it may not take away one that
    /// then comes back as it was.
    fn back_as_it_was(&mut self, chassis: &Chassis, delta: &Delta) -> Result<(), Violation> {
        if self.interrupted.is_empty() {
            return Ok(());
        }
        for &(lid, switches) in &delta.gained {
            for from in (0..64_u8).filter(|from| switches & 1 << from != 0) {
                let Some(interrupted) = self.interrupted.remove(&(lid, from)) else {
                    continue;
                };
                let is_same = self.routes.way(lid, from).is_some_and(|now| now == interrupted.way);
                let excuse = (!is_same).then_some(Rule::AnotherRoute);
                let from = self.routes.switch(from.into()).unwrap_or(interrupted.by);
                let (from, at) = (name(chassis, from), name(chassis, interrupted.by));
                self.judge(Checker::Routes, excuse, || Violation::RouteLost { lid, from, at })?;
            }
        }
        Ok(())
    }

    /// A route is missed only if somebody holds the LID; agents in switches do not talk to each other.
    fn matters(&self, chassis: &Chassis, lid: Lid, from: u64) -> bool {
        match self.lids.holder(chassis, lid) {
            Some(port) if chassis.is_switch(chassis.wire(port).node()) => from & self.routes.with_hosts() != 0,
            Some(port) => routes::is_active(chassis, port),
            None => false,
        }
    }

    fn judge(
        &mut self,
        checker: Checker,
        excuse: Option<Rule>,
        violation: impl FnOnce() -> Violation,
    ) -> Result<(), Violation> {
        match excuse {
            Some(rule) => {
                *self.exemptions.entry((checker, rule)).or_default() += 1;
                Ok(())
            }
            None => self.raise(checker, violation()),
        }
    }

    /// What must hold when everything is quiet: nothing in circles, and everybody reaches every port that holds a LID.
    pub fn at_rest(&mut self, now: Time, chassis: &Chassis, subnets: &Subnets, at: PortIdx) -> Result<(), Violation> {
        let _ = self.routes.mend(now, chassis);
        self.interrupted.clear();
        let group = subnets.group(at);
        let here = |node: NodeIdx| chassis.port_at(node, 0).is_some_and(|own| subnets.group(own) == group);
        let positions = (0..).map_while(|i| self.routes.switch(i)).zip(0_u32..);
        let switches = positions
            .filter(|(node, _)| here(*node))
            .fold(0_u64, |bits, (_, i)| bits | 1 << i);
        if let Some(cycle) = self.routes.any_cycle(chassis, switches) {
            return Err(Violation::Cycle {
                channels: ways(chassis, &cycle),
            });
        }
        for &port in subnets.live().iter().filter(|&&port| subnets.group(port) == group) {
            let wire = chassis.wire(port);
            let range = chassis.port(port).settings().lids;
            let is_switch = chassis.is_switch(wire.node());
            if !range.base.is_unicast() || (!is_switch && !routes::is_active(chassis, port)) {
                continue;
            }
            let want = if is_switch {
                switches & self.routes.with_hosts()
            } else {
                switches
            };
            for lid in range.iter() {
                let missing = want & !self.routes.delivered(lid);
                if missing != 0 && !self.lids.is_twice(chassis, lid) {
                    let from = self
                        .routes
                        .switch(missing.trailing_zeros() as usize)
                        .unwrap_or(wire.node());
                    return Err(Violation::NoRoute {
                        lid,
                        from: name(chassis, from),
                    });
                }
            }
        }
        Ok(())
    }
}

fn name(chassis: &Chassis, node: NodeIdx) -> String {
    format!("\"{}\"", chassis.fabric().node(node).description)
}

fn ways(chassis: &Chassis, ports: &[PortIdx]) -> String {
    let names = ports
        .iter()
        .map(|&port| chassis.fabric().port_name(chassis.port_ref(port)));
    names.collect::<Vec<_>>().join(" -> ")
}

/// The same, and behind a channel in which old entries have left packets, for which LID and when.
fn haunted_ways(chassis: &Chassis, ports: &[PortIdx], ghosts: &[Haunt]) -> String {
    let one = |&port: &PortIdx| {
        let name = chassis.fabric().port_name(chassis.port_ref(port));
        match ghosts.iter().find(|ghost| ghost.at == port) {
            Some(Haunt { lid, since, .. }) => format!("{name} (LID {lid} until {since})"),
            None => name,
        }
    };
    ports.iter().map(one).collect::<Vec<_>>().join(" -> ")
}

/// A number over what is trained, what has power and which cable goes where.
fn shape(chassis: &Chassis) -> u64 {
    let mut digest = Digest::default();
    for node in chassis.fabric().nodes().indices() {
        digest = digest
            .number(chassis.boots(node).into())
            .bytes(&[u8::from(chassis.is_powered(node))]);
        for port in ports_of(chassis, node).filter(|&port| crate::subnet::is_up(chassis, port)) {
            let peer = chassis.wire(port).peer().map_or(0, |peer| peer.0);
            digest = digest.number(u64::from(port.0) << 32 | u64::from(peer));
        }
    }
    digest.0
}
