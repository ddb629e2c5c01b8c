//! Decides what is sent and when: requests as the window allows, and datagrams without an answer.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_wire::Datagram;

use crate::core::Sm;
use crate::io::Output;
use crate::smp::Smp;

/// Factor by which `agent_window` grows while a lost link is repaired and probed again. The window is then four, a
/// usual value of OpenSM's `max_wire_smps`. During a repair a few agents have most of the work, and an answer travels
/// longer than its agent needs to handle a request.
const AT_A_FAULT: usize = 2;

impl Sm {
    /// Returns the number of SMPs that may be in flight to one agent now.
    pub(crate) fn agent_window(&self) -> usize {
        let usual = self.config.agent_window.max(1);
        match self.is_at_a_fault() {
            true => usual * AT_A_FAULT,
            false => usual,
        }
    }

    /// Sends requests as the window allows.
    pub(crate) fn pump(&mut self, now: Time, out: &mut Vec<Output>) {
        self.exchange.set_agent_window(self.agent_window());
        let keys = &self.keys;
        let write = |(_, smp): &mut (_, Smp), place: &mut Datagram| {
            let key = keys.key_for(smp);
            smp.write(key, place);
            if keys.is_open() {
                smp.note_tried(key);
            }
        };
        while let Some(sent) = self.exchange.next_to_send(now, write) {
            out.push(Output::Send {
                datagram: *sent.datagram,
                timeout: sent.timeout,
            });
        }
    }

    /// Sends without expecting an answer.
    pub(crate) fn send_only(&mut self, datagram: Datagram, out: &mut Vec<Output>) {
        self.exchange.sends_alone();
        out.push(Output::Send {
            datagram,
            timeout: Duration::ZERO,
        });
    }

    /// Sends a request without waiting for an answer.
    pub(crate) fn send_unasked(&mut self, mut datagram: Datagram, out: &mut Vec<Output>) {
        datagram.mad.set_transaction(self.exchange.id_alone());
        self.send_only(datagram, out);
    }
}
