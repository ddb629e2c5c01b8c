//! Changes of the policy as front ends show them, and the Sets that a plan would send.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use selvedge_api as api;
use selvedge_config::Treatment;
use selvedge_fabric::{Fabric, NodeIdx, PortSettings, SwitchSettings};
use selvedge_plan::aliases::{AliasChange, aliases_in};
use selvedge_plan::multicast::{MFT_LIDS, MFT_PORTS, MulticastChange};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, LaneRows, LinkOrder, Op};
use selvedge_planner::multicast::TreesInForce;
use selvedge_planner::preview::{Previewed, Step, StepSets};
use selvedge_planner::{Outcome, Severity};
use selvedge_sm::{ChangeState, PolicyChange, View};
use selvedge_types::{Lid, PortState};

use crate::clock::Clock;
use crate::convert;
use crate::names::Names;

/// Largest number of reloads with findings that are kept: as many as the manager lists changes.
const KEPT_MAX: usize = 16;

/// The findings from reading the files of a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilesRead {
    /// Keys that take effect at the next start.
    pub(crate) needs_restart: Vec<String>,
    /// Lines, flags and keys with a verdict worth reporting.
    pub(crate) lines: Vec<api::OpenSmLine>,
}

impl FilesRead {
    pub(crate) fn of(verdict: &selvedge_config::Verdict) -> Self {
        let next_start = verdict.findings.iter();
        let next_start = next_start.filter(|found| found.treatment == Treatment::NextStart);
        Self {
            needs_restart: next_start.map(|found| found.name.clone()).collect(),
            lines: convert::check(verdict).findings,
        }
    }
}

/// The findings for the last changes, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct FilesDesk(Mutex<VecDeque<(u64, FilesRead)>>);

impl FilesDesk {
    pub(crate) fn keep(&self, serial: u64, read: FilesRead) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((serial, read));
    }

    fn of(&self, serial: u64) -> FilesRead {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|(of, _)| *of == serial);
        found.map(|(_, read)| read.clone()).unwrap_or_default()
    }
}

/// Returns the changes of a view.
pub(crate) fn list(view: &View, files: &FilesDesk, clock: Clock, names: &Names) -> api::PolicyChanges {
    let changes = view.policy_changes.iter();
    let changes = changes.map(|change| shown(change, files.of(change.serial), clock, names));
    api::PolicyChanges {
        changes: changes.collect(),
    }
}

/// Returns a change as the API writes it.
pub(crate) fn shown(change: &PolicyChange, read: FilesRead, clock: Clock, names: &Names) -> api::PolicyChange {
    let (why, findings) = match &change.state {
        ChangeState::Proposed | ChangeState::Planned | ChangeState::Judged | ChangeState::Kept => {
            (String::new(), Vec::new())
        }
        ChangeState::Applied { failed } => (format!("{failed} Sets failed; they are sent again"), Vec::new()),
        ChangeState::KeptForLater { why } => (why.to_string(), Vec::new()),
        ChangeState::Superseded { by } => (
            format!("change {by} came before a plan with it was accepted"),
            Vec::new(),
        ),
        ChangeState::RolledBack { why, verdict } => {
            let findings = verdict
                .as_ref()
                .map(|verdict| convert::findings(verdict, names).findings);
            (names.apply_text(why), findings.unwrap_or_default())
        }
    };
    api::PolicyChange {
        serial: change.serial,
        changed: change.changed.iter().map(|&key| key.to_owned()).collect(),
        state: change.state.name().to_owned(),
        proposed_ms: clock.unix_ms(change.proposed),
        since_ms: clock.unix_ms(change.since),
        why,
        findings,
        needs_restart: read.needs_restart,
        lines: read.lines,
    }
}

/// Returns what a change would send.
pub(crate) fn would_send(previewed: &Previewed, names: &Names) -> api::WouldSend {
    let result = &previewed.first;
    let Some(outcome) = &result.outcome else {
        let told = result.events.iter().filter(|event| event.severity() > Severity::Info);
        let why = told.map(|event| names.apply_text(&event.to_string()));
        let findings = result.refused.as_ref();
        let findings = findings.map(|verdict| convert::findings(verdict, names).findings);
        let why = why.collect::<Vec<_>>().join("; ");
        return api::WouldSend {
            why: match why.is_empty() {
                true => "no engine made a plan".to_owned(),
                false => why,
            },
            findings: findings.unwrap_or_default(),
            ..api::WouldSend::default()
        };
    };
    api::WouldSend {
        engine: outcome.plan.engine.0.clone(),
        accepted: true,
        sets: all_sets(previewed, names),
        ..api::WouldSend::default()
    }
}

/// Returns the Sets of a change, in their order.
pub(crate) fn all_sets(previewed: &Previewed, names: &Names) -> Vec<api::WouldSet> {
    let mut all = Vec::new();
    let mut before = 0;
    for step in &previewed.steps {
        let mut rows = rows_of(step, names);
        rows.iter_mut().for_each(|row| row.step += before);
        before = rows.last().map_or(before, |row| row.step);
        all.append(&mut rows);
    }
    all
}

fn rows_of(step: &Step, names: &Names) -> Vec<api::WouldSet> {
    let fabric = names.apply(&step.inventory.fabric);
    match &step.sets {
        StepSets::Plan(outcome) => rows(&fabric, &step.installed, outcome.changes.value()),
        StepSets::Multicast(change, before) => multicast_rows(&fabric, change, before),
        StepSets::Aliases(change) => alias_rows(&fabric, change),
    }
}

/// Returns the Sets of multicast tables. `before` has the tables that switches held.
fn multicast_rows(fabric: &Fabric, change: &MulticastChange, before: &TreesInForce) -> Vec<api::WouldSet> {
    let mut written = BTreeMap::new();
    let mut rows = Vec::new();
    for (phase, step) in change.phases.iter().zip(1..) {
        for set in phase {
            let node = fabric.switch(set.switch);
            let place = (set.block, set.position);
            let in_force = before.copies.held.get(&node.guid).and_then(|held| held.get(&place));
            let held = written.insert((set.switch, place), set.data).or(in_force.copied());
            let differing = |held: [u16; MFT_LIDS]| held.iter().zip(&set.data).filter(|(a, b)| a != b).count() as u64;
            let first = usize::from(set.block) * MFT_LIDS + usize::from(Lid::MULTICAST_MIN.0);
            let port = usize::from(set.position) * MFT_PORTS;
            rows.push(api::WouldSet {
                step,
                node: node.description.clone(),
                attribute: "MulticastForwardingTable".to_owned(),
                block: Some(set.block),
                entries: held.map(differing),
                what: format!(
                    "MLIDs {first:#06x} to {:#06x}, ports {port} to {}",
                    first + MFT_LIDS - 1,
                    port + MFT_PORTS - 1
                ),
                ..api::WouldSet::default()
            });
        }
    }
    rows
}

/// Returns the Sets of alias GUIDs.
fn alias_rows(fabric: &Fabric, change: &AliasChange) -> Vec<api::WouldSet> {
    let sets = change.phases.iter().zip(1..);
    let sets = sets.flat_map(|(phase, step)| phase.iter().map(move |set| (set, step)));
    let rows = sets.map(|(set, step)| {
        let own = fabric.port(set.port).map(|port| port.guid).unwrap_or_default();
        let aliases = aliases_in(own, &set.guids).count();
        api::WouldSet {
            step,
            node: fabric.node(set.port.node).description.clone(),
            attribute: "GUIDInfo".to_owned(),
            port: Some(set.port.port.get()),
            block: Some(set.block.into()),
            what: format!("{aliases} alias GUIDs"),
            ..api::WouldSet::default()
        }
    });
    rows.collect()
}

/// Returns the Sets of a plan, in their order.
pub(crate) fn sets(outcome: &Outcome, installed: &Installed, names: &Names) -> Vec<api::WouldSet> {
    let fabric = names.apply(&outcome.inventory.fabric);
    rows(&fabric, installed, outcome.changes.value())
}

fn rows(fabric: &Fabric, installed: &Installed, changes: &ChangeSet) -> Vec<api::WouldSet> {
    // A block may be written in several steps.
    let mut written: BTreeMap<(NodeIdx, u16), [u8; BLOCK_LIDS]> = BTreeMap::new();
    let mut rows = Vec::new();
    for (phase, step) in changes.phases.iter().zip(1..) {
        for op in &phase.ops {
            let mut row = row(fabric, op, |node, block| {
                let held = || {
                    let switch = fabric.switch_index(node)?;
                    installed.block(switch, usize::from(block)).copied()
                };
                written.get(&(node, block)).copied().or_else(held)
            });
            if let Op::Lft { node, block, data } = op {
                written.insert((*node, *block), *data);
            }
            if !is_read(fabric, installed, op) {
                let comma = if row.what.is_empty() { "" } else { ", " };
                row.what += comma;
                row.what += "unless it holds this already";
            }
            rows.push(api::WouldSet { step, ..row });
        }
    }
    rows
}

/// True if the manager has read what a Set changes. It reads lane tables, and P_Key tables of switches, only for a
/// policy that needs them.
fn is_read(fabric: &Fabric, installed: &Installed, op: &Op) -> bool {
    let guid = fabric.node(op.node()).guid;
    match op {
        Op::PKeys { port, .. } => fabric.port(*port).is_some_and(|seen| !seen.pkeys.is_empty()),
        Op::SlToVl { port, rows, .. } => match rows {
            LaneRows::From(from) => installed.lanes.row(guid, port.port, *from).is_some(),
            LaneRows::FromAll | LaneRows::Whole => !installed.lanes.is_empty(),
        },
        Op::Arbitration { port, block, .. } => installed.lanes.turns(guid, port.port, *block).is_some(),
        Op::Lft { .. } | Op::Switch { .. } | Op::Port { .. } | Op::Link { .. } => true,
    }
}

/// Returns the row of a Set. `before` returns the former contents of an LFT block.
fn row(fabric: &Fabric, op: &Op, before: impl Fn(NodeIdx, u16) -> Option<[u8; BLOCK_LIDS]>) -> api::WouldSet {
    let set = |attribute: &str, what: String| api::WouldSet {
        node: fabric.node(op.node()).description.clone(),
        attribute: attribute.to_owned(),
        what,
        ..api::WouldSet::default()
    };
    match op {
        Op::Lft { node, block, data } => {
            let differing = |held: [u8; BLOCK_LIDS]| held.iter().zip(data).filter(|(a, b)| a != b).count() as u64;
            let first = usize::from(*block) * BLOCK_LIDS;
            api::WouldSet {
                block: Some(*block),
                entries: before(*node, *block).map(differing),
                ..set(
                    "LinearForwardingTable",
                    format!("LIDs {first} to {}", first + BLOCK_LIDS - 1),
                )
            }
        }
        Op::Switch { node, settings } => {
            let what = switch_words(&fabric.node(*node).switch_settings, settings);
            set("SwitchInfo", what)
        }
        Op::PKeys { port, block, keys } => api::WouldSet {
            port: Some(port.port.get()),
            block: Some(*block),
            ..set("P_KeyTable", format!("{} P_Keys", keys.len()))
        },
        Op::SlToVl { port, rows, .. } => {
            let what = match rows {
                LaneRows::From(from) => format!("packets that arrive by port {}", from.get()),
                LaneRows::FromAll => "packets that arrive by any port".to_owned(),
                LaneRows::Whole => "packets of all ports".to_owned(),
            };
            api::WouldSet {
                port: Some(port.port.get()),
                ..set("SLtoVLMappingTable", what)
            }
        }
        Op::Arbitration { port, block, .. } => api::WouldSet {
            port: Some(port.port.get()),
            block: Some(u16::from(*block)),
            ..set("VLArbitrationTable", String::new())
        },
        Op::Link { port, order } => api::WouldSet {
            port: Some(port.port.get()),
            ..set(
                "PortInfo",
                match order {
                    LinkOrder::Down => "PortState Down",
                    LinkOrder::Disable => "PortPhysicalState Disabled",
                    LinkOrder::Poll => "PortPhysicalState Polling",
                }
                .to_owned(),
            )
        },
        Op::Port { port, settings, state } => {
            let seen = fabric.port(*port).map(|port| port.settings).unwrap_or_default();
            api::WouldSet {
                port: Some(port.port.get()),
                ..set("PortInfo", port_words(&seen, settings, *state))
            }
        }
    }
}

/// Names what a Set of SwitchInfo changes.
fn switch_words(seen: &SwitchSettings, wanted: &SwitchSettings) -> String {
    let mut words = Vec::new();
    if seen.linear_top != wanted.linear_top {
        words.push(format!("LinearFDBTop {} to {}", seen.linear_top, wanted.linear_top));
    }
    if seen.multicast_top != wanted.multicast_top {
        words.push(format!(
            "MulticastFDBTop {} to {}",
            seen.multicast_top, wanted.multicast_top
        ));
    }
    if seen.lifetime != wanted.lifetime {
        words.push(format!("LifeTimeValue {} to {}", seen.lifetime, wanted.lifetime));
    }
    if seen.port_state_change {
        words.push("clear PortStateChange".to_owned());
    }
    words.join(", ")
}

/// Names what a Set of PortInfo changes, without the M_Key.
fn port_words(seen: &PortSettings, wanted: &PortSettings, state: Option<PortState>) -> String {
    let mut words: Vec<String> = state.map(|state| format!("state {state}")).into_iter().collect();
    if seen.lids != wanted.lids {
        words.push(format!("LID {} LMC {}", wanted.lids.base, wanted.lids.lmc.get()));
    }
    let numbers = [
        ("MasterSMLID", u64::from(seen.sm_lid.0), u64::from(wanted.sm_lid.0)),
        ("MasterSMSL", seen.sm_sl.get().into(), wanted.sm_sl.get().into()),
        ("NeighborMTU", seen.mtu.bytes().into(), wanted.mtu.bytes().into()),
        ("OperationalVLs code", seen.oper_vls.into(), wanted.oper_vls.into()),
        ("VLHighLimit", seen.vl_high_limit.into(), wanted.vl_high_limit.into()),
        ("HOQLife", seen.hoq_life.into(), wanted.hoq_life.into()),
        ("VLStallCount", seen.vl_stall_count.into(), wanted.vl_stall_count.into()),
        (
            "partition enforcement",
            seen.enforcement.into(),
            wanted.enforcement.into(),
        ),
        (
            "M_KeyLeasePeriod",
            seen.m_key_lease_s.into(),
            wanted.m_key_lease_s.into(),
        ),
        (
            "M_KeyProtectBits",
            seen.m_key_protect.into(),
            wanted.m_key_protect.into(),
        ),
        (
            "SubnetTimeOut",
            seen.subnet_timeout.into(),
            wanted.subnet_timeout.into(),
        ),
        (
            "LocalPhyErrors",
            seen.local_phy_errors.into(),
            wanted.local_phy_errors.into(),
        ),
        (
            "OverrunErrors",
            seen.overrun_errors.into(),
            wanted.overrun_errors.into(),
        ),
    ];
    let changed = numbers.iter().filter(|(_, seen, wanted)| seen != wanted);
    words.extend(changed.map(|(name, _, wanted)| format!("{name} {wanted}")));
    if seen.m_key != wanted.m_key {
        words.push("M_Key".to_owned());
    }
    if seen.subnet_prefix != wanted.subnet_prefix {
        words.push(format!("GidPrefix {:#018x}", wanted.subnet_prefix));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use selvedge_fabric::{FabricBuilder, Node, PortRef, SwitchIdx};
    use selvedge_plan::aliases::GuidSet;
    use selvedge_plan::multicast::MftSet;
    use selvedge_plan::{Generation, Phase};
    use selvedge_types::{Guid, LidRange, NodeKind, PortNum};

    use super::*;

    fn fabric() -> Arc<Fabric> {
        let mut builder = FabricBuilder::new();
        let mut node = Node::new(NodeKind::Switch, Guid(1), 4, "leaf");
        node.switch_settings.linear_top = 3;
        builder.add(node);
        Arc::new(builder.finish().unwrap())
    }

    #[test]
    fn each_set_is_a_row_and_a_block_that_is_written_twice_is_compared_twice() {
        let fabric = fabric();
        let node = fabric.find(Guid(1)).unwrap();
        let switch = fabric.switch_index(node).unwrap();
        let mut installed = Installed::unknown(1);
        installed.learn(switch, 0, [255; BLOCK_LIDS]);
        let mut data = [255; BLOCK_LIDS];
        (data[1], data[2]) = (4, 4);
        let first = Op::Lft { node, block: 0, data };
        data[2] = 3;
        let second = Op::Lft { node, block: 0, data };
        let unknown = Op::Lft { node, block: 1, data };
        let port = PortRef {
            node,
            port: PortNum::new(2).unwrap(),
        };
        let settings = PortSettings {
            lids: LidRange::single(Lid(5)),
            m_key: 0x1234,
            ..PortSettings::default()
        };
        let port_info = Op::Port {
            port,
            settings,
            state: Some(PortState::Armed),
        };
        let top = Op::Switch {
            node,
            settings: SwitchSettings {
                linear_top: 64,
                ..fabric.node(node).switch_settings
            },
        };
        let phase = |ops| Phase {
            label: "x",
            wait_before_ns: 0,
            ops,
        };
        let changes = ChangeSet {
            generation: Generation(1),
            phases: vec![phase(vec![first, unknown]), phase(vec![second, port_info, top])],
        };
        let rows = rows(&fabric, &installed, &changes);
        let entries: Vec<_> = rows.iter().map(|row| (row.step, row.block, row.entries)).collect();
        assert_eq!(
            entries,
            [
                (1, Some(0), Some(2)),
                (1, Some(1), None),
                (2, Some(0), Some(1)),
                (2, None, None),
                (2, None, None)
            ]
        );
        assert!(rows.iter().all(|row| row.node == "leaf"));
        assert_eq!((rows[3].attribute.as_str(), rows[3].port), ("PortInfo", Some(2)));
        assert!(
            rows[3].what.contains("state ARMED") && rows[3].what.contains("LID 5"),
            "{:?}",
            rows[3]
        );
        assert!(!format!("{rows:?}").contains("1234"), "a key is never shown");
        assert_eq!(rows[4].what, "LinearFDBTop 3 to 64");
    }

    #[test]
    fn multicast_blocks_and_alias_guids_are_rows_too() {
        let fabric = fabric();
        let switch = SwitchIdx(0);
        let set = |first: u16| MftSet {
            switch,
            block: 1,
            position: 2,
            data: core::array::from_fn(|entry| if entry == 0 { first } else { 0 }),
        };
        let change = MulticastChange {
            phases: vec![vec![set(3)], vec![set(3)]],
            ..MulticastChange::default()
        };
        let rows = multicast_rows(&fabric, &change, &TreesInForce::default());
        let entries: Vec<_> = rows.iter().map(|row| (row.step, row.block, row.entries)).collect();
        assert_eq!(
            entries,
            [(1, Some(1), None), (2, Some(1), Some(0))],
            "the first contents are unknown"
        );
        assert_eq!(rows[0].what, "MLIDs 0xc020 to 0xc03f, ports 32 to 47");
        let port = PortRef {
            node: fabric.find(Guid(1)).unwrap(),
            port: PortNum::MANAGEMENT,
        };
        let own = fabric.port(port).unwrap().guid;
        let guids = [
            own,
            Guid(7),
            Guid(8),
            Guid::NONE,
            Guid::NONE,
            Guid::NONE,
            Guid::NONE,
            Guid::NONE,
        ];
        let change = AliasChange {
            phases: vec![vec![GuidSet { port, block: 0, guids }]],
        };
        let rows = alias_rows(&fabric, &change);
        assert_eq!((rows[0].attribute.as_str(), rows[0].block), ("GUIDInfo", Some(0)));
        assert_eq!(rows[0].what, "2 alias GUIDs");
    }
}
