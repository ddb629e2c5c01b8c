//! Predicted and measured times of Selvedge on the emulator, in virtual time.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use selvedge_emulator::EmulatorConfig;
use selvedge_fabric::Fabric;
use selvedge_model::published::figure_3;
use selvedge_model::{Cost, Manager, Shape, Wires, bring_up};
use selvedge_plan::Policy;
use selvedge_planner::DefaultJudge;
use selvedge_rehearsal::{Options, Rehearsal, RehearsalError};
use selvedge_sm::{Config, Mode};
use selvedge_topology::Spec;
use selvedge_types::{Guid, PortNum};
use selvedge_wire::LocalPort;

use crate::error::BenchError;

const SPECS: [&str; 8] = [
    "mport:m=8,n=1",
    "mport:m=4,n=2",
    "mport:m=8,n=3",
    "mport:m=16,n=2",
    "sx6536",
    "torus:4x4x4",
    "random:switches=64,degree=4,hosts=2,seed=21",
    "random:switches=40,degree=5,hosts=4,seed=22",
];
/// Largest number of requests in flight.
pub const WINDOWS: [u32; 3] = [1, 4, 32];
/// Service times, in µs.
const SERVICE_US: [u64; 8] = [5, 10, 20, 50, 100, 200, 500, 1_000];

/// One bring-up.
#[derive(Clone, Debug)]
pub struct Point {
    /// The fabric.
    pub fabric: String,
    /// Largest number of requests in flight.
    pub window: u32,
    /// Time of an agent for one MAD, in µs.
    pub service_us: u64,
    /// Time by the emulator's clock, in ms.
    pub measured_ms: f64,
    /// Time predicted by the model, in ms.
    pub predicted_ms: f64,
}

impl Point {
    /// Error of the prediction, as a share of the measured time.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted_ms / self.measured_ms - 1.0
    }
}

/// Measures all fabrics with all windows and service times.
pub fn measure(quick: bool) -> Result<Vec<Point>, BenchError> {
    let mut points = Vec::new();
    let mut fabrics = vec![("Figure 3".to_owned(), figure_3(8))];
    for spec in SPECS.iter().take(if quick { 2 } else { SPECS.len() }) {
        if let Spec::Generated(recipe) = spec.parse()? {
            fabrics.push(((*spec).to_owned(), recipe.fabric()?));
        }
    }
    for (name, fabric) in &fabrics {
        for (window, service_us) in WINDOWS.iter().flat_map(|&w| SERVICE_US.map(|s| (w, s))) {
            points.push(point(name, fabric, window, service_us)?);
        }
    }
    Ok(points)
}

fn point(name: &str, fabric: &Fabric, window: u32, service_us: u64) -> Result<Point, BenchError> {
    let not_up = |cause: RehearsalError| BenchError::NotUp {
        manager: "selvedge".to_owned(),
        fabric: name.to_owned(),
        cause: cause.to_string(),
    };
    let wires = Wires {
        service_ns: service_us * 1_000,
        ..Wires::default()
    };
    let cost = Cost {
        window,
        ..Cost::of(Manager::Selvedge, wires)
    };
    let seat = Shape::first_seat(fabric)?;
    let predicted = bring_up(&Shape::new(fabric, seat)?, &cost);
    let measured_ns = rehearsed(fabric, &fabric.port_name(seat), window, service_us).map_err(not_up)?;
    Ok(Point {
        fabric: name.to_owned(),
        window,
        service_us,
        measured_ms: measured_ns as f64 / 1e6,
        predicted_ms: predicted.time_ns() as f64 / 1e6,
    })
}

/// Returns the virtual time until the subnet is up, in ns.
fn rehearsed(fabric: &Fabric, seat: &str, window: u32, service_us: u64) -> Result<u64, RehearsalError> {
    let options = Options {
        emulator: EmulatorConfig {
            service_time: Duration::from_micros(service_us),
            ..EmulatorConfig::default()
        },
        ..Options::default()
    };
    let nowhere = LocalPort {
        node_guid: Guid::NONE,
        port_guid: Guid::NONE,
        port: PortNum::MANAGEMENT,
    };
    let mut config = Config::new(Mode::Manage, nowhere, Arc::new(Policy::default()));
    config.window = window as usize;
    let mut world = Rehearsal::new(fabric, options);
    let id = world.add_manager("sm", seat, config, Arc::new(DefaultJudge::default()));
    world.start(id)?;
    world.run_until(Duration::from_secs(3_600), "the subnet is up", |world| {
        world.view(id).is_some_and(|view| view.is_up())
    })?;
    Ok(world.now().0)
}

/// Returns a CSV line for each point.
#[must_use]
pub fn csv(points: &[Point]) -> String {
    let mut text = String::from("fabric,window,service_us,measured_ms,predicted_ms,error_percent\n");
    for p in points {
        let _ = writeln!(
            text,
            "\"{}\",{},{},{:.6},{:.6},{:.3}",
            p.fabric,
            p.window,
            p.service_us,
            p.measured_ms,
            p.predicted_ms,
            p.error() * 100.0
        );
    }
    text
}
