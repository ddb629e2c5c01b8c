//! The subnet as a graph: immutable snapshots and their differences.
//!
//! A [`Fabric`] holds what was seen (or what a file or generator says): nodes, ports, links, capabilities, and the
//! state that each management agent holds. Nodes are ordered by ascending GUID, so the same subnet gives the same
//! indices whatever the order of discovery. Links are symmetric by construction. Nothing in here decides anything.

mod build;
mod diff;
mod node;
mod port;
mod snapshot;

pub use build::{BuildError, FabricBuilder, NodeKey};
pub use diff::{Change, FabricDiff, diff};
pub use node::{Node, SwitchAttributes, SwitchSettings};
pub use port::{LinkState, Port, PortCapability, PortSettings};
pub use snapshot::{Fabric, Link, NodeIdx, PortRef, SwitchIdx};
