//! The channel dependency graph of switches, with a use count on every edge, and its cycles.
//!
//! A channel is a port of a switch, numbered switch × stride + port. An edge is a channel together with an egress port
//! of the switch that the channel enters. If no entry in force makes an edge any more, the edge stays as a *ghost* as
//! long as packets that an old entry forwarded along it may still wait in their switch.

use selvedge_sim::Time;

/// Stands for no dependency.
const NONE: u32 = u32::MAX;

/// A cycle of channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Circle {
    /// The channels, first to last.
    pub channels: Vec<u32>,
    /// The ghosts in the cycle, if any. With ghosts, packets that old entries forwarded take part in the cycle.
    pub ghosts: Vec<Ghost>,
}

/// A dependency in a cycle that present entries no longer make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ghost {
    /// The channel in which the packets of the ghost wait.
    pub channel: u32,
    /// When the edge became a ghost.
    pub since: Time,
    /// The place (LID, then switch) of the entry that last made the edge.
    pub place: usize,
}

/// Dependencies between channels.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    stride: usize,
    /// The edge that packets to a LID at a switch make, by LID, then switch.
    edges: Vec<u32>,
    /// By edge: the number of places that make it.
    uses: Vec<u16>,
    /// By edge: the time from which, and until which, it is a ghost.
    ghosts: Vec<(Time, Time)>,
    /// By edge: the place that made it last.
    makers: Vec<usize>,
    /// When the last ghost ends.
    haunted: Time,
    /// Edges added since the last check.
    new: Vec<u32>,
    /// Number of the search that last visited each channel, and the channel from which that search came.
    visited: Vec<(u32, u32)>,
    visit: u32,
}

impl Channels {
    pub fn new(switches: usize, stride: usize) -> Self {
        Self {
            stride,
            edges: Vec::new(),
            uses: vec![0; switches * stride * stride],
            ghosts: vec![(Time::ZERO, Time::ZERO); switches * stride * stride],
            makers: vec![0; switches * stride * stride],
            haunted: Time::ZERO,
            new: Vec::new(),
            visited: vec![(0, NONE); switches * stride],
            visit: 0,
        }
    }

    /// Sets the edge that one entry makes; `place` is the index of the entry. If no other entry makes the edge that
    /// this entry made before, that edge becomes a ghost for the given time, and the function returns true.
    pub fn set(&mut self, place: usize, edge: Option<u32>, ghost: Option<(Time, Time)>) -> bool {
        if self.edges.len() <= place {
            self.edges.resize(place + 1, NONE);
        }
        let now = edge.unwrap_or(NONE);
        let before = std::mem::replace(&mut self.edges[place], now);
        let mut is_ghost = false;
        if before == now {
            return is_ghost;
        }
        if before != NONE {
            let uses = &mut self.uses[before as usize];
            *uses -= 1;
            if let (0, Some(ghost)) = (*uses, ghost) {
                self.ghosts[before as usize] = ghost;
                self.makers[before as usize] = place;
                self.haunted = self.haunted.max(ghost.1);
                is_ghost = true;
            }
        }
        if now != NONE {
            let uses = &mut self.uses[now as usize];
            *uses += 1;
            if *uses == 1 {
                self.new.push(now);
            }
        }
        is_ghost
    }

    /// Removes the ghost of packets on a channel that waited for a port of the next switch.
    pub fn forget(&mut self, channel: usize, port: usize) {
        self.ghosts[channel * self.stride + port] = (Time::ZERO, Time::ZERO);
    }

    /// Removes the ghosts of a channel that leads elsewhere now: packets at its former end no longer hold it.
    pub fn forget_all(&mut self, channel: usize) {
        self.ghosts[channel * self.stride..][..self.stride].fill((Time::ZERO, Time::ZERO));
    }

    /// Returns a cycle closed by an edge that was added since the last call. Cycles of present entries come first.
    pub fn close(&mut self, now: Time, end: impl Fn(u32) -> Option<u8>) -> Option<Circle> {
        let mut new = std::mem::take(&mut self.new);
        new.retain(|&edge| self.uses[edge as usize] > 0);
        let mut found = new.iter().find_map(|&edge| self.circle_through(edge, None, &end));
        if found.is_none() && self.haunted > now {
            found = new.iter().find_map(|&edge| self.circle_through(edge, Some(now), &end));
        }
        new.clear();
        self.new = new;
        found
    }

    /// Returns any cycle of present entries.
    pub fn any_cycle(&mut self, end: impl Fn(u32) -> Option<u8>) -> Option<Circle> {
        let edges = (0_u32..).zip(&self.uses).filter(|(_, uses)| **uses > 0);
        let edges: Vec<u32> = edges.map(|(edge, _)| edge).collect();
        edges.into_iter().find_map(|edge| self.circle_through(edge, None, &end))
    }

    /// Searches a path from the end of an edge back to its beginning; with `haunted`, also over ghosts of that time.
    fn circle_through(&mut self, edge: u32, haunted: Option<Time>, end: &impl Fn(u32) -> Option<u8>) -> Option<Circle> {
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
                let is_there = self.uses[row + port] > 0 || haunted.is_some_and(|now| self.ghosts[row + port].1 > now);
                if is_there && self.visited[next].0 != self.visit {
                    self.visited[next] = (self.visit, channel);
                    todo.push(next as u32);
                }
            }
        }
        None
    }

    fn way_back(&self, last: u32) -> Circle {
        let mut channels = vec![last];
        let mut ghosts = Vec::new();
        let mut at = last;
        while self.visited[at as usize].1 != NONE {
            let from = self.visited[at as usize].1;
            let edge = from as usize * self.stride + at as usize % self.stride;
            if self.uses[edge] == 0 {
                ghosts.push(Ghost {
                    channel: from,
                    since: self.ghosts[edge].0,
                    place: self.makers[edge],
                });
            }
            at = from;
            channels.push(at);
        }
        channels.reverse();
        Circle { channels, ghosts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Three switches in a ring, stride 2: port 1 of each leads to the next.
    const END: fn(u32) -> Option<u8> = |channel| Some(((channel / 2 + 1) % 3) as u8);

    const fn edge(switch: u32) -> Option<u32> {
        Some((switch * 2 + 1) * 2 + 1)
    }

    #[test]
    fn circles_are_found_and_forgotten() {
        let mut channels = Channels::new(3, 2);
        channels.set(0, edge(0), None);
        channels.set(1, edge(1), None);
        assert_eq!(channels.close(Time::ZERO, END), None);
        channels.set(2, edge(2), None);
        channels.set(3, edge(2), None);
        let circle = channels.close(Time::ZERO, END).unwrap();
        assert_eq!((circle.channels.len(), circle.ghosts.len()), (3, 0), "{circle:?}");
        assert_eq!(channels.close(Time::ZERO, END), None, "told once");
        channels.set(2, None, None);
        assert!(channels.any_cycle(END).is_some(), "another LID makes it as well");
        channels.set(3, None, None);
        assert_eq!(channels.any_cycle(END), None);
    }

    #[test]
    fn ghosts_close_circles_while_they_last() {
        let check = |now: u64, is_link_lost: bool, moved: Option<usize>, want: Option<Vec<Time>>| {
            let mut channels = Channels::new(3, 2);
            channels.set(0, edge(0), None);
            channels.set(1, edge(1), None);
            assert_eq!(channels.close(Time(5), END), None);
            assert!(channels.set(1, None, Some((Time(10), Time(20)))));
            if is_link_lost {
                channels.forget(3, 1);
            }
            moved.into_iter().for_each(|channel| channels.forget_all(channel));
            channels.set(2, edge(2), None);
            let circle = channels.close(Time(now), END);
            let since = |circle: Circle| circle.ghosts.iter().map(|ghost| ghost.since).collect();
            assert_eq!(circle.map(since), want, "at {now}");
            assert_eq!(channels.any_cycle(END), None);
        };
        check(15, false, None, Some(vec![Time(10)]));
        check(20, false, None, None);
        check(15, true, None, None);
        check(15, false, Some(3), None);
        check(15, false, Some(1), Some(vec![Time(10)]));
    }
}
