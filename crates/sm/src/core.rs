//! The manager: takes inputs, keeps the stage, hands out outputs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, diff};
use selvedge_mad::{AgentId, Ended, Exchange, ExchangeConfig};
use selvedge_plan::{Generation, Installed};
use selvedge_sim::Time;
use selvedge_types::{Guid, LidRange, PortState};
use selvedge_wire::{Attribute, AttributeId, Datagram, LinearForwardingTable, Mad, Method};

use crate::apply::Apply;
use crate::config::{Config, Mode};
use crate::discover::{Discovery, Request};
use crate::event::{Event, SweepReason};
use crate::inventory::Inventory;
use crate::io::{Command, Input, Output, PersistentState};
use crate::job::{Job, JobResult, Judge, Outcome, blocks_to_read};
use crate::ports::DeclinedByGuid;
use crate::stage::{Stage, Token};
use crate::view::{Role, View};
use crate::{report, smp};

/// A subnet manager.
#[derive(Debug)]
pub struct Sm {
    pub(crate) config: Config,
    judge: Arc<dyn Judge>,
    pub(crate) exchange: Exchange<Token>,
    pub(crate) stage: Stage,
    pub(crate) view: View,
    /// The last complete inventory: where light sweeps and polls go.
    pub(crate) inventory: Option<Arc<Inventory>>,
    known_lids: BTreeMap<Guid, LidRange>,
    declined: DeclinedByGuid,
    generation: Generation,
    /// Why the next sweep is due as soon as the current stage allows.
    pub(crate) sweep_due: Option<SweepReason>,
    next_sweep: Option<Time>,
    pub(crate) next_poll: Option<Time>,
    persist_id: u64,
    /// How often this manager was asked for SMInfo (SMInfo.ActCount).
    pub(crate) act_count: u32,
}

/// Requests that wait longer no longer hold back the others; ten times what a busy agent needs.
const STALE_AFTER: Duration = Duration::from_millis(20);

impl Sm {
    /// A manager that has not begun; hand in [`Input::Start`].
    #[must_use]
    pub fn new(config: Config, judge: Arc<dyn Judge>, state: PersistentState) -> Self {
        let exchange = Exchange::new(ExchangeConfig {
            window: config.window,
            agent_window: config.agent_window,
            timeout: config.timeout,
            retries: config.retries,
            stale_after: STALE_AFTER.min(config.timeout),
        });
        Self {
            config,
            judge,
            exchange,
            stage: Stage::Idle,
            view: View::default(),
            inventory: None,
            known_lids: state.lids,
            declined: DeclinedByGuid::new(),
            generation: Generation::default(),
            sweep_due: None,
            next_sweep: None,
            next_poll: None,
            persist_id: 0,
            act_count: 0,
        }
    }

    /// When [`Input::Wake`] is due, if nothing else happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let timer = match self.stage {
            Stage::Standby { .. } => self.next_poll,
            Stage::Stopped => None,
            _ => self.next_sweep,
        };
        [self.exchange.next_wake(), timer].into_iter().flatten().min()
    }

    /// Takes one input; appends what is to be done.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        if matches!(self.stage, Stage::Stopped) {
            return;
        }
        match input {
            Input::Start => self.start(out),
            Input::Received(datagram) => self.received(now, &datagram, out),
            Input::Returned(datagram) => {
                if let Some(ended) = self.exchange.returned(&datagram) {
                    self.ended(ended, out);
                }
            }
            Input::Wake => {
                while let Some(ended) = self.exchange.expired(now) {
                    self.ended(ended, out);
                }
                self.timers(now, out);
            }
            Input::Computed { generation, result } => self.computed(generation, *result, out),
            Input::Persisted { id } => self.persisted(id),
            Input::Command(command) => self.command(command, out),
        }
        self.advance(now, out);
        self.pump(now, out);
    }

    fn start(&mut self, out: &mut Vec<Output>) {
        self.view.role = match self.config.mode {
            Mode::Manage => {
                out.push(Output::SetIsSm(true));
                Role::Discovering
            }
            Mode::DryRun | Mode::Watch => Role::NotActive,
        };
        self.sweep_due = Some(SweepReason::Start);
    }

    fn command(&mut self, command: Command, out: &mut Vec<Output>) {
        match command {
            Command::Sweep => self.sweep_due = Some(SweepReason::Command),
            Command::SetPolicy(policy) => {
                self.config.policy = policy;
                self.sweep_due = Some(SweepReason::Command);
            }
            Command::Stop => {
                if self.config.mode == Mode::Manage {
                    out.push(Output::SetIsSm(false));
                }
                self.exchange.clear();
                self.stage = Stage::Stopped;
                self.view.role = Role::NotActive;
            }
        }
    }

    fn received(&mut self, now: Time, datagram: &Datagram, out: &mut Vec<Output>) {
        self.view.mads.received += 1;
        match datagram.mad.method() {
            Method::GetResp => {
                while let Some(ended) = self.exchange.expired(now) {
                    self.ended(ended, out);
                }
                if let Some(ended) = self.exchange.received(datagram) {
                    self.ended(ended, out);
                }
            }
            Method::Trap => self.trap(datagram, out),
            Method::Get | Method::Set if datagram.mad.attribute() == AttributeId::SM_INFO => {
                self.sm_info_asked(datagram, out);
            }
            Method::Get
            | Method::Set
            | Method::Send
            | Method::Report
            | Method::TrapRepress
            | Method::ReportResp
            | Method::Other(_) => self.view.mads.dropped += 1,
        }
    }

    /// A request ended: the stage that asked takes it.
    fn ended(&mut self, ended: Ended<Token>, out: &mut Vec<Output>) {
        let answer = ended.answer.as_ref().ok().map(|d| &d.mad);
        let mut events = Vec::new();
        match (ended.token, &mut self.stage) {
            (Token::Discover(ask), Stage::Discovering(discovery)) => {
                let mut requests = Vec::new();
                match answer {
                    Some(mad) => {
                        if let Err(error) = discovery.answered(ask, mad, &mut requests, &mut events) {
                            events.push(Event::BadDatagram { why: error.to_string() });
                            discovery.failed(ask, &mut events);
                        }
                    }
                    None => discovery.failed(ask, &mut events),
                }
                self.submit(&requests);
            }
            (Token::Table { switch, block }, Stage::Reading { installed, .. }) => {
                let held = answer
                    .filter(|m| m.status().0 == 0)
                    .map(|m| LinearForwardingTable::parse(m.smp_data()));
                if let Some(Ok(table)) = held {
                    installed.learn(switch, block, table.ports);
                }
            }
            (Token::Set(id), Stage::Applying(apply, _)) => apply.ended(id, answer, &mut events),
            (Token::OtherSm(node), Stage::Electing { .. }) => self.other_sm(node, answer, &mut events),
            (Token::Light | Token::Knock, Stage::LightSweep { changed }) => {
                *changed |= crate::light::differs(ended.token, answer);
            }
            (Token::Poll, Stage::Standby { .. }) => self.polled(answer, &mut events),
            // The stage that asked is over.
            (
                Token::Discover(_)
                | Token::Table { .. }
                | Token::Set(_)
                | Token::OtherSm(_)
                | Token::Light
                | Token::Knock
                | Token::Poll,
                _,
            ) => {}
        }
        out.extend(events.into_iter().map(Output::Event));
    }

    pub(crate) fn submit(&mut self, requests: &[Request]) {
        for request in requests {
            let datagram = smp::get(
                request.attribute,
                request.modifier,
                &request.route,
                self.config.policy.m_key,
            );
            self.exchange
                .submit(AgentId(request.agent), datagram, Token::Discover(request.ask));
        }
    }

    fn timers(&mut self, now: Time, out: &mut Vec<Output>) {
        match self.stage {
            Stage::Idle if self.next_sweep.is_some_and(|at| at <= now) => self.begin_light_sweep(),
            Stage::Standby { .. } if self.next_poll.is_some_and(|at| at <= now) => self.poll(now, out),
            _ => {}
        }
    }

    /// Moves on when a stage has nothing left in flight; begins a sweep that is due.
    fn advance(&mut self, now: Time, out: &mut Vec<Output>) {
        loop {
            if self.sweep_due.is_some() && self.may_sweep() {
                self.begin_sweep(out);
                return;
            }
            self.feed();
            if self.exchange.open() > 0 || !self.step(now, out) {
                return;
            }
        }
    }

    /// A sweep may replace anything but Sets on their way and a standby's rest.
    const fn may_sweep(&self) -> bool {
        match self.stage {
            Stage::Idle | Stage::LightSweep { .. } | Stage::Planning { .. } | Stage::Persisting { .. } => true,
            Stage::Standby { .. } => matches!(self.sweep_due, Some(SweepReason::MasterLost)),
            Stage::Discovering(_)
            | Stage::Electing { .. }
            | Stage::Reading { .. }
            | Stage::Applying(..)
            | Stage::Stopped => false,
        }
    }

    fn begin_sweep(&mut self, out: &mut Vec<Output>) {
        let Some(reason) = self.sweep_due.take() else { return };
        self.exchange.clear();
        self.generation = self.generation.next();
        self.next_sweep = None;
        let mut discovery = Discovery::new();
        let mut requests = Vec::new();
        discovery.begin(&mut requests);
        self.stage = Stage::Discovering(Box::new(discovery));
        self.submit(&requests);
        out.push(Output::Event(Event::SweepStarted { reason }));
    }

    /// One step to the next stage; false if the stage waits for something else than answers.
    fn step(&mut self, now: Time, out: &mut Vec<Output>) -> bool {
        match std::mem::take(&mut self.stage) {
            Stage::Discovering(discovery) => self.discovered(*discovery, now, out),
            Stage::Electing { inventory, others } => self.elected(inventory, &others, now, out),
            Stage::Reading {
                inventory, installed, ..
            } => self.tables_read(inventory, installed, now, out),
            Stage::Applying(apply, inventory) if apply.is_done() => self.applied(*apply, &inventory, now, out),
            Stage::LightSweep { changed } => {
                if changed {
                    self.sweep_due = Some(SweepReason::LightSweep);
                } else {
                    self.rest(now);
                }
            }
            waiting @ (Stage::Idle
            | Stage::Planning { .. }
            | Stage::Persisting { .. }
            | Stage::Applying(..)
            | Stage::Standby { .. }
            | Stage::Stopped) => {
                self.stage = waiting;
                return false;
            }
        }
        true
    }

    /// Nothing to do until the next light sweep.
    fn rest(&mut self, now: Time) {
        self.stage = Stage::Idle;
        self.next_sweep = self.config.sweep_interval.map(|interval| now + interval);
    }

    fn discovered(&mut self, discovery: Discovery, now: Time, out: &mut Vec<Output>) {
        let Some(local) = discovery.local_port().filter(|_| !discovery.found[0].incomplete) else {
            let what = "its own node does not answer NodeInfo; is the port cabled and the driver loaded?".to_owned();
            out.push(Output::Event(Event::LocalPortDown { what }));
            return self.rest(now);
        };
        if let Some(info) = discovery.found[0].ports[local.index()]
            .info
            .filter(|i| i.state == Some(PortState::Down))
        {
            let what = format!(
                "port {} is DOWN: plug in a cable or choose another port",
                info.local_port
            );
            out.push(Output::Event(Event::LocalPortDown { what }));
        }
        let inventory = match Inventory::build(discovery.found, &discovery.links, (0, local)) {
            Ok(inventory) => Arc::new(inventory),
            Err(error) => {
                out.push(Output::Event(Event::BadDatagram { why: error.to_string() }));
                return self.rest(now);
            }
        };
        let fabric = &inventory.fabric;
        let (switches, hosts, links) = (fabric.switches().len(), fabric.host_count(), fabric.links().count());
        out.push(Output::Event(Event::Discovered { switches, hosts, links }));
        if let Some(old) = &self.view.fabric {
            let changes = diff(old, fabric).changes;
            out.extend(
                changes
                    .iter()
                    .map(|c| Output::Event(Event::FabricChanged { change: c.to_string() })),
            );
        }
        match self.config.mode {
            Mode::Manage => self.begin_election(inventory),
            Mode::DryRun | Mode::Watch => self.begin_reading(inventory),
        }
    }

    /// Reads back the tables of switches that hold some and are not known already.
    pub(crate) fn begin_reading(&mut self, inventory: Arc<Inventory>) {
        let fabric = &inventory.fabric;
        let mut installed = self.carried_tables(fabric);
        let mut total = 0;
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let top = fabric.switch(switch).switch_settings.linear_top;
            if top == 0 {
                // Fresh: it looks up no LID, so what its table holds does not matter; all of it will be written.
                installed.lfts[switch].clear();
                continue;
            }
            let cap = fabric
                .switch(switch)
                .switch
                .map_or(0, |s| s.linear_cap.saturating_sub(1));
            for block in blocks_to_read(&installed, switch, top.min(cap)) {
                let route = &inventory.agents[node].route;
                let modifier = u32::try_from(block).unwrap_or(u32::MAX);
                let get = smp::get(
                    AttributeId::LINEAR_FORWARDING,
                    modifier,
                    route,
                    self.config.policy.m_key,
                );
                self.exchange
                    .submit(AgentId(node.0), get, Token::Table { switch, block });
                total += 1;
            }
        }
        self.stage = Stage::Reading {
            inventory,
            installed,
            total,
        };
    }

    /// Tables this manager wrote, by GUID, for switches that still hold what it set. Others may have written since in
    /// any other mode.
    fn carried_tables(&self, fabric: &Fabric) -> Installed {
        let mut installed = Installed::unknown(fabric.switches().len());
        let (Some(old), Some(plan), Mode::Manage) = (&self.view.fabric, &self.view.plan, self.config.mode) else {
            return installed;
        };
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let seen = fabric.node(node);
            let before = old.find(seen.guid).and_then(|n| old.switch_index(n));
            if let Some(before) = before.filter(|_| seen.switch_settings.linear_top == plan.tables.top().0) {
                installed.lfts[switch].clone_from(&self.view.installed.lfts[before]);
            }
        }
        installed
    }

    fn tables_read(&mut self, inventory: Arc<Inventory>, installed: Installed, now: Time, out: &mut Vec<Output>) {
        if self.config.mode == Mode::Watch {
            self.finish(
                &inventory,
                Fabric::clone(&inventory.fabric),
                installed,
                &report::Failures::none(),
            );
            return self.rest(now);
        }
        if let Some(what) = report::foreign_m_keys(&inventory.fabric, self.config.policy.m_key) {
            out.push(Output::Event(Event::MKeyRefused { what }));
            let failures = report::Failures {
                m_key: Some(self.config.policy.m_key),
                ..report::Failures::none()
            };
            self.finish(&inventory, Fabric::clone(&inventory.fabric), installed, &failures);
            self.view.plan = None;
            return self.rest(now);
        }
        let installed = Arc::new(installed);
        out.push(Output::Compute(Box::new(Job {
            generation: self.generation,
            inventory: Arc::clone(&inventory),
            installed: Arc::clone(&installed),
            policy: Arc::clone(&self.config.policy),
            known_lids: Arc::new(self.known_lids.clone()),
            declined: Arc::new(self.declined.clone()),
            judge: Arc::clone(&self.judge),
        })));
        self.stage = Stage::Planning { inventory, installed };
    }

    fn computed(&mut self, generation: Generation, result: JobResult, out: &mut Vec<Output>) {
        if generation != self.generation {
            return;
        }
        let Stage::Planning { inventory, installed } = &self.stage else {
            return;
        };
        let (inventory, installed) = (Arc::clone(inventory), Arc::clone(installed));
        out.extend(result.events.into_iter().map(Output::Event));
        let Some(outcome) = result.outcome else {
            self.view.plan = None;
            let failures = report::Failures::none();
            self.finish(
                &inventory,
                Fabric::clone(&inventory.fabric),
                Installed::clone(&installed),
                &failures,
            );
            // Idle through `advance`: an empty light sweep ends at once and sets the timer.
            self.stage = Stage::LightSweep { changed: false };
            return;
        };
        self.view.verdict = Some(Arc::clone(&outcome.verdict));
        self.view.changes = outcome.changes.value().count();
        self.view.acknowledged = 0;
        self.view.failed = 0;
        if self.config.mode == Mode::DryRun {
            self.view.plan = Some(Arc::clone(&outcome.plan));
            self.view.generation = generation;
            let failures = report::Failures::none();
            self.finish(
                &inventory,
                Fabric::clone(&inventory.fabric),
                Installed::clone(&installed),
                &failures,
            );
            self.stage = Stage::LightSweep { changed: false };
            return;
        }
        self.persist(inventory, installed, outcome, out);
    }

    /// LIDs are stored before they are given out, so that a crash cannot forget them.
    fn persist(
        &mut self,
        inventory: Arc<Inventory>,
        installed: Arc<Installed>,
        outcome: Arc<Outcome>,
        out: &mut Vec<Output>,
    ) {
        self.known_lids.extend(Apply::lids_by_guid(&outcome, &inventory.fabric));
        self.persist_id += 1;
        let state = PersistentState {
            lids: self.known_lids.clone(),
        };
        out.push(Output::Persist {
            id: self.persist_id,
            state,
        });
        self.stage = Stage::Persisting {
            id: self.persist_id,
            inventory,
            installed,
            outcome,
        };
    }

    fn persisted(&mut self, stored: u64) {
        let Stage::Persisting {
            id,
            inventory,
            installed,
            outcome,
        } = &self.stage
        else {
            return;
        };
        if *id == stored {
            let apply = Apply::new(Arc::clone(outcome), Arc::clone(inventory), Installed::clone(installed));
            self.stage = Stage::Applying(Box::new(apply), Arc::clone(inventory));
        }
    }

    fn applied(&mut self, apply: Apply, inventory: &Arc<Inventory>, now: Time, out: &mut Vec<Output>) {
        let Apply {
            outcome,
            fabric,
            installed,
            acknowledged,
            failed_ports,
            failed_nodes,
            failed,
            declined,
            ..
        } = apply;
        self.declined.extend(
            declined
                .into_iter()
                .map(|(at, d)| ((fabric.node(at.node).guid, at.port), d)),
        );
        self.view.plan = Some(Arc::clone(&outcome.plan));
        self.view.generation = outcome.plan.generation;
        self.view.acknowledged = acknowledged;
        self.view.failed = failed;
        let failures = report::Failures {
            ports: failed_ports,
            nodes: failed_nodes,
            m_key: None,
        };
        self.finish(inventory, fabric, installed, &failures);
        out.push(Output::Event(match failed {
            0 => Event::SubnetUp { sets: acknowledged },
            _ => Event::SubnetUpWithErrors { failed },
        }));
        self.rest(now);
    }

    /// A sweep is over: shows what is known now.
    fn finish(&mut self, inventory: &Inventory, fabric: Fabric, installed: Installed, failures: &report::Failures) {
        let mode = self.config.mode;
        self.view.ports = Arc::new(report::ports(&fabric, inventory, mode, failures));
        let inventory = Inventory {
            fabric: Arc::new(fabric),
            ..inventory.clone()
        };
        self.view.fabric = Some(Arc::clone(&inventory.fabric));
        self.view.installed = Arc::new(installed);
        self.view.sweeps += 1;
        self.inventory = Some(Arc::new(inventory));
    }

    /// Keeps the exchange fed while applying: a change set has more Sets than should be queued at once.
    fn feed(&mut self) {
        let Stage::Applying(apply, _) = &mut self.stage else {
            return;
        };
        let m_key = self.config.policy.m_key;
        while self.exchange.open() < 4 * self.config.window {
            let Some((id, agent, datagram)) = apply.next(m_key) else {
                break;
            };
            self.exchange.submit(AgentId(agent), datagram, Token::Set(id));
        }
        self.view.acknowledged = apply.acknowledged;
        self.view.failed = apply.failed;
    }

    fn pump(&mut self, now: Time, out: &mut Vec<Output>) {
        while let Some(sent) = self.exchange.next_to_send(now) {
            match sent.datagram.mad.method() {
                Method::Get => self.view.mads.gets += 1,
                Method::Set => self.view.mads.sets += 1,
                _ => self.view.mads.others += 1,
            }
            out.push(Output::Send {
                datagram: sent.datagram,
                timeout: sent.timeout,
            });
        }
    }

    /// The GUID of the local port.
    pub(crate) const fn port_guid(&self) -> Guid {
        self.config.local.port_guid
    }

    /// Sends without expecting an answer.
    pub(crate) fn send_only(&mut self, datagram: Datagram, out: &mut Vec<Output>) {
        self.view.mads.others += 1;
        out.push(Output::Send {
            datagram,
            timeout: Duration::ZERO,
        });
    }
}

/// The status of an answer, if there was one.
pub fn ok(answer: Option<&Mad>) -> Option<&Mad> {
    answer.filter(|mad| mad.status().0 == 0)
}
