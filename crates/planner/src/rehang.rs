//! The Sets of a repair made by engine `weave`, in the order that each LID needs. Sets that must wait until packets
//! have drained come last.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Op, Phase, Tables};
use selvedge_routing::Rehung;
use selvedge_verify::standing::{Standing, wait_ns};

/// Returns the phases that write the entries. The Sets in `quiet` go before the first step that waits, or to the end.
/// `None` if packets must drain and a switch has an infinite packet lifetime.
pub fn phases(
    moved: &[Rehung],
    quiet: Phase,
    fabric: &Fabric,
    (before, standing): (&Tables, &Standing),
) -> Option<Vec<Phase>> {
    let (late, now): (Vec<Rehung>, Vec<Rehung>) = moved.iter().copied().partition(|m| m.waits());
    let mut written = BTreeMap::new();
    let mut phases = Vec::new();
    for ops in steps(&now, fabric, (before, standing), &mut written) {
        let label = match phases.is_empty() {
            true => "change entries that lead over lost links",
            false => "change entries that depend on those",
        };
        phases.push(phase(label, ops));
    }
    if !quiet.ops.is_empty() {
        phases.push(quiet);
    }
    for (number, ops) in (0..).zip(steps(&late, fabric, (before, standing), &mut written)) {
        let wait_before_ns = match number {
            0 => wait_ns(fabric)?,
            _ => 0,
        };
        phases.push(Phase {
            wait_before_ns,
            ..phase("write new entries where old ones were dropped", ops)
        });
    }
    Some(phases)
}

const fn phase(label: &'static str, ops: Vec<Op>) -> Phase {
    Phase {
        label,
        wait_before_ns: 0,
        ops,
    }
}

/// Contents of the blocks written so far.
type Written = BTreeMap<(SwitchIdx, usize), [u8; BLOCK_LIDS]>;

/// Returns the blocks of each step; blocks that packets of hosts use come first. A block with entries of several steps
/// is written once in each.
fn steps(
    moved: &[Rehung],
    fabric: &Fabric,
    (before, standing): (&Tables, &Standing),
    written: &mut Written,
) -> Vec<Vec<Op>> {
    let place = |m: &Rehung| (m.step, m.switch, m.lid.index() / BLOCK_LIDS);
    // Entries of one block and step keep their order.
    let mut moved = moved.to_vec();
    moved.sort_by_key(place);
    let mut steps = Vec::new();
    for of_step in moved.chunk_by(|a, b| a.step == b.step) {
        let mut blocks = Vec::new();
        let mut left: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
        for of_block in of_step.chunk_by(|a, b| place(a) == place(b)) {
            let (_, switch, block) = place(&of_block[0]);
            let held = written
                .entry((switch, block))
                .or_insert_with(|| *before.block(switch, block));
            for m in of_block {
                held[m.lid.index() % BLOCK_LIDS] = m.egress;
            }
            let carries = of_block.iter().any(|m| standing.carries_hosts(switch, m.lid));
            blocks.push((switch, block, carries));
            *left.entry(switch).or_default() += 1;
        }
        // An agent processes one Set after another, so the agent with the most Sets begins first.
        let order = blocks.iter().map(|&(switch, block, carries)| {
            let waits = left.entry(switch).or_default();
            *waits = waits.saturating_sub(1);
            (!carries, Reverse(*waits), block, switch)
        });
        let mut order: Vec<_> = order.collect();
        order.sort_unstable();
        let op = |&(_, _, block, switch): &(bool, Reverse<usize>, usize, SwitchIdx)| {
            written.get(&(switch, block)).map(|&data| Op::Lft {
                node: fabric.switches()[switch],
                block: u16::try_from(block).unwrap_or(u16::MAX),
                data,
            })
        };
        steps.push(order.iter().filter_map(op).collect());
    }
    steps
}
