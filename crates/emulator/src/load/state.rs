//! The load in force, and the meters of all ports.

use selvedge_chassis::{Chassis, DetailRow, PortIdx};
use selvedge_sim::{Ratio, Time};
use selvedge_types::{Idx, Vl};

use super::capacity::Packet;
use super::demand::{Share, shares};
use super::flows::hosts;
use super::pattern::Load;
use super::rates::{PortRates, Stalls, rates};
use super::report::{Congestion, congestion};
use crate::EmulatorError;
use crate::meter::Meter;

/// Shortest time for which rates stay in force, for each link that each flow crosses. It is ten times the time of their
/// computation, measured on two cores of an AMD EPYC virtual machine. With 5,832 hosts and uniform load, the flows
/// cross nine million links in all.
pub(super) const FOLLOW_NS_PER_STEP: u64 = 400;

/// A load with hosts instead of names.
#[derive(Clone, Debug)]
pub(crate) struct Demands {
    pub(super) hosts: Vec<PortIdx>,
    pub(super) shares: Vec<Share>,
    pub(super) packet: Packet,
}

impl Demands {
    /// Returns a load with the hosts of `chassis`.
    pub fn new(chassis: &Chassis, load: &Load) -> Result<Self, EmulatorError> {
        let hosts = hosts(chassis);
        Ok(Self {
            shares: shares(chassis, &hosts, load)?,
            packet: Packet::new(load.payload_bytes()),
            hosts,
        })
    }
}

/// Meters of a port.
#[derive(Clone, Copy, Debug, Default)]
struct PortMeters {
    sent: Meter,
    received: Meter,
    waited: Meter,
    congested: Meter,
    discarded: Meter,
    no_path: Meter,
    turned_back: Meter,
}

impl PortMeters {
    fn all(&mut self) -> [&mut Meter; 7] {
        [
            &mut self.sent,
            &mut self.received,
            &mut self.waited,
            &mut self.congested,
            &mut self.discarded,
            &mut self.no_path,
            &mut self.turned_back,
        ]
    }

    fn set(&mut self, at: Time, rates: &PortRates) {
        let rates = [
            rates.sent,
            rates.received,
            rates.waited,
            rates.congested,
            rates.discarded,
            rates.no_path,
            rates.turned_back,
        ];
        for (meter, rate) in self.all().into_iter().zip(rates) {
            meter.set_rate(at, rate);
        }
    }
}

/// The load in force, and the meters of all ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    on: Option<On>,
    stalls: Stalls,
}

#[derive(Clone, Debug)]
struct On {
    demands: Demands,
    ports: Vec<PortMeters>,
    /// [`Chassis::changes`] at the last read.
    seen: u64,
    /// Time of the first change that the rates do not know of.
    changed: Option<Time>,
    /// Earliest begin of other rates.
    due: Time,
}

impl Traffic {
    /// True if there is a load.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Returns the saturated links of the load in force.
    pub fn congestion(&self, chassis: &Chassis) -> Vec<Congestion> {
        let on = self.on.as_ref();
        on.map_or_else(Vec::new, |on| congestion(chassis, &on.demands, &self.stalls))
    }

    /// From `now` on a port does not take packets for a share of the time; 0 ends it.
    pub fn stall(&mut self, chassis: &Chassis, now: Time, port: PortIdx, share: Ratio) {
        match share.numerator {
            0 => drop(self.stalls.remove(&port)),
            _ => drop(self.stalls.insert(port, share)),
        }
        if let Some(on) = &mut self.on {
            (on.changed, on.due) = (Some(now), now);
            on.follow(chassis, &self.stalls, now);
        }
    }

    /// Replaces the load at `now`; what the former one has moved is counted. A load without parts ends it.
    pub fn replace(&mut self, chassis: &mut Chassis, now: Time, demands: Demands) {
        self.settle_all(chassis, now);
        self.on = (!demands.shares.is_empty()).then(|| On {
            demands,
            ports: vec![PortMeters::default(); chassis.port_count()],
            seen: chassis.changes(),
            changed: Some(now),
            due: now,
        });
        if let Some(on) = &mut self.on {
            on.follow(chassis, &self.stalls, now);
        }
    }

    /// Notes at `now` that tables or links may have changed.
    #[inline]
    pub fn notice(&mut self, chassis: &Chassis, now: Time) {
        if let Some(on) = &mut self.on
            && on.seen != chassis.changes()
        {
            on.seen = chassis.changes();
            on.changed.get_or_insert(now);
        }
    }

    /// Counts at a port what it has moved up to `now`.
    pub fn settle(&mut self, chassis: &mut Chassis, now: Time, port: PortIdx) {
        self.notice(chassis, now);
        let Some(on) = &mut self.on else { return };
        on.follow(chassis, &self.stalls, now);
        on.settle(chassis, now, port);
    }

    /// Counts at all ports what they have moved up to `now`.
    pub fn settle_all(&mut self, chassis: &mut Chassis, now: Time) {
        self.notice(chassis, now);
        let Some(on) = &mut self.on else { return };
        on.follow(chassis, &self.stalls, now);
        for port in 0..on.ports.len() {
            on.settle(chassis, now, PortIdx::from_usize(port));
        }
    }

    /// A port moves nothing from `now` on, until rates are computed again.
    pub fn stop(&mut self, now: Time, port: PortIdx) {
        if let Some(meters) = self.on.as_mut().and_then(|on| on.ports.get_mut(port.to_usize())) {
            meters.set(now, &PortRates::default());
        }
    }

    /// Forgets what a port has moved up to `now`, because its counters are lost.
    pub fn forget(&mut self, now: Time, port: PortIdx) {
        if let Some(meters) = self.on.as_mut().and_then(|on| on.ports.get_mut(port.to_usize())) {
            for meter in meters.all() {
                meter.take(now);
            }
        }
    }
}

impl On {
    /// Computes rates again if something has changed.
    fn follow(&mut self, chassis: &Chassis, stalls: &Stalls, now: Time) {
        let Some(from) = self
            .changed
            .map(|changed| changed.max(self.due))
            .filter(|from| *from <= now)
        else {
            return;
        };
        let found = rates(chassis, &self.demands, stalls);
        for (meters, rates) in self.ports.iter_mut().zip(&found.ports) {
            meters.set(from, rates);
        }
        self.changed = None;
        self.due = Time(
            from.0
                .saturating_add(FOLLOW_NS_PER_STEP.saturating_mul(found.steps as u64)),
        );
    }

    fn settle(&mut self, chassis: &mut Chassis, now: Time, port: PortIdx) {
        let Some(meters) = self.ports.get_mut(port.to_usize()) else {
            return;
        };
        let [sent, received, waited, congested, discarded, no_path, turned_back] =
            meters.all().map(|meter| meter.take(now));
        let words = self.demands.packet.words();
        let c = chassis.counters_mut(port);
        add(&mut c.xmit_packets, sent);
        add(&mut c.unicast_xmit_packets, sent);
        add(&mut c.xmit_data, sent.saturating_mul(words));
        add(&mut c.rcv_packets, received);
        add(&mut c.unicast_rcv_packets, received);
        add(&mut c.rcv_data, received.saturating_mul(words));
        add(&mut c.xmit_wait, waited);
        add(&mut c.xmit_discards, discarded);
        add(&mut c.rcv_switch_relay_errors, no_path.saturating_add(turned_back));
        let (own, peer) = lanes(chassis, port);
        let rows = [
            (DetailRow::SlXmitData, 0, sent.saturating_mul(words)),
            (DetailRow::SlRcvData, 0, received.saturating_mul(words)),
            (DetailRow::OpRcv, 0, received),
            (DetailRow::OpRcv, 1, received.saturating_mul(words)),
            // A receiver gives the credits of each packet back with one flow control packet.
            (DetailRow::FlowControl, 0, received),
            (DetailRow::FlowControl, 1, sent),
            (DetailRow::VlPackets, peer, received),
            (DetailRow::VlData, peer, received.saturating_mul(words)),
            (DetailRow::VlXmitWait, own, waited),
            (DetailRow::TimeCongested, 0, congested),
            (DetailRow::VlTimeCongested, own, congested),
            (DetailRow::VlCongestion, own, congested),
            // Source: IBA vol 1 §16.1.4.1, §16.1.4.2: PortDLIDMappingErrors, PortLoopingErrors, PortInactiveDiscards.
            (DetailRow::RcvErrors, 3, no_path),
            (DetailRow::RcvErrors, 5, turned_back),
            (DetailRow::XmitDiscards, 0, discarded),
        ];
        for (row, at, count) in rows.into_iter().filter(|(_, _, count)| *count > 0) {
            add(&mut chassis.detail_mut(port, row)[at], count);
        }
    }
}

/// Adds to a counter, which stops at its maximum.
fn add(counter: &mut u64, count: u64) {
    *counter = counter.saturating_add(count);
}

/// Returns the lanes on which packets of SL 0 leave a port, and arrive at it.
fn lanes(chassis: &Chassis, port: PortIdx) -> (usize, usize) {
    let own = lane(chassis, port);
    let peer = chassis.wire(port).peer().map_or(0, |peer| lane(chassis, peer));
    (own, peer)
}

/// Returns the lane on which packets of SL 0 leave a port, coming from the lowest other port of a switch.
fn lane(chassis: &Chassis, port: PortIdx) -> usize {
    let wire = chassis.wire(port);
    let num = wire.num().get();
    let (input, output) = match chassis.is_switch(wire.node()) {
        true => (if num == 1 { 2 } else { 1 }, num),
        false => (0, 0),
    };
    let lane = chassis.lanes(wire.node(), input, output)[0];
    // VL15 in the map means that packets are discarded; the load takes lane 0 then.
    if lane == Vl::MANAGEMENT {
        0
    } else {
        usize::from(lane.get())
    }
}
