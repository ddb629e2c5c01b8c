//! The cost of a take-over: the master is killed, and a standby of the same fabric takes its place, in virtual time.
//!
//! `cargo run -p selvedge-rehearsal --example take_over -- mport:m=36,n=3` prints when the standby is master and when
//! all ports are up, the numbers of MADs and Sets, and whether any LID or entry has changed.
//!
//! The last column is that of a development build.
//!
//! | fabric | hosts | MASTER after | MADs until then | all up after | MADs, Sets in all | user time |
//! |---|---|---|---|---|---|---|
//! | `sx6536` | 324 | 1,501 ms | 3,060 | 1,503 ms | 3,541, 351 | 0.05 s |
//! | `mport:m=24,n=3` | 3,456 | 1,515 ms | 47,844 | 1,551 ms | 99,508, 4,176 | 2.6 s |
//! | `mport:m=36,n=3` | 11,664 | 1,549 ms | 158,148 | 1,725 ms | 508,360, 13,284 | 22 s |
#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::error::Error;

use selvedge_rehearsal::Script;
use selvedge_topology::Spec;

/// The master is killed half a second before the next poll.
const STEPS: &str = "sm a at \"H-0\" priority=5 sweep=off\nsm b at \"H-7\" priority=3 sweep=off\nstart a\n\
    run until up a\nrun until idle\nshow counts a\nstart b\nrun until role b STANDBY\nrun 500ms\nmark\nkill a\n\
    run until role b MASTER max 60s\nshow cost\nexpect within 1550ms\n\
    run until up b max 600s\nshow cost\nshow sets\nshow counts b\n\
    show events b\nexpect all active b\nexpect lids unchanged\nexpect tables unchanged\n";

fn main() -> Result<(), Box<dyn Error>> {
    let spec = std::env::args().nth(1).unwrap_or_else(|| "sx6536".to_owned());
    let script = Script::parse(&format!("fabric {spec}\n{STEPS}"));
    let transcript = script.run(&|spec| match spec.parse::<Spec>().map_err(|e| e.to_string())? {
        Spec::Generated(recipe) => recipe.fabric().map_err(|e| e.to_string()),
        Spec::File(path) => Err(format!("{}: a generator, please", path.display())),
    });
    println!("{}", transcript.text);
    match transcript.failures.first() {
        None => Ok(()),
        Some(failure) => Err(failure.clone().into()),
    }
}
