//! Actions of an operator when a manager reports that it needs one.

use selvedge_planner::PortReason;
use selvedge_sm::Role;

use super::action::{Action, Setting};
use super::world::World;
use crate::{ManagerId, RehearsalError};

impl World<'_> {
    /// Requests a sweep on behalf of the operator, if a link is left out because it went down too often. Without the
    /// request the link would stay out for ten minutes.
    pub(super) fn let_in(&mut self, id: ManagerId, name: &str) -> Result<(), RehearsalError> {
        let view = self.rehearsal.view(id).unwrap_or_default();
        let mut left_out = view.ports.iter().filter(|report| report.reason == PortReason::LeftOut);
        let is_it = |at| view.fabric.as_ref().is_some_and(|fabric| fabric.port_name(at) == name);
        let ends = |at| [Some(at), view.fabric.as_ref().and_then(|fabric| fabric.peer(at))];
        if left_out.any(|report| ends(report.port).into_iter().flatten().any(is_it)) {
            self.rehearsal.count_left_out();
            self.act(Action::Sweep(id.0))?;
        }
        Ok(())
    }

    /// Proposes the operator's policy to all managers again, because the judge refused it while something was broken.
    pub(super) fn propose_again(&mut self) -> Result<(), RehearsalError> {
        let setting = Setting::Lmc(self.operator.policy.lmc);
        self.act(Action::Policy(setting))
    }

    /// Gives a master a former M_Key, as SLV-SM-0015 advises the operator: ports in reach of the master hold this key,
    /// and no manager in reach that could set them was ever given it. Returns true if there is such a key.
    pub(super) fn give_former_key(&mut self) -> Result<bool, RehearsalError> {
        let present = self.operator.policy.m_key;
        for (which, &id) in self.managers.ids().iter().enumerate() {
            let is_refused = self
                .rehearsal
                .view(id)
                .is_some_and(|view| view.facts.m_key_foreign.is_some());
            let lacking = is_refused.then(|| self.rehearsal.keys_never_given(id));
            let key = lacking.and_then(|lacking| self.operator.keys.give(which, lacking, present));
            if let Some(key) = key {
                self.rehearsal.count_never_given();
                self.act(Action::Policy(Setting::MKey(key)))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Loads the M_Key that is wanted, if all is well with a former one. Returns true if there is such a key.
    pub(super) fn load_wanted_key(&mut self) -> Result<bool, RehearsalError> {
        match self.operator.keys.take_wanted() {
            Some(key) => self.act(Action::Policy(Setting::MKey(key))).map(|()| true),
            None => Ok(false),
        }
    }

    /// Reboots nodes with unknown M_Keys on behalf of the operator: a manager does not change such ports, and reports
    /// that they must be reset. Only nodes with a key that a flipped bit caused are rebooted, each of them once.
    /// Returns true if any node was rebooted.
    pub(super) fn reset_keys(&mut self) -> Result<bool, RehearsalError> {
        let views = self.managers.ids().iter().filter_map(|&id| self.rehearsal.view(id));
        let refuses = views.filter(|view| view.role == Role::Master && view.plan.is_none());
        if refuses.count() == 0 {
            return Ok(false);
        }
        let flipped = self.rehearsal.keys_flipped(self.operator.policy.m_key);
        let fresh = self.operator.reset(flipped);
        for &node in &fresh {
            self.rehearsal.count_locked();
            let name = self.ground.name(node);
            self.fault(&format!("reboot {name}"))?;
        }
        Ok(!fresh.is_empty())
    }
}
