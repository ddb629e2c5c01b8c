//! Next hops towards every host, in one array.

use selvedge_sim::Par;

use crate::ground::{Ground, Way};
use crate::whole::Whole;

/// Stands for no next hop: the packet is not delivered.
const LOST: u32 = u32::MAX;
/// The packet leaves the switch to its host.
const ARRIVED: u32 = u32::MAX - 1;

/// Marks a host that no path reaches, because its link is down.
pub const UNLINKED: u32 = u32::MAX;

/// Positions of the hosts, and the next hops towards them.
#[derive(Debug)]
pub struct Routes {
    /// Number of switches.
    pub switches: usize,
    /// Number of directed links between switches.
    pub channels: usize,
    /// The switch that each channel enters.
    pub to: Vec<u32>,
    /// By host: the switch that it is attached to.
    pub at: Vec<u32>,
    /// Hosts of each connected part of the fabric, in order.
    pub parts: Vec<Vec<u32>>,
    /// The hosts of each plane, in order. [`UNLINKED`] stands for a host with a link that is down.
    pub planes: Vec<Vec<u32>>,
    /// Switches with hosts, in order; the hosts of one switch are consecutive.
    pub leaves: Vec<Leaf>,
    /// Next hop by host, then switch: a channel, `ARRIVED` or `LOST`.
    next: Vec<u32>,
}

/// A switch with hosts.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    /// Index of the switch.
    pub switch: u32,
    /// Number of the leaf's hosts.
    pub hosts: u32,
}

impl Routes {
    /// Builds the array from the tables: four bytes per host and switch.
    pub fn new(ground: &Ground<'_>, par: Par) -> Self {
        let switches = ground.switches;
        let mut next = vec![LOST; ground.hosts.len() * switches];
        let mut rows: Vec<&mut [u32]> = next.chunks_mut(switches.max(1)).collect();
        par.for_each_mut(&mut rows, |host, row| towards(ground, host, row));
        let mut parts = vec![Vec::new(); ground.parts];
        for (i, host) in (0_u32..).zip(&ground.hosts) {
            parts[ground.part[host.switch as usize] as usize].push(i);
        }
        let whole = Whole::new(ground);
        let mut planes = vec![Vec::new(); whole.live_of_plane.len()];
        for (hosts, &plane) in parts.iter().zip(&whole.plane_of) {
            planes[plane].extend_from_slice(hosts);
        }
        if let Some(first) = planes.first_mut() {
            first.extend((0..whole.unlinked).map(|_| UNLINKED));
        }
        planes.iter_mut().for_each(|hosts| hosts.sort_unstable());
        let leaves = (0_u32..).zip(&ground.host_count).filter(|(_, hosts)| **hosts > 0);
        Self {
            switches,
            channels: ground.channels.len(),
            to: ground.channels.iter().map(|c| c.dst).collect(),
            at: ground.hosts.iter().map(|h| h.switch).collect(),
            parts,
            planes,
            leaves: leaves.map(|(switch, &hosts)| Leaf { switch, hosts }).collect(),
            next,
        }
    }

    /// Appends the channels from a switch to a host to `way`. Returns false, with `way` unchanged, if packets are not
    /// delivered.
    pub fn follow(&self, from: u32, host: u32, way: &mut Vec<u32>) -> bool {
        let row = &self.next[host as usize * self.switches..][..self.switches];
        let (start, mut at) = (way.len(), from);
        loop {
            match row[at as usize] {
                ARRIVED => return true,
                // A path with more hops than there are switches is a loop.
                channel if channel != LOST && way.len() - start < self.switches => {
                    way.push(channel);
                    at = self.to[channel as usize];
                }
                _ => {
                    way.truncate(start);
                    return false;
                }
            }
        }
    }
}

/// Fills in the next hops of all switches towards a host. A host without a LID has none.
fn towards(ground: &Ground<'_>, host: usize, row: &mut [u32]) {
    let Some(lid) = ground.subject.lids.base(ground.hosts[host].at) else {
        return;
    };
    for (switch, next) in row.iter_mut().enumerate() {
        *next = match ground.route(switch, lid).1.way() {
            Way::Channel(channel) => u32::try_from(channel).unwrap_or(LOST),
            Way::Host(end) if end as usize == host => ARRIVED,
            Way::Host(_) | Way::Own | Way::Dead(_) => LOST,
        };
    }
}
