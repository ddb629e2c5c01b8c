//! Clients of the subnet administrator: hosts that join, leave, subscribe, offer services and ask for paths, an
//! administrator beside each manager, and checkers of what hosts were told.
//!
//! Administrators are fed, and store, as `daemon` does it. Datagrams of theirs go by the tables that switches hold, and
//! take no time: what they cost, and what they do to SMPs, is the business of `conformance`. What is drawn for clients
//! comes from a seed of their own, so that all else happens as without them, but for what they cause.
//!
//! What must hold, as seen from outside:
//! - a question that gets to the administrator of a master is answered within 1.074 s;
//! - a path that it names is one of the plan in force, with the service level that senders are told, and at rest
//!   packets get there;
//! - at rest each host has what it wants, and the master knows of all that hosts were told they have. A host takes
//!   nothing for registered when its link was down or it was asked to register again;
//! - at rest a packet to a group comes to each member once, and to nobody whom the master does not take for one;
//! - subscribers are told that a port went and came back.

mod check;
mod desk;
mod host;
mod ways;

use std::collections::VecDeque;
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::PortRef;
use selvedge_sa::{Input, Output};
use selvedge_sim::{Rng, Seed, Time};
use selvedge_sm::{Milestone, Role};
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::sa::records;
use selvedge_wire::{Address, Datagram, Mad, Method, Status};

use self::desk::Desk;
use self::host::{Asked, Host, What, path, to_administrator};
use self::ways::{arrives, is_active, is_planned};
use crate::{ManagerId, Rehearsal, RehearsalError, Violation};

/// How often hosts look at their ports, and do something.
const TICK: Duration = Duration::from_millis(50);
/// ClassPortInfo.RespTimeValue 18 of the administrator.
pub(crate) const ANSWER_MAX: Duration = Duration::from_millis(1_074);
/// Of so many ticks each host changes its mind in one.
const CHANGES_EVERY: u64 = 400;

/// A defect of administrators that must be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeskDefect {
    /// What hosts registered counts as stored and is not.
    StoresNothing,
    /// Hosts are told that something is registered, although that could neither be marked nor stored.
    ConfirmsUnmarked,
    /// It answers from the first plan of its life.
    AnswersFromThePast,
    /// It reports nothing.
    Mute,
    /// It answers no question for a path.
    IgnoresPaths,
    /// The manager is not told of groups.
    KeepsGroups,
    /// It does not see that a service is to be registered.
    LosesServices,
    /// While it stands by it does not notice of whom the master has forgotten something.
    CopiesNoForgotten,
}

/// A question that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    host: usize,
    number: u64,
    desk: usize,
    since: Time,
}

/// Hosts, and the administrators that they talk to.
pub struct Clients {
    desks: Vec<Desk>,
    hosts: Vec<Host>,
    defect: Option<DeskDefect>,
    rng: Rng,
    ticked: Time,
    serial: u64,
    open: Vec<Open>,
    /// Hosts change their minds.
    is_lively: bool,
    /// How often somebody became master, and how often had when reports began to be expected.
    led: u64,
    led_before: u64,
    /// What happened, for people.
    notes: Vec<(Time, String)>,
}

impl Clients {
    /// At all ports of channel adapters but those where managers sit.
    #[must_use]
    pub fn new(world: &mut Rehearsal, seats: &[(ManagerId, PortIdx)], seed: Seed, defect: Option<DeskDefect>) -> Self {
        world.watch_reregistration();
        world.keep_milestones();
        let mut rng = seed.child("clients").rng();
        let chassis = world.emulator().chassis();
        let fabric = chassis.fabric();
        let is_free = |at: &PortRef| seats.iter().all(|(_, seat)| chassis.port_ref(*seat) != *at);
        let ends = fabric.end_ports();
        let ends = ends.filter(|(at, _)| !fabric.node(at.node).is_switch() && is_free(at));
        let hosts = ends.filter_map(|(at, port)| {
            let wants = std::array::from_fn(|_| rng.below(4) > 0);
            Some(Host::new(chassis.port_idx(at)?, at.node, port.guid, wants))
        });
        Self {
            hosts: hosts.collect(),
            desks: seats
                .iter()
                .map(|&(id, seat)| Desk::new(id, seat, world.disk_of(id), defect))
                .collect(),
            defect,
            rng,
            ticked: Time::ZERO,
            serial: 0,
            open: Vec::new(),
            is_lively: true,
            led: 0,
            led_before: 0,
            notes: Vec::new(),
        }
    }

    /// When they want to be called next, at the latest.
    #[must_use]
    pub fn next(&self) -> Time {
        self.ticked + TICK
    }

    /// From now on hosts change their minds now and then, or do not.
    pub const fn set_lively(&mut self, is_lively: bool) {
        self.is_lively = is_lively;
    }

    /// Each host wants one thing that it does not want now, or no longer wants one that it does.
    pub fn change_minds(&mut self) {
        for number in 0..self.hosts.len() {
            self.change_mind(number);
        }
    }

    fn change_mind(&mut self, number: usize) {
        let what = self.below(What::ALL.len());
        let host = &mut self.hosts[number];
        host.wants[what] ^= true;
        // What it was about to give up it may have given up: the answer may be what was lost.
        host.has[what] &= !host.wants[what];
    }

    /// What happened to them since the last call, by time.
    pub fn take_notes(&mut self) -> Vec<(Time, String)> {
        std::mem::take(&mut self.notes)
    }

    fn note(&mut self, now: Time, what: String) {
        self.notes.push((now, what));
    }

    /// A manager was started just now.
    pub fn started(&mut self, world: &mut Rehearsal, id: ManagerId) -> Result<(), RehearsalError> {
        self.serial += 1;
        let life = self.serial;
        let desk = self.desks.iter_mut().find(|desk| desk.id == id);
        desk.map_or(Ok(()), |desk| desk.start(world, life))
    }

    /// A manager was killed just now.
    pub fn killed(&mut self, id: ManagerId) {
        if let Some(number) = self.desks.iter().position(|desk| desk.id == id) {
            (self.desks[number].runs, self.desks[number].in_force) = (false, None);
            self.open.retain(|open| open.desk != number);
        }
    }

    /// The world went one step further.
    pub fn after_step(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        self.heed(world)?;
        self.reregister(world);
        for number in 0..self.desks.len() {
            self.turn(world, number)?;
        }
        if world.now() >= self.next() {
            self.ticked = world.now();
            for host in 0..self.hosts.len() {
                self.live(world, host)?;
            }
            if !self.hosts.is_empty() {
                let host = self.below(self.hosts.len());
                self.ask_path(world, host)?;
            }
        }
        let late = |open: &&Open| world.now().since(open.since) > ANSWER_MAX;
        match self.open.iter().find(late) {
            None => Ok(()),
            Some(open) => Err(world.violated(Violation::Unanswered {
                host: world.port_name(self.hosts[open.host].at),
                manager: world.name(self.desks[open.desk].id),
                millis: u64::try_from(ANSWER_MAX.as_millis()).unwrap_or(u64::MAX),
            })),
        }
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.rng.below(count.max(1) as u64)).unwrap_or(0)
    }

    /// What managers have done, as `daemon` goes by it.
    fn heed(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        while let Some((id, milestone)) = world.next_milestone() {
            let Some(number) = self.desks.iter().position(|desk| desk.id == id && desk.runs) else {
                continue;
            };
            let mut out = Vec::new();
            let desk = &mut self.desks[number];
            let before = (desk.sa.registered(), desk.sa.registrations().forgotten().clone());
            let now = world.now();
            match milestone {
                // Traps go to the manager only.
                Milestone::SweepStarted | Milestone::TrapTaken(_) => {}
                Milestone::Swept(fabric) => desk.administer(now, Input::Swept(fabric), &mut out),
                Milestone::Coming { fabric, plan, .. } => desk.administer(now, Input::Coming(fabric, plan), &mut out),
                Milestone::Committed(committed) => desk.committed(now, *committed, &mut out),
                Milestone::CopiesChanged(copies) => desk.administer(now, Input::Copies(copies), &mut out),
                Milestone::RoleChanged { role } => {
                    self.led += u64::from(role == Role::Master);
                    desk.role_changed(world, role, &mut out)?;
                    self.open.retain(|open| open.desk != number);
                }
            }
            let after = (desk.sa.registered(), desk.sa.registrations().forgotten().clone());
            if before != after {
                let ([services, subscriptions, groups, members, _], forgotten) = after;
                let text = format!(
                    "{} knows {members} members of {groups} groups, {subscriptions} subscriptions, \
                     {services} services; forgotten {forgotten:?}",
                    world.name(id)
                );
                self.note(world.now(), text);
            }
            self.sent_by_desk(world, number, out);
        }
        Ok(())
    }

    fn turn(&mut self, world: &mut Rehearsal, number: usize) -> Result<(), RehearsalError> {
        let desk = &mut self.desks[number];
        if !desk.runs {
            return Ok(());
        }
        if self.defect == Some(DeskDefect::KeepsGroups) {
            desk.sa.take_changed_groups();
        }
        let mut out = Vec::new();
        desk.turn(world, &mut out)?;
        self.sent_by_desk(world, number, out);
        Ok(())
    }

    fn sent_by_desk(&mut self, world: &Rehearsal, number: usize, out: Vec<Output>) {
        let seat = self.desks[number].seat;
        self.note_answers(&out);
        self.carry(world, out.into_iter().map(|output| (seat, output.datagram)).collect());
    }

    /// Questions that are answered now, whether the answer gets to who asked or not.
    fn note_answers(&mut self, out: &[Output]) {
        for output in out {
            let mad = &output.datagram.mad;
            if mad.method().is_response() && mad.method() != Method::ReportResp {
                let number = mad.transaction().0 & 0xFFFF_FFFF;
                self.open.retain(|open| open.number != number);
            }
        }
    }

    /// Datagrams on their way, each from a port.
    fn carry(&mut self, world: &Rehearsal, todo: Vec<(PortIdx, Datagram)>) {
        let (now, chassis) = (world.now(), world.emulator().chassis());
        let mut todo = VecDeque::from(todo);
        while let Some((from, datagram)) = todo.pop_front() {
            let is_report = datagram.mad.method() == Method::Report;
            if is_report && self.defect == Some(DeskDefect::Mute) {
                continue;
            }
            let Some(to) = arrives(chassis, from, datagram.address.lid) else {
                continue;
            };
            let source = chassis.port(from).settings().lids.base;
            let arrived = Datagram {
                address: Address::gsi(source, Sl::default()),
                ..datagram
            };
            if let Some(number) = self.desks.iter().position(|desk| desk.seat == to && desk.runs) {
                let out = self.desk_receives(world, now, (number, from), &arrived);
                todo.extend(out.into_iter().map(|output| (to, output.datagram)));
            } else if let Some(host) = self.hosts.iter_mut().find(|host| host.at == to) {
                todo.extend(host.receives(&arrived).map(|answer| (to, answer)));
            }
        }
    }

    fn desk_receives(
        &mut self,
        world: &Rehearsal,
        now: Time,
        (number, from): (usize, PortIdx),
        arrived: &Datagram,
    ) -> Vec<Output> {
        let mad = &arrived.mad;
        if self.defect == Some(DeskDefect::LosesServices) && mad.attribute() == records::SERVICE.id {
            return Vec::new();
        }
        let asker = self.hosts.iter().position(|host| host.at == from);
        let is_master = world
            .life_of(self.desks[number].id)
            .is_some_and(|sm| sm.role() == Role::Master);
        // A role that changed this moment is heeded with the next step.
        let is_heeded = !world.has_milestones();
        if let (Some(host), false, true) = (asker, mad.method().is_response(), is_master && is_heeded) {
            self.open.push(Open {
                host,
                number: mad.transaction().0 & 0xFFFF_FFFF,
                desk: number,
                since: now,
            });
        }
        if self.defect == Some(DeskDefect::IgnoresPaths) && mad.attribute() == records::PATH.id {
            return Vec::new();
        }
        let mut out = Vec::new();
        self.desks[number].receives(now, arrived, &mut out);
        self.note_answers(&out);
        out
    }

    /// Hosts whose agents were told to register again.
    fn reregister(&mut self, world: &mut Rehearsal) {
        for port in world.take_reregistered() {
            if let Some(host) = self.hosts.iter_mut().find(|host| host.at == port) {
                host.has = Default::default();
                let what = format!("{} is asked to register again", host.guid);
                self.note(world.now(), what);
            }
        }
    }

    /// What a host does at its leisure.
    fn live(&mut self, world: &Rehearsal, number: usize) -> Result<(), RehearsalError> {
        let chassis = world.emulator().chassis();
        if self.is_lively && self.rng.below(CHANGES_EVERY) == 0 {
            self.change_mind(number);
        }
        let host = &mut self.hosts[number];
        let lives = (chassis.boots(host.node), chassis.counters(host.at).link_downed);
        if !is_active(chassis, host.at) || lives != host.lives {
            // It knows that its link was down.
            let was = std::mem::take(&mut host.has);
            host.lives = lives;
            if was.contains(&true) {
                let what = format!("{} is down", host.guid);
                self.note(world.now(), what);
            }
            return Ok(());
        }
        let differs = |what: &What| host.has[*what as usize] != host.wants[*what as usize];
        let Some(what) = What::ALL.into_iter().find(differs) else {
            return Ok(());
        };
        let wanted = host.wants[what as usize];
        let mad = host.request(what, wanted);
        let answer = self.ask(world, number, mad, Some((what, wanted)));
        let (host, said) = (&self.hosts[number], answer.map(|mad| mad.status()));
        let text = format!("{} asks for {what:?} {wanted}: {said:?}, now {:?}", host.guid, host.has);
        self.note(world.now(), text);
        Ok(())
    }

    /// A host asks for the path to any other.
    fn ask_path(&mut self, world: &Rehearsal, number: usize) -> Result<(), RehearsalError> {
        let other = self.below(self.hosts.len());
        self.ask_for_path(world, number, other)
    }

    /// A host asks for the path to another; what it is told must be of the plan in force.
    fn ask_for_path(&mut self, world: &Rehearsal, number: usize, other: usize) -> Result<(), RehearsalError> {
        self.hosts[number].answer = None;
        let chassis = world.emulator().chassis();
        let [from, to] = [number, other].map(|host| chassis.port(self.hosts[host].at).settings().lids.base);
        if from == Lid::NONE || to == Lid::NONE {
            return Ok(());
        }
        let own = self.hosts[number].at;
        let at = arrives(chassis, own, chassis.port(own).settings().sm_lid);
        let answer = self.ask(world, number, path(from, to), None);
        let Some(answer) = answer.filter(|mad| mad.status() == Status::OK) else {
            return Ok(());
        };
        let desk = self.desks.iter().find(|desk| Some(desk.seat) == at);
        let wrong = match desk.and_then(|desk| desk.in_force.as_ref()) {
            None => Some("no plan is in force".to_owned()),
            Some((fabric, plan)) => {
                let level = records::path::SL.get(answer.sa_data());
                let told = u64::from(plan.told_levels().to(to).get());
                let from = plan.lids.owner(from);
                match from.is_some_and(|from| is_planned(fabric, plan, from, to)) {
                    false => Some("the plan has no such way".to_owned()),
                    true => (level != told).then(|| format!("service level {level}, the plan's is {told}")),
                }
            }
        };
        wrong.map_or(Ok(()), |what| {
            Err(world.violated(Violation::WrongPath { from, to, what }))
        })
    }

    /// A host asks its administrator.
    fn ask(&mut self, world: &Rehearsal, number: usize, mut mad: Mad, meaning: Option<(What, bool)>) -> Option<Mad> {
        self.serial += 1;
        mad.set_transaction(TransactionId(self.serial));
        let host = &mut self.hosts[number];
        let to = world.emulator().chassis().port(host.at).settings().sm_lid;
        host.asked = Some(Asked {
            number: self.serial,
            meaning,
        });
        host.answer = None;
        let datagram = Datagram {
            address: to_administrator(to),
            mad,
        };
        let at = host.at;
        self.carry(world, vec![(at, datagram)]);
        self.hosts[number].answer
    }
}

/// The chassis of a world.
fn chassis_of(world: &Rehearsal) -> &Chassis {
    world.emulator().chassis()
}

impl Rehearsal {
    /// Tells a manager what whoever runs it knows of its hosts. Unlike [`Self::command`] nobody wants other tables.
    pub(crate) fn tell(&mut self, id: ManagerId, command: selvedge_sm::Command) -> Result<(), RehearsalError> {
        self.hand(id, selvedge_sm::Input::Command(command))
    }

    /// The end port where a manager sits.
    pub fn seat_of(&mut self, id: ManagerId) -> Option<PortIdx> {
        let at = self.managers.get(id.0)?.at.clone();
        let client = self.emulator.attach_named(&at).ok()?;
        let port = self.emulator.port_of(client);
        self.emulator.detach(self.now, client);
        port
    }

    fn port_name(&self, port: PortIdx) -> String {
        let chassis = self.emulator.chassis();
        chassis.fabric().port_name(chassis.port_ref(port))
    }

    fn name(&self, id: ManagerId) -> String {
        self.managers.get(id.0).map(|m| m.name.clone()).unwrap_or_default()
    }

    /// From now on ports that are asked to register again are kept for [`Self::take_reregistered`].
    fn watch_reregistration(&mut self) {
        self.emulator.watch_reregistration();
    }

    fn take_reregistered(&mut self) -> Vec<PortIdx> {
        self.emulator.take_reregistered()
    }
}
