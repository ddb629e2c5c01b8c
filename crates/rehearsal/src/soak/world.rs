//! Carries one schedule out: its events, and the end of faults that last for a time.

use std::sync::Arc;
use std::time::Duration;

use selvedge_emulator::{EmulatorConfig, Fault};
use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_sim::{Seed, Time};
use selvedge_sm::{Command, Role, StageName};
use selvedge_wire::Method;

use super::action::{Action, Setting};
use super::broken::Broken;
use super::ground::Ground;
use super::schedule::Schedule;
use super::seats::{config, seats};
use super::state::{Managers, Operator, Record};
use super::store_faults::StoreFaults;
use crate::clients::{Clients, DeskDefect};
use crate::{Options, Outside, Rehearsal, RehearsalError};

/// An observer of every step of a schedule.
pub trait Observer {
    /// Called when an action of the schedule was done.
    fn happened(&mut self, world: &Rehearsal, what: &str);
    /// Called after each step of the rehearsal.
    fn stepped(&mut self, world: &Rehearsal);
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn happened(&mut self, _world: &Rehearsal, _what: &str) {}
    fn stepped(&mut self, _world: &Rehearsal) {}
}

/// Longest wait for a stage of a manager.
pub(super) const STAGE_WAIT: Duration = Duration::from_millis(500);
/// Number of light sweeps from the last fault until everything must be well, in addition to a fixed time. For example,
/// a partition of the fabric may leave two masters: the first sweep of one of them ends that, and a second sweep is
/// needed to repair tables.
pub(super) const SWEEPS_TO_CONVERGE: u32 = 4;
pub(super) const CONVERGE_REST: Duration = Duration::from_secs(30);

/// A schedule while it is carried out.
pub(super) struct World<'a> {
    pub rehearsal: Rehearsal,
    pub schedule: &'a Schedule,
    pub(super) ground: Ground<'a>,
    pub managers: Managers,
    pub(super) operator: Operator,
    /// Actions that end earlier ones, with their times: a fault that ends, a policy that the operator corrects.
    pub(super) undo: Vec<(Time, Action)>,
    pub record: Record,
    /// Clients of the administrators, if the schedule has any.
    pub clients: Option<Box<Clients>>,
    /// The defect of the administrators, in tests of the checkers.
    pub(super) desk_defect: Option<DeskDefect>,
    /// Disks that fail for a time, if the schedule has any.
    pub(super) store_faults: Option<StoreFaults>,
    pub observer: &'a mut dyn Observer,
}

impl<'a> World<'a> {
    /// Prepares a schedule with programs as managers.
    pub fn open(
        schedule: &'a Schedule,
        fabric: &'a Fabric,
        hands: Box<dyn Outside>,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, RehearsalError> {
        let mut world = Self::new(schedule, fabric, None, observer);
        world.rehearsal.open(hands);
        for at in seats(fabric) {
            world.rehearsal.seat_outside(&at)?;
        }
        Ok(world)
    }

    pub fn new(
        schedule: &'a Schedule,
        fabric: &'a Fabric,
        broken: Option<Broken>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let options = Options {
            emulator: EmulatorConfig::default(),
            seed: Seed(schedule.seed),
        };
        let mut rehearsal = Rehearsal::new(fabric, options);
        rehearsal.watch();
        let setup = &schedule.setup;
        rehearsal.set_plan_cost(setup.plan_ms.map(|ms| Duration::from_millis(ms.into())));
        let policy = setup.policy();
        let seats = seats(fabric);
        let managers = ["a", "b"]
            .into_iter()
            .zip(&seats)
            .zip([1, 0])
            .map(|((name, at), priority)| {
                let config = config(schedule, &policy, priority);
                let id = rehearsal.add_manager(name, at, config, Broken::judge(broken));
                if let Some(broken) = broken {
                    rehearsal.tamper(id, broken.tamper());
                }
                id
            });
        Self {
            managers: Managers::new(managers.collect()),
            rehearsal,
            schedule,
            ground: Ground::new(fabric),
            operator: Operator::new(policy),
            undo: Vec::new(),
            record: Record::default(),
            clients: None,
            desk_defect: None,
            store_faults: None,
            observer,
        }
    }

    /// Carries out the schedule.
    pub fn run(&mut self) -> Result<(), RehearsalError> {
        self.invite_clients();
        self.act(Action::Start(0))?;
        if self.schedule.setup.both {
            self.act(Action::Start(1))?;
        }
        for happening in &self.schedule.happenings {
            self.wait(*happening)?;
            self.record.begun += 1;
            let stage = self.stage();
            if self.happen(happening)? {
                *self.record.coverage.entry((happening.kind, stage)).or_default() += 1;
            }
        }
        self.calm()?;
        self.all_well("with cables unplugged and nodes off")?;
        self.act(Action::Heal)?;
        self.all_well("when all was well again")?;
        self.put_all_back()?;
        self.fail_at_last()?;
        self.last_questions()?;
        self.act(Action::End)
    }

    /// Does the actions of a resolved schedule at their times.
    pub fn replay(&mut self, actions: &[(Time, Action)]) -> Result<(), RehearsalError> {
        self.invite_clients();
        self.draw_no_store_faults();
        for (at, action) in actions {
            self.run_for(at.since(self.rehearsal.now()))?;
            self.record.begun += 1;
            self.act(action.clone())?;
        }
        Ok(())
    }

    /// Records every action, with its time, from now on.
    pub fn keep_actions(&mut self) {
        self.record.actions.get_or_insert_default();
    }

    /// Returns the actions so far.
    pub fn take_actions(&mut self) -> Vec<(Time, Action)> {
        self.record.actions.take().unwrap_or_default()
    }

    pub(super) const fn keeps_actions(&self) -> bool {
        self.record.actions.is_some()
    }

    pub(super) fn note(&mut self, what: &str) {
        self.observer.happened(&self.rehearsal, what);
    }

    /// Carries out an action, after all other work that is due at this instant. Everything that a schedule changes is
    /// changed by such an action, so the list of actions with their times determines the run.
    pub(super) fn act(&mut self, action: Action) -> Result<(), RehearsalError> {
        self.finish_instant()?;
        if let Some(actions) = &mut self.record.actions {
            actions.push((self.rehearsal.now(), action.clone()));
        }
        self.note(&action.to_string());
        match action {
            Action::Fault(fault) => self.rehearsal.fault(&fault)?,
            Action::Heal => self.heal()?,
            Action::Start(which) => self.start(which)?,
            Action::Kill(which) => self.kill(which)?,
            Action::Sweep(which) => self.rehearsal.command(self.managers.id(which), Command::Sweep)?,
            Action::Policy(setting) => self.load(setting)?,
            Action::Disk { which, trouble } => self.set_trouble(which, trouble),
            Action::HostsSettle => self.clients.iter_mut().for_each(|clients| clients.set_lively(false)),
            Action::HostsChange => self.clients.iter_mut().for_each(|clients| clients.change_minds()),
            Action::HostsCheck => {
                let mut clients = self.clients.iter_mut();
                clients.try_for_each(|clients| clients.check(&mut self.rehearsal))?;
            }
            Action::Well => self.take_end()?,
            Action::End => {}
        }
        self.clients_go_on()
    }

    /// Carries out all work that is due at this instant.
    fn finish_instant(&mut self) -> Result<(), RehearsalError> {
        // Programs run in real time: nothing is due at one instant.
        let mut is_done = self.rehearsal.is_open();
        while !is_done {
            let now = self.rehearsal.now();
            // Clients may cause more, so one more step is tried.
            is_done = !self.step(now)? && !self.step(now)?;
        }
        Ok(())
    }

    /// Makes one step of the rehearsal and of its clients. Returns false if there was none up to `limit`.
    fn step(&mut self, limit: Time) -> Result<bool, RehearsalError> {
        let stepped = self.rehearsal.step(limit);
        self.observer.stepped(&self.rehearsal);
        let stepped = stepped?;
        self.clients_go_on()?;
        Ok(stepped)
    }

    pub(super) fn fault(&mut self, text: &str) -> Result<(), RehearsalError> {
        let fault: Fault = text.parse().map_err(RehearsalError::from)?;
        self.act(Action::Fault(fault))
    }

    /// Begins a fault, and ends it some time later.
    pub(super) fn for_a_time(&mut self, span: Duration, text: &str, opposite: &str) -> Result<(), RehearsalError> {
        self.fault(text)?;
        let opposite = Action::Fault(opposite.parse()?);
        self.undo.push((self.rehearsal.now() + span, opposite));
        Ok(())
    }

    fn start(&mut self, which: usize) -> Result<(), RehearsalError> {
        self.managers.set_running(which, true);
        let started = self.rehearsal.start(self.managers.id(which));
        self.unless_disk_fails(which, started)
    }

    fn kill(&mut self, which: usize) -> Result<(), RehearsalError> {
        self.managers.set_running(which, false);
        self.rehearsal.kill(self.managers.id(which))
    }

    /// Gives all managers a policy that differs from the last one in a setting.
    fn load(&mut self, setting: Setting) -> Result<(), RehearsalError> {
        let mut policy = Policy::clone(&self.operator.policy);
        setting.apply(&mut policy);
        if policy.m_key != self.operator.policy.m_key {
            self.operator.keys.changed(self.operator.policy.m_key);
        }
        self.operator.policy = Arc::new(policy);
        let mut managers = self.managers.ids().iter();
        managers.try_for_each(|&id| self.rehearsal.reload(id, Arc::clone(&self.operator.policy)))
    }

    /// Takes the state of the hardware into the end digest. If all managers are idle, the checkers run as well.
    fn take_end(&mut self) -> Result<(), RehearsalError> {
        if self.rehearsal.is_quiet() {
            let rest = self.rehearsal.at_rest();
            rest.map_err(|violation| self.rehearsal.violated(violation))?;
        }
        self.rehearsal.keep_held();
        self.record.end = self.record.end.number(self.rehearsal.held_digest());
        if let Some(clients) = &self.clients {
            let registered = clients.registered(&self.rehearsal);
            self.record.end = self.rehearsal.keep_registered(self.record.end, &registered);
        }
        Ok(())
    }

    /// Returns the stage of the master, or of the first manager that runs, as a number.
    pub(super) fn stage(&self) -> u8 {
        if self.rehearsal.is_open() {
            // Only the MADs of a program can be seen.
            return match self.rehearsal.outside_does() {
                Some(Method::Set) => StageName::Applying as u8,
                Some(_) => StageName::Discovering as u8,
                None => StageName::Idle as u8,
            };
        }
        let views = || self.managers.ids().iter().filter_map(|&id| self.rehearsal.life_of(id));
        let master = views().find(|sm| sm.role() == Role::Master).or_else(|| views().next());
        master.map_or(0, |sm| sm.stage_name() as u8)
    }

    pub(super) fn is_in(&self, stage: StageName) -> bool {
        if self.rehearsal.is_open() {
            return self.stage() == stage as u8;
        }
        let mut lives = self.managers.ids().iter().filter_map(|&id| self.rehearsal.life_of(id));
        lives.any(|sm| sm.stage_name() == stage)
    }

    /// Returns the master, or the first manager if there is none.
    pub(super) fn master(&self) -> usize {
        let is_master = |&which: &usize| {
            let sm = self.rehearsal.life_of(self.managers.id(which));
            sm.is_some_and(|sm| sm.role() == Role::Master)
        };
        (0..self.managers.ids().len()).find(is_master).unwrap_or(0)
    }

    pub fn run_for(&mut self, span: Duration) -> Result<(), RehearsalError> {
        self.run_until(span, |_| false).map(|_| ())
    }

    /// Runs until a condition holds. Returns false if it does not hold within the span.
    pub fn run_until(&mut self, span: Duration, holds: impl Fn(&Self) -> bool) -> Result<bool, RehearsalError> {
        let end = self.rehearsal.now() + span;
        loop {
            if holds(self) {
                return Ok(true);
            }
            self.undo_due()?;
            self.store_faults_due()?;
            let next = self.undo.iter().map(|(at, _)| *at).min();
            let limit = self.until_clients(next.map_or(end, |at| at.min(end)));
            let limit = self.until_store_faults(limit);
            if !self.step(limit)? && limit == end {
                return Ok(holds(self));
            }
        }
    }

    fn undo_due(&mut self) -> Result<(), RehearsalError> {
        while let Some(at) = self.undo.iter().position(|(at, _)| *at <= self.rehearsal.now()) {
            let (_, action) = self.undo.remove(at);
            self.act(action)?;
        }
        Ok(())
    }
}
