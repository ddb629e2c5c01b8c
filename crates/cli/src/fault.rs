//! `selvedge fault`: breaks a part of a running emulator and shows the effects.

use std::time::{Duration, Instant};

use clap::Args;
use selvedge_api::{Events, FaultRequest, Severity, Stage, Status};
use selvedge_emulator::{FAULT_FORMS, FAULT_WORDS, FaultForm};
use selvedge_http::Client;

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Format, Out, note};
use crate::tables;

/// Break a part of a running emulator, or mend it, and show the manager's reaction.
#[derive(Args, Debug)]
#[command(after_help = forms())]
pub struct FaultArgs {
    /// The fault, see below
    #[arg(value_name = "FAULT", required = true)]
    fault: Vec<String>,
    /// Do not wait for the effects
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: Format,
}

/// Returns every fault with its effect. The parser uses the same table.
fn forms() -> String {
    let widest = FAULT_FORMS.iter().map(|of| of.form.len()).max().unwrap_or(0);
    let line = |of: &FaultForm| format!("  {:widest$}  {}\n", of.form, of.what);
    let lines: String = FAULT_FORMS.iter().map(line).collect();
    format!(
        "FAULT is one of:\n{lines}{FAULT_WORDS}.\n\
         Names with blanks stand in double quotes: selvedge fault 'cut \"leaf 1\"[20]'"
    )
}

/// Longest time for the manager to notice the fault. Traps take far less; light sweeps are not awaited. After that, the
/// manager's reaction is over when it has had no events and no work for this time.
const NOTICE_WAIT: Duration = Duration::from_secs(1);
/// Time after which a message on standard error names what the command waits for.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// How long it may take until switches have all tables again.
const SETTLE_WAIT: Duration = Duration::from_secs(60);
/// How much later the changes in the tables may be reported, because another thread compares them.
const COMPARED_WAIT: Duration = Duration::from_millis(500);
/// How often the manager is asked for events.
const INTERVAL: Duration = Duration::from_millis(20);

/// Events that end a reaction: SUBNET UP, with errors, or no plan.
pub const ENDS: [&str; 3] = ["SLV-SM-0007", "SLV-SM-0008", "SLV-SM-0006"];

/// A plan was accepted; its changes in the tables, if any.
const ACCEPTED: &str = "SLV-SM-0004";
const COMPARED: &str = "SLV-DAEMON-0107";

impl FaultArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs the command.
pub fn run(args: &FaultArgs) -> Result<Exit, CliError> {
    let emulator = args.socket.emulator();
    // If the emulator has no manager inside, the one on the default socket reports its reaction.
    let inside = emulator.get::<Status>("status").is_ok();
    let observer = if inside || args.socket.socket.is_some() {
        emulator.clone()
    } else {
        args.socket.client()
    };
    let has_manager = inside || observer.get::<Status>("status").is_ok();
    let last = |client: &Client| client.get::<Events>("events").map(|events| events.last);
    let since = if has_manager { last(&observer)? } else { 0 };
    let request = FaultRequest {
        fault: args.fault.join(" "),
    };
    let report = emulator.fault(&request)?;
    let events = match (has_manager, args.no_wait) {
        (true, false) => reaction(
            usize::from(inside),
            || Ok(observer.get(&format!("events?since={since}"))?),
            || Ok(work(&observer.get::<Status>("status")?)),
        )?,
        (true, true) => observer.get(&format!("events?since={since}"))?,
        (false, _) => Events {
            last: 0,
            dropped: 0,
            events: Vec::new(),
        },
    };
    let mut out = Out::new(args.format);
    if args.format.json {
        out.document(events)?;
    } else if args.format.csv {
        out.grid(&tables::events(&events))?;
    } else {
        if !inside {
            out.line(format!("done: {}", report.done))?;
        }
        print(&mut out, &events)?;
        if has_manager && events.events.len() <= usize::from(inside) {
            out.line("nothing else happened so far")?;
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Returns what a manager is doing, as text; `None` if it is idle.
pub fn work(status: &Status) -> Option<String> {
    let progress = &status.progress;
    let is_idle = status.stage == Stage::Idle && status.application.is_none();
    (!is_idle).then(|| match progress.total {
        0 => status.stage.to_string(),
        total => format!("{}, {} of {total} done", status.stage, progress.done),
    })
}

/// Returns events from `ask` once the manager has handled the fault, or is idle without any reaction. The first `own`
/// events are the fault itself; `work` returns what the manager is doing.
///
/// # Errors
///
/// Returns the errors of `ask` and `work`.
pub fn reaction(
    own: usize,
    ask: impl Fn() -> Result<Events, CliError>,
    work: impl Fn() -> Result<Option<String>, CliError>,
) -> Result<Events, CliError> {
    let start = Instant::now();
    let mut settled_at: Option<Instant> = None;
    let (mut last_event, mut events_so_far) = (start, own);
    let mut is_silent = true;
    loop {
        let events = ask()?;
        if events.events.len() > events_so_far {
            (last_event, events_so_far) = (Instant::now(), events.events.len());
        }
        let settled = events.events.iter().any(|event| ENDS.contains(&event.code.as_str()));
        if settled {
            settled_at.get_or_insert_with(Instant::now);
        }
        let has = |code: &str| events.events.iter().any(|event| event.code == code);
        let is_told = has(COMPARED) || !has(ACCEPTED);
        if settled_at.is_some_and(|at| is_told || at.elapsed() > COMPARED_WAIT) || start.elapsed() > SETTLE_WAIT {
            return Ok(events);
        }
        if last_event.elapsed() > NOTICE_WAIT {
            match work()? {
                None => return Ok(events),
                Some(work) if is_silent && start.elapsed() > SILENCE_MAX => {
                    is_silent = false;
                    note(format!("selvedge: waits for the manager ({work}); --no-wait does not"));
                }
                Some(_) => {}
            }
        }
        std::thread::park_timeout(INTERVAL);
    }
}

/// Largest number of events of one kind in a row that are printed. Further ones are only counted; `--json` has all.
const RUN_MAX: usize = 5;

/// Returns the time since the start as text, such as `12.345 ms`.
fn after(start_ns: u64, time_ns: u64) -> String {
    let micros = time_ns.saturating_sub(start_ns) / 1_000;
    format!("{:>5}.{:03} ms", micros / 1_000, micros % 1_000)
}

/// Prints events with the time since the first of them, in the order of time: the fault may be reported after its
/// effects.
pub fn print(out: &mut Out, events: &Events) -> Result<(), CliError> {
    let mut events = events.events.clone();
    events.sort_by_key(|event| event.uptime_ns);
    let Some(first) = events.first() else {
        return Ok(());
    };
    for run in events.chunk_by(|a, b| a.code == b.code) {
        for event in run.iter().take(RUN_MAX) {
            let text = match event.severity {
                Severity::Info => event.text.clone(),
                Severity::Warning => out.bold(&event.text),
                Severity::Error => out.bad(&event.text),
            };
            let time = after(first.uptime_ns, event.uptime_ns);
            out.line(format!("{}  {text}", out.dim(&time)))?;
        }
        if let Some(event) = run.get(RUN_MAX) {
            let time = after(first.uptime_ns, event.uptime_ns);
            out.line(format!("{}  {} more like this", out.dim(&time), run.len() - RUN_MAX))?;
        }
    }
    Ok(())
}
