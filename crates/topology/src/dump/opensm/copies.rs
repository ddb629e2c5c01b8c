//! Multicast tables of every switch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use selvedge_fabric::Fabric;
use selvedge_plan::multicast::{MFT_LIDS, MFT_PORTS, MftBlocks};
use selvedge_types::{Guid, Lid};

use super::{Sink, switches};

/// Writes `opensm.mcfdbs`: the ports to which each switch copies packets of each group. Switches without copies are
/// left out.
pub fn write_copies(fabric: &Fabric, copies: &BTreeMap<Guid, MftBlocks>, sink: Sink<'_>) {
    let mut text = String::new();
    for switch in switches(fabric) {
        let guid = fabric.switch(switch).guid;
        let Some(blocks) = copies.get(&guid) else { continue };
        let numbers: BTreeSet<u16> = blocks.keys().map(|&(block, _)| block).collect();
        for block in numbers {
            for entry in 0..MFT_LIDS {
                let ports = ports(blocks, block, entry);
                if ports.is_empty() {
                    continue;
                }
                // Writing to a String cannot fail.
                if text.is_empty() {
                    let _ = writeln!(text, "\nSwitch {guid}\nLID    : Out Port(s)");
                }
                let lid = usize::from(Lid::MULTICAST_MIN.0) + usize::from(block) * MFT_LIDS + entry;
                let _ = write!(text, "0x{lid:04X} :");
                for port in ports {
                    let _ = write!(text, " 0x{port:03X} ");
                }
                text.push('\n');
            }
        }
        sink(&text);
        text.clear();
    }
}

fn ports(blocks: &MftBlocks, block: u16, entry: usize) -> Vec<usize> {
    let mut ports = Vec::new();
    for (&(_, position), data) in blocks.range((block, 0)..=(block, u8::MAX)) {
        let bits = (0..MFT_PORTS).filter(|bit| data[entry] >> bit & 1 != 0);
        ports.extend(bits.map(|bit| usize::from(position) * MFT_PORTS + bit));
    }
    ports
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::NodeKind;

    use super::*;

    #[test]
    fn as_opensm_writes_it() {
        let mut builder = FabricBuilder::new();
        for guid in [0x0100, 0x01, 0x02] {
            builder.add(Node::new(NodeKind::Switch, Guid(guid), 36, "a switch"));
        }
        let fabric = builder.finish().unwrap();
        let block = |entry: usize, mask: u16| {
            let mut block = [0; MFT_LIDS];
            block[entry] = mask;
            block
        };
        let copies = BTreeMap::from([
            (Guid(1), MftBlocks::from([((1, 0), block(0, 0b110))])),
            (Guid(2), MftBlocks::from([((0, 0), [0; MFT_LIDS])])),
            (
                Guid(0x0100),
                MftBlocks::from([((0, 0), block(3, 0b1)), ((0, 2), block(3, 0b1000))]),
            ),
        ]);
        let mut text = String::new();
        write_copies(&fabric, &copies, &mut |piece| text.push_str(piece));
        // GUIDs in OpenSM's order; each port is followed by a space, as in OpenSM.
        let want = "\nSwitch 0x0000000000000100\nLID    : Out Port(s)\n0xC003 : 0x000  0x023 \n\
                    \nSwitch 0x0000000000000001\nLID    : Out Port(s)\n0xC020 : 0x001  0x002 \n";
        assert_eq!(text, want);
    }
}
