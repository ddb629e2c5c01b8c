//! What goes out: requests as the window allows, and what expects no answer.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::{Datagram, Method};

use crate::core::Sm;
use crate::io::Output;

impl Sm {
    /// Sends what the window allows.
    pub(crate) fn pump(&mut self, now: Time, out: &mut Vec<Output>) {
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

    /// The GUID of the local port.
    pub(crate) const fn port_guid(&self) -> Guid {
        self.config.local.port_guid
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
