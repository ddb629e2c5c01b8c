//! An emulated fabric in real time: steps the emulator, injects faults, serves outside clients.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use selvedge_api::{Error, ErrorKind, FaultRequest};
use selvedge_chassis::Chassis;
use selvedge_emulator::{ClientId, Delivery, Emulator, EmulatorConfig, EmulatorError, Fault};
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Tables};
use selvedge_sim::Seed;
use selvedge_transport::ibsim::{ServerOptions, Waker};

use crate::DaemonError;
use crate::backend::default_seat;
use crate::clock::Clock;
use crate::served::Served;

/// The state of an emulated fabric's ports and switches before a manager first discovers it.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// LIDs of end ports.
    pub lids: Lids,
    /// Forwarding tables; `None` if they are empty.
    pub tables: Option<Tables>,
}

/// Options of an emulated fabric.
#[derive(Clone, Debug)]
pub struct EmulationOptions {
    /// Parameters of agents and wires.
    pub config: EmulatorConfig,
    /// Seed of all random choices.
    pub seed: Seed,
    /// Base name under which outside clients attach (`IBSIM_SOCKNAME`); `None`: no client can.
    pub serve: Option<String>,
    /// Port of a manager inside this process: `"name"`, `"name"[port]` or `0xGUID`; `None`: the first host.
    pub seat: Option<String>,
    /// The state that an earlier manager left; empty by default.
    pub held: Arc<Held>,
}

impl Default for EmulationOptions {
    /// Agents that answer at once: in real time a process is slower than hardware anyway.
    fn default() -> Self {
        Self {
            config: EmulatorConfig {
                service_time: Duration::ZERO,
                ..EmulatorConfig::default()
            },
            seed: Seed(1),
            serve: None,
            seat: None,
            held: Arc::default(),
        }
    }
}

/// Shorter waits are done by spinning, because the operating system would wake the thread too late.
const SPIN_MAX: Duration = Duration::from_micros(60);
/// How long a front end waits for the emulator's thread to take a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A request of another thread to the emulator's thread.
pub(crate) enum Call {
    Fault {
        fault: Fault,
        reply: Sender<Result<(), EmulatorError>>,
    },
    Snapshot {
        reply: Sender<Fabric>,
    },
    Stop,
}

/// Access to an emulator that runs on another thread.
#[derive(Clone)]
pub(crate) struct HostHandle {
    calls: Arc<Mutex<Sender<Call>>>,
    waker: Option<Arc<Waker>>,
}

impl HostHandle {
    fn send(&self, call: Call) -> Result<(), Error> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls
            .send(call)
            .map_err(|_| ErrorKind::Stopping.error("the emulator has stopped"))?;
        if let Some(waker) = &self.waker {
            waker.wake();
        }
        Ok(())
    }

    fn ask<T>(&self, call: impl FnOnce(Sender<T>) -> Call) -> Result<T, Error> {
        let (reply, answer) = channel();
        self.send(call(reply))?;
        answer
            .recv_timeout(CALL_TIMEOUT)
            .map_err(|_| ErrorKind::Stopping.error("the emulator does not answer"))
    }

    /// Injects a fault; returns it as it was parsed.
    pub(crate) fn fault(&self, request: &FaultRequest) -> Result<String, Error> {
        let fault: Fault = request.fault.parse().map_err(|error| refused(&error))?;
        let done = fault.to_string();
        self.ask(|reply| Call::Fault { fault, reply })?
            .map_err(|error| refused(&error))?;
        Ok(done)
    }

    /// Returns the hardware in its current state.
    pub(crate) fn snapshot(&self) -> Result<Fabric, Error> {
        self.ask(|reply| Call::Snapshot { reply })
    }

    pub(crate) fn stop(&self) {
        // One that has stopped already needs no telling.
        let _ = self.send(Call::Stop);
    }
}

fn refused(error: &EmulatorError) -> Error {
    Error::of_text(&error.to_string())
}

/// An emulated fabric in real time.
pub(crate) struct Host {
    pub(crate) emulator: RefCell<Emulator>,
    clock: Clock,
    calls: Receiver<Call>,
    server: Option<Served>,
    deliveries: Vec<Delivery>,
    stopped: bool,
}

impl Host {
    /// Starts an emulated fabric.
    pub(crate) fn new(
        fabric: &Fabric,
        options: &EmulationOptions,
        clock: Clock,
    ) -> Result<(Self, HostHandle), DaemonError> {
        let server = options
            .serve
            .as_ref()
            .map(|base| Served::bind(base, ServerOptions::default()))
            .transpose()?;
        let waker = server.as_ref().map(Served::waker).transpose()?.map(Arc::new);
        let (sender, calls) = channel();
        let mut chassis = Chassis::new(fabric);
        chassis.install(&options.held.lids, options.held.tables.as_ref());
        let host = Self {
            emulator: RefCell::new(Emulator::on(chassis, options.config, options.seed)),
            clock,
            calls,
            server,
            deliveries: Vec::new(),
            stopped: false,
        };
        let handle = HostHandle {
            calls: Arc::new(Mutex::new(sender)),
            waker,
        };
        Ok((host, handle))
    }

    /// Attaches a manager of this process.
    pub(crate) fn seat(&mut self, wanted: Option<&str>) -> Result<ClientId, DaemonError> {
        let emulator = self.emulator.get_mut();
        if let Some(name) = wanted {
            return Ok(emulator.attach_named(name)?);
        }
        let at = default_seat(emulator.chassis().fabric());
        let at = at.ok_or_else(|| DaemonError::NoSeat { wanted: String::new() })?;
        Ok(emulator.attach(at)?)
    }

    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Carries out all due work. Datagrams for a client of this process go to `own`.
    pub(crate) fn step(&mut self, mut own: impl FnMut(&Delivery)) -> Result<(), DaemonError> {
        while let Ok(call) = self.calls.try_recv() {
            self.call(call);
        }
        self.serve(Duration::ZERO)?;
        let now = self.clock.now();
        self.emulator.get_mut().advance(now, &mut self.deliveries);
        for delivery in self.deliveries.drain(..) {
            let emulator = self.emulator.get_mut();
            if !self
                .server
                .as_mut()
                .is_some_and(|server| server.deliver(emulator, &delivery))
            {
                own(&delivery);
            }
        }
        Ok(())
    }

    /// Waits at most `wait` for something to do.
    pub(crate) fn wait(&mut self, wait: Duration) -> Result<(), DaemonError> {
        let now = self.clock.now();
        let next = self.emulator.get_mut().next_event();
        let wait = next.map_or(wait, |at| at.since(now).min(wait));
        if wait <= SPIN_MAX {
            std::hint::spin_loop();
            return Ok(());
        }
        if self.server.is_some() {
            return self.serve(wait);
        }
        match self.calls.recv_timeout(wait) {
            Ok(call) => self.call(call),
            Err(RecvTimeoutError::Timeout) => {}
            // No further calls can come: only time passes.
            Err(RecvTimeoutError::Disconnected) => std::thread::park_timeout(wait),
        }
        Ok(())
    }

    fn call(&mut self, call: Call) {
        let emulator = self.emulator.get_mut();
        // The caller may have gone; then the answer has no reader.
        match call {
            Call::Fault { fault, reply } => drop(reply.send(emulator.apply(self.clock.now(), &fault))),
            Call::Snapshot { reply } => drop(reply.send(emulator.chassis().observe())),
            Call::Stop => self.stopped = true,
        }
    }

    /// Handles the datagrams of outside clients.
    fn serve(&mut self, wait: Duration) -> Result<(), DaemonError> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let clock = self.clock;
        let sent = |emulator: &mut Emulator, client, datagram| emulator.send(clock.now(), client, &datagram);
        server.poll(self.emulator.get_mut(), wait, || clock.now(), sent)
    }
}
