//! What is prepared while nothing happens, so that a repair has little left to do.

use selvedge_plan::Plan;
use selvedge_sim::Par;
use selvedge_verify::Subject;
use selvedge_verify::standing::Standing;

use crate::inventory::Inventory;

/// What makes a repair fast. It is owned by the manager between jobs and by the repair while it runs; without it a
/// repair takes longer and comes to the same.
#[derive(Clone, Debug, Default)]
pub struct Warm {
    /// The judge's proof of the plan in force; `None` if it is not covered. Memory: see [`Standing`].
    pub standing: Option<Standing>,
}

impl Warm {
    /// Prepares for what may happen to a plan in force. Takes about as long as judging it did.
    pub fn new(inventory: &Inventory, plan: &Plan, par: Par) -> Self {
        Self {
            standing: Standing::new(Subject::plan(&inventory.fabric, plan), par).ok(),
        }
    }
}
