//! How long the model takes to answer everything about a large fabric: bring-up, a link and a switch lost, both
//! managers.
//!
//! `cargo run -p selvedge-model --example answer_speed [-- SPEC…]`: best and median of 11 runs, each of which begins
//! with the fabric in memory. A bench figure, not a test.

use std::time::Instant;

use selvedge_model::{Cost, Fault, Manager, Shape, Wires, bring_up, link_fault, switch_fault};
use selvedge_topology::Spec;

/// 27,648 hosts; 46,656 hosts on fewer switches, so that their LIDs fit into a subnet.
const SPECS: [&str; 2] = ["mport:m=48,n=3", "pgft:m=36x36x36,w=1x18x18,p=1x2x2"];
const RUNS: usize = 11;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let specs = if given.is_empty() {
        SPECS.map(str::to_owned).to_vec()
    } else {
        given
    };
    for spec in specs {
        let begin = Instant::now();
        let fabric = match spec.parse::<Spec>()? {
            Spec::Generated(recipe) => recipe.fabric()?,
            Spec::File(path) => return Err(format!("{} is a file; name a generator", path.display()).into()),
        };
        let built = begin.elapsed();
        let mut times = Vec::new();
        let mut parts = Vec::new();
        for _ in 0..RUNS {
            let begin = Instant::now();
            let shape = Shape::from_first_host(&fabric)?;
            let read = begin.elapsed();
            for manager in Manager::ALL {
                let cost = Cost::of(manager, Wires::default());
                let up = bring_up(&shape, &cost);
                std::hint::black_box(link_fault(&shape, &cost, &up, Fault::default()));
                std::hint::black_box(switch_fault(&shape, &cost, &up, Fault::default()));
            }
            times.push(begin.elapsed());
            parts.push(read);
        }
        times.sort();
        parts.sort();
        println!(
            "{spec}: {} hosts, answered in {:.1} ms at best, {:.1} ms median (of which reading the fabric {:.1} ms); \
             the fabric was made in {:.1} ms",
            fabric.host_count(),
            times[0].as_secs_f64() * 1e3,
            times[RUNS / 2].as_secs_f64() * 1e3,
            parts[RUNS / 2].as_secs_f64() * 1e3,
            built.as_secs_f64() * 1e3
        );
    }
    Ok(())
}
