//! Checks that a master represses each trap in time.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_emulator::ClientId;
use selvedge_sim::Time;
use selvedge_sm::Role;
use selvedge_types::TransactionId;
use selvedge_wire::Method;

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::rules::Checker;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::ManagerId;

/// Longest time until a simulated master represses a trap.
const TRAP_ANSWER: Duration = Duration::from_millis(10);
/// The limit for a manager that is a program of its own: its process may have to wait.
const TRAP_ANSWER_OUTSIDE: Duration = Duration::from_secs(1);

/// Traps that a master received and has not repressed, with the manager and the time of arrival.
#[derive(Debug, Default)]
pub(super) struct Traps(BTreeMap<(ClientId, TransactionId), (ManagerId, Time)>);

impl Check for Traps {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, found: &mut Ledger) -> Result<(), Violation> {
        match *seen {
            Seen::Receives { id, client, datagram } if datagram.mad.method() == Method::Trap => {
                let is_master = || ctx.life(id).is_some_and(|life| life.sm.role() == Role::Master);
                if ctx.evidence.is_outside() || is_master() {
                    self.0.insert((client, datagram.mad.transaction()), (id, ctx.now));
                }
            }
            Seen::Sends { client, datagram, .. } if datagram.mad.method() == Method::TrapRepress => {
                self.0.remove(&(client, datagram.mad.transaction()));
            }
            Seen::Killed(id) => self.0.retain(|_, (of, _)| *of != id),
            Seen::Step if ctx.evidence.is_outside() => return self.in_time_outside(ctx, found),
            Seen::Step => return self.in_time(ctx),
            _ => {}
        }
        Ok(())
    }
}

impl Traps {
    /// Fails if a master does not repress a trap at once. A manager that was killed or stood by in between need not.
    fn in_time(&mut self, scene: &Scene<'_>) -> Result<(), Violation> {
        let mut ignored = None;
        self.0.retain(|&(client, _), &mut (id, at)| {
            let life = scene.life(id).filter(|life| life.client == client);
            let counts = life.is_some_and(|life| life.sm.role() == Role::Master);
            if counts && scene.now > at + TRAP_ANSWER {
                ignored = Some(id);
            }
            counts
        });
        ignored.map_or(Ok(()), |id| Err(violation(scene, id, TRAP_ANSWER)))
    }

    fn in_time_outside(&mut self, scene: &Scene<'_>, found: &mut Ledger) -> Result<(), Violation> {
        let is_overdue = |at: Time| scene.now > at + TRAP_ANSWER_OUTSIDE;
        let overdue = self.0.iter().find(|(_, (_, at))| is_overdue(*at));
        let Some((&key, &(id, _))) = overdue else { return Ok(()) };
        self.0.remove(&key);
        found.raise(Checker::Traps, violation(scene, id, TRAP_ANSWER_OUTSIDE))
    }
}

fn violation(scene: &Scene<'_>, id: ManagerId, answer: Duration) -> Violation {
    Violation::TrapIgnored {
        manager: scene.managers.get(id.0).map_or_else(String::new, |m| m.name.clone()),
        millis: u64::try_from(answer.as_millis()).unwrap_or(0),
    }
}
