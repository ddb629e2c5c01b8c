//! Do classes of traffic get what they were promised while one job storms?
//!
//! Jobs of three classes arrive and end on a fabric. In the middle a job of the class `bulk` sends as fast as it can to
//! one host, to which a job of the class `mpi` sends more than its share at the same time. So both classes always have
//! packets for that host's link, and what each brings over it is its share. All other jobs are victims.

mod jobs;

use std::sync::Arc;

use selvedge_dataplane::{Hosts, Network, PS_PER_NS, Ps, Settings, Simulation, VlArb};
use selvedge_fabric::Fabric;
use selvedge_plan::qos::{Class, Hardware, Intent, Latency};
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_qos::intent::{Lanes, compile, tables_on};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_types::Sl;

use self::jobs::Jobs;
use crate::error::StudyError;

/// The classes, in the order of levels.
pub const CLASSES: [&str; 3] = ["latency", "mpi", "bulk"];
/// Shares promised to the normal classes, in percent of what low latency leaves.
const PROMISED: [Option<u8>; 3] = [None, Some(60), Some(40)];
/// When the storm begins, and for how long it lasts.
const STORM: [Ps; 2] = [400_000 * PS_PER_NS, 300_000 * PS_PER_NS];
/// From its begin until shares are counted: the queues have to fill first.
const FILLING: Ps = 50_000 * PS_PER_NS;
/// End of the simulation. Messages that have not arrived by then count with this time.
const END: Ps = 12_000_000 * PS_PER_NS;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Question {
    /// The fabric, of at least 100 hosts.
    pub fabric: Arc<Fabric>,
    /// LIDs of the fabric.
    pub lids: Arc<Lids>,
    /// The engine that makes the tables.
    pub engine: Engine,
    /// Jobs beside the storm and the one that sends to the same host.
    pub jobs: u32,
    /// Seed of hosts and times of jobs.
    pub seed: Seed,
}

/// What a class got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Messages of victims that were posted while the storm lasted.
    pub messages: usize,
    /// Median of their latencies, in ps.
    pub p50: Ps,
    /// 99th percentile, in ps.
    pub p99: Ps,
    /// Messages that had not arrived at the end.
    pub late: usize,
}

/// What classes got, in the order of [`CLASSES`].
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Percent promised to each class.
    pub promised: [Option<u8>; 3],
    /// What each class took of the link to the storm's receiver, with the tables of the intent: percent of what low
    /// latency leaves; for low latency, percent of all.
    pub shares: [f64; 3],
    /// With the tables of the intent.
    pub with: [Outcome; 3],
    /// With all traffic on one lane.
    pub without: [Outcome; 3],
}

impl Question {
    /// Simulates the same jobs with and without quality of service.
    ///
    /// # Errors
    ///
    /// The engine refuses the fabric, or there are too few hosts.
    pub fn answer(&self) -> Result<Answer, StudyError> {
        let (with, shares) = self.run(true)?;
        let (without, _) = self.run(false)?;
        Ok(Answer {
            promised: PROMISED,
            shares,
            with,
            without,
        })
    }

    /// Returns what became of victims, and what each class took of the storm's link.
    fn run(&self, has_classes: bool) -> Result<([Outcome; 3], [f64; 3]), StudyError> {
        let options = Options::default();
        let routed = self
            .engine
            .route(&self.fabric, &self.lids, &options, Seed(0), Par::Sequential)?;
        let (settings, sl_to_vl, levels) = tables(has_classes)?;
        let network = Network {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &routed.tables,
            service_levels: &ServiceLevels::default(),
            sl_to_vl: &sl_to_vl,
        };
        let byte_ps = settings
            .link
            .unwrap_or_else(|| network.host_link())
            .byte_time()
            .of(1_000) as f64
            / 1_000.0;
        let jobs = Jobs::new(self, network.host_count(), byte_ps, levels)?;
        let mut simulation: Simulation<Hosts<Jobs>> =
            Simulation::new(&network, &settings, jobs, Vec::new(), self.seed)?;
        simulation.run_until(STORM[0] + STORM[1]);
        let sink = simulation.subnet().end_ports()[simulation.workload().sink() as usize].at;
        let egress = self.fabric.peer(sink).map(|peer| self.fabric.port_name(peer));
        let links = simulation.link_use();
        let lanes = links.iter().find(|link| Some(&link.port) == egress.as_ref());
        let lane = |sl: Sl| usize::from(sl_to_vl.default[usize::from(sl.get())].get());
        let of = |sl: Sl| lanes.and_then(|link| link.lanes.get(lane(sl)).copied());
        let [low, mpi, bulk] = levels.map(|sl| of(sl).unwrap_or(0.0));
        let percent = |part: f64, all: f64| 100.0 * part / all;
        let normal = mpi + bulk;
        let shares = [percent(low, low + normal), percent(mpi, normal), percent(bulk, normal)];
        simulation.run_until(END);
        Ok((simulation.workload().outcomes(), shares))
    }
}

/// Returns settings, lane map, and the service level of each class.
fn tables(has_classes: bool) -> Result<(Settings, SlToVl, [Sl; 3]), StudyError> {
    let hardware = Hardware {
        lanes: 8,
        vl_arb_high: 8,
        vl_arb_low: 8,
        mtu: Settings::default().mtu,
    };
    let class = |(name, share): (&str, Option<u8>)| Class {
        name: name.to_owned(),
        share,
        latency: if share.is_none() { Latency::Low } else { Latency::Normal },
        ..Class::default()
    };
    let intent = Intent {
        classes: CLASSES.into_iter().zip(PROMISED).map(class).collect(),
        default: CLASSES[1].to_owned(),
        ..Intent::default()
    };
    let compiled = compile(&intent, &hardware, 1)?;
    let lanes = Lanes {
        lanes: hardware.lanes,
        vl_arb_high: hardware.vl_arb_high,
        vl_arb_low: hardware.vl_arb_low,
    };
    let link = tables_on(&compiled, &lanes);
    let entries = |table: &[(selvedge_types::Vl, u8)]| table.iter().map(|(vl, weight)| (vl.get(), *weight)).collect();
    let mut settings = Settings {
        vls: link.used,
        // Nothing that is posted is missed, however long it waits.
        source_queue: 1_000_000,
        hoq_life: 20,
        switch_life: 20,
        // What links carry is counted from the time on at which the storm has filled the queues.
        warmup_ns: (STORM[0] + FILLING) / PS_PER_NS,
        duration_ns: (END - STORM[0] - FILLING) / PS_PER_NS,
        ..Settings::default()
    };
    let mut sl_to_vl = SlToVl::modulo(link.used);
    let mut levels = [Sl::default(); 3];
    if has_classes {
        settings.vl_arb = VlArb {
            high: entries(&link.high),
            low: entries(&link.low),
            high_limit: link.high_limit,
        };
        sl_to_vl.default = link.row;
        for (level, plan) in levels.iter_mut().zip(&compiled.classes) {
            *level = plan.sls[0];
        }
    }
    Ok((settings, sl_to_vl, levels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fabric, lids};

    #[test]
    fn promises_hold_while_a_job_storms_and_victims_are_faster_than_without() {
        let fabric = fabric("karytree:k=11,n=2");
        let question = Question {
            lids: Arc::new(lids(&fabric)),
            fabric: Arc::new(fabric),
            engine: Engine::FatTree,
            jobs: 9,
            seed: Seed(3),
        };
        let answer = question.answer().unwrap();
        for (found, promised) in answer.shares.iter().zip(answer.promised) {
            let promised = f64::from(promised.unwrap_or(0));
            assert!(*found > promised - 2.0, "{answer:?}");
        }
        for (with, without) in answer.with.iter().zip(&answer.without).take(2) {
            assert!(with.messages > 100 && with.messages == without.messages);
            assert!(with.p99 < without.p99, "{answer:?}");
        }
        assert_eq!(answer, question.answer().unwrap(), "one seed gives one answer");
    }

    #[test]
    fn too_few_hosts_are_refused() {
        let fabric = fabric("karytree:k=3,n=2");
        let question = Question {
            lids: Arc::new(lids(&fabric)),
            fabric: Arc::new(fabric),
            engine: Engine::FatTree,
            jobs: 3,
            seed: Seed(1),
        };
        let error = question.answer().unwrap_err().to_string();
        assert!(error.starts_with("SLV-STUDY-0010: 9 hosts"), "{error}");
    }
}
