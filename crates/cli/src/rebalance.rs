//! `selvedge rebalance`: has a running manager rebalance, or prints the changes.

use clap::Args;
use selvedge_api::{Rebalance, RebalanceRequest};

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out, count, thousands};

/// Have a running manager rebalance load after links were lost or came back, in steps of a bounded size.
#[derive(Args, Debug)]
pub struct RebalanceArgs {
    /// Only print the changes
    #[arg(long)]
    dry_run: bool,
    /// In one change, with whatever waits that takes, instead of steps of rebalance_blocks
    #[arg(long)]
    at_once: bool,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: Format,
}

impl RebalanceArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs the command.
pub fn run(args: &RebalanceArgs) -> Result<Exit, CliError> {
    let request = RebalanceRequest {
        dry_run: args.dry_run,
        at_once: args.at_once,
    };
    let answer = args.socket.client().rebalance(request)?;
    let mut out = Out::new(args.format);
    if args.format.json {
        out.document(answer)?;
    } else {
        out.grid(&grid(&answer))?;
        if args.format.is_text() {
            out.line(format!("\n{}", verdict(&answer)))?;
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}

fn grid(answer: &Rebalance) -> Grid {
    let mut grid = Grid::new(&["figure", "before", "after"]);
    let (before, after) = (&answer.load_before, &answer.load_after);
    let mut row = |key: &str, words: &str, before: Cell, after: Cell| {
        grid.row([Cell::label(key, words), before, after]);
    };
    row(
        "load_max",
        "host pairs on the busiest link",
        before.max.into(),
        after.max.into(),
    );
    let real = |number: f64| Cell::Real(number, 1);
    row("load_mean", "mean of all links", real(before.mean), real(after.mean));
    row("load_sd", "standard deviation", real(before.sd), real(after.sd));
    grid
}

fn verdict(answer: &Rebalance) -> String {
    if !answer.needed {
        return format!("{} would make no better tables: there is nothing to do", answer.engine);
    }
    let what = format!(
        "{} entries in {} change, {} host pairs take another route",
        thousands(answer.entries),
        count(answer.blocks, "LFT block"),
        thousands(answer.pairs_moved)
    );
    let how = match answer.at_once {
        true => "in one change".to_owned(),
        false => format!(
            "in {} at least, of {} at most",
            count(answer.steps, "step"),
            count(answer.blocks_per_step, "block")
        ),
    };
    match answer.started {
        true => format!("{what}, {how}: begun; 'selvedge status' shows how far it is"),
        false => format!("{what}, {how}: nothing was changed"),
    }
}
