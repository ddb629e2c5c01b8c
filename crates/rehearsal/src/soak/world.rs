//! One schedule, carried out: what happens, what comes undone by itself, and how everything must end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_emulator::{EmulatorConfig, Fault};
use selvedge_fabric::{Fabric, Link, NodeIdx};
use selvedge_plan::Policy;
use selvedge_sim::{Seed, Time};
use selvedge_sm::{Command, DefaultJudge, Judge, Role, StageName};
use selvedge_types::Lmc;
use selvedge_wire::Method;

use super::broken::Broken;
use super::event::{Happening, Kind, When};
use super::schedule::{Schedule, engines, other_settings};
use super::seats::{config, seats};
use super::store_faults::StoreFaults;
use crate::clients::{Clients, DeskDefect};
use crate::{ManagerId, Observed, Options, Outside, Rehearsal, RehearsalError, Violation};

/// Who wants to see every step.
pub trait Observer {
    /// Something of the schedule happened, or came undone.
    fn happened(&mut self, world: &Rehearsal, what: &str);
    /// The world went one step further.
    fn stepped(&mut self, world: &Rehearsal);
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn happened(&mut self, _world: &Rehearsal, _what: &str) {}
    fn stepped(&mut self, _world: &Rehearsal) {}
}

/// How long is waited for a stage.
const STAGE_WAIT: Duration = Duration::from_millis(500);
/// After the last fault: so many light sweeps, and a rest, until everything must be well. A partition may leave two
/// masters, which a sweep of either ends; the second sweep repairs what the first found in use.
pub(super) const SWEEPS_TO_CONVERGE: u32 = 4;
pub(super) const CONVERGE_REST: Duration = Duration::from_secs(30);

/// A schedule on its way.
pub(super) struct World<'a> {
    pub rehearsal: Rehearsal,
    pub schedule: &'a Schedule,
    pub(super) fabric: &'a Fabric,
    links: Vec<Link>,
    pub managers: Vec<ManagerId>,
    /// Of programs: how long it took until all was well, or what was not.
    pub converged: Vec<(&'static str, Result<Duration, String>)>,
    pub(super) running: Vec<bool>,
    pub(super) policy: Arc<Policy>,
    /// What comes undone by itself, and when.
    undo: Vec<(Time, Fault)>,
    /// Kind and stage of everything that happened.
    pub coverage: BTreeMap<(Kind, u8), u64>,
    /// Happenings begun.
    pub begun: usize,
    /// Nodes that the operator has reset, as their M_Key was flipped.
    pub(super) reset: BTreeSet<NodeIdx>,
    /// Clients of the administrators, if the schedule has any.
    pub clients: Option<Box<Clients>>,
    /// What is wrong with the administrators, in tests of the checkers.
    pub(super) desk_defect: Option<DeskDefect>,
    /// Disks that fail for a time, if the schedule has any.
    pub(super) store_faults: Option<StoreFaults>,
    pub observer: &'a mut dyn Observer,
}

impl<'a> World<'a> {
    /// With managers that are programs.
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
                let judge = broken.map_or_else(|| Arc::new(DefaultJudge::default()) as Arc<dyn Judge>, Broken::judge);
                let id = rehearsal.add_manager(name, at, config, judge);
                if let Some(broken) = broken {
                    rehearsal.tamper(id, broken.tamper());
                }
                id
            });
        let managers: Vec<ManagerId> = managers.collect();
        Self {
            rehearsal,
            schedule,
            fabric,
            links: fabric.links().collect(),
            running: vec![false; managers.len()],
            managers,
            converged: Vec::new(),
            policy,
            undo: Vec::new(),
            coverage: BTreeMap::new(),
            begun: 0,
            reset: BTreeSet::new(),
            clients: None,
            desk_defect: None,
            store_faults: None,
            observer,
        }
    }

    /// All of it.
    pub fn run(&mut self) -> Result<(), RehearsalError> {
        self.invite_clients();
        self.start(0)?;
        if self.schedule.setup.both {
            self.start(1)?;
        }
        for happening in &self.schedule.happenings {
            self.wait(*happening)?;
            self.begun += 1;
            let stage = self.stage();
            if self.happen(happening)? {
                *self.coverage.entry((happening.kind, stage)).or_default() += 1;
            }
        }
        self.calm()?;
        self.converge("with cables unplugged and nodes off")?;
        self.serve("with cables unplugged and nodes off")?;
        self.heal()?;
        self.converge("when all was well again")?;
        self.serve("when all was well again")?;
        self.fail_at_last()?;
        self.last_questions()
    }

    pub(super) fn note(&mut self, what: &str) {
        self.observer.happened(&self.rehearsal, what);
    }

    pub(super) fn fault(&mut self, text: &str) -> Result<(), RehearsalError> {
        let fault: Fault = text.parse().map_err(RehearsalError::from)?;
        self.note(text);
        self.rehearsal.fault(&fault)
    }

    /// Does something, and the opposite some time later.
    fn for_a_time(&mut self, span: Duration, text: &str, opposite: &str) -> Result<(), RehearsalError> {
        self.fault(text)?;
        self.undo.push((self.rehearsal.now() + span, opposite.parse()?));
        Ok(())
    }

    pub(super) fn start(&mut self, which: usize) -> Result<(), RehearsalError> {
        self.note(&format!("manager {which} starts"));
        self.running[which] = true;
        let started = self.rehearsal.start(self.managers[which]);
        self.unless_disk_fails(which, started)
    }

    pub(super) fn kill(&mut self, which: usize) -> Result<(), RehearsalError> {
        self.note(&format!("manager {which} is killed"));
        self.running[which] = false;
        self.rehearsal.kill(self.managers[which])
    }

    /// The stage of the manager that matters most, as a number.
    fn stage(&self) -> u8 {
        if self.rehearsal.is_open() {
            // What can be seen of a program.
            return match self.rehearsal.outside_does() {
                Some(Method::Set) => StageName::Applying as u8,
                Some(_) => StageName::Discovering as u8,
                None => StageName::Idle as u8,
            };
        }
        let views = || self.managers.iter().filter_map(|&id| self.rehearsal.life_of(id));
        let master = views().find(|sm| sm.role() == Role::Master).or_else(|| views().next());
        master.map_or(0, |sm| sm.stage_name() as u8)
    }

    fn is_in(&self, stage: StageName) -> bool {
        if self.rehearsal.is_open() {
            return self.stage() == stage as u8;
        }
        let mut lives = self.managers.iter().filter_map(|&id| self.rehearsal.life_of(id));
        lives.any(|sm| sm.stage_name() == stage)
    }

    fn wait(&mut self, Happening { when, pick, .. }: Happening) -> Result<(), RehearsalError> {
        match when {
            When::After(span) => self.run_for(span),
            When::During(stage, span) => {
                self.run_until(STAGE_WAIT, |world| world.is_in(stage))?;
                self.run_for(span)
            }
            When::Amid(stage, span) => self.amid(stage, pick, span),
        }
    }

    /// Waits until the master is in a stage, and brings it about if that does not come by itself.
    fn amid(&mut self, stage: StageName, pick: u32, span: Duration) -> Result<(), RehearsalError> {
        let wait = match stage {
            // It comes at its interval, once a manager rests.
            StageName::LightSweep => self.schedule.setup.sweep() + STAGE_WAIT,
            _ => STAGE_WAIT / 4,
        };
        let mut reached = self.run_until(wait, |world| world.stage() == stage as u8)?;
        if !reached {
            self.bring_about(stage, pick)?;
            reached = self.run_until(STAGE_WAIT, |world| world.stage() == stage as u8)?;
        }
        // Half of the time at once: most stages are brief.
        match reached && pick.is_multiple_of(2) {
            true => Ok(()),
            false => self.run_for(span),
        }
    }

    /// Whatever leads to a stage.
    fn bring_about(&mut self, stage: StageName, pick: u32) -> Result<(), RehearsalError> {
        match stage {
            StageName::Idle | StageName::LightSweep => Ok(()),
            StageName::Probing => {
                let link = self.link(pick / 7);
                self.fault(&format!("flap {link} times=1 down=5ms up=5ms"))
            }
            // Whoever starts reads all tables and stores what it takes over.
            StageName::ReadingTables | StageName::Persisting => {
                let which = self.master();
                if self.running[which] {
                    self.kill(which)?;
                }
                self.start(which)
            }
            StageName::Discovering | StageName::Planning | StageName::Applying => {
                // A policy that was not there before: else there is nothing to apply.
                let what = Happening {
                    when: When::After(Duration::ZERO),
                    kind: Kind::Settings,
                    pick,
                    other: 0,
                    span: Duration::ZERO,
                };
                self.reload(&what)
            }
        }
    }

    /// The manager that matters most.
    pub(super) fn master(&self) -> usize {
        let is_master = |&which: &usize| {
            let sm = self.rehearsal.life_of(self.managers[which]);
            sm.is_some_and(|sm| sm.role() == Role::Master)
        };
        (0..self.managers.len()).find(is_master).unwrap_or(0)
    }

    pub fn run_for(&mut self, span: Duration) -> Result<(), RehearsalError> {
        self.run_until(span, |_| false).map(|_| ())
    }

    /// Goes on until something holds; false if it did not within the span.
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
            let stepped = self.rehearsal.step(limit);
            self.observer.stepped(&self.rehearsal);
            let stepped = stepped?;
            self.clients_go_on()?;
            if !stepped && limit == end {
                return Ok(holds(self));
            }
        }
    }

    fn undo_due(&mut self) -> Result<(), RehearsalError> {
        while let Some(at) = self.undo.iter().position(|(at, _)| *at <= self.rehearsal.now()) {
            let (_, fault) = self.undo.remove(at);
            self.note(&fault.to_string());
            self.rehearsal.fault(&fault)?;
        }
        Ok(())
    }

    fn link(&self, pick: u32) -> String {
        let count = self.links.len().max(1);
        let link = self.links.get(pick as usize % count);
        link.map_or_else(String::new, |link| self.fabric.port_name(link.a))
    }

    fn node(&self, pick: u32) -> String {
        let nodes = self.fabric.nodes();
        let node = NodeIdx(pick % u32::try_from(nodes.len().max(1)).unwrap_or(1));
        format!("\"{}\"", self.fabric.node(node).description)
    }

    fn a_switch(&self, pick: u32) -> String {
        let switches = self.fabric.switches().as_slice();
        let node = switches[pick as usize % switches.len()];
        format!("\"{}\"", self.fabric.node(node).description)
    }

    /// One thing happens; false if there was nothing to happen to.
    fn happen(&mut self, what: &Happening) -> Result<bool, RehearsalError> {
        let (pick, span) = (what.pick, what.span);
        let (link, node) = (self.link(pick), self.node(pick));
        let rare = 1 + what.other % 8;
        match what.kind {
            Kind::Cut => self.fault(&format!("cut {link}"))?,
            Kind::Restore => self.fault(&format!("restore {link}"))?,
            Kind::Flap => self.flap(&link, what)?,
            Kind::Die => self.fault(&format!("kill {node}"))?,
            Kind::Revive => self.fault(&format!("revive {node}"))?,
            Kind::Reboot => self.fault(&format!("reboot {node}"))?,
            Kind::Swap => {
                let with = self.link(what.other);
                if link == with {
                    return Ok(false);
                }
                self.fault(&format!("swap {link} with {with}"))?;
            }
            Kind::Clone => {
                let of = self.node(what.other);
                self.for_a_time(
                    span,
                    &format!("clone {node} of {of}"),
                    &format!("clone {node} of {node}"),
                )?;
            }
            Kind::Slow => {
                let by = 20 * (1 + what.other % 500);
                self.for_a_time(span, &format!("slow {node} by={by}us"), &format!("slow {node} by=0us"))?;
            }
            Kind::Hang => self.for_a_time(span, &format!("hang {node}"), &format!("unhang {node}"))?,
            Kind::Lie => {
                let switch = self.a_switch(pick);
                self.for_a_time(span, &format!("lie {switch}"), &format!("honest {switch}"))?;
            }
            Kind::Lose => self.for_a_time(span, &format!("loss {rare}%"), "loss 0%")?,
            Kind::Double => self.for_a_time(span, &format!("duplicate {rare}%"), "duplicate 0%")?,
            Kind::Late => {
                let max = 1 + what.pick % 400;
                self.for_a_time(span, &format!("delay {rare}% max={max}ms"), "delay 0% max=0ms")?;
            }
            Kind::Corrupt => self.for_a_time(span, &format!("corrupt {rare}/200"), "corrupt 0%")?,
            Kind::Part => self.part(what)?,
            Kind::Kill | Kind::Start | Kind::Restart => return self.life(what),
            Kind::Engines | Kind::Lmc | Kind::Settings => self.reload(what)?,
            Kind::Sweep => {
                self.note("the operator asks for a sweep");
                for which in (0..self.managers.len())
                    .filter(|&which| self.running[which])
                    .collect::<Vec<_>>()
                {
                    self.rehearsal.command(self.managers[which], Command::Sweep)?;
                }
            }
        }
        Ok(true)
    }

    fn flap(&mut self, link: &str, what: &Happening) -> Result<(), RehearsalError> {
        let times = 2 + what.other % 6;
        let (down, up) = (1 + what.pick % 40, 1 + what.other % 90);
        self.fault(&format!("flap {link} times={times} down={down}ms up={up}ms"))
    }

    fn life(&mut self, what: &Happening) -> Result<bool, RehearsalError> {
        let which = what.pick as usize % self.managers.len();
        match (what.kind, self.running[which]) {
            (Kind::Kill, true) => self.kill(which)?,
            (Kind::Start, false) => self.start(which)?,
            (Kind::Restart, true) => {
                self.kill(which)?;
                self.start(which)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// No MAD passes between two parts: one bit of a hash of each switch says to which it belongs.
    fn part(&mut self, what: &Happening) -> Result<(), RehearsalError> {
        let side = |node: NodeIdx| match self.fabric.node(node).is_switch() {
            true => (node.0 + 1).wrapping_mul(what.pick | 1).wrapping_mul(0x9E37_79B1) >> 31,
            false => 2,
        };
        let between: Vec<String> = self
            .links
            .iter()
            .filter(|link| {
                let (a, b) = (side(link.a.node), side(link.b.node));
                a != 2 && b != 2 && a != b
            })
            .map(|link| self.fabric.port_name(link.a))
            .collect();
        for at in between {
            self.for_a_time(what.span, &format!("loss 100% at {at}"), &format!("loss 0% at {at}"))?;
        }
        Ok(())
    }

    fn reload(&mut self, what: &Happening) -> Result<(), RehearsalError> {
        let policy = match what.kind {
            Kind::Engines => Policy {
                engines: engines((what.pick % 8) as u8),
                ..Policy::clone(&self.policy)
            },
            Kind::Lmc => Policy {
                lmc: Lmc::new((what.pick % 3) as u8).unwrap_or_default(),
                ..Policy::clone(&self.policy)
            },
            _ => other_settings(&self.policy, what.pick),
        };
        self.policy = Arc::new(policy);
        self.note(&format!(
            "policy: engine {}, LMC {}",
            self.policy.engines[0].0,
            self.policy.lmc.get()
        ));
        for &id in &self.managers {
            self.rehearsal.reload(id, Arc::clone(&self.policy))?;
        }
        Ok(())
    }

    /// Agents and the medium work again, GUIDs are unique, managers run; cables stay unplugged and nodes off.
    fn calm(&mut self) -> Result<(), RehearsalError> {
        for (_, fault) in std::mem::take(&mut self.undo) {
            self.note(&fault.to_string());
            self.rehearsal.fault(&fault)?;
        }
        self.cure_disks();
        for which in 0..self.managers.len() {
            if !self.running[which] {
                self.start(which)?;
            }
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<(), RehearsalError> {
        for node in self.fabric.nodes().indices() {
            let name = self.fabric.node(node).description.clone();
            self.fault(&format!("revive \"{name}\""))?;
        }
        for link in self.links.clone() {
            // Swapped cables have other ends: both are plugged in.
            for end in [link.a, link.b] {
                self.fault(&format!("restore {}", self.fabric.port_name(end)))?;
            }
        }
        Ok(())
    }

    /// Everything is well within a bounded time.
    pub(super) fn converge(&mut self, when: &'static str) -> Result<(), RehearsalError> {
        let sweep = self.schedule.setup.sweep();
        let bound = SWEEPS_TO_CONVERGE * sweep + CONVERGE_REST;
        if self.rehearsal.is_open() {
            return self.converge_outside(when, bound);
        }
        let began = self.rehearsal.now();
        let mut bound = bound;
        let mut was_locked = false;
        // What just happened must be seen by somebody first.
        self.run_for(Duration::from_millis(100))?;
        loop {
            let left = (began + bound).since(self.rehearsal.now());
            // Traps about it may let nobody rest until it ends: then it is not to be seen any more.
            let locked = self.rehearsal.locked_for(self.policy.m_key);
            let quiet = self.run_until(left, |world| world.rehearsal.is_quiet())?;
            let trouble = match quiet {
                true => self.trouble()?,
                false => Some("it does not come to rest".to_owned()),
            };
            let Some(what) = trouble else { return Ok(()) };
            // It may end just before the bound, and is not to be seen then.
            let locked = locked.or_else(|| self.rehearsal.locked_for(self.policy.m_key));
            if !was_locked && let Some(lease) = locked {
                self.rehearsal.count_locked();
                // It began when a manager first tried to set the port, at the latest a moment ago.
                was_locked = true;
                bound += lease + SWEEPS_TO_CONVERGE * sweep;
            }
            if self.reset_keys()? {
                bound = self.rehearsal.now().since(began) + SWEEPS_TO_CONVERGE * sweep + CONVERGE_REST;
            }
            if self.rehearsal.now() >= began + bound {
                let (now, seconds) = (self.rehearsal.now(), bound.as_secs());
                let violation = Violation::NotConverged { what, when, seconds };
                return Err(RehearsalError::Violated { now, violation });
            }
            self.run_for((sweep / 4).max(Duration::from_millis(500)))?;
        }
    }

    /// What is not as it should be at rest, if anything.
    fn trouble(&mut self) -> Result<Option<String>, RehearsalError> {
        let mut masters = Vec::new();
        for &id in &self.managers {
            let (Some(view), Some(client)) = (self.rehearsal.view(id), self.rehearsal.client(id)) else {
                return Ok(Some(format!("manager {} does not run", id.0)));
            };
            let Some(at) = self.rehearsal.emulator().port_of(client) else {
                continue;
            };
            let observed = Observed::around(self.rehearsal.emulator(), at);
            if observed.fabric.nodes().is_empty() {
                continue; // Its host is off or cut off.
            }
            match view.role {
                Role::Master => masters.push(at),
                Role::Standby => continue,
                other => return Ok(Some(format!("manager {} is {other}", id.0))),
            }
            if !view.is_up() {
                return Ok(Some(format!("manager {} is not up: {} Sets failed", id.0, view.failed)));
            }
            if let Some((at, conflict)) = observed.without_lid.first() {
                return Ok(Some(format!("{}: {conflict:?}", observed.fabric.port_name(*at))));
            }
            // The other rail's port of a host may be on an island where no manager sits.
            let other_lmc = |(at, port): &(_, &selvedge_fabric::Port)| {
                observed.fabric.link_is_up(*at) && port.settings.lids.lmc != self.policy.lmc
            };
            let mut hosts = observed
                .fabric
                .end_ports()
                .filter(|(at, _)| !observed.fabric.node(at.node).is_switch());
            if let Some((at, _)) = hosts.find(other_lmc) {
                let (port, want) = (observed.fabric.port_name(at), self.policy.lmc.get());
                return Ok(Some(format!("{port} has another LMC than the policy's {want}")));
            }
            if let Some(idle) = observed.not_active().next() {
                let name = observed.fabric.port_name(idle);
                self.let_in(id, &name)?;
                return Ok(Some(format!("{name} is not ACTIVE")));
            }
            if let Some(error) = observed.judge().errors().next() {
                return Ok(Some(error.to_string()));
            }
        }
        for (which, &id) in self.managers.iter().enumerate() {
            let at = self
                .rehearsal
                .client(id)
                .and_then(|client| self.rehearsal.emulator().port_of(client));
            let Some(at) = at else { continue };
            let here = masters
                .iter()
                .filter(|&&master| self.rehearsal.connected(master, at))
                .count();
            if here > 1 {
                return Ok(Some(format!("{here} masters around manager {which}")));
            }
        }
        Ok(self.rehearsal.at_rest().err().map(|violation| violation.to_string()))
    }
}
