//! Changes of a fabric while packets move: faults, and writes of a manager.

use core::fmt::Debug;

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::{Idx, Lid};

use crate::Simulation;
use crate::endpoint::Endpoint;
use crate::layout::NO_PORT;
use crate::subnet::Subnet;
use crate::units::{LinkRate, Ps};

/// A change at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The time, in picoseconds.
    pub at: Ps,
    /// The change.
    pub change: Change,
}

/// A change. It does nothing if it names no port, link or switch of the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A cable is cut: packets on it are lost, packets waiting for it are dropped.
    Cut(PortRef),
    /// A cable that was cut carries packets again.
    Mend(PortRef),
    /// A cable changes its rate to this, in both directions.
    Rate(PortRef, LinkRate),
    /// A switch gets one new forwarding entry.
    Entry {
        /// The switch.
        switch: SwitchIdx,
        /// The destination.
        lid: Lid,
        /// The output port; 255: drop.
        output: u8,
    },
    /// A block of forwarding entries, as written by one Set.
    Block {
        /// The switch.
        switch: SwitchIdx,
        /// Block number.
        block: u16,
        /// Entries of the block.
        entries: Box<[u8; BLOCK_LIDS]>,
    },
}

impl<H: Copy + Debug> Subnet<H> {
    fn set_entry(&mut self, switch: SwitchIdx, lid: u16, output: u8) {
        let Some(at) = self.layout.switches.get(switch.to_usize()) else {
            return;
        };
        if lid <= self.layout.top {
            let output = if output > at.ports { NO_PATH } else { output };
            let place = self.layout.place_of_entry(switch.0, lid);
            self.layout.entries[place] = output;
        }
    }

    /// Returns both ends of a cable.
    fn ends(&self, at: PortRef) -> Option<[u32; 2]> {
        let port = self.layout.refs.iter().position(|&found| found == at)? as u32;
        let peer = self.ports[port as usize].peer;
        (peer != NO_PORT).then_some([port, peer])
    }

    fn set_rate(&mut self, at: PortRef, rate: LinkRate) {
        for port in self.ends(at).into_iter().flatten() {
            self.ports[port as usize].byte_time = rate.byte_time();
        }
        self.layout.mixed = true;
    }

    /// Sets the state of both ends of a cable. Returns them if it was another before.
    fn set_ends(&mut self, at: PortRef, up: bool) -> Option<[u32; 2]> {
        let ends = self.ends(at)?;
        if self.ports[ends[0] as usize].up == up {
            return None;
        }
        for port in ends {
            let end = &mut self.ports[port as usize];
            end.up = up;
            // Packets sent before belong to an earlier epoch.
            end.epoch = end.epoch.wrapping_add(u8::from(!up));
            if !up && self.now >= self.counts_from {
                self.port_stats[port as usize].downed += 1;
            }
        }
        Some(ends)
    }
}

impl<E: Endpoint> Simulation<E> {
    /// Applies a change that was scheduled.
    pub(crate) fn change_is_due(&mut self, index: u32) {
        if let Some(change) = self.subnet.changes.take(index) {
            self.change(change);
        }
    }

    /// Applies a change.
    pub(crate) fn change(&mut self, change: Change) {
        match change {
            Change::Cut(at) => self.set_link(at, false),
            Change::Mend(at) => self.set_link(at, true),
            Change::Rate(at, rate) => self.subnet.set_rate(at, rate),
            Change::Entry { switch, lid, output } => self.subnet.set_entry(switch, lid.0, output),
            Change::Block { switch, block, entries } => {
                let first = u32::from(block) * BLOCK_LIDS as u32;
                for (lid, &output) in (first..).zip(entries.iter()) {
                    if let Ok(lid) = u16::try_from(lid) {
                        self.subnet.set_entry(switch, lid, output);
                    }
                }
            }
        }
    }

    fn set_link(&mut self, at: PortRef, up: bool) {
        for port in self.subnet.set_ends(at, up).into_iter().flatten() {
            let component = self.subnet.layout.components[port as usize];
            match component.checked_sub(self.subnet.layout.first_host()) {
                Some(port) => {
                    self.endpoint.link(port, up, &mut self.subnet);
                    if up {
                        self.subnet.pull(&mut self.endpoint, port);
                    }
                }
                None if up => {}
                None => {
                    let num = self.subnet.layout.refs[port as usize].port.get();
                    self.drop_waiting(self.subnet.here(component), num);
                }
            }
        }
    }
}

/// Changes that are scheduled. Places are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    all: Vec<Option<Change>>,
    free: Vec<u32>,
}

impl Changes {
    /// Stores a change. Returns its place.
    pub fn put(&mut self, change: Change) -> u32 {
        if let Some(place) = self.free.pop() {
            self.all[place as usize] = Some(change);
            return place;
        }
        self.all.push(Some(change));
        (self.all.len() - 1) as u32
    }

    /// Removes a change.
    pub fn take(&mut self, place: u32) -> Option<Change> {
        let change = self.all.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(change)
    }
}
