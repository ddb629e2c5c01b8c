//! What a server of the ibsim protocol must know about the fabric behind it.

use selvedge_types::{PKey, PortNum};
use selvedge_wire::SmpData;

/// A port of the simulated fabric to which clients attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachPoint {
    /// Node, by a number that only the backend understands.
    pub node: u32,
    /// Port: 0 on switches, 1 or more on hosts.
    pub port: PortNum,
}

/// The fabric behind a server: answers what clients ask before they send their first MAD.
pub trait Backend {
    /// Finds the port to attach to: by the node's id in its net file, then by its description; the default node if
    /// `name` is empty. Names reach us cut to 31 bytes.
    fn find(&self, name: &str) -> Option<AttachPoint>;

    /// Name of the node that `at` belongs to; clients get it cut to 31 bytes.
    fn name(&self, at: AttachPoint) -> String;

    /// NodeInfo as `at` answers it.
    fn node_info(&self, at: AttachPoint) -> SmpData;

    /// PortInfo of a port of the node that `at` belongs to; the attached port's if the node has no such port.
    fn port_info(&self, at: AttachPoint, port: PortNum) -> SmpData;

    /// P_Keys of `at`; clients get the first 32.
    fn p_keys(&self, at: AttachPoint) -> Vec<PKey>;
}
