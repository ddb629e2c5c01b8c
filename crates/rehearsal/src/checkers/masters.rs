//! Which managers are masters, and of which subnets.

use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_sm::Role;

use super::seen::Scene;
use crate::manager::{Life, Manager};

/// Two masters may meet when a partition heals. A light sweep (10 s) finds the other if its trap was lost, and one
/// sweep, in which the worse one hands over, settles it.
pub(super) const TWO_MASTERS_MAX: Duration = Duration::from_secs(15);

/// Managers with a process.
pub(super) fn lives(managers: &[Manager]) -> impl Iterator<Item = (&Manager, &Life)> {
    managers.iter().filter_map(|m| Some((m, m.life.as_ref()?)))
}

/// Those that are masters.
pub(super) fn masters(managers: &[Manager]) -> impl Iterator<Item = (&Manager, &Life)> {
    lives(managers).filter(|(_, life)| life.sm.role() == Role::Master)
}

/// The master around a port, if it is the only one there.
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

/// True for a master whose last plan is in every agent.
pub(super) fn is_content(life: &Life) -> bool {
    let view = life.sm.view();
    view.role == Role::Master && view.is_up()
}
