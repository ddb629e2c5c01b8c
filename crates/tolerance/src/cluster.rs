//! Hosts with an adapter each on a simulated subnet: what programs, modules and carriers run on.

use std::collections::BTreeMap;

use selvedge_dataplane::{Change, Simulation};
use selvedge_hca::{Adapters, Context, Hca, HcaIndex, Notice, Ps, VerbsError};

/// What runs on the hosts.
pub trait Program {
    /// Does what can be done now.
    fn run(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError>;
    /// Returns when [`Program::run`] is due, besides when a program can see something new.
    fn next_wake(&self) -> Option<Ps>;
    /// True ends [`Cluster::drive`].
    fn is_over(&self) -> bool;
}

/// Hosts, numbered as their adapters are, and the subnet between them.
#[derive(Debug)]
pub struct Cluster {
    simulation: Simulation<Adapters>,
    /// Times of asynchronous events that were announced and not taken, by host and context.
    announced: BTreeMap<(usize, Context), Vec<Ps>>,
}

impl Cluster {
    /// Takes a simulation of adapters that announce what programs can see ([`selvedge_hca::HcaConfig::notices`]).
    #[must_use]
    pub const fn new(simulation: Simulation<Adapters>) -> Self {
        Self {
            simulation,
            announced: BTreeMap::new(),
        }
    }

    /// Returns the simulation.
    #[must_use]
    pub const fn simulation(&self) -> &Simulation<Adapters> {
        &self.simulation
    }

    /// Returns the present time.
    #[must_use]
    pub fn now(&self) -> Ps {
        self.simulation.now()
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.simulation.endpoint().len()
    }

    /// True if there is no host.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the adapter of a host.
    pub fn hca(&self, host: usize) -> Result<&Hca, VerbsError> {
        let hca = self.simulation.endpoint().hca(host as HcaIndex);
        hca.ok_or(VerbsError::UnknownHandle { what: "adapter" })
    }

    /// Calls verbs of a host's adapter now. What they have posted is sent from now on.
    pub fn act<R>(
        &mut self,
        host: usize,
        verbs: impl FnOnce(&mut Hca, Ps) -> Result<R, VerbsError>,
    ) -> Result<R, VerbsError> {
        let (adapters, subnet) = self.simulation.parts_mut();
        let result = adapters.act(subnet, host as HcaIndex, verbs);
        result.unwrap_or(Err(VerbsError::UnknownHandle { what: "adapter" }))
    }

    /// Changes the subnet now.
    pub fn apply(&mut self, change: Change) {
        self.simulation.apply(change);
    }

    /// Runs until a program can see something new, or until a time. True in the first case: [`Cluster::take_notice`]
    /// then has it.
    pub fn run_to_notice(&mut self, until: Ps) -> bool {
        Adapters::run_to_notice(&mut self.simulation, until).is_some()
    }

    /// Removes and returns the next thing that programs can see now, with its host.
    pub fn take_notice(&mut self) -> Option<(usize, Notice)> {
        let (adapters, subnet) = self.simulation.parts_mut();
        let (hca, notice) = adapters.take_notice(subnet.now())?;
        Some((hca as usize, notice))
    }

    /// Keeps what programs can see now for [`Cluster::take_announced`].
    pub fn gather(&mut self) {
        while let Some((host, notice)) = self.take_notice() {
            if let Notice::Async(at, context) = notice {
                self.announced.entry((host, context)).or_default().push(at);
            }
        }
    }

    /// Removes and returns the times at which asynchronous events of a context became visible, as far as they were
    /// gathered.
    pub fn take_announced(&mut self, host: usize, context: Context) -> Vec<Ps> {
        self.announced.remove(&(host, context)).unwrap_or_default()
    }

    /// Returns the number of packets that were lost in the subnet.
    #[must_use]
    pub const fn lost_packets(&self) -> u64 {
        self.simulation.endpoint().lost_packets()
    }

    /// Runs until the program is over, or the time has come.
    pub fn drive(&mut self, program: &mut impl Program, until: Ps) -> Result<(), VerbsError> {
        loop {
            self.gather();
            program.run(self)?;
            if program.is_over() {
                return Ok(());
            }
            let wake = program.next_wake().filter(|at| *at <= until);
            if !self.run_to_notice(wake.unwrap_or(until)) && wake.is_none() {
                return Ok(());
            }
        }
    }
}
