//! What takes how long: the inputs of every time.

use crate::{Manager, Shape};

/// The fabric's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wires {
    /// Time of an agent for one request, in ns.
    pub service_ns: u64,
    /// Time of a MAD in a cable, in ns.
    pub link_ns: u64,
    /// Time of a switch to pass a directed-route SMP on, in ns.
    pub relay_ns: u64,
    /// Requests an agent holds, the one in service included; VL15 has no flow control, so more are lost.
    pub queue_depth: u64,
}

impl Default for Wires {
    /// 20 µs an agent; 100 ns a cable of 20 m with 290 bytes at 25 Gbit/s; 500 ns a switch; 16 requests.
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
    /// One way over so many cables, in ns.
    #[must_use]
    pub const fn way_ns(&self, hops: u16) -> u64 {
        match hops {
            0 => 0,
            hops => hops as u64 * self.link_ns + (hops as u64 - 1) * self.relay_ns,
        }
    }
}

/// Time of what is computed between reading and writing: `fixed + switches · (per_switch + LIDs · per_entry)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    /// Once, in ns.
    pub fixed_ns: u64,
    /// Per switch, in ns.
    pub per_switch_ns: u64,
    /// Per entry of all tables, in ps: (switch, LID) pairs are many.
    pub per_entry_ps: u64,
}

impl Compute {
    /// Its time on a fabric, in ns.
    #[must_use]
    pub const fn time_ns(&self, shape: &Shape) -> u64 {
        let entries = shape.switches() * shape.lids();
        self.fixed_ns + shape.switches() * self.per_switch_ns + entries * self.per_entry_ps / 1_000
    }
}

/// Everything that a time depends on but the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The manager that sends the MADs.
    pub manager: Manager,
    /// The fabric's part.
    pub wires: Wires,
    /// Requests in flight in all.
    pub window: u32,
    /// Requests in flight at one agent that the manager knows.
    pub agent_window: u32,
    /// Time of the manager for one answer, in ns.
    pub manager_ns: u64,
    /// Time after which a request is repeated, in ns.
    pub timeout_ns: u64,
    /// Time after which a request no longer holds a place in the window, in ns.
    pub stale_ns: u64,
    /// Exchanges lost in a million, requests and answers together.
    pub lost_ppm: u32,
    /// What is computed.
    pub compute: Compute,
}

impl Cost {
    /// The defaults of a manager.
    ///
    /// Ours: window 32, two at an agent; planning 20 µs a switch and 2 ns an entry and 1 ms to store LIDs, which is
    /// what a rehearsal takes. OpenSM: window 4 (max_wire_smps); minhop 300 ns an entry, between the 120 and 480 ns of
    /// most fabrics in the stored benchmark run of routing.
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
