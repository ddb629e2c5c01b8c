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
use crate::copies::TakenApart;
use crate::engine::in_words;
use crate::event::PlanEvent;

/// Task: plan multicast trees.
#[derive(Clone, Debug)]
pub struct MulticastTask {
    /// What the trees start from.
    pub basis: Basis,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// All groups.
    pub groups: Arc<MulticastGroups>,
    /// What switches copy now.
    pub held: MulticastTables,
    /// Roots of the trees in force, by group.
    pub roots: BTreeMap<Lid, Guid>,
    /// Groups that are to be planned.
    pub stale: BTreeSet<Lid>,
    /// Switches that are left out.
    pub left_out: BTreeSet<Guid>,
    /// What trees have to fit beside, if that is known from before.
    pub beside: Option<Arc<Beside>>,
    /// Members that are left apart by the trees in force.
    pub apart: Vec<(Lid, Guid)>,
    /// If set, trees that could be better are moved, with at most so many Sets (or those of one tree).
    pub moves: Option<usize>,
}

/// What came of [`MulticastTask`].
#[derive(Clone, Debug, Default)]
pub struct MulticastResult {
    /// The trees.
    pub trees: PlannedTrees,
    /// What an operator should know.
    pub events: Vec<PlanEvent>,
}

/// Trees as far as they could be planned.
#[derive(Clone, Debug, Default)]
pub enum PlannedTrees {
    /// No trees were planned: those in force stay.
    #[default]
    Unchanged,
    /// The judge refused the trees, or planning them failed; an event says why. Those in force stay.
    Refused,
    /// Trees, accepted.
    Accepted(Box<MulticastPlan>),
    /// Trees must wait until packets that are under way now are gone. These groups are taken apart until then.
    Later(Option<Box<TakenApart>>),
}

/// Trees that may be written.
#[derive(Clone, Debug)]
pub struct MulticastPlan {
    /// The way to them.
    pub change: Judged<MulticastChange>,
    /// Their roots.
    pub roots: BTreeMap<Lid, Guid>,
    /// Members that no tree can reach.
    pub unreached: Vec<(Lid, Guid)>,
    /// Members that are left apart from others, so that nothing can deadlock.
    pub apart: Vec<(Lid, Guid)>,
    /// What copies wait for while the change is under way, and afterwards.
    pub turns: (Arc<CopyTurns>, Arc<CopyTurns>),
    /// What trees have to fit beside, for the next time.
    pub beside: Arc<Beside>,
    /// Trees that are moved, and those that could be moved after them.
    pub moved: (usize, usize),
}

/// What trees have to fit beside: the routes in force.
#[derive(Debug)]
pub struct Beside {
    /// What routes in force wait for.
    routes: RouteTurns,
    /// By lane: trees may be laid without a look at them, as those that join all hosts fit.
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

    /// Whether trees are laid with a look at routes: at first not, where that is likely to do.
    fn attempts(&self, groups: &MulticastGroups) -> impl Iterator<Item = bool> + use<> {
        let is_free = |sl: Sl| self.is_free.get(usize::from(self.routes.lane(sl))) == Some(&true);
        let first = groups.iter().all(|group| is_free(group.sl)).then_some(false);
        first.into_iter().chain([true])
    }
}

/// The fabric, what trees have to fit beside, and the same with what packets may be under way by.
type Ground<'a> = (&'a Fabric, &'a Arc<Beside>, &'a RouteTurns);

impl MulticastTask {
    /// About what one core needs: 20 µs, and for each group 1 µs a switch.
    pub(crate) fn virtual_cost(&self) -> Duration {
        let switches = self.basis.inventory.fabric.switches().len() as u64;
        Duration::from_nanos(20_000 + 1_000 * switches * self.stale.len() as u64)
    }

    /// Plans trees and has them judged: first the best trees; if those could deadlock, trees that fit beside routes. If
    /// there is no way to such trees, groups are taken apart, and their trees follow when no packet of the old ones is
    /// left.
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
        // With what packets may still be under way by.
        let now = basis
            .under_way
            .as_ref()
            .map(|_| basis.route_turns(&fabric, &self.plan, true));
        let ground = (&*fabric, &beside, now.as_ref().unwrap_or(&beside.routes));
        if let Some(most) = self.moves {
            return self.moved(ground, most);
        }
        let (mut wanted, mut last) = (None, None);
        for looks in beside.attempts(&self.groups) {
            let routes = looks.then(|| routes(&beside.routes));
            let made = trees(&self.request(&fabric, routes.as_ref()));
            wanted = Some(made.tables.clone());
            match self.judged(ground, made, (0, 0)) {
                Ok(plan) => return accepted(plan),
                Err(refusal) if refusal.verdict.count_of(Kind::MulticastCircle) == 0 => return refused(&refusal),
                Err(refusal) => last = Some(refusal),
            }
        }
        // Packets under way by old entries or old trees are in the way: later they are gone.
        let mut first = None;
        if basis.under_way.is_none() {
            let changed = wanted.map_or_else(BTreeSet::new, |wanted| changed(&self.held, &wanted));
            let taken_apart = basis.take_apart((&basis.inventory, &fabric), &self.held, &changed);
            first = taken_apart
                .filter(|first| first.change.value().sets() > 0)
                .map(Box::new);
            // Nothing to take away: waiting does not help.
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

    /// Moves trees for which there is a better one, as many as `most` Sets allow.
    fn moved(&self, ground: Ground<'_>, most: usize) -> MulticastResult {
        for looks in ground.1.attempts(&self.groups) {
            let routes = looks.then(|| routes(&ground.1.routes));
            let request = self.request(ground.0, routes.as_ref());
            let (made, moved) = better(&request, |tables| {
                multicast_changes(self.basis.generation, &self.held, tables).sets() <= most
            });
            match self.judged(ground, made, moved) {
                Ok(plan) => return accepted(plan),
                Err(refusal) if refusal.verdict.count_of(Kind::MulticastCircle) == 0 => return refused(&refusal),
                Err(_) => {}
            }
        }
        // No better tree fits: what is in force stays.
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

/// What routes wait for, as trees are laid beside it.
fn routes(turns: &RouteTurns) -> Routes {
    let level = |sl: usize| u8::try_from(sl).ok().and_then(Sl::new).unwrap_or_default();
    Routes {
        turns: (0..turns.lanes()).map(|lane| turns.on(lane).collect()).collect(),
        lane_of: std::array::from_fn(|sl| turns.lane(level(sl))),
    }
}

/// Groups whose tables differ.
fn changed(held: &MulticastTables, wanted: &MulticastTables) -> BTreeSet<Lid> {
    let all: BTreeSet<Lid> = held.mlids().into_iter().chain(wanted.mlids()).collect();
    let differs = |mlid: &Lid| {
        let mut switches = (0..held.switches() as u32).map(selvedge_fabric::SwitchIdx);
        switches.any(|switch| held.mask(switch, *mlid) != wanted.mask(switch, *mlid))
    };
    all.into_iter().filter(differs).collect()
}
