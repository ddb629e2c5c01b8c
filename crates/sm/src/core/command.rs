//! Commands: of the operator (sweep, rebalance, policy), and of the coordinator (registrations, the copy of a standby,
//! sources that babble).

use super::Sm;
use crate::config::Mode;
use crate::election::CopyNews;
use crate::event::SweepReason;
use crate::io::{Command, Output};
use crate::stage::Stage;
use crate::{change, election, flap, persist, presence, rebalance, registration, trap};

impl Sm {
    pub(crate) fn start(&mut self, out: &mut Vec<Output>) {
        if self.config.mode == Mode::Manage {
            out.push(Output::SetIsSm(true));
        }
        self.run_election(election::In::Start, out);
        self.load_keys(out);
        self.want_sweep(SweepReason::Start);
    }

    pub(crate) fn command(&mut self, command: Command, out: &mut Vec<Output>) {
        match command {
            Command::Sweep => {
                self.flap(flap::In::Cleared, out);
                self.want_sweep(SweepReason::Command);
            }
            Command::Rebalance(asked) => self.rebalance(rebalance::In::Asked(asked), out),
            Command::Reregister => self.update_registration(registration::In::AllLost),
            Command::ReregisterThese(ports) => self.update_registration(registration::In::Lost(ports)),
            Command::Doubt(ports) => self.doubt(ports),
            Command::Registered => {
                self.update_registration(registration::In::Known);
                self.run_election(election::In::Copy(CopyNews::Known), out);
            }
            Command::Unproven => self.run_election(election::In::Copy(CopyNews::Doubtful), out),
            Command::HoldBack => self.run_election(election::In::Copy(CopyNews::Wanted), out),
            Command::Ready => self.run_election(election::In::Copy(CopyNews::Complete), out),
            Command::Told(told) => self.update_stored(persist::In::Copied(*told), out),
            Command::OutOfService(list) => self.follow_list(list, out),
            Command::Babbles { lid, port } => self.trap(trap::In::Babbles { lid, port }, out),
            Command::SetPolicy(policy) => self.propose(self.with_jobs(policy), out),
            Command::JobPartitions(list) => self.follow_jobs(&list, out),
            Command::SetSmKey(key) => self.change_policy(change::In::SmKey(key), out),
            Command::Forget { nodes, links } => {
                self.run_election(election::In::Forget(&nodes), out);
                self.sweep_for_forgotten(&nodes, &links);
                self.note_presence(presence::In::Forget(nodes, links), out);
            }
            Command::Stop => {
                if self.config.mode == Mode::Manage {
                    out.push(Output::SetIsSm(false));
                }
                self.exchange.clear();
                self.stage = Stage::Stopped;
                self.run_election(election::In::Stop, out);
            }
        }
    }
}
