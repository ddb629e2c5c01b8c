//! Simulates traffic on a routed fabric, packet by packet.

mod jobs;
mod queue;
mod traffic;

use std::sync::Arc;

use selvedge_api::SimulatedJob;
use selvedge_dataplane::{Change, Hosts, LinkUse, Network, Ps, Results, Settings, Simulation, Timed};
use selvedge_fabric::Fabric;
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_types::Lid;
use selvedge_workload::Traffic as Workload;

use crate::error::StudyError;
use crate::meter::Meter;
use crate::parts::Parts;
use crate::watch::{Reporter, Stage, Watch};

pub use self::jobs::{Job, JobTraffic};
pub use self::queue::EventCost;
pub use self::traffic::{Pace, Traffic};

/// What would this traffic do on this fabric?
#[derive(Clone, Debug)]
pub struct Question {
    /// The fabric, without the links that are lost.
    pub fabric: Arc<Fabric>,
    /// LIDs of the fabric.
    pub lids: Arc<Lids>,
    /// The engine that makes the tables.
    pub engine: Engine,
    /// Options of the routing.
    pub options: Options,
    /// Service levels of destinations; `None`: those of the engine.
    pub service_levels: Option<ServiceLevels>,
    /// Lane maps; `None`: service levels modulo the lanes of the settings.
    pub sl_to_vl: Option<SlToVl>,
    /// The hardware, and the time that is simulated.
    pub settings: Settings,
    /// The traffic of hosts.
    pub traffic: Traffic,
    /// How fast the hosts send.
    pub pace: Pace,
    /// Changes of the fabric during the simulation.
    pub changes: Vec<Planned>,
    /// Seed of all random choices.
    pub seed: Seed,
    /// True to measure also the cost of an event, here and in the bare queue.
    pub bare_queue: bool,
}

/// A change of the fabric while packets move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// A single change, at its time.
    One(Timed),
    /// A cable that is cut and mended, again and again.
    Flaps {
        /// One end of the cable.
        port: selvedge_fabric::PortRef,
        /// When the link is first cut.
        first: Ps,
        /// How long the link stays down.
        down: Ps,
        /// How long the link stays up before it is cut again.
        up: Ps,
        /// How often the link is cut.
        times: u64,
    },
    /// All LFT blocks that differ from the tables in force are set at once.
    Tables {
        /// The time.
        at: Ps,
        /// The new tables.
        tables: Arc<Tables>,
    },
}

/// The outcome of the traffic.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The engine that made the tables.
    pub engine: String,
    /// The parts of the fabric: packets between them are dropped.
    pub parts: Parts,
    /// Name of the traffic.
    pub traffic: String,
    /// Name of the way in which the times of messages are chosen.
    pub arrivals: String,
    /// Payload bytes of a message; 0 where the traffic itself states it.
    pub message_bytes: u32,
    /// The cost of an event; empty unless the question asks for it.
    pub cost: EventCost,
    /// Each job of a traffic of several, with its hosts and its end.
    pub jobs: Vec<SimulatedJob>,
    /// Use, waits and counters of every port.
    pub links: Vec<LinkUse>,
    /// Everything else.
    pub results: Results,
}

/// Number of pieces of a simulation, of equal simulated time. Between them progress is reported, and the study can be
/// cancelled.
const STEPS: u64 = 500;

impl Question {
    /// Routes, and simulates to the end of the measured time. A unit of work is a simulated nanosecond.
    ///
    /// # Errors
    ///
    /// The study is cancelled, the engine refuses the fabric, or hosts cannot carry the traffic out.
    pub fn answer(&self, meter: &dyn Meter, watch: &dyn Watch) -> Result<Answer, StudyError> {
        let end_ns = self.settings.warmup_ns + self.settings.duration_ns;
        let reporter = Reporter::new(watch, Stage::Routing(self.engine), end_ns);
        reporter.begin(Stage::Routing(self.engine))?;
        // On one thread: processor time is compared with simulators that have one.
        let mut routed = self
            .engine
            .route(&self.fabric, &self.lids, &self.options, Seed(0), Par::Sequential)?;
        if let Some(levels) = &self.service_levels {
            routed.service_levels = levels.clone();
        }
        let modulo = SlToVl::modulo(self.settings.vls);
        let network = Network {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &routed.tables,
            service_levels: &routed.service_levels,
            sl_to_vl: self.sl_to_vl.as_ref().unwrap_or(&modulo),
        };
        let changes: Vec<Timed> = self.changes.iter().flat_map(|one| one.timed(&routed.tables)).collect();
        let named = self.traffic.on(&network, &self.settings, self.pace, self.seed)?;
        let start = || {
            let workload = named.workload.clone();
            Simulation::new(&network, &self.settings, workload, changes.clone(), self.seed)
        };
        let mut simulation = start()?;
        let began = meter.thread_cpu_ns();
        run(&mut simulation, end_ns, &reporter)?;
        let mut cost = EventCost::default();
        if self.bare_queue {
            cost.here = queue::per_event(meter, began, simulation.events());
            cost.queue = queue::bare_queue(start()?, self.settings.end(), meter, &reporter)?;
        }
        let jobs = self.traffic.done(simulation.workload());
        let links = simulation.link_use();
        Ok(Answer {
            engine: routed.engine.0,
            parts: Parts::of(&routed.notes),
            traffic: named.traffic,
            arrivals: named.arrivals,
            message_bytes: named.message_bytes,
            cost,
            jobs,
            links,
            results: simulation.finish(),
        })
    }
}

/// Runs to the end, or until nothing is left to happen.
fn run(simulation: &mut Simulation<Hosts<Workload>>, end_ns: u64, reporter: &Reporter<'_>) -> Result<(), StudyError> {
    reporter.begin(Stage::Simulating)?;
    for step in 1..=STEPS {
        reporter.check()?;
        let ns = (u128::from(end_ns) * u128::from(step) / u128::from(STEPS)) as u64;
        simulation.run_until(ns * 1_000);
        reporter.reach(ns);
        if simulation.is_over() {
            break;
        }
    }
    Ok(())
}

impl Planned {
    /// Returns the time of the first change.
    pub(crate) const fn at(&self) -> Ps {
        match self {
            Self::One(timed) => timed.at,
            Self::Flaps { first, .. } => *first,
            Self::Tables { at, .. } => *at,
        }
    }

    /// Returns the individual changes, in order of time.
    pub(crate) fn timed(&self, tables: &Tables) -> Vec<Timed> {
        match self {
            Self::One(change) => vec![change.clone()],
            &Self::Flaps {
                port,
                first,
                down,
                up,
                times,
            } => {
                let flap = |round: u64| {
                    let cut = first + round * (down + up);
                    [(cut, Change::Cut(port)), (cut + down, Change::Mend(port))]
                };
                let flaps = (0..times).flat_map(flap);
                flaps.map(|(at, change)| Timed { at, change }).collect()
            }
            Self::Tables { at, tables: new } => differing(*at, tables, new),
        }
    }
}

/// Returns the changes that write, at this time, the blocks in which two sets of tables differ.
fn differing(at: Ps, old: &Tables, new: &Tables) -> Vec<Timed> {
    let mut changes = Vec::new();
    for switch in new.switch_indices() {
        for block in 0..=usize::from(new.top().0) / BLOCK_LIDS {
            let lids =
                (block * BLOCK_LIDS) as u16..=(block * BLOCK_LIDS + BLOCK_LIDS - 1).min(usize::from(u16::MAX)) as u16;
            if lids
                .clone()
                .any(|lid| old.get(switch, Lid(lid)) != new.get(switch, Lid(lid)))
            {
                let mut entries = Box::new([NO_PATH; BLOCK_LIDS]);
                for (entry, lid) in entries.iter_mut().zip(lids) {
                    *entry = new.get(switch, Lid(lid));
                }
                let block = block as u16;
                let change = Change::Block { switch, block, entries };
                changes.push(Timed { at, change });
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::NoMeter;
    use crate::testing::{fabric, lids};
    use crate::watch::NoWatch;
    use crate::watch::tests::Recorded;
    use selvedge_fabric::{PortRef, SwitchIdx};
    use selvedge_types::PortNum;
    use selvedge_workload::Arrivals;

    fn question(spec: &str, engine: Engine, traffic: Traffic) -> Question {
        let fabric = fabric(spec);
        Question {
            lids: Arc::new(lids(&fabric)),
            fabric: Arc::new(fabric),
            engine,
            options: Options::default(),
            service_levels: None,
            sl_to_vl: None,
            settings: Settings {
                warmup_ns: 2_000,
                duration_ns: 20_000,
                ..Settings::default()
            },
            traffic,
            pace: Pace {
                arrivals: Arrivals::Bernoulli,
                load: 0.5,
                bytes: 2_048,
            },
            changes: Vec::new(),
            seed: Seed(1),
            bare_queue: false,
        }
    }

    fn uniform() -> Traffic {
        Traffic::Pattern("uniform".parse().unwrap())
    }

    #[test]
    fn one_seed_gives_one_answer() {
        let delivered = |seed: u64| {
            let watch = Recorded::default();
            let asked = Question {
                seed: Seed(seed),
                ..question("karytree:k=3,n=2", Engine::FatTree, uniform())
            };
            let answer = asked.answer(&NoMeter, &watch).unwrap();
            let last = watch.reports().pop().unwrap();
            assert_eq!((last.done, last.total, last.stage), (22_000, 22_000, Stage::Simulating));
            assert_eq!(
                (answer.engine.as_str(), answer.traffic.as_str()),
                ("fat-tree", "uniform")
            );
            format!("{:?}", answer.results)
        };
        assert_eq!(delivered(1), delivered(1));
        assert_ne!(delivered(1), delivered(2));
    }

    #[test]
    fn a_program_ends_the_simulation_when_it_is_done() {
        let watch = Recorded::default();
        let traffic = Traffic::Collective("exchange:bytes=2048".parse().unwrap());
        let mut asked = question("karytree:k=2,n=2", Engine::UpDn, traffic);
        asked.settings.warmup_ns = 0;
        asked.settings.duration_ns = 1_000_000_000;
        let answer = asked.answer(&NoMeter, &watch).unwrap();
        assert!(answer.results.completed_ns.is_some_and(|ns| ns < 1_000_000));
        assert!(watch.reports().last().unwrap().done < 1_000_000_000);
        assert_eq!((answer.arrivals.as_str(), answer.message_bytes), ("program", 0));
    }

    #[test]
    fn a_cancelled_simulation_has_no_answer() {
        for units in [0, 10_000] {
            let watch = Recorded::cancelling_at(units);
            let asked = question("karytree:k=3,n=2", Engine::UpDn, uniform());
            assert_eq!(asked.answer(&NoMeter, &watch).unwrap_err(), StudyError::Cancelled);
            let done = watch.reports().last().map_or(0, |last| last.done);
            assert!(done >= units && done < units + 44, "a step of 44 ns at most: {done}");
        }
    }

    #[test]
    fn traffic_needs_two_hosts() {
        let error = question("single:ports=2,hosts=1", Engine::UpDn, uniform())
            .answer(&NoMeter, &NoWatch)
            .unwrap_err();
        assert!(error.to_string().contains("SLV-DATA-0009"), "{error}");
    }

    #[test]
    fn a_flapping_cable_is_cut_and_mended_in_turn() {
        let port = PortRef {
            node: selvedge_fabric::NodeIdx(0),
            port: PortNum::new(1).unwrap(),
        };
        let flaps = Planned::Flaps {
            port,
            first: 10,
            down: 2,
            up: 3,
            times: 2,
        };
        let timed = flaps.timed(&Tables::new(1, Lid(1)));
        let times: Vec<Ps> = timed.iter().map(|timed| timed.at).collect();
        assert_eq!(times, [10, 12, 15, 17]);
        let is_cut = |timed: &Timed| timed.change == Change::Cut(port);
        assert_eq!(timed.iter().map(is_cut).collect::<Vec<_>>(), [true, false, true, false]);
    }

    #[test]
    fn blocks_that_differ_are_set() {
        let mut old = Tables::new(3, Lid(200));
        old.set(SwitchIdx(1), Lid(3), 7);
        let mut new = old.clone();
        assert_eq!(differing(5, &old, &new), []);
        new.set(SwitchIdx(1), Lid(150), 9);
        let found = differing(5, &old, &new);
        let [
            Timed {
                at: 5,
                change: Change::Block { switch, block, entries },
            },
        ] = &found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!((*switch, *block, entries[150 % BLOCK_LIDS]), (SwitchIdx(1), 2, 9));
        assert_eq!(entries[0], NO_PATH);
    }
}
