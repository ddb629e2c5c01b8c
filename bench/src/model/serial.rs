//! Selvedge with a window of 1, as the paper's OpenSM had. So each MAD has its own time, and belongs to one phase.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_emulator::{ClientId, Emulator};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::Policy;
use selvedge_planner::{DefaultJudge, Job};
use selvedge_sim::{Par, Time};
use selvedge_sm::{Config, Input, Milestone, Mode, Output, PersistentState, Sm};
use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::PortNum;
use selvedge_wire::{Arrival, AttributeId, Datagram, DirectedRoute, LocalPort, MadPort};

use crate::error::BenchError;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Times of the phases of a bring-up, in ms, and the MADs of its discovery.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phases {
    /// MADs at agents of channel adapters.
    pub ca_ms: f64,
    /// MADs at agents of switches, except table blocks.
    pub switch_ms: f64,
    /// Planning and judging, in real time.
    pub compute_ms: f64,
    /// Distribution of table blocks.
    pub distribute_ms: f64,
    /// Number of MADs, except table blocks.
    pub mads: u64,
}

impl Phases {
    /// Returns the time of the paper's subnet discovery: of all MADs except table blocks.
    #[must_use]
    pub fn discover_ms(&self) -> f64 {
        self.ca_ms + self.switch_ms
    }

    /// Returns the time of all phases.
    #[must_use]
    pub fn total_ms(&self) -> f64 {
        self.discover_ms() + self.compute_ms + self.distribute_ms
    }
}

/// Something that answers one request at a time.
pub trait Peer {
    /// Returns the port at which the manager runs.
    fn local(&self) -> LocalPort;
    /// Sends a request. Returns the answer and its time in ns; `None`: there is no answer.
    fn ask(&mut self, datagram: &Datagram) -> Result<Option<(Datagram, u64)>, BenchError>;
}

/// The emulator, with its virtual time.
pub struct Virtual {
    emulator: Emulator,
    client: ClientId,
    local: LocalPort,
}

impl Virtual {
    /// Attaches a manager to an end port.
    #[must_use]
    pub fn new(mut emulator: Emulator, seat: PortRef) -> Option<Self> {
        let client = emulator.attach(seat).ok()?;
        let local = emulator.local(client)?;
        Some(Self {
            emulator,
            client,
            local,
        })
    }
}

impl Peer for Virtual {
    fn local(&self) -> LocalPort {
        self.local
    }

    fn ask(&mut self, datagram: &Datagram) -> Result<Option<(Datagram, u64)>, BenchError> {
        let sent = self.emulator.now();
        self.emulator.send(sent, self.client, datagram);
        let mut received = Vec::new();
        let at = self.emulator.advance_to_delivery(sent + PATIENCE, &mut received);
        Ok(received.first().map(|delivery| (delivery.datagram, at.0 - sent.0)))
    }
}

impl Peer for IbsimPort {
    fn local(&self) -> LocalPort {
        MadPort::local(self)
    }

    fn ask(&mut self, datagram: &Datagram) -> Result<Option<(Datagram, u64)>, BenchError> {
        let start = Instant::now();
        self.send(datagram, PATIENCE)?;
        let answer = self.receive(PATIENCE)?;
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(match answer {
            Some(Arrival::Received(answer)) => Some((answer, took)),
            Some(Arrival::Returned(_)) | None => None,
        })
    }
}

/// Brings `fabric` up through `peer`. `None` if an answer is missing or no plan is accepted.
pub fn bring_up(fabric: &Fabric, seat: PortRef, peer: &mut dyn Peer) -> Result<Option<Phases>, BenchError> {
    let mut config = Config::new(Mode::Manage, peer.local(), Arc::new(Policy::default()));
    config.window = 1;
    let mut sm = Sm::new(config, Arc::new(DefaultJudge::default()), PersistentState::default());
    let (mut phases, mut now) = (Phases::default(), Time::ZERO);
    let mut inputs = vec![Input::Start];
    while let Some(input) = inputs.pop() {
        let mut outputs = Vec::new();
        sm.handle(now, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Send { datagram, .. } => {
                    let Some((answer, took_ns)) = peer.ask(&datagram)? else {
                        return Ok(None);
                    };
                    now = Time(now.0 + took_ns);
                    phases.add(fabric, seat, &datagram, took_ns);
                    inputs.push(Input::Received(answer));
                }
                Output::Compute(job) => {
                    let id = job.id;
                    let start = Instant::now();
                    let result = Box::new(Job::clone(&job).run(Par::Sequential));
                    // Jobs after the plan are preparations for later.
                    if phases.compute_ms == 0.0 {
                        phases.compute_ms = start.elapsed().as_secs_f64() * 1e3;
                    }
                    inputs.push(Input::Computed { id, result });
                }
                Output::Persist { id, .. } => inputs.push(Input::Persisted { id }),
                Output::Milestone(Milestone::Committed(_)) if sm.view().failed == 0 => return Ok(Some(phases)),
                Output::SetIsSm(_) | Output::Milestone(_) | Output::Event(_) => {}
            }
        }
    }
    Ok(None)
}

impl Phases {
    fn add(&mut self, fabric: &Fabric, seat: PortRef, datagram: &Datagram, took_ns: u64) {
        let ms = took_ns as f64 / 1e6;
        if datagram.mad.attribute() == AttributeId::LINEAR_FORWARDING {
            self.distribute_ms += ms;
            return;
        }
        self.mads += 1;
        let route = datagram.mad.route().unwrap_or(DirectedRoute::LOCAL);
        match is_switch_at(fabric, seat, &route) {
            true => self.switch_ms += ms,
            false => self.ca_ms += ms,
        }
    }
}

/// True if a directed route from `seat` ends at a switch.
fn is_switch_at(fabric: &Fabric, seat: PortRef, route: &DirectedRoute) -> bool {
    let step = |node, port: &u8| {
        let peer = PortNum::new(*port).and_then(|port| fabric.peer(PortRef { node, port }));
        peer.map_or(node, |peer| peer.node)
    };
    let end = route.ports().iter().fold(seat.node, step);
    fabric.node(end).is_switch()
}
