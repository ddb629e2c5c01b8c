//! Computes the legal paths to one target, with upward and downward steps kept apart.

use selvedge_graph::{Graph, Lists};

use crate::engines::updn::order::Order;
use crate::paths::Entry;

/// Stands for no path, in hop counts.
const NONE: u16 = u16::MAX;

/// The switches in their order from top to bottom, each with the neighbours above and below it. All indices in this
/// type are places in the order, not switch numbers.
#[derive(Debug)]
pub(crate) struct Levels {
    at: Vec<u32>,
    place: Vec<u32>,
    up: Lists<u32>,
    down: Lists<u32>,
}

/// Scratch memory of [`Levels::route`], by position.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Hops to the target going only down.
    down: Vec<u16>,
    /// Hops left on the chosen path.
    taken: Vec<u16>,
    /// By switch: true if a switch above it sends packets for the target down to it.
    entered: Vec<bool>,
    queue: Vec<u32>,
}

impl Levels {
    /// Splits neighbours into those above and those below.
    pub fn new(graph: &Graph, order: &Order) -> Self {
        let (mut up, mut down) = (Lists::default(), Lists::default());
        for (place, &switch) in (0..).zip(&order.at) {
            let near = graph.neighbours(switch as usize);
            let near = || near.iter().map(|&n| order.position[n as usize]);
            up.push(near().filter(|&p| p < place));
            down.push(near().filter(|&p| p > place));
        }
        Self {
            at: order.at.clone(),
            place: order.position.clone(),
            up,
            down,
        }
    }

    /// Fills the entries towards `target`.
    ///
    /// From top to bottom each switch takes its shortest path. That path leads up to a neighbour, which already has its
    /// path, or down. If it leads down, the switch below is *entered*: its own path must lead down as well, and is its
    /// shortest path of only down steps. Whether a switch is entered is known before it is processed, because only
    /// switches above can enter it. So no packet that came down ever goes up again. Each hop brings a packet one hop
    /// nearer, so there are no loops.
    pub fn route(&self, target: usize, scratch: &mut Scratch, row: &mut [Entry]) {
        let target = self.place[target] as usize;
        self.only_down(target, scratch);
        let Scratch {
            down, taken, entered, ..
        } = scratch;
        taken.clear();
        taken.resize(self.at.len(), NONE);
        entered.clear();
        entered.resize(self.at.len(), false);
        entered[target] = true;
        for (place, &switch) in self.at.iter().enumerate() {
            let hops = if entered[place] {
                down[place]
            } else {
                let up = self.up.get(place).iter().map(|&p| taken[p as usize].saturating_add(1));
                up.min().unwrap_or(NONE).min(down[place])
            };
            if hops > Entry::HOPS_MAX {
                continue;
            }
            taken[place] = hops;
            row[switch as usize] = Entry::new(hops, entered[place]);
            if hops == down[place] {
                for &below in self.down.get(place) {
                    entered[below as usize] |= down[below as usize].saturating_add(1) == hops;
                }
            }
        }
    }

    /// Breadth-first from the target upwards: finds the switches that reach it by down steps only.
    fn only_down(&self, target: usize, scratch: &mut Scratch) {
        let Scratch { down, queue, .. } = scratch;
        down.clear();
        down.resize(self.at.len(), NONE);
        down[target] = 0;
        queue.clear();
        queue.push(u32::try_from(target).unwrap_or(u32::MAX));
        let mut head = 0;
        while let Some(&place) = queue.get(head) {
            head += 1;
            let hops = down[place as usize].saturating_add(1);
            for &above in self.up.get(place as usize) {
                if down[above as usize] == NONE {
                    down[above as usize] = hops;
                    queue.push(above);
                }
            }
        }
    }
}
