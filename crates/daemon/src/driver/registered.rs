//! What hosts have registered, between administrator, manager and, while this one stands by, the master.

use std::sync::Arc;

use selvedge_plan::Policy;
use selvedge_sa::Worth;
use selvedge_sim::Time;
use selvedge_sm::{Command, Committed, Input, Milestone, Role};

use super::{Driver, SHOW_INTERVAL};
use crate::DaemonError;

impl Driver {
    /// Tells the manager which groups and alias GUIDs have changed: not too often, a thousand hosts may join at once.
    pub(super) fn tell_groups(&mut self, now: Time) -> Result<(), DaemonError> {
        let mut desk = self.seat.desk();
        if !desk.administrator.has_changed_groups() || now.since(self.groups_told_at) < SHOW_INTERVAL {
            return Ok(());
        }
        self.groups_told_at = now;
        let groups = desk.administrator.take_changed_groups();
        let ports = desk.administrator.take_changed_aliases();
        drop(desk);
        if !ports.is_empty() {
            self.feed(Input::Aliases(ports))?;
        }
        match groups.is_empty() {
            true => Ok(()),
            false => self.feed(Input::Groups(groups)),
        }
    }

    /// Tells the manager which ports call themselves otherwise than the plan in force does.
    pub(super) fn tell_doubts(&mut self) -> Result<(), DaemonError> {
        let doubted = self.seat.desk().administrator.take_doubted();
        match doubted.is_empty() {
            true => Ok(()),
            false => self.feed(Input::Command(Command::Doubt(doubted))),
        }
    }

    /// Tells the manager what its copy of what the master knows is worth: what senders were told, which hosts need to
    /// be asked should it become master now, whether it may.
    pub(super) fn tell_copy(&mut self, now: Time) -> Result<(), DaemonError> {
        let (worth, levels, forgotten, is_settled) = {
            let copier = &mut self.seat.desk().copier;
            let (levels, forgotten) = (copier.take_levels(), copier.take_forgotten());
            (copier.worth(), levels, forgotten, copier.is_settled(now))
        };
        if let Some(forgotten) = forgotten {
            self.feed(Input::Command(Command::ReregisterThese(forgotten)))?;
        }
        if let Some(told) = levels {
            let selvedge_sa::ToldLevels { by, lanes, by_port } = *told;
            let told = selvedge_sm::ToldLevels { by, lanes, by_port };
            self.feed(Input::Command(Command::Told(Box::new(told))))?;
        }
        self.tell_worth(worth)?;
        if is_settled && !std::mem::replace(&mut self.is_ready, true) {
            self.feed(Input::Command(Command::Ready))?;
        }
        Ok(())
    }

    fn tell_worth(&mut self, worth: Worth) -> Result<(), DaemonError> {
        if std::mem::replace(&mut self.copy_worth, worth) == worth {
            return Ok(());
        }
        self.feed(Input::Command(match worth {
            Worth::All => Command::Registered,
            Worth::Unproven => Command::Unproven,
            Worth::Part => Command::Reregister,
        }))
    }

    /// Writes down what hosts and the administrator have said, and what is due, unless something is in a hurry.
    pub(super) fn record_said(&mut self, hurries: bool) {
        let Some(recorder) = self.recorder.as_mut().filter(|_| !hurries) else {
            return;
        };
        let heard = self.seat.desk().take_heard();
        let notices = heard
            .into_iter()
            .filter_map(|(at, is_ours, what)| recorder.said(at, is_ours, &what));
        let mut notices: Vec<_> = notices.collect();
        notices.extend(recorder.flush_due(self.shared.clock.now()));
        for notice in notices {
            self.shared.notice(&notice);
        }
    }

    /// Acts upon what the manager has done.
    pub(super) fn reached(&mut self, at: Time, milestone: Milestone) -> Result<(), DaemonError> {
        match milestone {
            Milestone::SweepStarted => Ok(()),
            Milestone::TrapTaken(trap) => self.administer(selvedge_sa::Input::Trap(trap)),
            Milestone::Swept(fabric) => self.administer(selvedge_sa::Input::Swept(fabric)),
            Milestone::Coming { fabric, plan, .. } => self.administer(selvedge_sa::Input::Coming(fabric, plan)),
            Milestone::Committed(committed) => self.committed(at, *committed),
            Milestone::RoleChanged { role } => self.role_changed(role),
            Milestone::CopiesChanged(copies) => {
                self.administer(selvedge_sa::Input::Copies(copies))?;
                self.dump(true);
                Ok(())
            }
        }
    }

    /// A plan is in force.
    fn committed(&mut self, at: Time, committed: Committed) -> Result<(), DaemonError> {
        self.compare_plans(&committed);
        self.tell_partitions(&committed.policy)?;
        let mut desk = self.seat.desk();
        if !committed.asks_all {
            desk.keeper.hosts_were_asked(at);
        }
        desk.administrator.commit(committed);
        drop(desk);
        self.busy += 1;
        self.dump(false);
        Ok(())
    }

    /// Tells the administrator which groups are there from the start.
    pub(super) fn tell_partitions(&mut self, policy: &Policy) -> Result<(), DaemonError> {
        let told = policy.partitions_told();
        if self.partitions.as_ref() == Some(&told) {
            return Ok(());
        }
        self.partitions = Some(Arc::clone(&told));
        self.administer(selvedge_sa::Input::Presets(told))
    }

    /// Questions are answered by the master only, and what hosts register is known to the master only.
    pub(super) fn role_changed(&mut self, role: Role) -> Result<(), DaemonError> {
        let mut desk = self.seat.desk();
        desk.copier.end();
        match role {
            Role::Master => {
                desk.copier.lead();
                Ok(desk.administer(selvedge_sa::Input::Serve)?)
            }
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
                (self.copy_worth, self.is_ready) = (Worth::Part, false);
                self.feed(Input::Command(Command::Reregister))
            }
        }
    }
}
