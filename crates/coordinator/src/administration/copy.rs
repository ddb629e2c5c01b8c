//! What a standby's copy of the master's registrations means for its manager.

use selvedge_sa::{Copier, Worth};
use selvedge_sim::Time;
use selvedge_sm::{Command, ToldLevels};

use super::command;
use crate::io::Out;

/// What the manager knows of the copy.
#[derive(Debug, Default)]
pub(super) struct CopyNews {
    /// What the copy is worth.
    worth: Worth,
    /// The manager may take the subnet over: the copy is there, or cannot be had.
    is_ready: bool,
}

impl CopyNews {
    /// Returns when the manager is to learn that it waits for the copy no longer.
    pub(super) fn next_wake(&self, copier: &Copier) -> Option<Time> {
        copier.settled_at().filter(|_| !self.is_ready)
    }

    /// Tells the manager what is new. Which hosts to ask and which service levels senders use come first: when the copy
    /// is complete, or the manager waits for it no longer, the next plan may be made from them.
    pub(super) fn tell(&mut self, now: Time, copier: &mut Copier, out: &mut Vec<Out>) {
        if let Some(forgotten) = copier.take_forgotten() {
            out.push(command(Command::ReregisterThese(forgotten)));
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
