//! Checkers outside the managers: they look at the hardware after every event.
//!
//! Each is cheap because it looks only where a version counter of the hardware changed.

mod looked;

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_chassis::{Chassis, Egress, PortIdx, SwitchData, TableKind};
use selvedge_emulator::Emulator;
use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::NO_PATH;
use selvedge_sim::Time;
use selvedge_sm::{Mode, Role};
use selvedge_types::{Guid, Idx, IdxVec, Lid, PortState};

use self::looked::{Cabling, HeldLids, LookedAt};
use crate::Violation;
use crate::lanes;
use crate::manager::{AcceptedPlan, Life, Manager};
use crate::subnet::{Subnets, ports_of};

/// What the hardware looked like when last checked.
#[derive(Debug)]
pub(crate) struct Invariants {
    versions: IdxVec<NodeIdx, [u32; 3]>,
    /// All changes that are taken in.
    taken_in: u64,
    subnets: Subnets,
    cabling: Cabling,
    held: HeldLids,
    looked_at: LookedAt,
    active: IdxVec<PortIdx, bool>,
    /// LIDs held twice when last looked at; those are the fabric's own fault.
    twice: BTreeSet<(PortIdx, Lid)>,
    /// Loops there are just now, at the switch whose Set closed them.
    loops: BTreeSet<(NodeIdx, Lid)>,
    loops_met: u64,
    two_masters_since: Option<Time>,
    /// When there were last several masters, in whatever subnets: the Sets of one may have met those of another.
    several_masters: Option<Time>,
}

/// The kinds whose versions are watched.
const WATCHED: [TableKind; 3] = [TableKind::Links, TableKind::Settings, TableKind::Linear];
/// Two masters may meet when a partition heals. A light sweep (10 s) finds the other if its trap was lost, and one
/// sweep, in which the worse one hands over, settles it.
pub(crate) const TWO_MASTERS_MAX: Duration = Duration::from_secs(15);

/// Jobs and requests to store that are not done yet: a sweep may begin some while those of the last are on their way.
const JOBS_MAX: usize = 16;

/// Which watched things changed.
#[derive(Debug, Default)]
struct Changes {
    links: Vec<NodeIdx>,
    settings: Vec<NodeIdx>,
    linear: Vec<NodeIdx>,
}

impl Invariants {
    pub fn new(emulator: &Emulator) -> Self {
        let chassis = emulator.chassis();
        Self {
            versions: chassis
                .fabric()
                .nodes()
                .indices()
                .map(|node| versions(chassis, node))
                .collect(),
            taken_in: chassis.changes(),
            subnets: Subnets::of(chassis),
            cabling: Cabling::of(chassis),
            held: HeldLids::of(chassis),
            looked_at: LookedAt::default(),
            active: IdxVec::filled(false, chassis.port_count()),
            twice: BTreeSet::new(),
            loops: BTreeSet::new(),
            loops_met: 0,
            two_masters_since: None,
            several_masters: None,
        }
    }

    pub const fn loops_met(&self) -> u64 {
        self.loops_met
    }

    /// Who reaches whom.
    pub const fn subnets(&self) -> &Subnets {
        &self.subnets
    }

    /// Takes what is as given.
    pub fn excuse(&mut self, emulator: &Emulator) {
        let chassis = emulator.chassis();
        let _ = self.changes(chassis);
        self.subnets = Subnets::of(chassis);
        self.cabling = Cabling::of(chassis);
        self.held = HeldLids::of(chassis);
        self.looked_at.forget();
        self.twice = sides(&held_twice(chassis, &self.subnets));
        self.newly_active(chassis, &chassis.fabric().nodes().indices().collect::<Vec<_>>());
    }

    /// Everything that must hold after every event.
    pub fn after_event(&mut self, now: Time, emulator: &Emulator, managers: &[Manager]) -> Result<(), Violation> {
        let chassis = emulator.chassis();
        let changes = self.changes(chassis);
        let mut cables_moved = false;
        if self.cabling.look(chassis, changes.links.iter().copied()) {
            let subnets = Subnets::of(chassis);
            cables_moved = subnets != self.subnets;
            self.subnets = subnets;
        }
        let lids_changed = self.held.look(chassis, changes.settings.iter().copied());
        match (cables_moved, lids_changed) {
            (true, _) => self.looked_at.forget(),
            (false, true) => self.looked_at.forget_lids(),
            (false, false) => {}
        }
        if cables_moved || lids_changed {
            self.invariant_lids_are_unique(chassis, managers, cables_moved)?;
        }
        let newly_active = self.newly_active(chassis, &changes.links);
        self.invariant_tables_before_active(emulator, managers, &newly_active)?;
        if cables_moved || lids_changed || !changes.linear.is_empty() {
            self.invariant_no_loops_at_bring_up(emulator, managers, &changes.linear)?;
        }
        self.invariant_one_master(now, emulator, managers)?;
        invariant_sets_are_judged(emulator, managers)?;
        invariant_memory_is_bounded(chassis, managers)
    }

    /// What must hold when everything is quiet and a master is there: no conflict and no loop stays.
    pub fn at_rest(&self, emulator: &Emulator, managers: &[Manager]) -> Result<(), Violation> {
        let chassis = emulator.chassis();
        for manager in managers {
            let Some(life) = manager.life.as_ref().filter(|l| is_content(l)) else {
                continue;
            };
            let Some(at) = emulator.port_of(life.client) else {
                continue;
            };
            let mut twice = held_twice(chassis, &self.subnets).into_iter();
            let here = |c: &Conflict| self.subnets.connected(c.first, at) && is_known(chassis, life, c);
            if let Some(conflict) = twice.find(here) {
                return Err(conflict.violation(chassis));
            }
            let accepted = life.accepted.as_ref();
            let is_here = |port: PortIdx| self.subnets.connected(port, at);
            let wrong = accepted.and_then(|accepted| lanes::first_unplanned(chassis, accepted, is_here));
            if let Some(what) = wrong {
                return Err(Violation::Lanes { what });
            }
            let lids = live_lids(chassis, &self.subnets, self.subnets.group(at));
            for &switch in chassis.fabric().switches().iter() {
                let here = chassis
                    .port_at(switch, 0)
                    .is_some_and(|own| self.subnets.connected(own, at));
                if let Some(&lid) = lids.iter().find(|&&lid| here && loops(chassis, switch, lid)) {
                    return Err(Violation::Loop {
                        lid,
                        switch: node_name(chassis, switch),
                    });
                }
            }
        }
        Ok(())
    }

    fn changes(&mut self, chassis: &Chassis) -> Changes {
        let mut changes = Changes::default();
        if std::mem::replace(&mut self.taken_in, chassis.changes()) == chassis.changes() {
            return changes;
        }
        for node in chassis.fabric().nodes().indices() {
            let now = versions(chassis, node);
            let before = std::mem::replace(&mut self.versions[node], now);
            if before == now {
                continue;
            }
            if before[0] != now[0] {
                changes.links.push(node);
            }
            if before[1] != now[1] {
                changes.settings.push(node);
            }
            if before[2] != now[2] {
                changes.linear.push(node);
            }
        }
        changes
    }

    fn newly_active(&mut self, chassis: &Chassis, nodes: &[NodeIdx]) -> Vec<PortIdx> {
        let mut newly = Vec::new();
        for port in nodes.iter().flat_map(|&node| ports_of(chassis, node)) {
            let wire = chassis.wire(port);
            let active = wire.state() == PortState::Active && chassis.is_powered(wire.node());
            if active && !self.active[port] {
                newly.push(port);
            }
            self.active[port] = active;
        }
        newly
    }

    /// A Set never makes a LID conflict between ports that its manager knew of. Moved cables may: then it is there
    /// until the manager has seen it. Two masters that do not know of each other yet may, too.
    fn invariant_lids_are_unique(
        &mut self,
        chassis: &Chassis,
        managers: &[Manager],
        cables_moved: bool,
    ) -> Result<(), Violation> {
        let twice = match self.held.are_unique() {
            true => Vec::new(),
            false => held_twice(chassis, &self.subnets),
        };
        let before = std::mem::replace(&mut self.twice, sides(&twice));
        let mut masters = lives(managers)
            .map(|(_, life)| life)
            .filter(|life| life.sm.role() == Role::Master);
        if let (Some(master), None, false) = (masters.next(), masters.next(), cables_moved) {
            let is_old = |c: &&Conflict| sides(&[**c]).is_subset(&before);
            let mut new = twice.iter().filter(|c| !is_old(c));
            if let Some(conflict) = new.find(|c| is_known(chassis, master, c) && was_seen(chassis, master, c)) {
                return Err(conflict.violation(chassis));
            }
        }
        Ok(())
    }

    /// While a subnet is brought up for the first time, its tables hold no loop, however few of them are written, be
    /// links ACTIVE yet or not. When routes change, loops between old and new tables come and go over links that are
    /// not: they are counted. Those over ACTIVE links are the watcher's.
    fn invariant_no_loops_at_bring_up(
        &mut self,
        emulator: &Emulator,
        managers: &[Manager],
        written: &[NodeIdx],
    ) -> Result<(), Violation> {
        let chassis = emulator.chassis();
        self.loops.retain(|&(switch, lid)| loops(chassis, switch, lid));
        for &switch in written {
            let Some(own) = chassis.port_at(switch, 0) else {
                continue;
            };
            let found = self.loops_at(chassis, switch, own);
            let Some(&lid) = found.first() else { continue };
            let plan = self
                .only_master(emulator, managers, own)
                .and_then(|life| life.accepted.as_ref());
            if plan.is_some_and(|plan| plan.is_first && self.holds_only(chassis, own, plan)) {
                return Err(Violation::Loop {
                    lid,
                    switch: node_name(chassis, switch),
                });
            }
            for lid in found {
                self.loops_met += u64::from(self.loops.insert((switch, lid)));
            }
        }
        Ok(())
    }

    /// LIDs of live ports that loop at a switch: of those whose entries have changed there since it was last looked at,
    /// and of those that looped then.
    fn loops_at(&mut self, chassis: &Chassis, switch: NodeIdx, own: PortIdx) -> Vec<Lid> {
        let known = self.loops.range((switch, Lid(0))..=(switch, Lid(u16::MAX)));
        let known: Vec<Lid> = known.map(|&(_, lid)| lid).collect();
        let mut lids = self.looked_at.unknown(chassis, switch);
        lids.extend(known);
        let group = self.subnets.group(own);
        lids.retain(|&lid| {
            let is_loop = loops(chassis, switch, lid);
            let is_live = is_loop && self.looked_at.is_live(chassis, &self.subnets, group, lid);
            if is_loop && !is_live {
                self.looked_at.sleeps(switch, lid);
            }
            is_live
        });
        lids.into_iter().collect()
    }

    /// True if all blocks in the switches of a subnet are empty or as in this plan.
    fn holds_only(&self, chassis: &Chassis, own: PortIdx, accepted: &AcceptedPlan) -> bool {
        let group = self.subnets.group(own);
        let switches = chassis.fabric().switches().iter().copied();
        let mut here = switches.filter(|&s| chassis.port_at(s, 0).is_some_and(|p| self.subnets.group(p) == group));
        here.all(|node| {
            let planned = accepted
                .fabric
                .find(chassis.node_guid(node))
                .and_then(|n| accepted.fabric.switch_index(n));
            let held = chassis.switch(node).map(SwitchData::linear_blocks).unwrap_or_default();
            let tables = &accepted.plan.tables;
            held.iter().enumerate().all(|(block, entries)| {
                let is_planned = |s| block < tables.blocks() && tables.block(s, block) == entries;
                entries.iter().all(|&e| e == NO_PATH) || planned.is_some_and(is_planned)
            })
        })
    }

    /// While nothing carries packets, a port goes ACTIVE only when its switch holds every block of the plan. Later the
    /// judge's proof of the way counts ports from the start, whenever they go ACTIVE.
    fn invariant_tables_before_active(
        &self,
        emulator: &Emulator,
        managers: &[Manager],
        newly_active: &[PortIdx],
    ) -> Result<(), Violation> {
        let chassis = emulator.chassis();
        for &port in newly_active {
            let wire = chassis.wire(port);
            let sides = [Some(wire.node()), wire.peer().map(|peer| chassis.wire(peer).node())];
            let master = self.only_master(emulator, managers, port);
            let accepted = master.and_then(|life| life.accepted.as_ref());
            let is_alone = |plan: &&AcceptedPlan| self.several_masters.is_none_or(|at| at < plan.at);
            let Some(accepted) = accepted.filter(|plan| plan.is_first).filter(is_alone) else {
                continue;
            };
            for node in sides
                .into_iter()
                .flatten()
                .filter(|&node| wire.num().get() != 0 && chassis.is_switch(node))
            {
                // It lost its tables after they were read back: the trap about its links is on its way.
                if accepted.boots.get(node.to_usize()) != Some(&chassis.boots(node)) {
                    continue;
                }
                let guid: Guid = chassis.node_guid(node);
                let planned = accepted.fabric.find(guid).and_then(|n| accepted.fabric.switch_index(n));
                let (Some(planned), Some(held)) = (planned, chassis.switch(node)) else {
                    continue;
                };
                let tables = &accepted.plan.tables;
                let differs = |&block: &usize| held.linear_block(block) != tables.block(planned, block);
                if let Some(block) = (0..tables.blocks()).find(differs) {
                    let (port, switch) = (port_name(chassis, port), node_name(chassis, node));
                    return Err(Violation::ActiveTooEarly { port, switch, block });
                }
            }
        }
        Ok(())
    }

    fn only_master<'a>(&self, emulator: &Emulator, managers: &'a [Manager], port: PortIdx) -> Option<&'a Life> {
        let mut masters = lives(managers).map(|(_, life)| life).filter(|life| {
            let at = emulator.port_of(life.client);
            life.sm.role() == Role::Master && at.is_some_and(|at| self.subnets.connected(at, port))
        });
        let first = masters.next();
        first.filter(|_| masters.next().is_none())
    }

    fn invariant_one_master(&mut self, now: Time, emulator: &Emulator, managers: &[Manager]) -> Result<(), Violation> {
        let chassis = emulator.chassis();
        let masters: Vec<(&Manager, PortIdx)> = lives(managers)
            .filter(|(_, life)| life.sm.role() == Role::Master)
            .filter_map(|(manager, life)| Some((manager, emulator.port_of(life.client)?)))
            .collect();
        // A switch whose agent hangs hides one from the other: as long as neither sees the other, both are right.
        let knows = |manager: &Manager, port: PortIdx| {
            let accepted = manager.life.as_ref().and_then(|life| life.accepted.as_ref());
            let guid = chassis.node_guid(chassis.wire(port).node());
            accepted.is_some_and(|plan| plan.fabric.find(guid).is_some())
        };
        if masters.len() > 1 {
            self.several_masters = Some(now);
        }
        let pair = masters.iter().enumerate().find_map(|(i, (first, at))| {
            let meets = |(second, other): &&(&Manager, PortIdx)| {
                self.subnets.connected(*at, *other) && (knows(first, *other) || knows(second, *at))
            };
            masters[i + 1..].iter().find(meets).map(|(second, _)| (first, second))
        });
        let Some((first, second)) = pair else {
            self.two_masters_since = None;
            return Ok(());
        };
        let since = *self.two_masters_since.get_or_insert(now);
        if now.since(since) > TWO_MASTERS_MAX {
            let (first, second) = (first.name.clone(), second.name.clone());
            return Err(Violation::TwoMasters {
                first,
                second,
                seconds: now.since(since).as_secs(),
            });
        }
        Ok(())
    }
}

/// The emulator counts no Set of a manager before the judge accepted a plan of it, and none at all of one that only
/// looks.
fn invariant_sets_are_judged(emulator: &Emulator, managers: &[Manager]) -> Result<(), Violation> {
    for (manager, life) in lives(managers) {
        let mode = manager.config.mode;
        let may_send = mode == Mode::Manage && life.accepted.is_some();
        let sets = emulator.sets_sent_by(life.client);
        if !may_send && sets > 0 {
            return Err(Violation::UnjudgedSet {
                manager: manager.name.clone(),
                mode,
                sets,
            });
        }
    }
    Ok(())
}

/// Discovery asks each node and port a few questions, an application keeps a few windows queued.
fn invariant_memory_is_bounded(chassis: &Chassis, managers: &[Manager]) -> Result<(), Violation> {
    for (manager, life) in lives(managers) {
        let jobs = life.pending.len();
        if jobs > JOBS_MAX {
            return Err(Violation::Memory {
                manager: manager.name.clone(),
                open: jobs,
                limit: JOBS_MAX,
            });
        }
        let open = life.sm.open_requests();
        let limit = 4 * manager.config.window + 4 * chassis.fabric().nodes().len() + 2 * chassis.port_count();
        if open > limit {
            return Err(Violation::Memory {
                manager: manager.name.clone(),
                open,
                limit,
            });
        }
    }
    Ok(())
}

fn lives(managers: &[Manager]) -> impl Iterator<Item = (&Manager, &Life)> {
    managers.iter().filter_map(|m| Some((m, m.life.as_ref()?)))
}

/// True for a master whose last plan is in every agent.
pub(crate) fn is_content(life: &Life) -> bool {
    let view = life.sm.view();
    view.role == Role::Master && view.is_up()
}

fn versions(chassis: &Chassis, node: NodeIdx) -> [u32; 3] {
    WATCHED.map(|kind| chassis.version(node, kind))
}

fn node_name(chassis: &Chassis, node: NodeIdx) -> String {
    format!("\"{}\"", chassis.fabric().node(node).description)
}

fn port_name(chassis: &Chassis, port: PortIdx) -> String {
    chassis.fabric().port_name(chassis.port_ref(port))
}

/// LIDs that live ports of one subnet hold.
fn live_lids(chassis: &Chassis, subnets: &Subnets, group: PortIdx) -> Vec<Lid> {
    let ports = subnets.live().iter().filter(|&&port| subnets.group(port) == group);
    let ranges = ports
        .map(|&port| chassis.port(port).settings().lids)
        .filter(|range| range.base.is_unicast());
    ranges.flat_map(|range| range.iter()).collect()
}

/// Two live ports of one subnet that hold the same LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Conflict {
    first: PortIdx,
    second: PortIdx,
    lid: Lid,
}

impl Conflict {
    fn violation(self, chassis: &Chassis) -> Violation {
        let [first, second] = [self.first, self.second].map(|port| port_name(chassis, port));
        Violation::LidTwice {
            lid: self.lid,
            first,
            second,
        }
    }
}

/// The ports of conflicts. When one of three gives way, the other two are in a conflict that is not new.
fn sides(conflicts: &[Conflict]) -> BTreeSet<(PortIdx, Lid)> {
    conflicts
        .iter()
        .flat_map(|c| [(c.first, c.lid), (c.second, c.lid)])
        .collect()
}

/// Every pair of neighbours among the live ports that hold one LID.
fn held_twice(chassis: &Chassis, subnets: &Subnets) -> Vec<Conflict> {
    let mut held: Vec<(PortIdx, Lid, PortIdx)> = Vec::new();
    for &port in subnets.live() {
        let range = chassis.port(port).settings().lids;
        if range.base.is_unicast() {
            held.extend(range.iter().map(|lid| (subnets.group(port), lid, port)));
        }
    }
    held.sort_unstable();
    let same = |pair: &&[(PortIdx, Lid, PortIdx)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
    let pairs = held.windows(2).filter(same);
    pairs
        .map(|pair| Conflict {
            first: pair[0].2,
            second: pair[1].2,
            lid: pair[0].1,
        })
        .collect()
}

/// True if a manager's plan is for both ports. It cannot help a LID held by a port that did not answer it.
fn is_known(chassis: &Chassis, life: &Life, conflict: &Conflict) -> bool {
    let Some(accepted) = &life.accepted else { return false };
    let knows = |port: PortIdx| {
        let at = chassis.port_ref(port);
        let node = accepted.fabric.find(chassis.node_guid(at.node));
        node.is_some_and(|node| accepted.plan.lids.base(PortRef { node, port: at.port }).is_some())
    };
    knows(conflict.first) && knows(conflict.second)
}

/// True if the manager read the LID at one of the two ports before it gave it to the other. Else somebody else set it
/// since: a manager that was cut off while it sent Sets, and the one that took over.
fn was_seen(chassis: &Chassis, life: &Life, conflict: &Conflict) -> bool {
    let Some(accepted) = &life.accepted else { return false };
    [conflict.first, conflict.second].into_iter().any(|port| {
        let at = chassis.port_ref(port);
        let node = accepted.fabric.find(chassis.node_guid(at.node));
        let seen = node.and_then(|node| accepted.fabric.port(PortRef { node, port: at.port }));
        seen.is_some_and(|port| port.settings.lids.iter().any(|lid| lid == conflict.lid))
    })
}

/// True if packets to `lid` that are at `switch` never leave the switches.
fn loops(chassis: &Chassis, switch: NodeIdx, lid: Lid) -> bool {
    let mut at = switch;
    for _ in 0..=chassis.fabric().switches().len() {
        let Egress::Port(out) = chassis.egress(at, lid) else {
            return false;
        };
        if !crate::subnet::is_up(chassis, out) {
            return false;
        }
        match chassis.wire(out).peer().map(|peer| chassis.wire(peer).node()) {
            Some(next) if chassis.is_switch(next) => at = next,
            Some(_) | None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests;
