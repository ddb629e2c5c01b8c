//! Clients of subnet administration: hosts that join groups, subscribe, offer services and ask for paths, and an
//! administrator beside each manager. `checkers::served` judges the results.
//!
//! Between manager and administrator runs the same coordinator as in the daemon. Datagrams of administrators follow the
//! tables in switches and take no time; their cost and their effect on SMPs are tested in `conformance`. What hosts
//! want is drawn from a seed of its own. So all other events are the same as without clients, except for the effects of
//! clients.
//!
//! These statements must hold for an outside observer:
//! - a question that arrives at the administrator of a master is answered within 1.074 s;
//! - a path in an answer is one of the plan in force, with the plan's service level, and if all managers are idle,
//!   packets arrive by it;
//! - if all managers are idle, each host has registered what it wants, and the master knows all confirmed
//!   registrations. A host drops its registrations when its link was down or it was asked to register again;
//! - if all managers are idle, a packet to a group arrives once at each member, and at no port that the master does not
//!   know as a member;
//! - subscribers get Reports that a node went and came back.

mod check;
pub(crate) mod host;
pub(crate) mod served;
pub(crate) mod ways;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_coordinator::In;
use selvedge_fabric::PortRef;
use selvedge_sim::{Rng, Seed, Time};
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::sa::records;
use selvedge_wire::{Address, Datagram, Mad, Method};

use self::host::{Asked, Host, What, path, to_administrator};
use self::served::{Desk, PathAsked, Question, Served};
use self::ways::{arrives, is_active};
use crate::checkers::Seen;
pub use crate::manager::DeskDefect;
use crate::{ManagerId, Rehearsal, RehearsalError};

/// How often hosts check their ports and send requests.
const TICK: Duration = Duration::from_millis(50);
/// Each host changes its wishes once in this number of ticks on average.
const CHANGES_EVERY: u64 = 400;

/// Hosts, and the administrators that serve them.
pub struct Clients {
    desks: Vec<Desk>,
    hosts: Vec<Host>,
    defect: Option<DeskDefect>,
    seed: Seed,
    /// Random numbers for the next actions of hosts; see [`Self::begin_draws`].
    rng: Rng,
    /// Number of random draws for each purpose.
    draws: BTreeMap<&'static str, u64>,
    ticked: Time,
    serial: u64,
    /// True if hosts change their wishes now and then.
    is_lively: bool,
    /// How often a manager had become master before the time from which Reports are expected.
    led_before: u64,
    /// Descriptions of what hosts did, for people.
    notes: Vec<(Time, String)>,
}

impl Clients {
    /// Makes every port of a channel adapter a host, except the ports that managers use.
    #[must_use]
    pub fn new(world: &mut Rehearsal, seats: &[(ManagerId, PortIdx)], seed: Seed, defect: Option<DeskDefect>) -> Self {
        world.watch_reregistration();
        for (id, _) in seats {
            world.give_administrator(*id, defect);
        }
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
            desks: seats.iter().map(|&(id, seat)| Desk::new(id, seat)).collect(),
            defect,
            seed,
            rng,
            draws: BTreeMap::new(),
            ticked: Time::ZERO,
            serial: 0,
            is_lively: true,
            led_before: 0,
            notes: Vec::new(),
        }
    }

    /// Returns the hosts and administrators, as checkers see them.
    fn served(&self) -> Served<'_> {
        Served {
            hosts: &self.hosts,
            desks: &self.desks,
        }
    }

    /// Returns the latest time at which [`Self::after_step`] must be called next. Timers of administrators are not
    /// included, because the rehearsal serves them.
    #[must_use]
    pub fn next(&self) -> Time {
        self.ticked + TICK
    }

    /// Makes the following random numbers depend only on `purpose` and on the number of earlier draws for it. So hosts
    /// make the same requests at the same times, whatever managers do.
    fn begin_draws(&mut self, purpose: &'static str) {
        let count = self.draws.entry(purpose).or_default();
        self.rng = self.seed.child(purpose).nth(*count).rng();
        *count += 1;
    }

    /// Lets hosts change their wishes now and then from now on, or no longer.
    pub const fn set_lively(&mut self, is_lively: bool) {
        self.is_lively = is_lively;
    }

    /// Changes the wishes of each host: it wants one more registration from now on, or one fewer.
    pub fn change_minds(&mut self) {
        self.begin_draws("minds");
        for number in 0..self.hosts.len() {
            self.change_mind(number);
        }
    }

    fn change_mind(&mut self, number: usize) {
        let what = self.below(What::ALL.len());
        let host = &mut self.hosts[number];
        host.wants[what] ^= true;
        // A registration that a host was giving up may be gone already: only the answer may be lost.
        host.has[what] &= !host.wants[what];
    }

    /// Returns what happened to hosts since the last call, by time.
    pub fn take_notes(&mut self) -> Vec<(Time, String)> {
        std::mem::take(&mut self.notes)
    }

    fn note(&mut self, now: Time, what: String) {
        self.notes.push((now, what));
    }

    /// Returns the registrations with the administrators of running managers, with the numbers of the managers, in an
    /// order that does not depend on the order of requests.
    pub(crate) fn registered(&self, world: &Rehearsal) -> Registered {
        let desks = self.desks.iter();
        let desks = desks.filter_map(|desk| Some((desk.id, world.administrator(desk.id)?)));
        let registered = desks.map(|(id, sa)| (id, registered_lines(&sa.registrations().to_text())));
        registered.collect()
    }

    /// Does the work that is due after each step of the rehearsal.
    pub fn after_step(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        self.note_managers(world)?;
        // Before anything arrives: the result does not depend on how often this is called.
        self.reregister(world);
        self.carry(world, Vec::new())?;
        if world.now() >= self.next() {
            self.ticked = world.now();
            self.begin_draws("tick");
            for host in 0..self.hosts.len() {
                self.live(world, host)?;
            }
            if !self.hosts.is_empty() {
                let host = self.below(self.hosts.len());
                self.ask_path(world, host)?;
            }
        }
        world.observe(&Seen::HostsDone)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.rng.below(count.max(1) as u64)).unwrap_or(0)
    }

    /// Records which managers have another SMInfo state or process than before, and the knowledge of their
    /// administrators.
    fn note_managers(&mut self, world: &mut Rehearsal) -> Result<(), RehearsalError> {
        for number in 0..self.desks.len() {
            let desk = &mut self.desks[number];
            let role_number = world.role_number(desk.id);
            if std::mem::replace(&mut desk.role_number, role_number) != role_number {
                world.observe(&Seen::RoleChanged(desk.id))?;
            }
            let Some(sa) = world.administrator(desk.id) else {
                continue;
            };
            let registered = (sa.registered(), sa.registrations().forgotten().clone());
            if desk.registered != registered {
                let ([services, subscriptions, groups, members, _], forgotten) = &registered;
                let text = format!(
                    "{} knows {members} members of {groups} groups, {subscriptions} subscriptions, \
                     {services} services; forgotten {forgotten:?}",
                    world.name(desk.id)
                );
                desk.registered = registered;
                self.note(world.now(), text);
            }
        }
        Ok(())
    }

    /// Carries these datagrams, each from its port, and those that administrators send in turn, until none is left.
    fn carry(&mut self, world: &mut Rehearsal, todo: Vec<(PortIdx, Datagram)>) -> Result<(), RehearsalError> {
        let mut todo = VecDeque::from(todo);
        loop {
            while let Some((id, datagram)) = world.take_administered() {
                let mad = &datagram.mad;
                if mad.method().is_response() && mad.method() != Method::ReportResp {
                    world.observe(&Seen::HostAnswered { number: number_of(mad) })?;
                }
                let desk = self.desks.iter().find(|desk| desk.id == id);
                todo.extend(desk.map(|desk| (desk.seat, datagram)));
            }
            let Some((from, datagram)) = todo.pop_front() else {
                return Ok(());
            };
            let is_report = datagram.mad.method() == Method::Report;
            if is_report && self.defect == Some(DeskDefect::Mute) {
                continue;
            }
            let chassis = chassis_of(world);
            let Some(to) = arrives(chassis, from, datagram.address.lid) else {
                continue;
            };
            let source = chassis.port(from).settings().lids.base;
            let arrived = Datagram {
                address: Address::gsi(source, Sl::default()),
                ..datagram
            };
            let runs = |desk: &Desk| desk.seat == to && world.life_of(desk.id).is_some();
            if let Some(number) = self.desks.iter().position(runs) {
                self.desk_receives(world, (number, from), &arrived)?;
            } else if let Some(host) = self.hosts.iter_mut().find(|host| host.at == to) {
                todo.extend(host.receives(&arrived).map(|answer| (to, answer)));
            }
        }
    }

    fn desk_receives(
        &mut self,
        world: &mut Rehearsal,
        (number, from): (usize, PortIdx),
        arrived: &Datagram,
    ) -> Result<(), RehearsalError> {
        let mad = &arrived.mad;
        if self.defect == Some(DeskDefect::LosesServices) && mad.attribute() == records::SERVICE.id {
            return Ok(());
        }
        let of = self.desks[number].id;
        if !mad.method().is_response() && self.hosts.iter().any(|host| host.at == from) {
            let (host, number) = (from, number_of(mad));
            world.observe(&Seen::HostAsks(Question { host, number, of }))?;
        }
        if self.defect == Some(DeskDefect::IgnoresPaths) && mad.attribute() == records::PATH.id {
            return Ok(());
        }
        world.coordinate(of, In::Arrived(*arrived))
    }

    /// Lets hosts drop their registrations if their agents were asked to register again.
    fn reregister(&mut self, world: &mut Rehearsal) {
        for port in world.take_reregistered() {
            if let Some(host) = self.hosts.iter_mut().find(|host| host.at == port) {
                host.has = Default::default();
                let what = format!("{} is asked to register again", host.guid);
                self.note(world.now(), what);
            }
        }
    }

    /// Does the actions of one host at a tick.
    fn live(&mut self, world: &mut Rehearsal, number: usize) -> Result<(), RehearsalError> {
        let chassis = world.emulator().chassis();
        if self.is_lively && self.rng.below(CHANGES_EVERY) == 0 {
            self.change_mind(number);
        }
        let host = &mut self.hosts[number];
        let lives = (chassis.boots(host.node), chassis.counters(host.at).link_downed);
        if !is_active(chassis, host.at) || lives != host.lives {
            // The host knows that its link was down.
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
        let answer = self.ask(world, number, mad, Some((what, wanted)))?;
        let (host, said) = (&self.hosts[number], answer.map(|mad| mad.status()));
        let text = format!("{} asks for {what:?} {wanted}: {said:?}, now {:?}", host.guid, host.has);
        self.note(world.now(), text);
        Ok(())
    }

    /// Lets a host ask for the path to any other host.
    fn ask_path(&mut self, world: &mut Rehearsal, number: usize) -> Result<(), RehearsalError> {
        let other = self.below(self.hosts.len());
        self.ask_for_path(world, number, other).map(|_| ())
    }

    /// Lets a host ask for the path to another host. Nothing is sent while one of them has no LID.
    fn ask_for_path(
        &mut self,
        world: &mut Rehearsal,
        number: usize,
        other: usize,
    ) -> Result<PathAsked<'_>, RehearsalError> {
        self.hosts[number].answer = None;
        let chassis = world.emulator().chassis();
        let [from, to] = [number, other].map(|host| chassis.port(self.hosts[host].at).settings().lids.base);
        let own = self.hosts[number].at;
        let at = arrives(chassis, own, chassis.port(own).settings().sm_lid);
        if from != Lid::NONE && to != Lid::NONE {
            self.ask(world, number, path(from, to), None)?;
        }
        let desk = self.desks.iter().find(|desk| Some(desk.seat) == at);
        let path = PathAsked {
            from,
            to,
            of: desk.map(|desk| desk.id),
            answer: self.hosts[number].answer.as_ref(),
        };
        world.observe(&Seen::PathTold(path))?;
        Ok(path)
    }

    /// Sends a request of a host to its administrator.
    fn ask(
        &mut self,
        world: &mut Rehearsal,
        number: usize,
        mut mad: Mad,
        meaning: Option<(What, bool)>,
    ) -> Result<Option<Mad>, RehearsalError> {
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
        self.carry(world, vec![(at, datagram)])?;
        Ok(self.hosts[number].answer)
    }
}

/// What hosts have registered with each administrator: a pair of lines for each record. For a member of a group these
/// are the line of the group and its own line.
pub(crate) type Registered = Vec<(ManagerId, Vec<[String; 2]>)>;

/// Returns the registrations in this text, in order.
fn registered_lines(text: &str) -> Vec<[String; 2]> {
    let mut lines = Vec::new();
    let mut group = "";
    for line in text.lines() {
        match line.split(' ').next() {
            // A member belongs to the group above it.
            Some("member") => lines.push([group, line]),
            Some("group") => {
                group = line;
                lines.push([line, ""]);
            }
            Some("subscription" | "service" | "forgotten" | "alias" | "given") => lines.push([line, ""]),
            _ => {}
        }
    }
    lines.sort_unstable();
    lines.into_iter().map(|line| line.map(str::to_owned)).collect()
}

fn number_of(mad: &Mad) -> u64 {
    mad.transaction().0 & 0xFFFF_FFFF
}

/// Returns the chassis of a world.
fn chassis_of(world: &Rehearsal) -> &Chassis {
    world.emulator().chassis()
}

impl Rehearsal {
    /// Returns the end port of a manager.
    pub fn seat_of(&mut self, id: ManagerId) -> Option<PortIdx> {
        let at = self.managers.get(id.0)?.at.clone();
        let client = self.emulator.attach_named(&at).ok()?;
        let port = self.emulator.port_of(client);
        self.emulator.detach(self.now, client);
        port
    }

    fn name(&self, id: ManagerId) -> String {
        self.managers.get(id.0).map(|m| m.name.clone()).unwrap_or_default()
    }

    /// Begins to keep the ports that are asked to register again, for [`Self::take_reregistered`].
    fn watch_reregistration(&mut self) {
        self.emulator.watch_reregistration();
    }

    fn take_reregistered(&mut self) -> Vec<PortIdx> {
        self.emulator.take_reregistered()
    }
}
