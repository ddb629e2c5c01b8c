//! `selvedge drain`, `isolate` and `enable` take switches, links and ports out of service, and put them back.
//! `selvedge status out-of-service` lists them.

use clap::Args;
use selvedge_api::{OutOfService, OutOfServiceChange, OutOfServiceRequest};
use selvedge_daemon::utc_text;

use crate::ask::AskArgs;
use crate::changes;
use crate::exit::{CliError, Exit};
use crate::out::{Grid, count, thousands};

/// Flags of commands that take something out of service.
#[derive(Args, Debug)]
struct TakeOut {
    /// A switch or host by name or GUID, or a link by one of its ends
    #[arg(
        value_name = "NAME",
        help = "A switch or host by name or GUID, or a link or port as '\"leaf 1\"[3]'"
    )]
    name: String,
    /// Only print which hosts would lose their connection, and list the Sets
    #[arg(long)]
    dry_run: bool,
    /// Make the change even if hosts lose their last connection
    #[arg(long)]
    force: bool,
    /// Why, for the list of places out of service
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    ask: AskArgs,
}

/// Lead no packets of hosts over a switch, link or port any more; its links stay up
#[derive(Args, Debug)]
pub struct DrainArgs {
    #[command(flatten)]
    what: TakeOut,
}

/// Drain a switch, link or port, then disable the ports that lead to it
#[derive(Args, Debug)]
pub struct IsolateArgs {
    #[command(flatten)]
    what: TakeOut,
}

/// Put a switch, link or port back into service that was drained or isolated
#[derive(Args, Debug)]
pub struct EnableArgs {
    /// The place, as for `drain`
    #[arg(
        value_name = "NAME",
        help = "A switch or host by name or GUID, or a link or port as '\"leaf 1\"[3]'"
    )]
    name: String,
    /// Only list the Sets, and print what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    ask: AskArgs,
}

impl DrainArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.what.ask.json()
    }
}

impl IsolateArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.what.ask.json()
    }
}

impl EnableArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.ask.json()
    }
}

/// Runs `selvedge drain`.
pub fn drain(args: &DrainArgs) -> Result<Exit, CliError> {
    take_out(&args.what, "drain")
}

/// Runs `selvedge isolate`.
pub fn isolate(args: &IsolateArgs) -> Result<Exit, CliError> {
    take_out(&args.what, "isolate")
}

/// Runs `selvedge enable`.
pub fn enable(args: &EnableArgs) -> Result<Exit, CliError> {
    let request = OutOfServiceRequest {
        place: args.name.clone(),
        service: "enable".to_owned(),
        dry_run: args.dry_run,
        ..OutOfServiceRequest::default()
    };
    change(&args.ask, &request)
}

fn take_out(args: &TakeOut, service: &str) -> Result<Exit, CliError> {
    let request = OutOfServiceRequest {
        place: args.name.clone(),
        service: service.to_owned(),
        dry_run: args.dry_run,
        force: args.force,
        reason: args.reason.clone(),
    };
    change(&args.ask, &request)
}

fn change(ask: &AskArgs, request: &OutOfServiceRequest) -> Result<Exit, CliError> {
    let answer = ask.client().change_service(request)?;
    let mut out = ask.out();
    if ask.json() {
        out.document(answer)?;
    } else {
        changes::list(&mut out, &answer.sets)?;
        text(&answer).into_iter().try_for_each(|line| out.line(line))?;
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Returns the answer as text: first the places, then losses, then the plan.
fn text(answer: &OutOfServiceChange) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", answer.service, answer.places.join(", "))];
    let hosts = &answer.hosts_cut;
    lines.push(match hosts.len() {
        0 => "no host loses a connection".to_owned(),
        number => format!(
            "{} of hosts: connection lost: {}",
            count(number as u64, "port"),
            first(hosts)
        ),
    });
    if !answer.hosts_alone.is_empty() {
        let alone = answer.hosts_alone.len() as u64;
        lines.push(format!(
            "{} without any other connection: {}",
            count(alone, "host"),
            first(&answer.hosts_alone)
        ));
    }
    match &answer.figures {
        Some(figures) => {
            lines.push(format!(
                "{} entries change in {} by {}, {} host pairs take another route",
                thousands(figures.entries),
                count(figures.sets, "Set"),
                figures.engine,
                thousands(figures.pairs_moved)
            ));
            lines.push(format!(
                "host pairs on the busiest link: {} now, {} afterwards",
                thousands(figures.load_max_before),
                thousands(figures.load_max_after)
            ));
        }
        None => lines.push("this manager is not master: it lists the place, and uses the list as master".to_owned()),
    }
    if !answer.ports.is_empty() {
        let verb = if answer.service == "isolate" {
            "disabled"
        } else {
            "enabled"
        };
        lines.push(format!("ports to be {verb}: {}", first(&answer.ports)));
        if !answer.sets.is_empty() && answer.service != "isolate" {
            lines.push("what is behind them is not seen yet, and its Sets are not listed".to_owned());
        }
    }
    lines.push(match answer.started {
        true => "begun; 'selvedge status out-of-service' shows how far it is".to_owned(),
        false => "nothing was changed".to_owned(),
    });
    lines
}

/// Largest number of names in a line.
const NAMED: usize = 8;

fn first(names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(NAMED).cloned().collect();
    if names.len() > NAMED {
        shown.push(format!("and {} more", names.len() - NAMED));
    }
    shown.join(", ")
}

/// Returns the list as a table.
pub fn list(list: &OutOfService) -> Grid {
    let mut grid = Grid::new(&["service", "state", "kind", "name", "since", "reason", "id"]);
    for place in &list.places {
        grid.row([
            (&place.service).into(),
            (&place.state).into(),
            (&place.kind).into(),
            (&place.name).into(),
            utc_text(place.since_ms).into(),
            (&place.reason).into(),
            (&place.id).into(),
        ]);
    }
    grid.lose_first(&["id", "reason"])
}

#[cfg(test)]
mod tests {
    use selvedge_api::OutOfServiceFigures;

    use super::*;

    fn answer(cut: usize, started: bool) -> OutOfServiceChange {
        OutOfServiceChange {
            service: "isolate".to_owned(),
            places: vec!["\"leaf 1\"".to_owned()],
            started,
            hosts_cut: (0..cut).map(|n| format!("\"h{n}\"[1]")).collect(),
            hosts_alone: (0..cut).map(|n| format!("h{n}")).collect(),
            ports: vec!["\"spine 1\"[3]".to_owned()],
            figures: started.then(|| OutOfServiceFigures {
                engine: "fat-tree".to_owned(),
                pairs_moved: 1_200,
                entries: 40,
                sets: 1,
                load_max_before: 10,
                load_max_after: 12,
            }),
            sets: Vec::new(),
        }
    }

    #[test]
    fn losses_come_before_figures() {
        let check = |answer: &OutOfServiceChange, want: &[&str]| {
            let lines = text(answer);
            assert_eq!(lines.len(), want.len(), "{lines:?}");
            for (line, want) in lines.iter().zip(want) {
                assert!(line.contains(want), "{line} has no {want}");
            }
        };
        check(
            &answer(0, true),
            &[
                "isolate: \"leaf 1\"",
                "no host loses",
                "40 entries change in 1 Set by fat-tree, 1,200 host pairs",
                "10 now, 12 afterwards",
                "ports to be disabled: \"spine 1\"[3]",
                "begun",
            ],
        );
        check(
            &answer(10, false),
            &[
                "isolate",
                "10 ports of hosts: connection lost: \"h0\"[1]",
                "10 hosts without any other connection: h0, h1, h2, h3, h4, h5, h6, h7, and 2 more",
                "not master",
                "ports to be disabled",
                "nothing was changed",
            ],
        );
    }
}
