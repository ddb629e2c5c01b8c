//! Finds witnesses: a concrete packet for a loss, concrete packets for every step of a cycle.

use selvedge_fabric::PortRef;
use selvedge_types::{Lid, PortNum, Vl};

use crate::finding::{Hop, Place, Step, Traffic, Witness};
use crate::ground::{Exit, Ground, Owner, Way};
use crate::reach::destinations;
use crate::sl_vl::{LaneMap, level};
use crate::tally::{Loss, What};

/// A packet at a switch.
#[derive(Clone, Copy, Debug)]
struct Stop {
    switch: u32,
    ingress: u8,
    egress: u8,
    exit: Exit,
    /// The selected lane, if the exit needs one.
    vl: Option<Vl>,
    /// True if the link has the lane.
    has_lane: bool,
}

/// Finds witnesses on one subject.
#[derive(Clone, Copy, Debug)]
pub struct Finder<'a> {
    /// The fabric.
    pub ground: &'a Ground<'a>,
    /// The lane map.
    pub lanes: &'a LaneMap,
}

impl Finder<'_> {
    fn stop(&self, switch: u32, ingress: u8, lid: Lid) -> Stop {
        let at = switch as usize;
        let (egress, exit) = self.ground.route(at, lid);
        let asked = exit
            .needs_lane()
            .then(|| self.lanes.vl(at, ingress, egress, level(self.ground, lid)));
        let exists = |vl: Vl| vl != Vl::MANAGEMENT && vl.get() < self.ground.lanes(at, egress);
        Stop {
            switch,
            ingress,
            egress,
            exit,
            vl: asked,
            has_lane: asked.is_none_or(exists),
        }
    }

    /// Records the path of a packet from a switch on, until it ends or has visited a switch `visits` times. Thousands
    /// of short paths are tried, so the caller's memory is reused for all of them.
    fn path(&self, (mut switch, mut ingress): (u32, u8), lid: Lid, visits: usize, path: &mut Vec<Stop>) {
        path.clear();
        while path.iter().filter(|stop| stop.switch == switch).count() < visits {
            let stop = self.stop(switch, ingress, lid);
            path.push(stop);
            let (Some(channel), true) = (stop.exit.as_channel(), stop.has_lane) else {
                break;
            };
            let channel = self.ground.channels[channel];
            (switch, ingress) = (channel.dst, channel.into);
        }
    }

    fn hop(&self, stop: Stop) -> Hop {
        Hop {
            switch: Place::node(self.ground.subject.fabric, self.ground.node_of(stop.switch)),
            // Ingress ports come from the fabric, so they are at most 254.
            ingress: PortNum::new(stop.ingress).unwrap_or_default(),
            egress: stop.egress,
            vl: stop.vl,
        }
    }

    fn place(&self, at: PortRef) -> Place {
        Place::port(self.ground.subject.fabric, at)
    }

    /// Returns all sources with the switch and port by which they enter, hosts first.
    fn sources(&self) -> impl Iterator<Item = (PortRef, u32, u8)> + '_ {
        let hosts = self.ground.hosts.iter().map(|host| (host.at, host.switch, host.port));
        let switches = (0..self.ground.switches as u32).map(|switch| (self.ground.port0(switch), switch, 0));
        hosts.chain(switches)
    }

    /// Returns a packet that is lost in this way.
    pub fn of_loss(&self, loss: &Loss) -> Witness {
        let owner = self.ground.subject.lids.owner(loss.lid);
        let mut path = Vec::new();
        let ends = match loss.what {
            What::Dead(_) | What::Wrong(_) => self.ends(loss.lid),
            What::Lane(_) | What::Loop { .. } | What::OwnLid => Vec::new(),
        };
        let may_be = |switch: u32| ends.get(switch as usize).is_none_or(|&end| end == loss.switch);
        let others = self.sources().filter(|(source, ..)| Some(*source) != owner);
        for (source, switch, ingress) in others.filter(|&(_, switch, _)| may_be(switch)) {
            self.path((switch, ingress), loss.lid, 1, &mut path);
            if self.ends_like(&path, loss) {
                return Witness::Path {
                    source: self.place(source),
                    lid: loss.lid,
                    hops: path.into_iter().map(|stop| self.hop(stop)).collect(),
                };
            }
        }
        Witness::Plain
    }

    /// Returns the switch at which a packet to `lid` ends, for each switch at which it may begin, so that most sources
    /// need not be tried. For a packet in a loop it is any switch of the loop.
    fn ends(&self, lid: Lid) -> Vec<u32> {
        const OPEN: u32 = u32::MAX;
        let mut ends = vec![OPEN; self.ground.switches];
        let mut way = Vec::new();
        for start in 0..self.ground.switches {
            let mut at = start;
            way.clear();
            while ends[at] == OPEN {
                // Marked, so that the search ends where a loop closes.
                ends[at] = u32::try_from(at).unwrap_or(OPEN);
                way.push(at);
                let Some(channel) = self.ground.route(at, lid).1.as_channel() else {
                    break;
                };
                at = self.ground.channels[channel].dst as usize;
            }
            let end = ends[at];
            way.iter().for_each(|&switch| ends[switch] = end);
        }
        ends
    }

    fn ends_like(&self, path: &[Stop], loss: &Loss) -> bool {
        let Some(last) = path.last() else { return false };
        if let What::Loop { .. } = loss.what {
            let goes_on = last.has_lane && last.exit.as_channel().is_some();
            return goes_on && path.iter().any(|stop| stop.switch == loss.switch);
        }
        if last.switch != loss.switch {
            return false;
        }
        match (loss.what, last.exit.way()) {
            (What::Lane(vl), _) => last.vl == Some(vl) && !last.has_lane,
            (What::Dead(cause), Way::Dead(found)) => cause == found,
            (What::Wrong(exit), _) => exit == last.exit && last.has_lane,
            _ => false,
        }
    }

    /// Returns, for every dependency of a cycle, a packet that makes it. The cycle lists (lane, channel).
    pub fn of_cycle(&self, traffic: Traffic, cycle: &[(usize, usize)]) -> Witness {
        let next = cycle.iter().cycle().skip(1);
        let steps = cycle.iter().zip(next);
        Witness::Cycle(
            steps
                .filter_map(|(&held, &wanted)| self.step(traffic, held, wanted))
                .collect(),
        )
    }

    fn step(&self, traffic: Traffic, held: (usize, usize), wanted: (usize, usize)) -> Option<Step> {
        let ((from_lane, from), (to_lane, to)) = (held, wanted);
        let (source_switch, switch) = (self.ground.channels[from].src, self.ground.channels[from].dst);
        let leads = |switch: u32, lid, channel| self.ground.route(switch as usize, lid).1.as_channel() == Some(channel);
        let mut path = Vec::new();
        for target in destinations(self.ground) {
            let (lid, at) = (target.lid, self.ground.subject.lids.owner(target.lid));
            if !leads(source_switch, lid, from) || !leads(switch, lid, to) {
                continue;
            }
            let is_host = |port: PortRef| self.ground.subject.fabric.switch_index(port.node).is_none();
            let to_switch = matches!(target.owner, Owner::Switch(_));
            for (source, first, ingress) in self.sources() {
                let counted = match traffic {
                    Traffic::Hosts => is_host(source),
                    Traffic::Agents => is_host(source) || !to_switch,
                    Traffic::Switches => true,
                };
                if !counted || Some(source) == at {
                    continue;
                }
                // A packet in a loop makes its last dependency in the second round.
                self.path((first, ingress), lid, 3, &mut path);
                let lane = |stop: &Stop| stop.vl.map(|vl| usize::from(vl.get()));
                let makes = |held: &Stop, wanted: &Stop| {
                    held.switch == source_switch && lane(held) == Some(from_lane) && lane(wanted) == Some(to_lane)
                };
                if let Some(pair) = path.windows(2).find(|pair| makes(&pair[0], &pair[1])) {
                    return Some(Step {
                        source: self.place(source),
                        lid,
                        from_vl: pair[0].vl?,
                        hop: self.hop(pair[1]),
                    });
                }
            }
        }
        None
    }
}
