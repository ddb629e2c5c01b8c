//! Prepares the order of a standing proof for dependencies that repairs may add.
//!
//! If a dependency is added against the order, the channels between its two ends must be moved, and finding them is
//! most of the cost. If the dependencies that repairs would add are known, this work can be done before a fault.

use selvedge_fabric::SwitchIdx;
use selvedge_types::{Idx, PortNum};

use super::Standing;

/// A turn: packets that leave a switch by one port, and the next switch by another. One channel waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The first switch.
    pub switch: SwitchIdx,
    /// The port of this switch.
    pub port: PortNum,
    /// The port of the next switch.
    pub onward: PortNum,
}

impl Standing {
    /// Reorders channels so that these turns of hosts and agents would agree with the order on any lane. Adding them
    /// later then costs little. The proof does not change. Ports that lead to no switch are skipped. If the turns would
    /// close a cycle, the order agrees with only some of them. Call this when no repair is pending.
    pub fn make_room_for(&mut self, turns: impl IntoIterator<Item = Turn>) {
        let shape = &self.flows.shape;
        let place = |Turn { switch, port, onward }: Turn| {
            let cell = shape.turn(switch.to_usize(), port.get(), onward.get())?;
            Some((cell as u32, onward.get()))
        };
        let found: Vec<(u32, u8)> = turns.into_iter().filter_map(place).collect();
        let lanes = (0..shape.lane_count).map(|lane| (lane * shape.total()) as u32);
        let all: Vec<(u32, u8)> = lanes
            .flat_map(|first| found.iter().map(move |&(cell, port)| (first + cell, port)))
            .collect();
        self.graphs[0].stays_acyclic_with(shape, &all, &[]);
    }
}
