//! Runs a schedule against managers that are programs of their own, in real time. Violations are counted, and do not
//! end the run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_sim::Time;

use super::event::Kind;
use super::schedule::Schedule;
use super::world::{Nobody, World};
use crate::observed::Observed;
use crate::{Exemptions, Findings, Outside, RehearsalError};

/// The outcome of a schedule in real time.
#[derive(Clone, Debug, Default)]
pub struct RealOutcome {
    /// Violations that no rule excuses.
    pub findings: Findings,
    /// Violations that rules excuse, counted.
    pub exemptions: Exemptions,
    /// Number of Sets that agents took.
    pub sets: u64,
    /// Number of runs of the checkers.
    pub looks: u64,
    /// Time for which packets to a port that can be reached went in circles.
    pub looping: Duration,
    /// The time from the end of the faults until all was well, or the fault that remained.
    pub converged: Vec<(&'static str, Result<Duration, String>)>,
    /// Happenings by kind.
    pub happenings: BTreeMap<Kind, u64>,
    /// Programs that ended unasked, and were started again.
    pub crashes: Vec<String>,
    /// Time at the end.
    pub ended: Time,
}

impl Schedule {
    /// Carries out the schedule on its fabric with separate programs as managers, which `hands` starts and ends.
    pub fn run_outside(&self, fabric: &Fabric, hands: Box<dyn Outside>) -> Result<RealOutcome, RehearsalError> {
        let mut nobody = Nobody;
        let mut world = World::open(self, fabric, hands, &mut nobody)?;
        let result = world.run();
        world.end();
        result?;
        let crashes = world.rehearsal.crashes();
        let (sets, looks) = world.rehearsal.watched();
        let (findings, looping) = world.rehearsal.findings();
        let mut happenings = BTreeMap::new();
        for (&(kind, _), &count) in &world.record.coverage {
            *happenings.entry(kind).or_default() += count;
        }
        Ok(RealOutcome {
            findings,
            exemptions: world.rehearsal.exemptions(),
            sets,
            looks,
            looping,
            converged: std::mem::take(&mut world.record.converged),
            happenings,
            crashes,
            ended: world.rehearsal.now(),
        })
    }
}

impl World<'_> {
    /// Waits until all is well, and records the time, or the fault.
    pub(super) fn converge_outside(&mut self, when: &'static str, bound: Duration) -> Result<(), RehearsalError> {
        let began = self.rehearsal.now();
        let mut trouble = None;
        while self.rehearsal.now() < began + bound {
            self.run_for(Duration::from_millis(500))?;
            trouble = self.trouble_outside()?;
            if trouble.is_none() {
                break;
            }
        }
        let took = self.rehearsal.now().since(began);
        self.record.converged.push((when, trouble.map_or(Ok(took), Err)));
        Ok(())
    }

    /// Returns the first fault in the subnets of the managers, if there is one.
    fn trouble_outside(&mut self) -> Result<Option<String>, RehearsalError> {
        for &id in &self.managers.ids().to_vec() {
            let Some(at) = self.rehearsal.outside_at(id) else {
                continue;
            };
            let observed = Observed::around(self.rehearsal.emulator(), at);
            if observed.fabric.nodes().is_empty() {
                continue;
            }
            if let Some(trouble) = observed.trouble(None, &BTreeSet::new()) {
                return Ok(Some(trouble.to_string()));
            }
            if let Err(violation) = self.rehearsal.rest_around(at) {
                return Ok(Some(violation.to_string()));
            }
        }
        Ok(None)
    }

    /// Ends all managers.
    fn end(&mut self) {
        for &id in &self.managers.ids().to_vec() {
            // A manager that does not run need not be killed.
            let _ = self.rehearsal.kill(id);
        }
    }
}
