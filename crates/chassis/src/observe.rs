//! Reads the hardware back for tests and judges: forwarding tables and a snapshot.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, FabricBuilder, LinkState, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Installed, NO_PATH, SlToVl, Tables};
use selvedge_types::{Lid, PortNum, Sl, Vl};

use crate::{Chassis, PortIdx};

impl Chassis {
    /// Returns the effective forwarding tables: entries above a switch's LinearFDBTop count as "no path".
    #[must_use]
    pub fn tables(&self) -> Tables {
        let top = self.switches.iter().map(|s| s.settings.linear_top).max().unwrap_or(0);
        let top = top.min(Lid::UNICAST_MAX.0);
        let mut tables = Tables::new(self.switches.len(), Lid(top));
        for (idx, switch) in self.switches.iter_enumerated() {
            for block in 0..tables.blocks() {
                let mut row = *switch.linear_block(block);
                for (lid, entry) in (block * BLOCK_LIDS..).zip(&mut row) {
                    if lid > usize::from(switch.settings.linear_top) {
                        *entry = NO_PATH;
                    }
                }
                *tables.block_mut(idx, block) = row;
            }
        }
        tables
    }

    /// Returns the forwarding tables as written, block by block.
    #[must_use]
    pub fn installed(&self) -> Installed {
        let mut installed = Installed::unknown(self.switches.len());
        for (idx, switch) in self.switches.iter_enumerated() {
            for (block, data) in switch.linear.iter().enumerate() {
                installed.learn(idx, block, *data);
            }
        }
        installed
    }

    /// Returns the lane maps of all switches; the default is the most frequent row.
    #[must_use]
    pub fn sl_to_vl(&self) -> SlToVl {
        if self.lanes.iter().all(Option::is_none) {
            return SlToVl::default();
        }
        let mut uses: BTreeMap<[Vl; Sl::COUNT], usize> = BTreeMap::new();
        for (switch, input, output) in self.lane_rows() {
            *uses.entry(*self.lanes_of(switch, input, output)).or_default() += 1;
        }
        let most = uses.iter().max_by_key(|&(_, count)| *count);
        let default = most.map_or([Vl::default(); Sl::COUNT], |(row, _)| *row);
        let exceptions = self
            .lane_rows()
            .map(|at| (at, *self.lanes_of(at.0, at.1, at.2)))
            .filter(|(_, row)| *row != default)
            .collect();
        SlToVl { default, exceptions }
    }

    /// Returns the fabric with its current state: link states, settings, P_Keys, capability masks. It contains
    /// unpowered nodes, with all ports DOWN, and unplugged cables.
    #[must_use]
    pub fn observe(&self) -> Fabric {
        let mut builder = FabricBuilder::new();
        let mut keys = Vec::new();
        for (idx, built) in self.fabric.nodes().iter_enumerated() {
            let mut node = built.clone();
            if let Some(switch) = self.switch(idx) {
                node.switch_settings = switch.settings;
            }
            for num in 0..=node.port_count() {
                let (Some(at), Some(num)) = (self.port_at(idx, num), PortNum::new(num)) else {
                    continue;
                };
                if let Some(port) = node.port_mut(num) {
                    self.observe_port(at, port);
                }
            }
            keys.push(builder.add(node));
        }
        for (at, wire) in self.wires.iter_enumerated() {
            let Some(peer) = wire.peer().filter(|&peer| at <= peer) else {
                continue;
            };
            let ends = [at, peer].map(|end| self.port_ref(end));
            let [a, b] = ends.map(|end| (keys[end.node.0 as usize], end.port));
            // A port has one cable, so none is refused.
            let _ = builder.link(a, b);
        }
        // The GUIDs come from a fabric that a builder accepted, so they are unique.
        builder.finish().unwrap_or_default()
    }

    fn observe_port(&self, at: PortIdx, port: &mut selvedge_fabric::Port) {
        let (wire, data) = (&self.wires[at], &self.ports[at]);
        port.link = LinkState {
            state: wire.state,
            phys: wire.phys,
            rate: data.rate,
        };
        port.guid = self.port_guid(at);
        if self.is_switch(wire.node) && wire.num != PortNum::MANAGEMENT {
            port.guid = selvedge_types::Guid::NONE;
        } else {
            port.pkeys = data.used_pkeys().to_vec();
        }
        port.settings = data.settings;
        port.capability.mask = data.capability_mask;
        port.capability.mask2 = data.capability_mask2;
    }

    /// Iterates over every (switch, input, output).
    fn lane_rows(&self) -> impl Iterator<Item = (SwitchIdx, PortNum, PortNum)> + '_ {
        self.fabric.switches().iter_enumerated().flat_map(|(switch, &node)| {
            let count = self.nodes[node].port_count;
            let nums = move || (0..=count).filter_map(PortNum::new);
            nums().flat_map(move |input| nums().map(move |output| (switch, input, output)))
        })
    }

    fn lanes_of(&self, switch: SwitchIdx, input: PortNum, output: PortNum) -> &[Vl; Sl::COUNT] {
        self.lanes(self.fabric.switches()[switch], input.get(), output.get())
    }
}
