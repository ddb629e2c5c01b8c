//! What an operator, and whoever runs a manager, can ask of it.

use std::sync::Arc;

use selvedge_planner::route_alike;

use crate::config::Mode;
use crate::core::Sm;
use crate::event::SweepReason;
use crate::io::{Command, Output};
use crate::register::Reregister;
use crate::stage::Stage;
use crate::view::Role;

impl Sm {
    pub(crate) fn start(&mut self, out: &mut Vec<Output>) {
        self.view.role = match self.config.mode {
            Mode::Manage => {
                out.push(Output::SetIsSm(true));
                Role::Discovering
            }
            Mode::DryRun | Mode::Watch => Role::NotActive,
        };
        self.sweep_due = Some(SweepReason::Start);
    }

    pub(crate) fn command(&mut self, command: Command, out: &mut Vec<Output>) {
        match command {
            Command::Sweep => {
                self.flaps.clear();
                self.sweep_due = Some(SweepReason::Command);
            }
            Command::Rebalance(asked) => self.ask_balance(asked),
            Command::Reregister => self.reregister = Reregister::Wanted,
            Command::ReregisterThese(ports) => {
                // What a master knows of them takes the place of what was known of others before.
                if self.role() != Role::Master {
                    self.returned = Arc::default();
                }
                Arc::make_mut(&mut self.returned).extend(ports);
            }
            Command::Doubt(ports) => self.doubted.extend(ports),
            Command::Registered => {
                self.reregister = Reregister::Not;
                self.others.is_unproven = false;
            }
            Command::Unproven => self.look_whether_master_lives(),
            Command::HoldBack => self.others.copies = true,
            Command::Ready => self.hold_back_no_longer(),
            Command::Told(told) => self.take_told(*told),
            Command::Babbles { lid, port } => self.disable_babbler(lid, port, out),
            Command::SetPolicy(policy) => {
                self.keeps_found &= route_alike(&policy, &self.config.policy);
                self.config.policy = policy;
                self.sweep_due = Some(SweepReason::Command);
            }
            Command::Stop => {
                if self.config.mode == Mode::Manage {
                    out.push(Output::SetIsSm(false));
                }
                self.exchange.clear();
                self.stage = Stage::Stopped;
                self.view.role = Role::NotActive;
            }
        }
    }
}
