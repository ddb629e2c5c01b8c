//! What goes out and when: requests as the window allows, what expects no answer, and when something is due next.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_wire::{Datagram, Method};

use crate::core::Sm;
use crate::io::Output;
use crate::stage::Stage;

/// While a lost link is mended and looked at again so many times `agent_window` may be at one agent: four, as OpenSM's
/// (`max_wire_smps`) often are. A few agents have most to do then, and an answer is longer on its way than they work on
/// one.
const AT_A_FAULT: usize = 2;

impl Sm {
    /// When [`crate::Input::Wake`] is due, if nothing else happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let timer = match self.stage {
            Stage::Standby { .. } => self.next_poll,
            // Nobody serves it before trees are written: due already, it would come again at once, for ever.
            Stage::Stopped | Stage::Disabled { .. } | Stage::Copying(_) | Stage::Naming(_) => None,
            _ => self.next_sweep,
        };
        let wait = match &self.stage {
            Stage::Applying(apply, _) => {
                let interval = self.config.poll_interval;
                apply.wait().and_then(|wait| apply.seat.due(&wait, interval))
            }
            _ => None,
        };
        let release = matches!(self.stage, Stage::Idle)
            .then(|| self.flaps.next_release())
            .flatten();
        let balance = matches!(self.stage, Stage::Idle)
            .then(|| self.balance_due())
            .flatten()
            .filter(|_| !self.is_preparing_repairs());
        let trees = matches!(self.stage, Stage::Idle)
            .then(|| self.multicast_due())
            .flatten();
        let names = matches!(self.stage, Stage::Idle).then(|| self.aliases_due()).flatten();
        let backups = matches!(self.stage, Stage::Idle)
            .then(|| self.backups_due())
            .flatten()
            .filter(|_| !self.is_preparing_repairs());
        let fog = self.past.fog(self.now);
        let look = (matches!(self.stage, Stage::Idle) && (!fog.is_zero() || self.knows_the_fabric()))
            .then(|| self.second_look.due())
            .flatten()
            .map(|due| if fog.is_zero() { due } else { due.max(self.now + fog) });
        let doubts = match &self.stage {
            Stage::Probing(probe) => probe.due(),
            _ => None,
        };
        let due = [
            self.exchange.next_wake(),
            timer,
            wait,
            release,
            balance,
            trees,
            names,
            backups,
            look,
            doubts,
        ];
        due.into_iter().chain([self.repress_at()]).flatten().min()
    }

    /// SMPs that may be at one agent now.
    pub(crate) fn agent_window(&self) -> usize {
        let usual = self.config.agent_window.max(1);
        match self.is_at_a_fault() {
            true => usual * AT_A_FAULT,
            false => usual,
        }
    }

    /// Sends what the window allows.
    pub(crate) fn pump(&mut self, now: Time, out: &mut Vec<Output>) {
        self.exchange.set_agent_window(self.agent_window());
        while let Some(sent) = self.exchange.next_to_send(now, |(_, smp), place| smp.write(place)) {
            match sent.datagram.mad.method() {
                Method::Get => self.view.mads.gets += 1,
                Method::Set => self.view.mads.sets += 1,
                _ => self.view.mads.others += 1,
            }
            out.push(Output::Send {
                datagram: *sent.datagram,
                timeout: sent.timeout,
            });
        }
    }

    /// Sends without expecting an answer.
    pub(crate) fn send_only(&mut self, datagram: Datagram, out: &mut Vec<Output>) {
        self.view.mads.others += 1;
        out.push(Output::Send {
            datagram,
            timeout: Duration::ZERO,
        });
    }
}
