//! The outer machine: takes inputs, holds the stage, hands out outputs.
//!
//! [`Sm::handle`] gives each input to the part that waits for it. `advance` then does what is due, in one fixed order,
//! and begins the next stage when the requests of this one have ended. [`Timer`] says when a wake-up is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef, diff};
use selvedge_mad::{Exchange, ExchangeConfig};
use selvedge_plan::{Generation, Installed, PartEnforce};
use selvedge_planner::past::Past;
use selvedge_planner::{Aim, DeclinedByGuid, Inventory, JobId, Judge, PortReason};
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::{AttributeId, Datagram, Mad, Method};

use crate::aliases::AliasGuids;
use crate::backing_up::BackupBook;
use crate::config::{Config, Mode};
use crate::discover::{Discovery, Request};
use crate::election::{Ask, Election};
use crate::event::{Event, SweepReason};
use crate::failover::Failover;
use crate::flap::Flaps;
use crate::given_up::GivenUp;
use crate::io::{Input, Output, PersistentState};
use crate::lid_book::LidBook;
use crate::listed::Listed;
use crate::milestone::Milestone;
use crate::multicast::Multicast;
use crate::persist::Persist;
use crate::readback::{Kind, ReadBack};
use crate::rebalance::Rebalancer;
use crate::recall::Silence;
use crate::registration::Registration;
use crate::report;
use crate::second_look::SecondLook;
use crate::silent::Silent;
use crate::smp::{self, Smp};
use crate::stage::{Copying, Stage, Token};
use crate::timer::Timer;
use crate::trap::Traps;
use crate::view::View;
use crate::wires::Wires;

mod election;

/// A subnet manager.
#[derive(Debug)]
pub struct Sm {
    pub(crate) config: Config,
    pub(crate) judge: Arc<dyn Judge>,
    pub(crate) exchange: Exchange<(Token, Smp)>,
    pub(crate) stage: Stage,
    pub(crate) view: View,
    /// What the last sweep saw that came to an end.
    pub(crate) planned_on: Option<Arc<Fabric>>,
    /// The last complete inventory: where light sweeps and polls go.
    pub(crate) inventory: Option<Arc<Inventory>>,
    /// Which LIDs are whose.
    pub(crate) lids: LidBook,
    /// What is stored, and when.
    persist: Persist,
    pub(crate) declined: DeclinedByGuid,
    pub(crate) generation: Generation,
    /// The ticket of the last job.
    pub(crate) last_job: JobId,
    /// Why the next sweep is due as soon as the current stage allows.
    pub(crate) sweep_due: Option<SweepReason>,
    /// Why the last sweep began.
    pub(crate) sweep_reason: SweepReason,
    /// What packets may still be under way by.
    pub(crate) past: Past,
    /// LIDs that were others' a short while ago.
    pub(crate) given_up: GivenUp,
    /// What is to be read back.
    read_back: ReadBack,
    /// What was said of the operator's lists.
    pub(crate) listed: Listed,
    /// When the input at hand came in.
    pub(crate) now: Time,
    /// Plans dropped in a row because a sweep was due.
    pub(crate) superseded: u32,
    /// Where cables lead that were seen once.
    pub(crate) wires: Wires,
    pub(crate) next_sweep: Option<Time>,
    /// When a light sweep was due that something else came before.
    pub(crate) put_off: Option<Time>,
    /// Number of the last request whose answer nobody awaits.
    pub(crate) unasked: u32,
    /// Which manager is master.
    election: Election,
    /// Which hosts must register again.
    registration: Registration,
    /// Ports that call themselves otherwise than they were seen.
    pub(crate) doubted: BTreeSet<Guid>,
    /// Ports of which nobody may have been told what happened to them while a plan was on its way.
    pub(crate) unwatched: Vec<PortRef>,
    /// The tables of the plan in force are those that another manager left.
    pub(crate) keeps_found: bool,
    /// The plan that was left half-way.
    pub(crate) aim: Option<Arc<Aim>>,
    /// What happened while a sweep's plan was on its way.
    pub(crate) second_look: SecondLook,
    /// What repairs need.
    pub(crate) failover: Failover,
    /// Repairs of links that are up.
    pub(crate) backups: BackupBook,
    /// Links that went down lately.
    flaps: Flaps,
    /// Traps that are not repressed yet.
    traps: Traps,
    /// Who did not answer when it started.
    pub(crate) silence: Silence,
    /// Ways by which nobody has answered in this stage.
    pub(crate) silent: Silent,
    /// GUIDs that the last sweep saw twice.
    pub(crate) duplicates: BTreeSet<Guid>,
    /// Ports that the last sweep saw with LIDs by which they are not known.
    pub(crate) strangers: BTreeSet<Guid>,
    /// Steps towards even load.
    rebalancer: Rebalancer,
    /// Multicast groups and trees.
    multicast: Multicast,
    /// Alias GUIDs of ports.
    aliases: AliasGuids,
    /// What discovery asks next; empty between answers.
    requests: Vec<Request>,
}

/// Plans dropped in a row before one is applied although the fabric has changed since: the next sweep mends that.
const SUPERSEDED_MAX: u32 = 3;
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
            planned_on: None,
            inventory: None,
            declined: DeclinedByGuid::new(),
            lids: LidBook::stored(&state),
            generation: state.generation,
            last_job: JobId::default(),
            persist: Persist::new(state),
            sweep_due: None,
            sweep_reason: SweepReason::Start,
            past: Past::default(),
            given_up: GivenUp::default(),
            read_back: ReadBack::default(),
            listed: Listed::default(),
            now: Time::ZERO,
            superseded: 0,
            wires: Wires::default(),
            next_sweep: None,
            put_off: None,
            unasked: 0,
            election: Election::default(),
            registration: Registration::default(),
            doubted: BTreeSet::new(),
            unwatched: Vec::new(),
            keeps_found: false,
            aim: None,
            second_look: SecondLook::default(),
            failover: Failover::default(),
            backups: BackupBook::default(),
            flaps: Flaps::default(),
            traps: Traps::default(),
            rebalancer: Rebalancer::default(),
            multicast: Multicast::default(),
            aliases: AliasGuids::default(),
            silence: Silence::default(),
            silent: Silent::default(),
            duplicates: BTreeSet::new(),
            strangers: BTreeSet::new(),
            requests: Vec::new(),
        }
    }

    /// Takes one input; appends what is to be done.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        if matches!(self.stage, Stage::Stopped) {
            return;
        }
        self.now = now;
        match input {
            Input::Start => self.start(out),
            Input::Received(datagram) => self.received(now, &datagram, out),
            Input::Returned(datagram) => {
                if let Some(failed) = self.exchange.returned(&datagram.mad) {
                    self.ended(failed, None, out);
                }
            }
            Input::Wake => {
                while let Some(failed) = self.exchange.expired(now) {
                    self.ended(failed, None, out);
                }
                self.timers(out);
            }
            Input::Computed { id, result } => self.computed(id, *result, out),
            Input::Persisted { id } => self.persisted(id, out),
            Input::NotPersisted { id } => self.update_stored(crate::persist::In::NotStored(id), out),
            Input::Groups(groups) => self.groups_changed(groups),
            Input::Aliases(ports) => self.aliases_changed(ports),
            Input::Command(command) => self.command(command, out),
        }
        self.advance(now, out);
        self.pump(now, out);
        self.repress(out);
    }

    fn received(&mut self, now: Time, datagram: &Datagram, out: &mut Vec<Output>) {
        self.view.mads.received += 1;
        match datagram.mad.method() {
            Method::GetResp => {
                while let Some(failed) = self.exchange.expired(now) {
                    self.ended(failed, None, out);
                }
                match self.exchange.received(&datagram.mad) {
                    Some(asked) => self.ended(asked, Some(&datagram.mad), out),
                    None => self.straggles(&datagram.mad),
                }
            }
            Method::Trap => self.trap(crate::trap::In::Received(Box::new(*datagram)), out),
            Method::Get | Method::Set if datagram.mad.attribute() == AttributeId::SM_INFO => {
                self.run_election(crate::election::In::Requested(datagram), out);
            }
            Method::Get
            | Method::Set
            | Method::Send
            | Method::Report
            | Method::TrapRepress
            | Method::ReportResp
            | Method::GetTable
            | Method::GetMulti
            | Method::Delete
            | Method::GetTableResp
            | Method::GetMultiResp
            | Method::DeleteResp
            | Method::Other(_) => self.view.mads.dropped += 1,
        }
    }

    /// A request ended: the stage that asked takes it. Without an answer it has failed.
    fn ended(&mut self, (token, smp): (Token, Smp), answer: Option<&Mad>, out: &mut Vec<Output>) {
        let mut events = Vec::new();
        self.note_silence(&smp.route, answer.is_some());
        match (token, &mut self.stage) {
            (Token::Discover(ask), Stage::Discovering(discovery)) => {
                let mut requests = std::mem::take(&mut self.requests);
                discovery.ended(ask, &smp.route, answer, &mut requests, &mut events);
                self.submit(requests);
            }
            (Token::Table { .. } | Token::Lanes(_), reading @ Stage::Reading { .. }) => {
                reading.table_read(token, ok(answer));
            }
            (Token::Set(id), Stage::Applying(..)) | (Token::Block(id), Stage::Copying(_) | Stage::Naming(_)) => {
                self.run_apply(crate::apply::In::Ended(id, answer), out);
            }
            (Token::Held(_), Stage::Applying(..)) => drop(self.run_apply(crate::apply::In::OwnPort(answer), out)),
            (Token::SmInfo(ask @ Ask::Election(_)), Stage::Electing)
            | (Token::SmInfo(ask @ Ask::Poll), Stage::Standby)
            | (Token::SmInfo(ask @ Ask::LightSweep), Stage::LightSweep { .. })
            | (Token::SmInfo(ask @ Ask::Handover), Stage::HandingOver) => {
                self.run_election(crate::election::In::Answered(ask, answer), out);
            }
            (Token::Probe(at), Stage::Probing(_)) => self.port_looked_at(at, answer, out),
            (Token::Behind(at, what), Stage::Probing(_)) => self.behind_looked_at(at, what, answer, out),
            (Token::Held(_), Stage::Probing(_)) => self.own_port_looked_at(answer, out),
            (Token::Light(node), Stage::LightSweep { .. }) => self.switch_said(node, answer),
            (Token::ReadBack(id), Stage::Copying(_) | Stage::Naming(_)) => drop(self.was_read_back(id, answer, out)),
            (token, &mut Stage::LightSweep { changed: so_far }) => {
                let changed = self.light_look_ended(token, answer, out) || so_far;
                self.stage = Stage::LightSweep { changed };
            }
            // The stage that asked is over.
            (
                Token::Discover(_)
                | Token::Table { .. }
                | Token::Lanes(_)
                | Token::Set(_)
                | Token::SmInfo(_)
                | Token::Light(_)
                | Token::ReadBack(_)
                | Token::Probe(_)
                | Token::Behind(..)
                | Token::Held(_)
                | Token::Unwatched(_)
                | Token::Torn(_)
                | Token::Knock
                | Token::Twin
                | Token::AtLink(_)
                | Token::Who(_)
                | Token::Whose(_)
                | Token::Block(_),
                _,
            ) => {}
        }
        out.extend(events.into_iter().map(Output::Event));
    }

    /// Queues what discovery asks; the list is kept for the next time.
    pub(crate) fn submit(&mut self, mut requests: Vec<Request>) {
        let m_key = self.config.policy.m_key;
        for Request {
            agent,
            ask,
            attribute,
            modifier,
            route,
        } in requests.drain(..)
        {
            let get = smp::get(attribute, modifier, &route, m_key);
            self.exchange.submit(agent, (Token::Discover(ask), get));
        }
        self.requests = requests;
    }

    fn timers(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::Release) {
            self.flap(crate::flap::In::ReleaseDue, out);
        }
        self.look_behind_links_at_once();
        if self.is_due(Timer::LightSweep) {
            self.begin_light_sweep(out);
        }
        if self.is_due(Timer::Poll) {
            self.run_election(crate::election::In::PollDue, out);
        }
    }

    /// Moves on when a stage has nothing left in flight; begins a sweep that is due.
    fn advance(&mut self, now: Time, out: &mut Vec<Output>) {
        loop {
            self.probe_suspects(out);
            if self.sweep_due.is_some() && self.may_sweep() {
                self.begin_sweep(now, out);
                return;
            }
            self.look_again_if_due();
            self.balance_if_due(out);
            self.multicast_if_due(out);
            self.name_if_due(out);
            self.back_up_if_due(out);
            self.feed(out);
            if self.exchange.open() > 0 || self.waits_for_a_trap() || !self.step(now, out) {
                return;
            }
        }
    }

    /// A sweep may replace anything but Sets on their way and a standby's rest. A fabric that changes all the time must
    /// not keep every plan from being applied, so only so many are dropped in a row.
    const fn may_sweep(&self) -> bool {
        match self.stage {
            Stage::Copying(ref copying) if copying.then.is_some() => self.superseded < SUPERSEDED_MAX,
            Stage::Idle | Stage::LightSweep { .. } | Stage::Probing(_) | Stage::Copying(_) | Stage::Naming(_) => true,
            Stage::Persisting { .. } if self.persist.is_failing() => true,
            Stage::Planning { .. } | Stage::Persisting { .. } => self.superseded < SUPERSEDED_MAX,
            // Between two steps that are proved nothing is half done, and faults should not wait for seconds.
            // What has been waited counts, so this ends however often it happens.
            Stage::Applying(ref apply, _) => apply.wait().is_some(),
            Stage::Standby | Stage::Disabled => matches!(
                self.sweep_due,
                Some(SweepReason::MasterLost | SweepReason::HandedOver | SweepReason::Told)
            ),
            Stage::Discovering(_) | Stage::Electing | Stage::Reading { .. } | Stage::HandingOver | Stage::Stopped => {
                false
            }
        }
    }

    fn begin_sweep(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(reason) = self.sweep_due.take() else { return };
        self.superseded += u32::from(self.interrupt_copying());
        match std::mem::take(&mut self.stage) {
            Stage::Planning { .. } => self.superseded += 1,
            Stage::Persisting { inventory, outcome, .. } => self.withdraw(&inventory, &outcome),
            Stage::Applying(apply, inventory) => {
                self.interrupted(*apply, &inventory, now, out);
            }
            _ => {}
        }
        self.rebalance(crate::rebalance::In::Interrupted, out);
        self.sweep_reason = reason;
        self.run_election(crate::election::In::SweepBegun, out);
        self.forget_repairs();
        self.unwatched.clear();
        self.second_look.forget(now);
        self.silent.forget();
        self.exchange.clear();
        self.generation = self.generation.next();
        (self.next_sweep, self.put_off) = (None, None);
        let mut discovery = Discovery::new(self.config.policy.part_enforce != PartEnforce::Off);
        let mut requests = Vec::new();
        discovery.begin(&mut requests);
        self.stage = Stage::Discovering(Box::new(discovery));
        self.submit(requests);
        out.push(Output::Milestone(Milestone::SweepStarted));
        out.push(Output::Event(Event::SweepStarted { reason }));
    }

    /// One step to the next stage; false if the stage waits for something else than answers.
    fn step(&mut self, now: Time, out: &mut Vec<Output>) -> bool {
        match std::mem::take(&mut self.stage) {
            Stage::Discovering(discovery) => self.discovered(*discovery, now, out),
            Stage::Electing | Stage::HandingOver => self.run_election(crate::election::In::AllAnswered, out),
            Stage::Reading {
                inventory,
                installed,
                round,
                ..
            } => self.tables_asked((inventory, installed, round), now, out),
            Stage::Applying(apply, inventory) if apply.is_done() => self.applied(*apply, &inventory, now, out),
            Stage::Probing(probe) => self.probed(*probe, now, out),
            Stage::Copying(copying) => self.copying_settled(copying, out),
            Stage::Naming(blocks) => self.naming_settled(blocks, out),
            Stage::LightSweep { changed } => self.light_sweep_settled(changed, now),
            waiting @ (Stage::Idle
            | Stage::Planning { .. }
            | Stage::Persisting { .. }
            | Stage::Applying(..)
            | Stage::Standby
            | Stage::Disabled
            | Stage::Stopped) => {
                self.stage = waiting;
                return false;
            }
        }
        true
    }

    fn discovered(&mut self, mut discovery: Discovery, now: Time, out: &mut Vec<Output>) {
        // Whatever goes wrong here: what was known before is no longer, and the next interval looks at everything.
        self.recall_what_was_known(&mut discovery.found);
        // A cable that is moved while we look shows a node at two places: once more tells whether there are two.
        let before = std::mem::replace(&mut self.duplicates, discovery.told.clone());
        if !self.duplicates.is_subset(&before) {
            self.sweep_due = Some(SweepReason::Again);
            return;
        }
        let Some(local) = discovery.local_port().filter(|_| discovery.found[0].left_out.is_none()) else {
            let what = "its own node does not answer NodeInfo; is the port cabled and the driver loaded?".to_owned();
            return self.cut_off(what, now, out);
        };
        self.leave_out_unstored_nodes(&mut discovery.found, out);
        let inventory = match Inventory::build(discovery.found, (0, local)) {
            Ok(mut inventory) => {
                inventory.leave_out(&self.flaps.quarantined(&inventory.fabric), PortReason::LeftOut);
                self.leave_out_unstored_links(&mut inventory, out);
                Arc::new(inventory)
            }
            Err(error) => {
                out.push(Output::Event(Event::BadDatagram { why: error.to_string() }));
                return self.rest(now);
            }
        };
        self.inventory = Some(Arc::clone(&inventory));
        self.note_other_masters(&inventory, &before, out);
        let known = self.view.fabric.as_deref().filter(|_| self.view.plan.is_some());
        let is_first = self.view.sweeps == 0;
        if self.config.mode == Mode::Manage && self.silence.asks_again(&inventory, known, is_first) {
            self.sweep_due = Some(self.sweep_reason.again());
            return;
        }
        if self.is_cut_off() {
            let (fabric, sweeps) = (Arc::clone(&inventory.fabric), self.view.sweeps);
            self.finish(&inventory, fabric, Installed::default(), &report::Failures::none());
            // Nothing was swept: front ends say that there is no fabric.
            self.view.sweeps = sweeps;
            let what = format!("port {local} is DOWN: plug in a cable or choose another port");
            return self.cut_off(what, now, out);
        }
        let fabric = &inventory.fabric;
        let (switches, hosts, links) = (fabric.switches().len(), fabric.host_count(), fabric.links().count());
        out.push(Output::Milestone(Milestone::Swept(Arc::clone(fabric))));
        out.push(Output::Event(Event::Discovered { switches, hosts, links }));
        out.extend(report::beyond_reach(&inventory).map(Output::Event));
        if let Some(old) = self.view.seen.replace(Arc::clone(fabric)) {
            let changes = diff(&old, fabric).changes;
            out.extend(
                changes
                    .iter()
                    .map(|c| Output::Event(Event::FabricChanged { change: c.to_string() })),
            );
        }
        match self.config.mode {
            Mode::Manage => {
                self.stage = Stage::Electing;
                self.run_election(crate::election::In::Swept, out);
            }
            Mode::DryRun | Mode::Watch => self.begin_reading(inventory),
        }
    }

    /// Keeps as many requests open as the window allows.
    fn feed(&mut self, out: &mut Vec<Output>) {
        match self.stage {
            Stage::Probing(_) => self.ask_ports(),
            Stage::LightSweep { .. } => {
                self.ask_behind_links();
                self.ask_back(Kind::Lft);
                self.ask_back(Kind::Lanes);
            }
            Stage::Copying(Copying { blocks: None, .. }) => self.ask_back(Kind::Mft),
            Stage::Naming(None) => self.ask_back(Kind::Guids),
            Stage::Applying(..) | Stage::Copying(_) | Stage::Naming(_) => self.feed_apply(out),
            Stage::Reading { .. } => self.ask_for_tables(),
            _ => {}
        }
    }
}

/// The status of an answer, if there was one.
pub fn ok(answer: Option<&Mad>) -> Option<&Mad> {
    answer.filter(|mad| mad.status().0 == 0)
}

mod aliases;
mod apply;
mod flap;
mod mending;
mod multicast;
mod persist;
mod readback;
mod rebalance;
mod registration;
mod trap;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
