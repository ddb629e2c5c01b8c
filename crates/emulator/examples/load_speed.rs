//! How long it takes to compute the rates of loads, and what a read of all counters costs after that.
//!
//! ```text
//! cargo run --example load_speed [SPEC]      default karytree:k=18,n=3, 5,832 hosts
//! ```

use std::time::Instant;

use selvedge_chassis::Chassis;
use selvedge_emulator::{Emulator, EmulatorConfig, Fault};
use selvedge_plan::Lids;
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed, Time};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, PortState};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let spec = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "karytree:k=18,n=3".to_owned());
    let mut emulator = routed(&spec)?;
    println!("{:40} {:>10} {:>10} {:>8}", "load", "rates", "read all", "roots");
    let mut now = Time::ZERO;
    for load in [
        "shift:1 40%",
        "permutation 100%",
        "uniform 40%",
        "uniform 100%",
        "uniform 30% + incast:H-0 70%",
    ] {
        let fault: Fault = format!("load {load}").parse()?;
        let start = Instant::now();
        emulator.apply(now, &fault)?;
        emulator.advance(now, &mut Vec::new());
        let rates = start.elapsed();
        now = Time(now.0 + Time::from_secs(1).0);
        emulator.advance(now, &mut Vec::new());
        let start = Instant::now();
        emulator.settle_counters();
        let read = start.elapsed();
        let roots = emulator.congestion().len();
        println!("{load:40} {rates:>10.1?} {read:>10.1?} {roots:>8}");
    }
    Ok(())
}

/// Returns a generated fabric with routes, all ports ACTIVE.
fn routed(spec: &str) -> Result<Emulator, Failure> {
    let Spec::Generated(recipe) = spec.parse()? else {
        return Err(format!("{spec} is no generator").into());
    };
    let fabric = recipe.fabric()?;
    let mut lids = Lids::new();
    for (lid, (at, _)) in (1..).zip(fabric.end_ports()) {
        lids.insert(at, LidRange::single(Lid(lid)))?;
    }
    let engine: Engine = "fat-tree".parse()?;
    let routed = engine.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)?;
    let mut chassis = Chassis::new(&fabric);
    chassis.install(&lids, Some(&routed.tables));
    for link in fabric.links() {
        for (first, end) in [(true, link.a), (false, link.b)] {
            let Some(port) = chassis.port_idx(end) else { continue };
            if first {
                chassis.bring_up(port);
            }
            chassis.set_logical(port, PortState::Active);
        }
    }
    Ok(Emulator::on(chassis, EmulatorConfig::default(), Seed(1)))
}
