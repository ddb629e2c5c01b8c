//! Finds the managers that are masters, and the subnets of which they are.

use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_sm::Role;

use super::seen::Scene;
use crate::manager::{Life, Manager};

/// How long one subnet may have two masters after a partition heals. If the trap about the other master was lost, a
/// light sweep (at 10 s) finds it, and the master with the lower priority hands over after one heavy sweep.
pub(super) const TWO_MASTERS_MAX: Duration = Duration::from_secs(15);

/// Returns the managers with a running process, each with this process.
pub(super) fn lives(managers: &[Manager]) -> impl Iterator<Item = (&Manager, &Life)> {
    managers.iter().filter_map(|m| Some((m, m.life.as_ref()?)))
}

/// Returns the managers that are masters, each with its process.
pub(super) fn masters(managers: &[Manager]) -> impl Iterator<Item = (&Manager, &Life)> {
    lives(managers).filter(|(_, life)| life.sm.role() == Role::Master)
}

/// Returns the master of the subnet of a port, if that subnet has exactly one.
pub(super) fn only_master<'a>(scene: &Scene<'a>, port: PortIdx) -> Option<&'a Life> {
    let is_here = |life: &Life| {
        let at = scene.emulator.port_of(life.client);
        at.is_some_and(|at| scene.subnets.connected(at, port))
    };
    let mut here = masters(scene.managers)
        .map(|(_, life)| life)
        .filter(|life| is_here(life));
    let first = here.next();
    first.filter(|_| here.next().is_none())
}

/// True for a master if all agents hold its last plan.
pub(super) fn is_content(life: &Life) -> bool {
    let view = life.sm.view();
    view.role == Role::Master && view.is_up()
}
