//! What hosts have registered, between administrator, manager and, while this one stands by, the master.

use std::sync::Arc;

use selvedge_sim::Time;
use selvedge_sm::{Command, Input, Role};

use super::{Driver, SHOW_INTERVAL};
use crate::DaemonError;

impl Driver {
    /// Tells the manager which groups have changed: not too often, as a thousand hosts may join at once.
    pub(super) fn tell_groups(&mut self, now: Time) -> Result<(), DaemonError> {
        let mut desk = self.seat.desk();
        if !desk.administrator.has_changed_groups() || now.since(self.groups_told_at) < SHOW_INTERVAL {
            return Ok(());
        }
        self.groups_told_at = now;
        let groups = desk.administrator.take_changed_groups();
        drop(desk);
        self.feed(Input::Groups(groups))
    }

    /// Tells the manager whether hosts need to be asked should it become master now.
    pub(super) fn tell_copy(&mut self) -> Result<(), DaemonError> {
        let is_all = self.seat.desk().copier.is_all();
        if std::mem::replace(&mut self.is_copied, is_all) == is_all {
            return Ok(());
        }
        let command = if is_all {
            Command::Registered
        } else {
            Command::Reregister
        };
        self.feed(Input::Command(command))
    }

    /// Tells the administrator which groups are there from the start.
    pub(super) fn tell_partitions(&mut self) -> Result<(), DaemonError> {
        let Some(policy) = self.sm.view().policy else {
            return Ok(());
        };
        if self.partitions.as_ref() == Some(&policy.partitions) {
            return Ok(());
        }
        self.partitions = Some(Arc::clone(&policy.partitions));
        self.administer(selvedge_sa::Input::Presets(Arc::clone(&policy.partitions)))
    }

    /// Questions are answered by the master only, and what hosts register is known to the master only.
    pub(super) fn role_changed(&mut self, role: Role) -> Result<(), DaemonError> {
        let mut desk = self.seat.desk();
        desk.copier.end();
        match role {
            Role::Master => Ok(desk.administer(selvedge_sa::Input::Serve)?),
            // Our own link is down: when it comes back there may be nobody else still.
            Role::Discovering => Ok(desk.administer(selvedge_sa::Input::Withdraw)?),
            Role::Standby | Role::NotActive => {
                desk.keeper.lose();
                desk.administer(selvedge_sa::Input::Forget)?;
                // Beginning forgets the copy of before; who is not active asks nobody.
                desk.copier.begin(self.shared.clock.now());
                if role == Role::NotActive {
                    desk.copier.end();
                }
                drop(desk);
                self.is_copied = false;
                self.feed(Input::Command(Command::Reregister))
            }
        }
    }
}
