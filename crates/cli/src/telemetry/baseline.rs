//! `selvedge telemetry baseline`: counts ports from now on.

use clap::Args;
use selvedge_api::{Baseline, BaselineRequest};
use selvedge_daemon::utc_text;

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Format, Out, count};

/// Count ports from now on: 'telemetry port' shows what they counted since. No device is reset
#[derive(Args, Debug)]
pub struct BaselineArgs {
    /// Name or GUID of the node (default: all nodes)
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// Number of the port (default: all ports of the node)
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..=254))]
    port: Option<u8>,
    /// Count from the first reading on again
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs the command.
pub fn run(args: &BaselineArgs) -> Result<Exit, CliError> {
    let request = BaselineRequest {
        node: args.node.clone(),
        port: args.port,
        clear: args.clear,
    };
    let baseline = args.socket.client().set_baseline(&request)?;
    let mut out = Out::new(args.format);
    match args.format {
        Format { json: true, .. } => out.document(baseline)?,
        Format { csv: true, .. } => {
            let mut facts = crate::out::Facts::new();
            facts.add("at_ms", baseline.at_ms);
            facts.add("ports", baseline.ports);
            facts.add("stored", baseline.stored);
            out.facts(&facts)?;
        }
        _ => out.line(text(&baseline))?,
    }
    out.flush()?;
    Ok(Exit::Good)
}

fn text(baseline: &Baseline) -> String {
    let ports = count(baseline.ports, "port");
    let stored = match baseline.stored {
        true => "",
        false => "; not stored, so only until the manager ends (it has no state folder)",
    };
    match baseline.at_ms {
        Some(ms) => format!("{ports}: counted from {} on{stored}", utc_text(ms)),
        None => format!("{ports}: counted from the first reading on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_from_when_on_and_how_long() {
        let mut baseline = Baseline {
            at_ms: Some(1_600_000_000_000),
            ports: 2,
            stored: true,
        };
        assert_eq!(text(&baseline), "2 ports: counted from 2020-09-13T12:26:40.000Z on");
        baseline.stored = false;
        assert!(text(&baseline).contains("only until the manager ends"));
        baseline.at_ms = None;
        assert_eq!(text(&baseline), "2 ports: counted from the first reading on");
    }
}
