//! The effect of a change of the hardware on routes.

use selvedge_chassis::PortIdx;
use selvedge_fabric::NodeIdx;
use selvedge_types::Lid;

use super::layout::Switches;
use super::waits::Haunt;

/// The effects of one change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    /// LIDs with packets that loop now and did not before, each with the switches of the loop.
    pub loops: Vec<(Lid, Vec<NodeIdx>)>,
    /// Ports of a cycle of channels that a new dependency closed, and the ghosts in it.
    pub cycle: Option<(Vec<PortIdx>, Vec<Haunt>)>,
    /// LIDs that some switches reached before and do not now.
    pub lost: Vec<(Lid, Switches)>,
    /// LIDs that some switches reach now and did not before.
    pub gained: Vec<(Lid, Switches)>,
    /// Changed entries that led packets to their destination before.
    pub changed: Vec<Changed>,
}

/// A changed entry that led packets to their destination before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub lid: Lid,
    /// The switch, by position.
    pub at: u8,
    /// The port by which packets left before the change.
    pub was: u8,
    /// Switches from which packets arrived before.
    pub from: Switches,
}
