//! `selvedge status` and `sweep`: asking a running process.

use clap::{Args, ValueEnum};
use selvedge_api as api;
use selvedge_daemon::utc_text;

use crate::ask::{AskArgs, SocketArgs};
use crate::changes;
use crate::events::EventArgs;
use crate::exit::{CliError, Exit};
use crate::findings::{self, TOP};
use crate::health;
use crate::out::{Cell, Facts, Format, Grid, Out};
use crate::select::SelectArgs;
use crate::{maintenance, partitions, tables, tables_status};

/// Show how a running manager is doing.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// What to show
    #[arg(value_enum, default_value_t = What::Summary)]
    what: What,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    events: EventArgs,
    /// How many findings of each kind, or members of each partition, text lists; --json and --csv have more
    #[arg(long, value_name = "N", default_value_t = TOP)]
    top: usize,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Role, stage, counts
    Summary,
    /// What is wrong, with evidence, and what clears it
    Conditions,
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
    /// The judge's findings on the plan
    Findings,
    /// Switches, links and ports that were drained or isolated
    OutOfService,
    /// Partitions: P_Key, name, members, and rules that match nothing
    Partitions,
    /// Multicast groups that have members
    Groups,
    /// Changes of the policy, and what has become of them
    Changes,
    /// What happened
    Events,
}

impl What {
    /// Refuses flags that belong to another subject.
    fn takes(self, args: &StatusArgs) -> Result<(), CliError> {
        if !matches!(self, Self::Nodes | Self::Ports | Self::Links) {
            args.select.none()?;
        }
        match self {
            Self::Events => Ok(()),
            _ => args.events.none(),
        }
    }
}

impl StatusArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<Exit, CliError> {
    args.what.takes(args)?;
    let client = args.socket.client();
    let rows = |name| args.select.parameters(name);
    let mut out = Out::new(args.format);
    let exit = match args.what {
        What::Summary => {
            let status: api::Status = client.get("status")?;
            let exit = if status.health.good { Exit::Good } else { Exit::NotGood };
            summary(&mut out, status)?;
            exit
        }
        What::Conditions => {
            let health: api::Health = client.get("health")?;
            let exit = if health.good { Exit::Good } else { Exit::NotGood };
            match args.format.is_text() {
                true if health.conditions.is_empty() => out.line("none")?,
                true => health::text(&health.conditions)
                    .into_iter()
                    .try_for_each(|line| out.line(line))?,
                false => drop(show(&mut out, health, health::conditions)?),
            }
            exit
        }
        What::Fabric => show_facts(&mut out, client.get("fabric")?, fabric)?,
        What::Nodes => show(&mut out, client.select("nodes", &rows("name"))?, tables::nodes)?,
        What::Ports => show(&mut out, client.select("ports", &rows("node"))?, tables::ports)?,
        What::Links => show(&mut out, client.select("links", &rows("node"))?, tables::links)?,
        What::Plan => show_facts(&mut out, client.get("plan")?, plan)?,
        What::Findings => {
            let found: api::Findings = client.get("findings")?;
            let exit = match found.ok && found.refused.is_none() {
                true => Exit::Good,
                false => Exit::NotGood,
            };
            if let Some(refused) = found.refused.as_ref().filter(|_| args.format.is_text()) {
                let since = utc_text(refused.since_ms);
                out.line(format!("of the plan that is refused since {since}: {}", refused.why))?;
            }
            match args.format.is_text() {
                true if found.findings.is_empty() && found.ok => out.line("none")?,
                true => findings::text(&mut out, &found, &findings::groups_of(&found.findings), args.top)?,
                false => drop(show(&mut out, found, tables::findings)?),
            }
            exit
        }
        What::Changes => show(&mut out, client.get("changes")?, changes::table)?,
        What::Groups => show(&mut out, client.get("status")?, groups)?,
        What::Partitions => {
            partitions::show(&mut out, client.get("partitions")?, args.top)?;
            Exit::Good
        }
        What::OutOfService => show(&mut out, client.get("out-of-service")?, maintenance::list)?,
        What::Events => args.events.show(&client, &mut out)?,
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

fn show_facts<T: api::Body>(out: &mut Out, body: T, facts: impl Fn(&T) -> Facts) -> Result<Exit, CliError> {
    if out.format().json {
        out.document(body)?;
    } else {
        out.facts(&facts(&body))?;
    }
    Ok(Exit::Good)
}

fn summary(out: &mut Out, status: api::Status) -> Result<(), CliError> {
    if out.format().json {
        return out.document(status);
    }
    out.facts(&tables_status::status(&status))?;
    let format = out.format();
    health::list(out, &status.health, format)?;
    if !status.ports_not_active.is_empty() && out.format().is_text() {
        out.line("")?;
        out.grid(&tables::reasons(&status.ports_not_active))?;
    }
    Ok(())
}

fn fabric(fabric: &api::Fabric) -> Facts {
    let mut facts = Facts::new();
    facts.add("switches", fabric.switches);
    facts.add("hosts", fabric.hosts);
    facts.add("routers", fabric.routers);
    facts.add("links", fabric.links);
    facts.named("links_active", "links ACTIVE", fabric.links_active);
    facts.named("ports_down", "ports DOWN", fabric.ports.down);
    facts.named("ports_init", "ports INIT", fabric.ports.init);
    facts.named("ports_armed", "ports ARMED", fabric.ports.armed);
    facts.named("ports_active", "ports ACTIVE", fabric.ports.active);
    facts.named("ports_unknown", "ports in unknown state", fabric.ports.unknown);
    for rate in &fabric.rates {
        let words = format!("links at {}", rate.rate);
        facts.named(&words, &words, rate.links);
    }
    facts
}

fn groups(status: &api::Status) -> Grid {
    let mut grid = Grid::new(&["mlid", "mtu_bytes", "members", "receivers", "switches"]);
    for group in &status.multicast {
        grid.row([
            format!("{:#06x}", group.mlid).into(),
            Cell::id(group.mtu_bytes),
            group.members.into(),
            group.receivers.into(),
            group.switches.into(),
        ]);
    }
    grid
}

fn plan(plan: &api::Plan) -> Facts {
    let mut facts = Facts::new();
    facts.add("generation", Cell::id(plan.generation));
    facts.add("engine", &plan.engine);
    facts.named("lids", "LIDs", plan.lids);
    facts.named("top_lid", "highest LID", plan.top_lid.to_string());
    facts.add("lanes", plan.lanes);
    facts.named(
        "lft_blocks_per_switch",
        "LFT blocks per switch",
        plan.lft_blocks_per_switch,
    );
    facts.named("lft_entries", "LFT entries", plan.lft_entries);
    facts.named("sets", "Sets needed", plan.changes.sets);
    facts.named("sets_acknowledged", "Sets acknowledged", plan.changes.acknowledged);
    facts.named("sets_failed", "Sets failed", plan.changes.failed);
    facts
}

/// Have a running manager discover everything again.
#[derive(Args, Debug)]
pub struct SweepArgs {
    #[command(flatten)]
    ask: AskArgs,
}

impl SweepArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.ask.json()
    }
}

/// Runs `selvedge sweep`.
pub fn sweep(args: &SweepArgs) -> Result<Exit, CliError> {
    args.ask.client().post("sweep")?;
    let request = "sweep".to_owned();
    // Nothing for people: events report the results.
    args.ask.print(api::Accepted { request }, |_| Vec::new())?;
    Ok(Exit::Good)
}
