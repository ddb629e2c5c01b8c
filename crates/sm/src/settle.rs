//! After a repair: a background job finds out how long packets under way matter, and by which entries they may go.

use selvedge_planner::past::Past;
use selvedge_planner::{Settle, Task};
use selvedge_sim::Time;

use crate::core::Sm;
use crate::io::Output;

impl Sm {
    /// Has it worked out for how long packets under way matter, if that is not known.
    pub(crate) fn settle(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(inventory) = self.inventory.clone().filter(|_| self.past.is_unsettled()) else {
            return;
        };
        let switches = inventory.fabric.switches().len();
        let task = Settle::new(self.past.clone(), now, switches);
        self.compute(Task::Settle(Box::new(task)), out);
    }

    /// It is known: the next repair has less to do if what packets under way may do is worked out before it.
    pub(crate) fn settled(&mut self, settled: Past, out: &mut Vec<Output>) {
        if self.past.take_settled(settled) {
            self.prepare_for_what_is_under_way(out);
        }
    }
}
