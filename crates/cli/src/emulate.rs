//! `selvedge emulate`: a fabric for other programs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use selvedge_api::Severity;
use selvedge_daemon::{EmulationOptions, EmulatorConfig, Service as _, emulate};
use selvedge_http::{EMULATOR_SOCKET, Front, Socket, default_path};
use selvedge_sim::Seed;

use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{count, note};
use crate::progress::{BarLog, bar};

/// Emulate a fabric for other programs: OpenSM, infiniband-diags, another selvedge.
#[derive(Args, Debug)]
pub struct EmulateArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// Forwarding tables that the fabric holds at the start: OpenSM's dump, or the output of ibroute or dump_fts; LIDs
    /// are those of the listing
    #[arg(long, value_name = "FILE")]
    lfts: Option<PathBuf>,
    /// What clients have in IBSIM_SOCKNAME
    #[arg(long, value_name = "BASE", default_value = "sim")]
    serve: String,
    /// Unix socket for 'selvedge fault' (default: emulator.sock in the first folder that can be written to of
    /// /run/selvedge, $XDG_RUNTIME_DIR/selvedge and /tmp/selvedge-UID)
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Seed of random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long an agent takes for one request, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0)]
    service_time_us: u64,
    /// Requests an agent holds; more are dropped
    #[arg(long, value_name = "N", default_value_t = EmulatorConfig::default().queue_depth)]
    queue_depth: u16,
}

/// Runs the command.
pub fn run(args: &EmulateArgs) -> Result<Exit, CliError> {
    let (fabric, held) = load::emulated(&args.fabric, args.lfts.as_deref())?;
    let options = EmulationOptions {
        config: EmulatorConfig {
            service_time: Duration::from_micros(args.service_time_us),
            queue_depth: args.queue_depth,
            ..EmulatorConfig::default()
        },
        seed: Seed(args.seed),
        serve: Some(args.serve.clone()),
        seat: None,
        held: Arc::new(held),
    };
    let log = Box::new(BarLog::new(bar(), Severity::Info));
    let socket = args.socket.clone().unwrap_or_else(|| default_path(EMULATOR_SOCKET));
    let bound = Socket::bind(&socket)?;
    let running = emulate(&fabric, &options, EVENTS, log)?;
    let front = match Front::open(Some(bound), Arc::new(running.emulation.clone())) {
        Ok(front) => front,
        Err(error) => {
            running.emulation.stop();
            running.join()?;
            return Err(error.into());
        }
    };
    let base = &args.serve;
    note(format!(
        "selvedge: {} and {}; attach with",
        count(fabric.switches().len() as u64, "switch"),
        count(fabric.host_count() as u64, "host")
    ));
    note(format!("  selvedge run --port ibsim:{base}"));
    note(format!(
        "  IBSIM_SOCKNAME={base} SIM_HOST=<node> LD_PRELOAD=<folder>/libumad2sim.so opensm"
    ));
    note(format!(
        "selvedge: API on {} (selvedge fault --socket ...); end with Ctrl-C",
        socket.display()
    ));
    running.join()?;
    drop(front);
    Ok(Exit::Good)
}

/// Number of events that are kept for the API.
const EVENTS: usize = 1_000;
