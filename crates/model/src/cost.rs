//! Times of single operations, from which all results are computed.

use crate::{Manager, Shape};

/// Times of the fabric's hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wires {
    /// Time that an agent takes for one request, in ns.
    pub service_ns: u64,
    /// Time of a MAD on a link, in ns.
    pub link_ns: u64,
    /// Time of a switch to relay a directed-route SMP, in ns.
    pub relay_ns: u64,
    /// Requests in an agent's queue, including the one in service. VL15 has no flow control, so further ones are lost.
    pub queue_depth: u64,
}

impl Default for Wires {
    /// Returns 20 µs per agent; 100 ns per link (20 m, 290 bytes at 25 Gbit/s); 500 ns per switch; 16 requests.
    fn default() -> Self {
        Self {
            service_ns: 20_000,
            link_ns: 100,
            relay_ns: 500,
            queue_depth: 16,
        }
    }
}

impl Wires {
    /// Returns the time of one direction over this many links, in ns.
    #[must_use]
    pub const fn way_ns(&self, hops: u16) -> u64 {
        match hops {
            0 => 0,
            hops => hops as u64 * self.link_ns + (hops as u64 - 1) * self.relay_ns,
        }
    }
}

/// Time of the computation between reading and writing: `fixed + switches · (per_switch + LIDs · per_entry)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    /// Fixed part of the time, in ns.
    pub fixed_ns: u64,
    /// Time per switch, in ns.
    pub per_switch_ns: u64,
    /// Time per table entry, in ps, because there are many pairs of switch and LID.
    pub per_entry_ps: u64,
}

impl Compute {
    /// Returns the time on a fabric, in ns.
    #[must_use]
    pub const fn time_ns(&self, shape: &Shape) -> u64 {
        let entries = shape.switches() * shape.lids();
        self.fixed_ns + shape.switches() * self.per_switch_ns + entries * self.per_entry_ps / 1_000
    }
}

/// All inputs of a time except the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The manager that sends the MADs.
    pub manager: Manager,
    /// Times of the fabric's hardware.
    pub wires: Wires,
    /// Largest number of requests in flight.
    pub window: u32,
    /// Largest number of requests in flight to one known agent.
    pub agent_window: u32,
    /// Time that the manager takes for one response, in ns.
    pub manager_ns: u64,
    /// Time after which a request is repeated, in ns.
    pub timeout_ns: u64,
    /// Time after which a request no longer counts in the window, in ns.
    pub stale_ns: u64,
    /// Number of lost exchanges per million. An exchange is a request with its response.
    pub lost_ppm: u32,
    /// Times of the computation.
    pub compute: Compute,
}

impl Cost {
    /// Returns the defaults of a manager.
    ///
    /// Our manager: window 32, two per agent; planning takes 20 µs per switch and 2 ns per entry, and storing LIDs 1
    /// ms, as in a rehearsal. OpenSM: window 4 (max_wire_smps); minhop takes 300 ns per entry, between the 120 and 480
    /// ns of most fabrics in the stored benchmark run of routing.
    #[must_use]
    pub const fn of(manager: Manager, wires: Wires) -> Self {
        let (window, agent_window, stale_ns, compute) = match manager {
            Manager::Selvedge => (32, 2, 20_000_000, (1_000_000, 20_000, 2_000)),
            Manager::OpenSm => (4, u32::MAX, u64::MAX, (0, 0, 300_000)),
        };
        Self {
            manager,
            wires,
            window,
            agent_window,
            manager_ns: 0,
            timeout_ns: 200_000_000,
            stale_ns,
            lost_ppm: 0,
            compute: Compute {
                fixed_ns: compute.0,
                per_switch_ns: compute.1,
                per_entry_ps: compute.2,
            },
        }
    }
}
