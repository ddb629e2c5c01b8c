//! `selvedge status`, `sweep` and `reload`: asking a running process.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use selvedge_api as api;
use selvedge_http::{Client, EMULATOR_SOCKET, MANAGER_SOCKET, existing_path};

use crate::admission;
use crate::exit::{CliError, Exit};
use crate::out::{Format, Grid, JsonArg, Out, thousands};
use crate::tables;

/// Which process to ask.
#[derive(Args, Clone, Debug)]
pub struct SocketArgs {
    /// Unix socket of the process (default: where 'selvedge run' listens)
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

impl SocketArgs {
    /// A client of the manager: on the socket that was given, else where managers listen.
    pub fn client(&self) -> Client {
        Client::new(&self.socket.clone().unwrap_or_else(|| existing_path(MANAGER_SOCKET)))
    }

    /// A client of whoever emulates a fabric: `selvedge emulate` if it runs, else the manager.
    pub fn emulator(&self) -> Client {
        if let Some(path) = &self.socket {
            return Client::new(path);
        }
        let path = existing_path(EMULATOR_SOCKET);
        if path.exists() {
            Client::new(&path)
        } else {
            self.client()
        }
    }
}

/// Show how a running manager is doing.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// What to show
    #[arg(value_enum, default_value_t = What::Summary)]
    what: What,
    /// Of events: only those after number N
    #[arg(long, value_name = "N", default_value_t = 0)]
    since: u64,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Role, stage, counts
    Summary,
    /// The fabric in figures
    Fabric,
    /// Every node
    Nodes,
    /// Every port, and why it is not ACTIVE
    Ports,
    /// Every link
    Links,
    /// The plan in force
    Plan,
    /// What the judge says of it
    Findings,
    /// Multicast groups that have members
    Groups,
    /// What happened
    Events,
}

impl StatusArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<Exit, CliError> {
    let client = args.socket.client();
    let mut out = Out::new(args.format);
    let exit = match args.what {
        What::Summary => {
            let status: api::Status = client.get("status")?;
            // A standby has nothing to bring up.
            let is_good = status.up || status.role == api::Role::Standby;
            let exit = if is_good { Exit::Good } else { Exit::NotGood };
            summary(&mut out, status)?;
            exit
        }
        What::Fabric => show(&mut out, client.get("fabric")?, fabric)?,
        What::Nodes => show(&mut out, client.get("nodes")?, tables::nodes)?,
        What::Ports => show(&mut out, client.get("ports")?, tables::ports)?,
        What::Links => show(&mut out, client.get("links")?, tables::links)?,
        What::Plan => show(&mut out, client.get("plan")?, plan)?,
        What::Findings => {
            let findings: api::Findings = client.get("findings")?;
            let exit = if findings.ok { Exit::Good } else { Exit::NotGood };
            show(&mut out, findings, tables::findings)?;
            exit
        }
        What::Groups => show(&mut out, client.get("status")?, groups)?,
        What::Events => show(
            &mut out,
            client.get(&format!("events?since={}", args.since))?,
            tables::events,
        )?,
    };
    out.flush()?;
    Ok(exit)
}

fn show<T: api::Body>(out: &mut Out, body: T, table: impl Fn(&T) -> Grid) -> Result<Exit, CliError> {
    if out.format().json {
        out.document(body)?;
    } else {
        out.grid(&table(&body))?;
    }
    Ok(Exit::Good)
}

fn summary(out: &mut Out, status: api::Status) -> Result<(), CliError> {
    if out.format().json {
        return out.document(status);
    }
    out.grid(&tables::status(&status))?;
    if !status.ports_not_active.is_empty() && !out.format().csv {
        out.line("")?;
        out.grid(&tables::reasons(&status.ports_not_active))?;
    }
    Ok(())
}

fn fabric(fabric: &api::Fabric) -> Grid {
    let mut grid = Grid::new(&["what", "count"]);
    let counts = [
        ("switches", fabric.switches),
        ("hosts", fabric.hosts),
        ("routers", fabric.routers),
        ("links", fabric.links),
        ("links ACTIVE", fabric.links_active),
        ("ports DOWN", fabric.ports.down),
        ("ports INIT", fabric.ports.init),
        ("ports ARMED", fabric.ports.armed),
        ("ports ACTIVE", fabric.ports.active),
        ("ports in unknown state", fabric.ports.unknown),
    ];
    for (what, count) in counts {
        grid.row([what.to_owned(), thousands(count)]);
    }
    for rate in &fabric.rates {
        grid.row([format!("links at {}", rate.rate), thousands(rate.links)]);
    }
    grid
}

fn groups(status: &api::Status) -> Grid {
    let mut grid = Grid::new(&["MLID", "MTU", "members", "receivers", "switches"]);
    for group in &status.multicast {
        grid.row([
            format!("{:#06x}", group.mlid),
            group.mtu_bytes.to_string(),
            thousands(group.members),
            thousands(group.receivers),
            thousands(group.switches),
        ]);
    }
    grid
}

fn plan(plan: &api::Plan) -> Grid {
    let mut grid = Grid::new(&["what", "value"]);
    let mut row = |name: &str, value: String| grid.row([name.to_owned(), value]);
    row("generation", plan.generation.to_string());
    row("engine", plan.engine.clone());
    row("LIDs", thousands(plan.lids));
    row("highest LID", plan.top_lid.to_string());
    row("lanes", plan.lanes.to_string());
    row("LFT blocks per switch", thousands(plan.lft_blocks_per_switch));
    row("LFT entries", thousands(plan.lft_entries));
    row("Sets needed", thousands(plan.changes.sets));
    row("Sets acknowledged", thousands(plan.changes.acknowledged));
    row("Sets failed", thousands(plan.changes.failed));
    grid
}

/// Have a running manager discover everything again.
#[derive(Args, Debug)]
pub struct SweepArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: JsonArg,
}

impl SweepArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs `selvedge sweep`.
pub fn sweep(args: &SweepArgs) -> Result<Exit, CliError> {
    args.socket.client().post("sweep")?;
    accepted("sweep", args.format)
}

/// Have a running manager read its configuration again.
#[derive(Args, Debug)]
pub struct ReloadArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: JsonArg,
}

impl ReloadArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Nothing is to be said to people: what comes of it is told by events.
fn accepted(request: &str, format: JsonArg) -> Result<Exit, CliError> {
    if format.json {
        let mut out = Out::new(format.into());
        out.document(api::Accepted {
            request: request.to_owned(),
        })?;
        out.flush()?;
    }
    Ok(Exit::Good)
}

/// Runs `selvedge reload`.
pub fn reload(args: &ReloadArgs) -> Result<Exit, CliError> {
    let check = args.socket.client().reload()?;
    admission::complain(&check);
    accepted("reload", args.format)
}
