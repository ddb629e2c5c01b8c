//! Checks that a subnet does not have two masters for longer than a short time.

use selvedge_chassis::PortIdx;
use selvedge_sim::Time;

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::masters::{TWO_MASTERS_MAX, masters};
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::{Life, Manager};

/// Checks that a subnet has one master; records the times at which there were several.
#[derive(Debug, Default)]
pub(super) struct OneMaster {
    /// Since when two masters of one subnet have known of each other.
    since: Option<Time>,
    /// The last time at which several managers were masters, in whatever subnets: Sets of one master may have reached
    /// switches of another.
    several: Option<Time>,
}

impl Check for OneMaster {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        match seen {
            Seen::Event { .. } => self.in_time(ctx),
            _ => Ok(()),
        }
    }
}

impl OneMaster {
    /// Returns the last time at which several managers were masters, in whatever subnets.
    pub const fn several(&self) -> Option<Time> {
        self.several
    }

    fn in_time(&mut self, scene: &Scene<'_>) -> Result<(), Violation> {
        let masters: Vec<(&Manager, &Life, PortIdx)> = masters(scene.managers)
            .filter_map(|(manager, life)| Some((manager, life, scene.emulator.port_of(life.client)?)))
            .collect();
        if masters.len() > 1 {
            self.several = Some(scene.now);
        }
        // A switch with a hanging agent hides one master from the other: while neither sees the other, both are right.
        let knows = |life: &Life, port: PortIdx| {
            let guid = scene.chassis().node_guid(scene.chassis().wire(port).node());
            let accepted = life.plans.accepted();
            accepted.is_some_and(|plan| plan.fabric.find(guid).is_some())
        };
        let pair = masters.iter().enumerate().find_map(|(i, (first, life, at))| {
            let meets = |(_, of_other, other): &&(&Manager, &Life, PortIdx)| {
                scene.subnets.connected(*at, *other) && (knows(life, *other) || knows(of_other, *at))
            };
            masters[i + 1..].iter().find(meets).map(|(second, ..)| (first, second))
        });
        let Some((first, second)) = pair else {
            self.since = None;
            return Ok(());
        };
        let span = scene.now.since(*self.since.get_or_insert(scene.now));
        match span > TWO_MASTERS_MAX {
            true => Err(Violation::TwoMasters {
                first: first.name.clone(),
                second: second.name.clone(),
                seconds: span.as_secs(),
            }),
            false => Ok(()),
        }
    }
}
