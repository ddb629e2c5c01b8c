//! `selvedge run` and `selvedge watch`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use selvedge_api as api;
use selvedge_config::{Against, FlagFile, Settings, SettingsFile, Sources, Verdict, admit};
use selvedge_daemon::{Door, Outcome, Service as _, check_telemetry_files};
use selvedge_plan::LidLayout;
use selvedge_sm::Mode;
use selvedge_types::{Guid, Lmc};

use crate::admission;
use crate::exit::{CliError, Exit};
use crate::keys::KeyArgs;
use crate::manage::{self, DoorArgs, Ended, ProcessArgs};
use crate::opensm::OpenSmArgs;
use crate::out::{Cell, Facts, Format, Out};
use crate::tables_io::{OutputArgs, Results};
use crate::{background, changes, found, report, tables, tables_status};

/// Manage a fabric: discover, plan, judge, apply, and keep it so.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    door: DoorArgs,
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    opensm: OpenSmArgs,
    /// Discover, plan and judge, but send no Set and take no part in elections; implies --once
    #[arg(long)]
    dry_run: bool,
    /// Routing engines in order of preference, as auto or fat-tree,weave (default: auto,updn)
    #[arg(short = 'R', long, value_name = "NAMES", visible_alias = "routing_engine")]
    engine: Option<String>,
    /// GUIDs of roots for updn, fat-tree and ftree, one a line
    #[arg(short = 'a', long, value_name = "FILE", visible_alias = "root_guid_file")]
    roots: Option<PathBuf>,
    /// LIDs per end port, as a power of two (default: 0)
    #[arg(short = 'l', long, value_name = "0-7", value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: Option<u8>,
    /// Order of new LIDs where no port holds one: by-plane (few blocks change when a link of a tree is lost) or
    /// sequential (by node GUID) (default: by-plane)
    #[arg(long, value_name = "LAYOUT")]
    lid_layout: Option<LidLayout>,
    /// Data lanes that packets are put on by their service level (default: 1, SLtoVLMappingTables are left alone)
    #[arg(long, value_name = "1-15", value_parser = clap::value_parser!(u8).range(1..=15))]
    lanes: Option<u8>,
    /// All senders use the service levels of their path records: routes may rely on lanes. DANGER: a sender with
    /// another level can deadlock the fabric
    #[arg(long)]
    assume_sl_aware: bool,
    /// Folder for state between runs (guid2lid)
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// SM priority, 0-15; the highest becomes master (default: 0)
    #[arg(short = 'p', long, value_name = "0-15", value_parser = clap::value_parser!(u8).range(0..=15))]
    priority: Option<u8>,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    format: Format,
}

/// Watch a fabric beside its manager: sends only Gets, sets nothing, takes no part in elections.
#[derive(Args, Debug)]
pub struct WatchArgs {
    #[command(flatten)]
    door: DoorArgs,
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    format: Format,
}

impl RunArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }

    /// Returns how the process runs. A dry run ends after the first sweep.
    pub fn process(&self) -> ProcessArgs {
        ProcessArgs {
            once: self.process.once || self.dry_run,
            ..self.process.clone()
        }
    }

    /// Returns the sources of the settings: a file and these flags.
    pub fn sources(&self, process: &ProcessArgs) -> Sources {
        let mut sources = process.sources();
        if let Some(path) = &self.opensm.opensm_conf {
            sources.file = SettingsFile::OpenSm(path.clone());
        }
        sources.skips_refused = self.opensm.skip_refused;
        sources.engines.clone_from(&self.engine);
        sources.flags.extend(self.opensm.files());
        self.keys.give(&mut sources);
        let roots = self.roots.iter();
        sources
            .flags
            .extend(roots.map(|path| ("-a", FlagFile::Roots, path.clone())));
        let (args, process) = (self.clone(), process.clone());
        sources.overrule = Arc::new(move |settings| args.over(&process, settings));
        sources
    }

    /// Applies the flags that name no file to settings.
    fn over(&self, process: &ProcessArgs, settings: &mut Settings) {
        process.over(settings);
        let policy = &mut settings.policy;
        self.opensm.over(policy);
        if let Some(lmc) = self.lmc.and_then(Lmc::new) {
            policy.lmc = lmc;
        }
        policy.used_lanes = self.lanes.unwrap_or(policy.used_lanes);
        policy.assume_sl_aware |= self.assume_sl_aware;
        policy.lid_layout = self.lid_layout.unwrap_or(policy.lid_layout);
        if let Some(flags) = self.opensm.log_flags {
            settings.daemon.dump_routes = flags & selvedge_config::OPENSM_LOG_ROUTING != 0;
            settings
                .daemon
                .dump_dir
                .get_or_insert_with(selvedge_config::opensm_dump_dir);
        }
        settings.manager.priority = self.priority.unwrap_or(settings.manager.priority);
        settings.daemon.state_dir = self.state.clone().or(settings.daemon.state_dir.take());
    }
}

impl RunArgs {
    /// Returns the access to the fabric: that of the flags, otherwise the local port with the GUID in OpenSM's file.
    fn door(&self, port_guid: Option<Guid>) -> DoorArgs {
        let mut door = self.door.clone();
        if door.port.is_none() && door.fabric.is_none() {
            let guid = self.opensm.guid.or(port_guid);
            door.port = guid.map(|guid| guid.to_string());
        }
        door
    }

    /// Returns the verdict of the check of a start, and the access to the fabric, which the check has read.
    pub fn judged(&self, sources: &Sources) -> (Verdict, Result<Door, CliError>) {
        let verdict = admit(sources, Against::Start);
        let way = self.door(verdict.port_guid);
        let door = way.door();
        let telemetry_files = check_telemetry_files(&verdict.settings).map_err(CliError::from);
        let flags = [
            (way.flag(), manage::checked(door.as_ref())),
            ("--record", self.process.check()),
            ("--expected", self.process.check_expected()),
            ("[telemetry]", telemetry_files),
            ("output files", self.outputs.check()),
        ];
        (admission::with_flags(verdict, flags), door)
    }
}

impl WatchArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs `selvedge run`.
pub fn run(args: &RunArgs) -> Result<Exit, CliError> {
    if args.opensm.check_config {
        let (verdict, _) = args.judged(&args.sources(&args.process()));
        return admission::show(&verdict, args.format);
    }
    match started(args)? {
        Started::Ended(ended) => finish(&ended, &args.process(), &args.outputs, args.format),
        Started::Background(exit) => Ok(exit),
    }
}

/// The result of a start.
pub enum Started {
    /// The manager has ended.
    Ended(Box<Ended>),
    /// The manager runs in the background, or could not start there. Holds the exit of this process.
    Background(Exit),
}

/// Starts a manager. Returns when it has ended, or when it runs in the background.
pub fn started(args: &RunArgs) -> Result<Started, CliError> {
    let process = args.process();
    let sources = args.sources(&process);
    let (verdict, door) = args.judged(&sources);
    let verdict = admission::start(verdict)?;
    if args.opensm.background
        && let Some(exit) = background::begin(&verdict.settings)?
    {
        return Ok(Started::Background(exit));
    }
    let mode = if args.dry_run { Mode::DryRun } else { Mode::Manage };
    let ended = manage::run(mode, door?, (verdict, sources), &process)?;
    Ok(Started::Ended(Box::new(ended)))
}

/// Runs `selvedge watch`.
pub fn watch(args: &WatchArgs) -> Result<Exit, CliError> {
    let mut sources = args.process.sources();
    KeyArgs::default().give(&mut sources);
    let door = args.door.door();
    let flags = [
        (args.door.flag(), manage::checked(door.as_ref())),
        ("--record", args.process.check()),
    ];
    let verdict = admission::start(admission::with_flags(admit(&sources, Against::Start), flags))?;
    let ended = manage::run(Mode::Watch, door?, (verdict, sources), &args.process)?;
    finish(&ended, &args.process, &OutputArgs::default(), args.format)
}

fn finish(ended: &Ended, process: &ProcessArgs, outputs: &OutputArgs, format: Format) -> Result<Exit, CliError> {
    let (fabric, view) = ended.running.named();
    let written = match (&fabric, &view.plan) {
        (Some(fabric), Some(plan)) => outputs.write(Results {
            fabric,
            lids: &plan.lids,
            tables: &plan.tables,
            service_levels: plan.told_levels(),
            sl_to_vl: &plan.lanes_of_ports(fabric),
        }),
        _ => Ok(()),
    };
    let exit = manage::exit(ended, process.once);
    if process.once || !format.is_text() {
        print(ended, exit, format)?;
    }
    written.map(|()| exit)
}

fn print(ended: &Ended, exit: Exit, format: Format) -> Result<(), CliError> {
    let manager = &ended.running;
    let status = manager.status().map_err(selvedge_http::HttpError::from)?;
    let mut out = Out::new(format);
    let interrupted = exit == Exit::Interrupted;
    if format.json {
        out.document(api::Run {
            outcome: if interrupted {
                "interrupted"
            } else {
                ended.outcome.name()
            }
            .to_owned(),
            exit_code: exit as u8,
            status,
            ports_not_active: manager.ports_not_active(),
            hosts_not_found: ended.not_found.clone(),
            would_send: manager.dry_run_sets(),
            found_tables: found::tables(ended)?,
        })?;
        return out.flush();
    }
    if format.csv {
        let mut facts = Facts::new();
        let word = if interrupted {
            "interrupted"
        } else {
            ended.outcome.name()
        };
        facts.add("outcome", word);
        facts.add("exit_code", Cell::id(exit as u8));
        facts.add("hosts_not_found", ended.not_found.len());
        facts.append(tables_status::status(&status));
        out.facts(&facts)?;
        return out.flush();
    }
    for line in report::lines(&status, ended.view.verdict.as_deref()) {
        out.line(line)?;
    }
    if let Some(tables) = found::tables(ended)? {
        found::lines(&tables).into_iter().try_for_each(|line| out.line(line))?;
    }
    if let Some(line) = report::not_found(&ended.not_found) {
        out.line(line)?;
    }
    if !status.ports_not_active.is_empty() {
        out.line("")?;
        out.grid(&tables::reasons(&status.ports_not_active))?;
    }
    let sets = manager.dry_run_sets();
    if !sets.is_empty() {
        out.line("\nwhat the plan would set (--json lists each Set):")?;
        out.grid(&changes::nodes(&sets))?;
    }
    crate::health::list(&mut out, &status.health, format)?;
    let verdict = match ended.outcome {
        _ if interrupted => out.bad(&report::interrupted(&status)),
        Outcome::Good => out.good("good"),
        Outcome::NotGood => out.bad("not good: see above"),
        Outcome::Unmanaged => out.bad("unmanaged: no manager has set this fabric up"),
        Outcome::Standby => out.bad("another manager is master: nothing was changed"),
        Outcome::Refused => out.bad("refused: nothing was changed, see the events above"),
        Outcome::NoFabric => out.bad("no fabric: the local port is down or its node does not answer"),
    };
    out.line(format!("\n{verdict}"))?;
    out.flush()
}
