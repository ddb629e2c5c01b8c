//! The packet simulator: an event-driven simulation of the data plane of an InfiniBand subnet.
//!
//! It takes the fabric, LIDs, forwarding tables, service levels and lane maps that a subnet manager programs, and moves
//! packets over them: real header sizes, credits in blocks of 64 bytes, virtual cut-through, arbitration between lanes.
//! There are no events per flit. A packet costs one event per hop without contention, and one more if it or a packet
//! behind it has to wait. Times are whole picoseconds. Events are ordered by time, component and insertion, and every
//! host has its own stream of random numbers: the same seed gives the same bytes.
//!
//! There are two parts. [`Subnet`] has links, switches, packets and the clock. An [`Endpoint`] is what sits on the end
//! ports: it offers packets when a port is pulled, and gets those that arrive. [`Hosts`] is one that posts the messages
//! of a [`Workload`], by packets without a connection or by queue pairs. A [`Simulation`] of both can be stepped from
//! outside, and the subnet changed while it runs: links, rates, LIDs, and every table entry by entry ([`Change`]).
//!
//! What is simplified:
//! - Credits of a packet return when its last byte has left the buffer, not block by block. Flow-control packets and
//!   packet delimiters take no time on the wire.
//! - If the first byte of a packet has reached a switch when the link breaks, the packet counts as received.
//! - A host accepts packets at the rate of its link.
//! - Copies of a multicast packet leave an input one after the other.
//!
//! What is not there yet, and where it goes:
//!
//! | what | where it goes |
//! |---|---|
//! | congestion control | marks in `arbitrate`, `wait_for_credits`, a field of [`Packet`]; throttling in the endpoint |
//! | MPI | a layer above an HCA, or above `Program` of `workload`, which has sends, receives and matching |
//! | P_Keys at ports of switches | `arrive`, `put_on_wire`; packets have a P_Key, and endpoints get it |
//!
//! The simulation alone, release build, least of ten runs:
//!
//! | work | ns an event | bare queue | million 64-byte units a second |
//! |---|---|---|---|
//! | 324 hosts, MTU 2048, load 0.5, 4 lanes | 66 | 18 | 68 |
//! | the same, saturated, 1 lane | 67 | 22 | 69 |
//! | the same, saturated, 4 lanes | 76 | 20 | 42 |
//! | MTU 256, load 0.5, 4 lanes | 66 | 19 | 9.5 |
//! | 5,832 hosts, load 0.4, 1 lane | 101 | 24 | 36 |
//!
//! What an event costs (`perf stat`, user mode; the bare queue in brackets). 324 hosts, load 0.5: 727 (172)
//! instructions, 293 (73) cycles, 3.0 (1.4) branches guessed wrong, 11 (0.6) first-level and 0.3 (0.1) second-level
//! misses. 5,832 hosts: 890 (236), 470–560 (173), 3.0 (1.4), 16 (2.2), 7.3 (0). Since packet, ports, lanes, entry and
//! the sender's lane have one cache line each, 7 of 17 second-level misses are left. These attempts gained little:
//! reading ahead (nothing with 5,832 hosts, 4 % slower with 324), special code for packets without a queue and for
//! outputs with one lane (the same cycles), link-time optimisation (1 % fewer cycles). A branch guessed wrong costs
//! some 22 cycles, together a fifth of the time. If all were guessed right, an event would take 230 cycles, three times
//! as long as the bare queue.
//!
//! ```
//! use selvedge_dataplane::{LinkRate, lifetime};
//!
//! let link: LinkRate = "4x-hdr".parse()?;
//! assert_eq!(link.byte_time().of(2_074), 82_960, "picoseconds of a packet with 2,048 bytes of payload");
//! assert_eq!(lifetime(18), Some(1_073_741_824_000), "1.07 s");
//! # Ok::<(), selvedge_dataplane::LinkRateError>(())
//! ```

mod arbitration;
mod calendar;
mod change;
mod counters;
mod credit;
mod deadlock;
mod discard;
mod endpoint;
mod hosts;
mod lane;
mod layout;
mod log;
mod multicast;
mod packet;
mod pull;
mod queues;
mod sets;
mod settings;
mod state;
mod stats;
mod subnet;
mod switch;
mod units;

pub use arbitration::VlArb;
pub use calendar::{Calendar, Event};
pub use change::{Change, Timed};
pub use counters::{Account, LinkUse, PortCounters, Utilisation};
pub use deadlock::Deadlock;
pub use endpoint::{EndPort, EndPortInfo, Endpoint};
pub use hosts::{
    Arrival, Footprint, Header, Host, Hosts, Latency, Message, QpCounts, QpState, Results, Series, Workload,
    steady_from,
};
pub use layout::{BuildError, Network};
pub use log::EventLog;
pub use packet::Packet;
pub use settings::{
    Buffers, LongHaul, Operation, QpSettings, Queueing, Settings, SettingsError, SlChoice, Transport, ack_timeout,
    lifetime,
};
pub use state::Simulation;
pub use stats::{DropReason, Drops, Histogram};
pub use subnet::Subnet;
pub use units::{BLOCK_BYTES, ByteTime, LinkRate, LinkRateError, PS_PER_NS, Ps, Speed, blocks, header};

use selvedge_sim::Seed;

/// Simulates from the start to the end of the measured time.
pub fn simulate<W: Workload>(
    network: &Network<'_>,
    settings: &Settings,
    workload: W,
    changes: Vec<Timed>,
    seed: Seed,
) -> Result<Results, BuildError> {
    let mut simulation = Simulation::new(network, settings, workload, changes, seed)?;
    simulation.run_until(settings.end());
    Ok(simulation.finish())
}
