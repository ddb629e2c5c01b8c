//! One copy of a switch network: switches, cables between them, and numbers of hosts.

use crate::SpecError;
use crate::generate::{Recipe, Size};

/// A switch of a plane.
#[derive(Clone, Debug)]
pub struct PlaneSwitch {
    /// The part of the switch's description after `S-` or `S-P0-`.
    pub name: String,
    /// Number of hosts of the switch.
    pub hosts: u32,
}

/// A cable between two switches. Ports are counted from 1 after the ports to hosts.
#[derive(Clone, Copy, Debug)]
pub struct PlaneCable {
    /// One switch, and its port.
    pub a: (usize, u32),
    /// The other switch, and its port.
    pub b: (usize, u32),
}

/// One copy of a switch network.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    /// Port count of every switch, including ports to hosts and unused ones, 1–254.
    pub ports: u8,
    /// Switches of the plane. Hosts are numbered in this order.
    pub switches: Vec<PlaneSwitch>,
    /// Cables of the plane.
    pub cables: Vec<PlaneCable>,
    /// Number of ports used so far, by switch.
    used: Vec<u32>,
}

impl Plane {
    /// Returns an empty plane, if the size is within the limits.
    pub fn new(recipe: &Recipe, size: Size) -> Result<Self, SpecError> {
        recipe.check_size(size)?;
        Ok(Self {
            // `check_size` allows at most 254; a switch has at least one port.
            ports: u8::try_from(size.ports).unwrap_or(u8::MAX - 1).max(1),
            ..Self::default()
        })
    }

    /// Adds a switch.
    pub fn add(&mut self, name: String, hosts: u32) {
        self.switches.push(PlaneSwitch { name, hosts });
        self.used.push(0);
    }

    /// Connects the next free ports of two switches.
    pub fn cable(&mut self, a: usize, b: usize) {
        let mut next = |switch: usize| {
            self.used[switch] += 1;
            (switch, self.used[switch])
        };
        let (a, b) = (next(a), next(b));
        self.cables.push(PlaneCable { a, b });
    }

    /// Connects two ports by number.
    pub fn cable_ports(&mut self, a: (usize, u32), b: (usize, u32)) {
        self.cables.push(PlaneCable { a, b });
    }
}

/// Returns one switch with hosts on its first ports.
pub fn single(recipe: &Recipe, ports: u8, hosts: u32) -> Result<Plane, SpecError> {
    let taken = u64::from(hosts) * u64::from(recipe.ports_per_plane());
    if u64::from(ports) < taken.max(1) {
        let want = match taken {
            0 => "at least 1".to_owned(),
            taken => format!("at least the {taken} ports that the hosts take"),
        };
        return Err(recipe.bad("ports", &ports.to_string(), &want));
    }
    let size = Size {
        switches: 1,
        hosts: hosts.into(),
        ports: ports.into(),
    };
    let mut plane = Plane::new(recipe, size)?;
    plane.add("0".to_owned(), hosts);
    Ok(plane)
}

/// Returns two switches with hosts, called A and B, and cables between them.
pub fn clusters(recipe: &Recipe, hosts: u32, links: u32) -> Result<Plane, SpecError> {
    if links == 0 {
        return Err(recipe.bad("links", "0", "at least 1"));
    }
    let size = Size {
        switches: 2,
        hosts: 2 * u128::from(hosts),
        ports: u128::from(hosts) * u128::from(recipe.ports_per_plane()) + u128::from(links),
    };
    let mut plane = Plane::new(recipe, size)?;
    for name in ["A", "B"] {
        plane.add(name.to_owned(), hosts);
    }
    for _ in 0..links {
        plane.cable(0, 1);
    }
    Ok(plane)
}
