//! Errors of a standing proof.

use selvedge_fabric::SwitchIdx;
use selvedge_types::{Lid, PortNum};

/// Reason why there is no standing proof, or why a change was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandingError {
    /// SLV-JUDGE-0300: the lane of a packet depends on more than its destination.
    #[error(
        "SLV-JUDGE-0300: the lane of LID {lid} changes along the path, or a link lacks it; judge the whole plan instead"
    )]
    Lanes {
        /// The first LID with packets on such a lane.
        lid: Lid,
    },
    /// SLV-JUDGE-0301: the fabric is not connected.
    #[error("SLV-JUDGE-0301: the fabric has {parts} parts without a link between them; judge the whole plan instead")]
    Parts {
        /// Number of parts; 0: the fabric has no switch.
        parts: u64,
    },
    /// SLV-JUDGE-0302: the LinearFDBTop of a switch hides LIDs in use, or the tables are not those of the fabric.
    #[error("SLV-JUDGE-0302: tables or LinearFDBTop of some switch end below LID {need}, or a switch has no table")]
    Tables {
        /// The highest LID.
        need: Lid,
    },
    /// SLV-JUDGE-0303: packets loop.
    #[error("SLV-JUDGE-0303: packets to LID {lid} loop through switch {}", switch.0)]
    Circle {
        /// The LID.
        lid: Lid,
        /// A switch of the loop.
        switch: SwitchIdx,
    },
    /// SLV-JUDGE-0304: there are more switches or hosts than a standing proof supports.
    #[error(
        "SLV-JUDGE-0304: {count} switches or host ports; a standing proof covers at most {limit}; judge a whole plan"
    )]
    Size {
        /// Number of switches or hosts.
        count: u64,
        /// Largest supported number.
        limit: u64,
    },
    /// SLV-JUDGE-0305: a switch has no table entry for a LID.
    #[error("SLV-JUDGE-0305: switch {} has no entry for LID {lid}", switch.0)]
    NoSuchEntry {
        /// The switch.
        switch: SwitchIdx,
        /// The LID.
        lid: Lid,
    },
    /// SLV-JUDGE-0307: the proof was made for another fabric.
    #[error("SLV-JUDGE-0307: the plan has other switches, hosts, LIDs or cables than the proof; make a new proof")]
    Changed,
    /// SLV-JUDGE-0306: there was no such link between switches when the proof was made.
    #[error("SLV-JUDGE-0306: port {port} of switch {} had no link to a switch; judge the whole plan instead", switch.0)]
    NoSuchLink {
        /// The switch.
        switch: SwitchIdx,
        /// The port.
        port: PortNum,
    },
}
