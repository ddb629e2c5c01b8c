//! The requests of front ends to a running process.

use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use selvedge_api::{
    Check, CheckRequest, Error, ErrorKind, Events, FaultReport, FaultRequest, Findings, ForgetRequest, Forgotten,
    Health, Links, LocalPort, Nodes, Partitions, Plan, Ports, Progress, Rebalance, RebalanceRequest, RefusedPlan,
    Status, links, nodes,
};
use selvedge_config::{Against, Settings, SettingsFile, Sources, Verdict, admit};
use selvedge_fabric::Fabric;
use selvedge_health::What;
use selvedge_planner::rebalance::preview;
use selvedge_sim::Par;
use selvedge_sm::{Asked, Command, Role, View};

use crate::convert;
use crate::forget;
use crate::host::HostHandle;
use crate::notice::Notice;
use crate::partitions::partitions;
use crate::reload::Aside;
use crate::shared::Shared;
use crate::worker::Note;

/// The requests of front ends to a running process. Each refusal has a code.
pub trait Service: Send + Sync {
    /// How it is doing.
    fn status(&self) -> Result<Status, Error>;
    /// Returns the verdict, and the conditions behind it.
    fn health(&self) -> Result<Health, Error>;
    /// Lists something as missing no longer, that was there and is gone.
    fn forget(&self, request: &ForgetRequest) -> Result<Forgotten, Error>;
    /// The fabric as it is known.
    fn fabric(&self) -> Result<Arc<Fabric>, Error>;
    /// Every port, and why it is not ACTIVE.
    fn ports(&self) -> Result<Ports, Error>;
    /// The plan in force.
    fn plan(&self) -> Result<Plan, Error>;
    /// The judge's findings on it.
    fn findings(&self) -> Result<Findings, Error>;
    /// The partitions of the policy in force, with their members.
    fn partitions(&self) -> Result<Partitions, Error>;
    /// Events after number `since`.
    fn events(&self, since: u64) -> Events;
    /// Discovers everything again.
    fn sweep(&self) -> Result<(), Error>;
    /// Rebalances, or reports the changes.
    fn rebalance(&self, request: RebalanceRequest) -> Result<Rebalance, Error>;
    /// Checks a configuration as [`Self::reload`] would, and changes nothing.
    fn check(&self, request: &CheckRequest) -> Result<Check, Error>;
    /// Reads the configuration again, and every file that it or a flag names.
    fn reload(&self) -> Result<Check, Error>;
    /// SIGHUP: reads the configuration again if there is one, and starts a heavy sweep in any case.
    fn hang_up(&self);
    /// Injects a fault.
    fn fault(&self, request: &FaultRequest) -> Result<FaultReport, Error>;
    /// Opens the log again.
    fn reopen_log(&self);
    /// Ends the process's work.
    fn stop(&self);

    /// Returns a number for the state behind lists, plan and findings: as long as the number is the same, so are they.
    /// `None` if they may differ at each request.
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

/// A running manager as its front ends see it.
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
}

impl Manager {
    /// The manager's own view, with the names that it discovered.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.shared.view().0
    }

    /// The snapshot with the operator's names, and the view it belongs to.
    #[must_use]
    pub fn named(&self) -> (Option<Arc<Fabric>>, Arc<View>) {
        let view = self.view();
        (view.fabric.as_ref().map(|fabric| self.shared.names.apply(fabric)), view)
    }

    /// Ports that are not ACTIVE, with their reasons; none before the first snapshot.
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

    fn command(&self, command: Command) -> Result<(), Error> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes
            .send(Note::Command(command))
            .map_err(|_| ErrorKind::Stopping.error("the manager has stopped"))
    }
}

impl Manager {
    /// Returns the settings in force, as of the last start or reload.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks the sources of the settings, or `text` in place of the file's text, against the settings in force.
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

    /// Applies the settings that a reload can change.
    fn take_over(&self, verdict: Verdict) -> Result<(), Error> {
        let Settings { policy, daemon, .. } = verdict.settings;
        self.command(Command::SetPolicy(Arc::new(policy.clone())))?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.policy = policy;
        if let Some(names) = verdict.names {
            running.daemon.node_name_map = daemon.node_name_map;
            self.shared.rename(names);
        }
        Ok(())
    }
}

fn not_yet(what: &str) -> Error {
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
            sweeps: view.sweeps,
            first_up_ms: first_up.map(|time| time.0 / 1_000_000),
            fabric: fabric.as_ref().map(|fabric| selvedge_api::Fabric::of(fabric)),
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
        let found = forget::find(&request.name, &view.facts.absent, fabric.as_deref(), &self.shared.names)?;
        self.command(Command::Forget {
            nodes: found.nodes,
            links: found.links,
        })?;
        Ok(Forgotten { forgotten: found.words })
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

    fn reload(&self) -> Result<Check, Error> {
        let verdict = self.admit(None)?;
        if let Some(error) = verdict.error() {
            return Err(Error::of_text(&error));
        }
        let answer = convert::check(&verdict);
        self.take_over(verdict)?;
        self.shared.notice(&Notice::Reloaded(answer.clone()));
        Ok(answer)
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
