//! What does quality of service do to messages? Two hosts are measured, others load the same links.
//!
//! This is the set-up of Subramoni, Lai and Panda, "Designing QoS Aware MPI for InfiniBand" (OSU technical report),
//! section 5.1, where the paper leaves open how hosts are joined: two switches with one cable between them, as two
//! clusters, one measured host at each, and loading hosts that send messages to loading hosts at the other switch. So
//! what is measured and what loads it share the cable, and the buffers at both its ends.

mod kernel;
mod load;

use selvedge_dataplane::{LongHaul, Network, PS_PER_NS, Ps, Settings, Simulation};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_hca::{Adapters, Costs};
use selvedge_messaging::{Channel, Event, Exchange, Library, Policy, adapter};
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_tolerance::Cluster;
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange};

use crate::error::StudyError;

pub use kernel::{Kernel, Timing};
pub use load::Load;
use load::Loaders;

/// Two clusters, hardware, and what loads the links between them.
#[derive(Clone, Debug)]
pub struct Bed {
    /// The hardware: rate, lanes, arbitration, buffers.
    pub settings: Settings,
    /// Delay of the cable between the clusters in ns, and the blocks of each lane at its ends. `None`: a short cable.
    pub long_haul: Option<(u64, u32)>,
    /// Costs of adapters.
    pub costs: Costs,
    /// Costs and limits of the message passing library.
    pub library: Library,
    /// Measured hosts of each cluster.
    pub measured: u32,
    /// Loading hosts of each cluster, and what they send. `None`: nothing is loaded.
    pub load: Option<(u32, Load)>,
    /// Time that passes before anything is measured.
    pub settle: Ps,
    /// Seed of the load.
    pub seed: Seed,
}

/// A latency: half of the time of a message and its answer of the same length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Mean, in ps.
    pub mean_ps: f64,
    /// 99th percentile, in ps.
    pub p99_ps: f64,
}

/// Time after which a measurement is given up: it has met a state in which nothing moves.
const GIVE_UP: Ps = 10_000_000_000 * PS_PER_NS;

/// Measured hosts with their load, ready to go on.
struct Running {
    exchange: Exchange,
    loaders: Loaders,
}

impl Bed {
    /// Measures messages of this length from a measured host of one cluster to one of the other, and back, so many
    /// times.
    ///
    /// # Errors
    ///
    /// The settings contradict each other, or nothing moves any more.
    pub fn latency(&self, policy: &Policy, bytes: u32, rounds: u32) -> Result<Latency, StudyError> {
        let mut running = self.start()?;
        let channel = running.exchange.join([0, self.host(1, 0)], policy)?;
        running.until(self.settle)?;
        let mut times = Vec::new();
        for _ in 0..rounds.max(1) {
            let begin = running.exchange.now();
            for side in [0, 1] {
                running.exchange.send(channel, side, bytes)?;
                running.until_arrived(channel, 1 - side)?;
            }
            times.push((running.exchange.now() - begin) / 2);
        }
        times.sort_unstable();
        let sum: Ps = times.iter().sum();
        Ok(Latency {
            mean_ps: sum as f64 / times.len() as f64,
            p99_ps: times[(times.len() * 99).div_ceil(100) - 1] as f64,
        })
    }

    /// Returns the number of a measured host of a cluster, 0 or 1.
    const fn host(&self, cluster: usize, number: usize) -> usize {
        cluster * self.hosts() as usize + number
    }

    /// Returns the hosts of each cluster.
    const fn hosts(&self) -> u32 {
        match &self.load {
            Some((loaders, _)) => self.measured + *loaders,
            None => self.measured,
        }
    }

    fn start(&self) -> Result<Running, StudyError> {
        if self.measured == 0 {
            return Err(StudyError::Nothing {
                what: "the number of measured hosts",
            });
        }
        let fabric = clusters(self.hosts())?;
        let mut lids = Lids::new();
        for ((at, _), lid) in fabric.end_ports().zip(1..) {
            lids.insert(at, LidRange::single(Lid(lid)))?;
        }
        let routed = Engine::UpDn.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)?;
        let network = Network {
            fabric: &fabric,
            lids: &lids,
            tables: &routed.tables,
            service_levels: &ServiceLevels::default(),
            sl_to_vl: &SlToVl::modulo(self.settings.vls),
        };
        let mut settings = self.settings.clone();
        settings.long_haul = long_haul(&fabric, self.long_haul);
        let adapters = Adapters::new(adapter(self.costs))?;
        let simulation = Simulation::of_endpoint(&network, &settings, adapters)?;
        let mut exchange = Exchange::new(Cluster::new(simulation), self.library)?;
        let loaders = match &self.load {
            Some((count, load)) => {
                let hosts = [0, 1].map(|cluster| {
                    let first = self.host(cluster, self.measured as usize);
                    (first..first + *count as usize).collect()
                });
                Loaders::start(&mut exchange, load, hosts, self.seed)?
            }
            None => Loaders::default(),
        };
        Ok(Running { exchange, loaders })
    }
}

impl Running {
    /// Runs until something has happened that is none of the load's business.
    fn next_event(&mut self, until: Ps) -> Result<Option<Event>, StudyError> {
        while let Some(event) = self.exchange.next_event(until)? {
            if !self.loaders.take(&mut self.exchange, &event)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn until(&mut self, until: Ps) -> Result<(), StudyError> {
        while self.next_event(until)?.is_some() {}
        Ok(())
    }

    fn until_arrived(&mut self, wanted: Channel, at_side: usize) -> Result<(), StudyError> {
        let until = self.exchange.now() + GIVE_UP;
        while let Some(event) = self.next_event(until)? {
            if matches!(event, Event::Arrived { channel, side, .. } if (channel, side) == (wanted, at_side)) {
                return Ok(());
            }
        }
        Err(StudyError::Stalled {
            what: "a measured message",
        })
    }
}

/// Returns two clusters of so many hosts each.
fn clusters(hosts: u32) -> Result<Fabric, StudyError> {
    match format!("clusters:hosts={hosts},links=1").parse::<Spec>()? {
        Spec::Generated(recipe) => Ok(recipe.fabric()?),
        // The text names a generator.
        Spec::File(_) => Ok(Fabric::default()),
    }
}

/// Returns the cable between the clusters, if it is long.
fn long_haul(fabric: &Fabric, long: Option<(u64, u32)>) -> Vec<LongHaul> {
    let is_switch = |at: PortRef| fabric.node(at.node).is_switch();
    let between = fabric.links().find(|link| is_switch(link.a) && is_switch(link.b));
    let of = |(delay_ns, per_vl_blocks)| {
        between.map(|cable| LongHaul {
            at: cable.a,
            delay_ns,
            per_vl_blocks,
        })
    };
    long.and_then(of).into_iter().collect()
}

#[cfg(test)]
mod tests;
