//! The administrator under random faults: hosts join, leave, subscribe and ask while cables are pulled, switches lose
//! their power and managers are killed, with what was stored left on disk. When all is well again, whoever is master
//! knows who was told that he is a member or a subscriber, answers from the plan in force, and reports what happens.
//!
//! Managers and agents are those of every rehearsal; beside each manager sits an administrator that is fed, and stores,
//! as `daemon` does it. Datagrams of class 3 cross the fabric in no time wherever packets can: what they cost, and what
//! they do to SMPs, is the business of `conformance`.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod common;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_plan::Policy;
use selvedge_rehearsal::{ManagerId, Options, Rehearsal, Tamper};
use selvedge_sa::{Agents, Config, Copier, CopyConfig, Input, Output, Registrations, Sa, Snapshot, Sources};
use selvedge_sim::{Rng, Seed, Time};
use selvedge_sm::{Command, Event, Inventory, Role, ToldLevels};
use selvedge_types::{Guid, Lid, PortState, Sl, TransactionId};
use selvedge_wire::sa::records;
use selvedge_wire::{
    Address, Attribute, AttributeId, Class, Datagram, DirectedRoute, Mad, Method, PortInfo, SmInfo, Status, SwitchInfo,
};

const SPECS: [&str; 4] = [
    "pgft:m=3x4,w=1x2,p=1x1",
    "karytree:k=3,n=2",
    "torus:3x3,hosts=1",
    "ring:switches=5,hosts=2",
];
const SEEDS: u64 = 60;
const EVENTS: usize = 25;
/// How long everything may take to become well.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often hosts look at their ports.
const TICK: Duration = Duration::from_millis(50);
/// As `daemon` gathers what is to be stored.
const GATHER: Duration = Duration::from_millis(250);
/// IPoIB's broadcast group of the default partition.
const IPOIB: u128 = 0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF;

/// A defect that must be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// What hosts registered counts as stored and is not.
    StoresNothing,
    /// It answers from the first plan of its life.
    AnswersFromThePast,
    /// It reports nothing.
    Mute,
}

/// What was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    /// A host was told that it is registered, and the master does not know.
    Forgotten(String),
    /// An answer is not that of the plan in force.
    Stale(String),
    /// A subscriber was not told.
    Unreported(String),
    /// It does not become well.
    Unsettled(String),
}

/// What agents said.
struct Said(Arc<Inventory>);

impl Agents for Said {
    fn port_info(&self, at: PortRef) -> Option<&PortInfo> {
        self.0.port_info(at)
    }

    fn switch_info(&self, node: NodeIdx) -> Option<&SwitchInfo> {
        self.0.agents.get(node)?.switch.as_ref()
    }
}

/// Whom managers ask to register again: by the way of the SMP.
type Asked = Arc<Mutex<Vec<(usize, DirectedRoute)>>>;

#[derive(Debug)]
struct Listener(usize, Asked);

impl Tamper for Listener {
    fn output(
        &mut self,
        _now: Time,
        output: selvedge_sm::Output,
        out: &mut Vec<selvedge_sm::Output>,
        _back: &mut Vec<selvedge_sm::Input>,
    ) {
        if let selvedge_sm::Output::Send { datagram, .. } = &output {
            let mad = &datagram.mad;
            let is_set = (mad.method(), mad.attribute()) == (Method::Set, AttributeId::PORT_INFO);
            if is_set && mad.read().is_ok_and(|info: PortInfo| info.client_reregister) {
                self.1.lock().unwrap().push((self.0, mad.route().unwrap()));
            }
        }
        out.push(output);
    }
}

/// The administrator beside a manager.
struct Desk {
    id: ManagerId,
    seat: PortIdx,
    sa: Sa,
    copier: Copier,
    runs: bool,
    /// What is on disk, and whether more may have been registered.
    stored: Option<Registrations>,
    is_marked: bool,
    is_lost: bool,
    seen: u64,
    due: Option<Time>,
    is_copied: bool,
    is_ready: bool,
    commits: u32,
}

/// A host with one port.
struct Host {
    at: PortIdx,
    node: NodeIdx,
    guid: Guid,
    /// How often it was switched on, and its link lost: however short that was, it knows.
    lives: (u32, u64),
    wants: [bool; 2],
    /// What it was told: member, subscriber.
    has: [bool; 2],
    /// What it has asked: number and meaning, `None` for a path.
    asked: Option<(u64, Option<(usize, bool)>)>,
    answer: Option<Mad>,
    reports: BTreeSet<u64>,
}

struct Stage {
    world: Rehearsal,
    fabric: Fabric,
    desks: Vec<Desk>,
    hosts: Vec<Host>,
    asked: Asked,
    broken: Option<Broken>,
    rng: Rng,
    logged: usize,
    ticked: Time,
    serial: u64,
    /// What happened, for people.
    notes: Vec<(Time, String)>,
}

/// True if packets pass a port's link.
fn is_active(chassis: &Chassis, port: PortIdx) -> bool {
    let at = chassis.port_ref(port);
    chassis.is_powered(at.node) && chassis.wire(port).state() == PortState::Active
}

/// The nodes that packets from a port can get to.
fn reach(chassis: &Chassis, from: PortIdx) -> BTreeSet<NodeIdx> {
    let mut met = BTreeSet::from([chassis.port_ref(from).node]);
    let mut todo = vec![chassis.port_ref(from).node];
    while let Some(node) = todo.pop() {
        if node != chassis.port_ref(from).node && !chassis.is_switch(node) {
            continue;
        }
        for (num, _) in chassis.fabric().node(node).external_ports() {
            let port = chassis
                .port_at(node, num.get())
                .filter(|port| is_active(chassis, *port));
            let peer = port.and_then(|port| chassis.wire(port).peer());
            if let Some(peer) = peer.filter(|peer| is_active(chassis, *peer)) {
                let next = chassis.port_ref(peer).node;
                if met.insert(next) {
                    todo.push(next);
                }
            }
        }
    }
    met
}

impl Stage {
    fn new(seed: u64, broken: Option<Broken>) -> Self {
        let fabric = common::fabric(SPECS[seed as usize % SPECS.len()]);
        let options = Options {
            seed: Seed(seed),
            ..Options::default()
        };
        let mut world = Rehearsal::new(&fabric, options);
        let ends: Vec<(NodeIdx, String)> = fabric
            .nodes()
            .iter_enumerated()
            .filter(|(_, node)| !node.is_switch())
            .map(|(at, node)| (at, node.description.clone()))
            .collect();
        let seats = [&ends[0], &ends[ends.len() - 1]];
        let asked = Asked::default();
        let port = |world: &Rehearsal, node: NodeIdx| world.emulator().chassis().port_at(node, 1).unwrap();
        let mut desks = Vec::new();
        for (number, (node, name)) in seats.into_iter().enumerate() {
            let at = format!("\"{name}\"[1]");
            let id = common::add_manager(&mut world, ["a", "b"][number], &at, 1 - number as u8, Policy::default());
            world.tamper(id, Box::new(Listener(number, Arc::clone(&asked))));
            desks.push(Desk {
                id,
                seat: port(&world, *node),
                sa: Sa::new(Config::default()),
                copier: Copier::new(CopyConfig::default()),
                runs: false,
                stored: None,
                is_marked: false,
                is_lost: true,
                seen: 0,
                due: None,
                is_copied: false,
                is_ready: false,
                commits: 0,
            });
        }
        let hosts = ends[1..ends.len() - 1].iter().map(|(node, _)| Host {
            at: port(&world, *node),
            node: *node,
            guid: fabric
                .port(PortRef {
                    node: *node,
                    port: selvedge_types::PortNum::new(1).unwrap(),
                })
                .unwrap()
                .guid,
            lives: (0, 0),
            wants: [true, true],
            has: [false, false],
            asked: None,
            answer: None,
            reports: BTreeSet::new(),
        });
        let hosts = hosts.collect();
        Self {
            world,
            fabric,
            desks,
            hosts,
            asked,
            broken,
            rng: Seed(seed).child("administration").rng(),
            logged: 0,
            ticked: Time::ZERO,
            serial: 0,
            notes: Vec::new(),
        }
    }

    fn note(&mut self, what: String) {
        self.notes.push((self.world.now(), what));
    }

    /// What happened and what managers said, by time.
    fn story(&self) -> String {
        let said = self
            .world
            .log()
            .iter()
            .map(|entry| (entry.at, format!("{:?} {}", entry.manager, entry.event)));
        let mut all: Vec<(Time, String)> = said.chain(self.notes.iter().cloned()).collect();
        all.sort_by_key(|(at, _)| *at);
        all.iter().map(|(at, what)| format!("{at} {what}\n")).collect()
    }

    fn chassis(&self) -> &Chassis {
        self.world.emulator().chassis()
    }

    fn lid(&self, port: PortIdx) -> Lid {
        self.chassis().port(port).settings().lids.base
    }

    fn command(&mut self, number: usize, command: Command) {
        let desk = &self.desks[number];
        if desk.runs {
            self.world.command(desk.id, command).unwrap();
        }
    }

    fn start(&mut self, number: usize) {
        self.note(format!("manager {number} starts"));
        let now = self.world.now();
        self.serial += 1;
        let config = Config {
            life: self.serial,
            ..Config::default()
        };
        let desk = &mut self.desks[number];
        desk.is_lost = desk.stored.is_none() || desk.is_marked;
        desk.sa = Sa::with_registrations(config, now, desk.stored.clone().unwrap_or_default());
        desk.copier = Copier::new(CopyConfig::default());
        (desk.runs, desk.seen, desk.due, desk.commits) = (true, 0, None, 0);
        (desk.is_copied, desk.is_ready) = (false, false);
        let (id, is_lost) = (desk.id, desk.is_lost);
        let forgotten = desk.sa.registrations().forgotten().clone();
        self.world.start(id).unwrap();
        if is_lost {
            self.command(number, Command::Reregister);
        } else if !forgotten.is_empty() {
            self.command(number, Command::ReregisterThese(forgotten));
        }
        self.command(number, Command::HoldBack);
    }

    fn kill(&mut self, number: usize) {
        self.note(format!("manager {number} is killed"));
        self.desks[number].runs = false;
        self.world.kill(self.desks[number].id).unwrap();
    }

    /// Hands an administrator an input, and carries what comes of it, and of that.
    fn administer(&mut self, number: usize, input: Input) {
        let now = self.world.now();
        let mut out = Vec::new();
        let desk = &mut self.desks[number];
        desk.sa.handle(now, input, &mut out);
        // What is stored is marked before anybody is answered.
        if desk.sa.revision() != desk.seen {
            desk.seen = desk.sa.revision();
            desk.due.get_or_insert(now + GATHER);
            desk.is_marked = self.broken != Some(Broken::StoresNothing);
        }
        let seat = desk.seat;
        self.carry(out.into_iter().map(|output| (seat, output)).collect());
    }

    /// Datagrams on their way, each from a port.
    fn carry(&mut self, todo: Vec<(PortIdx, Output)>) {
        let mut todo = VecDeque::from(todo);
        while let Some((from, Output { datagram, .. })) = todo.pop_front() {
            let chassis = self.world.emulator().chassis();
            let source = chassis.port(from).settings().lids.base;
            let met = reach(chassis, from);
            let ends = self
                .desks
                .iter()
                .map(|desk| desk.seat)
                .chain(self.hosts.iter().map(|host| host.at));
            let is_meant = |port: &PortIdx| {
                let lids = chassis.port(*port).settings().lids;
                lids.contains(datagram.address.lid) && met.contains(&chassis.port_ref(*port).node)
            };
            let Some(to) = ends.into_iter().find(is_meant) else {
                continue;
            };
            let is_request = !datagram.mad.method().is_response();
            let arrived = Datagram {
                address: Address::gsi(source, Sl::default()),
                ..datagram
            };
            let is_muted = datagram.mad.method() == Method::Report && self.broken == Some(Broken::Mute);
            if is_muted {
                continue;
            }
            let (now, mut out) = (self.world.now(), Vec::new());
            if let Some(number) = self.desks.iter().position(|desk| desk.seat == to && desk.runs) {
                let is_report = datagram.mad.method() == Method::ReportResp;
                if is_request || is_report {
                    self.administer(number, Input::Received(arrived));
                } else {
                    self.desks[number].copier.received(now, &arrived, &mut out);
                    self.copied(number);
                }
            } else if let Some(host) = self.hosts.iter_mut().find(|host| host.at == to) {
                out.extend(host.receives(&arrived));
            }
            todo.extend(out.into_iter().map(|output| (to, output)));
        }
    }

    fn copied(&mut self, number: usize) {
        if let Some(copy) = self.desks[number].copier.take() {
            self.administer(number, Input::Copied(copy));
        }
    }

    /// What managers have said, as `daemon` goes by it.
    fn heed(&mut self) {
        while let Some(entry) = self.world.log().get(self.logged).cloned() {
            self.logged += 1;
            let number = entry.manager.0;
            if !self.desks[number].runs {
                continue;
            }
            match entry.event {
                Event::SubnetUp { .. } | Event::SubnetUpWithErrors { .. } => {
                    let desk = &mut self.desks[number];
                    if matches!(entry.event, Event::SubnetUp { .. }) && std::mem::take(&mut desk.is_lost) {
                        desk.due.get_or_insert(self.world.now() + GATHER);
                    }
                    self.commit(number);
                }
                Event::Role { role, .. } => self.role(number, role),
                _ => {}
            }
        }
    }

    fn commit(&mut self, number: usize) {
        let desk = &mut self.desks[number];
        let view = self.world.view(desk.id).unwrap();
        let (Role::Master, Some(fabric), Some(plan), Some(inventory)) =
            (view.role, view.fabric, view.plan, view.inventory)
        else {
            return;
        };
        desk.commits += 1;
        if desk.commits > 1 && self.broken == Some(Broken::AnswersFromThePast) {
            return;
        }
        let sources = Sources {
            fabric,
            plan,
            manager: (inventory.local, SmInfo::default()),
            agents: Arc::new(Said(inventory)),
        };
        self.administer(number, Input::Committed(Arc::new(Snapshot::new(sources))));
    }

    fn role(&mut self, number: usize, role: Role) {
        let now = self.world.now();
        let desk = &mut self.desks[number];
        desk.copier.end();
        match role {
            Role::Master => {
                desk.copier.lead();
                self.administer(number, Input::Serve);
            }
            Role::Discovering => self.administer(number, Input::Withdraw),
            Role::Standby | Role::NotActive => {
                desk.is_lost = true;
                desk.copier.begin(now);
                (desk.is_copied, desk.is_ready) = (false, false);
                self.administer(number, Input::Forget);
                self.command(number, Command::Reregister);
            }
        }
    }

    /// Timers of an administrator, its copier and its disk.
    fn turn(&mut self, number: usize) {
        let now = self.world.now();
        if !self.desks[number].runs {
            return;
        }
        for _ in 0..1_000 {
            if self.desks[number].sa.next_wake().is_none_or(|at| at > now) {
                break;
            }
            self.administer(number, Input::Wake);
        }
        let desk = &mut self.desks[number];
        let (mut out, seat) = (Vec::new(), desk.seat);
        desk.copier.wake(now, &mut out);
        // Its question to its own port is answered here.
        for output in std::mem::take(&mut out) {
            if output.datagram.mad.class() != Class::SubnAdm {
                let settings = *self.world.emulator().chassis().port(seat).settings();
                let mut mad = output.datagram.mad;
                mad.set_method(Method::GetResp);
                let info = PortInfo {
                    lid: settings.lids.base,
                    sm_lid: settings.sm_lid,
                    ..PortInfo::default()
                };
                mad.set_smp_data(&info.emit());
                let answer = Datagram { mad, ..output.datagram };
                desk.copier.received(now, &answer, &mut out);
            } else {
                out.push(output);
            }
        }
        self.carry(out.into_iter().map(|output| (seat, output)).collect());
        self.copied(number);
        let desk = &mut self.desks[number];
        if desk.due.is_some_and(|due| due <= now) {
            desk.due = None;
            desk.stored = Some(match self.broken {
                Some(Broken::StoresNothing) => Registrations::default(),
                _ => desk.sa.registrations(),
            });
            desk.is_marked &= desk.is_lost;
        }
        self.tell(number);
    }

    /// What the manager is told of the copy.
    fn tell(&mut self, number: usize) {
        let now = self.world.now();
        let desk = &mut self.desks[number];
        let (is_all, is_settled) = (desk.copier.is_all(), desk.copier.is_settled(now));
        let told = desk.copier.take_levels().map(|told| ToldLevels {
            by: told.by,
            lanes: told.lanes,
            by_port: told.by_port,
        });
        let is_news = std::mem::replace(&mut desk.is_copied, is_all) != is_all;
        let is_ready = is_settled && !std::mem::replace(&mut desk.is_ready, is_settled);
        if let Some(told) = told {
            self.command(number, Command::Told(Box::new(told)));
        }
        if is_news {
            self.command(
                number,
                if is_all {
                    Command::Registered
                } else {
                    Command::Reregister
                },
            );
        }
        if is_ready {
            self.command(number, Command::Ready);
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.world.now() + span;
        while self.world.now() < end {
            let limit = end.min(self.ticked + TICK);
            self.world.step(limit).unwrap();
            self.heed();
            self.hosts_are_asked();
            (0..self.desks.len()).for_each(|number| self.turn(number));
            if self.world.now() >= self.ticked + TICK {
                self.ticked = self.world.now();
                (0..self.hosts.len()).for_each(|host| self.live(host));
            }
        }
    }

    /// Hosts that are asked to register again do so.
    fn hosts_are_asked(&mut self) {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        for (number, route) in asked {
            let chassis = self.world.emulator().chassis();
            let seat = self.desks[number].seat;
            let end = route.ports().iter().try_fold(seat, |at, &num| {
                chassis.wire(chassis.port_at(chassis.port_ref(at).node, num)?).peer()
            });
            if let Some(host) = self.hosts.iter_mut().find(|host| Some(host.at) == end) {
                host.has = [false, false];
                let what = format!("{} is asked by {number}", host.guid);
                self.note(what);
            }
        }
    }

    /// What a host does at its leisure.
    fn live(&mut self, number: usize) {
        let chassis = self.world.emulator().chassis();
        let host = &self.hosts[number];
        let lives = (chassis.boots(host.node), chassis.counters(host.at).link_downed);
        let is_up = is_active(chassis, host.at);
        let host = &mut self.hosts[number];
        if !is_up || lives != host.lives {
            // It knows that its link was down.
            let was = std::mem::take(&mut host.has);
            host.lives = lives;
            if was != [false, false] {
                let what = format!("{} is down", host.guid);
                self.note(what);
            }
            return;
        }
        let differs = (0..2).find(|&what| host.has[what] != host.wants[what]);
        if let Some(what) = differs {
            let wanted = host.wants[what];
            let mad = if what == 0 {
                member(host.guid, wanted)
            } else {
                subscription(wanted)
            };
            self.ask(number, mad, Some((what, wanted)));
        }
    }

    /// A host asks its administrator.
    fn ask(&mut self, number: usize, mut mad: Mad, meaning: Option<(usize, bool)>) -> Option<Mad> {
        self.serial += 1;
        mad.set_transaction(TransactionId(self.serial));
        let at = self.hosts[number].at;
        let to = self.chassis().port(at).settings().sm_lid;
        let host = &mut self.hosts[number];
        (host.asked, host.answer) = (Some((self.serial, meaning)), None);
        let output = Output {
            datagram: Datagram {
                address: Address::gsi(to, Sl::default()),
                mad,
            },
            timeout: Duration::ZERO,
        };
        self.carry(vec![(at, output)]);
        let host = &self.hosts[number];
        let (guid, has, answer) = (host.guid, host.has, host.answer);
        if meaning.is_some() {
            let said = answer.map(|mad| mad.status());
            self.note(format!("{guid} asks the manager at {to}: {said:?}, now {has:?}"));
        }
        answer
    }

    fn happen(&mut self) {
        let below = |rng: &mut Rng, count: usize| rng.below(count as u64) as usize;
        let links: Vec<_> = self.fabric.links().collect();
        let link = links[below(&mut self.rng, links.len())];
        let link = self.fabric.port_name(link.a);
        let seats: Vec<NodeIdx> = self
            .desks
            .iter()
            .map(|desk| self.chassis().port_ref(desk.seat).node)
            .collect();
        let nodes: Vec<_> = self
            .fabric
            .nodes()
            .indices()
            .filter(|node| !seats.contains(node))
            .collect();
        let node = nodes[below(&mut self.rng, nodes.len())];
        let node = format!("\"{}\"", self.fabric.node(node).description);
        let (host, which) = (below(&mut self.rng, self.hosts.len()), below(&mut self.rng, 2));
        match self.rng.below(12) {
            0..=2 => self.fault(&format!("cut {link}")),
            3 | 4 => self.fault(&format!("restore {link}")),
            5 => self.fault(&format!("reboot {node}")),
            6 => self.fault(&format!("kill {node}")),
            7 => self.fault(&format!("revive {node}")),
            8 => self.hosts[host].wants[which] ^= true,
            _ if self.desks[which].runs => {
                self.kill(which);
                if self.rng.below(2) == 0 {
                    self.start(which);
                }
            }
            _ => self.start(which),
        }
    }

    fn fault(&mut self, text: &str) {
        self.note(text.to_owned());
        self.world.fault(&text.parse().unwrap()).unwrap();
    }

    /// All is well, for the fabric and for each host.
    fn is_well(&self) -> bool {
        let masters = self.desks.iter().filter(|desk| {
            let view = self.world.view(desk.id);
            view.is_some_and(|view| view.role == Role::Master && view.is_up())
        });
        let is_content = |host: &Host| host.has == host.wants && is_active(self.chassis(), host.at);
        masters.count() == 1 && self.world.is_quiet() && self.hosts.iter().all(is_content)
    }

    fn settle(&mut self) -> Result<(), Wrong> {
        let end = self.world.now() + PATIENCE;
        while self.world.now() < end {
            // Not in step with polls.
            self.run(Duration::from_millis(970));
            if self.is_well() {
                return Ok(());
            }
        }
        let hosts = self.hosts.iter().filter(|host| host.has != host.wants).count();
        let log: Vec<String> = self
            .world
            .log_text()
            .lines()
            .rev()
            .take(12)
            .map(str::to_owned)
            .collect();
        Err(Wrong::Unsettled(format!(
            "{hosts} hosts are not served; {}",
            log.join("\n")
        )))
    }

    /// The master knows what hosts were told, and answers as planned.
    fn check(&mut self) -> Result<(), Wrong> {
        let role = |desk: &Desk| self.world.view(desk.id).map(|view| view.role);
        let master = self
            .desks
            .iter()
            .position(|desk| role(desk) == Some(Role::Master))
            .unwrap();
        let text = self.desks[master].sa.registrations().to_text();
        for host in &self.hosts {
            for (what, word) in ["member", "subscription"].into_iter().enumerate() {
                let guid = host.guid.to_string();
                let is_known = text.lines().any(|line| line.starts_with(word) && line.contains(&guid));
                // Who was told so once and has lost its link since may still be known: that does no harm.
                if host.has[what] && !is_known {
                    return Err(Wrong::Forgotten(format!("{word} {guid}, by manager {master}")));
                }
            }
        }
        let plan = self.world.view(self.desks[master].id).unwrap().plan.unwrap();
        for number in 0..self.hosts.len() {
            let other = self.rng.below(self.hosts.len() as u64) as usize;
            let (from, to) = (self.lid(self.hosts[number].at), self.lid(self.hosts[other].at));
            let answer = self.ask(number, path(from, to), None);
            let level = answer.filter(|mad| mad.status() == Status::OK);
            let level = level.map(|mad| records::path::SL.get(mad.sa_data()));
            if level != Some(u64::from(plan.told_levels().to(to).get())) {
                return Err(Wrong::Stale(format!("from {from} to {to}: {level:?}")));
            }
        }
        Ok(())
    }

    /// Subscribers are told that a host went and came back.
    fn check_reports(&mut self) -> Result<(), Wrong> {
        self.hosts.iter_mut().for_each(|host| host.reports.clear());
        let gone = self.rng.below(self.hosts.len() as u64) as usize;
        let name = format!("\"{}\"", self.fabric.node(self.hosts[gone].node).description);
        self.fault(&format!("kill {name}"));
        self.run(Duration::from_secs(25));
        self.fault(&format!("revive {name}"));
        self.settle()?;
        let told = |host: &Host| host.reports.contains(&64) && host.reports.contains(&65);
        let deaf = self.hosts.iter().enumerate();
        let deaf = deaf
            .filter(|(number, host)| *number != gone && host.wants[1] && !told(host))
            .count();
        match deaf {
            0 => Ok(()),
            _ => Err(Wrong::Unreported(format!("{deaf} subscribers were not told of {name}"))),
        }
    }
}

impl Host {
    fn receives(&mut self, datagram: &Datagram) -> Option<Output> {
        let mad = &datagram.mad;
        if mad.method() == Method::Report {
            self.reports.insert(records::notice::TRAP_NUMBER.get(mad.sa_data()));
            let mut answer = *datagram;
            answer.mad.set_method(Method::ReportResp);
            return Some(Output {
                datagram: answer,
                timeout: Duration::ZERO,
            });
        }
        let (number, meaning) = self.asked?;
        if mad.transaction().0 & 0xFFFF_FFFF == number {
            self.answer = Some(*mad);
            if let Some((what, has)) = meaning.filter(|_| mad.status() == Status::OK) {
                self.has[what] = has;
            }
        }
        None
    }
}

/// MCMemberRecord: the port with a GUID joins the group as a full member, or leaves it.
fn member(guid: Guid, joins: bool) -> Mad {
    use records::member as f;
    let method = if joins { Method::Set } else { Method::Delete };
    let mut mad = Mad::request(Class::SubnAdm, method, records::MEMBER.id, 0);
    let gid = 0xFE80_u128 << 112 | u128::from(guid.0);
    let mut mask = f::MGID.mask() | f::PORT_GID.mask();
    f::MGID.put(mad.sa_data_mut(), &IPOIB.to_be_bytes());
    f::PORT_GID.put(mad.sa_data_mut(), &gid.to_be_bytes());
    let makes = [
        (f::JOIN_STATE, 1),
        (f::QKEY, 0xB1B),
        (f::PKEY, 0xFFFF),
        (f::TRAFFIC_CLASS, 0),
        (f::SL, 0),
    ];
    let makes = makes.into_iter().chain([(f::FLOW_LABEL, 0)]);
    for (field, value) in makes.take(if joins { 6 } else { 1 }) {
        mask |= field.mask();
        field.set(mad.sa_data_mut(), value);
    }
    mad.set_component_mask(mask);
    mad
}

/// InformInfo: all traps of all nodes, from now on or no longer.
fn subscription(begins: bool) -> Mad {
    use records::inform_info as f;
    let mut mad = Mad::request(Class::SubnAdm, Method::Set, records::INFORM_INFO.id, 0);
    for (field, value) in [
        (f::LID_BEGIN, 0xFFFF),
        (f::IS_GENERIC, 1),
        (f::SUBSCRIBE, u64::from(begins)),
        (f::TYPE, 0xFFFF),
        (f::TRAP_NUMBER, 0xFFFF),
        (f::PRODUCER, 0xFF_FFFF),
    ] {
        field.set(mad.sa_data_mut(), value);
    }
    mad
}

fn path(from: Lid, to: Lid) -> Mad {
    use records::path as f;
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::PATH.id, 0);
    mad.set_component_mask(f::SLID.mask() | f::DLID.mask());
    f::SLID.set(mad.sa_data_mut(), u64::from(from.0));
    f::DLID.set(mad.sa_data_mut(), u64::from(to.0));
    mad
}

/// One run; `SELVEDGE_SEED` prints what happened in that one.
fn run(seed: u64, broken: Option<Broken>) -> Result<(), Wrong> {
    let mut stage = Stage::new(seed, broken);
    let result = disturb(&mut stage);
    if std::env::var("SELVEDGE_SEED").is_ok_and(|text| text == seed.to_string()) {
        println!("{}", stage.story());
    }
    result
}

/// Faults, then calm, then the end of each master.
fn disturb(stage: &mut Stage) -> Result<(), Wrong> {
    stage.start(0);
    stage.run(Duration::from_secs(2));
    stage.start(1);
    for _ in 0..EVENTS {
        let pause = 200 + stage.rng.below(3_000);
        stage.run(Duration::from_millis(pause));
        stage.happen();
    }
    for node in stage.fabric.nodes().indices() {
        let name = stage.fabric.node(node).description.clone();
        stage.fault(&format!("revive \"{name}\""));
    }
    let links: Vec<_> = stage.fabric.links().collect();
    for link in links {
        let name = stage.fabric.port_name(link.a);
        stage.fault(&format!("restore {name}"));
    }
    for number in 0..2 {
        if !stage.desks[number].runs {
            stage.start(number);
        }
    }
    stage.settle()?;
    stage.check()?;
    stage.check_reports()?;
    for number in [0, 1] {
        stage.kill(number);
        stage.run(Duration::from_secs(8));
        stage.start(number);
        stage.settle()?;
        stage.check()?;
    }
    Ok(())
}

#[test]
fn what_hosts_were_told_holds_whatever_happens() {
    let seeds = std::env::var("SELVEDGE_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    let wrong: Vec<_> = (1..=seeds)
        .filter_map(|seed| Some((seed, run(seed, None).err()?)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_defect_of_an_administrator_is_found() {
    let check = |broken: Broken, is_it: fn(&Wrong) -> bool| {
        let found = (1..=20).find(|&seed| run(seed, Some(broken)).is_err_and(|wrong| is_it(&wrong)));
        assert!(found.is_some(), "nobody noticed {broken:?}");
    };
    check(Broken::StoresNothing, |wrong| matches!(wrong, Wrong::Forgotten(_)));
    check(Broken::AnswersFromThePast, |wrong| {
        matches!(wrong, Wrong::Stale(_) | Wrong::Forgotten(_) | Wrong::Unsettled(_))
    });
    check(Broken::Mute, |wrong| matches!(wrong, Wrong::Unreported(_)));
}
