//! Finds a tree of next hops, and at the same time an order of all channels that agrees with the tree.
//!
//! The order is made from its end: a channel may come next if all channels that its packets wait for have their places.
//! A switch without a next hop takes the best of the channels that may come next; from then on other switches may send
//! to it. A channel to a switch without a next hop gets a place only if no other channel can have one; the switch at
//! the beginning of this channel cannot use it after that. So a tree that exists is missed only if the wrong channels
//! are given up in this way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{NONE, Net, Order};

/// Cost of a path: first the number (entries or hops) that matters most to the caller, then the rest.
pub(in crate::engines::weave) type Cost = (u32, u64);
/// Preference among the channels of a switch: the lowest is preferred. The cost comes last.
pub(in crate::engines::weave) type Rank = (bool, u32, u64);

/// The task of a sweep.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::weave) struct Task<'a> {
    /// The switch at the end of all paths.
    pub goal: u32,
    /// The switch that needs a path; `None`: all.
    pub until: Option<u32>,
    /// Channels that must not get a place before `until` has a path.
    pub held: &'a [u32],
}

/// State of a channel during a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Other channels must get their places first.
    #[default]
    Waits,
    /// The channel may get a place, and leads to a switch without a path.
    Idle,
    /// The channel may get a place, and its switch may send by it.
    Useful,
    /// The channel has a place, or gets the next one.
    Given,
}

/// Memory of sweeps, and the tree of the last one.
#[derive(Clone, Debug, Default)]
pub(in crate::engines::weave) struct Sweep {
    /// The egress channel of each switch; [`NONE`] for the goal, and for switches without a path yet.
    pub next: Vec<u32>,
    /// The cost of the path from each switch.
    pub cost: Vec<Cost>,
    /// Switches with a path found by the sweep, each after the switch that it sends to.
    pub found: Vec<u32>,
    /// By channel: the number of channels that it waits for and that have no place yet.
    waits: Vec<u32>,
    place: Vec<Place>,
    /// By switch: true if its channel has a place, so that other switches may send to it.
    is_ready: Vec<bool>,
    /// Channels from the last to the first.
    placed: Vec<u32>,
    free: Vec<u32>,
    useful: BinaryHeap<Reverse<(Rank, u32)>>,
    /// Channels that could get a place but did not lead to the destination then, each with the number of choices of its
    /// switch.
    idle: BinaryHeap<(u32, Reverse<u32>)>,
}

impl Sweep {
    /// Clears the sweep for another goal: no switch has a path.
    pub fn start(&mut self, net: &Net) {
        self.next.clear();
        self.next.resize(net.switches, NONE);
        self.cost.clear();
        self.cost.resize(net.switches, (0, 0));
    }

    /// Prepares for a new sweep.
    fn reset(&mut self, net: &Net, goal: u32) {
        let lists = [&mut self.placed, &mut self.free, &mut self.found];
        lists.into_iter().for_each(Vec::clear);
        self.idle.clear();
        self.useful.clear();
        self.place.clear();
        self.place.resize(net.channels(), Place::Waits);
        self.is_ready.clear();
        self.is_ready.resize(net.switches, false);
        self.is_ready[goal as usize] = true;
    }
}

impl Order {
    /// Finds paths for the switches without a path in `sweep`. If all get one, the new order agrees with all turns of
    /// the graph and of these paths; the caller must still add the new turns to the graph. If not all get one, the
    /// order is unchanged. `is_up` returns true for channels that may be used. `rank` ranks a channel by the cost of
    /// the path after it.
    pub fn sweep(
        &mut self,
        net: &Net,
        task: Task<'_>,
        sweep: &mut Sweep,
        is_up: impl Fn(u32) -> bool,
        rank: impl Fn(u32, Cost) -> Rank,
    ) -> bool {
        sweep.reset(net, task.goal);
        let mut run = Run {
            net,
            order: self,
            task,
            sweep,
            rank,
        };
        let is_found = run.all(is_up);
        if is_found && task.until.is_none() {
            for (place, &c) in (0..).zip(sweep.placed.iter().rev()) {
                self.place[c as usize] = place;
                self.at[place as usize] = c;
            }
        }
        is_found
    }

    /// Marks channels, and all channels with packets that may wait for them.
    pub fn mark_before(&mut self, net: &Net, channels: &[u32]) {
        let (_, stamp) = self.new_stamps();
        self.behind.clear();
        self.behind.extend(channels);
        channels.iter().for_each(|&c| self.seen[c as usize] = stamp);
        let mut head = 0;
        while let Some(&at) = self.behind.get(head) {
            head += 1;
            let there = net.first[net.src[at as usize] as usize];
            for i in self.back.of(at as usize) {
                let before = net.rev[(there + i) as usize];
                if self.seen[before as usize] != stamp {
                    self.seen[before as usize] = stamp;
                    self.behind.push(before);
                }
            }
        }
    }

    /// True if a channel was marked last.
    pub fn is_marked(&self, channel: u32) -> bool {
        self.seen[channel as usize] == self.stamp
    }
}

/// A running sweep.
struct Run<'a, R> {
    net: &'a Net,
    order: &'a Order,
    task: Task<'a>,
    sweep: &'a mut Sweep,
    rank: R,
}

impl<R: Fn(u32, Cost) -> Rank> Run<'_, R> {
    /// Gives all channels their places, or as many as are needed; false if some switch then has no path.
    fn all(&mut self, is_up: impl Fn(u32) -> bool) -> bool {
        let channels = self.net.channels();
        for &c in self.task.held {
            self.sweep.place[c as usize] = Place::Given;
        }
        self.sweep.waits.clear();
        self.sweep.waits.extend(&self.order.onward.ones);
        for c in 0..channels as u32 {
            if !is_up(c) {
                // No channel waits for it, and it waits for none.
                debug_assert_eq!(self.sweep.waits[c as usize], 0);
                self.sweep.place[c as usize] = Place::Given;
                self.sweep.free.push(c);
            } else if self.sweep.waits[c as usize] == 0 && self.sweep.place[c as usize] == Place::Waits {
                self.come_up(c);
            }
        }
        loop {
            while let Some(c) = self.sweep.free.pop() {
                self.put(c);
            }
            if let Some(Reverse((rank, c))) = self.sweep.useful.pop() {
                let switch = self.net.src[c as usize];
                if self.is_open(switch) {
                    self.settle(switch, c, (rank.1, rank.2));
                    if self.task.until == Some(switch) {
                        return true;
                    }
                }
            } else if !self.give_up() {
                break;
            }
        }
        let is_open = |s| self.is_open(s);
        self.task.until.is_none() && !(0..self.net.switches as u32).any(is_open) && self.sweep.placed.len() == channels
    }

    /// True if a switch still needs a path.
    fn is_open(&self, switch: u32) -> bool {
        switch != self.task.goal && self.sweep.next[switch as usize] == NONE
    }

    /// True if the sweep must find a path for this switch.
    fn is_wanted(&self, switch: u32) -> bool {
        self.task.until.is_none_or(|until| until == switch)
    }

    /// Handles a channel that may get its place now.
    fn come_up(&mut self, c: u32) {
        let (src, dst) = (self.net.src[c as usize], self.net.dst[c as usize]);
        let place = if !self.is_open(src) {
            self.sweep.free.push(c);
            Place::Given
        } else if self.sweep.is_ready[dst as usize] {
            let rank = (self.rank)(c, self.sweep.cost[dst as usize]);
            self.sweep.useful.push(Reverse((rank, c)));
            Place::Useful
        } else {
            self.sweep.idle.push((self.choices(src), Reverse(c)));
            Place::Idle
        };
        self.sweep.place[c as usize] = place;
    }

    /// Sets the egress channel of a switch; its other channels are no longer needed.
    fn settle(&mut self, switch: u32, by: u32, cost: Cost) {
        let sweep = &mut *self.sweep;
        sweep.next[switch as usize] = by;
        sweep.cost[switch as usize] = cost;
        sweep.found.push(switch);
        for out in self.net.out(switch as usize) {
            if matches!(sweep.place[out], Place::Idle | Place::Useful) {
                sweep.place[out] = Place::Given;
                sweep.free.push(out as u32);
            }
        }
    }

    /// Gives a channel the next place from the end.
    fn put(&mut self, c: u32) {
        self.sweep.placed.push(c);
        let src = self.net.src[c as usize];
        let there = self.net.first[src as usize];
        for i in self.order.back.of(c as usize) {
            let before = self.net.rev[(there + i) as usize];
            let waits = &mut self.sweep.waits[before as usize];
            *waits -= 1;
            if *waits == 0 && self.sweep.place[before as usize] == Place::Waits {
                self.come_up(before);
            }
        }
        if self.sweep.next[src as usize] != c {
            return;
        }
        self.sweep.is_ready[src as usize] = true;
        for out in self.net.out(src as usize) {
            let before = self.net.rev[out];
            if self.sweep.place[before as usize] == Place::Idle {
                self.come_up(before);
            }
        }
    }

    /// Gives up a channel that leads nowhere, at the switch with the most other channels. Returns false if giving up
    /// channels cannot help any more.
    fn give_up(&mut self) -> bool {
        while let Some((choices, Reverse(c))) = self.sweep.idle.pop() {
            if self.sweep.place[c as usize] != Place::Idle {
                continue;
            }
            // A switch never has more choices than it had when the channel came up.
            let left = self.choices(self.net.src[c as usize]);
            if left < choices {
                self.sweep.idle.push((left, Reverse(c)));
                continue;
            }
            self.sweep.place[c as usize] = Place::Given;
            self.sweep.free.push(c);
            // A switch without a usable channel stays without a path.
            return left > 1 || !self.is_wanted(self.net.src[c as usize]);
        }
        false
    }

    /// Returns the number of channels by which a switch may still send.
    fn choices(&self, switch: u32) -> u32 {
        let outs = self.net.out(switch as usize);
        outs.map(|out| u32::from(self.sweep.place[out] != Place::Given)).sum()
    }
}
