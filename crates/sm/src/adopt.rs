//! Tables that were there before this manager was: kept as they are while the judge finds nothing wrong with them.
//!
//! Engines keep what fits into an order of their own, or nothing, and do not know the order behind what they find:
//! OpenSM's `updn` and ours rank a random graph differently. What another manager left may be right all the same, and
//! then it stays. Where some entries are not right, those that are stay all the same: LIDs whose packets would not
//! arrive get new ways, as after a lost link, in the order that the other entries leave. So it is with links that are
//! lost later, as long as what was found is kept.

use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, EngineName, Lids, NO_PATH, Policy, ServiceLevels, Tables};
use selvedge_routing::{Engine, Note, Options, Routed, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, PortNum};

use crate::event::Event;
use crate::held::covering;
use crate::job::{Job, JobResult, Outcome};

/// What the tables in force are to a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adopt {
    /// An engine of this manager made them, and decides what stays.
    #[default]
    No,
    /// They were found when it became master.
    Found,
    /// They were found, and have been kept since.
    Kept,
}

impl Adopt {
    /// What they are if there is a plan in force, if that keeps what was found, and if this manager made them itself
    /// with other engines than those that are to plan now.
    pub const fn of(has_plan: bool, keeps_found: bool, wants_others: bool) -> Self {
        match (has_plan, keeps_found, wants_others) {
            (false, _, false) => Self::Found,
            (true, true, _) => Self::Kept,
            (false, _, true) | (true, false, _) => Self::No,
        }
    }
}

/// True for engines that keep what they can by themselves, and find out first what the fabric is.
const fn looks_first(engine: Engine) -> bool {
    matches!(engine, Engine::Auto | Engine::FatTree)
}

impl Job {
    /// A plan with the tables as they were found, if they are right, in place of what an engine would make that has not
    /// been asked yet.
    pub(crate) fn kept(&self, engine: &EngineName, lids: &Lids, found: Option<&Tables>, par: Par) -> Option<Outcome> {
        let engine = Engine::try_from(engine).ok().filter(|engine| !looks_first(*engine))?;
        self.as_found(engine, lids, found?, par)
    }

    /// The same in place of what an engine made that looks first, if it is not the same.
    pub(crate) fn kept_instead(
        &self,
        (engine, routed): (&EngineName, Option<&Routed>),
        lids: &Lids,
        found: Option<&Tables>,
        par: Par,
    ) -> Option<Outcome> {
        let (routed, found) = routed.zip(found).filter(|(routed, found)| {
            let tells = (&routed.service_levels, routed.lanes);
            routed.tables != **found || !self.told.agrees(&self.inventory.fabric, lids, tells)
        })?;
        Engine::try_from(engine).ok().filter(|engine| looks_first(*engine))?;
        self.as_found(Engine::try_from(&routed.engine).ok()?, lids, found, par)
    }

    fn as_found(&self, engine: Engine, lids: &Lids, found: &Tables, par: Par) -> Option<Outcome> {
        // Of a file the tables are what the operator wants.
        if self.adopt == Adopt::No || engine == Engine::File {
            return None;
        }
        // Nobody can read service levels back: tables that need some are right only if these are known otherwise.
        let fabric = &self.inventory.fabric;
        let known = self.told.relied_on(fabric, lids);
        let (service_levels, lanes) = known.unwrap_or((ServiceLevels::default(), 1));
        let most = self.lane_use().routes;
        if lanes > most {
            return None;
        }
        let mut tables = covering(found.clone(), &self.installed);
        drop_circles_of_nobody(fabric, lids, &mut tables);
        let attempt = |tables: Tables| {
            let routed = Routed {
                tables,
                service_levels: service_levels.clone(),
                lanes,
                engine: EngineName(engine.name().to_owned()),
                notes: Vec::new(),
            };
            self.attempt(routed, lids, self.plan_ports(lids), par).ok()
        };
        // Where several lanes may be relied on, tables that are not right as they are may have been right on more.
        let is_on_one = most == 1;
        let mend = || mended(fabric, lids, &tables, par).filter(|_| is_on_one);
        attempt(tables.clone()).or_else(|| attempt(mend()?))
    }

    /// It is taken, and said once.
    pub(crate) fn keeps(&self, outcome: Outcome, mut events: Vec<Event>) -> JobResult {
        let engine = outcome.plan.engine.0.clone();
        let entries = self.changed_entries(&outcome);
        let event = match entries {
            0 => Event::FoundKept { engine },
            entries => Event::FoundMended { engine, entries },
        };
        events.extend((self.adopt == Adopt::Found).then_some(event));
        JobResult {
            keeps_found: true,
            ..self.accepted(outcome, events)
        }
    }
}

impl Job {
    /// Entries of the plan's LIDs that are others than those that were found.
    fn changed_entries(&self, outcome: &Outcome) -> usize {
        let (plan, installed) = (&outcome.plan, &self.installed);
        let switches = plan.tables.switch_indices();
        let changed = switches.flat_map(|switch| {
            (plan.lids.by_lid()).filter(move |&(lid, _)| {
                let held = installed.block(switch, lid.index() / BLOCK_LIDS);
                held.is_some_and(|held| held[lid.index() % BLOCK_LIDS] != plan.tables.get(switch, lid))
            })
        });
        changed.count()
    }
}

/// Tables that were found, with new ways where a LID's packets would not arrive and nothing else, as after a lost link;
/// `None` if that would take more: they can deadlock as they are, or more than a tenth of them would have to change.
pub fn mended(fabric: &Fabric, lids: &Lids, found: &Tables, par: Par) -> Option<Tables> {
    let options = Options {
        previous: Some(Arc::new(found.clone())),
        weave: WeaveOptions {
            previous_levels: Some(Arc::default()),
            ..WeaveOptions::default()
        },
        lanes: Some(1),
        ..Options::default()
    };
    let routed = Engine::Weave.route(fabric, lids, &options, Seed(0), par).ok()?;
    // More is not mending: the engine that is to plan has a say then.
    let most = fabric.switches().len() * lids.len() / 10;
    let is_mended = |note: &Note| matches!(note, Note::Repaired { rewoven: 0, entries, .. } if *entries <= most);
    routed.notes.iter().any(is_mended).then_some(routed.tables)
}

/// Takes away entries of LIDs that nobody has, where they lead packets round: whoever still sends to such a LID fills
/// the links of the circle, so that the judge would refuse all that was found for them.
fn drop_circles_of_nobody(fabric: &Fabric, lids: &Lids, tables: &mut Tables) {
    let next = |tables: &Tables, switch: SwitchIdx, lid: Lid| {
        let port = PortNum::new(tables.get(switch, lid))?;
        let node = fabric.switches()[switch];
        let far = fabric.peer(PortRef { node, port })?;
        fabric.switch_index(far.node).filter(|_| port != PortNum::MANAGEMENT)
    };
    for lid in (1..=tables.top().0).map(Lid).filter(|&lid| lids.owner(lid).is_none()) {
        let goes_round = |first: SwitchIdx| {
            let way = std::iter::successors(Some(first), |&at| next(tables, at, lid));
            way.take(tables.switches() + 1).count() > tables.switches()
        };
        if fabric.switches().indices().any(goes_round) {
            fabric
                .switches()
                .indices()
                .for_each(|switch| tables.set(switch, lid, NO_PATH));
        }
    }
}

/// True if both want the same routes of the same fabric.
pub fn route_alike(a: &Policy, b: &Policy) -> bool {
    a.engines == b.engines
        && a.count_switches == b.count_switches
        && a.lmc == b.lmc
        && a.used_lanes == b.used_lanes
        && a.assume_sl_aware == b.assume_sl_aware
        && a.multicast_lane == b.multicast_lane
        && a.roots == b.roots
        && a.compute == b.compute
        && a.io == b.io
        && a.guid_order == b.guid_order
}

#[cfg(test)]
mod tests {
    use selvedge_types::{Guid, LidRange, Lmc};

    use super::*;
    use crate::made::{FIRST, SECOND, guid, inventory, row};

    #[test]
    fn circles_of_lids_that_nobody_has_are_dropped() {
        let fabric = inventory(row()).fabric;
        let [first, second] = [FIRST, SECOND].map(|at| fabric.switch_index(fabric.find(guid(at)).unwrap()).unwrap());
        // Entries of LID 5 at the two switches, and whether somebody has it: what is left of them.
        let check = |entries: [u8; 2], is_of_somebody: bool, want: [u8; 2]| {
            let mut tables = Tables::new(2, Lid(9));
            tables.set(first, Lid(5), entries[0]);
            tables.set(second, Lid(5), entries[1]);
            let mut lids = Lids::new();
            if is_of_somebody {
                let at = fabric.find_port(Guid(guid(FIRST).0)).unwrap();
                let base = Lid(5);
                lids.insert(
                    at,
                    LidRange {
                        base,
                        lmc: Lmc::default(),
                    },
                )
                .unwrap();
            }
            drop_circles_of_nobody(&fabric, &lids, &mut tables);
            let left = [first, second].map(|switch| tables.get(switch, Lid(5)));
            assert_eq!(left, want, "{entries:?} {is_of_somebody}");
        };
        check([2, 1], false, [NO_PATH, NO_PATH]);
        // The judge has its word about that.
        check([2, 1], true, [2, 1]);
        check([2, 2], false, [2, 2]);
        check([1, 1], false, [1, 1]);
        check([0, 1], false, [0, 1]);
    }
}
