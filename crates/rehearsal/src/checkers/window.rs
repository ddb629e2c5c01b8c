//! Checks the requests in flight: no more than the window of their manager allows.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_emulator::ClientId;
use selvedge_sim::Time;
use selvedge_types::TransactionId;
use selvedge_wire::Method;

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::ManagerId;

/// A request that has waited so long no longer fills the window: one slow agent must not hold up requests to others.
const STALE_AFTER: Duration = Duration::from_millis(20);
/// Requests beyond the window: a repeat may be in flight together with the late answer to the first request.
const WINDOW_SLACK: usize = 4;

/// Requests of each manager that have no answer yet, each with the time after which it counts as lost.
#[derive(Debug, Default)]
pub(super) struct Window(BTreeMap<ClientId, BTreeMap<TransactionId, Time>>);

impl Check for Window {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        match *seen {
            // The window of a program is not known.
            Seen::Sends {
                id,
                client,
                datagram,
                timeout,
            } if !ctx.evidence.is_outside() => {
                let mad = &datagram.mad;
                if mad.class().is_smp() && matches!(mad.method(), Method::Get | Method::Set) {
                    let open = self.0.entry(client).or_default();
                    open.insert(mad.transaction(), ctx.now + timeout.min(STALE_AFTER));
                    return within(open, ctx, id);
                }
            }
            Seen::Receives { client, datagram, .. } if datagram.mad.method() == Method::GetResp => {
                if let Some(open) = self.0.get_mut(&client) {
                    open.remove(&datagram.mad.transaction());
                }
            }
            Seen::LooksAnew(client) => drop(self.0.remove(&client)),
            _ => {}
        }
        Ok(())
    }
}

fn within(open: &mut BTreeMap<TransactionId, Time>, scene: &Scene<'_>, id: ManagerId) -> Result<(), Violation> {
    let Some(manager) = scene.managers.get(id.0) else {
        return Ok(());
    };
    let limit = manager.config.window + WINDOW_SLACK;
    if open.len() > limit {
        open.retain(|_, until| *until > scene.now);
    }
    match open.len() > limit {
        true => Err(Violation::Window {
            manager: manager.name.clone(),
            open: open.len(),
            limit,
        }),
        false => Ok(()),
    }
}
