//! What an operator, and whoever runs a manager, can ask of it.

use std::sync::Arc;

use selvedge_planner::route_alike;

use crate::config::Mode;
use crate::core::Sm;
use crate::election::{CopyNews, In, Role};
use crate::event::SweepReason;
use crate::io::{Command, Output};
use crate::register::Reregister;
use crate::stage::Stage;

impl Sm {
    pub(crate) fn start(&mut self, out: &mut Vec<Output>) {
        if self.config.mode == Mode::Manage {
            out.push(Output::SetIsSm(true));
        }
        self.run_election(In::Start, out);
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
                self.run_election(In::Copy(CopyNews::Known), out);
            }
            Command::Unproven => self.run_election(In::Copy(CopyNews::Doubtful), out),
            Command::HoldBack => self.run_election(In::Copy(CopyNews::Wanted), out),
            Command::Ready => self.run_election(In::Copy(CopyNews::Complete), out),
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
                self.run_election(In::Stop, out);
            }
        }
    }
}
