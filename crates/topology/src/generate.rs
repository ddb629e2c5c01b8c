//! Generated fabrics.
//!
//! A shape defines one *plane*: switches, cables between them, and the switch that each host is attached to. Everything
//! else (ports per host, rails, removed links, GUIDs, rates) is added here in the same way for every shape.
//!
//! Names: switches are `S-L<level>-<index>` in trees (hosts are level 0, leaves level 1), `S-<x>-<y>…` in meshes and
//! tori, `S-<index>` elsewhere; with several rails `S-P<plane>-…`. Hosts are `H-<index>`. Ports of a switch: hosts
//! first, then links downwards, then links upwards. With several channel adapters per host they are `H-<index> HCA-1`,
//! `H-<index> HCA-2`…, as the scripts of OFED name them.
//!
//! The number of hosts does not depend on `ports-per-host` or `rails`: leaf switches get more ports instead.

mod assemble;
mod grid;
mod plane;
mod random;
mod tree;

use selvedge_fabric::{BuildError, Fabric};
use selvedge_sim::Seed;
use selvedge_types::{LinkSpeed, LinkWidth, Mtu, Rate};

use crate::SpecError;
pub use tree::Tree;

/// Largest number of nodes of a fabric: twenty times the number of LIDs of a subnet.
pub(crate) const NODES_MAX: u64 = 1_000_000;
/// Largest number of ports of all nodes together: about 2 GB of memory.
pub(crate) const PORTS_MAX: u64 = 10_000_000;
/// Largest number of external ports of a switch. Source: IBA vol 1 §18.2.4.3: port 255 is reserved.
const SWITCH_PORTS_MAX: u64 = 254;
/// Largest number of ports, and of channel adapters, of a host; real adapters have one or two ports.
const HOST_PORTS_MAX: u8 = 4;

/// A generator with its parameters. The same recipe gives the same fabric, to the last byte, on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The generator's name, for error messages.
    pub name: String,
    /// Shape of the switch network.
    pub shape: Shape,
    /// Options for every shape.
    pub options: Options,
}

/// Shape of the switch network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A parallel-port generalised fat-tree; k-ary n-trees and m-port n-trees are special cases.
    Tree(Tree),
    /// A mesh or torus of any number of dimensions. A ring is a torus of one dimension.
    Grid {
        /// Switches in each dimension, at least 1.
        dimensions: Vec<u32>,
        /// True for a torus. A dimension of two switches has one cable between them, not two.
        wraps: bool,
        /// Hosts on each switch.
        hosts: u32,
    },
    /// A random regular graph, connected, without parallel cables.
    Random {
        /// Number of switches, at least 2.
        switches: u32,
        /// Cables of each switch to others; `switches * degree` is even.
        degree: u32,
        /// Hosts on each switch.
        hosts: u32,
    },
    /// One switch.
    Single {
        /// Number of ports of the switch.
        ports: u8,
        /// Number of hosts.
        hosts: u32,
    },
    /// Two switches with hosts, joined by cables, as two clusters at two sites are.
    Clusters {
        /// Hosts of each cluster.
        hosts: u32,
        /// Cables between the two.
        links: u32,
    },
}

/// Options for every shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Ports of each host: 1–4 and a multiple of `rails` and of `hcas`. Each port has a GUID. Port `j` is on plane
    /// `j mod rails`. Ports on the same plane are on different leaf switches if there are enough. Default: `rails` or
    /// `hcas`, whichever is larger.
    pub ports_per_host: u8,
    /// Channel adapters of each host, 1–4. Each is a node with a GUID, and has `ports_per_host / hcas` of the ports,
    /// the first adapter the first ones. Default 1.
    pub hcas: u8,
    /// Number of separate copies of the switch network, connected only by the hosts, 1–4. Default 1.
    pub rails: u8,
    /// Cables between switches to remove at random; the remaining fabric may be disconnected. Default: none.
    pub removal: LinkRemoval,
    /// Seed of all random choices. Default 1.
    pub seed: Seed,
    /// Order of GUIDs. Default: ordered.
    pub guids: GuidOrder,
    /// Rate of every link. Default 4xHDR.
    pub rate: Rate,
    /// MTU that every port supports. Default 4096 bytes.
    pub mtu: Mtu,
    /// Data lanes of every port, as a PortInfo.VLCap code. Default 4: eight lanes.
    pub vls: u8,
    /// Entries of the GUID table of every host port (PortInfo.GUIDCap). Default 1: no aliases.
    pub guid_cap: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ports_per_host: 1,
            hcas: 1,
            rails: 1,
            removal: LinkRemoval::Count(0),
            seed: Seed(1),
            guids: GuidOrder::Ordered,
            rate: Rate {
                width: LinkWidth::X4,
                speed: LinkSpeed::Hdr,
            },
            mtu: Mtu::B4096,
            vls: 4,
            guid_cap: 1,
        }
    }
}

/// Number of cables between switches to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRemoval {
    /// This number of cables.
    Count(u32),
    /// This number of cables per million, rounded to the nearest cable.
    PerMillion(u32),
}

/// Order of GUIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuidOrder {
    /// GUIDs ascend: first the switches by level and index, then the hosts.
    Ordered,
    /// GUIDs are in random order, with switches and hosts mixed, as in a machine room.
    Shuffled,
}

impl Recipe {
    /// Generates the fabric.
    pub fn fabric(&self) -> Result<Fabric, SpecError> {
        let options = &self.options;
        if !(1..=HOST_PORTS_MAX).contains(&options.rails) {
            return Err(self.bad("rails", &options.rails.to_string(), "1 to 4"));
        }
        if !(1..=HOST_PORTS_MAX).contains(&options.hcas) {
            return Err(self.bad("hcas", &options.hcas.to_string(), "1 to 4"));
        }
        let ports = options.ports_per_host;
        if !(1..=HOST_PORTS_MAX).contains(&ports) || !ports.is_multiple_of(options.rails) {
            let want = format!("1 to 4 and a multiple of rails={}", options.rails);
            return Err(self.bad("ports-per-host", &ports.to_string(), &want));
        }
        if !ports.is_multiple_of(options.hcas) {
            let want = format!("a multiple of hcas={}", options.hcas);
            return Err(self.bad("ports-per-host", &ports.to_string(), &want));
        }
        let plane = match &self.shape {
            Shape::Tree(tree) => tree.plane(self)?,
            Shape::Grid {
                dimensions,
                wraps,
                hosts,
            } => grid::plane(self, dimensions, *wraps, *hosts)?,
            Shape::Random {
                switches,
                degree,
                hosts,
            } => random::plane(self, *switches, *degree, *hosts)?,
            Shape::Single { ports, hosts } => plane::single(self, *ports, *hosts)?,
            Shape::Clusters { hosts, links } => plane::clusters(self, *hosts, *links)?,
        };
        assemble::fabric(self, &plane)
    }

    /// Returns the number of ports of each host on each plane.
    const fn ports_per_plane(&self) -> u32 {
        // `fabric` refuses 0 rails before this call.
        (self.options.ports_per_host / self.options.rails) as u32
    }

    /// Checks that the fabric is within the limits, before memory is allocated.
    fn check_size(&self, size: Size) -> Result<(), SpecError> {
        let switches = size.switches.saturating_mul(self.options.rails.into());
        let host_ports = size.hosts.saturating_mul(self.options.ports_per_host.into());
        let hcas = size.hosts.saturating_mul(self.options.hcas.into());
        let ports = switches
            .saturating_mul(size.ports.saturating_add(1))
            .saturating_add(host_ports);
        for (what, wanted, limit) in [
            ("nodes", switches.saturating_add(hcas), NODES_MAX),
            ("ports on a switch", size.ports, SWITCH_PORTS_MAX),
            ("ports", ports, PORTS_MAX),
        ] {
            if wanted > u128::from(limit) {
                return Err(SpecError::TooBig {
                    generator: self.name.clone(),
                    what,
                    wanted: match wanted {
                        u128::MAX => "far too many".to_owned(),
                        _ => wanted.to_string(),
                    },
                    limit,
                });
            }
        }
        Ok(())
    }

    fn bad(&self, key: &str, value: &str, want: &str) -> SpecError {
        SpecError::BadValue {
            generator: self.name.clone(),
            key: key.to_owned(),
            value: value.to_owned(),
            want: want.to_owned(),
        }
    }

    fn contradiction(&self, source: BuildError) -> SpecError {
        SpecError::Build {
            generator: self.name.clone(),
            source,
        }
    }
}

/// Size of one plane of a shape, in a type that no product of two parameters can overflow.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Switches.
    switches: u128,
    /// Hosts.
    hosts: u128,
    /// Port count of the largest switch, including ports to hosts.
    ports: u128,
}
