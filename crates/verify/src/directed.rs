//! Finds nodes that no directed route reaches: a manager cannot query or set them, wherever its port is.

use std::collections::VecDeque;

use crate::finding::{Fault, Finding, Place, Severity};
use crate::ground::Ground;

/// Largest number of links of a directed route. Source: IBA vol 1 §14.2.2 (HopCount).
const HOPS_MAX: u32 = 63;
/// Largest number of links between the first switch on a manager's directed route and the last switch that the route
/// reaches. The first link of the route leads from the manager's host to a switch.
const FAR_MAX: u32 = HOPS_MAX - 1;

/// Returns one finding for each part that is too large for any manager. It is assumed that a manager runs on a host; in
/// a part without hosts, on a switch.
pub fn findings(ground: &Ground<'_>) -> Vec<Finding> {
    let mut firsts = vec![None; ground.parts];
    for switch in (0..ground.switches).rev() {
        firsts[ground.part[switch] as usize] = Some(switch);
    }
    let walk = Walk::new(ground);
    firsts
        .into_iter()
        .flatten()
        .filter_map(|first| walk.finding(first))
        .collect()
}

struct Walk<'a> {
    ground: &'a Ground<'a>,
    /// Index of each switch's first channel; channels are sorted by source.
    starts: Vec<usize>,
}

impl<'a> Walk<'a> {
    fn new(ground: &'a Ground<'a>) -> Self {
        let starts = (0..=ground.switches).map(|s| ground.channels.partition_point(|c| (c.src as usize) < s));
        Self {
            ground,
            starts: starts.collect(),
        }
    }

    /// Returns the switches of a part and their distances from one of them, nearest first.
    fn from(&self, first: usize) -> Vec<(usize, u32)> {
        let mut seen = vec![false; self.ground.switches];
        let (mut found, mut open) = (Vec::new(), VecDeque::from([(first, 0)]));
        seen[first] = true;
        while let Some((at, far)) = open.pop_front() {
            found.push((at, far));
            for channel in &self.ground.channels[self.starts[at]..self.starts[at + 1]] {
                let next = channel.dst as usize;
                if !std::mem::replace(&mut seen[next], true) {
                    open.push_back((next, far + 1));
                }
            }
        }
        found
    }

    /// Returns how many switches and hosts are too many hops away from a manager at this place. Also returns the first
    /// switch that is too far, or that has a host that is too far.
    fn beyond(&self, found: &[(usize, u32)], has_hosts: bool) -> Beyond {
        let far_max = if has_hosts { FAR_MAX } else { HOPS_MAX };
        let mut beyond = Beyond::default();
        for &(switch, far) in found {
            if far > far_max {
                beyond.switches += 1;
                beyond.first = beyond.first.or(Some(switch));
            }
            let hosts = u64::from(self.ground.host_count[switch]);
            if far + 1 > far_max && hosts > 0 {
                beyond.hosts += hosts;
                beyond.first = beyond.first.or(Some(switch));
            }
        }
        beyond
    }

    fn finding(&self, first: usize) -> Option<Finding> {
        let found = self.from(first);
        // In nearly every fabric all places are far enough below the limit.
        let diameter_max = 2 * found.last().map_or(0, |(_, far)| *far);
        if diameter_max < FAR_MAX {
            return None;
        }
        let host_count = &self.ground.host_count;
        let has_hosts = found.iter().any(|(switch, _)| host_count[*switch] > 0);
        let mut best: Option<(usize, Beyond)> = None;
        for &seat in &self.seats(&found, has_hosts) {
            let beyond = self.beyond(&self.from(seat), has_hosts);
            if beyond.nodes() == 0 {
                return None;
            }
            if best.as_ref().is_none_or(|(_, least)| beyond.nodes() < least.nodes()) {
                best = Some((seat, beyond));
            }
        }
        let (seat, beyond) = best?;
        let place = |switch: usize| {
            let switch = u32::try_from(switch).unwrap_or(u32::MAX);
            Place::node(self.ground.subject.fabric, self.ground.node_of(switch))
        };
        let fault = Fault::OutOfReach {
            seat: place(seat),
            switches: beyond.switches,
            hosts: beyond.hosts,
            first: place(beyond.first.unwrap_or(seat)),
        };
        Some(Finding::new(Severity::Warning, fault))
    }

    /// Returns the candidate switches for the manager, in order: first the middle of a longest path. If two switches
    /// are too far apart for a manager at any place, returns only that middle switch.
    fn seats(&self, found: &[(usize, u32)], has_hosts: bool) -> Vec<usize> {
        let end = found.last().map_or(0, |(switch, _)| *switch);
        let from_end = self.from(end);
        let (other, length) = from_end.last().copied().unwrap_or((end, 0));
        let mut to_ends = vec![0; self.ground.switches];
        for &(switch, far) in from_end.iter().chain(&self.from(other)) {
            to_ends[switch] = far.max(to_ends[switch]);
        }
        let is_seat = |switch: &usize| !has_hosts || self.ground.host_count[*switch] > 0;
        let mut seats: Vec<usize> = found.iter().map(|(switch, _)| *switch).filter(is_seat).collect();
        seats.sort_by_key(|&switch| to_ends[switch]);
        if length.div_ceil(2) > HOPS_MAX {
            seats.truncate(1);
        }
        seats
    }
}

/// The nodes that a manager at one place cannot reach.
#[derive(Default)]
struct Beyond {
    switches: u64,
    hosts: u64,
    first: Option<usize>,
}

impl Beyond {
    const fn nodes(&self) -> u64 {
        self.switches + self.hosts
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::PortState;

    use super::*;
    use crate::{Subject, support};

    /// Checks the findings on a row or ring of switches, with a host on every `each`-th switch.
    fn check(switches: usize, is_ring: bool, each: usize, want: &[(u64, u64)]) {
        let mut net = support::Net::new(switches as u64, 4);
        for at in 1..switches {
            net.link(at - 1, at);
        }
        if is_ring {
            net.link(switches - 1, 0);
        }
        for at in (0..switches).filter(|at| each > 0 && at % each == 0) {
            net.host(at);
        }
        let fabric = net.finish(PortState::Init);
        let lids = support::lids(&fabric, 0);
        let plan = support::plan(&fabric, lids.clone(), support::minhop(&fabric, &lids));
        let found = findings(&Ground::new(Subject::plan(&fabric, &plan)));
        let found: Vec<_> = found
            .iter()
            .map(|finding| match finding.fault {
                Fault::OutOfReach { switches, hosts, .. } => (switches, hosts),
                ref other => panic!("{other}"),
            })
            .collect();
        assert_eq!(found, want, "{switches} {is_ring} {each}");
    }

    #[test]
    fn directed_routes_have_63_hops() {
        check(0, false, 1, &[]);
        check(60, false, 1, &[]);
        // 61 links lead from the middle to each end: the hosts there are the 63rd hop.
        check(123, false, 1, &[]);
        check(124, false, 1, &[(0, 1)]);
        check(125, false, 1, &[(0, 2)]);
        check(126, false, 1, &[(1, 3)]);
        check(123, true, 1, &[]);
        check(140, true, 1, &[(15, 17)]);
        // In a part without hosts, the manager is on a switch.
        check(127, false, 0, &[]);
        check(128, false, 0, &[(1, 0)]);
        // A single host, at one end of the row.
        check(70, false, 70, &[(7, 0)]);
        check(300, false, 1, &[(175, 177)]);
    }

    #[test]
    fn each_part_is_looked_at() {
        let mut net = support::Net::new(280, 4);
        for at in (1..280).filter(|at| *at != 140) {
            net.link(at - 1, at);
        }
        let fabric = net.finish(PortState::Init);
        let lids = support::lids(&fabric, 0);
        let plan = support::plan(&fabric, lids.clone(), support::minhop(&fabric, &lids));
        assert_eq!(findings(&Ground::new(Subject::plan(&fabric, &plan))).len(), 2);
    }
}
