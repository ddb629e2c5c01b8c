//! Service levels that senders got in path records, and use until their next query. They remain in use after a restart
//! or a take-over.
//!
//! No agent can be queried for them. A manager stores them with its plan, and a standby copies them from the master.
//! With them, found tables that use several lanes can be judged and kept. Without them such tables cannot be proved.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Installed, Lids, Plan, ServiceLevels};
use selvedge_types::{Guid, Lid, Sl};

use crate::lanes::map_in_force;

/// Service levels that senders use, as far as known.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// By LID: the GUID of the port that owns it, and the level.
    by_lid: BTreeMap<Lid, (Guid, Sl)>,
    /// Levels by the GUID of the destination's switch, as stored.
    by_switch: Arc<BTreeMap<Guid, u8>>,
    /// Exceptions by port GUID: a level for each LID, as stored.
    by_port: Arc<BTreeMap<Guid, Vec<u8>>>,
    /// Number of lanes that the tables in force use with these levels; 1: independent of levels, 0: not known.
    lanes: u8,
}

/// Returns the switch that a port belongs to or is attached to.
fn switch_of(fabric: &Fabric, at: PortRef) -> Option<Guid> {
    let of = |node| fabric.switch_index(node).map(|switch| fabric.switch(switch).guid);
    of(at.node).or_else(|| of(fabric.peer(at)?.node))
}

/// Returns the service levels of each port with LIDs that do not all have the level of their switch, by port GUID.
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
    /// Returns stored levels, by the GUID of the destination's switch and by port GUID. The number of lanes that the
    /// tables in force use is not stored, so it is unknown.
    #[must_use]
    pub fn stored(by_switch: BTreeMap<Guid, u8>, by_port: BTreeMap<Guid, Vec<u8>>) -> Self {
        Self {
            by_switch: Arc::new(by_switch),
            by_port: Arc::new(by_port),
            ..Self::default()
        }
    }

    /// Adds the levels of a plan that is in force on `fabric`. They take precedence over stored ones.
    #[must_use]
    pub fn with_plan(self, fabric: &Fabric, plan: &Plan) -> Self {
        let by_lid = plan.lids.by_lid().map(|(lid, at)| {
            let guid = fabric.port(at).map(|port| port.guid).unwrap_or_default();
            (lid, (guid, plan.told_levels().to(lid)))
        });
        Self {
            by_lid: by_lid.collect(),
            lanes: plan.lanes,
            ..self
        }
    }

    /// Sets the number of lanes that the tables in force use with the stored levels; 0: not known.
    #[must_use]
    pub fn with_lanes(self, lanes: u8) -> Self {
        Self { lanes, ..self }
    }

    /// Returns the number of lanes that the tables in force use; 0: not known.
    pub const fn lanes(&self) -> u8 {
        self.lanes
    }

    /// Returns `installed` with the service levels in force, if the plan depends on levels. A sender uses its last
    /// known level until its next query, or level 0 if it has none.
    pub(crate) fn in_force(&self, fabric: &Fabric, plan: &Plan, installed: &Installed) -> Option<Installed> {
        if plan.lanes <= 1 {
            return None;
        }
        let mut levels = vec![Sl::default(); plan.lids.top().index() + 1];
        for (lid, at) in plan.lids.by_lid() {
            levels[lid.index()] = match self.level(fabric, &plan.lids, (lid, at)) {
                Some(level) => level,
                // The owner of the LID is new, and senders get the plan's level for it.
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

    /// Returns the service levels that the tables in force rely on, and the number of their lanes. `None` if the tables
    /// use one lane, or if the levels are unknown. No host sends to a new LID yet, so any level is valid for it.
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

    /// True if a plan gives senders the same levels as before, as far as these are known.
    pub fn agrees(&self, fabric: &Fabric, lids: &Lids, (levels, lanes): (&ServiceLevels, u8)) -> bool {
        self.relied_on(fabric, lids)
            .is_none_or(|(told, of)| of == lanes && lids.by_lid().all(|(lid, _)| told.to(lid) == levels.to(lid)))
    }

    /// True if any level is known.
    fn is_any(&self) -> bool {
        !self.by_lid.is_empty() || !self.by_switch.is_empty() || !self.by_port.is_empty()
    }

    /// Returns the level that senders use for a LID of the port `at`, if known.
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

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_plan::{EngineName, SlToVl};
    use selvedge_types::{LidRange, Lmc, NodeKind, PortNum};

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
        // The switch and three hosts have level 1, except the second LID of one host, which has 2. The last host has 3
        // and 0.
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
