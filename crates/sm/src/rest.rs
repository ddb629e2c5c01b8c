//! The idle state: when the next light sweep is due, and what follows if the manager is cut off from the fabric.

use selvedge_planner::PortReason;
use selvedge_sim::Time;
use selvedge_types::{PortNum, PortState};

use crate::core::Sm;
use crate::election::In;
use crate::event::Event;
use crate::io::Output;
use crate::stage::Stage;
use crate::{rebalance, registration};

impl Sm {
    /// Nothing to do until the next light sweep.
    pub(crate) fn rest(&mut self, now: Time) {
        self.superseded = 0;
        self.stage = Stage::Idle;
        // A quiet time begins, which wants nothing done.
        self.rebalance(rebalance::In::Idle, &mut Vec::new());
        // Without a link of our own, or an answer from behind it, there is one question to ask, and everything waits
        // for its answer.
        let interval = if self.is_cut_off() || self.is_alone() {
            Some(self.config.poll_interval)
        } else {
            self.config.sweep_interval
        };
        let due = interval.map(|interval| now + interval);
        let put_off = self.put_off.take().map(|at| at.max(now));
        let lids = self.drain.lids_due(now);
        let offer = self.next_offer();
        self.next_sweep = [self.read_back_due(due), put_off, lids, offer]
            .into_iter()
            .flatten()
            .min();
    }

    /// Something else comes first, which tells nothing of switches that it does not ask: where traps come one after
    /// another the light sweep takes its turn all the same.
    pub(crate) fn put_off_light_sweep(&mut self) {
        self.put_off = self.next_sweep.take().into_iter().chain(self.put_off).min();
    }

    /// True if our own link is down. Port 0 of a switch has none.
    pub(crate) fn is_cut_off(&self) -> bool {
        let Some(inventory) = &self.inventory else { return false };
        let port = inventory.fabric.port(inventory.local);
        inventory.local.port != PortNum::MANAGEMENT && port.is_some_and(|p| p.link.state == PortState::Down)
    }

    /// True if nobody answers behind our own link, which is up: its agent may only be busy.
    fn is_alone(&self) -> bool {
        self.inventory.as_ref().is_some_and(|inventory| {
            let troubles = &inventory.agents[inventory.local.node].troubles;
            troubles.get(&inventory.local.port) == Some(&PortReason::PeerSilent)
                && inventory.fabric.peer(inventory.local).is_none()
        })
    }

    /// Nobody can be reached: neither others' managers nor anything to manage. Somebody else may take over.
    pub(crate) fn cut_off(&mut self, what: String, now: Time, out: &mut Vec<Output>) {
        out.push(Output::Event(Event::LocalPortDown { what }));
        self.update_registration(registration::In::Dropped);
        self.drop_plans();
        self.run_election(In::CutOff, out);
        self.rest(now);
    }
}
