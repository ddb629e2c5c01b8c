//! Figures 4 to 9: 1 to 8 nodes on one 8-port switch and on the six switches of Figure 3.

use std::fmt::Write as _;
use std::time::Duration;

use selvedge_conformance::{HeavyLock, NetSize, PeerLab};
use selvedge_emulator::{Emulator, EmulatorConfig};
use selvedge_fabric::Fabric;
use selvedge_model::Shape;
use selvedge_model::published::{TABLES, TEST_BED_NODES, figure_3, one_switch};
use selvedge_sim::Seed;
use selvedge_topology::{Format, NodeNames, write};
use selvedge_transport::ibsim::IbsimPort;

use super::serial::{Phases, Virtual, bring_up};
use crate::error::BenchError;
use crate::stats::Spread;

/// Where the time was measured.
pub const WORLDS: [&str; 2] = ["emulator", "ibsim"];
/// Numbers of switches.
pub const SWITCHES: [u8; 2] = [1, 6];
/// A figure: its number, its title, and its part of the phases.
pub type Figure = (u8, &'static str, fn(&Phases) -> f64);
/// The paper's figures. The caption of Figure 5 repeats that of Figure 8, but the text beside Figure 5 is about subnet
/// discovery.
pub const FIGURES: [Figure; 6] = [
    (4, "everything", Phases::total_ms),
    (5, "subnet discovery", Phases::discover_ms),
    (6, "channel adapter set-up", |phases| phases.ca_ms),
    (7, "switch set-up", |phases| phases.switch_ms),
    (8, "path computation", |phases| phases.compute_ms),
    (9, "path distribution", |phases| phases.distribute_ms),
];

/// One bring-up, or the median of several.
#[derive(Clone, Debug)]
pub struct Row {
    /// `emulator` or `ibsim`.
    pub world: &'static str,
    /// Number of switches: 1 or 6.
    pub switches: u8,
    /// Number of end nodes.
    pub nodes: u8,
    /// Times of the phases of each repeat.
    pub runs: Vec<Phases>,
}

impl Row {
    /// Median and range of a part.
    #[must_use]
    pub fn spread(&self, part: fn(&Phases) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(part))
    }
}

/// Measures all rows. Returns them with the calibrated service time in µs.
pub fn measure(repeats: usize) -> Result<(Vec<Row>, f64), BenchError> {
    let service = calibrated()?;
    let mut rows = Vec::new();
    for switches in SWITCHES {
        for nodes in 1..=TEST_BED_NODES {
            let fabric = test_bed(switches, nodes);
            rows.push(Row {
                world: WORLDS[0],
                switches,
                nodes,
                runs: vec![emulated(&fabric, service)?],
            });
            let runs = (0..repeats).map(|_| on_ibsim(&fabric)).collect::<Result<_, _>>()?;
            rows.push(Row {
                world: WORLDS[1],
                switches,
                nodes,
                runs,
            });
        }
    }
    Ok((rows, service.as_secs_f64() * 1e6))
}

fn test_bed(switches: u8, nodes: u8) -> Fabric {
    if switches == 1 {
        one_switch(nodes)
    } else {
        figure_3(nodes)
    }
}

/// Returns the service time with which the emulator discovers one switch and 8 nodes in the paper's time. One request
/// is in flight at a time, so the time is the service time × the number of MADs, plus the delay of cables.
fn calibrated() -> Result<Duration, BenchError> {
    let probe = Duration::from_micros(100);
    let phases = emulated(&one_switch(TEST_BED_NODES), probe)?;
    let per_mad_ms = (TABLES[0].experiment_ms.discovery - phases.discover_ms()) / phases.mads as f64;
    let service_ms = probe.as_secs_f64() * 1e3 + per_mad_ms;
    Ok(Duration::from_nanos((service_ms.max(0.0) * 1e6).round() as u64))
}

fn not_up(manager: &str) -> BenchError {
    BenchError::NotUp {
        manager: manager.to_owned(),
        fabric: "the paper's test-bed".to_owned(),
        cause: "an answer is missing, or no plan was accepted".to_owned(),
    }
}

fn emulated(fabric: &Fabric, service_time: Duration) -> Result<Phases, BenchError> {
    let seat = Shape::first_seat(fabric)?;
    let config = EmulatorConfig {
        service_time,
        ..EmulatorConfig::default()
    };
    let emulator = Emulator::new(fabric, config, Seed(1));
    let mut peer = Virtual::new(emulator, seat).ok_or_else(|| not_up("the emulator"))?;
    bring_up(fabric, seat, &mut peer)?.ok_or_else(|| not_up("selvedge on the emulator"))
}

fn on_ibsim(fabric: &Fabric) -> Result<Phases, BenchError> {
    let seat = Shape::first_seat(fabric)?;
    let net = write(fabric, Format::IbsimNet, &NodeNames::default());
    let lab = PeerLab::new()?;
    let _quiet = HeavyLock::acquire()?;
    let _simulator = lab.ibsim_sized(&net, NetSize::of(&net))?;
    let mut port = IbsimPort::open(lab.base(), &fabric.node(seat.node).description)?;
    bring_up(fabric, seat, &mut port)?.ok_or_else(|| not_up("selvedge on ibsim"))
}

/// Medians, a line each.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from("world,switches,nodes,runs,figure,phase,median_ms,min_ms,max_ms\n");
    for row in rows {
        for (number, name, part) in FIGURES {
            if let Some(s) = row.spread(part) {
                let _ = writeln!(
                    text,
                    "{},{},{},{},{number},{name},{:.6},{:.6},{:.6}",
                    row.world, row.switches, row.nodes, s.count, s.median, s.min, s.max
                );
            }
        }
    }
    text
}

/// The rows of 8 nodes beside the paper's tables.
#[must_use]
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::from(
        "| switches, 8 nodes | phase | paper, ms | emulator, ms | ibsim, ms, median (range) |\n|---|---|---|---|---|\n",
    );
    for (switches, table) in SWITCHES.into_iter().zip(&TABLES) {
        let paper = [
            ("t_TD", table.experiment_ms.discovery, FIGURES[1].2),
            ("t_PC", table.experiment_ms.computation, FIGURES[4].2),
            ("t_PD", table.experiment_ms.distribution, FIGURES[5].2),
        ];
        for (phase, theirs, part) in paper {
            let of = |world: &str, digits: usize| {
                let is = |row: &&Row| (row.world, row.switches, row.nodes) == (world, switches, TEST_BED_NODES);
                let spread = rows.iter().find(is).and_then(|row| row.spread(part));
                spread.map_or_else(String::new, |s| match s.count {
                    1 => format!("{:.digits$}", s.median),
                    _ => format!("{s:.digits$}"),
                })
            };
            let (emulated, simulated) = (of(WORLDS[0], 2), of(WORLDS[1], 3));
            let _ = writeln!(
                text,
                "| {switches} | {phase} | {theirs:.2} | {emulated} | {simulated} |"
            );
        }
    }
    text
}
