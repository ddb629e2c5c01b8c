//! Service levels that managers give to senders: stored, compared, and copied by a standby as its administrator does.

use std::collections::BTreeMap;

use selvedge_sm::{Command, Role, ToldLevels, View};
use selvedge_types::Guid;

use super::ScriptError;
use super::run::Runner;

impl Runner<'_> {
    /// Copies the levels from the master's administrator to a standby's administrator.
    pub(super) fn copy_levels(&mut self, name: &str, master: &str) -> Result<(), ScriptError> {
        let view = self.view(master)?;
        let plan = view.plan.as_ref();
        let by = plan
            .zip(view.inventory.as_ref())
            .and_then(|(plan, inventory)| plan.lids.base(inventory.local));
        let (Some(plan), Some(by)) = (plan, by) else {
            return Err(ScriptError::Missing {
                what: format!("plan of {master} in force"),
            });
        };
        let told = ToldLevels {
            by,
            lanes: plan.lanes,
            by_port: told(&view),
        };
        let id = self.id(name)?;
        Ok(self.world_mut()?.command(id, Command::Told(Box::new(told)))?)
    }

    /// Returns the levels that masters give, by port GUID.
    pub(super) fn told_by_masters(&self) -> Result<BTreeMap<Guid, Vec<u8>>, ScriptError> {
        let world = self.world()?;
        let views = world.managers().filter_map(|(id, _)| world.view(id));
        let masters = views.filter(|view| view.role == Role::Master);
        Ok(masters.flat_map(|view| told(&view)).collect())
    }

    /// Checks that senders get the same levels as at the last mark.
    pub(super) fn levels_unchanged(
        &self,
        name: &str,
        check: &dyn Fn(String, bool) -> Result<(), ScriptError>,
    ) -> Result<(), ScriptError> {
        let now = told(&self.view(name)?);
        let before = &self.mark.levels;
        let changed = before
            .iter()
            .filter(|(guid, levels)| now.get(guid) != Some(levels))
            .count();
        check(format!("others of {changed} ports"), changed == 0)
    }
}

/// Returns the service levels that a manager gives to senders: for each end port, those of its LIDs in order.
fn told(view: &View) -> BTreeMap<Guid, Vec<u8>> {
    let (Some(plan), Some(fabric)) = (&view.plan, &view.fabric) else {
        return BTreeMap::new();
    };
    let levels = plan.told_levels();
    let of = plan.lids.iter().filter_map(|(at, range)| {
        let of_lids = range.iter().map(|lid| levels.to(lid).get()).collect();
        Some((fabric.port(at)?.guid, of_lids))
    });
    of.collect()
}
