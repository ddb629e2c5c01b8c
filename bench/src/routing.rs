//! Quality of routing: engines of Selvedge and OpenSM on the same fabrics, judged by the same judge.

mod field;
mod levels;
mod own;
mod pairs;
pub mod peer;
mod picture;
pub mod speed;
mod table;
mod targets;

use std::sync::Arc;

use indicatif::ProgressBar;
use selvedge_conformance::{HeavyLock, LabError};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Effort, Engine, Rebalance};
use selvedge_sim::Par;
use selvedge_types::{Guid, Lid, PortNum, Vl};
use selvedge_verify::{Contention, ContentionOptions, Figures, JudgeOptions, Kind, Subject, contention, verify};

use crate::case::Case;
use crate::error::BenchError;
pub use field::{Contestant, Family, Maker, QUICK, Told, contestants, default_fabrics, roots, seeded};
use peer::{Answer, Levels};
pub use picture::svg;
pub use table::{csv, summary};

/// Number of lanes of the largest lane table: every SL has its own lane.
const LANES: u8 = 8;

/// One engine on one fabric.
#[derive(Clone, Debug)]
pub struct Row {
    /// The fabric, as `--fabric` takes it.
    pub spec: String,
    /// The family of the fabric.
    pub family: Family,
    /// Number of switches of the fabric.
    pub switches: usize,
    /// Number of hosts of the fabric.
    pub hosts: usize,
    /// The engine and its options.
    pub contestant: Contestant,
    /// The result.
    pub outcome: Outcome,
}

/// The result of routing.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The figures of the tables, which the judge accepted or not.
    Routed(Quality),
    /// The engine made no tables. `why` is the message of OpenSM's log or of Selvedge's engine.
    Declined {
        /// For OpenSM: the engine that it used instead; `None`: no other engine.
        instead: Option<String>,
        /// The reason.
        why: String,
    },
}

/// The judge's figures for tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Host pairs on the busiest directed link between switches.
    pub max_load: u64,
    /// Mean load over all directed links between switches.
    pub mean_load: f64,
    /// Standard deviation of the load.
    pub sd_load: f64,
    /// Mean links between switches on a path.
    pub mean_hops: f64,
    /// Effective bisection bandwidth: mean share of a link that a flow of a random pairing gets.
    pub ebb: f64,
    /// Half of its 95 % confidence interval.
    pub ebb_half: f64,
    /// Most flows on a link while host i sends to host i + k, over all k.
    pub shift_max: u64,
    /// Mean of this number over all k.
    pub shift_mean: f64,
    /// Destinations that nue could only route over its escape tree, by its log.
    pub escapes: Option<usize>,
    /// Ordered pairs of hosts with packets that do not arrive.
    pub unreachable: u64,
    /// Lanes that carry traffic of hosts, as far as known.
    pub lanes_used: Option<u8>,
    /// True if traffic from host to host cannot deadlock; `None`: unknown.
    pub hosts_free: Option<bool>,
    /// True if this traffic, together with traffic from and to the agents of switches, cannot deadlock; `None`:
    /// unknown.
    pub agents_free: Option<bool>,
    /// Time to compute the tables: for Selvedge on one thread, for OpenSM by its log.
    pub compute_ms: Option<f64>,
}

/// Measures all contestants on the fabric that `spec` generates; if `only` is not empty, those with a name that
/// contains one of its texts.
pub fn measure(spec: &str, quick: bool, only: &[String], bar: &ProgressBar) -> Result<Vec<Row>, BenchError> {
    let (family, intact) = field::family(spec)?;
    let case = Case::new(spec)?;
    let roots = roots(&intact);
    let intact = Arc::new(intact);
    let mut rows = Vec::new();
    let all = contestants(&family, case.fabric.switches().len(), quick);
    let is_wanted = |who: &Contestant| only.is_empty() || only.iter().any(|text| who.to_string().contains(text));
    for contestant in all.into_iter().filter(is_wanted) {
        bar.set_message(format!("{spec}: {contestant}"));
        let roots = if contestant.told == Told::Roots {
            roots.clone()
        } else {
            Vec::new()
        };
        let _quiet = HeavyLock::acquire()?;
        let outcome = match contestant.maker {
            Maker::Selvedge => ours(&case, &contestant, roots, &intact),
            Maker::OpenSm => match theirs(&case, &contestant, roots) {
                // A peer that is not there, or no room on the disk, spoils every row; an engine that crashes or never
                // ends only its own.
                Err(error @ BenchError::Lab(LabError::MissingPeer { .. } | LabError::Io { .. })) => return Err(error),
                Err(error) => Outcome::Declined {
                    instead: None,
                    why: error.to_string(),
                },
                Ok(outcome) => outcome,
            },
        };
        rows.push(Row {
            spec: spec.to_owned(),
            family: family.clone(),
            switches: case.fabric.switches().len(),
            hosts: case.fabric.host_count(),
            contestant,
            outcome,
        });
    }
    Ok(rows)
}

fn ours(case: &Case, contestant: &Contestant, roots: Vec<Guid>, intact: &Arc<Fabric>) -> Outcome {
    let declined = |why| Outcome::Declined { instead: None, why };
    let engine = match contestant.engine.parse::<Engine>() {
        Ok(engine) => engine,
        Err(error) => return declined(error.to_string()),
    };
    let lids = own::number(&case.fabric);
    let plain = own::Request {
        roots,
        lanes: contestant.lanes,
        effort: Effort::Best,
        nominal: Some(Arc::clone(intact)),
        ..own::Request::plain(engine)
    };
    // The tables in switches before links were lost, so that as few entries as possible move.
    let before =
        (engine == Engine::FatTree && contestant.told == Told::Nothing).then(|| own::run(intact, &lids, &plain));
    let previous = before.and_then(Result::ok).map(|(routed, _)| Arc::new(routed.tables));
    let request = own::Request {
        previous,
        rebalance: if contestant.told == Told::Rebalance {
            Rebalance::Full
        } else {
            Rebalance::Minimal
        },
        ..plain
    };
    let (routed, ms) = match own::run(&case.fabric, &lids, &request) {
        Ok(done) => done,
        Err(why) => return declined(why),
    };
    let levels = (&routed.service_levels, &SlToVl::modulo(routed.lanes));
    let judged = Judged::of(&case.fabric, &lids, &routed.tables, levels);
    Outcome::Routed(judged.quality(Some(ms)))
}

fn theirs(case: &Case, contestant: &Contestant, roots: Vec<Guid>) -> Result<Outcome, BenchError> {
    let request = peer::Request {
        engine: contestant.engine,
        roots,
        lanes: contestant.lanes,
    };
    let routes = match peer::run(case, &request)? {
        Answer::Routed(routes) => routes,
        Answer::FellBack { to, why } => {
            let instead = Some(to);
            return Ok(Outcome::Declined { instead, why });
        }
    };
    let (fabric, lids, tables) = (&case.fabric, &routes.lids, &routes.tables);
    let one = ServiceLevels::default();
    let by_destination = match &routes.levels {
        Levels::PerDestination(levels) => levels,
        Levels::PerPair(_) | Levels::Unknown => &one,
    };
    let judged = Judged::of(fabric, lids, tables, (by_destination, &SlToVl::modulo(LANES)));
    let mut quality = judged.quality(routes.compute_ms);
    quality.escapes = routes.escapes;
    match &routes.levels {
        Levels::PerDestination(_) => {}
        Levels::PerPair(paths) => {
            let mut used: Vec<u8> = paths.iter().map(|(_, _, sl)| sl.get()).collect();
            used.sort_unstable();
            used.dedup();
            quality.lanes_used = u8::try_from(used.len()).ok();
            quality.hosts_free = Some(pairs::is_deadlock_free(fabric, lids, tables, paths));
            quality.agents_free = None;
        }
        Levels::Unknown => (quality.lanes_used, quality.hosts_free, quality.agents_free) = (None, None, None),
    }
    Ok(Outcome::Routed(quality))
}

/// Returns the tables without entries for LIDs to which no packet is sent.
fn tables_of(lids: &Lids, tables: &Tables) -> Tables {
    let mut of_these = tables.clone();
    for lid in (1..=tables.top().0).map(Lid).filter(|&lid| lids.owner(lid).is_none()) {
        tables
            .switch_indices()
            .for_each(|switch| of_these.set(switch, lid, NO_PATH));
    }
    of_these
}

/// Returns the LIDs of hosts alone.
fn of_hosts(fabric: &Fabric, lids: &Lids) -> Lids {
    let mut hosts = lids.clone();
    let switches = fabric.switches().iter();
    switches.for_each(|&node| {
        let port = PortNum::MANAGEMENT;
        hosts.remove(PortRef { node, port });
    });
    hosts
}

/// Returns the number of pairings for the bisection bandwidth: many for a small fabric, which has few flows, because
/// trees differ by only a thousandth.
fn pairings(hosts: usize) -> u32 {
    u32::try_from(3_240_000 / hosts.max(1)).map_or(1_000, |pairings| pairings.clamp(1_000, 10_000))
}

/// The judge's figures, and whether dependencies form cycles.
struct Judged {
    figures: Figures,
    contention: Contention,
    /// True if traffic from host to host has no cycle.
    hosts_free: bool,
    /// True if this traffic, together with traffic between hosts and the agents of switches, has no cycle.
    agents_free: bool,
}

impl Judged {
    fn of(fabric: &Fabric, lids: &Lids, tables: &Tables, (levels, lanes): (&ServiceLevels, &SlToVl)) -> Self {
        let options = JudgeOptions {
            par: Par::Rayon,
            findings_max: 1,
            ..JudgeOptions::default()
        };
        let judge =
            |lids: &Lids, tables: &Tables| verify(Subject::tables(fabric, lids, tables, levels, lanes), &options);
        let verdict = judge(lids, tables);
        let hosts_circle = || {
            let of_hosts = of_hosts(fabric, lids);
            judge(&of_hosts, &tables_of(&of_hosts, tables)).count_of(Kind::HostCycle) > 0
        };
        let hosts = fabric.end_ports().count().saturating_sub(fabric.switches().len());
        let sharing = ContentionOptions {
            par: Par::Rayon,
            pairings: pairings(hosts),
            ..ContentionOptions::default()
        };
        let agents_free = [Kind::HostCycle, Kind::AgentCycle]
            .iter()
            .all(|&kind| verdict.count_of(kind) == 0);
        Self {
            // What hosts send to agents counts as traffic of hosts: without LIDs of switches there is none.
            hosts_free: agents_free || !hosts_circle(),
            agents_free,
            figures: verdict.figures,
            contention: contention(Subject::tables(fabric, lids, tables, levels, lanes), &sharing),
        }
    }

    fn quality(&self, compute_ms: Option<f64>) -> Quality {
        let (figures, bisection, shift) = (&self.figures, &self.contention.bisection, &self.contention.shift);
        let carries = |lane: &&selvedge_verify::LaneFigures| lane.load.max > 0 && lane.vl < Vl::MANAGEMENT.get();
        Quality {
            max_load: figures.load.max,
            mean_load: figures.load.mean,
            sd_load: figures.load.sd,
            mean_hops: figures.hops_mean,
            ebb: bisection.mean,
            ebb_half: (bisection.high - bisection.low) / 2.0,
            shift_max: shift.max,
            shift_mean: shift.mean,
            escapes: None,
            unreachable: figures.host_pairs - figures.host_pairs_reached,
            lanes_used: u8::try_from(figures.lanes.iter().filter(carries).count()).ok(),
            hosts_free: Some(self.hosts_free),
            agents_free: Some(self.agents_free),
            compute_ms,
        }
    }
}
