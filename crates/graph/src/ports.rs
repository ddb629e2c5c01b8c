//! Channels by port.

use crate::graph::Graph;
use crate::{NONE, number};

/// The channel behind each port of each switch. Memory: four bytes per switch and port of the largest switch.
#[derive(Clone, Debug)]
pub struct ByPort {
    stride: usize,
    channel: Vec<u32>,
}

impl ByPort {
    /// Reads the channels of a fabric.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let most = graph
            .channels()
            .items()
            .iter()
            .map(|channel| usize::from(channel.egress));
        let stride = most.max().unwrap_or(0) + 1;
        let mut channel = vec![NONE; graph.switches() * stride];
        for switch in 0..graph.switches() {
            for (at, out) in graph.channels().range(switch).zip(graph.channels().get(switch)) {
                channel[switch * stride + usize::from(out.egress)] = number(at);
            }
        }
        Self { stride, channel }
    }

    /// Returns the channel that leaves a switch by a port; [`NONE`] for ports that lead to no switch, and for invalid
    /// ports.
    #[inline]
    #[must_use]
    pub fn channel(&self, switch: u32, port: u8) -> u32 {
        match usize::from(port) < self.stride {
            true => self.channel[switch as usize * self.stride + usize::from(port)],
            false => NONE,
        }
    }
}
