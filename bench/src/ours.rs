//! Our own bring-up: the manager's core in a loop around a port, on one thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_plan::Policy;
use selvedge_sim::{Par, Time};
use selvedge_sm::{Config, DefaultJudge, Event, Input, Mode, Output, PersistentState, Sm};
use selvedge_transport::ibsim::IbsimPort;
use selvedge_wire::{Arrival, Datagram, MadPort, PortError};

use crate::case::Case;
use crate::error::BenchError;

/// What one run found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// First MAD to the last answer, in seconds.
    pub bringup_s: f64,
    /// Opening the port to the manager's end, in seconds.
    pub process_s: f64,
    /// Gets sent, repeats included.
    pub gets: u64,
    /// Sets sent, repeats included.
    pub sets: u64,
    /// Repeats among both.
    pub repeats: u64,
}

impl Run {
    /// MADs sent.
    #[must_use]
    pub const fn mads(&self) -> u64 {
        self.gets + self.sets
    }
}

/// Brings the fabric behind the simulator named `base` up.
pub fn run(case: &Case, base: &str) -> Result<Run, BenchError> {
    let start = Instant::now();
    let mut port = IbsimPort::open(base, case.host_name())?;
    let driver = Driver::new(&mut port);
    let mut run = driver.drive().map_err(|cause| BenchError::NotUp {
        manager: "selvedge".to_owned(),
        fabric: case.spec.clone(),
        cause,
    })?;
    drop(port);
    run.process_s = start.elapsed().as_secs_f64();
    Ok(run)
}

/// Longest wait for an answer before the core is asked what is due.
const WAIT: Duration = Duration::from_millis(20);

struct Driver<'a> {
    port: &'a mut dyn MadPort,
    sm: Sm,
    start: Instant,
    inputs: VecDeque<Input>,
    pending: VecDeque<(Datagram, Duration)>,
    up: Option<Duration>,
    errors: Vec<String>,
}

impl<'a> Driver<'a> {
    fn new(port: &'a mut dyn MadPort) -> Self {
        let mut config = Config::new(Mode::Manage, port.local(), Arc::new(Policy::default()));
        config.sweep_interval = None;
        Self {
            port,
            sm: Sm::new(config, Arc::new(DefaultJudge::default()), PersistentState::default()),
            start: Instant::now(),
            inputs: VecDeque::from([Input::Start]),
            pending: VecDeque::new(),
            up: None,
            errors: Vec::new(),
        }
    }

    fn drive(mut self) -> Result<Run, String> {
        let mut out = Vec::new();
        loop {
            while let Some(input) = self.inputs.pop_front() {
                let now = Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX));
                self.sm.handle(now, input, &mut out);
                out.drain(..)
                    .try_for_each(|output| self.carry_out(output))
                    .map_err(|error| error.to_string())?;
            }
            if self.pending.is_empty() && self.sm.is_resting() {
                return self.done();
            }
            self.turn().map_err(|error| error.to_string())?;
        }
    }

    fn turn(&mut self) -> Result<(), PortError> {
        if let Some((datagram, timeout)) = self.pending.pop_front() {
            self.port.send(&datagram, timeout)?;
        }
        let wait = if self.pending.is_empty() { WAIT } else { Duration::ZERO };
        self.inputs.extend(match self.port.receive(wait)? {
            Some(Arrival::Received(datagram)) => Some(Input::Received(datagram)),
            Some(Arrival::Returned(datagram)) => Some(Input::Returned(datagram)),
            None if self.pending.is_empty() => Some(Input::Wake),
            None => None,
        });
        Ok(())
    }

    fn carry_out(&mut self, output: Output) -> Result<(), PortError> {
        match output {
            Output::Send { datagram, timeout } => self.pending.push_back((datagram, timeout)),
            Output::Compute(job) => {
                let (generation, result) = (job.generation, Box::new(job.run(Par::Rayon)));
                self.inputs.push_back(Input::Computed { generation, result });
            }
            Output::Persist { id, .. } => self.inputs.push_back(Input::Persisted { id }),
            Output::SetIsSm(is_sm) => self.port.set_is_sm(is_sm)?,
            Output::Event(Event::SubnetUp { .. }) => self.up = Some(self.start.elapsed()),
            Output::Event(event) if event.severity() == selvedge_sm::Severity::Error => {
                self.errors.push(event.to_string());
            }
            Output::Event(_) => {}
        }
        Ok(())
    }

    fn done(self) -> Result<Run, String> {
        let view = self.sm.view();
        match self.up.filter(|_| view.is_up()) {
            None => Err(self.errors.join("; ")),
            Some(up) => Ok(Run {
                bringup_s: up.as_secs_f64(),
                process_s: 0.0,
                gets: view.mads.gets,
                sets: view.mads.sets,
                repeats: view.mads.repeats,
            }),
        }
    }
}
