//! Old entries that lead to links which are about to go ACTIVE: those that the plan does not want are dropped first,
//! while they carry nothing.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, NO_PATH, Op, Phase, Plan, Tables};
use selvedge_verify::Subject;
use selvedge_verify::phases::{self, Links, PhaseOptions, Proposal, Wake, Write};

use super::WayOptions;

const LABEL: &str = "drop old entries that lead to links which come up";

/// What the switches hold once old entries that would wake are dropped, and the phase that drops them; `None` if there
/// are none.
///
/// Entries that are as planned stay, unless their waking would make packets go round or wait for each other while the
/// rest is as it was.
pub fn drop_first(
    fabric: &Fabric,
    installed: &Installed,
    plan: &Plan,
    base: &ChangeSet,
    options: &WayOptions<'_>,
) -> Option<(Installed, Phase)> {
    let wake = Wake::of_changes(fabric, base);
    if wake.is_empty() {
        return None;
    }
    let held = phases::in_force(installed, plan);
    let all: Vec<Write> = wake.entries(&held).collect();
    let is_planned = |write: &Write| plan.tables.get(write.switch, write.lid) == write.egress;
    let (planned, mut others): (Vec<Write>, Vec<Write>) = all.into_iter().partition(is_planned);
    if !planned.is_empty() && !may_wake(fabric, &held, plan, &others, options) {
        others.extend(planned);
    }
    if others.is_empty() {
        return None;
    }
    let mut blocks: BTreeMap<(usize, SwitchIdx), [u8; BLOCK_LIDS]> = BTreeMap::new();
    for write in &others {
        let (block, column) = (write.lid.index() / BLOCK_LIDS, write.lid.index() % BLOCK_LIDS);
        let data = blocks
            .entry((block, write.switch))
            .or_insert_with(|| *held.block(write.switch, block));
        data[column] = NO_PATH;
    }
    let mut after = installed.clone();
    let mut ops = Vec::with_capacity(blocks.len());
    for ((block, switch), data) in blocks {
        after.learn(switch, block, data);
        ops.push(Op::Lft {
            node: fabric.switches()[switch],
            // Blocks go up to LID 0xBFFF.
            block: block as u16,
            data,
        });
    }
    let phase = Phase {
        label: LABEL,
        wait_before_ns: 0,
        ops,
    };
    Some((after, phase))
}

/// True if the tables with all that wakes but `dropped` are free of circles.
fn may_wake(fabric: &Fabric, held: &Tables, plan: &Plan, dropped: &[Write], options: &WayOptions<'_>) -> bool {
    let mut tables = held.clone();
    for write in dropped {
        tables.set(write.switch, write.lid, NO_PATH);
    }
    let (levels, map) = options.lanes_in_force.unwrap_or((&plan.service_levels, &plan.sl_to_vl));
    let subject = Subject::tables(fabric, &plan.lids, &tables, levels, map);
    let phase_options = PhaseOptions {
        drain_ns: None,
        links: Links::Trained,
        lost: Vec::new(),
        switch_pairs: options.switch_pairs,
        listed_max: 1,
        par: options.par,
    };
    // A step that writes nothing new: the tables alone are looked at.
    phases::prove(subject, None, &Proposal::default(), &phase_options).is_ok()
}
