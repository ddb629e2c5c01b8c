//! The view of the manager that front ends show.

use std::sync::Arc;

use super::Sm;
use crate::commit::NoPlan;
use crate::election::Role;
use crate::stage::Stage;
use crate::view::{MadCounters, Progress, StageName, Sweeps, View};

impl Sm {
    /// Returns the view of the manager.
    #[must_use]
    pub fn view(&self) -> View {
        let (in_force, counters) = (&self.in_force, self.exchange.counters());
        let change = in_force.change();
        let applying = match &self.stage {
            Stage::Applying(apply, _) => Some(apply),
            _ => None,
        };
        View {
            role: self.election().role(),
            master: self.election().master(),
            stage: self.stage.name(),
            progress: self.progress(),
            wait: applying.and_then(|apply| apply.wait()),
            balance: self.rebalancer().status(),
            policy: Some(Arc::clone(&self.config.policy)),
            policy_changes: Arc::clone(self.changes.list()),
            applying: applying.map(|apply| (Arc::clone(apply.outcome()), apply.phase())),
            sweeps: Sweeps {
                begun: self.sweep().schedule().begun(),
                ended: in_force.sweeps(),
            },
            generation: in_force.generation(),
            fabric: in_force.fabric().cloned(),
            seen: in_force.found().cloned(),
            inventory: in_force.inventory().cloned(),
            plan: in_force.plan().cloned(),
            verdict: in_force.verdict().cloned(),
            refused: match in_force.no_plan() {
                Some(NoPlan::Refused { verdict, .. }) => verdict.clone(),
                Some(NoPlan::MKey) | None => None,
            },
            installed: Arc::clone(in_force.installed()),
            changes: change.count,
            would_send: change.would_send.clone(),
            acknowledged: change.acknowledged,
            failed: change.failed,
            ports: Arc::clone(in_force.ports()),
            groups: Arc::clone(self.multicast.groups()),
            copies: Arc::clone(in_force.copies()),
            read_back: self.read_back_figures(),
            has_repairs_ready: self.has_repairs_ready(),
            mads: MadCounters {
                gets: counters.sent - counters.sets,
                sets: counters.sets,
                others: counters.alone,
                repeats: counters.repeats,
                failures: counters.failed,
                received: counters.received,
                dropped: counters.dropped,
                late: counters.stray,
            },
            facts: self.facts(),
        }
    }

    /// Returns the SMInfo state of this manager.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.election().role()
    }

    /// True if a plan is in force.
    #[must_use]
    pub const fn has_plan(&self) -> bool {
        self.in_force.plan().is_some()
    }

    /// Returns how many heavy sweeps have begun.
    #[must_use]
    pub const fn sweeps_begun(&self) -> u64 {
        self.sweep().schedule().begun()
    }

    /// Returns the current stage.
    #[must_use]
    pub const fn stage_name(&self) -> StageName {
        self.stage.name()
    }

    /// Requests that have not ended, waiting or in flight.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.exchange.open()
    }

    /// True if the manager waits only for a timer or for a change of the fabric.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        let rests = matches!(
            self.stage,
            Stage::Idle | Stage::Standby | Stage::Disabled | Stage::Stopped
        );
        rests && self.exchange.open() == 0
    }

    fn progress(&self) -> Progress {
        let open = self.exchange.open() as u64;
        match &self.stage {
            Stage::Discovering(discovery) => Progress {
                done: discovery.answers,
                total: discovery.answers + open,
            },
            Stage::Reading => {
                let (total, todo) = self.reading.progress();
                Progress {
                    done: total.saturating_sub(open + todo as u64),
                    total,
                }
            }
            Stage::Applying(apply, _) => Progress {
                done: (apply.counts().acknowledged + apply.counts().failed) as u64,
                // Counted once, when the plan was made: a view may be requested between any two MADs.
                total: self.in_force.change().count.total() as u64,
            },
            Stage::Probing(probe) => Progress {
                done: probe.answers(),
                total: probe.answers() + open,
            },
            Stage::Idle
            | Stage::MftBlocks(_)
            | Stage::GuidBlocks(_)
            | Stage::Electing
            | Stage::Planning { .. }
            | Stage::Persisting { .. }
            | Stage::LightSweep
            | Stage::Standby
            | Stage::HandingOver
            | Stage::Disabled
            | Stage::Stopped => Progress::default(),
        }
    }
}
