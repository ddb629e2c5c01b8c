//! Puts datagrams on the wire, and counts them.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_wire::{Datagram, Method};

use crate::core::Sm;
use crate::io::Output;

impl Sm {
    /// Sends what the window has room for.
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

    /// Sends without expecting an answer.
    pub(crate) fn send_only(&mut self, datagram: Datagram, out: &mut Vec<Output>) {
        self.view.mads.others += 1;
        out.push(Output::Send {
            datagram,
            timeout: Duration::ZERO,
        });
    }
}
