//! Checks that a due timer is served: a manager that is woken for it has an output.

use selvedge_sim::Time;
use selvedge_sm::{StageName, Timer};

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::ManagerId;

/// The next timer of a manager, its stage, and how many outputs of managers were carried out.
type State = ((Time, Timer), StageName, u64);

/// The state of the manager that is being woken, before it was woken.
#[derive(Debug, Default)]
pub(super) struct Timers(Option<State>);

impl Check for Timers {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        match *seen {
            Seen::Wakes { id, outputs } => self.0 = state(ctx, id, outputs),
            // A timer that is still due although the manager had no output would stay due for ever.
            Seen::Woken { id, outputs } => {
                let before = self.0.take();
                let same = state(ctx, id, outputs).filter(|now| Some(*now) == before);
                if let Some(((_, timer), ..)) = same {
                    let manager = ctx.managers[id.0].name.clone();
                    return Err(Violation::TimerNotServed { manager, timer });
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn state(scene: &Scene<'_>, id: ManagerId, outputs: u64) -> Option<State> {
    let sm = &scene.life(id)?.sm;
    Some((sm.next_timer()?, sm.stage_name(), outputs))
}
