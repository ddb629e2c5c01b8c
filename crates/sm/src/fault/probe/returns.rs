//! Links that came back: the nodes behind them are asked before a plan uses these links.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_plan::partition::with_pkey_block;
use selvedge_planner::{Returned, is_behind};
use selvedge_types::{PKey, PortNum, PortState};
use selvedge_wire::{Attribute, AttributeId, NodeInfo, PKeyTable, PortInfo, SmpData};

use super::{Behind, Effect, Probe};
use crate::smp;

/// Links that came back.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// The returned links, by the end that was asked first.
    links: BTreeMap<PortRef, Return>,
    /// Links with a far end that has not been asked.
    unasked: Vec<PortRef>,
}

/// The answers so far about a link that came back.
#[derive(Clone, Debug)]
struct Return {
    near: PortInfo,
    far: PortRef,
    info: Option<PortInfo>,
    pkeys: Option<Vec<PKey>>,
    /// Answers that are missing.
    open: u8,
}

impl Returns {
    /// Returns true if answers are missing.
    pub(super) fn are_open(&self) -> bool {
        self.links.values().any(|back| back.open > 0)
    }
}

impl Probe {
    /// Handles a link that is up and was down. A sweep is needed if no cable was known at this port, or if hosts of a
    /// new switch are behind the link. It is also needed if the switch behind the link was gone, because its tables are
    /// unknown.
    pub(super) fn came_back(&mut self, at: PortRef, info: &PortInfo) {
        let inventory = Arc::clone(&self.start.inventory);
        let is_right = |far: &PortRef| {
            let was_gone = [at.node, far.node].iter().any(|&node| inventory.is_gone(node));
            info.state != Some(PortState::Active) && !was_gone
        };
        let Some(far) = inventory.fabric.peer(at).filter(is_right) else {
            self.is_strange = true;
            return;
        };
        self.explained.extend([at.node, far.node]);
        self.damage.flagged.insert(at.node);
        if inventory.fabric.switch_index(far.node).is_some() {
            self.damage.flagged.insert(far.node);
        }
        if self.returns.links.contains_key(&far) {
            return;
        }
        self.returns.unasked.push(at);
        let back = Return {
            near: *info,
            far,
            info: None,
            pkeys: None,
            open: 4,
        };
        self.returns.links.insert(at, back);
    }

    /// Sends requests to the far ends of links that came back.
    pub(super) fn ask_behind(&mut self, effects: &mut Vec<Effect>) {
        let inventory = &self.start.inventory;
        for at in std::mem::take(&mut self.returns.unasked) {
            let near = inventory.agents[at.node].route;
            let (Some(back), Some(through)) = (self.returns.links.get(&at), near.then(at.port)) else {
                self.is_strange = true;
                continue;
            };
            let far = back.far;
            let port = smp::known_port(&inventory.fabric, far);
            let last = match inventory.fabric.switch_index(far.node) {
                Some(_) => (Behind::Agent(far.node), AttributeId::PORT_INFO, 0, through),
                None => (Behind::PKeys, AttributeId::PKEY_TABLE, 0, through),
            };
            let asked = [
                (Behind::Node, AttributeId::NODE_INFO, 0, through),
                (Behind::Port, AttributeId::PORT_INFO, port, through),
                (Behind::Agent(at.node), AttributeId::PORT_INFO, 0, near),
                last,
            ];
            effects.extend(asked.map(|(what, attribute, modifier, route)| Effect::AskBehind {
                at,
                what,
                attribute,
                modifier,
                route,
            }));
        }
    }

    /// Handles the answer of the far end of a link that came back. If the answer is missing or implausible, a sweep is
    /// needed.
    pub(super) fn behind(&mut self, at: PortRef, what: Behind, data: Option<&SmpData>) {
        let fabric = &self.start.inventory.fabric;
        let Some(back) = self.returns.links.get_mut(&at) else {
            return;
        };
        let far = back.far;
        let is_right = data.is_some_and(|data| match what {
            Behind::Node => NodeInfo::parse(data).is_ok_and(|info| is_behind(fabric, far, &info)),
            Behind::Port => PortInfo::parse(data).is_ok_and(|info| {
                back.info = Some(info);
                info.is_up() && info.state != Some(PortState::Active)
            }),
            Behind::Agent(node) => PortInfo::parse(data).is_ok_and(|info| {
                let port = PortNum::MANAGEMENT;
                let known = fabric
                    .port(PortRef { node, port })
                    .map(|p| (p.settings.lids.base, p.settings.sm_lid));
                known == Some((info.lid, info.sm_lid))
            }),
            Behind::PKeys => PKeyTable::parse(data).is_ok_and(|table| {
                back.pkeys = Some(with_pkey_block(&[], 0, &table.keys));
                // More than that is for a sweep to read.
                !smp::more_pkeys(&table, 0, fabric.node(far.node).partition_cap)
            }),
        });
        self.is_strange |= !is_right;
        back.open -= 1;
        if let (0, Some(info)) = (back.open, back.info) {
            self.damage.returned.push(Returned {
                near: (at, back.near),
                far: (far, info),
                pkeys: back.pkeys.take(),
            });
        }
    }
}
