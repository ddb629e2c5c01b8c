//! Entries of linear tables, as switches use them.

use std::collections::BTreeSet;

use selvedge_chassis::Chassis;
use selvedge_plan::NO_PATH;
use selvedge_types::Lid;

use super::layout::Layout;
use super::links::{Far, Links};

/// Tables of all switches, and where their ports lead.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    pub layout: Layout,
    pub links: Links,
    /// The entries, by switch, then LID.
    rows: Vec<Vec<u8>>,
}

impl Entries {
    pub fn new(chassis: &Chassis) -> Self {
        let layout = Layout::new(chassis);
        Self {
            links: Links::new(&layout),
            rows: vec![Vec::new(); layout.switches().len()],
            layout,
        }
    }

    /// Reads the table of a switch. LIDs with changed entries are stale.
    pub fn read(&mut self, chassis: &Chassis, at: usize, stale: &mut BTreeSet<u16>) {
        let Some(switch) = self.layout.switch(at).and_then(|node| chassis.switch(node)) else {
            return;
        };
        let held = switch.linear_blocks().concat();
        let top = usize::from(switch.settings().linear_top);
        let row = &mut self.rows[at];
        for lid in 0..held.len().max(row.len()) {
            let entry = held.get(lid).copied().filter(|_| lid <= top).unwrap_or(NO_PATH);
            if lid >= row.len() {
                row.push(NO_PATH);
            }
            if row[lid] != entry {
                row[lid] = entry;
                stale.insert(u16::try_from(lid).unwrap_or(u16::MAX));
            }
        }
    }

    /// Returns the LIDs with packets that leave by a port, given its number.
    pub fn lids_by(&self, port: usize) -> impl Iterator<Item = u16> + '_ {
        let stride = self.layout.stride();
        let num = u8::try_from(port % stride).unwrap_or(0);
        let row = (0_u16..).zip(&self.rows[port / stride]);
        row.filter(move |(_, entry)| **entry == num).map(|(lid, _)| lid)
    }

    /// Returns the port by which a switch sends packets to a LID.
    pub fn entry(&self, at: usize, lid: Lid) -> u8 {
        let row = self.rows.get(at);
        row.and_then(|row| row.get(lid.index())).copied().unwrap_or(NO_PATH)
    }

    /// Returns where packets to a LID go from a switch.
    pub fn next(&self, at: usize, lid: Lid) -> Far {
        match self.entry(at, lid) {
            NO_PATH => Far::Dead,
            port if usize::from(port) < self.layout.stride() => {
                self.links.far(at * self.layout.stride() + usize::from(port))
            }
            _ => Far::Dead,
        }
    }

    /// Returns the switches and ports that packets to `lid` pass, beginning at a switch; `None` if they loop.
    pub fn way(&self, lid: Lid, from: u8) -> Option<Vec<(u8, u8)>> {
        let mut way = Vec::new();
        let mut at = usize::from(from);
        while way.len() <= self.layout.switches().len() {
            way.push((u8::try_from(at).unwrap_or(u8::MAX), self.entry(at, lid)));
            let Far::Switch(next, _) = self.next(at, lid) else {
                return Some(way);
            };
            at = next.into();
        }
        None
    }
}
