//! `selvedge demo`: a fabric comes up, loses a link and gets it back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use selvedge_api::{Events, FaultRequest, Links, Severity};
use selvedge_daemon::{Door, EmulationOptions, Manager, Options, Running, Service as _, start};
use selvedge_http::HttpError;
use selvedge_sm::Mode;
use selvedge_types::NodeKind;

use crate::exit::{CliError, Exit};
use crate::fault::ENDS;
use crate::out::{Format, Out};
use crate::progress::{self, BarLog};
use crate::{fault, load, report};

/// See it work, in seconds: 324 emulated hosts come up, a link is cut, routes change, the link comes back.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Another fabric: a generator or a file
    #[arg(long, value_name = "SPEC", default_value = "sx6536")]
    fabric: String,
}

/// Longest wait for prepared repairs; if none can be prepared, a sweep handles a fault.
const PREPARED_WAIT: Duration = Duration::from_secs(10);

/// What hosts send: little enough for every route to carry it.
const LOAD: &str = "load uniform 40%";

/// Runs the command.
pub fn run(args: &DemoArgs) -> Result<Exit, CliError> {
    let mut out = Out::new(Format::default());
    let fabric = load::fabric(&args.fabric)?;
    let (switches, hosts) = (fabric.switches().len(), fabric.host_count());
    let links = fabric.links().count();
    out.line(out.bold(&format!(
        "{}: {switches} switches, {hosts} hosts, {links} links, emulated in this process",
        args.fabric
    )))?;
    out.flush()?;
    let bar = progress::bar();
    let running = start(Options {
        log: Box::new(BarLog::new(bar.clone(), Severity::Error)),
        ..Options::new(
            Mode::Manage,
            Door::Emulated {
                fabric: Arc::new(fabric),
                options: EmulationOptions::default(),
                name: args.fabric.clone(),
            },
        )
    })?;
    progress::follow(&bar, &running, |manager| settled(&manager.events(0)));
    let story = tell(&mut out, &running, args);
    running.manager.stop();
    running.join()?;
    story
}

fn tell(out: &mut Out, running: &Running, args: &DemoArgs) -> Result<Exit, CliError> {
    let manager = &running.manager;
    heading(out, "1. It comes up: discovered, planned, judged, applied.")?;
    if !come_up(out, manager)? {
        return Ok(Exit::NotGood);
    }
    let request = FaultRequest { fault: LOAD.to_owned() };
    manager.fault(&request).map_err(HttpError::from)?;
    out.line(format!("  $ selvedge fault '{LOAD}'    hosts send, and counters move"))?;
    out.flush()?;
    let links = manager.links().map_err(HttpError::from)?;
    if let Some(port) = cable_between_switches(manager, &links)? {
        heading(
            out,
            "2. A link is cut. The switches send traps; only what must change is changed.",
        )?;
        inject(out, running, &format!("cut {port}"))?;
        judged(out, manager)?;
        heading(out, "3. The link comes back.")?;
        inject(out, running, &format!("restore {port}"))?;
        judged(out, manager)?;
    }
    heading(out, "What to try next")?;
    let spec = &args.fabric;
    out.line(format!(
        "  selvedge run --fabric {spec}          in one terminal: the same, until you end it"
    ))?;
    out.line(
        "  selvedge status                       in another: how it is doing; also: status ports, events, findings",
    )?;
    out.line("  selvedge fault kill NODE              break something; names: selvedge status nodes")?;
    out.line(format!(
        "  selvedge emulate --fabric {spec}      the same fabric for OpenSM and infiniband-diags"
    ))?;
    out.line("  selvedge run --port CA/N --dry-run    a real fabric: what would be done, without a single Set")?;
    out.flush()?;
    Ok(if manager.view().is_up() {
        Exit::Good
    } else {
        Exit::NotGood
    })
}

fn heading(out: &mut Out, text: &str) -> Result<(), CliError> {
    let text = format!("\n{}", out.bold(text));
    out.line(text)
}

fn come_up(out: &mut Out, manager: &Manager) -> Result<bool, CliError> {
    let status = manager.status().map_err(HttpError::from)?;
    let view = manager.view();
    for line in report::lines(&status, view.verdict.as_deref()) {
        out.line(format!("  {line}"))?;
    }
    out.flush()?;
    Ok(status.up)
}

/// Returns a port between two switches, named as in a fault.
fn cable_between_switches(manager: &Manager, links: &Links) -> Result<Option<String>, CliError> {
    let nodes = manager.nodes().map_err(HttpError::from)?.nodes;
    let is_switch = |guid| {
        nodes
            .iter()
            .any(|node| node.guid == guid && node.kind == NodeKind::Switch)
    };
    let cable = links
        .links
        .iter()
        .find(|link| is_switch(link.a.node_guid) && is_switch(link.b.node_guid));
    Ok(cable.map(|link| format!("\"{}\"[{}]", link.a.node_name, link.a.port)))
}

/// Breaks or mends a part, once the manager is prepared for it, and prints the effects.
fn inject(out: &mut Out, running: &Running, fault: &str) -> Result<(), CliError> {
    let manager = &running.manager;
    let start = Instant::now();
    progress::follow(&progress::bar(), running, |manager| {
        manager.view().has_repairs_ready || start.elapsed() > PREPARED_WAIT
    });
    out.line(format!("  $ selvedge fault '{fault}'"))?;
    out.flush()?;
    let request = FaultRequest {
        fault: fault.to_owned(),
    };
    let report = manager.fault(&request).map_err(HttpError::from)?;
    // The fault is an event of its own.
    let events = fault::reaction(
        1,
        || Ok(manager.events(report.events_since)),
        || Ok(fault::work(&manager.status().map_err(HttpError::from)?)),
    )?;
    fault::print(out, &events)
}

fn settled(events: &Events) -> bool {
    events.events.iter().any(|event| ENDS.contains(&event.code.as_str()))
}

fn judged(out: &mut Out, manager: &Manager) -> Result<(), CliError> {
    if let Some(verdict) = &manager.view().verdict {
        out.line(format!("  judged    {}", report::judged(verdict)))?;
    }
    out.flush()
}
