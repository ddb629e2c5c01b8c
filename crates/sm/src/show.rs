//! What a manager tells about itself.

use std::sync::Arc;

use crate::core::Sm;
use crate::election::Role;
use crate::stage::Stage;
use crate::view::{Progress, StageName, View};

impl Sm {
    /// What it shows of itself.
    #[must_use]
    pub fn view(&self) -> View {
        let mut view = self.view.clone();
        let counters = self.exchange.counters();
        (view.role, view.master) = (self.election().role(), self.election().master());
        view.stage = self.stage.name();
        view.progress = self.progress();
        view.wait = match &self.stage {
            Stage::Applying(apply, _) => apply.wait(),
            _ => None,
        };
        view.applying = match &self.stage {
            Stage::Applying(apply, _) => Some((Arc::clone(apply.outcome()), apply.phase())),
            _ => None,
        };
        view.balance = self.rebalancer().status();
        view.policy = Some(Arc::clone(&self.config.policy));
        view.read_back = self.read_back_figures();
        view.has_repairs_ready = self.has_repairs_ready();
        view.mads.repeats = counters.repeats;
        view.mads.failures = counters.failed;
        view.mads.dropped += counters.stray;
        view
    }

    /// Its role.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.election().role()
    }

    /// What it is doing.
    #[must_use]
    pub const fn stage_name(&self) -> StageName {
        self.stage.name()
    }

    /// Requests that have not ended, waiting or in flight.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.exchange.open()
    }

    /// True if it waits for nothing but time and the fabric.
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
            Stage::Reading { total, todo, .. } => Progress {
                done: total.saturating_sub(open + todo.len() as u64),
                total: *total,
            },
            Stage::Applying(apply, _) => Progress {
                done: (apply.counts().acknowledged + apply.counts().failed) as u64,
                // Counted once, when the plan came: a view may be asked for between any two MADs.
                total: self.view.changes.total() as u64,
            },
            Stage::Probing(probe) => Progress {
                done: probe.answers(),
                total: probe.answers() + open,
            },
            Stage::Idle
            | Stage::Copying(_)
            | Stage::Naming(_)
            | Stage::Electing
            | Stage::Planning { .. }
            | Stage::Persisting { .. }
            | Stage::LightSweep { .. }
            | Stage::Standby
            | Stage::HandingOver
            | Stage::Disabled
            | Stage::Stopped => Progress::default(),
        }
    }
}
