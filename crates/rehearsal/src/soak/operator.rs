//! What an operator does when told that something is left to him.

use selvedge_sm::{Command, PortReason};

use super::world::World;
use crate::{ManagerId, RehearsalError};

impl World<'_> {
    /// A link that went down too often is left out for ten minutes, or until the operator asks for a sweep: he does.
    pub(super) fn let_in(&mut self, id: ManagerId, name: &str) -> Result<(), RehearsalError> {
        let view = self.rehearsal.view(id).unwrap_or_default();
        let mut left_out = view.ports.iter().filter(|report| report.reason == PortReason::LeftOut);
        let is_it = |at| view.fabric.as_ref().is_some_and(|fabric| fabric.port_name(at) == name);
        let ends = |at| [Some(at), view.fabric.as_ref().and_then(|fabric| fabric.peer(at))];
        if left_out.any(|report| ends(report.port).into_iter().flatten().any(is_it)) {
            self.note("the operator asks for a sweep, to let a link back in");
            self.rehearsal.count_left_out();
            self.rehearsal.command(id, Command::Sweep)?;
        }
        Ok(())
    }
}
