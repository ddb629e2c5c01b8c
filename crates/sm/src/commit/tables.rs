//! Tables that were read and are not as they were believed to be.

use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, HeldLanes, Installed, LaneTable};
use selvedge_types::PortNum;
use selvedge_wire::SmpData;

use super::{Ctx, Effect, InForce};
use crate::lane_smp;

impl InForce {
    /// Lane tables, to be changed.
    fn lanes(&mut self) -> &mut HeldLanes {
        Arc::make_mut(&mut Arc::make_mut(&mut self.installed).lanes)
    }

    /// An LFT block of a switch holds this. A switch that was off, or took what was meant for another, may hold other
    /// lanes as well.
    pub(super) fn lft_holds(&mut self, ctx: &Ctx<'_>, (switch, block): (SwitchIdx, usize), holds: [u8; BLOCK_LIDS]) {
        Arc::make_mut(&mut self.installed).learn(switch, block, holds);
        if let Some(found) = ctx.found.filter(|_| !self.installed.lanes.is_empty()) {
            self.lanes()
                .forget_port(found.fabric.switch(switch), PortNum::MANAGEMENT);
        }
    }

    /// A lane table of a port is not as it was written. If the node was off while it was being written, it may have
    /// lost the port's other lane tables as well, whose turn would be an interval of many light sweeps away: the sweep
    /// that is due reads all of them.
    pub(super) fn lanes_differ(&mut self, ctx: &Ctx<'_>, at: PortRef) {
        if let Some(found) = ctx.found {
            self.lanes().forget_port(found.fabric.node(at.node), at.port);
        }
    }

    /// A lane table holds this.
    pub(super) fn lanes_hold(&mut self, ctx: &Ctx<'_>, table: LaneTable, data: &SmpData) {
        if let Some(found) = ctx.found {
            lane_smp::learn(self.lanes(), &found.fabric, table, data);
        }
    }

    /// Tells if a table is another one than this manager believed to have written: a Set went along a cable that had
    /// been moved and was taken by another switch, say, or a switch acknowledged what it did not take. The table is
    /// unknown from now on: if another sweep takes the place of this one, that reads it again.
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
