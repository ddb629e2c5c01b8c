//! Changes of a fabric while packets move: faults, and writes of a manager.

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::{Idx, Lid};

use crate::Simulation;
use crate::layout::NO_PORT;
use crate::traffic::Workload;
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

impl<W: Workload> Simulation<W> {
    /// Applies a change.
    pub(crate) fn change(&mut self, index: usize) {
        let Some(timed) = self.changes.get(index) else {
            return self.look_for_deadlock();
        };
        match timed.change.clone() {
            Change::Cut(at) => self.set_link(at, false),
            Change::Mend(at) => self.set_link(at, true),
            Change::Rate(at, rate) => {
                for port in self.ends(at).into_iter().flatten() {
                    self.ports[port as usize].byte_time = rate.byte_time();
                }
                self.layout.mixed = true;
            }
            Change::Entry { switch, lid, output } => self.set_entry(switch, lid.0, output),
            Change::Block { switch, block, entries } => {
                let first = u32::from(block) * BLOCK_LIDS as u32;
                for (lid, &output) in (first..).zip(entries.iter()) {
                    if let Ok(lid) = u16::try_from(lid) {
                        self.set_entry(switch, lid, output);
                    }
                }
            }
        }
    }

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

    fn set_link(&mut self, at: PortRef, up: bool) {
        let Some(ends) = self.ends(at) else { return };
        if self.ports[ends[0] as usize].up == up {
            return;
        }
        for port in ends {
            let end = &mut self.ports[port as usize];
            end.up = up;
            // Packets sent before belong to an earlier epoch.
            end.epoch = end.epoch.wrapping_add(u8::from(!up));
            if !up && self.now >= self.window.from {
                self.port_stats[port as usize].downed += 1;
            }
        }
        for port in ends {
            let component = self.layout.components[port as usize];
            let num = self.layout.refs[port as usize].port.get();
            let first_host = self.layout.first_host();
            match (component < first_host, up) {
                (true, false) => self.drop_waiting(self.here(component), num),
                (true, true) => {}
                (false, false) => {}
                (false, true) => self.host_send::<false>(component - first_host),
            }
        }
    }
}
