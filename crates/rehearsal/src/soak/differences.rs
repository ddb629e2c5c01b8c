//! Shows a schedule step by step: what every step changed in the hardware and in the managers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use selvedge_chassis::{Chassis, PortIdx, SwitchData, TableKind};
use selvedge_fabric::NodeIdx;
use selvedge_plan::NO_PATH;
use selvedge_sim::Time;

use super::world::Observer;
use crate::subnet::ports_of;
use crate::{ManagerId, Rehearsal};

/// The changes of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The time.
    pub at: Time,
    /// Events of the schedule.
    pub happened: Vec<String>,
    /// The values that have changed.
    pub changed: Vec<String>,
}

/// Called for each step with a change; returns false if no more steps are to be shown.
pub type Taker<'a> = dyn FnMut(&Step) -> bool + 'a;

/// An observer that compares hardware and managers with the step before.
pub struct Differences<'a> {
    taker: &'a mut Taker<'a>,
    on: bool,
    happened: Vec<String>,
    versions: BTreeMap<NodeIdx, [u32; 3]>,
    ports: BTreeMap<PortIdx, String>,
    rows: BTreeMap<NodeIdx, Vec<u8>>,
    managers: BTreeMap<ManagerId, String>,
    logged: usize,
}

impl<'a> Differences<'a> {
    /// Passes every step with a change to `taker`.
    pub fn new(taker: &'a mut Taker<'a>) -> Self {
        Self {
            taker,
            on: true,
            happened: Vec::new(),
            versions: BTreeMap::new(),
            ports: BTreeMap::new(),
            rows: BTreeMap::new(),
            managers: BTreeMap::new(),
            logged: 0,
        }
    }

    fn look(&mut self, world: &Rehearsal) {
        let mut changed = Vec::new();
        let chassis = world.emulator().chassis();
        for node in chassis.fabric().nodes().indices() {
            let now =
                [TableKind::Links, TableKind::Settings, TableKind::Linear].map(|kind| chassis.version(node, kind));
            if self.versions.insert(node, now) != Some(now) {
                self.compare_node(chassis, node, &mut changed);
            }
        }
        for (id, name) in world.managers() {
            let now = world
                .view(id)
                .map_or_else(|| "not running".to_owned(), |v| format!("{} {}", v.role, v.stage));
            let before = self.managers.insert(id, now.clone());
            if before.as_ref() != Some(&now) {
                changed.push(format!("manager {name}: {} -> {now}", before.unwrap_or_default()));
            }
        }
        for entry in &world.log()[self.logged..] {
            changed.push(format!("manager {}: {}", entry.manager.0, entry.event));
        }
        self.logged = world.log().len();
        let happened = std::mem::take(&mut self.happened);
        if !(changed.is_empty() && happened.is_empty()) {
            let at = world.now();
            self.on = (self.taker)(&Step { at, happened, changed });
        }
    }

    fn compare_node(&mut self, chassis: &Chassis, node: NodeIdx, changed: &mut Vec<String>) {
        for port in ports_of(chassis, node) {
            let (wire, lids) = (chassis.wire(port), chassis.port(port).settings().lids);
            let now = match chassis.end_port(port) == port {
                true => format!("{} LID {}+{}", wire.state(), lids.base, lids.lmc.lids() - 1),
                false => wire.state().to_string(),
            };
            if let Some(before) = self.ports.insert(port, now.clone())
                && before != now
            {
                let name = chassis.fabric().port_name(chassis.port_ref(port));
                changed.push(format!("{name}: {before} -> {now}"));
            }
        }
        let row: Vec<u8> = chassis
            .switch(node)
            .map(SwitchData::linear_blocks)
            .unwrap_or_default()
            .concat();
        let before = self.rows.insert(node, row.clone()).unwrap_or_default();
        let entry = |row: &[u8], lid: usize| row.get(lid).copied().unwrap_or(NO_PATH);
        let mut entries = String::new();
        for lid in 0..row.len().max(before.len()) {
            let (old, new) = (entry(&before, lid), entry(&row, lid));
            if old != new {
                // Writing to a String cannot fail.
                let _ = write!(entries, " {lid}:{old}>{new}");
            }
        }
        if !entries.is_empty() {
            let name = &chassis.fabric().node(node).description;
            changed.push(format!("\"{name}\": entries (LID:before>now){entries}"));
        }
    }
}

impl Observer for Differences<'_> {
    fn happened(&mut self, world: &Rehearsal, what: &str) {
        if self.versions.is_empty() {
            self.look(world);
        }
        self.happened.push(what.to_owned());
    }

    fn stepped(&mut self, world: &Rehearsal) {
        if self.on {
            self.look(world);
        }
    }
}
