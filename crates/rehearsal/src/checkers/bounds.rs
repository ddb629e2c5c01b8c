//! Checks two bounds. A manager sends no Set before one of its plans is accepted, and holds no more requests and jobs
//! than the size of its fabric explains.

use selvedge_sm::Mode;

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::masters::lives;
use super::seen::{Scene, Seen};
use crate::Violation;

/// Largest number of unfinished jobs and store requests. A sweep may begin some while those of the last sweep are
/// unfinished.
const JOBS_MAX: usize = 16;

/// Checks that managers keep the limits of this module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds;

impl Check for Bounds {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        match seen {
            Seen::Event { .. } => sets_are_judged(ctx).and_then(|()| memory_is_bounded(ctx)),
            _ => Ok(()),
        }
    }
}

/// Fails if a manager sent a Set before the judge accepted one of its plans, or sent any Set in a mode other than
/// Manage. The emulator counts the Sets.
fn sets_are_judged(scene: &Scene<'_>) -> Result<(), Violation> {
    for (manager, life) in lives(scene.managers) {
        let mode = manager.config.mode;
        let may_send = mode == Mode::Manage && life.plans.accepted().is_some();
        let sets = scene.emulator.sets_sent_by(life.client);
        if !may_send && sets > 0 {
            return Err(Violation::UnjudgedSet {
                manager: manager.name.clone(),
                mode,
                sets,
            });
        }
    }
    Ok(())
}

/// Fails if a manager has more open jobs or requests than the size of its fabric explains: discovery sends a few
/// requests to each node and port, and applying a plan keeps a few windows queued.
fn memory_is_bounded(scene: &Scene<'_>) -> Result<(), Violation> {
    let chassis = scene.chassis();
    for (manager, life) in lives(scene.managers) {
        let requests = 4 * manager.config.window + 4 * chassis.fabric().nodes().len() + 2 * chassis.port_count();
        let held = [(life.pending.len(), JOBS_MAX), (life.sm.open_requests(), requests)];
        if let Some((open, limit)) = held.into_iter().find(|(open, limit)| open > limit) {
            return Err(Violation::Memory {
                manager: manager.name.clone(),
                open,
                limit,
            });
        }
    }
    Ok(())
}
