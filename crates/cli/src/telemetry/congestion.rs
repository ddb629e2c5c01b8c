//! `selvedge telemetry congestion`: the links that ports wait for, and pictures of loads.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use selvedge_api::{Congestion, CongestionQuery, CongestionTree, End, PictureQuery, Shade};

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::load::write;
use crate::out::{Cell, Format, Grid, Out, count};

/// Hosts that text names of each tree.
const NAMED: usize = 8;

/// What the colours of a heat map show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// The share of time in which ports wait
    #[default]
    Wait,
    /// The share of the capacity that ports send
    Load,
}

/// Show which links ports wait for, and which hosts and pairs of hosts these links slow down
#[derive(Args, Debug)]
pub struct CongestionArgs {
    /// How many links are shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: u64,
    /// List so many pairs of hosts with a route over each link
    #[arg(long, value_name = "N")]
    pairs: Option<u64>,
    /// Write a heat map of leaf and spine switches, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// What the heat map shows
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Wait, requires = "svg")]
    colour: By,
    /// Write the switches, with loads and errors of the links between them, as a Graphviz graph
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// The graph has hosts, too
    #[arg(long, requires = "dot")]
    with_hosts: bool,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs the command.
pub fn run(args: &CongestionArgs) -> Result<Exit, CliError> {
    let client = args.socket.client();
    for (dot, path) in [(false, &args.svg), (true, &args.dot)] {
        let Some(path) = path else { continue };
        let query = PictureQuery {
            dot,
            by: match args.colour {
                By::Wait => Shade::Wait,
                By::Load => Shade::Load,
            },
            hosts: args.with_hosts,
        };
        write(path, &client.text("telemetry/picture", &query.parameters())?)?;
    }
    let query = CongestionQuery {
        limit: Some(args.top),
        pairs: args.pairs,
    };
    let congestion: Congestion = client.select("telemetry/congestion", &query.parameters())?;
    let mut out = Out::new(args.format);
    match args.format {
        Format { json: true, .. } => out.document(congestion)?,
        Format { csv: true, .. } => match args.pairs {
            Some(_) => out.grid(&pairs(&congestion.trees))?,
            None => out.grid(&table(&congestion.trees))?,
        },
        _ => text(&mut out, &congestion, args.pairs.is_some())?,
    }
    out.flush()?;
    Ok(Exit::Good)
}

fn text(out: &mut Out, congestion: &Congestion, with_pairs: bool) -> Result<(), CliError> {
    out.line(summary(congestion))?;
    if congestion.trees.is_empty() {
        return Ok(());
    }
    out.grid(&table(&congestion.trees))?;
    for tree in congestion.trees.iter().filter(|tree| !tree.hosts.is_empty()) {
        let title = format!("\"{}\"[{}]", tree.root.node_name, tree.root.port);
        let title = out.bold(&title);
        out.line(format!("{title} slows down {}", hosts(&tree.hosts)))?;
    }
    match with_pairs {
        true => {
            out.line("")?;
            out.grid(&pairs(&congestion.trees))
        }
        false => Ok(()),
    }
}

fn summary(congestion: &Congestion) -> String {
    match (congestion.traced_ms, congestion.waiting, congestion.trees_found) {
        (None, ..) => "not known yet: loads need two slots".to_owned(),
        (_, 0, 0) => "no port waits".to_owned(),
        (_, waiting, 0) => format!(
            "{}, and no link is to blame: the load is heavy and even",
            waits(waiting)
        ),
        (_, waiting, trees) => format!(
            "{}: {} for {}, {} for no single link{}",
            waits(waiting),
            waiting.saturating_sub(congestion.without_root.len() as u64),
            count(trees, "link"),
            congestion.without_root.len(),
            match congestion.horizon {
                Some(hops) => format!(
                    "; so many wait for so many that trees end after {}",
                    count(hops.into(), "link")
                ),
                None => String::new(),
            }
        ),
    }
}

fn waits(ports: u64) -> String {
    let wait = if ports == 1 { "waits" } else { "wait" };
    format!("{} {wait}", count(ports, "port"))
}

/// Returns hosts by name: the first, and how many more there are.
fn hosts(ends: &[End]) -> String {
    let named: Vec<&str> = ends.iter().take(NAMED).map(|end| end.node_name.as_str()).collect();
    match ends.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn percent(ppm: u64) -> Cell {
    Cell::Real(ppm as f64 / 1e4, 1)
}

fn table(trees: &[CongestionTree]) -> Grid {
    let mut grid = Grid::new(&[
        "node",
        "port",
        "to",
        "to_port",
        "cause",
        "load_percent",
        "wait_percent",
        "waiting_ports",
        "hosts",
        "pairs",
    ]);
    for tree in trees {
        grid.row([
            (&tree.root.node_name).into(),
            Cell::id(tree.root.port),
            (&tree.to.node_name).into(),
            Cell::id(tree.to.port),
            tree.cause.replace('_', " ").into(),
            percent(tree.load_ppm),
            percent(tree.wait_ppm),
            (tree.waiting.len() as u64).into(),
            (tree.hosts.len() as u64).into(),
            tree.pairs_found.into(),
        ]);
    }
    grid.lose_first(&["to_port", "wait_percent", "hosts"])
}

fn pairs(trees: &[CongestionTree]) -> Grid {
    let mut grid = Grid::new(&["node", "port", "from", "to", "lid"]);
    for tree in trees {
        for pair in &tree.pairs {
            grid.row([
                (&tree.root.node_name).into(),
                Cell::id(tree.root.port),
                (&pair.from).into(),
                (&pair.to).into(),
                Cell::id(pair.lid),
            ]);
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use selvedge_api::{CrossingPair, WaitingPort};
    use selvedge_types::Guid;

    use super::*;

    fn end(guid: u64, name: &str, port: u8) -> End {
        End {
            node_guid: Guid(guid),
            node_name: name.to_owned(),
            port,
        }
    }

    fn tree() -> CongestionTree {
        let waits = |port| WaitingPort {
            port,
            hops: 1,
            load_ppm: 100_000,
            wait_ppm: 500_000,
        };
        CongestionTree {
            root: end(1, "leaf 1", 7),
            to: end(2, "H-5", 1),
            cause: "slow_receiver".to_owned(),
            load_ppm: 250_000,
            wait_ppm: 743_210,
            waiting: vec![waits(end(3, "H-1", 1)), waits(end(4, "leaf 2", 9))],
            hosts: vec![end(3, "H-1", 1)],
            pairs_found: 31,
            pairs: vec![CrossingPair {
                from_guid: Guid(3),
                from: "H-1".to_owned(),
                to_guid: Guid(2),
                to: "H-5".to_owned(),
                lid: 12,
            }],
        }
    }

    #[test]
    fn trees_and_pairs_are_tables() {
        let csv = table(&[tree()]).csv();
        let row = csv.lines().nth(1);
        assert_eq!(row, Some("leaf 1,7,H-5,1,slow receiver,25,74.321,2,1,31"));
        assert_eq!(pairs(&[tree()]).csv().lines().nth(1), Some("leaf 1,7,H-1,H-5,12"));
    }

    #[test]
    fn a_line_says_how_many_wait_for_what() {
        let check = |congestion: Congestion, want: &str| assert_eq!(summary(&congestion), want);
        check(Congestion::default(), "not known yet: loads need two slots");
        let quiet = Congestion {
            traced_ms: Some(1),
            ..Congestion::default()
        };
        check(quiet.clone(), "no port waits");
        let even = Congestion {
            waiting: 1,
            ..quiet.clone()
        };
        let want = "1 port waits, and no link is to blame: the load is heavy and even";
        check(even, want);
        let congested = Congestion {
            waiting: 12,
            trees_found: 1,
            ..quiet
        };
        check(congested.clone(), "12 ports wait: 12 for 1 link, 0 for no single link");
        let everywhere = Congestion {
            horizon: Some(2),
            ..congested
        };
        let want = "12 ports wait: 12 for 1 link, 0 for no single link; so many wait for so many that trees end after \
                    2 links";
        check(everywhere, want);
        let many: Vec<End> = (0..10).map(|at| end(at, &format!("H-{at}"), 1)).collect();
        assert_eq!(hosts(&many), "H-0, H-1, H-2, H-3, H-4, H-5, H-6, H-7 and 2 more");
        assert_eq!(hosts(&many[..2]), "H-0, H-1");
    }
}
