//! Handles tables that were read and differ from the manager's record.

use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, HeldLanes, Installed, LaneTable};
use selvedge_types::PortNum;
use selvedge_wire::SmpData;

use super::{Ctx, Effect, InForce};
use crate::lane_smp;

impl InForce {
    /// Returns the known lane tables of switches, to be changed.
    fn lanes(&mut self) -> &mut HeldLanes {
        Arc::make_mut(&mut Arc::make_mut(&mut self.installed).lanes)
    }

    /// Records the contents of an LFT block that was read back and differs from the known contents. The switch may have
    /// been off, or may have stored a Set meant for another switch, so its lane tables become unknown too.
    pub(super) fn lft_holds(&mut self, ctx: &Ctx<'_>, (switch, block): (SwitchIdx, usize), holds: [u8; BLOCK_LIDS]) {
        Arc::make_mut(&mut self.installed).learn(switch, block, holds);
        if let Some(found) = ctx.found.filter(|_| !self.installed.lanes.is_empty()) {
            self.lanes()
                .forget_port(found.fabric.switch(switch), PortNum::MANAGEMENT);
        }
    }

    /// Records a lane table of a port that differs from what was written. If the node was off when the table was
    /// written, the port's other lane tables may be lost as well. The read-back might reach these only many light
    /// sweeps later, so the heavy sweep that is due reads all of them.
    pub(super) fn lanes_differ(&mut self, ctx: &Ctx<'_>, at: PortRef) {
        if let Some(found) = ctx.found {
            self.lanes().forget_port(found.fabric.node(at.node), at.port);
        }
    }

    /// Records the contents of a lane table.
    pub(super) fn lanes_hold(&mut self, ctx: &Ctx<'_>, table: LaneTable, data: &SmpData) {
        if let Some(found) = ctx.found {
            lane_smp::learn(self.lanes(), &found.fabric, table, data);
        }
    }

    /// Returns an effect if a table differs from what this manager believed it had written. Examples: a Set crossed a
    /// moved cable and another switch stored it, or a switch acknowledged a Set that it did not store. The table
    /// becomes unknown. So the table is read again even if another sweep replaces the present one.
    pub(super) fn take_read(&mut self, fabric: &Fabric, read: &Installed) -> Option<Effect> {
        let old = self.fabric()?;
        let mut astray = Vec::new();
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let before = old.find(fabric.node(node).guid).and_then(|node| old.switch_index(node));
            let Some(before) = before else { continue };
            for block in 0..read.lfts.get(switch).map_or(0, Vec::len) {
                let (believed, read) = (self.installed.block(before, block), read.block(switch, block));
                if let (Some(believed), Some(read)) = (believed, read)
                    && believed != read
                {
                    astray.push((before, block));
                }
            }
        }
        if astray.is_empty() {
            return None;
        }
        let installed = Arc::make_mut(&mut self.installed);
        astray
            .into_iter()
            .for_each(|(switch, block)| installed.forget(switch, block));
        Some(Effect::Astray)
    }
}
