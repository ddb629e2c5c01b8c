//! Plans multicast trees and has them judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::Plan;
use selvedge_plan::multicast::{MulticastChange, MulticastGroups, MulticastTables, multicast_changes};
use selvedge_routing::multicast::{Routes, TreeRequest, Trees, better, probe, trees};
use selvedge_types::{Guid, Lid, Sl};
use selvedge_verify::standing::CopyTurns;
use selvedge_verify::{Judged, Kind, MulticastSubject, Refusal, RouteTurns, circular_groups};

use crate::basis::Basis;
use crate::copies::{Copies, TakenApart};
use crate::engine::in_words;
use crate::event::PlanEvent;

/// Task: plan multicast trees.
#[derive(Clone, Debug)]
pub struct MulticastTask {
    /// The state that the task starts from.
    pub basis: Basis,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// All groups.
    pub groups: Arc<MulticastGroups>,
    /// Current multicast tables.
    pub held: MulticastTables,
    /// Roots of the trees in force, by group.
    pub roots: BTreeMap<Lid, Guid>,
    /// Groups to plan.
    pub stale: BTreeSet<Lid>,
    /// Switches to leave out.
    pub left_out: BTreeSet<Guid>,
    /// The routes that trees must be compatible with, if already computed.
    pub beside: Option<Arc<Beside>>,
    /// Members left out by the trees in force.
    pub apart: Vec<(Lid, Guid)>,
    /// If set, trees with a better alternative are moved, with at most this many Sets (but at least one tree).
    pub moves: Option<usize>,
}

/// Multicast groups, and the trees in force for them.
#[derive(Clone, Debug, Default)]
pub struct TreesInForce {
    /// The groups, and the multicast tables that switches hold.
    pub copies: Copies,
    /// Roots of the trees, by group.
    pub roots: BTreeMap<Lid, Guid>,
    /// Members left out by the trees.
    pub apart: Vec<(Lid, Guid)>,
}

impl TreesInForce {
    /// Returns the task that plans all trees anew beside a plan in force. Switches in `left_out` get no tables.
    #[must_use]
    pub fn task(&self, basis: Basis, plan: Arc<Plan>, left_out: BTreeSet<Guid>) -> MulticastTask {
        let groups = &self.copies.groups;
        MulticastTask {
            groups: Arc::clone(groups),
            held: self.copies.tables_without(&basis.inventory.fabric, &left_out),
            roots: self.roots.clone(),
            stale: groups.iter().map(|group| group.mlid).collect(),
            left_out,
            beside: None,
            apart: self.apart.clone(),
            moves: None,
            plan,
            basis,
        }
    }
}

/// Result of [`MulticastTask`].
#[derive(Clone, Debug, Default)]
pub struct MulticastResult {
    /// The trees.
    pub trees: PlannedTrees,
    /// Events for the operator.
    pub events: Vec<PlanEvent>,
}

/// Result of planning trees.
#[derive(Clone, Debug, Default)]
pub enum PlannedTrees {
    /// No trees were planned. The trees in force stay.
    #[default]
    Unchanged,
    /// The judge refused the trees, or planning them failed; an event gives the reason. Those in force stay.
    Refused,
    /// Trees, accepted.
    Accepted(Box<MulticastPlan>),
    /// Trees must wait until packets in flight have drained. These groups are taken apart until then.
    Later(Option<Box<TakenApart>>),
}

/// Trees that may be written.
#[derive(Clone, Debug)]
pub struct MulticastPlan {
    /// The judged change that leads to the trees.
    pub change: Judged<MulticastChange>,
    /// Roots of the trees, by group.
    pub roots: BTreeMap<Lid, Guid>,
    /// Members that no tree can reach.
    pub unreached: Vec<(Lid, Guid)>,
    /// Members that no tree reaches, because a tree to them could cause a deadlock.
    pub apart: Vec<(Lid, Guid)>,
    /// Channel dependencies of copies during the change, and afterwards.
    pub turns: (Arc<CopyTurns>, Arc<CopyTurns>),
    /// Routes that trees must be compatible with, for the next task.
    pub beside: Arc<Beside>,
    /// Number of trees moved, and number of trees that could still be moved.
    pub moved: (usize, usize),
}

/// The routes in force, which trees must be compatible with.
#[derive(Debug)]
pub struct Beside {
    /// Channel dependencies of these routes.
    routes: RouteTurns,
    /// For each lane, true if trees may be planned without a check of dependencies, because trees over all hosts are
    /// compatible with the routes.
    is_free: Vec<bool>,
}

impl Beside {
    fn new(fabric: &Fabric, basis: &Basis, plan: &Plan) -> Self {
        let routes = basis.route_turns(fabric, plan, false);
        let (groups, tables) = probe(fabric);
        let on = |lane: u8| {
            let mut levels = (0..Sl::COUNT as u8).filter_map(Sl::new);
            levels.find(|sl| routes.lane(*sl) == lane)
        };
        let is_free = |lane: u8| {
            let on_lane = on(lane).map(|sl| groups.on_level(sl));
            on_lane.is_none_or(|groups| circular_groups(&routes, &groups, &tables).is_empty())
        };
        let is_free = (0..routes.lanes()).map(is_free).collect();
        Self { routes, is_free }
    }

    /// Returns the attempts in order. An attempt `false` plans trees without checking the dependencies of the routes,
    /// an attempt `true` checks them. `false` comes first if it is likely to succeed.
    fn attempts(&self, groups: &MulticastGroups) -> impl Iterator<Item = bool> + use<> {
        let is_free = |sl: Sl| self.is_free.get(usize::from(self.routes.lane(sl))) == Some(&true);
        let first = groups.iter().all(|group| is_free(group.sl)).then_some(false);
        first.into_iter().chain([true])
    }
}

/// The fabric, the routes that trees must be compatible with, and these routes together with replaced entries that
/// packets in flight may use.
type Ground<'a> = (&'a Fabric, &'a Arc<Beside>, &'a RouteTurns);

impl MulticastTask {
    /// Returns about the time that one core needs: 20 µs, and for each group 1 µs per switch.
    pub(crate) fn virtual_cost(&self) -> Duration {
        let switches = self.basis.inventory.fabric.switches().len() as u64;
        Duration::from_nanos(20_000 + 1_000 * switches * self.stale.len() as u64)
    }

    /// Plans trees and has them judged: first the best trees; if those could deadlock, trees that are compatible with
    /// the routes. If there is no safe change to such trees, groups are taken apart, and they get trees again when all
    /// packets of the old trees have drained.
    pub(crate) fn run(&self) -> MulticastResult {
        let basis = &self.basis;
        let mut fabric = Arc::clone(&basis.inventory.fabric);
        for guid in &self.left_out {
            if let Some(node) = fabric.find(*guid) {
                Fabric::set_multicast_room(Arc::make_mut(&mut fabric), node, 0);
            }
        }
        let beside = self
            .beside
            .clone()
            .unwrap_or_else(|| Arc::new(Beside::new(&fabric, basis, &self.plan)));
        // Includes replaced entries that packets in flight may still use.
        let now = basis
            .under_way
            .as_ref()
            .map(|_| basis.route_turns(&fabric, &self.plan, true));
        let ground = (&*fabric, &beside, now.as_ref().unwrap_or(&beside.routes));
        // Trees leave links that are out of service; the judge sees that these still carry packets.
        let ways = basis.inventory.in_service_of(&fabric);
        if let Some(most) = self.moves {
            return self.moved(ground, &ways, most);
        }
        let (mut wanted, mut last) = (None, None);
        for looks in beside.attempts(&self.groups) {
            let routes = looks.then(|| routes(&beside.routes));
            let made = trees(&self.request(&ways, routes.as_ref()));
            wanted = Some(made.tables.clone());
            match self.judged(ground, made, (0, 0)) {
                Ok(plan) => return accepted(plan),
                Err(refusal) if refusal.verdict.count_of(Kind::MulticastCircle) == 0 => return refused(&refusal),
                Err(refusal) => last = Some(refusal),
            }
        }
        // Packets in flight by old entries or old trees prevent the change; later they are gone.
        let mut first = None;
        if basis.under_way.is_none() {
            let changed = wanted.map_or_else(BTreeSet::new, |wanted| changed(&self.held, &wanted));
            let taken_apart = basis.take_apart((&basis.inventory, &fabric), &self.held, &changed);
            first = taken_apart
                .filter(|first| first.change.value().sets() > 0)
                .map(Box::new);
            // No group can be taken apart, so waiting does not help.
            if let (None, Some(refusal)) = (&first, last) {
                return refused(&refusal);
            }
        }
        MulticastResult {
            trees: PlannedTrees::Later(first),
            events: Vec::new(),
        }
    }

    fn request<'a>(&'a self, fabric: &'a Fabric, routes: Option<&'a Routes>) -> TreeRequest<'a> {
        TreeRequest {
            fabric,
            groups: &self.groups,
            held: &self.held,
            roots: &self.roots,
            stale: &self.stale,
            routes,
        }
    }

    fn judged(
        &self,
        (fabric, beside, now): Ground<'_>,
        made: Trees,
        moved: (usize, usize),
    ) -> Result<MulticastPlan, Box<Refusal>> {
        let apart = if self.moves.is_some() {
            self.apart.clone()
        } else {
            made.apart
        };
        let change = multicast_changes(self.basis.generation, &self.held, &made.tables);
        let subject = MulticastSubject {
            fabric,
            groups: &self.groups,
            held: &self.held,
            wanted: &made.tables,
            routes: now,
            apart: &apart.iter().map(|(mlid, _)| *mlid).collect(),
        };
        let change = self
            .basis
            .judge
            .judge_multicast(&self.basis.inventory, &subject, change)?;
        let turns = |before: &[&MulticastTables], now: &[&MulticastTables]| {
            CopyTurns::new(fabric, &beside.routes, &self.groups, (before, now))
        };
        let (held, wanted) = (&self.held, &made.tables);
        let on_the_way = turns(&[held], &[held]).and(&turns(&[held, wanted], &[wanted]));
        Ok(MulticastPlan {
            change,
            turns: (Arc::new(on_the_way), Arc::new(turns(&[wanted], &[wanted]))),
            roots: made.roots,
            unreached: made.unreached,
            apart,
            beside: Arc::clone(beside),
            moved,
        })
    }

    /// Moves trees with a better alternative, as many as `most` Sets allow.
    fn moved(&self, ground: Ground<'_>, ways: &Fabric, most: usize) -> MulticastResult {
        for looks in ground.1.attempts(&self.groups) {
            let routes = looks.then(|| routes(&ground.1.routes));
            let request = self.request(ways, routes.as_ref());
            let (made, moved) = better(&request, |tables| {
                multicast_changes(self.basis.generation, &self.held, tables).sets() <= most
            });
            match self.judged(ground, made, moved) {
                Ok(plan) => return accepted(plan),
                Err(refusal) if refusal.verdict.count_of(Kind::MulticastCircle) == 0 => return refused(&refusal),
                Err(_) => {}
            }
        }
        // No better tree is compatible, so those in force stay.
        MulticastResult::default()
    }
}

fn accepted(plan: MulticastPlan) -> MulticastResult {
    MulticastResult {
        trees: PlannedTrees::Accepted(Box::new(plan)),
        events: Vec::new(),
    }
}

fn refused(refusal: &Refusal) -> MulticastResult {
    let why = in_words(refusal);
    MulticastResult {
        trees: PlannedTrees::Refused,
        events: vec![PlanEvent::TreesRefused { why }],
    }
}

/// Returns the channel dependencies of routes in the form that tree planning uses.
fn routes(turns: &RouteTurns) -> Routes {
    let level = |sl: usize| u8::try_from(sl).ok().and_then(Sl::new).unwrap_or_default();
    Routes {
        turns: (0..turns.lanes()).map(|lane| turns.on(lane).collect()).collect(),
        lane_of: std::array::from_fn(|sl| turns.lane(level(sl))),
    }
}

/// Returns the groups with different tables.
fn changed(held: &MulticastTables, wanted: &MulticastTables) -> BTreeSet<Lid> {
    let all: BTreeSet<Lid> = held.mlids().into_iter().chain(wanted.mlids()).collect();
    let differs = |mlid: &Lid| {
        let mut switches = (0..held.switches() as u32).map(selvedge_fabric::SwitchIdx);
        switches.any(|switch| held.mask(switch, *mlid) != wanted.mask(switch, *mlid))
    };
    all.into_iter().filter(differs).collect()
}
