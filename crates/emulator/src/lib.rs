//! Management agents over simulated hardware: a fabric that answers MADs, without I/O and without a clock.
//!
//! An [`Emulator`] is a deterministic core: [`Emulator::send`] takes datagrams, [`Emulator::advance`] processes what is
//! due and returns the datagrams that clients receive, and [`Emulator::next_event`] returns when to call it next. The
//! caller decides whether time is virtual or real. The same fabric, configuration, seed and calls give the same
//! deliveries, byte for byte.
//!
//! As on real hardware, an agent is a serial server with a finite queue. VL15 has no flow control, so a request that
//! finds the queue full is dropped and costs its sender a time-out. Every MAD goes hop by hop through the state that
//! the hardware has at that moment: if a link is cut while a MAD is on it, the MAD is lost. Each switch rewrites
//! directed routes. LID-routed MADs follow the installed tables. GMPs pass only ACTIVE ports. `attribute` has one file
//! per attribute.
//!
//! Traffic of hosts is a load, not packets: it moves counters and does not delay MADs (see `load`). Counters of loads
//! and of injected errors advance when they are read; [`Emulator::settle_counters`] brings all of them up to now.
//!
//! Simpler than hardware: a MAD does not wait for another one on a link; switches relay directed routes even while
//! their agents hang; M_Key leases are evaluated only when a key is checked.
//!
//! Panic contract: no MAD, with any bytes, makes this crate panic. Each is delivered, served, or dropped with a counted
//! [`DropReason`].
//!
//! ```
//! use selvedge_emulator::{Emulator, EmulatorConfig};
//! use selvedge_fabric::{FabricBuilder, Node};
//! use selvedge_sim::{Seed, Time};
//! use selvedge_types::{Guid, NodeKind, PortNum};
//! use selvedge_wire::{Address, AttributeId, Datagram, DirectedRoute, Mad, Method, NodeInfo};
//!
//! let port = |num| PortNum::new(num).expect("a port number");
//! let mut builder = FabricBuilder::new();
//! let host = builder.add(Node::new(NodeKind::Ca, Guid(0x10), 1, "host"));
//! let leaf = builder.add(Node::new(NodeKind::Switch, Guid(0x20), 36, "leaf"));
//! builder.link((host, port(1)), (leaf, port(7)))?;
//! let fabric = builder.finish()?;
//!
//! let mut emulator = Emulator::new(&fabric, EmulatorConfig::default(), Seed(1));
//! let client = emulator.attach_named("host")?;
//! let route = DirectedRoute::LOCAL.then(port(1)).expect("one hop");
//! let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route);
//! emulator.send(Time::ZERO, client, &Datagram { address: Address::DIRECTED, mad });
//!
//! let mut received = Vec::new();
//! emulator.advance(Time::from_millis(1), &mut received);
//! let info: NodeInfo = received[0].datagram.mad.read()?;
//! assert_eq!((info.node_guid, info.local_port), (Guid(0x20), 7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod attribute;
mod cable;
mod client;
mod config;
mod count;
mod directed;
mod emulator;
mod error;
mod errors;
mod fault;
mod flight;
mod held;
mod link;
mod load;
mod m_key;
mod meter;
mod name;
mod network;
mod pma;
mod text;
mod trap;
mod watch;
mod wrapper;

pub use cable::{Ratios, Readings};
pub use client::{ClientId, Delivery};
pub use config::EmulatorConfig;
pub use count::{Counts, DropReason, MadTable};
pub use emulator::Emulator;
pub use error::EmulatorError;
pub use errors::{Amount, ErrorCounter, Per};
pub use fault::{FAULT_FORMS, FAULT_WORDS, Fault, FaultForm};
pub use load::{Congestion, Load};
pub use name::{NodeName, PortName};
pub use watch::Change;
