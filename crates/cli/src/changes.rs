//! `selvedge reload`: proposes the policy of the files and waits until it is kept or rolled back, or lists the Sets
//! that it would send. Also tables of changes and of Sets.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use selvedge_api::{self as api, PolicyChange, PolicyChanges, WouldSend, WouldSet};
use selvedge_daemon::utc_text;
use selvedge_http::Client;

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::findings::TOP;
use crate::out::{Cell, Format, Grid, Out, count};
use crate::{admission, progress};

/// Time between two requests for the state of a change.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Have a running manager read its configuration again. The policy in force stays until the judge accepts a plan with
/// the new one.
#[derive(Args, Debug)]
pub struct ReloadArgs {
    /// Only list the Sets that it would send, and report whether the judge accepts the plan
    #[arg(long)]
    dry_run: bool,
    /// How long to wait until the change is kept or rolled back; 0: do not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "dry_run",
        value_parser = clap::value_parser!(u32).range(0..=86_400))]
    wait: u32,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: Format,
}

impl ReloadArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs `selvedge reload`.
pub fn reload(args: &ReloadArgs) -> Result<Exit, CliError> {
    let client = args.socket.client();
    if args.dry_run {
        return dry_run(&client, args.format);
    }
    let proposed = client.reload()?;
    complain(&proposed.lines);
    let change = awaited(&client, proposed, Duration::from_secs(args.wait.into()))?;
    let is_late = args.wait > 0 && !change.is_settled();
    let exit = match change.is_refused() || is_late {
        true => Exit::NotGood,
        false => Exit::Good,
    };
    let mut out = Out::new(args.format);
    if args.format.json {
        out.document(change)?;
    } else if args.format.csv {
        let changes = vec![change];
        out.grid(&table(&PolicyChanges { changes }))?;
    } else {
        let text = in_words(&change);
        out.line(match exit {
            Exit::Good => out.good(&text),
            _ => out.bad(&text),
        })?;
        findings(&mut out, &change.findings)?;
        if is_late {
            out.line(format!(
                "after {} s the change has not ended; 'selvedge status changes' shows what becomes of it",
                args.wait
            ))?;
        }
    }
    out.flush()?;
    Ok(exit)
}

fn complain(lines: &[api::OpenSmLine]) {
    admission::complain(&api::Check {
        ok: true,
        findings: lines.to_vec(),
    });
}

/// Waits until a change has ended, but not longer than `wait`. Returns it as it is then.
fn awaited(client: &Client, mut change: PolicyChange, wait: Duration) -> Result<PolicyChange, CliError> {
    let began = Instant::now();
    let bar = progress::spinner();
    while !change.is_settled() && began.elapsed() < wait {
        bar.set_message(in_words(&change));
        thread::sleep(ASK_INTERVAL);
        let all: PolicyChanges = client.get("changes")?;
        let same = |found: &PolicyChange| found.serial == change.serial;
        if let Some(found) = all.changes.into_iter().find(same) {
            change = found;
        }
    }
    bar.finish_and_clear();
    Ok(change)
}

/// Returns the state of a change, in one line.
fn in_words(change: &PolicyChange) -> String {
    let PolicyChange { serial, why, .. } = change;
    if change.changed.is_empty() {
        return format!("change {serial}: the policy stays as it is");
    }
    let keys = change.changed.join(", ");
    match &*change.state {
        "proposed" => format!("change {serial} of {keys} is proposed: a sweep comes first"),
        "planned" => format!("change {serial} of {keys} is being planned and judged"),
        "judged" => format!("change {serial} of {keys} is accepted, and its Sets are being sent"),
        "applied" => format!("change {serial} of {keys} is in force: {why}"),
        "kept" => format!("change {serial} of {keys} is kept"),
        "kept_for_later" => format!("change {serial} of {keys} is kept for later: {why}"),
        "rolled_back" => format!("change {serial} of {keys} is rolled back, the former policy is in force: {why}"),
        "superseded" => format!("change {serial} of {keys} is superseded: {why}"),
        other => format!("change {serial} of {keys}: {other}"),
    }
}

/// Lists the first findings of a refused plan.
fn findings(out: &mut Out, findings: &[api::Finding]) -> Result<(), CliError> {
    for finding in findings.iter().take(TOP) {
        out.line(format!("  {}", finding.text))?;
        if !finding.witness.is_empty() {
            out.line(format!("    {}", finding.witness))?;
        }
    }
    match findings.len().saturating_sub(TOP) {
        0 => Ok(()),
        more => out.line(format!(
            "  and {} more: --json lists all",
            count(more as u64, "finding")
        )),
    }
}

/// Returns a table of changes, one per row.
pub fn table(changes: &PolicyChanges) -> Grid {
    let keys = ["serial", "state", "since", "changed", "needs_restart", "why"];
    let mut grid = Grid::new(&keys).lose_first(&["needs_restart", "since"]);
    for change in &changes.changes {
        grid.row([
            Cell::id(change.serial),
            change.state.replace('_', " ").into(),
            utc_text(change.since_ms).into(),
            match change.changed.is_empty() {
                true => Cell::None,
                false => change.changed.join(", ").into(),
            },
            match change.needs_restart.is_empty() {
                true => Cell::None,
                false => change.needs_restart.join(", ").into(),
            },
            match change.why.is_empty() {
                true => Cell::None,
                false => (&change.why).into(),
            },
        ]);
    }
    grid
}

fn dry_run(client: &Client, format: Format) -> Result<Exit, CliError> {
    let would = client.would_send()?;
    complain(&would.lines);
    let exit = if would.accepted { Exit::Good } else { Exit::NotGood };
    let mut out = Out::new(format);
    if format.json {
        out.document(would)?;
    } else if format.csv {
        out.grid(&sets(would.sets.iter()))?;
    } else {
        list(&mut out, &would.sets)?;
        let text = verdict(&would);
        out.line(match exit {
            Exit::Good => out.good(&text),
            _ => out.bad(&text),
        })?;
        findings(&mut out, &would.findings)?;
    }
    out.flush()?;
    Ok(exit)
}

/// Returns the verdict on what a reload would do, in a line.
fn verdict(would: &WouldSend) -> String {
    let keys = match would.changed.is_empty() {
        true => "the policy stays as it is".to_owned(),
        false => format!("{} would change", would.changed.join(", ")),
    };
    if !would.accepted {
        return format!("{keys}; the change would be rolled back: {}", would.why);
    }
    let nodes = by_node(&would.sets).len() as u64;
    let steps = would.sets.iter().map(|set| set.step).max().unwrap_or(0);
    format!(
        "{keys}; the plan by {} is accepted: {} to {} in {}; nothing was changed",
        would.engine,
        count(would.sets.len() as u64, "Set"),
        count(nodes, "node"),
        count(steps, "step")
    )
}

/// Lists Sets by node.
pub fn list(out: &mut Out, all: &[WouldSet]) -> Result<(), CliError> {
    if all.is_empty() {
        return Ok(());
    }
    let mut sorted: Vec<&WouldSet> = all.iter().collect();
    sorted.sort_by(|a, b| (&a.node, a.step).cmp(&(&b.node, b.step)));
    out.grid(&sets(sorted.into_iter()))?;
    out.line("")
}

/// Sets, one a row.
fn sets<'a>(sets: impl Iterator<Item = &'a WouldSet>) -> Grid {
    let keys = ["node", "attribute", "port", "block", "entries", "step", "what"];
    let mut grid = Grid::new(&keys).lose_first(&["what", "step"]);
    for set in sets {
        grid.row([
            (&set.node).into(),
            (&set.attribute).into(),
            set.port.map(Cell::id).into(),
            set.block.map(Cell::id).into(),
            set.entries.into(),
            Cell::id(set.step),
            match set.what.is_empty() {
                true => Cell::None,
                false => (&set.what).into(),
            },
        ]);
    }
    grid
}

/// Returns the Sets of each node, in the order of names.
fn by_node(sets: &[WouldSet]) -> BTreeMap<&str, Vec<&WouldSet>> {
    let mut nodes: BTreeMap<&str, Vec<&WouldSet>> = BTreeMap::new();
    for set in sets {
        nodes.entry(&set.node).or_default().push(set);
    }
    nodes
}

/// Returns a table of what a plan would send, one node per row.
pub fn nodes(sets: &[WouldSet]) -> Grid {
    let mut grid = Grid::new(&["node", "sets", "lft_blocks", "lft_entries", "port_infos", "others"]);
    for (node, sets) in by_node(sets) {
        let of = |attribute: &str| sets.iter().filter(|set| set.attribute == attribute).count();
        let (blocks, ports) = (of("LinearForwardingTable"), of("PortInfo"));
        grid.row([
            node.into(),
            sets.len().into(),
            blocks.into(),
            sets.iter().filter_map(|set| set.entries).sum::<u64>().into(),
            ports.into(),
            (sets.len() - blocks - ports).into(),
        ]);
    }
    grid
}
