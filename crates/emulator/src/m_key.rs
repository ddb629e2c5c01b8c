//! M_Key: access rights, the lease, and handling of requests with a wrong key.
//!
//! Source: IBA vol 1 §14.2.4. The key of an end port protects the whole state of its agent (on a switch: the key of
//! port 0, for the whole switch). SMInfo belongs to the manager and has its own key, so it is not checked here.

use selvedge_chassis::{PortIdx, TableKind};
use selvedge_sim::Time;
use selvedge_wire::{BadMKey, Class, Method, Trap};

use crate::count::DropReason;
use crate::emulator::Emulator;
use crate::flight::Slot;

impl Emulator {
    /// True if a request with `m_key` may be carried out at the end port `own`. A correct key ends a running lease.
    pub(crate) fn m_key_fits(&mut self, own: PortIdx, method: Method, m_key: u64) -> bool {
        let settings = self.chassis.port(own).settings();
        // The usual case: no protection.
        if settings.m_key == 0 {
            return true;
        }
        if settings.m_key == m_key {
            self.leases.remove(&own);
            return true;
        }
        self.expire_lease(own);
        // Source: IBA vol 1 §14.2.4.1, table: with protection bits 0 and 1 every Get is allowed.
        method == Method::Get && self.chassis.port(own).settings().m_key_protect < 2
    }

    /// True if the response to a request with `m_key` may show the port's own key. With protection bits 1 to 3 the
    /// request must contain the correct key.
    pub(crate) fn m_key_visible(&self, own: PortIdx, m_key: u64) -> bool {
        let settings = self.chassis.port(own).settings();
        settings.m_key == m_key || settings.m_key_protect == 0
    }

    /// Drops a request with a wrong key, counts it, starts the lease and sends a trap.
    pub(crate) fn bad_m_key(&mut self, slot: Slot, own: PortIdx) {
        let flight = self.flights.at(slot);
        let mad = &flight.mad;
        let directed = mad.class() == Class::SubnDirected;
        let mut return_path = [0; 30];
        for (hop, port) in (0..).zip(&mut return_path) {
            *port = if directed { mad.return_path(hop) } else { 0 };
        }
        let trap = Trap::BadMKey(BadMKey {
            lid: flight.slid,
            dr_slid: mad.dr_slid(),
            method: mad.method().code(),
            attribute: mad.attribute().code(),
            modifier: mad.modifier(),
            m_key: mad.m_key(),
            directed,
            truncated: directed && mad.hop_count() >= 30,
            hop_count: if directed { mad.hop_count() } else { 0 },
            return_path,
        });
        self.drop(slot, DropReason::BadMKey);
        let lease_s = self.chassis.port(own).settings().m_key_lease_s;
        let data = self.chassis.port_mut(own, TableKind::Settings);
        data.m_key_violations = data.m_key_violations.saturating_add(1);
        if lease_s != 0 {
            let due = Time(self.now.0.saturating_add(Time::from_secs(u64::from(lease_s)).0));
            self.leases.entry(own).or_insert(due);
        }
        self.raise_trap(own, &trap);
    }

    /// Clears the protection bits after the lease has expired, so that every requester can read the key. Checked only
    /// when needed, so that a lease needs no event.
    fn expire_lease(&mut self, own: PortIdx) {
        if self.leases.get(&own).is_some_and(|due| *due <= self.now) {
            self.leases.remove(&own);
            let mut settings = *self.chassis.port(own).settings();
            settings.m_key_protect = 0;
            self.chassis.set_settings(own, settings);
        }
    }
}
