//! Checkers outside the managers: they check the hardware after every event.
//!
//! They rely on no manager: their knowledge comes from the simulated hardware, from the MADs that left a manager, and
//! from the plans and Sets that judges passed. Each checker keeps the state of one subject ([`check::Check`]): it takes
//! observations in and returns violations. Some checkers read only hardware with changed version counters. Others
//! follow every Set that an agent took, every fault and every timer, if [`Checkers::watch`] was called. A violation
//! that a [`Rule`] excuses, by the [`evidence`] of what happened, is counted and does not end the run.

mod activation;
mod bounds;
mod bring_up;
mod check;
mod evidence;
mod hardware;
mod holders;
mod judged;
mod lanes_planned;
mod ledger;
mod lids;
mod lifetime;
mod locks;
mod masters;
mod names;
mod one_master;
mod plan_kept;
mod routes;
mod rules;
mod seen;
mod served;
mod sets;
mod taken;
mod timers;
mod traps;
mod unique;
mod watched;
mod window;

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::Emulator;
use selvedge_sim::Time;

use self::activation::Activation;
use self::bounds::Bounds;
use self::bring_up::BringUp;
use self::check::{Check, Ctx};
use self::evidence::Evidence;
use self::hardware::Hardware;
use self::lanes_planned::LanesPlanned;
use self::ledger::Ledger;
pub use self::ledger::{Findings, Found};
use self::locks::KeysGiven;
use self::masters::{is_content, lives};
use self::one_master::OneMaster;
pub use self::rules::{Checker, Exemptions, Rule};
pub(crate) use self::seen::{Seen, Stage};
pub(crate) use self::served::Hosts;
use self::served::HostsServed;
use self::timers::Timers;
use self::unique::LidsUnique;
use self::watched::Watched;
use crate::Violation;
use crate::clients::served::Served;
use crate::manager::{Life, Manager, ManagerId};
use crate::subnet::Subnets;

/// All checkers.
#[derive(Debug)]
pub(crate) struct Checkers {
    hardware: Hardware,
    lids: LidsUnique,
    activation: Activation,
    bring_up: BringUp,
    one_master: OneMaster,
    timers: Timers,
    hosts: HostsServed,
    keys: KeysGiven,
    evidence: Evidence,
    ledger: Ledger,
    /// Checkers that follow every Set. `None`: Sets are not followed.
    watched: Option<Box<Watched>>,
}

impl Checkers {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            hardware: Hardware::new(chassis),
            lids: LidsUnique::default(),
            activation: Activation::new(chassis),
            bring_up: BringUp::default(),
            one_master: OneMaster::default(),
            timers: Timers::default(),
            hosts: HostsServed::default(),
            keys: KeysGiven::default(),
            evidence: Evidence::new(chassis),
            ledger: Ledger::default(),
            watched: None,
        }
    }

    /// Follows every Set that an agent executes from now on.
    pub fn watch(&mut self, emulator: &mut Emulator) {
        emulator.watch_changes();
        self.evidence = Evidence::new(emulator.chassis());
        self.watched = Some(Box::new(Watched::new(emulator.chassis())));
    }

    /// True if every Set is followed.
    pub const fn is_watching(&self) -> bool {
        self.watched.is_some()
    }

    /// Records that managers are programs of their own from now on. A violation is then counted, and does not end the
    /// run.
    pub fn count_all(&mut self) {
        if self.watched.is_some() {
            self.ledger.count_all();
            self.evidence.set_outside();
        }
    }

    /// Handles an observation.
    pub fn see(&mut self, stage: &Stage<'_>, seen: &Seen<'_>) -> Result<(), Violation> {
        let scene = stage.scene(self.hardware.subnets());
        let evidence = &self.evidence;
        let checkers: [&mut dyn Check; 3] = [&mut self.timers, &mut self.hosts, &mut self.keys];
        for checker in checkers {
            checker.see(&Ctx { scene, evidence }, seen, &mut self.ledger)?;
        }
        let Some(watched) = &mut self.watched else {
            return Ok(());
        };
        watched.see(&scene, seen, &mut self.evidence, &mut self.ledger)
    }

    /// Checks the hardware after every event.
    pub fn after_event(&mut self, now: Time, emulator: &mut Emulator, managers: &[Manager]) -> Result<(), Violation> {
        let (evidence, ledger) = (&mut self.evidence, &mut self.ledger);
        let followed = self.watched.as_mut().map_or(Ok(()), |watched| {
            let subnets = self.hardware.subnets();
            watched.after_event(now, (emulator, managers, subnets), evidence, ledger)
        });
        let stage = Stage::new(now, emulator, managers);
        let standing = match self.look(&stage) {
            Err(violation) if self.excuses(&stage, &violation) => Ok(()),
            standing => standing,
        };
        followed.and(standing)
    }

    /// Checks everything that must hold after every event.
    fn look(&mut self, stage: &Stage<'_>) -> Result<(), Violation> {
        let changes = &self.hardware.look(stage.emulator.chassis());
        let ctx = Ctx {
            scene: stage.scene(self.hardware.subnets()),
            evidence: &self.evidence,
        };
        let are_cables_moved = changes.are_cables_moved;
        if are_cables_moved || changes.are_lids_changed {
            let rewired = Seen::Rewired { are_cables_moved };
            self.bring_up.see(&ctx, &rewired, &mut self.ledger)?;
        }
        let event = Seen::Event {
            changes,
            are_lids_unique: self.hardware.are_lids_unique(),
            several_masters: self.one_master.several(),
        };
        let checkers: [&mut dyn Check; 5] = [
            &mut self.lids,
            &mut self.activation,
            &mut self.bring_up,
            &mut self.one_master,
            &mut Bounds,
        ];
        let mut checkers = checkers.into_iter();
        checkers.try_for_each(|checker| checker.see(&ctx, &event, &mut self.ledger))
    }

    /// True if a rule excuses a violation of the hardware.
    fn excuses(&mut self, stage: &Stage<'_>, violation: &Violation) -> bool {
        let Some(watched) = &self.watched else { return false };
        let scene = stage.scene(self.hardware.subnets());
        watched.excuses(&scene, violation, &self.evidence, &mut self.ledger)
    }

    /// Accepts the hardware as it is, after a tool and not a manager has sent a Set.
    pub fn foreign_set(&mut self, now: Time, emulator: &mut Emulator, managers: &[Manager]) -> Result<(), Violation> {
        self.hardware.renew(emulator.chassis());
        let stage = Stage::new(now, emulator, managers);
        self.stand(&stage, &Seen::ForeignSet)?;
        if let Some(watched) = &mut self.watched {
            watched.drop_changes(emulator);
        }
        let stage = Stage::new(now, emulator, managers);
        self.see(&stage, &Seen::ForeignSet)
    }

    /// Checks a subnet with a master in which no work is left.
    pub fn at_rest(&mut self, stage: &Stage<'_>) -> Result<(), Violation> {
        let content = lives(stage.managers).filter(|(_, life)| is_content(life));
        let content: Vec<(&Life, PortIdx)> = content
            .filter_map(|(_, life)| Some((life, stage.emulator.port_of(life.client)?)))
            .collect();
        for &(life, at) in &content {
            self.stand(stage, &Seen::Content { life, at })?;
        }
        let mut seats = content.into_iter();
        seats.try_for_each(|(_, at)| self.see(stage, &Seen::Rest(at)))
    }

    /// Hands an observation to the checkers of the hardware.
    fn stand(&mut self, stage: &Stage<'_>, seen: &Seen<'_>) -> Result<(), Violation> {
        let ctx = Ctx {
            scene: stage.scene(self.hardware.subnets()),
            evidence: &self.evidence,
        };
        let checkers: [&mut dyn Check; 4] = [
            &mut self.lids,
            &mut LanesPlanned,
            &mut self.bring_up,
            &mut self.activation,
        ];
        let mut checkers = checkers.into_iter();
        checkers.try_for_each(|checker| checker.see(&ctx, seen, &mut self.ledger))
    }

    /// Counts a violation that a rule excuses.
    pub fn count(&mut self, checker: Checker, rule: Rule) {
        if self.watched.is_some() {
            self.ledger.excuse(checker, rule);
        }
    }

    /// Returns which ports reach each other.
    pub const fn subnets(&self) -> &Subnets {
        self.hardware.subnets()
    }

    /// Returns the number of forwarding loops found half-way between two plans.
    pub const fn loops_met(&self) -> u64 {
        self.bring_up.met()
    }

    pub const fn exemptions(&self) -> &Exemptions {
        self.ledger.exemptions()
    }

    /// Returns the violations, and the time for which packets looped.
    pub fn findings(&self) -> (Findings, Duration) {
        let watched = self.watched.as_deref();
        (self.ledger.findings(), watched.map_or(Duration::ZERO, Watched::looping))
    }

    /// Returns the number of Sets that agents took, and of checks after events, while every Set was followed.
    pub fn counts(&self) -> (u64, u64) {
        self.watched.as_deref().map_or((0, 0), Watched::counts)
    }

    /// True if a switch holds another block than it acknowledged last, and the manager that wrote the block can read
    /// it.
    pub fn is_any_block_astray(&self, stage: &Stage<'_>) -> bool {
        let scene = stage.scene(self.hardware.subnets());
        self.evidence.blocks().is_any_astray(&scene)
    }

    /// Returns the hosts and their administrators, to check what the hosts get.
    pub fn hosts<'a>(&'a self, stage: &Stage<'a>, served: Served<'a>) -> Hosts<'a> {
        let scene = stage.scene(self.hardware.subnets());
        Hosts { scene, served }
    }

    /// Returns M_Keys of ports in reach of a manager that neither it was ever given, nor another manager in its reach
    /// that should have put another key in their place.
    pub fn keys_never_given(&self, stage: &Stage<'_>, id: ManagerId) -> BTreeSet<u64> {
        self.keys.missing(&stage.scene(self.hardware.subnets()), id)
    }

    /// Returns how long a port may be locked after a flipped bit gave it an M_Key other than the `known` ones: the
    /// longest lease. `None` if no bit was ever flipped, or if no port is locked for a limited time.
    pub fn locked_for(&self, chassis: &Chassis, known: &[u64]) -> Option<Duration> {
        let has_corrupted = self.evidence.faults().has_corrupted();
        has_corrupted.then(|| locks::longest(chassis, known)).flatten()
    }

    /// Returns the end ports with an M_Key that differs from a `known` key in one bit. Such a key comes from a flipped
    /// bit, not from a manager. Returns none if no bit of a MAD was ever flipped.
    pub fn keys_flipped(&self, chassis: &Chassis, known: &[u64]) -> Vec<PortIdx> {
        match self.evidence.faults().has_corrupted() {
            true => locks::one_bit_off(chassis, known),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
