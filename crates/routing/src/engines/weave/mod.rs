//! `weave`: any topology on any number of lanes, without deadlock.
//!
//! Destination switches are distributed over the lanes in clusters ([`cluster`]). Each lane has a channel dependency
//! graph that is kept free of cycles turn by turn ([`order`]). Each LID gets a tree of next hops by a search along
//! legal turns ([`search`]), weighted by the load so far. Up*/down* turns around a root are in the graph from the
//! start, so a tree is always found, on one lane as well ([`loom`]). Several variants are made, and the best is
//! improved: trees are removed and routed again around the busiest channels.
//!
//! If ports have more than one LID, the paths to the LIDs of a port are changed so that they share fewer links and
//! switches ([`apart`]).
//!
//! The LID of a switch gets the tree of one of its hosts, or a tree made in the same graph, and every tree covers all
//! switches. So traffic of switches is free of deadlock too.
//!
//! Work of one variant: LIDs × channels steps of about 15 ns; memory: LIDs × switches bytes for each variant that runs
//! at a time, and four bytes per turn and lane.

mod apart;
mod cluster;
mod in_place;
mod loom;
mod net;
mod order;
mod queue;
mod repair;
mod search;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, Tables};
use selvedge_sim::Par;
use selvedge_types::{Guid, Sl};

use crate::destinations::Destinations;
use crate::engine::{self, Capability, Input, LaneUse, Made, RoutingEngine};
use crate::engines::updn::{self, Ranking};
use crate::error::EngineError;
use crate::mender::Mender;
use crate::note::{Note, RootSource};
pub use in_place::{Rehung, WeaveMender};
use loom::{Loom, Score, Variant, Work};
use net::{Errand, Goal, NONE, Net};
use order::Base;
use repair::InForce;

/// Engine `weave`.
#[derive(Debug)]
pub struct Weave;

impl RoutingEngine for Weave {
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let lanes = input.lanes(self.lanes());
        let woven = weave(input, lanes, notes);
        Ok(Made {
            service_levels: woven.service_levels,
            lanes: woven.lanes,
            ..Made::on_one_lane(woven.tables)
        })
    }

    fn mender(&self, force: &engine::InForce<'_>) -> Option<Mender> {
        Mender::of_any_tables(force)
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[Capability::DeadlockFree, Capability::LeavesRoomForCopies]
    }

    fn lanes(&self) -> LaneUse {
        LaneUse::ToBeSafe { by_default: 1 }
    }
}

/// How much time to spend on the search for a better routing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// A few variants and one round of improvement, for a fabric that waits for its tables.
    #[default]
    Fast,
    /// Several variants and many rounds: about ten times as long.
    Best,
}

impl FromStr for Effort {
    type Err = EngineError;

    fn from_str(name: &str) -> Result<Self, EngineError> {
        match name {
            "best" => Ok(Self::Best),
            "fast" => Ok(Self::Fast),
            _ => Err(EngineError::UnknownEffort { name: name.to_owned() }),
        }
    }
}

/// Options of `weave`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeaveOptions {
    /// How much time to spend on the search for a better routing. Default: fast.
    pub effort: Effort,
    /// The lane in force of each destination switch, by GUID. It is kept if the lane still exists, so that hosts need
    /// not query their paths again. Default: none.
    pub previous_lanes: Option<Arc<BTreeMap<Guid, u8>>>,
    /// The service levels in force. Together with [`Options::previous`](crate::Options::previous) and the same number
    /// of lanes, the tables are repaired: only switches that lost their route are routed again, and every LID keeps its
    /// service level. If that is not possible, everything is routed and the lanes are kept. Default: none.
    pub previous_levels: Option<Arc<ServiceLevels>>,
}

/// Returns the lane of each destination switch, by GUID, from the service levels in force. It is the value for
/// [`WeaveOptions::previous_lanes`].
#[must_use]
pub fn lanes_in_force(fabric: &Fabric, lids: &Lids, levels: &ServiceLevels) -> BTreeMap<Guid, u8> {
    let mut lanes = BTreeMap::new();
    for (at, range) in lids.iter() {
        let peer = || fabric.peer(at).map(|peer| peer.node);
        let home = fabric
            .switch_index(at.node)
            .or_else(|| peer().and_then(|node| fabric.switch_index(node)));
        if let Some(home) = home {
            lanes
                .entry(fabric.switch(home).guid)
                .or_insert(levels.to(range.base).get());
        }
    }
    lanes
}

/// The result of `weave`.
#[derive(Debug)]
pub(crate) struct Woven {
    /// Forwarding tables.
    pub tables: Tables,
    /// Service level = lane of the destination's switch.
    pub service_levels: ServiceLevels,
    /// Lanes in use.
    pub lanes: u8,
}

/// Routes a fabric on up to `lanes` lanes.
fn weave(input: &Input<'_>, lanes: u8, notes: &mut Vec<Note>) -> Woven {
    let (fabric, lids, options, par) = (input.fabric, input.lids, &input.options.weave, input.par);
    let goals = &goals(input.destinations);
    let net = Net::new(fabric, input.graph, goals);
    let lanes = lanes_to_use(fabric, lids, lanes, notes);
    if let Some(woven) = repaired(input, &net, goals, (lanes, options), notes) {
        return woven;
    }
    let kept = options.previous_levels.as_deref();
    let kept = kept.map(|levels| lanes_in_force(fabric, lids, levels));
    let kept = options.previous_lanes.as_deref().or(kept.as_ref());
    let lane = cluster::lanes(&net, fabric, lanes, kept);
    let errands = net::errands(goals, &lane, lanes);
    let levels = levels(input, par);
    let is_first = |e: &&Errand| e.offset == 0 && goals[e.goal as usize].egress != 0;
    let first = errands.iter().take_while(is_first).count();
    let plan = Plan::new(options.effort, &net, first, lanes, levels.is_some());
    let mut tops = cluster::tops(&net, &lane, lanes, plan.tops);
    if let Some(position) = levels.map(Arc::new) {
        tops.push((0..lanes).map(|_| Arc::clone(&position)).collect());
    }
    let mut part_size = vec![0; net.parts];
    net.part.iter().for_each(|&p| part_size[p as usize] += 1);
    let work = Work {
        ideal: ideal(&net, goals),
        tops: &tops,
        net: &net,
        goals,
        errands: &errands,
        part_size: &part_size,
    };
    let loom = make(&work, &plan, par);
    let mut tables = Tables::new(net.switches, lids.top());
    fill(&work, &loom, &mut tables, par);
    let mut sls = vec![Sl::default(); lids.top().index() + 1];
    for (errand, &lane) in errands.iter().zip(&loom.lane) {
        sls[errand.lid(goals).index()] = Sl::new(lane).unwrap_or_default();
    }
    let service_levels = if lanes > 1 {
        ServiceLevels::PerDestination(sls)
    } else {
        ServiceLevels::default()
    };
    Woven {
        tables,
        service_levels,
        lanes,
    }
}

/// Repairs the tables in force, if they are known and can be repaired.
fn repaired(
    input: &Input<'_>,
    net: &Net,
    goals: &[Goal],
    (lanes, options): (u8, &WeaveOptions),
    notes: &mut Vec<Note>,
) -> Option<Woven> {
    let in_force = InForce {
        tables: input.options.previous.as_deref()?,
        levels: options.previous_levels.as_deref()?,
        lanes,
    };
    let mended = repair::mend(net, goals, input.lids.top(), in_force);
    notes.push(mended.as_ref().map_or(Note::NotRepaired, |mended| Note::Repaired {
        extended: mended.extended,
        rerouted: mended.rerouted,
        rewoven: mended.rewoven,
        entries: mended.entries,
    }));
    let mended = mended?;
    Some(Woven {
        tables: mended.tables,
        service_levels: mended.levels,
        lanes,
    })
}

/// Steps (first LIDs of hosts × channels) that a fast routing spends on variants: about 20 ms.
const FAST_STEPS: usize = 1_100_000;
/// Steps that the best routing spends on variants, and half as many on improvement: about 0.3 s.
const BEST_STEPS: usize = 12_000_000;
/// If a variant has at least this number of steps, it does not search for turns beyond its base. In a large fabric
/// searches take most of the time, and turns that they add early block later ones.
const LARGE_STEPS: usize = 20_000_000;
/// Values of [`Variant::window`] to try with orders by `Layout::Line`: how far back in the order of channels a turn may
/// lead at first, in percent of the order. The first value was the best when measured.
const LINE: [u32; 2] = [0, 10];
/// Values of [`Variant::window`] to try with orders by `Layout::Rings`, best first.
const RINGS: [u32; 3] = [60, 50, 70];
/// Largest number of variants: more are not worth their time, even in a small fabric.
const VARIANTS_MAX: usize = 48;
/// Rounds of improvement of the best variants: first towards equal loads, then against the highest load alone. More
/// rounds improve nothing (measured).
const ROUNDS: [u32; 3] = [2, 3, 4];

/// The variants to be tried.
#[derive(Debug)]
struct Plan {
    variants: Vec<Variant>,
    /// Number of orders for each lane: by `Layout::Line`, and by `Layout::Rings`.
    tops: [usize; 2],
    /// Number of variants in each round of improvement, the best first.
    finalists: Vec<usize>,
    /// Number of errands for first LIDs of hosts. They come first, and only their load is judged.
    first: usize,
}

impl Plan {
    fn new(effort: Effort, net: &Net, first: usize, lanes: u8, has_levels: bool) -> Self {
        // Lanes have searches of their own for cycles: eight take half as long again as one.
        let steps = (first * net.channels()).max(1) * (16 + usize::from(lanes.min(8))) / 16;
        let budget = match effort {
            Effort::Fast => FAST_STEPS,
            Effort::Best => BEST_STEPS,
        };
        let count = (budget / steps).clamp(1, VARIANTS_MAX);
        let base = if steps > LARGE_STEPS { Base::Fixed } else { Base::Tree };
        let by_layout = match lanes {
            0..=4 => [count - count / 4, count / 4],
            // A lane with few destinations has room for most turns that they need, and those lead to its top.
            _ => [count / 2, count - count / 2],
        };
        let tops = [by_layout[0].div_ceil(LINE.len()), by_layout[1].div_ceil(RINGS.len())];
        let mut variants = Vec::new();
        if has_levels {
            // The levels come after the computed tops.
            let (base, hop, window, top) = (Base::Fixed, 16, 0, tops[0] + tops[1]);
            variants.push(Variant { base, hop, window, top });
        }
        if !has_levels || effort == Effort::Best {
            let mut add = |top: usize, windows: &[u32], count: usize| {
                let all = (0..count).map(|i| (top + i / windows.len(), windows[i % windows.len()]));
                let hop = 4;
                variants.extend(all.map(|(top, window)| Variant { base, hop, window, top }));
            };
            add(0, &LINE, by_layout[0]);
            add(tops[0], &RINGS, by_layout[1]);
        }
        let finalists = match effort {
            // The best before is not always the best after.
            Effort::Fast => vec![if count > 4 { 2 } else { 1 }],
            Effort::Best => vec![count.div_ceil(5).max(2), count.div_ceil(10), 1],
        };
        Self {
            variants,
            tops,
            finalists,
            first,
        }
    }
}

/// Returns the position of each switch from top to bottom, if the fabric has levels: a tree, whole or damaged.
fn levels(input: &Input<'_>, par: Par) -> Option<Vec<u32>> {
    let mut notes = Vec::new();
    let ranking = Ranking::new(input.fabric, input.graph, &[], par, &mut notes);
    let centre = |note: &Note| matches!(note, Note::Roots { source: RootSource::Centre, roots } if roots.len() == 1);
    if notes.iter().any(centre) {
        return None;
    }
    Some(updn::Order::new(input.graph, &ranking, true).position)
}

/// Makes all variants, improves the best of them and completes the best result.
fn make<'a>(work: &'a Work<'a>, plan: &Plan, par: Par) -> Loom<'a> {
    let mut looms: Vec<(Score, usize, Loom<'a>)> = par.map(plan.variants.len(), |i| {
        let mut loom = Loom::new(work, plan.variants[i]);
        loom.weave(0..plan.first);
        (loom.score(), i, loom)
    });
    looms.sort_by_key(|&(score, i, _)| (score, i));
    for (&finalists, steepness) in plan.finalists.iter().zip(ROUNDS) {
        looms.truncate(finalists);
        par.for_each_mut(&mut looms, |_, (score, _, loom)| {
            loom.improve(0..plan.first, steepness);
            *score = loom.score();
        });
        looms.sort_by_key(|&(score, i, _)| (score, i));
    }
    let mut loom = looms.swap_remove(0).2;
    finish(work, plan, &mut loom);
    loom
}

/// Makes the remaining trees: first those of further LIDs of hosts, which may move next hops of the first LIDs' trees,
/// then those of switches. A switch with hosts gets the tree of its first host.
fn finish(work: &Work<'_>, plan: &Plan, loom: &mut Loom<'_>) {
    let is_host = |e: usize| work.goals[work.errands[e].goal as usize].egress != 0;
    let rest = plan.first..work.errands.len();
    for e in rest.clone().filter(|&e| is_host(e)) {
        loom.weave(e..e + 1);
    }
    let mut of_host: BTreeMap<(u32, u16), usize> = BTreeMap::new();
    for (e, errand) in work.errands.iter().enumerate().filter(|&(e, _)| is_host(e)) {
        let at = work.goals[errand.goal as usize].at;
        of_host.entry((at, errand.offset)).or_insert(e);
    }
    for e in rest.filter(|&e| !is_host(e)) {
        let errand = work.errands[e];
        let at = work.goals[errand.goal as usize].at;
        match of_host.get(&(at, errand.offset)) {
            Some(&like) => loom.copy(like, e),
            None => loom.weave(e..e + 1),
        }
    }
}

/// Returns the number of requested lanes that the fabric has.
pub(crate) fn lanes_to_use(fabric: &Fabric, lids: &Lids, wanted: u8, notes: &mut Vec<Note>) -> u8 {
    let wanted = wanted.clamp(1, 15);
    let have = net::lanes_of(fabric, lids);
    if have < wanted {
        notes.push(Note::FewerLanes { wanted, have });
    }
    wanted.min(have)
}

/// Returns the number of host pairs on a channel, weighted by price, if all paths were shortest and all channels
/// equally loaded; at least 1.
fn ideal(net: &Net, goals: &[Goal]) -> u64 {
    /// Number of switches from which distances are sampled.
    const SAMPLES: usize = 64;
    let mut to = vec![0_u64; net.switches];
    goals
        .iter()
        .filter(|g| g.egress != 0)
        .for_each(|g| to[g.at as usize] += 1);
    let ends: Vec<usize> = (0..net.switches).filter(|&s| to[s] > 0).collect();
    let step = ends.len().div_ceil(SAMPLES).max(1);
    let mut queue = Vec::new();
    let mut sum = 0;
    for &s in ends.iter().step_by(step) {
        let hops = net.distances(s, &mut queue);
        let pairs = hops.iter().zip(&net.hosts).filter(|(h, _)| **h != NONE);
        sum += to[s] * pairs.map(|(&h, &n)| u64::from(h) * u64::from(n)).sum::<u64>();
    }
    let price: u64 = net.price.iter().map(|&p| u64::from(p)).sum::<u64>() / (net.channels() as u64).max(1);
    (sum * step as u64 * price / (net.channels() as u64).max(1)).max(1)
}

fn fill(work: &Work<'_>, loom: &Loom<'_>, tables: &mut Tables, par: Par) {
    use selvedge_plan::BLOCK_LIDS;
    let mut of_lid: Vec<u32> = vec![NONE; (tables.blocks()) * BLOCK_LIDS];
    for (e, errand) in (0_u32..).zip(work.errands) {
        of_lid[errand.lid(work.goals).index()] = e;
    }
    let mut tiles = tables.tiles_mut();
    par.for_each_mut(&mut tiles, |block, rows| {
        for (i, &e) in of_lid[block * BLOCK_LIDS..(block + 1) * BLOCK_LIDS].iter().enumerate() {
            if e == NONE {
                continue;
            }
            let goal = work.goals[work.errands[e as usize].goal as usize];
            for (s, row) in rows.iter_mut().enumerate() {
                if s == goal.at as usize {
                    row[i] = goal.egress;
                } else if let Some(c) = loom.next(e as usize, s) {
                    row[i] = work.net.egress[c];
                }
            }
        }
    });
}

/// Returns the end ports that have LIDs, with their switches.
fn goals(destinations: &Destinations) -> Vec<Goal> {
    let mut goals = Vec::new();
    for (at, batch) in destinations.batches() {
        let at = SwitchIdx(u32::try_from(at).unwrap_or(NONE)).0;
        goals.extend(batch.iter().map(|d| Goal {
            lids: d.lids,
            at,
            egress: d.egress,
        }));
    }
    goals
}
