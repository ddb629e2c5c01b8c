//! Plans the whole fabric: LIDs, port settings, tables by the policy's engines, and the transition to them, until the
//! judge accepts a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::PortRef;
use selvedge_plan::multicast::MulticastGroups;
use selvedge_plan::{
    ChangeSet, EngineName, Lids, MulticastLane, Op, Phase, Plan, RebalanceWhen, ServiceLevels, SlToVl, Tables,
};
use selvedge_routing::{Engine, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Guid, Lid, LidRange};
use selvedge_verify::phases::{Passage, is_live};
use selvedge_verify::{Refusal, Verdict};

use crate::adopt::Adopt;
use crate::aim::Aim;
use crate::asks::{self, Asks};
use crate::basis::{Basis, Outcome};
use crate::copies::TakenApart;
use crate::engine::{in_words, options};
use crate::event::PlanEvent;
use crate::held::{covering, gained_capacity, has_idle_link};
use crate::lanes;
use crate::ports::{self, DeclinedByGuid, Ports};
use crate::qos::{self, Quality};
use crate::told::Told;
use crate::way::{self, WayOptions};

/// A task: plan the whole fabric.
#[derive(Clone, Debug)]
pub struct PlanFabric {
    /// The state that the plan starts from. Its `installed` also records which replaced entries may have packets in
    /// flight, including packets that crossed links which are trained again.
    pub basis: Basis,
    /// The known LIDs of ports.
    pub claims: LidClaims,
    /// Lanes in force of destination switches, by GUID.
    pub known_lanes: Arc<BTreeMap<Guid, u8>>,
    /// Service levels in force.
    pub told: Arc<Told>,
    /// Settings that agents did not accept.
    pub declined: Arc<DeclinedByGuid>,
    /// Fog: how long packets of unknown entries may still be in flight.
    pub fog: Duration,
    /// True if the operator asked for a sweep. Then one link without traffic is a sufficient reason to plan new,
    /// balanced tables.
    pub rebalances: bool,
    /// Hosts to ask to register again.
    pub asks: Asks,
    /// Origin of the tables in force.
    pub adopt: Adopt,
    /// The plan that a sweep interrupted, if there is one.
    pub aim: Option<Arc<Aim>>,
    /// The plan in force, which stays if no plan of an engine is accepted.
    pub in_force: Option<Arc<Aim>>,
}

/// The known LIDs of ports, in addition to those that the ports have now.
#[derive(Clone, Debug, Default)]
pub struct LidClaims {
    /// LIDs by port GUID, as stored.
    pub known: Arc<BTreeMap<Guid, LidRange>>,
    /// Further LIDs that ports may have: those of a plan that the ports refused, or have not answered yet.
    pub spared: Arc<Vec<LidRange>>,
    /// LIDs that packets in flight may still use. No port gets them.
    pub resting: Arc<BTreeSet<Lid>>,
}

/// Result of [`PlanFabric`].
#[derive(Clone, Debug, Default)]
pub struct PlanResult {
    /// The plan and the change set that leads to it. `None`: no engine's plan was accepted.
    pub outcome: Option<Arc<Outcome>>,
    /// Events for the operator.
    pub events: Vec<PlanEvent>,
    /// Multicast groups that must be taken apart before the plan is applied, because their copies could deadlock with
    /// its routes.
    pub copies_first: Option<Box<TakenApart>>,
    /// True if the plan keeps the tables that were found.
    pub keeps_found: bool,
    /// True if no engine's plan was accepted, and the plan in force stays: it is the outcome.
    pub stays: bool,
    /// The judge's verdict on the last refused plan, if no engine's plan was accepted.
    pub refused: Option<Arc<Verdict>>,
    /// The multicast groups for which the plan leaves room, as far as any engine of the policy can.
    pub groups: Arc<MulticastGroups>,
}

/// The reason for which a plan of an engine is not accepted.
pub(crate) struct NotAccepted {
    /// The reason in words.
    pub(crate) why: String,
    /// The judge's verdict on the plan; `None` if the engine gave up.
    pub(crate) verdict: Option<Arc<Verdict>>,
}

impl From<String> for NotAccepted {
    fn from(why: String) -> Self {
        Self { why, verdict: None }
    }
}

impl From<Box<Refusal>> for NotAccepted {
    fn from(refusal: Box<Refusal>) -> Self {
        Self {
            why: in_words(&refusal),
            verdict: Some(Arc::new(refusal.verdict)),
        }
    }
}

impl PlanFabric {
    /// Returns a task that knows only the current state of the fabric.
    #[must_use]
    pub fn new(basis: Basis) -> Self {
        Self {
            basis,
            claims: LidClaims::default(),
            known_lanes: Arc::default(),
            told: Arc::default(),
            declined: Arc::default(),
            fog: Duration::ZERO,
            rebalances: false,
            asks: Asks::Nobody,
            adopt: Adopt::No,
            aim: None,
            in_force: None,
        }
    }

    /// Makes the plan, and determines which multicast groups must be taken apart first.
    pub(crate) fn run(&self, par: Par) -> PlanResult {
        let result = self.plan(par);
        let outcome = result.outcome.as_ref();
        let basis = &self.basis;
        PlanResult {
            copies_first: outcome.and_then(|made| basis.copies_first(made, &basis.installed)),
            groups: Arc::clone(&basis.copies.groups),
            ..result
        }
    }

    /// Plans again with all lanes for routes, if the engine failed because one lane was reserved for multicast copies:
    /// routes have priority over copies.
    pub(crate) fn on_all_lanes(
        &self,
        engine: &EngineName,
        lids: &Lids,
        previous: Option<Arc<Tables>>,
        par: Par,
    ) -> Option<Outcome> {
        let all = Self {
            basis: self
                .basis
                .with_policy(|policy| policy.multicast_lane = MulticastLane::Shared),
            ..self.clone()
        };
        let gives =
            self.basis.policy.multicast_lane == MulticastLane::Auto && self.lane_use().routes < all.lane_use().routes;
        let routed = gives.then(|| all.route(engine, lids, previous, par))?.ok()?;
        all.attempt(routed, lids, all.plan_ports(lids), par).ok()
    }

    pub(crate) fn accepted(&self, outcome: Outcome) -> PlanResult {
        let count = outcome.changes.value().count();
        let (sets, lft_blocks) = (count.total(), count.lft_blocks);
        let mut events = vec![PlanEvent::Accepted {
            engine: outcome.plan.engine.0.clone(),
            sets,
            lft_blocks,
        }];
        events.extend(self.way_in_words(&outcome));
        events.extend(qos::events(
            &self.basis.inventory.fabric,
            &self.basis.policy,
            &outcome.plan,
        ));
        PlanResult {
            outcome: Some(Arc::new(outcome)),
            events,
            ..PlanResult::default()
        }
    }

    /// True if the plan need not keep entries in force, because no packet uses them yet, or because the operator wants
    /// balanced tables at once.
    pub(crate) fn balances_afresh(&self) -> bool {
        let fabric = &self.basis.inventory.fabric;
        let is_idle = || self.rebalances && has_idle_link(fabric, &self.basis.installed);
        match self.basis.policy.rebalance {
            RebalanceWhen::AtOnce => gained_capacity(fabric) || is_idle(),
            RebalanceWhen::Later | RebalanceWhen::Never => gained_capacity(fabric) && !is_live(fabric),
        }
    }

    /// Returns the lanes of routes and of multicast copies. In a fabric without traffic no service level is in use yet.
    pub(crate) fn lane_use(&self) -> lanes::Use {
        let fabric = &self.basis.inventory.fabric;
        let in_force = if is_live(fabric) { self.told.lanes() } else { 0 };
        lanes::to_use(fabric, &self.basis.policy, in_force)
    }

    /// Returns the engine options. They are for one lane, unless the policy assumes that all senders use the service
    /// level of their path record.
    pub(crate) fn options(&self, previous: Option<Arc<Tables>>) -> Options {
        Options {
            lanes: Some(self.lane_use().routes),
            ..options(&self.basis.policy, &self.known_lanes, previous)
        }
    }

    /// Returns an event with the steps, if tables change in more than one step or packets must drain first.
    fn way_in_words(&self, outcome: &Outcome) -> Option<PlanEvent> {
        let changes = outcome.changes.value();
        let has_tables = |phase: &&Phase| phase.ops.iter().any(|op| matches!(op, Op::Lft { .. }));
        let waits = changes.phases.iter().any(|phase| phase.wait_before_ns > 0);
        if !waits && changes.phases.iter().filter(has_tables).count() < 2 {
            return None;
        }
        let steps = way::summary(&self.basis.inventory.fabric, &self.basis.installed, changes);
        let mut what = way::in_words(&steps);
        if let Passage::Proved(proof) = outcome.changes.passage() {
            let lost = proof.figures.steps.iter().map(|step| step.live_dropped.hosts).max();
            if let Some(pairs) = lost.filter(|pairs| *pairs > 0) {
                let _ = write!(
                    what,
                    "; meanwhile packets of {pairs} host pairs that had a route may be dropped"
                );
            }
        }
        Some(PlanEvent::Way { what })
    }

    /// Adds the Sets that take links down or enable ports again to a change set.
    fn order_links(&self, changes: &mut ChangeSet) {
        if self.basis.inventory.withdrawn.is_empty() {
            return;
        }
        let fabric = &self.basis.inventory.fabric;
        let copied_to = self.basis.copies.ports(fabric);
        self.basis.inventory.order_links(changes, |at| {
            copied_to.contains(&at) || fabric.peer(at).is_some_and(|far| copied_to.contains(&far))
        });
    }

    /// Returns an event about links that are out of service and carry packets all the same.
    pub(crate) fn needed_links(&self) -> Option<PlanEvent> {
        let inventory = &self.basis.inventory;
        let needed = &inventory.withdrawn.needed;
        let first = *needed.first()?;
        Some(PlanEvent::LinksNeeded {
            links: needed.len() / 2,
            first: inventory.fabric.link_name_of(first),
        })
    }

    /// Returns an event about ports that are in more partitions than their P_Key tables have room for.
    pub(crate) fn full_tables(&self, ports: &Ports) -> Option<PlanEvent> {
        let first = *ports.too_many.first()?;
        let fabric = &self.basis.inventory.fabric;
        Some(PlanEvent::PKeysFull {
            ports: ports.too_many.len(),
            what: fabric.port_name(first),
            room: fabric.node(first.node).partition_cap.max(1),
        })
    }

    pub(crate) fn plan_ports(&self, lids: &Lids) -> Ports {
        let inventory = &self.basis.inventory;
        Ports::plan(
            &inventory.fabric,
            &self.basis.policy,
            lids,
            inventory.local,
            &self.declined,
        )
    }

    pub(crate) fn route(
        &self,
        name: &EngineName,
        lids: &Lids,
        previous: Option<Arc<Tables>>,
        par: Par,
    ) -> Result<Routed, String> {
        let engine = Engine::try_from(name).map_err(|e| e.to_string())?;
        let mut options = self.options(previous);
        options.weave.previous_levels = self.found_levels(lids, options.lanes);
        engine
            .route(&self.basis.inventory.in_service(), lids, &options, Seed(0), par)
            .map_err(|e| e.to_string())
    }

    /// True if the operator wants another policy on a fabric in use: without a plan the change is rolled back.
    fn is_of_a_change(&self) -> bool {
        self.rebalances && self.in_force.is_none() && is_live(&self.basis.inventory.fabric)
    }

    /// Adds the policy's quality of service to the lanes of routes. Fails if the operator wants classes that the fabric
    /// cannot keep.
    fn add_quality(&self, levels: &mut lanes::Levels, ports: &Ports) -> Result<(), String> {
        let quality = Quality {
            fabric: &self.basis.inventory.fabric,
            policy: &self.basis.policy,
            ports: &ports.settings,
            layers: levels.lanes,
            in_force: self.in_force.as_ref().map(|in_force| &*in_force.plan),
        };
        if self.is_of_a_change()
            && let Some(why) = quality.refusal()
        {
            return Err(why);
        }
        levels.add(quality.planned(&ports.quality));
        Ok(())
    }

    pub(crate) fn attempt(&self, routed: Routed, lids: &Lids, ports: Ports, par: Par) -> Result<Outcome, NotAccepted> {
        let fabric = &self.basis.inventory.fabric;
        let tables = covering(routed.tables, &self.basis.installed);
        if let Some(at) = self.leads_out_of_service(&tables, lids) {
            let link = fabric.link_name_of(at);
            return Err(format!("entries lead over {link}, which is to be left out of service").into());
        }
        let top = tables.top();
        let routes = (&routed.engine, routed.lanes, routed.service_levels);
        let mut levels = lanes::of_routes(
            fabric,
            (&self.basis.policy, self.lane_use()),
            lids,
            &self.basis.installed.lanes,
            routes,
        );
        self.add_quality(&mut levels, &ports)?;
        let copies = levels.tables.as_ref().and_then(|tables| tables.copies);
        let plan = Plan {
            generation: self.basis.generation,
            engine: routed.engine,
            lids: lids.clone(),
            tables,
            service_levels: levels.relied_on,
            sl_to_vl: SlToVl::with_copies(levels.lanes, copies.filter(|_| levels.lanes > 1)),
            lanes: levels.lanes,
            lane_tables: levels.tables,
            end_ports: ports.end_ports,
            ports: ports.settings,
            switches: ports::plan_switches(fabric, &self.basis.policy, top),
        };
        let relied_on = self.told.in_force(fabric, &plan, &self.basis.installed);
        let installed = relied_on.as_ref().unwrap_or(&self.basis.installed);
        let out_of_sight = way::out_of_sight(fabric, installed, &plan);
        let fog = self.fog.max(out_of_sight);
        let change_set = || {
            let options = WayOptions {
                par,
                lanes_in_force: installed.lanes_in_force(),
                ..WayOptions::default()
            };
            let mut changes = way::propose(fabric, installed, &plan, &options);
            way::let_clear(&mut changes, (fabric, installed), fog);
            asks::ask(&self.asks, fabric, &plan, &mut changes);
            self.order_links(&mut changes);
            changes
        };
        let accepted = self
            .basis
            .judge
            .judge(&self.basis.inventory, installed, &plan, &change_set, par)?;
        Ok(Outcome {
            inventory: Arc::clone(&self.basis.inventory),
            plan: Arc::new(plan),
            changes: accepted.changes,
            verdict: Arc::new(accepted.verdict),
            asks: self.asks.clone(),
            fog,
            out_of_sight,
        })
    }

    /// Returns a port by which an entry leads over a link that is to be taken out of service. Such a link is left out,
    /// as if it were lost, when this plan is in force: then no proof considers packets that cross it.
    fn leads_out_of_service(&self, tables: &Tables, lids: &Lids) -> Option<PortRef> {
        let inventory = &self.basis.inventory;
        let fabric = &inventory.fabric;
        let mut idle = inventory
            .withdrawn
            .idle
            .iter()
            .copied()
            .filter(|&at| fabric.link_is_up(at));
        idle.find(|at| {
            let switch = fabric.switch_index(at.node);
            switch.is_some_and(|switch| lids.by_lid().any(|(lid, _)| tables.get(switch, lid) == at.port.get()))
        })
    }

    /// Returns the service levels of the found tables, if they are known for the number of lanes that the policy now
    /// asks for. A LID with entries that still lead to a port keeps its level; the other entries are repaired.
    pub(crate) fn found_levels(&self, lids: &Lids, lanes: Option<u8>) -> Option<Arc<ServiceLevels>> {
        let known = self.told.relied_on(&self.basis.inventory.fabric, lids);
        let known = known.filter(|(_, of)| self.adopt == Adopt::Found && Some(*of) == lanes);
        known.map(|(levels, _)| Arc::new(levels))
    }

    /// Plans without service levels if no plan was accepted and the levels that senders use are unknown. A subnet
    /// without a plan would be worse than one that does not use all its lanes.
    pub(crate) fn without_levels(&self, mut events: Vec<PlanEvent>, par: Par) -> PlanResult {
        let fabric = &self.basis.inventory.fabric;
        if self.told.lanes() > 0 || self.lane_use().routes <= 1 || !is_live(fabric) {
            return self.without_another(events, par);
        }
        events.push(PlanEvent::LevelsUnknown);
        let careful = Self {
            basis: self.basis.with_policy(|policy| policy.assume_sl_aware = false),
            ..self.clone()
        };
        let mut result = careful.plan(par);
        events.append(&mut result.events);
        PlanResult { events, ..result }
    }
}
