//! Service levels that senders were told, and use until they ask again: over a restart, and over a take-over.
//!
//! Nobody can read them back. A manager stores them with its plan, and a standby copies them from the master, with
//! what hosts have registered. With them tables that rely on several lanes can be judged as they were found, and kept;
//! without them such tables are not known well enough.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Installed, Lids, Plan, Policy, ServiceLevels};
use selvedge_sim::Par;
use selvedge_types::{Guid, Lid, PortNum, Sl};
use selvedge_verify::phases::is_live;

use crate::adopt::Adopt;
use crate::core::Sm;
use crate::event::Event;
use crate::inventory::Inventory;
use crate::io::{Output, ToldLevels};
use crate::job::{Job, JobResult};
use crate::lanes::{map_in_force, wanted};

/// Service levels that senders were told, as far as known.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// By LID: whose it was, and the level.
    by_lid: BTreeMap<Lid, (Guid, Sl)>,
    /// By the GUID of the destination's switch, as stored.
    by_switch: Arc<BTreeMap<Guid, u8>>,
    /// Of ports with others, by port GUID: a level for each LID, as stored.
    by_port: Arc<BTreeMap<Guid, Vec<u8>>>,
    /// Lanes that the tables in force rely on with these levels; 1: on none, 0: that is not known.
    lanes: u8,
}

/// The switch that a port belongs to or hangs on.
fn switch_of(fabric: &Fabric, at: PortRef) -> Option<Guid> {
    let of = |node| fabric.switch_index(node).map(|switch| fabric.switch(switch).guid);
    of(at.node).or_else(|| of(fabric.peer(at)?.node))
}

/// Levels of the LIDs of each port that are not all the one of its switch.
pub fn others(
    fabric: &Fabric,
    lids: &Lids,
    levels: &ServiceLevels,
    by_switch: &BTreeMap<Guid, u8>,
) -> BTreeMap<Guid, Vec<u8>> {
    let mut others = BTreeMap::new();
    for (at, range) in lids.iter() {
        let of_lids: Vec<u8> = range.iter().map(|lid| levels.to(lid).get()).collect();
        let of_switch = switch_of(fabric, at).and_then(|guid| by_switch.get(&guid));
        let guid = fabric.port(at).map(|port| port.guid);
        if let Some(guid) = guid.filter(|_| of_lids.iter().any(|level| Some(level) != of_switch)) {
            others.insert(guid, of_lids);
        }
    }
    others
}

impl Told {
    /// Lanes that the tables in force rely on; 0: that is not known.
    pub const fn lanes(&self) -> u8 {
        self.lanes
    }

    /// What is held with the levels in force, if the plan relies on levels: senders use what they were told until they
    /// ask again, and 0 if nobody told them.
    pub fn in_force(&self, fabric: &Fabric, plan: &Plan, installed: &Installed) -> Option<Installed> {
        if plan.lanes <= 1 {
            return None;
        }
        let mut levels = vec![Sl::default(); plan.lids.top().index() + 1];
        for (lid, at) in plan.lids.by_lid() {
            levels[lid.index()] = match self.level(fabric, &plan.lids, (lid, at)) {
                Some(level) => level,
                // Its owner is new, and whoever asks is told the plan's.
                None if self.is_any() => plan.service_levels.to(lid),
                None => Sl::default(),
            };
        }
        let map = map_in_force(fabric, plan, &installed.lanes);
        Some(Installed {
            levels: Some(Arc::new((ServiceLevels::PerDestination(levels), map))),
            ..Installed::clone(installed)
        })
    }

    /// Levels and lanes that belong to the tables in force, if they rely on some and these are known. To a LID that is
    /// new nobody sends yet: any level will do.
    pub fn relied_on(&self, fabric: &Fabric, lids: &Lids) -> Option<(ServiceLevels, u8)> {
        if self.lanes <= 1 || !self.is_any() {
            return None;
        }
        let mut levels = vec![Sl::default(); lids.top().index() + 1];
        for (lid, at) in lids.by_lid() {
            levels[lid.index()] = self.level(fabric, lids, (lid, at)).unwrap_or_default();
        }
        Some((ServiceLevels::PerDestination(levels), self.lanes))
    }

    /// True if a plan tells senders what they were told before, as far as that is known.
    pub fn agrees(&self, fabric: &Fabric, lids: &Lids, (levels, lanes): (&ServiceLevels, u8)) -> bool {
        self.relied_on(fabric, lids)
            .is_none_or(|(told, of)| of == lanes && lids.by_lid().all(|(lid, _)| told.to(lid) == levels.to(lid)))
    }

    /// True if anything is known.
    fn is_any(&self) -> bool {
        !self.by_lid.is_empty() || !self.by_switch.is_empty() || !self.by_port.is_empty()
    }

    /// The level that senders were told for a LID of the port `at`, if they were.
    fn level(&self, fabric: &Fabric, lids: &Lids, (lid, at): (Lid, PortRef)) -> Option<Sl> {
        let guid = fabric.port(at).map(|port| port.guid).unwrap_or_default();
        if !self.by_lid.is_empty() {
            let owned = self.by_lid.get(&lid).filter(|(owner, _)| *owner == guid);
            return owned.map(|(_, level)| *level);
        }
        let offset = usize::from(lid.0.wrapping_sub(lids.base(at)?.0));
        let own = self.by_port.get(&guid).map(|levels| levels.get(offset));
        let of_switch = || self.by_switch.get(&switch_of(fabric, at)?);
        own.unwrap_or_else(of_switch).copied().and_then(Sl::new)
    }
}

impl Job {
    /// Levels that were found with the tables, as known, if as many lanes are to be relied on now: entries that still
    /// lead somewhere stay with them, and the rest is mended.
    pub(crate) fn found_levels(&self, lids: &Lids, lanes: Option<u8>) -> Option<Arc<ServiceLevels>> {
        let known = self.told.relied_on(&self.inventory.fabric, lids);
        let known = known.filter(|(_, of)| self.adopt == Adopt::Found && Some(*of) == lanes);
        known.map(|(levels, _)| Arc::new(levels))
    }

    /// No engine's plan was accepted. If nobody knows which levels senders use, one that relies on none may be: a
    /// subnet that nobody takes care of would be worse than one that is not spread over its lanes.
    pub(crate) fn without_levels(&self, mut events: Vec<Event>, par: Par) -> JobResult {
        let fabric = &self.inventory.fabric;
        if self.told.lanes > 0 || self.lane_use().routes <= 1 || !is_live(fabric) {
            events.push(Event::NoPlan);
            return JobResult {
                events,
                ..JobResult::default()
            };
        }
        events.push(Event::LevelsUnknown);
        let mut careful = Self {
            policy: Arc::new(Policy {
                assume_sl_aware: false,
                ..Policy::clone(&self.policy)
            }),
            ..self.clone()
        };
        let mut result = careful.run(par);
        events.append(&mut result.events);
        JobResult { events, ..result }
    }
}

impl Sm {
    /// Service levels in force.
    pub(crate) fn told_levels(&self, inventory: &Inventory) -> Arc<Told> {
        if !self.config.policy.assume_sl_aware {
            return Arc::default();
        }
        let mut told = Told {
            by_switch: Arc::new(self.stored.lanes.clone()),
            by_port: Arc::new(self.stored.levels.clone()),
            ..Told::default()
        };
        match (&self.view.plan, &self.view.fabric) {
            (Some(plan), Some(fabric)) => {
                let by_lid = plan.lids.by_lid().map(|(lid, at)| {
                    let guid = fabric.port(at).map(|port| port.guid).unwrap_or_default();
                    (lid, (guid, plan.told_levels().to(lid)))
                });
                told.by_lid = by_lid.collect();
                told.lanes = plan.lanes;
            }
            _ if self.are_of_who_told(inventory) => told.lanes = self.stored.lane_count,
            _ => {}
        }
        Arc::new(told)
    }

    /// True if the tables in switches are those of the manager whose levels are known: each switch that forwards names
    /// it as its master. Where another was master in between, its levels are others.
    fn are_of_who_told(&self, inventory: &Inventory) -> bool {
        let fabric = &inventory.fabric;
        let own = fabric.port(inventory.local).map(|port| port.settings.lids);
        let is_it = |lid: Lid| match self.told_by {
            Some(by) => lid == by,
            None => lid.is_unicast() && own.is_some_and(|own| own.contains(lid)),
        };
        let mut live = fabric.switches().iter().map(|&node| fabric.node(node));
        live.all(|switch| {
            let port = switch.port(PortNum::MANAGEMENT);
            switch.switch_settings.linear_top == 0 || port.is_some_and(|port| is_it(port.settings.sm_lid))
        })
    }

    /// Takes what the master has told senders, while this manager stands by.
    pub(crate) fn take_told(&mut self, told: ToldLevels) {
        self.told_by = Some(told.by);
        self.stored.lanes.clear();
        self.stored.levels = told.by_port;
        self.stored.lane_count = told.lanes;
    }

    /// Another manager is master: what it tells senders is not known here, nor by which engines it routes. Stored, as
    /// a restart must not take for its tables what was this manager's, with the LIDs that its ports have.
    pub(crate) fn forget_told(&mut self, out: &mut Vec<Output>) {
        self.told_by = None;
        let before = self.stored.clone();
        // What ports were seen to hold is known by a later life, too: they may be away when it looks.
        self.stored.lids.clone_from(&self.lids.claims());
        self.stored.lids_before.clone_from(&self.lids.befores());
        self.stored.lids_aside.clone_from(&self.lids.aside);
        self.stored.engines.clear();
        self.stored.lanes_wanted = 0;
        self.take_told(ToldLevels::default());
        if self.stored != before {
            self.persist_id += 1;
            out.push(Output::Persist {
                id: self.persist_id,
                state: self.stored.clone(),
            });
        }
    }

    /// How many lanes the tables in force rely on, if a plan that is about to be stored tells senders nothing new; else
    /// 0: until it is in force nobody knows which levels are used. [`Self::note_in_force`] says so then.
    pub(crate) fn lanes_known_with(&mut self, inventory: &Inventory, plan: &Plan) -> u8 {
        let told = self.told_levels(inventory);
        let is_same = match told.relied_on(&inventory.fabric, &plan.lids) {
            Some(_) => told.agrees(&inventory.fabric, &plan.lids, (&plan.service_levels, plan.lanes)),
            None => plan.lanes <= 1 && self.stored.lane_count == 1,
        };
        if !is_same {
            self.told_by = None;
        }
        if is_same { plan.lanes } else { 0 }
    }

    /// A plan is in force: the tables are those of the operator's engines, and senders are told its levels. True if
    /// that is to be stored.
    pub(crate) fn note_in_force(&mut self) -> bool {
        let policy = &self.config.policy;
        let lane_count = self.view.plan.as_ref().map_or(0, |plan| plan.lanes);
        let (stored, lanes) = (&mut self.stored, wanted(policy));
        self.told_by = None;
        if stored.engines == policy.engines && (stored.lanes_wanted, stored.lane_count) == (lanes, lane_count) {
            return false;
        }
        stored.engines.clone_from(&policy.engines);
        (stored.lanes_wanted, stored.lane_count) = (lanes, lane_count);
        true
    }

    /// True if the tables in force were made for another wish than the operator's: other engines, or other lanes.
    pub(crate) fn wants_other_routes(&self) -> bool {
        let (stored, policy) = (&self.stored, &self.config.policy);
        let others = |known: u8| known != 0 && known != wanted(policy);
        !stored.engines.is_empty() && (stored.engines != policy.engines || others(stored.lanes_wanted))
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_plan::{EngineName, SlToVl};
    use selvedge_types::{LidRange, Lmc, NodeKind};

    use super::*;

    #[test]
    fn what_hosts_were_told_is_remembered_port_by_port() {
        let mut builder = FabricBuilder::new();
        let switch = builder.add(Node::new(NodeKind::Switch, Guid(1), 4, "s"));
        let port = |num| PortNum::new(num).unwrap();
        for host in 1..=4 {
            let mut node = Node::new(NodeKind::Ca, Guid(100 + u64::from(host)), 1, "h");
            node.port_mut(port(1)).unwrap().guid = Guid(200 + u64::from(host));
            let key = builder.add(node);
            builder.link((switch, port(host)), (key, port(1))).unwrap();
        }
        let fabric = builder.finish().unwrap();
        let mut lids = Lids::new();
        for ((at, _), base) in fabric.end_ports().zip([2, 4, 6, 8, 10]) {
            let lmc = Lmc::new(u8::from(base > 2)).unwrap();
            lids.insert(at, LidRange { base: Lid(base), lmc }).unwrap();
        }
        let guid = |lid| fabric.port(lids.owner(Lid(lid)).unwrap()).unwrap().guid;
        let level = |level| Sl::new(level).unwrap();
        // The switch and three hosts have 1, of one of them the second LID has 2; the last has 3 and 0.
        let of_lids = [0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 3, 0].map(level);
        let levels = ServiceLevels::PerDestination(of_lids.to_vec());
        let by_switch: BTreeMap<Guid, u8> = [(Guid(1), 1)].into();
        let stored = others(&fabric, &lids, &levels, &by_switch);
        assert_eq!(stored, [(guid(8), vec![1, 2]), (guid(10), vec![3, 0])].into());
        let told = Told {
            by_switch: Arc::new(by_switch),
            by_port: Arc::new(stored),
            ..Told::default()
        };
        let plan = Plan {
            generation: selvedge_plan::Generation(1),
            engine: EngineName("dfsssp".to_owned()),
            tables: selvedge_plan::Tables::new(1, lids.top()),
            lids,
            service_levels: ServiceLevels::default(),
            sl_to_vl: SlToVl::modulo(4),
            lanes: 4,
            lane_tables: None,
            ports: BTreeMap::new(),
            end_ports: BTreeMap::new(),
            switches: selvedge_types::IdxVec::default(),
        };
        let held = told.in_force(&fabric, &plan, &Installed::default()).unwrap();
        let (now, _) = &**held.levels.as_ref().unwrap();
        for lid in 2..12 {
            let want = if lid == 3 { level(0) } else { levels.to(Lid(lid)) };
            assert_eq!(now.to(Lid(lid)), want, "{lid}");
        }
    }
}
