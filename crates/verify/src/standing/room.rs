//! Room in the order of a standing proof for dependencies that may come.
//!
//! A dependency that appears against the order moves channels between its two ends, and finding these takes most of
//! what it costs. Where it is known beforehand what repairs would add, that is done before there is a fault.

use selvedge_fabric::SwitchIdx;
use selvedge_types::{Idx, PortNum};

use super::Standing;

/// Packets that leave a switch by a port, and the next switch by another: one channel that waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The first switch.
    pub switch: SwitchIdx,
    /// The port there.
    pub port: PortNum,
    /// The port of the next switch.
    pub onward: PortNum,
}

impl Standing {
    /// Puts channels in an order that these turns of hosts and agents would follow as well, on any lane, so that they
    /// cost next to nothing when they come. Nothing that is proved changes. Ports that lead to no switch are passed
    /// over; where the turns would close a cycle the order follows some of them. To be called when there is time.
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
