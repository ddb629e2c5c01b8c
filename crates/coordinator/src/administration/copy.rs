//! Informs a standby's manager of the state of its copy of the master's registrations.

use selvedge_sa::{Copier, Worth};
use selvedge_sim::Time;
use selvedge_sm::{Command, ToldLevels};

use super::command;
use crate::io::Out;

/// The state of the copy that the manager was last informed of.
#[derive(Debug, Default)]
pub(super) struct CopyNews {
    /// How complete the copy is.
    worth: Worth,
    /// True if the manager may take the subnet over: the copy is complete, or cannot be obtained.
    is_ready: bool,
}

impl CopyNews {
    /// Returns when the manager stops waiting for the copy; `None` if it does not wait.
    pub(super) fn next_wake(&self, copier: &Copier) -> Option<Time> {
        copier.settled_at().filter(|_| !self.is_ready)
    }

    /// Informs the manager about the copy of registrations. Hosts that must be asked to register again, and service
    /// levels of senders, go first, because the manager may plan with them as soon as the copy is complete or the wait
    /// for it ends.
    pub(super) fn tell(&mut self, now: Time, copier: &mut Copier, out: &mut Vec<Out>) {
        if let Some(forgotten) = copier.take_forgotten() {
            out.push(command(Command::ReregisterThese(forgotten)));
        }
        if let Some(list) = copier.take_out_of_service() {
            out.push(command(Command::OutOfService(list)));
        }
        if let Some(levels) = copier.take_levels() {
            let selvedge_sa::ToldLevels { by, lanes, by_port } = *levels;
            let levels = ToldLevels { by, lanes, by_port };
            out.push(command(Command::Told(Box::new(levels))));
        }
        let worth = copier.worth();
        if std::mem::replace(&mut self.worth, worth) != worth {
            out.push(command(match worth {
                Worth::All => Command::Registered,
                Worth::Unproven => Command::Unproven,
                Worth::Part => Command::Reregister,
            }));
        }
        if copier.is_settled(now) && !std::mem::replace(&mut self.is_ready, true) {
            out.push(command(Command::Ready));
        }
    }
}
