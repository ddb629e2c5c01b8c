//! The data that a server of the ibsim protocol needs from the fabric behind it.

use selvedge_types::{PKey, PortNum};
use selvedge_wire::SmpData;

/// A port of the simulated fabric to which clients attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachPoint {
    /// Node number; only the backend interprets it.
    pub node: u32,
    /// Port: 0 on switches, 1 or more on hosts.
    pub port: PortNum,
}

/// The fabric behind a server. It answers the requests that clients make before their first MAD.
pub trait Backend {
    /// Finds the port to attach to: by the node's id in its net file, then by its description. Returns the default node
    /// if `name` is empty. Clients truncate names to 31 bytes.
    fn find(&self, name: &str) -> Option<AttachPoint>;

    /// Returns the name of the node that `at` belongs to. Clients get it truncated to 31 bytes.
    fn name(&self, at: AttachPoint) -> String;

    /// Returns the NodeInfo of `at`.
    fn node_info(&self, at: AttachPoint) -> SmpData;

    /// Returns PortInfo of a port of the node that `at` belongs to. If the node has no such port, returns that of the
    /// attached port.
    fn port_info(&self, at: AttachPoint, port: PortNum) -> SmpData;

    /// Returns the P_Keys of `at`; clients get the first 32.
    fn p_keys(&self, at: AttachPoint) -> Vec<PKey>;
}
