//! Records the change sets that judges have accepted, so that every Set can be compared with them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use selvedge_fabric::Fabric;
use selvedge_plan::aliases::{AliasChange, GuidSet, HeldGuids, PortAliases};
use selvedge_plan::multicast::{MftSet, MulticastChange, MulticastTables};
use selvedge_plan::{ChangeSet, Generation, Installed, LaneRows, LinkOrder, Op, Phase, Plan};
use selvedge_planner::{Accepted, Inventory, Judge};
use selvedge_sim::Par;
use selvedge_types::{Guid, Lid, PKey, PortNum, PortState};
use selvedge_verify::standing::{Backup, LinkChange, Replaced, Standing};
use selvedge_verify::{Judged, MulticastSubject, Refusal, Verdict};
use selvedge_wire::{
    Attribute, AttributeId, DirectedRoute, GuidInfo, Mad, MulticastForwardingTable, PKeyTable, PortInfo, SlToVl,
    SwitchInfo, VlArbEntry, VlArbitration,
};

use crate::digest::Digest;

/// Number of change sets that are remembered as judged. Older ones were judged for an earlier fabric. A few are kept,
/// because jobs may have finished further plans while a change is still being applied.
const CHANGE_SETS: usize = 4;

/// Digests of the Sets of the last change sets that were passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passed(Arc<Mutex<VecDeque<BTreeSet<u64>>>>);

impl Passed {
    /// True if a judge has recently accepted this Set.
    pub fn contains(&self, mad: &Mad) -> bool {
        let passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        digest_of(mad).is_some_and(|digest| passed.iter().any(|set| set.contains(&digest)))
    }

    fn note_copies(&self, inventory: &Inventory, change: &MulticastChange) {
        let mut passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        passed.truncate(CHANGE_SETS - 1);
        let digest = |set: &MftSet| {
            let node = inventory.fabric.switches().get(set.switch)?;
            let modifier = MulticastForwardingTable::modifier(set.block, set.position);
            let data = MulticastForwardingTable { masks: set.data }.emit();
            Some(copies(&inventory.agents.get(*node)?.route, modifier, &data))
        };
        passed.push_front(change.phases.iter().flatten().filter_map(digest).collect());
    }

    fn note_aliases(&self, inventory: &Inventory, change: &AliasChange) {
        let mut passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        passed.truncate(CHANGE_SETS - 1);
        let digest = |set: &GuidSet| {
            let agent = inventory.agents.get(set.port.node)?;
            let data = GuidInfo { guids: set.guids }.emit();
            let route = agent.route_to(set.port.port);
            Some(table(route, AttributeId::GUID_INFO, set.block.into(), &data))
        };
        passed.push_front(change.phases.iter().flatten().filter_map(digest).collect());
    }

    fn note(&self, inventory: &Inventory, accepted: &Accepted) {
        let ops = accepted.changes.value().phases.iter().flat_map(|phase| &phase.ops);
        let mut passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        passed.truncate(CHANGE_SETS - 1);
        // An order to a link repeats the settings that its port has; an earlier Set of the same change may give them.
        let mut given = Inventory::clone(inventory);
        for op in ops.clone() {
            if let Op::Port { port, settings, .. } = op
                && let Some(link) = given.fabric.port(*port).map(|port| port.link)
                && ops
                    .clone()
                    .any(|order| matches!(order, Op::Link { port: at, .. } if at == port))
            {
                Arc::make_mut(&mut given.fabric).set_port(*port, link, *settings);
            }
        }
        let orders = ops.clone().filter(|op| matches!(op, Op::Link { .. }));
        let orders = orders.filter_map(|op| digest_of_op(&given, op));
        passed.push_front(ops.filter_map(|op| digest_of_op(inventory, op)).chain(orders).collect());
    }
}

/// A judge that also records, in `passed`, the change sets that it accepts.
#[derive(Debug)]
pub(crate) struct Clerk {
    pub judge: Arc<dyn Judge>,
    pub passed: Passed,
}

impl Judge for Clerk {
    fn judge(
        &self,
        inventory: &Inventory,
        installed: &Installed,
        plan: &Plan,
        changes: &(dyn Fn() -> ChangeSet + Sync),
        par: Par,
    ) -> Result<Accepted, Box<Refusal>> {
        let accepted = self.judge.judge(inventory, installed, plan, changes, par)?;
        self.passed.note(inventory, &accepted);
        Ok(accepted)
    }

    fn judge_repair(
        &self,
        standing: &mut Option<Standing>,
        inventory: &Inventory,
        installed: &Installed,
        plan: &Plan,
        changes: &(dyn Fn() -> ChangeSet + Sync),
        par: Par,
    ) -> Result<Accepted, Box<Refusal>> {
        let judge = &self.judge;
        let accepted = judge.judge_repair(standing, inventory, installed, plan, changes, par)?;
        self.passed.note(inventory, &accepted);
        Ok(accepted)
    }

    fn judge_entries(
        &self,
        standing: &mut Standing,
        inventory: &Inventory,
        links: &[LinkChange],
        changes: ChangeSet,
        under_way: &[Replaced],
        before: &Verdict,
    ) -> Option<Accepted> {
        let judge = &self.judge;
        let accepted = judge.judge_entries(standing, inventory, links, changes, under_way, before)?;
        self.passed.note(inventory, &accepted);
        Some(accepted)
    }

    fn back_up(
        &self,
        standing: &mut Standing,
        inventory: &Inventory,
        links: &[LinkChange],
        changes: &ChangeSet,
    ) -> Option<Backup> {
        self.judge.back_up(standing, inventory, links, changes)
    }

    fn judge_backup(
        &self,
        standing: &Standing,
        inventory: &Inventory,
        backup: &Backup,
        what: (Generation, Phase),
        before: &Verdict,
    ) -> Option<Accepted> {
        let judge = &self.judge;
        let accepted = judge.judge_backup(standing, inventory, backup, what, before)?;
        self.passed.note(inventory, &accepted);
        Some(accepted)
    }

    fn judge_multicast(
        &self,
        inventory: &Inventory,
        subject: &MulticastSubject<'_>,
        change: MulticastChange,
    ) -> Result<Judged<MulticastChange>, Box<Refusal>> {
        let change = self.judge.judge_multicast(inventory, subject, change)?;
        self.passed.note_copies(inventory, change.value());
        Ok(change)
    }

    fn judge_taking_away(
        &self,
        inventory: &Inventory,
        fabric: &Fabric,
        held: &MulticastTables,
        change: MulticastChange,
    ) -> Result<Judged<MulticastChange>, Box<Refusal>> {
        let change = self.judge.judge_taking_away(inventory, fabric, held, change)?;
        self.passed.note_copies(inventory, change.value());
        Ok(change)
    }

    fn judge_aliases(
        &self,
        inventory: &Inventory,
        held: &HeldGuids,
        wanted: &BTreeMap<Guid, PortAliases>,
        change: AliasChange,
    ) -> Result<Judged<AliasChange>, Box<Refusal>> {
        let change = self.judge.judge_aliases(inventory, held, wanted, change)?;
        self.passed.note_aliases(inventory, change.value());
        Ok(change)
    }
}

fn digest_of_op(inventory: &Inventory, op: &Op) -> Option<u64> {
    let agent = inventory.agents.get(op.node())?;
    Some(match op {
        Op::Lft { block, data, .. } => lft(&agent.route, (*block).into(), data),
        Op::Switch { settings, .. } => switch(&agent.route, settings.linear_top, settings.lifetime),
        Op::PKeys { port, block, keys } => {
            let mut table = PKeyTable {
                keys: [PKey(0); PKeyTable::PER_BLOCK],
            };
            for (slot, key) in table.keys.iter_mut().zip(keys) {
                *slot = *key;
            }
            p_keys(agent.route_to(port.port), *block, &table)
        }
        Op::SlToVl { port, rows, lanes } => {
            let egress = u32::from(port.port.get());
            let modifier = match rows {
                _ if !inventory.fabric.node(port.node).is_switch() => 0,
                LaneRows::From(ingress) => u32::from(ingress.get()) << 8 | egress,
                LaneRows::FromAll => 0x2_0000 | egress,
                LaneRows::Whole => 0x3_0000,
            };
            table(
                agent.route_to(port.port),
                SlToVl::ID,
                modifier,
                &SlToVl { vls: *lanes }.emit(),
            )
        }
        Op::Arbitration {
            port,
            block: block_number,
            turns,
        } => {
            let num = match inventory.fabric.node(port.node).is_switch() {
                true => u32::from(port.port.get()),
                false => 0,
            };
            let entries = turns.turns.map(|(vl, weight)| VlArbEntry { vl, weight });
            let block = VlArbitration { entries }.emit();
            let modifier = u32::from(*block_number) << 16 | num;
            table(agent.route_to(port.port), VlArbitration::ID, modifier, &block)
        }
        Op::Port { port, settings, state } => {
            let state = state.map_or(0, |state| state.code());
            let lids = (settings.lids.base, settings.lids.lmc.get(), settings.sm_lid);
            let link = (settings.mtu.bytes(), settings.oper_vls);
            self::port(agent.route_to(port.port), port.port.get(), lids, link, state)
        }
        Op::Link { port, order } => {
            let settings = &inventory.fabric.port(*port)?.settings;
            let state = match order {
                LinkOrder::Down | LinkOrder::Disable => PortState::Down.code(),
                LinkOrder::Poll => 0,
            };
            let lids = (settings.lids.base, settings.lids.lmc.get(), settings.sm_lid);
            let link = (settings.mtu.bytes(), settings.oper_vls);
            self::port(agent.route_to(port.port), port.port.get(), lids, link, state)
        }
    })
}

fn digest_of(mad: &Mad) -> Option<u64> {
    let route = mad.route().ok()?;
    match mad.attribute() {
        AttributeId::LINEAR_FORWARDING => Some(lft(&route, mad.modifier(), mad.smp_data())),
        AttributeId::SWITCH_INFO => {
            let info: SwitchInfo = mad.read().ok()?;
            Some(switch(&route, info.linear_top.0, info.lifetime_value.get()))
        }
        AttributeId::MULTICAST_FORWARDING => Some(copies(&route, mad.modifier(), mad.smp_data())),
        AttributeId::SL_TO_VL | AttributeId::VL_ARBITRATION | AttributeId::GUID_INFO => {
            Some(table(&route, mad.attribute(), mad.modifier(), mad.smp_data()))
        }
        AttributeId::PKEY_TABLE => Some(p_keys(&route, PKeyTable::block(mad.modifier()), &mad.read().ok()?)),
        AttributeId::PORT_INFO => {
            let info: PortInfo = mad.read().ok()?;
            let state = info.state.map_or(0, |state| state.code());
            let link = (
                info.neighbor_mtu.map_or(0, |mtu| mtu.bytes()),
                info.oper_vls.map_or(0, |vls| vls.code()),
            );
            let num = u8::try_from(mad.modifier() & 0xff).ok().and_then(PortNum::new)?;
            let lids = (info.lid, info.lmc.get(), info.sm_lid);
            Some(port(&route, num.get(), lids, link, state))
        }
        _ => None,
    }
}

fn start(route: &DirectedRoute, attribute: AttributeId, modifier: u32) -> Digest {
    let digest = Digest::default().bytes(&[route.hops()]).bytes(route.ports());
    digest.bytes(&attribute.code().to_be_bytes()).number(modifier.into())
}

fn lft(route: &DirectedRoute, block: u32, data: &[u8; 64]) -> u64 {
    start(route, AttributeId::LINEAR_FORWARDING, block).bytes(data).0
}

fn table(route: &DirectedRoute, attribute: AttributeId, modifier: u32, data: &[u8; 64]) -> u64 {
    start(route, attribute, modifier).bytes(data).0
}

fn copies(route: &DirectedRoute, modifier: u32, data: &[u8; 64]) -> u64 {
    start(route, AttributeId::MULTICAST_FORWARDING, modifier).bytes(data).0
}

fn switch(route: &DirectedRoute, top: u16, lifetime: u8) -> u64 {
    let digest = start(route, AttributeId::SWITCH_INFO, 0);
    digest.number(top.into()).number(lifetime.into()).0
}

fn p_keys(route: &DirectedRoute, block: u16, table: &PKeyTable) -> u64 {
    start(route, AttributeId::PKEY_TABLE, block.into())
        .bytes(&table.emit())
        .0
}

fn port(route: &DirectedRoute, num: u8, lids: (Lid, u8, Lid), link: (u16, u8), state: u8) -> u64 {
    let digest = start(route, AttributeId::PORT_INFO, num.into());
    let digest = digest
        .number(lids.0.0.into())
        .number(lids.1.into())
        .number(lids.2.0.into());
    let digest = digest.number(link.0.into()).number(link.1.into());
    digest.number(state.into()).0
}
