//! What managers have done, as checkers and administrators get to know it.

use std::collections::VecDeque;
use std::sync::Arc;

use selvedge_sm::Milestone;

use super::Rehearsal;
use crate::manager::ManagerId;

impl Rehearsal {
    /// A manager reached a milestone.
    pub(super) fn reached(&mut self, id: ManagerId, milestone: Milestone) {
        let now = self.now;
        let Some(life) = &mut self.managers[id.0].life else {
            return;
        };
        match &milestone {
            Milestone::SweepStarted => {
                let chassis = self.emulator.chassis();
                life.boots = Arc::new(chassis.fabric().nodes().indices().map(|n| chassis.boots(n)).collect());
                (life.looked_at, life.swept_at) = (Some(now), Some(now));
                if let Some(watcher) = &mut self.watcher {
                    watcher.forgets(life.client);
                }
            }
            // A result that the manager drops leads to none.
            Milestone::Coming { was_known, .. } => {
                if let Some(offered) = life.offered.take() {
                    life.accepted = Some(offered);
                }
                self.known_repairs += u64::from(*was_known);
            }
            Milestone::Swept(_)
            | Milestone::Committed(_)
            | Milestone::CopiesChanged(_)
            | Milestone::RoleChanged { .. }
            | Milestone::TrapTaken(_) => {}
        }
        if let Some(milestones) = &mut self.milestones {
            milestones.push_back((id, milestone));
        }
    }

    /// From now on milestones are kept for [`Self::next_milestone`].
    pub(crate) fn keep_milestones(&mut self) {
        self.milestones = Some(VecDeque::new());
    }

    /// The oldest milestone that was not taken yet.
    pub(crate) fn next_milestone(&mut self) -> Option<(ManagerId, Milestone)> {
        self.milestones.as_mut()?.pop_front()
    }

    /// True if there is one.
    pub(crate) fn has_milestones(&self) -> bool {
        self.milestones
            .as_ref()
            .is_some_and(|milestones| !milestones.is_empty())
    }
}
