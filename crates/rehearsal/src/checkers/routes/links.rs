//! The peers of switch ports, over links that are ACTIVE at both ends.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_types::{PhysState, PortState};

use super::layout::{Layout, Switches};

/// The peer of a switch port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Far {
    /// Dead end: no packet leaves by this port.
    #[default]
    Dead,
    /// Another switch, by position, and the port by which it is entered.
    Switch(u8, u8),
    /// A port of a host.
    Host(PortIdx),
}

/// A port with another far end than before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relinked {
    /// Number of the port.
    pub port: usize,
    /// True if the port led to a switch, so that packets that waited to leave by it are dropped.
    pub is_discarded: bool,
    /// True if the port leads to another switch, or enters it by another port, than before.
    pub is_elsewhere: bool,
}

/// The peers of switch ports, by port number.
#[derive(Clone, Debug)]
pub(super) struct Links {
    far: Vec<Far>,
    /// The last far end that was a switch.
    led: Vec<Far>,
    /// Switches with a host that has an ACTIVE link.
    with_hosts: Switches,
}

impl Links {
    /// Returns links of which no port has a far end.
    pub fn new(layout: &Layout) -> Self {
        Self {
            far: vec![Far::Dead; layout.ports()],
            led: vec![Far::Dead; layout.ports()],
            with_hosts: 0,
        }
    }

    /// Reads which links are ACTIVE. Returns the ports with another far end than before, and all far ends before.
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

    /// Returns the switches with a host that has an ACTIVE link.
    pub const fn with_hosts(&self) -> Switches {
        self.with_hosts
    }

    /// Returns the far end of a port.
    pub fn far(&self, port: usize) -> Far {
        self.far.get(port).copied().unwrap_or_default()
    }

    /// Returns the position of the switch at the far end of a port; `None` if no switch is there.
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
