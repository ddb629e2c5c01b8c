//! Entries and LIDs that packets in flight may still use: entries that are no longer in force, and LIDs that were given
//! up.
//!
//! `selvedge_planner::past` computes how long a plan must wait for these packets.

mod given_up;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::{Installed, Plan, UnderWay};
use selvedge_planner::past::{After, Past, Taken, Unanswered};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid, PortNum};
use selvedge_verify::phases::is_live;

use given_up::GivenUp;

/// Entries and LIDs that packets in flight may still use.
#[derive(Debug, Default)]
pub struct Drain {
    /// Entries that are no longer in force.
    past: Past,
    /// LIDs that belonged to other ports until recently.
    given_up: GivenUp,
}

/// A fabric, and the tables that its switches hold as far as known.
pub type Known<'a> = (&'a Fabric, &'a Installed);

/// A change of tables, from its first Set, or from the last wait, onwards.
#[derive(Debug)]
pub struct Step {
    /// The blocks that agents have acknowledged.
    pub taken: Taken,
    /// True if packets from before the step drained while it was applied.
    pub has_drained: bool,
    /// When the last Set of the step was acknowledged.
    pub at: Time,
    /// The fabric, the plan and the tables after the step.
    pub after: After,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// A query for the packets in flight on a fabric.
    Asked(&'a Fabric),
    /// The known fabric and tables are about to be replaced.
    Replaced {
        /// The state before.
        before: Known<'a>,
        /// The state after the change; `None` if this manager is not master, or knows no table.
        after: Option<Known<'a>>,
    },
    /// A sweep has read all tables.
    TablesRead {
        /// The state before.
        before: Option<Known<'a>>,
        /// The state after the reading.
        after: Known<'a>,
        /// True if a table had other contents than the manager recorded.
        is_astray: bool,
    },
    /// A table of this fabric differs from what was written: its Set may have reached another switch.
    Astray(&'a Fabric),
    /// Another manager was master of this fabric until this time.
    Stranger(Time, &'a Fabric),
    /// A switch port was not ACTIVE at some time after this Get, so no packet from before waits there.
    Emptied(Guid, PortNum, Time),
    /// A plan is about to be applied to a fabric with these tables.
    Applying(Known<'a>, &'a Plan),
    /// A plan was applied as far as possible.
    Applied {
        /// The last step of the plan.
        step: Step,
        /// Sets without an acknowledgement.
        unanswered: Unanswered,
        /// True if the plan gives ports fewer LIDs than wanted.
        is_short: bool,
    },
    /// A sweep interrupts a plan that is applied in part.
    Interrupted {
        /// Sets without an acknowledgement.
        unanswered: Unanswered,
        /// The last step before the current wait.
        step: Option<Step>,
    },
    /// A job has computed how long packets may still be in flight.
    Settled(Box<Past>),
    /// A sweep begins that gives waiting ports their LIDs.
    LidsSwept,
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// The answer to [`In::Asked`]: packets that may be in flight; `None`: there are none.
    UnderWay(Option<Arc<UnderWay>>),
    /// It is now known for how long packets may still be in flight.
    Settled,
}

impl Drain {
    /// Handles one input at this time, and appends its effects.
    pub fn handle(&mut self, now: Time, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Asked(fabric) => effects.push(Effect::UnderWay(self.past.under_way(fabric, now))),
            In::Replaced { before, after } => {
                if is_live(before.0) {
                    self.past.note_carried(now);
                }
                if let Some(after) = after {
                    self.past.note_gone(before, after, now);
                }
            }
            In::TablesRead {
                before,
                after: (fabric, installed),
                is_astray,
            } => {
                if is_astray {
                    self.past.note_astray(fabric);
                }
                self.past.note_read(fabric, before, installed, now);
            }
            In::Astray(fabric) => self.past.note_astray(fabric),
            In::Stranger(last, fabric) => self.past.note_stranger(last, fabric),
            In::Emptied(switch, port, asked) => self.past.note_emptied(switch, port, asked),
            In::Applying((fabric, installed), plan) => self.given_up.begin(fabric, installed, plan),
            In::Applied {
                step,
                unanswered,
                is_short,
            } => {
                self.take(step);
                self.past.note_unanswered(unanswered);
                self.given_up.settle(now);
                self.given_up.set_short(is_short, now);
            }
            In::Interrupted { unanswered, step } => {
                self.past.note_unanswered(unanswered);
                if let Some(step) = step {
                    self.take(step);
                }
                self.given_up.settle(now);
            }
            In::Settled(settled) => {
                if self.past.take_settled(*settled) {
                    effects.push(Effect::Settled);
                }
            }
            In::LidsSwept => self.given_up.swept(),
        }
    }

    fn take(&mut self, step: Step) {
        self.past.add(step.taken, step.has_drained, step.at, step.after);
    }

    /// Returns for how much longer packets may be in flight that unknown entries forwarded.
    pub fn fog(&self, now: Time) -> Duration {
        self.past.fog(now)
    }

    /// Returns true if links between switches that the last sweep did not find carried packets until recently. Then
    /// packets may be in flight that the remaining switches forwarded by the entries of that time.
    pub fn has_carried(&self, fabric: &Fabric, now: Time) -> bool {
        self.past.has_carried(fabric, now)
    }

    /// Returns true if packets may be in flight, and it is known for how long they may be.
    pub fn is_settled_with_some(&self) -> bool {
        self.past.is_settled_with_some()
    }

    /// Returns the input of the job that computes how long packets may still be in flight; `None` if that is known.
    pub fn unsettled(&self) -> Option<Past> {
        self.past.is_unsettled().then(|| self.past.clone())
    }

    /// Returns the given-up LIDs to which packets may still be in flight.
    pub fn resting(&self, now: Time) -> BTreeSet<Lid> {
        self.given_up.resting(now)
    }

    /// Returns when waiting ports may get LIDs, if that time is still ahead.
    pub fn lids_due(&self, now: Time) -> Option<Time> {
        self.given_up.due(now)
    }

    /// Returns true if ports may get the LIDs that they wait for.
    pub fn are_lids_due(&self, now: Time) -> bool {
        self.given_up.is_due(now)
    }
}

#[cfg(test)]
mod tests {
    use selvedge_plan::BLOCK_LIDS;

    use super::*;
    use crate::made::{empty_plan, guid, inventory, row};

    #[test]
    fn packets_are_under_way_for_two_lifetimes_after_a_change() {
        let check = |has_written: bool, want: bool| {
            let (mut drain, inventory) = (Drain::default(), inventory(row()));
            let mut taken = Taken::default();
            if has_written {
                taken.note((guid(1), 0, [1; BLOCK_LIDS]), None);
            }
            let step = Step {
                taken,
                has_drained: false,
                at: Time::ZERO,
                after: After {
                    fabric: Arc::clone(&inventory.fabric),
                    plan: Arc::new(empty_plan()),
                    installed: Arc::new(Installed::unknown(2)),
                },
            };
            let unanswered = Unanswered::default();
            let applied = In::Applied {
                step,
                unanswered,
                is_short: false,
            };
            drain.handle(Time::ZERO, applied, &mut Vec::new());
            let mut is_under_way = |now| {
                let mut effects = Vec::new();
                drain.handle(now, In::Asked(&inventory.fabric), &mut effects);
                matches!(effects[..], [Effect::UnderWay(Some(_))])
            };
            assert_eq!(is_under_way(Time(1)), want);
            assert!(!is_under_way(Time::from_secs(3)));
        };
        check(true, true);
        check(false, false);
    }
}
