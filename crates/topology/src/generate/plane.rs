//! One copy of a switch fabric: switches, cables between them, where hosts hang.

use crate::SpecError;
use crate::generate::{Recipe, Size};

/// A switch of a plane.
#[derive(Clone, Debug)]
pub struct PlaneSwitch {
    /// What follows `S-` or `S-P0-` in its description.
    pub name: String,
    /// Hosts on it.
    pub hosts: u32,
}

/// A cable between two switches; ports count from 1 after the ports to hosts.
#[derive(Clone, Copy, Debug)]
pub struct PlaneCable {
    /// One switch and its port.
    pub a: (usize, u32),
    /// The other.
    pub b: (usize, u32),
}

/// One copy of a switch fabric.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    /// Ports of every switch, those to hosts and unused ones among them, 1–254.
    pub ports: u8,
    /// Its switches. Hosts are numbered along them.
    pub switches: Vec<PlaneSwitch>,
    /// Its cables.
    pub cables: Vec<PlaneCable>,
    /// Ports taken so far, by switch.
    used: Vec<u32>,
}

impl Plane {
    /// An empty plane, once it is sure that everything will fit.
    pub fn new(recipe: &Recipe, size: Size) -> Result<Self, SpecError> {
        recipe.check_size(size)?;
        Ok(Self {
            // `check_size` allows at most 254; a switch without a port is no switch.
            ports: u8::try_from(size.ports).unwrap_or(u8::MAX - 1).max(1),
            ..Self::default()
        })
    }

    /// Adds a switch.
    pub fn add(&mut self, name: String, hosts: u32) {
        self.switches.push(PlaneSwitch { name, hosts });
        self.used.push(0);
    }

    /// Cables the next free ports of two switches.
    pub fn cable(&mut self, a: usize, b: usize) {
        let mut next = |switch: usize| {
            self.used[switch] += 1;
            (switch, self.used[switch])
        };
        let (a, b) = (next(a), next(b));
        self.cables.push(PlaneCable { a, b });
    }

    /// Cables two ports by number.
    pub fn cable_ports(&mut self, a: (usize, u32), b: (usize, u32)) {
        self.cables.push(PlaneCable { a, b });
    }
}

/// One switch with hosts on its first ports.
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
