//! The subnet as a graph: immutable snapshots and their differences.
//!
//! A [`Fabric`] contains what discovery, a file or a generator states: nodes, ports, links, capabilities, and the state
//! of each management agent. Nodes are ordered by ascending GUID, so the same subnet gives the same indices whatever
//! the order of discovery. Links are symmetric by construction. This crate makes no decisions.
//!
//! ```
//! use selvedge_fabric::{FabricBuilder, Node, diff};
//! use selvedge_types::{Guid, NodeKind, PortNum};
//!
//! let mut builder = FabricBuilder::new();
//! let leaf = builder.add(Node::new(NodeKind::Switch, Guid(1), 36, "leaf"));
//! let host = builder.add(Node::new(NodeKind::Ca, Guid(2), 1, "host"));
//! let before = builder.clone().finish()?;
//! let one = PortNum::new(1).expect("1 is a port");
//! builder.link((host, one), (leaf, one))?;
//! let after = builder.finish()?;
//! assert_eq!(diff(&before, &after).changes[0].to_string(), "+ link \"leaf\"[1] - \"host\"[1]");
//! # Ok::<(), selvedge_fabric::BuildError>(())
//! ```

mod build;
mod diff;
mod node;
mod port;
mod snapshot;
mod wait_tick;

pub use build::{BuildError, FabricBuilder, NodeKey};
pub use diff::{Change, ChangeWords, FabricDiff, diff};
pub use node::{Node, SwitchAttributes, SwitchSettings};
pub use port::{LinkState, Port, PortCapability, PortSettings};
pub use snapshot::{Fabric, Link, NodeIdx, PortRef, SwitchIdx};
pub use wait_tick::WaitTick;
