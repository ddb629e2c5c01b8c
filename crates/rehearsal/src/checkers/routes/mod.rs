//! Checks that no Set closes a forwarding loop or a cycle of channels, or takes a route away.

mod channels;
mod delta;
mod entries;
mod followed;
mod layout;
mod links;
mod picture;
mod reach;
mod touched;
mod waits;

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_types::Lid;

use self::delta::Delta;
use self::layout::Switches;
use self::links::is_active;
use self::picture::Picture;
use self::waits::{Doubts, Haunt};
use super::check::{Check, Ctx};
use super::holders::{holder, is_twice};
use super::ledger::Ledger;
use super::names::{node_name, port_name};
use super::rules::{Checker, Rule};
use super::seen::Seen;
use super::taken::Taken;
use crate::Violation;
use crate::manager::Manager;

/// A route that a Set took away.
#[derive(Clone, Debug)]
struct Interrupted {
    /// The switches on the route, by position, and the ports by which packets left them.
    way: Vec<(u8, u8)>,
    by: NodeIdx,
}

/// Routes by the tables that switches hold, and the effects of the last change.
#[derive(Debug)]
pub(super) struct RoutesStay {
    picture: Picture,
    delta: Delta,
    /// Routes taken away by Sets since the fabric was last idle, by LID and first switch.
    interrupted: BTreeMap<(Lid, u8), Interrupted>,
    /// Time for which packets to a port that can be reached went in circles; counted for programs only.
    looping: Duration,
    /// Time of the last check, and whether packets looped at that time.
    last: Option<(Time, bool)>,
}

impl Check for RoutesStay {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, found: &mut Ledger) -> Result<(), Violation> {
        match *seen {
            // After a fault, it is unknown which routes Sets took away.
            Seen::WantedChanged | Seen::Happened { is_disturbed: true } => self.interrupted.clear(),
            Seen::Changed => self.mend(ctx),
            Seen::ForeignSet => drop(self.picture.mend(ctx.now, ctx.chassis())),
            Seen::Set(taken) => return self.stay(ctx, taken, found),
            Seen::Rest(at) => return self.at_rest(ctx, at),
            _ => {}
        }
        Ok(())
    }
}

impl RoutesStay {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            picture: Picture::new(chassis),
            delta: Delta::default(),
            interrupted: BTreeMap::new(),
            looping: Duration::ZERO,
            last: None,
        }
    }

    /// Returns how long packets to a reachable port looped; counted for programs only.
    pub const fn looping(&self) -> Duration {
        self.looping
    }

    /// Updates the forwarding of all switches after changes of the hardware.
    fn mend(&mut self, ctx: &Ctx<'_>) {
        let picture = &self.picture;
        let placed = |(node, block): (NodeIdx, u32)| Some((picture.position(node)?, usize::try_from(block).ok()?));
        let strays = ctx.evidence.blocks().strays();
        let doubts = Doubts {
            liars: ctx.evidence.blocks().lies().filter_map(placed).collect(),
            strays: strays
                .filter_map(|(block, rule)| Some((placed(block)?, rule)))
                .collect(),
        };
        self.picture.set_doubts(doubts);
        self.delta = self.picture.mend(ctx.now, ctx.chassis());
        if ctx.evidence.is_outside() {
            self.clock_circles(ctx.now);
        }
    }

    /// Adds the time since the last check, if packets looped at that check.
    fn clock_circles(&mut self, now: Time) {
        if let Some((since, true)) = self.last {
            self.looping += now.since(since);
        }
        self.last = Some((now, self.picture.is_any_circle()));
    }

    /// Checks the effect of a Set on routes.
    fn stay(&mut self, ctx: &Ctx<'_>, taken: &Taken, found: &mut Ledger) -> Result<(), Violation> {
        let manager = taken.sent.and_then(|sent| ctx.managers.get(sent.manager.0));
        let unheard = || {
            let sent = taken.sent.filter(|_| !ctx.evidence.is_outside())?;
            ctx.evidence.unheard_excuse(sent.looked_at, ctx.now)
        };
        let excuse = taken.excuse.or_else(unheard);
        self.no_loops(ctx, (manager, excuse), found)?;
        self.no_cycles(ctx, (manager, excuse), taken.is_renumbering, found)?;
        touched::untouched_stay(ctx, &self.picture, &self.delta, (manager, excuse), found)?;
        self.none_lost(ctx.chassis(), taken.node, (manager, excuse), found);
        self.back_as_it_was(ctx.chassis(), found)
    }

    fn no_loops(
        &self,
        ctx: &Ctx<'_>,
        (by, excuse): (Option<&Manager>, Option<Rule>),
        found: &mut Ledger,
    ) -> Result<(), Violation> {
        for (lid, circle) in &self.delta.loops {
            let nobody = (!self.picture.is_of_somebody(*lid)).then_some(Rule::LidOfNobody);
            let excuse = excuse.or(nobody);
            let excuse = excuse.or_else(|| ctx.evidence.circle_excuse(ctx, circle, by));
            let first = circle.first();
            found.judge(Checker::Loops, excuse, || Violation::Loop {
                lid: *lid,
                switch: first.map_or_else(String::new, |&node| node_name(ctx.chassis(), node)),
            })?;
        }
        Ok(())
    }

    fn no_cycles(
        &self,
        ctx: &Ctx<'_>,
        (by, excuse): (Option<&Manager>, Option<Rule>),
        is_renumbering: bool,
        found: &mut Ledger,
    ) -> Result<(), Violation> {
        let Some((cycle, ghosts)) = &self.delta.cycle else {
            return Ok(());
        };
        let excuse = excuse.or_else(|| ctx.evidence.channels_excuse(ctx, cycle, by));
        let channels = || haunted_ways(ctx.chassis(), cycle, ghosts);
        if ghosts.is_empty() {
            return found.judge(Checker::Cycles, excuse, || Violation::Cycle { channels: channels() });
        }
        let since: Vec<Time> = ghosts.iter().map(|ghost| ghost.since).collect();
        let excuse = excuse.or_else(|| self.ghost_excuse(ctx, &since, by));
        // A LID that belongs to another port now makes other dependencies than before.
        let excuse = excuse.or(is_renumbering.then_some(Rule::OtherLids));
        found.judge(Checker::Ghosts, excuse, || Violation::Undrained {
            channels: channels(),
        })
    }

    /// Returns the rule that excuses a credit loop with packets that entries forwarded before they changed, at the
    /// times `since`. Such a loop is excused if the manager could not know an old entry: the master before it wrote the
    /// entry a moment ago, a lying switch held it, a block reached another switch because of a flipped bit, or the
    /// switch showed another node's GUID when this manager wrote it.
    fn ghost_excuse(&self, ctx: &Ctx<'_>, since: &[Time], by: Option<&Manager>) -> Option<Rule> {
        let oldest = *since.iter().min()?;
        let waits = self.picture.waits();
        let is_of_liar = |at: &Time| ctx.evidence.blocks().has_lie_ended(*at) || waits.is_of_liar(*at);
        let of_liar = || since.iter().any(is_of_liar).then_some(Rule::LyingAgent);
        let excuse = ctx.evidence.ghost_excuse(oldest, by);
        excuse.or_else(of_liar).or_else(|| waits.stray_at(since))
    }

    /// Records routes that are gone and were not as planned. `untouched_stay` finds lost routes that were as planned.
    fn none_lost(
        &mut self,
        chassis: &Chassis,
        node: NodeIdx,
        (by, excuse): (Option<&Manager>, Option<Rule>),
        found: &mut Ledger,
    ) {
        let planned = by.is_some_and(|manager| manager.life.is_some());
        let excuse = excuse.or(planned.then_some(Rule::AnotherRoute));
        for &(lid, switches) in &self.delta.lost {
            if !matters(&self.picture, chassis, lid, switches) {
                continue;
            }
            if let Some(rule) = excuse {
                found.excuse(Checker::Routes, rule);
                continue;
            }
            for way in self.picture.ways_before(lid, switches) {
                self.interrupted
                    .entry((lid, way[0].0))
                    .or_insert(Interrupted { way, by: node });
            }
        }
    }

    /// Fails if a route that a Set broke comes back unchanged. A Set may break a route only if the plan changes it. If
    /// no plan is known, the violation is found when the route comes back unchanged.
    fn back_as_it_was(&mut self, chassis: &Chassis, found: &mut Ledger) -> Result<(), Violation> {
        if self.interrupted.is_empty() {
            return Ok(());
        }
        for &(lid, switches) in &self.delta.gained {
            for from in (0..64_u8).filter(|from| switches & 1 << from != 0) {
                let Some(interrupted) = self.interrupted.remove(&(lid, from)) else {
                    continue;
                };
                let is_same = self.picture.way(lid, from).is_some_and(|now| now == interrupted.way);
                let excuse = (!is_same).then_some(Rule::AnotherRoute);
                let from = self.picture.switch(from.into()).unwrap_or(interrupted.by);
                found.judge(Checker::Routes, excuse, || Violation::RouteLost {
                    lid,
                    from: node_name(chassis, from),
                    at: node_name(chassis, interrupted.by),
                })?;
            }
        }
        Ok(())
    }

    /// Fails if, while all managers are idle, channels wait for each other in a cycle, or packets from some switch do
    /// not reach a port that holds a LID.
    fn at_rest(&mut self, ctx: &Ctx<'_>, at: PortIdx) -> Result<(), Violation> {
        let (chassis, subnets) = (ctx.chassis(), ctx.subnets);
        drop(self.picture.mend(ctx.now, chassis));
        self.interrupted.clear();
        let group = subnets.group(at);
        let here = |node: NodeIdx| chassis.port_at(node, 0).is_some_and(|own| subnets.group(own) == group);
        let positions = self.picture.switches().iter().zip(0_u32..);
        let switches = positions
            .filter(|(node, _)| here(**node))
            .fold(0_u64, |bits, (_, i)| bits | 1 << i);
        if let Some(cycle) = self.picture.any_cycle(chassis, switches) {
            let channels = haunted_ways(chassis, &cycle, &[]);
            return Err(Violation::Cycle { channels });
        }
        for &port in subnets.live().iter().filter(|&&port| subnets.group(port) == group) {
            self.reached_from(chassis, port, switches)?;
        }
        Ok(())
    }

    /// Fails if packets from one of these switches do not reach a live port. A port without a LID, and a host port with
    /// a link that is not ACTIVE, need not be reached.
    fn reached_from(&self, chassis: &Chassis, port: PortIdx, switches: Switches) -> Result<(), Violation> {
        let node = chassis.wire(port).node();
        let range = chassis.port(port).settings().lids;
        let is_switch = chassis.is_switch(node);
        if !range.base.is_unicast() || (!is_switch && !is_active(chassis, port)) {
            return Ok(());
        }
        let want = match is_switch {
            true => switches & self.picture.with_hosts(),
            false => switches,
        };
        let missing = |lid: Lid| want & !self.picture.delivered(lid);
        let is_missing = |lid: &Lid| missing(*lid) != 0 && !is_twice(chassis, *lid);
        let Some(lid) = range.iter().find(is_missing) else {
            return Ok(());
        };
        let from = self.picture.switch(missing(lid).trailing_zeros() as usize);
        Err(Violation::NoRoute {
            lid,
            from: node_name(chassis, from.unwrap_or(node)),
        })
    }
}

/// True if a lost route must count as a violation: a port holds the LID, and other ports send packets to it. (Agents of
/// switches do not send to each other.)
fn matters(picture: &Picture, chassis: &Chassis, lid: Lid, from: Switches) -> bool {
    match holder(chassis, lid) {
        Some(port) if chassis.is_switch(chassis.wire(port).node()) => from & picture.with_hosts() != 0,
        Some(port) => is_active(chassis, port),
        None => false,
    }
}

/// Returns the ports of a cycle as text. A channel that holds packets of a replaced entry is followed by their LID and
/// the time of the change.
fn haunted_ways(chassis: &Chassis, ports: &[PortIdx], ghosts: &[Haunt]) -> String {
    let one = |&port: &PortIdx| {
        let name = port_name(chassis, port);
        match ghosts.iter().find(|ghost| ghost.at == port) {
            Some(Haunt { lid, since, .. }) => format!("{name} (LID {lid} until {since})"),
            None => name,
        }
    };
    ports.iter().map(one).collect::<Vec<_>>().join(" -> ")
}
