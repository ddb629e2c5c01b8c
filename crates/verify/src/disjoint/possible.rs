//! Finds the pairs of switches with two disjoint paths in the cabling, whatever the tables are. This is the most that
//! any routing can reach.
//!
//! Two paths without a common cable exist if no bridge separates the two switches. Two paths without a common switch
//! between the ends exist if both switches are in one biconnected block of more than one cable. One depth-first search
//! finds both. Work: switches + cables.

use crate::phases::net::Net;

/// Stands for no switch or cable.
const NONE: u32 = u32::MAX;

/// The 2-edge-connected components and the biconnected blocks of the fabric.
#[derive(Debug)]
pub(super) struct Possible {
    /// By switch: its 2-edge-connected component (no single cable separates it).
    by_cables: Vec<u32>,
    /// By switch: the biconnected blocks of more than one cable that contain it.
    blocks: Vec<Vec<u32>>,
}

/// A switch on the search path.
struct Visit {
    switch: u32,
    /// The cable by which the switch was reached. A parallel cable counts as a path back.
    by: u32,
    /// The next channel to examine.
    next: u32,
}

/// State of the depth-first search.
struct Search<'a> {
    net: &'a Net,
    cables: &'a [u32],
    /// By switch: its number in order of discovery, and the lowest number of a switch to which it has a path back.
    met: Vec<u32>,
    back: Vec<u32>,
    clock: u32,
    /// Switches, and cables with their two ends, that are not assigned to a component yet.
    open: Vec<u32>,
    open_cables: Vec<(u32, u32)>,
    found: Possible,
    parts: u32,
    blocks: u32,
}

impl Possible {
    /// Searches all cables that carry packets. `cables` is the cable of each channel.
    pub fn new(net: &Net, cables: &[u32]) -> Self {
        let mut search = Search {
            net,
            cables,
            met: vec![NONE; net.switches],
            back: vec![NONE; net.switches],
            clock: 0,
            open: Vec::new(),
            open_cables: Vec::new(),
            found: Self {
                by_cables: vec![NONE; net.switches],
                blocks: vec![Vec::new(); net.switches],
            },
            parts: 0,
            blocks: 0,
        };
        for switch in 0..net.switches as u32 {
            if search.met[switch as usize] == NONE {
                search.visit_all(switch);
            }
        }
        search.found
    }

    /// True if two paths between the switches share no cable.
    pub fn by_cables(&self, a: u32, b: u32) -> bool {
        self.by_cables[a as usize] == self.by_cables[b as usize]
    }

    /// True if two paths between the switches share no cable and no switch between the ends.
    pub fn by_switches(&self, a: u32, b: u32) -> bool {
        let of_b = &self.blocks[b as usize];
        self.blocks[a as usize].iter().any(|block| of_b.contains(block))
    }
}

impl Search<'_> {
    /// Visits all switches reachable from `root`.
    fn visit_all(&mut self, root: u32) {
        let mut way = vec![self.meet(root, NONE)];
        while let Some(visit) = way.last_mut() {
            let at = visit.switch;
            let first = self.net.first_out(at as usize);
            if visit.next < self.net.out_degree(at as usize) {
                let channel = first + visit.next;
                visit.next += 1;
                let by = visit.by;
                if let Some(next) = self.look(at, by, channel) {
                    way.push(next);
                }
                continue;
            }
            way.pop();
            self.leave(at, way.last().map(|parent| parent.switch));
        }
    }

    fn meet(&mut self, switch: u32, by: u32) -> Visit {
        self.met[switch as usize] = self.clock;
        self.back[switch as usize] = self.clock;
        self.clock += 1;
        self.open.push(switch);
        Visit { switch, by, next: 0 }
    }

    /// Examines a channel. Returns the switch behind it if it was not found before.
    fn look(&mut self, at: u32, by: u32, channel: u32) -> Option<Visit> {
        let (cable, to) = (self.cables[channel as usize], self.net.channels[channel as usize].dst);
        if cable == by || to == at || !self.net.is_alive(channel as usize) {
            return None;
        }
        let met = self.met[to as usize];
        if met == NONE {
            self.open_cables.push((at, to));
            return Some(self.meet(to, cable));
        }
        if met < self.met[at as usize] {
            self.open_cables.push((at, to));
            self.back[at as usize] = self.back[at as usize].min(met);
        }
        None
    }

    /// Called when all switches behind `at` have been visited.
    fn leave(&mut self, at: u32, parent: Option<u32>) {
        if self.back[at as usize] == self.met[at as usize] {
            // Only the cable by which `at` was reached leads back beyond `at`.
            while let Some(switch) = self.open.pop() {
                self.found.by_cables[switch as usize] = self.parts;
                if switch == at {
                    break;
                }
            }
            self.parts += 1;
        }
        let Some(parent) = parent else { return };
        let back = self.back[at as usize];
        self.back[parent as usize] = self.back[parent as usize].min(back);
        if back >= self.met[parent as usize] {
            self.close_block(parent, at);
        }
    }

    /// Ends a biconnected block: the cables found since the cable from `parent` to `at`. Only `parent` connects them to
    /// the switches found earlier.
    fn close_block(&mut self, parent: u32, at: u32) {
        let Some(start) = self.open_cables.iter().rposition(|&ends| ends == (parent, at)) else {
            return;
        };
        let block = self.open_cables.split_off(start);
        if block.len() > 1 {
            for end in block.into_iter().flat_map(|(a, b)| [a, b]) {
                let blocks = &mut self.found.blocks[end as usize];
                if blocks.last() != Some(&self.blocks) {
                    blocks.push(self.blocks);
                }
            }
        }
        self.blocks += 1;
    }
}
