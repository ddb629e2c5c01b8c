//! Checkers that follow every Set that an agent took, every fault and every timer.

use std::time::Duration;

use selvedge_chassis::Chassis;
use selvedge_emulator::{Change, Emulator};
use selvedge_sim::Time;

use super::check::{Check, Ctx};
use super::evidence::Evidence;
use super::holders::is_held_by_ranges;
use super::judged::SetsJudged;
use super::ledger::Ledger;
use super::lids::LidsStay;
use super::plan_kept::PlanKept;
use super::routes::RoutesStay;
use super::rules::{Checker, Rule};
use super::seen::{Scene, Seen};
use super::sets::Sets;
use super::traps::Traps;
use super::window::Window;
use crate::Violation;
use crate::manager::Manager;
use crate::subnet::Subnets;

/// All checkers that follow Sets, faults and timers.
#[derive(Debug)]
pub(super) struct Watched {
    traps: Traps,
    window: Window,
    plans: PlanKept,
    sets: Sets,
    lids: LidsStay,
    routes: RoutesStay,
    /// The rule that excuses harm done by the Set that an agent has just executed, if there is one.
    excused: Option<Rule>,
    changes: Vec<Change>,
    /// Time of the last check.
    now: Time,
    /// Number of Sets checked.
    taken: u64,
    looks: u64,
}

impl Watched {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            traps: Traps::default(),
            window: Window::default(),
            plans: PlanKept::default(),
            sets: Sets::default(),
            lids: LidsStay::new(chassis),
            routes: RoutesStay::new(chassis),
            excused: None,
            changes: Vec::new(),
            now: Time::ZERO,
            taken: 0,
            looks: 0,
        }
    }

    /// Returns how long packets looped.
    pub const fn looping(&self) -> Duration {
        self.routes.looping()
    }

    /// Returns the number of Sets that agents took, and of checks.
    pub const fn counts(&self) -> (u64, u64) {
        (self.taken, self.looks)
    }

    /// Handles an observation.
    pub fn see(
        &mut self,
        scene: &Scene<'_>,
        seen: &Seen<'_>,
        evidence: &mut Evidence,
        found: &mut Ledger,
    ) -> Result<(), Violation> {
        // Stored state counts from the last check on.
        let now = match seen {
            Seen::Stored { .. } => self.now,
            _ => scene.now,
        };
        let scene = Scene { now, ..*scene };
        evidence.see(&scene, seen, found)?;
        let ctx = Ctx { scene, evidence };
        let checkers: [&mut dyn Check; 7] = [
            &mut self.traps,
            &mut self.window,
            &mut self.plans,
            &mut SetsJudged,
            &mut self.sets,
            &mut self.lids,
            &mut self.routes,
        ];
        let mut checkers = checkers.into_iter();
        checkers.try_for_each(|checker| checker.see(&ctx, seen, found))
    }

    /// Drops changes that were not checked yet.
    pub fn drop_changes(&mut self, emulator: &mut Emulator) {
        self.changes.clear();
        emulator.take_changes(&mut self.changes);
    }

    /// Lets the checkers follow the changes of one event.
    pub fn after_event(
        &mut self,
        now: Time,
        (emulator, managers, subnets): (&mut Emulator, &[Manager], &Subnets),
        evidence: &mut Evidence,
        found: &mut Ledger,
    ) -> Result<(), Violation> {
        self.now = now;
        self.excused = None;
        found.set_time(now);
        evidence.note_lost(emulator);
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        emulator.take_changes(&mut changes);
        let scene = Scene {
            now,
            emulator,
            managers,
            subnets,
        };
        let mut result = self.see(&scene, &Seen::Step, evidence, found);
        if !changes.is_empty() {
            result = result.and_then(|()| self.look(&scene, &changes, evidence, found));
            let unknown = evidence.blocks().switches();
            unknown.for_each(|node| emulator.watch_table(node));
        }
        self.changes = changes;
        result
    }

    fn look(
        &mut self,
        scene: &Scene<'_>,
        changes: &[Change],
        evidence: &mut Evidence,
        found: &mut Ledger,
    ) -> Result<(), Violation> {
        self.looks += 1;
        if changes.contains(&Change::Happened) {
            let is_disturbed = evidence.happened(scene);
            self.see(scene, &Seen::Happened { is_disturbed }, evidence, found)?;
        }
        evidence.changed(scene);
        self.see(scene, &Seen::Changed, evidence, found)?;
        let mut changes = changes.iter();
        changes.try_for_each(|change| self.look_at(scene, change, evidence, found))
    }

    fn look_at(
        &mut self,
        scene: &Scene<'_>,
        change: &Change,
        evidence: &mut Evidence,
        found: &mut Ledger,
    ) -> Result<(), Violation> {
        let Some(mut taken) = self.sets.take(change) else {
            evidence.note_read(change);
            return Ok(());
        };
        self.taken += 1;
        taken.excuse = evidence.take(scene, &taken);
        self.excused = taken.excuse;
        let ctx = Ctx {
            scene: *scene,
            evidence,
        };
        self.lids.see(&ctx, &Seen::Set(&taken), found)?;
        taken.is_renumbering = self.lids.is_renumbered();
        self.routes.see(&ctx, &Seen::Set(&taken), found)
    }

    /// True if a rule excuses a violation that the checkers of the hardware found.
    pub fn excuses(&self, scene: &Scene<'_>, violation: &Violation, evidence: &Evidence, found: &mut Ledger) -> bool {
        let checker = match violation {
            Violation::LidTwice { .. } => Checker::LidsUnique,
            Violation::ActiveTooEarly { .. } => Checker::Activation,
            Violation::Loop { .. } => Checker::Loops,
            _ => return false,
        };
        let (excuse, looked_at) = evidence.excuse_now(scene);
        let excuse = excuse.or(self.excused);
        let excuse = match violation {
            Violation::LidTwice { lid, .. } if is_held_by_ranges(scene.chassis(), *lid) => Some(Rule::OtherLids),
            Violation::Loop { .. } => excuse.or_else(|| evidence.unheard_excuse(looked_at, scene.now)),
            _ => excuse,
        };
        found.judge(checker, excuse, || violation.clone()).is_ok()
    }
}
