//! What nobody is to change stays as it is: routes of which every entry is as planned.

use selvedge_chassis::Chassis;
use selvedge_types::Lid;

use super::routes::Delta;
use super::{Checker, Rule, Watcher, name};
use crate::Violation;
use crate::manager::{AcceptedPlan, Manager};

impl Watcher {
    /// A Set leaves alone what its manager's plan leaves alone: a live route of which every entry is as planned.
    pub(super) fn untouched_stay(
        &mut self,
        chassis: &Chassis,
        by: Option<&Manager>,
        delta: &Delta,
        excuse: Option<Rule>,
    ) -> Result<(), Violation> {
        let Some(accepted) = by.and_then(|manager| manager.life.as_ref()?.accepted.as_ref()) else {
            return Ok(());
        };
        for violation in self.touched(chassis, accepted, delta) {
            let checker = match violation {
                Violation::RouteLost { .. } => Checker::Routes,
                _ => Checker::Untouched,
            };
            self.judge(checker, excuse, || violation)?;
        }
        Ok(())
    }

    /// Routes that were as planned and are not any more; one for each entry.
    fn touched(&self, chassis: &Chassis, accepted: &AcceptedPlan, delta: &Delta) -> Vec<Violation> {
        let planned = |at: u8, lid: Lid| {
            let node = accepted
                .fabric
                .find(chassis.node_guid(self.routes.switch(at.into())?))?;
            Some(accepted.plan.tables.get(accepted.fabric.switch_index(node)?, lid))
        };
        let place = |at: u8| {
            let node = self.routes.switch(at.into());
            node.map_or_else(String::new, |node| name(chassis, node))
        };
        let mut touched = Vec::new();
        for changed in &delta.changed {
            let (lid, at) = (changed.lid, changed.at);
            if planned(at, lid) != Some(changed.was) {
                continue;
            }
            let ways = self.routes.ways_before(lid, changed.from);
            let is_planned = |way: &Vec<(u8, u8)>| way.iter().all(|&(at, port)| planned(at, lid) == Some(port));
            let passes = |way: &Vec<(u8, u8)>| way.iter().any(|&(switch, _)| switch == at);
            let counts =
                |way: &&Vec<(u8, u8)>| passes(way) && is_planned(way) && self.matters(chassis, lid, 1 << way[0].0);
            if let Some(way) = ways.iter().find(counts) {
                let is_lost = self.routes.delivered(lid) & 1 << way[0].0 == 0;
                let now = self.routes.entry(at, lid);
                let (from, at) = (
                    place(way[0].0),
                    format!("{} (entry {} to {now})", place(at), changed.was),
                );
                touched.push(match is_lost {
                    true => Violation::RouteLost { lid, from, at },
                    false => Violation::RouteMoved { lid, from, at },
                });
            }
        }
        touched
    }
}
