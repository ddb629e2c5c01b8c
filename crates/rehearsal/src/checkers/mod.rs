//! Checkers look at the hardware from outside after every Set that an agent took, every fault and every timer.
//!
//! They believe no manager: what they know comes from the simulated hardware, from the datagrams that left a manager,
//! and from what judges passed. Each has the state of one subject ([`check::Check`]): an observation goes in, violations
//! come out. What one finds and a [`Rule`] excuses, by the [`evidence`] of what happened, is counted.

mod check;
mod evidence;
mod holders;
mod judged;
mod ledger;
mod lids;
mod lifetime;
mod locks;
mod names;
mod routes;
mod rules;
mod sets;
mod traps;
mod window;

use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{Change, Emulator};
use selvedge_sim::Time;

use crate::Violation;
use crate::manager::Manager;
use crate::subnet::Subnets;

use self::check::Check;
pub(crate) use self::check::{Scene, Seen};
use self::evidence::Evidence;
use self::holders::is_held_by_ranges;
use self::judged::SetsJudged;
pub(crate) use self::judged::{Clerk, Passed};
use self::ledger::Ledger;
pub use self::ledger::{Findings, Found};
use self::lids::LidsStay;
use self::routes::RoutesStay;
pub use self::rules::{Checker, Exemptions, Rule};
use self::sets::Sets;
use self::traps::Traps;
use self::window::Window;

/// All checkers.
#[derive(Debug)]
pub(crate) struct Watcher {
    evidence: Evidence,
    traps: Traps,
    window: Window,
    sets: Sets,
    lids: LidsStay,
    routes: RoutesStay,
    ledger: Ledger,
    /// Why the Set that was taken just now may do harm, if it may.
    excused: Option<Rule>,
    changes: Vec<Change>,
    /// When it was last looked.
    now: Time,
    /// Sets that were looked at.
    pub sets_seen: u64,
    /// Looks.
    pub looks: u64,
}

impl Watcher {
    pub fn new(emulator: &mut Emulator) -> Self {
        emulator.watch_changes();
        let chassis = emulator.chassis();
        Self {
            evidence: Evidence::new(chassis),
            traps: Traps::default(),
            window: Window::default(),
            sets: Sets::default(),
            lids: LidsStay::new(chassis),
            routes: RoutesStay::new(chassis),
            ledger: Ledger::default(),
            excused: None,
            changes: Vec::new(),
            now: Time::ZERO,
            sets_seen: 0,
            looks: 0,
        }
    }

    /// From now on what is found is counted, and managers are programs.
    pub fn count_all(&mut self) {
        self.ledger.count_all();
        self.evidence.set_outside();
    }

    pub const fn exemptions(&self) -> &Exemptions {
        self.ledger.exemptions()
    }

    /// What was found, and for how long packets went in circles.
    pub fn findings(&self) -> (Findings, Duration) {
        (self.ledger.findings(), self.routes.looping())
    }

    /// Something was found that a rule excuses.
    pub fn count(&mut self, checker: Checker, rule: Rule) {
        self.ledger.excuse(checker, rule);
    }

    /// Takes an observation in.
    pub fn see(&mut self, scene: &Scene<'_>, seen: &Seen<'_>) -> Result<(), Violation> {
        // What is stored counts from the last look on.
        let now = match seen {
            Seen::Stored { .. } => self.now,
            _ => scene.now,
        };
        let scene = &Scene { now, ..*scene };
        self.evidence.see(scene, seen, &mut self.ledger)?;
        let checkers: [&mut dyn Check; 6] = [
            &mut self.traps,
            &mut self.window,
            &mut SetsJudged,
            &mut self.sets,
            &mut self.lids,
            &mut self.routes,
        ];
        for checker in checkers {
            checker.see(scene, &self.evidence, seen, &mut self.ledger)?;
        }
        Ok(())
    }

    /// Takes what is as given: another than a manager set something.
    pub fn foreign_set(
        &mut self,
        emulator: &mut Emulator,
        managers: &[Manager],
        subnets: &Subnets,
    ) -> Result<(), Violation> {
        self.changes.clear();
        emulator.take_changes(&mut self.changes);
        let scene = Scene {
            now: emulator.now(),
            emulator,
            managers,
            subnets,
        };
        self.see(&scene, &Seen::ForeignSet)
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
        self.ledger.set_time(now);
        self.excused = None;
        self.evidence.note_lost(emulator);
        let scene = Scene {
            now,
            emulator,
            managers,
            subnets,
        };
        self.see(&scene, &Seen::Step)?;
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        emulator.take_changes(&mut changes);
        if changes.is_empty() {
            return Ok(());
        }
        let scene = Scene {
            now,
            emulator,
            managers,
            subnets,
        };
        let result = self.look(&scene, &changes);
        self.changes = changes;
        let unknown = self.evidence.blocks().switches();
        unknown.for_each(|node| emulator.watch_table(node));
        result
    }

    fn look(&mut self, scene: &Scene<'_>, changes: &[Change]) -> Result<(), Violation> {
        self.looks += 1;
        if changes.contains(&Change::Happened) {
            let is_disturbed = self.evidence.happened(scene);
            self.see(scene, &Seen::Happened { is_disturbed })?;
        }
        self.evidence.changed(scene);
        self.see(scene, &Seen::Changed)?;
        for change in changes {
            self.look_at(scene, change)?;
        }
        Ok(())
    }

    fn look_at(&mut self, scene: &Scene<'_>, change: &Change) -> Result<(), Violation> {
        let Some(mut taken) = self.sets.take(change) else {
            self.evidence.note_read(change);
            return Ok(());
        };
        self.sets_seen += 1;
        taken.excuse = self.evidence.take(scene, &taken);
        self.excused = taken.excuse;
        let (evidence, ledger) = (&self.evidence, &mut self.ledger);
        self.lids.see(scene, evidence, &Seen::Set(&taken), ledger)?;
        taken.is_renumbering = self.lids.is_renumbered();
        self.routes.see(scene, evidence, &Seen::Set(&taken), ledger)
    }

    /// True if a rule excuses what another checker found.
    pub fn excuses(&mut self, scene: &Scene<'_>, violation: &Violation) -> bool {
        let checker = match violation {
            Violation::LidTwice { .. } => Checker::LidsUnique,
            Violation::ActiveTooEarly { .. } => Checker::Activation,
            Violation::Loop { .. } => Checker::Loops,
            _ => return false,
        };
        let (excuse, looked_at) = self.evidence.excuse_now(scene);
        let excuse = excuse.or(self.excused);
        let excuse = match violation {
            Violation::LidTwice { lid, .. } if is_held_by_ranges(scene.chassis(), *lid) => Some(Rule::OtherLids),
            Violation::Loop { .. } => excuse.or_else(|| self.evidence.unheard_excuse(looked_at, scene.now)),
            _ => excuse,
        };
        self.ledger.judge(checker, excuse, || violation.clone()).is_ok()
    }

    /// True if a switch holds another block than it acknowledged last, and the manager that wrote the block can read
    /// it.
    pub fn is_any_block_astray(&self, scene: &Scene<'_>) -> bool {
        self.evidence.blocks().is_any_astray(scene)
    }

    /// How long a port that a flipped bit gave another M_Key may be locked for.
    pub fn locked_for(&self, chassis: &Chassis, m_key: u64) -> Option<Duration> {
        let has_corrupted = self.evidence.faults().has_corrupted();
        has_corrupted.then(|| locks::longest(chassis, m_key)).flatten()
    }

    /// End ports whose M_Key differs from this one in one bit, where bits were flipped: nobody meant them to have it.
    pub fn keys_flipped(&self, chassis: &Chassis, m_key: u64) -> Vec<PortIdx> {
        match self.evidence.faults().has_corrupted() {
            true => locks::one_bit_off(chassis, m_key),
            false => Vec::new(),
        }
    }
}
