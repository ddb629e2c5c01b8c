//! Errors of the emulator's interface.

/// A request to the emulator that it cannot carry out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// SLV-EMU-0001: a client can only be attached to a port that can have a LID.
    #[error("SLV-EMU-0001: {port} is no end port; attach at port 0 of a switch, or at a port of a CA or router")]
    NotAnEndPort {
        /// Name of the port.
        port: String,
    },
    /// SLV-EMU-0002: the client is not attached.
    #[error("SLV-EMU-0002: there is no such client; attach it first")]
    NoSuchClient,
    /// SLV-EMU-0003: the port already has a subnet manager.
    #[error("SLV-EMU-0003: a subnet manager is attached at {port} already; use another port, or stop that manager")]
    SecondManager {
        /// Name of the port.
        port: String,
    },
    /// SLV-EMU-0004: the fabric has no such node.
    #[error("SLV-EMU-0004: the fabric has no node \"{name}\"; give its description or its GUID as 0x…")]
    UnknownNode {
        /// The name given.
        name: String,
    },
    /// SLV-EMU-0005: several nodes have this description.
    #[error("SLV-EMU-0005: {count} nodes are called \"{name}\"; give the GUID as 0x…")]
    AmbiguousNode {
        /// The name given.
        name: String,
        /// Number of nodes with this description.
        count: usize,
    },
    /// SLV-EMU-0006: the node has no such port.
    #[error("SLV-EMU-0006: {node} has no port {port}: it has ports 1-{count}")]
    NoSuchPort {
        /// Name of the node.
        node: String,
        /// The port number given.
        port: u8,
        /// Number of the node's external ports.
        count: u8,
    },
    /// SLV-EMU-0007: a link fault names a port without a cable.
    #[error("SLV-EMU-0007: there is no cable at {port}")]
    NoCable {
        /// Name of the port.
        port: String,
    },
    /// SLV-EMU-0008: the text is not a fault, node or port.
    #[error("SLV-EMU-0008: cannot read '{text}': want {want}")]
    Syntax {
        /// The text.
        text: String,
        /// The text expected.
        want: &'static str,
    },
    /// SLV-EMU-0009: a load names a node that has no host port with a cable.
    #[error("SLV-EMU-0009: {name} is no host, and no host is cabled to it: name a host, or a switch with hosts")]
    NoHost {
        /// The name given.
        name: String,
    },
    /// SLV-EMU-0010: there is no pattern or counter with this name.
    #[error("SLV-EMU-0010: there is no {kind} '{word}'{meant}; known: {known}")]
    UnknownWord {
        /// What was wanted.
        kind: &'static str,
        /// The word given.
        word: String,
        /// The closest name, in brackets; empty if none is close.
        meant: String,
        /// All names.
        known: String,
    },
}
