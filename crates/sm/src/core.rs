//! The outer machine: takes inputs, holds the stage, hands out outputs.
//!
//! [`Sm::handle`] gives each input to the sub-machine that waits for it. `advance` then runs all work that is due, in
//! one fixed order. It begins the next stage when the requests of the current one have ended. [`Timer`] lists the
//! wake-ups.

use std::sync::Arc;
use std::time::Duration;

use selvedge_mad::{AgentId, Exchange, ExchangeConfig};
use selvedge_plan::PartEnforce;
use selvedge_planner::{Inventory, Judge, PortReason};
use selvedge_sim::Time;
use selvedge_wire::{AttributeId, Datagram, Mad, Method};

use crate::aliases::AliasGuids;
use crate::change::Changes;
use crate::commit::InForce;
use crate::config::{Config, Mode};
use crate::core::tickets::Tickets;
use crate::discover::{Discovery, Request};
use crate::drain::Drain;
use crate::election::{Ask, Election};
use crate::event::{Event, SweepReason};
use crate::fault::backups::BackupBook;
use crate::fault::repair::Repairs;
use crate::flap::Flaps;
use crate::io::{Input, Output, PersistentState};
use crate::key_ring::KeyRing;
use crate::lid_book::LidBook;
use crate::listed::Listed;
use crate::milestone::Milestone;
use crate::multicast::Multicast;
use crate::persist::Persist;
use crate::presence::Presence;
use crate::readback::{Kind, ReadBack};
use crate::reading::{Reading, Table};
use crate::rebalance::Rebalancer;
use crate::registration::Registration;
use crate::report;
use crate::sm_keys::SmKeys;
use crate::smp::{self, Smp};
use crate::stage::{MftWork, Stage, Token};
use crate::sweep::{Ask as Look, Sweep};
use crate::timer::Timer;
use crate::trap::Traps;
use crate::withdrawal::Withdrawal;

mod election;

/// A subnet manager.
#[derive(Debug)]
pub struct Sm {
    config: Config,
    judge: Arc<dyn Judge>,
    exchange: Exchange<(Token, Smp)>,
    stage: Stage,
    /// The plan in force.
    in_force: InForce,
    /// The last complete inventory: where light sweeps and polls go.
    inventory: Option<Arc<Inventory>>,
    /// The M_Keys of ports.
    keys: KeyRing,
    /// Former SM_Keys.
    sm_keys: SmKeys,
    /// The LIDs of each port.
    lids: LidBook,
    /// The stored state, and when it is stored.
    persist: Persist,
    /// Known nodes and links, and those that are missing.
    presence: Presence,
    /// Tickets of jobs.
    tickets: Tickets,
    /// Tables that a heavy sweep reads.
    reading: Reading,
    /// Decides when sweeps are due.
    sweep: Sweep,
    /// Entries and LIDs that packets in flight may still use.
    drain: Drain,
    /// The read-back of tables.
    read_back: ReadBack,
    /// GUIDs of the operator's lists that were reported as absent.
    listed: Listed,
    /// The time of the current input.
    now: Time,
    /// Which manager is master.
    election: Election,
    /// Which hosts must register again.
    registration: Registration,
    /// Probes and repairs.
    repairs: Repairs,
    /// Prepared repairs of links that are up.
    backups: BackupBook,
    /// Links that went down lately.
    flaps: Flaps,
    /// When sweeps take links out of service.
    withdrawal: Withdrawal,
    /// Traps that are not repressed yet.
    traps: Traps,
    /// Steps towards even load.
    rebalancer: Rebalancer,
    /// Multicast groups and trees.
    multicast: Multicast,
    /// Alias GUIDs of ports.
    aliases: AliasGuids,
    /// Changes of policy.
    changes: Changes,
}

/// Requests that have waited longer than this no longer delay other requests. It is ten times the time that a busy
/// agent needs.
const STALE_AFTER: Duration = Duration::from_millis(20);

impl Sm {
    /// Returns a manager that has not begun yet; hand in [`Input::Start`].
    #[must_use]
    pub fn new(mut config: Config, judge: Arc<dyn Judge>, state: PersistentState) -> Self {
        let keys = keys::ring(&mut config, &state);
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
            in_force: InForce::default(),
            inventory: None,
            keys,
            sm_keys: SmKeys::default(),
            lids: LidBook::stored(&state),
            tickets: Tickets::new(state.generation),
            reading: Reading::default(),
            persist: Persist::new(state),
            presence: Presence::default(),
            sweep: Sweep::default(),
            drain: Drain::default(),
            read_back: ReadBack::default(),
            listed: Listed::default(),
            now: Time::ZERO,
            election: Election::default(),
            registration: Registration::default(),
            repairs: Repairs::default(),
            backups: BackupBook::default(),
            flaps: Flaps::default(),
            withdrawal: Withdrawal::default(),
            traps: Traps::default(),
            rebalancer: Rebalancer::default(),
            multicast: Multicast::default(),
            aliases: AliasGuids::default(),
            changes: Changes::default(),
        }
    }

    /// Handles one input and appends its effects.
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
            Input::Persisted { id } => {
                self.persisted(id, out);
                self.keys_stored(out);
            }
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
        self.exchange.comes_in();
        match datagram.mad.method() {
            Method::GetResp => {
                while let Some(failed) = self.exchange.expired(now) {
                    self.ended(failed, None, out);
                }
                let was_repeated = self.exchange.was_repeated(&datagram.mad);
                match self.exchange.received(&datagram.mad) {
                    Some(asked) => {
                        if was_repeated {
                            self.note_repeated(asked.0);
                        }
                        self.ended(asked, Some(&datagram.mad), out);
                    }
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
            | Method::Other(_) => self.exchange.drops(),
        }
    }

    /// Gives an ended request to the stage that sent it. Without an answer the request has failed.
    fn ended(&mut self, (token, smp): (Token, Smp), answer: Option<&Mad>, out: &mut Vec<Output>) {
        let mut events = Vec::new();
        if self.keys.is_open() {
            if let Some(answer) = answer {
                self.run_keys(crate::key_ring::In::Answered(&smp, answer), out);
            }
            if self.keys.tries_again(&smp, answer) {
                return self.exchange.submit(AgentId::UNKNOWN, (token, smp));
            }
            self.run_keys(crate::key_ring::In::Ended(&smp, answer), out);
        }
        self.note_silence(&smp.route, answer.is_some(), out);
        match (token, &mut self.stage) {
            (Token::Discover(ask), Stage::Discovering(discovery)) => {
                let mut requests = Vec::new();
                discovery.ended(ask, &smp.route, answer, &mut requests, &mut events);
                self.submit(requests);
            }
            (Token::Table { switch, block }, Stage::Reading) => self.table_read(Table::Lft(switch, block), answer),
            (Token::Lanes(table), Stage::Reading) => self.table_read(Table::Lanes(table), answer),
            (Token::Set(id), Stage::Applying(..)) | (Token::Block(id), Stage::MftBlocks(_) | Stage::GuidBlocks(_)) => {
                self.run_apply(crate::apply::In::Ended(id, answer), out);
            }
            (Token::Look(Look::Held(_)), Stage::Applying(..)) => {
                self.run_apply(crate::apply::In::OwnPort(answer), out);
            }
            (Token::SmInfo(ask @ Ask::Election(_)), Stage::Electing)
            | (Token::SmInfo(ask @ Ask::Poll), Stage::Standby)
            | (Token::SmInfo(ask @ Ask::LightSweep(_)), Stage::LightSweep)
            | (Token::SmInfo(ask @ Ask::Handover), Stage::HandingOver) => {
                self.run_election(crate::election::In::Answered(ask, answer), out);
            }
            (Token::Probe(at), Stage::Probing(_)) => self.port_looked_at(at, answer, out),
            (Token::Behind(at, what), Stage::Probing(_)) => self.behind_looked_at(at, what, answer, out),
            (Token::Look(Look::Held(_)), Stage::Probing(_)) => self.own_port_looked_at(answer, out),
            (Token::ReadBack(id), Stage::MftBlocks(_) | Stage::GuidBlocks(_)) => {
                self.was_read_back(id, answer, out);
            }
            (Token::ReadBack(id), Stage::LightSweep) => {
                if self.was_read_back(id, answer, out) {
                    self.light_sweep_differs();
                }
            }
            (Token::Look(ask), Stage::LightSweep) => self.look_ended(ask, answer, out),
            // The stage that asked is over.
            (
                Token::Discover(_)
                | Token::Table { .. }
                | Token::Lanes(_)
                | Token::Set(_)
                | Token::SmInfo(_)
                | Token::ReadBack(_)
                | Token::Probe(_)
                | Token::Behind(..)
                | Token::Look(_)
                | Token::Block(_),
                _,
            ) => {}
        }
        out.extend(events.into_iter().map(Output::Event));
    }

    /// Queues the requests of discovery.
    pub(crate) fn submit(&mut self, requests: Vec<Request>) {
        for Request {
            agent,
            ask,
            attribute,
            modifier,
            route,
        } in requests
        {
            let get = smp::get(attribute, modifier, &route);
            self.exchange.submit(agent, (Token::Discover(ask), get));
        }
    }

    fn timers(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::Release) {
            self.flap(crate::flap::In::ReleaseDue, out);
        }
        if self.is_due(Timer::Withdrawal) {
            self.withdraw_if_due();
        }
        self.look_behind_links_at_once(out);
        if self.is_due(Timer::LightSweep) {
            self.begin_light_sweep(out);
        }
        if self.is_due(Timer::Poll) {
            self.run_election(crate::election::In::PollDue, out);
        }
    }

    /// Begins the next stage when no request is in flight; begins a sweep that is due.
    fn advance(&mut self, now: Time, out: &mut Vec<Output>) {
        loop {
            self.probe_suspects(out);
            if self.is_sweep_due() && self.may_sweep() {
                self.begin_sweep(now, out);
                return;
            }
            self.look_again_if_due(out);
            self.balance_if_due(out);
            self.multicast_if_due(out);
            self.aliases_if_due(out);
            self.back_up_if_due(out);
            self.note_presence_if_idle(out);
            self.feed(out);
            if self.exchange.open() > 0 || self.waits_for_a_trap() || !self.step(now, out) {
                return;
            }
        }
    }

    /// Returns true if the sweep that is due may begin in this stage. It may not begin while Sets are in flight. In a
    /// standby it may begin only for a reason that concerns the master. Only a few plans in a row are dropped for a
    /// sweep, so that a fabric that changes all the time still gets a plan.
    const fn may_sweep(&self) -> bool {
        match self.stage {
            Stage::MftBlocks(ref copying) if copying.then.is_some() => self.sweep.schedule().may_drop_plan(),
            Stage::Idle | Stage::LightSweep | Stage::Probing(_) | Stage::MftBlocks(_) | Stage::GuidBlocks(_) => true,
            Stage::Persisting { .. } if self.persist.is_failing() => true,
            Stage::Planning { .. } | Stage::Persisting { .. } => self.sweep.schedule().may_drop_plan(),
            // Between two proved steps no change is half done, and a fault should not wait for seconds. The time waited
            // so far counts, so this ends however often it happens.
            Stage::Applying(ref apply, _) => apply.wait().is_some(),
            Stage::Standby | Stage::Disabled => matches!(
                self.sweep.schedule().due(),
                Some(SweepReason::MasterLost | SweepReason::HandedOver | SweepReason::Told)
            ),
            Stage::Discovering(_) | Stage::Electing | Stage::Reading | Stage::HandingOver | Stage::Stopped => false,
        }
    }

    fn begin_sweep(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(reason) = self.sweep.schedule().due() else {
            return;
        };
        if self.interrupt_blocks() {
            self.tell_sweep(crate::sweep::In::PlanDropped);
        }
        match std::mem::take(&mut self.stage) {
            Stage::Planning { .. } => drop(self.tell_sweep(crate::sweep::In::PlanDropped)),
            Stage::Persisting { inventory, outcome, .. } => self.withdraw(&inventory, &outcome),
            Stage::Applying(apply, inventory) => {
                self.interrupted(*apply, &inventory, now, out);
            }
            _ => {}
        }
        self.rebalance(crate::rebalance::In::Interrupted, out);
        self.tell_sweep(crate::sweep::In::Begins);
        self.change_policy(crate::change::In::SweepBegins, out);
        self.run_keys(crate::key_ring::In::SweepBegins, out);
        self.run_election(crate::election::In::SweepBegun, out);
        self.forget_repairs();
        self.exchange.clear();
        self.next_generation();
        let mut discovery = Discovery::new(self.policy_to_plan().part_enforce != PartEnforce::Off);
        let mut requests = Vec::new();
        discovery.begin(&mut requests);
        self.stage = Stage::Discovering(Box::new(discovery));
        self.submit(requests);
        out.push(Output::Milestone(Milestone::SweepStarted));
        out.push(Output::Event(Event::SweepStarted { reason }));
    }

    /// Goes one step to the next stage; false if the stage does not wait for answers.
    fn step(&mut self, now: Time, out: &mut Vec<Output>) -> bool {
        match std::mem::take(&mut self.stage) {
            Stage::Discovering(discovery) => self.discovered(*discovery, now, out),
            Stage::Electing | Stage::HandingOver => self.run_election(crate::election::In::AllAnswered, out),
            Stage::Reading => self.tables_asked(now, out),
            Stage::Applying(apply, inventory) if apply.is_done() => self.applied(*apply, &inventory, now, out),
            Stage::Probing(probe) => self.probed(probe, out),
            Stage::MftBlocks(copying) => self.mft_blocks_done(copying, out),
            Stage::GuidBlocks(blocks) => self.guid_blocks_done(blocks, out),
            Stage::LightSweep => self.light_sweep_settled(now),
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
        // An error here drops the earlier knowledge, and the next interval reads everything.
        self.recall_what_was_known(&mut discovery.found);
        // A cable that is moved during a sweep shows a node at two places: a second sweep shows whether there are two
        // nodes.
        if self.repeats_sweep(crate::sweep::In::Twins(discovery.told.clone())) {
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
                self.take_out_of_service(&mut inventory);
                self.leave_out_unstored_links(&mut inventory, out);
                Arc::new(inventory)
            }
            Err(error) => {
                out.push(Output::Event(Event::BadDatagram { why: error.to_string() }));
                return self.rest(now);
            }
        };
        self.inventory = Some(Arc::clone(&inventory));
        self.note_other_masters(&inventory, out);
        let is_first = self.in_force.sweeps() == 0;
        if self.repeats_sweep(crate::sweep::In::Found { is_first }) {
            return;
        }
        if self.is_cut_off() {
            self.finish_cut_off(&inventory);
            let what = format!("port {local} is DOWN: plug in a cable or choose another port");
            return self.cut_off(what, now, out);
        }
        let fabric = &inventory.fabric;
        let (switches, hosts, links) = (fabric.switches().len(), fabric.host_count(), fabric.links().count());
        out.push(Output::Milestone(Milestone::Swept(Arc::clone(fabric))));
        out.push(Output::Event(Event::Discovered { switches, hosts, links }));
        out.extend(report::beyond_reach(&inventory).map(Output::Event));
        self.update_in_force(crate::commit::In::Found(fabric), out);
        self.note_presence(crate::presence::In::Swept(&inventory), out);
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
            Stage::Probing(_) => self.ask_ports(out),
            Stage::LightSweep => {
                self.ask_behind_links();
                self.ask_back(Kind::Lft);
                self.ask_back(Kind::Lanes);
            }
            Stage::MftBlocks(MftWork { blocks: None, .. }) => self.ask_back(Kind::Mft),
            Stage::GuidBlocks(None) => self.ask_back(Kind::Guids),
            Stage::Applying(..) | Stage::MftBlocks(_) | Stage::GuidBlocks(_) => self.feed_apply(out),
            Stage::Reading => self.ask_for_tables(),
            _ => {}
        }
    }
}

/// Returns the answer to a request, if there is one with status 0.
pub fn ok(answer: Option<&Mad>) -> Option<&Mad> {
    answer.filter(|mad| mad.status().0 == 0)
}

mod aliases;
mod apply;
mod backups;
mod change;
mod command;
mod commit;
mod drain;
mod fault;
mod flap;
mod jobs;
mod keys;
mod lid;
mod light;
mod multicast;
mod persist;
mod planning;
mod presence;
mod readback;
mod reading;
mod rebalance;
mod registration;
mod sending;
mod show;
mod sweep;
mod tickets;
mod timers;
mod trap;
mod withdrawal;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
