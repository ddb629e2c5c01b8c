//! The requests of front ends to a running process.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use selvedge_api::{
    Baseline, BaselineRequest, Check, CheckRequest, CounterQuery, Error, ErrorKind, Events, FaultReport, FaultRequest,
    Findings, ForgetRequest, Forgotten, Health, Links, LocalPort, MetricSets, MetricsQuery, Nodes, OutOfService,
    OutOfServiceChange, OutOfServiceRequest, Partitions, Plan, PolicyChange, PolicyChanges, Ports, Progress, Rebalance,
    RebalanceRequest, RefusedPlan, SeriesQuery, SetQuery, SliceQuery, Status, StoredEventQuery, StoredEvents,
    Telemetry, TelemetryHistory, TelemetryPorts, TelemetrySeries, TelemetrySlice, Topology, TopologyQuery,
    TopologyVersions, WouldSend, WouldSet, links, nodes,
};
use selvedge_config::{Against, Settings, SettingsFile, Sources, Verdict, admit};
use selvedge_fabric::Fabric;
use selvedge_health::What;
use selvedge_plan::Policy;
use selvedge_planner::rebalance::preview;
use selvedge_sim::Par;
use selvedge_sm::{Asked, Command, Role, View};

use crate::changes::{self, FilesRead};
use crate::convert;
use crate::forget;
use crate::host::HostHandle;
use crate::notice::Notice;
use crate::out_of_service::Roster;
use crate::partitions::partitions;
use crate::reload::Aside;
use crate::shared::Shared;
use crate::telemetry::{Metrics, TelemetryService, thresholds};
use crate::user_jobs::JobService;
use crate::worker::Note;

/// The requests of front ends to a running process. Each refusal has a code.
pub trait Service: TelemetryService + JobService + Send + Sync {
    /// Returns the state of the manager and its subnet.
    fn status(&self) -> Result<Status, Error>;
    /// Returns the verdict, and the conditions behind it.
    fn health(&self) -> Result<Health, Error>;
    /// Removes missing nodes or links from the list of missing ones.
    fn forget(&self, request: &ForgetRequest) -> Result<Forgotten, Error>;
    /// Returns the places that are out of service.
    fn out_of_service(&self) -> Result<OutOfService, Error>;
    /// Takes a place out of service, or puts it back.
    fn change_service(&self, request: &OutOfServiceRequest) -> Result<OutOfServiceChange, Error>;
    /// Returns the fabric as it is known.
    fn fabric(&self) -> Result<Arc<Fabric>, Error>;
    /// Returns every port, with the reason if it is not ACTIVE.
    fn ports(&self) -> Result<Ports, Error>;
    /// The plan in force.
    fn plan(&self) -> Result<Plan, Error>;
    /// Returns the judge's findings on the plan in force.
    fn findings(&self) -> Result<Findings, Error>;
    /// Returns the partitions of the policy in force, with their members.
    fn partitions(&self) -> Result<Partitions, Error>;
    /// Events after number `since`.
    fn events(&self, since: u64) -> Events;
    /// Discovers everything again.
    fn sweep(&self) -> Result<(), Error>;
    /// Rebalances, or reports the changes.
    fn rebalance(&self, request: RebalanceRequest) -> Result<Rebalance, Error>;
    /// Checks a configuration as [`Self::reload`] would, and changes nothing.
    fn check(&self, request: &CheckRequest) -> Result<Check, Error>;
    /// Reads the configuration again, and every file that it or a flag names, and proposes the policy.
    fn reload(&self) -> Result<PolicyChange, Error>;
    /// Reads the configuration as [`Self::reload`] does, plans with it, and changes nothing.
    fn would_send(&self) -> Result<WouldSend, Error>;
    /// Returns the last changes of the policy.
    fn policy_changes(&self) -> Result<PolicyChanges, Error>;
    /// SIGHUP: reads the configuration again if there is one, and starts a heavy sweep in any case.
    fn hang_up(&self);
    /// Injects a fault.
    fn fault(&self, request: &FaultRequest) -> Result<FaultReport, Error>;
    /// Opens the log again.
    fn reopen_log(&self);
    /// Ends the process's work.
    fn stop(&self);

    /// How sampling of counters goes.
    fn telemetry(&self) -> Result<Telemetry, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// The counters of ports.
    fn counters(&self, _query: &CounterQuery) -> Result<TelemetryPorts, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// The metrics that a query asks for, in the format of OpenMetrics or that of Prometheus.
    fn metrics(&self, _query: &MetricsQuery, _is_open_metrics: bool) -> Result<Metrics, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// The metric sets that can be pulled.
    fn metric_sets(&self) -> Result<MetricSets, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// The text of a metric set.
    fn metric_set(&self, _query: &SetQuery) -> Result<String, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// Counts ports from now on, or from their first reading on again.
    fn set_baseline(&self, _request: &BaselineRequest) -> Result<Baseline, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// How storing of counters goes.
    fn history(&self) -> Result<TelemetryHistory, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// A counter of a port over time.
    fn history_series(&self, _query: &SeriesQuery) -> Result<TelemetrySeries, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// A counter of all ports at a time, or in a range of time.
    fn history_ports(&self, _query: &SliceQuery) -> Result<TelemetrySlice, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// Stored events.
    fn history_events(&self, _query: &StoredEventQuery) -> Result<StoredEvents, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// Versions of the topology.
    fn history_topologies(&self) -> Result<TopologyVersions, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// A version of the topology.
    fn history_topology(&self, _query: TopologyQuery) -> Result<Topology, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// Returns a number for the state that lists, plan and findings are made from: as long as the number is the same,
    /// they do not change. `None` if they may differ at each request.
    fn state_number(&self) -> Option<u64> {
        None
    }

    /// Every node.
    fn nodes(&self) -> Result<Nodes, Error> {
        Ok(nodes(&*self.fabric()?))
    }

    /// Every cable.
    fn links(&self) -> Result<Links, Error> {
        Ok(links(&*self.fabric()?))
    }
}

/// The interface of a running manager for front ends.
#[derive(Clone)]
pub struct Manager {
    pub(crate) shared: Arc<Shared>,
    pub(crate) notes: Arc<Mutex<Sender<Note>>>,
    pub(crate) emulator: Option<HostHandle>,
    pub(crate) sources: Option<Arc<Sources>>,
    /// The settings in force.
    pub(crate) running: Arc<Mutex<Settings>>,
    /// Reads the configuration on a separate thread.
    pub(crate) aside: Aside,
    /// The places that are out of service.
    pub(crate) roster: Arc<Roster>,
}

impl Manager {
    /// Returns the manager's own view, with the names that it discovered.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.shared.view().0
    }

    /// Returns the snapshot with the operator's names, and the view to which it belongs.
    #[must_use]
    pub fn named(&self) -> (Option<Arc<Fabric>>, Arc<View>) {
        let view = self.view();
        (view.fabric.as_ref().map(|fabric| self.shared.names.apply(fabric)), view)
    }

    /// Returns the ports that are not ACTIVE, with their reasons; none before the first snapshot.
    #[must_use]
    pub fn ports_not_active(&self) -> Vec<selvedge_api::Port> {
        let (fabric, view) = self.named();
        fabric.map_or_else(Vec::new, |fabric| convert::ports(&fabric, &view, false).ports)
    }

    /// True if something is known to be wrong.
    #[must_use]
    pub fn has_conditions(&self) -> bool {
        !self.shared.manager_health().conditions.is_empty()
    }

    /// Returns the Sets that a dry run would send; none in another mode.
    #[must_use]
    pub fn dry_run_sets(&self) -> Vec<WouldSet> {
        let view = self.view();
        let would_send = view.would_send.as_ref();
        would_send.map_or_else(Vec::new, |outcome| {
            changes::sets(outcome, &view.installed, &self.shared.names)
        })
    }

    pub(crate) fn command(&self, command: Command) -> Result<(), Error> {
        self.note(Note::Command(command))
    }

    /// Returns the present time, in milliseconds since 1970-01-01 UTC.
    fn unix_ms(&self) -> u64 {
        self.shared.clock.unix_ns() / 1_000_000
    }

    /// Sends the manager's thread a note that needs no answer.
    pub(crate) fn note(&self, note: Note) -> Result<(), Error> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes
            .send(note)
            .map_err(|_| ErrorKind::Stopping.error("the manager has stopped"))
    }
}

impl Manager {
    /// Returns the settings in force: those of the last start or reload, with the policy in force.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match &self.view().policy {
            Some(policy) => Settings {
                policy: Policy::clone(policy),
                ..running
            },
            None => running,
        }
    }

    /// Checks the sources of the settings, or `text` instead of the file's text, against the settings in force.
    fn admit(&self, text: Option<(&str, &str)>) -> Result<Verdict, Error> {
        let nothing = || ErrorKind::NoConfig.error("there is nothing to read again");
        let sources = self.sources.as_ref().ok_or_else(nothing)?;
        let running = self.settings();
        let sources = match text {
            Some((path, text)) => Arc::new(sources.with_text(Path::new(path), text)),
            None if sources.has_files() => Arc::clone(sources),
            None => return Err(nothing()),
        };
        self.aside.run(move || admit(&sources, Against::Running(&running)))
    }

    /// Reads the files as a reload does.
    fn read_again(&self) -> Result<Verdict, Error> {
        let verdict = self.admit(None)?;
        match verdict.error() {
            Some(error) => Err(Error::of_text(&error)),
            None => Ok(verdict),
        }
    }

    /// Applies the settings that a reload can change: proposes the policy, takes thresholds of alarms and
    /// names of nodes.
    fn take_over(&self, verdict: Verdict) -> Result<PolicyChange, Error> {
        let read = FilesRead::of(&verdict);
        let Settings {
            policy,
            daemon,
            manager,
            alarms,
            ..
        } = verdict.settings;
        let mut policy = policy;
        policy.out_of_service = self.roster.list();
        let change = self.ask(|answer| Note::Propose(Arc::new(policy), manager.sm_key, answer))?;
        self.shared.files.keep(change.serial, read.clone());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.manager.sm_key = manager.sm_key;
        thresholds::take(&self.shared, &alarms);
        running.alarms = alarms;
        if let Some(names) = verdict.names {
            running.daemon.node_name_map = daemon.node_name_map;
            self.shared.rename(names);
        }
        Ok(changes::shown(&change, read, self.shared.clock, &self.shared.names))
    }

    /// Asks the manager's thread, and waits for the answer.
    pub(crate) fn ask<T>(&self, note: impl FnOnce(Sender<T>) -> Note) -> Result<T, Error> {
        let (answer, answered) = channel();
        let stopped = || ErrorKind::Stopping.error("the manager has stopped");
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        notes.send(note(answer)).map_err(|_| stopped())?;
        answered.recv_timeout(ANSWER_MAX).map_err(|error| match error {
            RecvTimeoutError::Disconnected => stopped(),
            RecvTimeoutError::Timeout => {
                ErrorKind::Busy.error(format!("the manager did not answer within {} s", ANSWER_MAX.as_secs()))
            }
        })
    }
}

/// Longest wait for the manager's thread, which answers within milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(10);

pub(crate) fn not_yet(what: &str) -> Error {
    ErrorKind::NotYet.error(format!("there is no {what} yet"))
}

impl Service for Manager {
    fn status(&self) -> Result<Status, Error> {
        let (view, first_up) = self.shared.view();
        let fabric = view.fabric.as_ref().map(|fabric| self.shared.names.apply(fabric));
        let local = self.shared.local;
        Ok(Status {
            selvedge_version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.shared.clock.now().0 / 1_000_000,
            port: self.shared.port.clone(),
            local: LocalPort {
                node_guid: local.node_guid,
                port_guid: local.port_guid,
                port: local.port.get(),
            },
            role: convert::role(view.role),
            master: view.master,
            master_name: convert::master_name(&view, &self.shared.names),
            stage: convert::stage(view.stage),
            progress: Progress {
                done: view.progress.done,
                total: view.progress.total,
            },
            application: convert::application(&view, self.shared.clock.now()),
            // Without a plan in force there is nothing to spread, and nothing was judged.
            rebalance: view.plan.as_ref().and_then(|_| convert::rebalance(&view)),
            up: view.is_up(),
            sweeps: view.sweeps.ended,
            sweeps_begun: view.sweeps.begun,
            first_up_ms: first_up.map(|time| time.0 / 1_000_000),
            fabric: fabric.as_ref().map(|fabric| selvedge_api::Fabric::of(fabric)),
            silent: convert::silent(&view.facts),
            plan: view.plan.as_ref().map(|plan| Plan::of(plan, convert::changes(&view))),
            judged_ok: view
                .plan
                .as_ref()
                .and(view.verdict.as_ref())
                .map(|verdict| verdict.is_good()),
            repairs_ready: view.has_repairs_ready,
            ports_not_active: convert::reasons(fabric.as_ref(), &view),
            multicast: crate::groups::groups(&view),
            mads: convert::mads(&view),
            administration: Some(self.shared.administration()),
            intake: Some(self.shared.intake()),
            not_stored: self.shared.not_stored(),
            health: self.shared.health(),
        })
    }

    fn health(&self) -> Result<Health, Error> {
        Ok(self.shared.health())
    }

    fn forget(&self, request: &ForgetRequest) -> Result<Forgotten, Error> {
        let (fabric, view) = self.named();
        let found = forget::find(&request.name, &view.facts, fabric.as_deref(), &self.shared.names)?;
        self.command(Command::Forget {
            nodes: found.nodes,
            links: found.links,
        })?;
        Ok(Forgotten { forgotten: found.words })
    }

    fn out_of_service(&self) -> Result<OutOfService, Error> {
        self.show_service()
    }

    fn change_service(&self, request: &OutOfServiceRequest) -> Result<OutOfServiceChange, Error> {
        self.propose_service(request)
    }

    fn fabric(&self) -> Result<Arc<Fabric>, Error> {
        self.named().0.ok_or_else(|| not_yet("snapshot of the fabric"))
    }

    fn ports(&self) -> Result<Ports, Error> {
        let (fabric, view) = self.named();
        let fabric = fabric.ok_or_else(|| not_yet("snapshot of the fabric"))?;
        Ok(convert::ports(&fabric, &view, true))
    }

    fn plan(&self) -> Result<Plan, Error> {
        let view = self.view();
        let plan = view.plan.as_ref().ok_or_else(|| not_yet("plan"))?;
        Ok(Plan::of(plan, convert::changes(&view)))
    }

    fn findings(&self) -> Result<Findings, Error> {
        let view = self.view();
        let health = self.shared.health();
        let refused = health.conditions.iter().find(|of| of.code == What::PlanRefused.code());
        let refused = refused.map(|of| RefusedPlan {
            since_ms: of.since_ms,
            why: of.evidence.clone(),
        });
        let verdict = match (&view.refused, &refused) {
            (Some(verdict), Some(_)) => verdict,
            (None, Some(refused)) => return Err(ErrorKind::NoPlan.error(format!("no plan was made: {}", refused.why))),
            (_, None) => view.verdict.as_ref().ok_or_else(|| not_yet("verdict"))?,
        };
        Ok(Findings {
            refused,
            ..convert::findings(verdict, &self.shared.names)
        })
    }

    fn partitions(&self) -> Result<Partitions, Error> {
        let (fabric, view) = self.named();
        let fabric = fabric.ok_or_else(|| not_yet("snapshot of the fabric"))?;
        let policy = view.policy.as_ref().ok_or_else(|| not_yet("policy"))?;
        let manager = self.shared.local.port_guid;
        Ok(partitions(&fabric, &policy.partitions, manager))
    }

    fn events(&self, since: u64) -> Events {
        self.shared.events.since(since)
    }

    fn sweep(&self) -> Result<(), Error> {
        self.command(Command::Sweep)
    }

    fn rebalance(&self, request: RebalanceRequest) -> Result<Rebalance, Error> {
        let view = self.view();
        let is_master = view.role == Role::Master;
        if !request.dry_run && !is_master {
            return Err(ErrorKind::NotMaster.error(format!("this manager is {}", view.role)));
        }
        let (Some(fabric), Some(plan), Some(policy)) = (&view.fabric, &view.plan, &view.policy) else {
            return Err(not_yet("plan"));
        };
        let planned = preview(fabric, plan, policy, Par::Sequential);
        let planned = planned.map_err(|why| ErrorKind::NoBalance.error(why))?;
        let answer = convert::preview(&planned, &plan.engine.0, request);
        if answer.started {
            let at_once = request.at_once;
            self.command(Command::Rebalance(Asked { at_once }))?;
        }
        Ok(answer)
    }

    fn check(&self, request: &CheckRequest) -> Result<Check, Error> {
        let text = (!request.path.is_empty()).then_some((request.path.as_str(), request.text.as_str()));
        let file = self.sources.as_ref().map(|sources| &sources.file);
        if let (true, Some(SettingsFile::OpenSm(path))) = (request.is_toml, file) {
            let path = path.display();
            let why = format!(
                "this manager reads OpenSM's file {path} (-F), not TOML: 'selvedge run -F {path} --check-config' \
                 checks it"
            );
            return Err(ErrorKind::NoConfig.error(why));
        }
        Ok(convert::check(&self.admit(text)?))
    }

    fn reload(&self) -> Result<PolicyChange, Error> {
        let verdict = self.read_again()?;
        self.shared.notice(&Notice::Reloaded(convert::check(&verdict)));
        self.take_over(verdict)
    }

    fn would_send(&self) -> Result<WouldSend, Error> {
        let verdict = self.read_again()?;
        let read = FilesRead::of(&verdict);
        let view = self.view();
        let in_force = view.policy.as_ref().ok_or_else(|| not_yet("policy"))?;
        let mut policy = verdict.settings.policy;
        policy.out_of_service = self.roster.list();
        let policy = Arc::new(policy);
        let changed = policy.changed_from(in_force);
        let preview = self.ask(|answer| Note::Preview(policy, answer))?;
        let preview = preview.ok_or_else(|| not_yet("fabric to plan for"))?;
        // The manager's own jobs have the other threads.
        let previewed = preview.run(Par::Sequential);
        Ok(WouldSend {
            changed: changed.into_iter().map(str::to_owned).collect(),
            needs_restart: read.needs_restart,
            lines: read.lines,
            ..changes::would_send(&previewed, &self.shared.names)
        })
    }

    fn policy_changes(&self) -> Result<PolicyChanges, Error> {
        let Shared {
            files, clock, names, ..
        } = &*self.shared;
        Ok(changes::list(&self.view(), files, *clock, names))
    }

    fn hang_up(&self) {
        if self.sources.as_ref().is_some_and(|sources| sources.has_files())
            && let Err(error) = self.reload()
        {
            self.shared.notice(&Notice::NotReloaded(error));
        }
        // Refused only by one that is stopping.
        let _ = self.sweep();
    }

    fn fault(&self, request: &FaultRequest) -> Result<FaultReport, Error> {
        let emulator = self.emulator.as_ref();
        let emulator = emulator.ok_or_else(|| ErrorKind::NoEmulator.error("this is no emulated fabric"))?;
        let events_since = self.shared.events.last();
        // Results may be reported before this thread runs again.
        let at = self.shared.clock.now();
        let done = emulator.fault(request)?;
        self.shared.notice_of(at, &Notice::Fault { done: done.clone() });
        Ok(FaultReport { done, events_since })
    }

    fn telemetry(&self) -> Result<Telemetry, Error> {
        Ok(self.shared.telemetry.shown())
    }

    fn counters(&self, query: &CounterQuery) -> Result<TelemetryPorts, Error> {
        self.shared.telemetry.ports(query, self.unix_ms())
    }

    fn metrics(&self, query: &MetricsQuery, is_open_metrics: bool) -> Result<Metrics, Error> {
        let unix_ns = self.shared.clock.unix_ns();
        self.shared.telemetry.metrics(query, is_open_metrics, unix_ns)
    }

    fn metric_sets(&self) -> Result<MetricSets, Error> {
        self.shared.telemetry.sets()
    }

    fn metric_set(&self, query: &SetQuery) -> Result<String, Error> {
        self.shared.telemetry.set(query)
    }

    fn set_baseline(&self, request: &BaselineRequest) -> Result<Baseline, Error> {
        self.shared.telemetry.set_baseline(request, self.shared.clock.unix_ns())
    }

    fn history(&self) -> Result<TelemetryHistory, Error> {
        Ok(self.shared.telemetry.history())
    }

    fn history_series(&self, query: &SeriesQuery) -> Result<TelemetrySeries, Error> {
        self.shared.telemetry.series(query, self.unix_ms())
    }

    fn history_ports(&self, query: &SliceQuery) -> Result<TelemetrySlice, Error> {
        self.shared.telemetry.slice(query, self.unix_ms())
    }

    fn history_events(&self, query: &StoredEventQuery) -> Result<StoredEvents, Error> {
        self.shared.telemetry.stored_events(query, self.unix_ms())
    }

    fn history_topologies(&self) -> Result<TopologyVersions, Error> {
        self.shared.telemetry.topologies()
    }

    fn history_topology(&self, query: TopologyQuery) -> Result<Topology, Error> {
        self.shared.telemetry.topology(query)
    }

    fn reopen_log(&self) {
        self.shared.events.reopen();
    }

    fn stop(&self) {
        // One that has stopped already needs no telling.
        let _ = self.command(Command::Stop);
    }

    fn state_number(&self) -> Option<u64> {
        Some(self.shared.view_number())
    }
}
