//! Which channels between switches wait for which: a graph with a use count on every edge, and its circles.
//!
//! A channel is a port of a switch, numbered switch × stride + port; an edge is a channel and the port by which packets
//! leave the switch that it enters.

/// No dependency.
const NONE: u32 = u32::MAX;

/// Dependencies between channels.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    stride: usize,
    /// The edge that packets to a LID at a switch make, by LID, then switch.
    edges: Vec<u32>,
    /// How many of them make an edge.
    uses: Vec<u16>,
    /// Edges that came since the last look.
    new: Vec<u32>,
    /// When a channel was last visited, and from where.
    visited: Vec<(u32, u32)>,
    visit: u32,
}

impl Channels {
    pub fn new(switches: usize, stride: usize) -> Self {
        Self {
            stride,
            edges: Vec::new(),
            uses: vec![0; switches * stride * stride],
            new: Vec::new(),
            visited: vec![(0, NONE); switches * stride],
            visit: 0,
        }
    }

    /// Says which edge packets make at a place; `None`: none.
    pub fn set(&mut self, place: usize, edge: Option<u32>) {
        if self.edges.len() <= place {
            self.edges.resize(place + 1, NONE);
        }
        let now = edge.unwrap_or(NONE);
        let before = std::mem::replace(&mut self.edges[place], now);
        if before == now {
            return;
        }
        if before != NONE {
            self.uses[before as usize] -= 1;
        }
        if now != NONE {
            let uses = &mut self.uses[now as usize];
            *uses += 1;
            if *uses == 1 {
                self.new.push(now);
            }
        }
    }

    /// The channels of a circle that an edge closed which came since the last call.
    pub fn close(&mut self, end: impl Fn(u32) -> Option<u8>) -> Option<Vec<u32>> {
        let mut new = std::mem::take(&mut self.new);
        let mut found = None;
        for &edge in &new {
            if found.is_none() && self.uses[edge as usize] > 0 {
                found = self.circle_through(edge, &end);
            }
        }
        new.clear();
        self.new = new;
        found
    }

    /// The channels of any circle.
    pub fn any_cycle(&mut self, end: impl Fn(u32) -> Option<u8>) -> Option<Vec<u32>> {
        let edges = (0_u32..).zip(&self.uses).filter(|(_, uses)| **uses > 0);
        let edges: Vec<u32> = edges.map(|(edge, _)| edge).collect();
        edges.into_iter().find_map(|edge| self.circle_through(edge, &end))
    }

    /// Looks for a way from the end of an edge back to its beginning.
    fn circle_through(&mut self, edge: u32, end: &impl Fn(u32) -> Option<u8>) -> Option<Vec<u32>> {
        let (from, out) = (edge / self.stride as u32, edge % self.stride as u32);
        let first = u32::from(end(from)?) * self.stride as u32 + out;
        self.visit += 1;
        let mut todo = vec![first];
        self.visited[first as usize] = (self.visit, NONE);
        while let Some(channel) = todo.pop() {
            if channel == from {
                return Some(self.way_back(channel));
            }
            let Some(switch) = end(channel) else { continue };
            let row = channel as usize * self.stride;
            for port in 0..self.stride {
                let next = usize::from(switch) * self.stride + port;
                if self.uses[row + port] > 0 && self.visited[next].0 != self.visit {
                    self.visited[next] = (self.visit, channel);
                    todo.push(next as u32);
                }
            }
        }
        None
    }

    fn way_back(&self, last: u32) -> Vec<u32> {
        let mut way = vec![last];
        let mut at = last;
        while self.visited[at as usize].1 != NONE {
            at = self.visited[at as usize].1;
            way.push(at);
        }
        way.reverse();
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_forgotten() {
        // Three switches in a ring, stride 2: port 1 of each leads to the next.
        let end = |channel: u32| Some(((channel / 2 + 1) % 3) as u8);
        let edge = |switch: u32| (switch * 2 + 1) * 2 + 1;
        let mut channels = Channels::new(3, 2);
        channels.set(0, Some(edge(0)));
        channels.set(1, Some(edge(1)));
        assert_eq!(channels.close(end), None);
        channels.set(2, Some(edge(2)));
        channels.set(3, Some(edge(2)));
        let circle = channels.close(end).unwrap();
        assert_eq!(circle.len(), 3, "{circle:?}");
        assert_eq!(channels.close(end), None, "told once");
        channels.set(2, None);
        assert!(channels.any_cycle(end).is_some(), "another LID makes it as well");
        channels.set(3, None);
        assert_eq!(channels.any_cycle(end), None);
    }
}
