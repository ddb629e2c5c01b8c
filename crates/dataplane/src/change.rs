//! Changes of a fabric while packets move: faults, and writes of a manager.

use core::fmt::Debug;

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_plan::multicast::{MftBlock, MulticastTables, PortMask};
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::{Idx, Lid, LidRange, PortNum, Sl, Vl};

use crate::Simulation;
use crate::arbitration::VlArb;
use crate::endpoint::Endpoint;
use crate::layout::{MULTICAST, NO_PORT};
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
    /// A multicast LID gets other ports at a switch.
    Multicast {
        /// The switch.
        switch: SwitchIdx,
        /// The multicast LID.
        mlid: Lid,
        /// The ports that get a copy.
        ports: PortMask,
    },
    /// A block of multicast entries, as written by one Set.
    MulticastBlock {
        /// The switch.
        switch: SwitchIdx,
        /// Block number.
        block: u16,
        /// Position: ports `16 * position` to `16 * position + 15`.
        position: u8,
        /// Entries of the block.
        entries: Box<MftBlock>,
    },
    /// A row of an SLtoVLMappingTable.
    SlToVl {
        /// The egress port: of a switch, or an end port.
        port: PortRef,
        /// The ingress port; of no meaning for an end port.
        ingress: PortNum,
        /// Lane of each service level; 15: drop.
        row: [Vl; Sl::COUNT],
    },
    /// The arbitration tables of a port. Entries of lanes that are not in use are skipped.
    Arbitration(PortRef, VlArb),
    /// An end port gets other LIDs.
    Lids(PortRef, LidRange),
}

impl<H: Copy + Debug> Subnet<H> {
    fn set_entry(&mut self, switch: SwitchIdx, lid: u16, output: u8) {
        let Some(ports) = self.layout.switches.get(switch.to_usize()).map(|at| at.ports) else {
            return;
        };
        if lid > self.layout.top && lid < MULTICAST && output != NO_PATH {
            self.layout.grow(lid);
        }
        if lid <= self.layout.top {
            let output = if output > ports { NO_PATH } else { output };
            let place = self.layout.place_of_entry(switch.0, lid);
            self.layout.entries[place] = output;
        }
    }

    /// Returns both ends of a cable.
    fn ends(&self, at: PortRef) -> Option<[u32; 2]> {
        let port = self.layout.find(at)?;
        let peer = self.ports[port as usize].peer;
        (peer != NO_PORT).then_some([port, peer])
    }

    fn set_multicast(&mut self, set: impl FnOnce(&mut MulticastTables)) {
        set(&mut self.layout.multicast);
        self.layout.has_copies = true;
    }

    /// Returns the end port of a port.
    fn end_port(&self, at: PortRef) -> Option<usize> {
        let place = self.layout.hosts.binary_search_by_key(&at, |port| port.at);
        place.ok()
    }

    fn set_row(&mut self, at: PortRef, ingress: PortNum, row: [Vl; Sl::COUNT]) {
        if let Some(switch) = self.fabric.switch_index(at.node) {
            self.layout.sl_to_vl.exceptions.insert((switch, ingress, at.port), row);
            self.layout.has_exceptions = true;
        } else if let Some(port) = self.end_port(at) {
            let layout = &mut self.layout;
            layout.end_lanes.resize(layout.hosts.len(), layout.lanes);
            layout.end_lanes[port] = row.map(Vl::get);
        }
    }

    fn set_arbitration(&mut self, at: PortRef, tables: &VlArb) {
        let Some(port) = self.layout.find(at) else { return };
        let tables = tables.compiled(self.settings.vls);
        let arbiter = &mut self.arbiters[port as usize];
        let place = match arbiter.tables {
            // The first are those of all other ports.
            0 => self.arbitration.len() as u32,
            own => own,
        };
        *arbiter = tables.arbiter(place);
        match self.arbitration.get_mut(place as usize) {
            Some(own) => *own = tables,
            None => self.arbitration.push(tables),
        }
    }

    fn set_lids(&mut self, at: PortRef, range: LidRange) {
        if let Some(port) = self.end_port(at) {
            let port = &mut self.layout.hosts[port];
            (port.lid, port.lids) = (range.base, range.lmc.lids());
        }
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
            Change::Multicast { switch, mlid, ports } => {
                self.subnet.set_multicast(|tables| tables.set_mask(switch, mlid, ports));
            }
            Change::MulticastBlock {
                switch,
                block,
                position,
                entries,
            } => {
                self.subnet
                    .set_multicast(|tables| tables.set_block(switch, (block, position), *entries));
            }
            Change::SlToVl { port, ingress, row } => self.subnet.set_row(port, ingress, row),
            Change::Arbitration(at, tables) => self.subnet.set_arbitration(at, &tables),
            Change::Lids(at, range) => self.subnet.set_lids(at, range),
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
