//! Where ports of switches lead, over links that are ACTIVE at both ends.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_types::{PhysState, PortState};

use super::layout::{Layout, Switches};

/// What lies behind a port of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Far {
    /// Nothing that a packet could be sent to.
    #[default]
    Dead,
    /// Another switch, by position, and the port by which it is entered.
    Switch(u8, u8),
    /// A port of a host.
    Host(PortIdx),
}

/// A port that leads elsewhere than before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relinked {
    /// Its number.
    pub port: usize,
    /// What waited in its switch to leave by it is thrown away: it led to a switch.
    pub is_discarded: bool,
    /// It leads to another switch than it last led to.
    pub is_elsewhere: bool,
}

/// Ports by number.
#[derive(Clone, Debug)]
pub(super) struct Links {
    far: Vec<Far>,
    /// The same when it last was a switch.
    led: Vec<Far>,
    /// Switches at which a host with an ACTIVE link sits.
    with_hosts: Switches,
}

impl Links {
    /// No port leads anywhere.
    pub fn new(layout: &Layout) -> Self {
        Self {
            far: vec![Far::Dead; layout.ports()],
            led: vec![Far::Dead; layout.ports()],
            with_hosts: 0,
        }
    }

    /// Reads which links are ACTIVE. Returns the ports that lead elsewhere than before, and where all did.
    pub fn read(&mut self, layout: &Layout, chassis: &Chassis) -> (Vec<Relinked>, Vec<Far>) {
        let before = self.far.clone();
        let mut relinked = Vec::new();
        for (port, was) in before.iter().enumerate() {
            let now = look(layout, chassis, port);
            if *was == now {
                continue;
            }
            self.far[port] = now;
            let leads_on = matches!(now, Far::Switch(..));
            relinked.push(Relinked {
                port,
                is_discarded: matches!(was, Far::Switch(..)),
                is_elsewhere: leads_on && std::mem::replace(&mut self.led[port], now) != now,
            });
        }
        self.with_hosts = 0;
        for (port, _) in self
            .far
            .iter()
            .enumerate()
            .filter(|(_, far)| matches!(far, Far::Host(_)))
        {
            self.with_hosts |= 1 << (port / layout.stride());
        }
        (relinked, before)
    }

    /// Switches at which a host with an ACTIVE link sits.
    pub const fn with_hosts(&self) -> Switches {
        self.with_hosts
    }

    /// What lies behind a port.
    pub fn far(&self, port: usize) -> Far {
        self.far.get(port).copied().unwrap_or_default()
    }

    /// The switch that a port leads to.
    pub fn end(&self, port: u32) -> Option<u8> {
        match self.far(port as usize) {
            Far::Switch(switch, _) => Some(switch),
            Far::Dead | Far::Host(_) => None,
        }
    }
}

fn look(layout: &Layout, chassis: &Chassis, number: usize) -> Far {
    let port = layout
        .port(chassis, number)
        .filter(|_| !number.is_multiple_of(layout.stride()));
    let Some(port) = port.filter(|&port| is_active(chassis, port)) else {
        return Far::Dead;
    };
    let Some(peer) = chassis.wire(port).peer().filter(|&peer| is_active(chassis, peer)) else {
        return Far::Dead;
    };
    let wire = chassis.wire(peer);
    match layout.position(wire.node()) {
        Some(switch) => Far::Switch(switch, wire.num().get()),
        None => Far::Host(peer),
    }
}

/// True if a port's link is trained and ACTIVE, and its node has power.
pub(super) fn is_active(chassis: &Chassis, port: PortIdx) -> bool {
    let wire = chassis.wire(port);
    wire.state() == PortState::Active && wire.phys() == PhysState::LinkUp && chassis.is_powered(wire.node())
}
