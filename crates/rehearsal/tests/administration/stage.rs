//! The fabric, its managers with an administrator each, and its hosts, as they are disturbed and asked.

use super::*;

/// What agents said.
pub struct Said(pub Arc<Inventory>);

impl Agents for Said {
    fn port_info(&self, at: PortRef) -> Option<&PortInfo> {
        self.0.port_info(at)
    }

    fn switch_info(&self, node: NodeIdx) -> Option<&SwitchInfo> {
        self.0.agents.get(node)?.switch.as_ref()
    }
}

/// Whom managers ask to register again: by the way of the SMP.
pub type Asked = Arc<Mutex<Vec<(usize, DirectedRoute)>>>;

#[derive(Debug)]
pub struct Listener(pub usize, pub Asked);

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
pub struct Desk {
    pub id: ManagerId,
    pub seat: PortIdx,
    pub sa: Sa,
    pub copier: Copier,
    pub runs: bool,
    /// What is on disk, and whether more may have been registered.
    pub stored: Option<Registrations>,
    pub is_marked: bool,
    pub is_lost: bool,
    pub seen: u64,
    pub due: Option<Time>,
    pub is_copied: bool,
    pub is_ready: bool,
    pub commits: u32,
}

pub struct Stage {
    pub world: Rehearsal,
    pub fabric: Fabric,
    pub desks: Vec<Desk>,
    pub hosts: Vec<Host>,
    pub asked: Asked,
    pub broken: Option<Broken>,
    pub rng: Rng,
    pub logged: usize,
    pub ticked: Time,
    pub serial: u64,
    /// What happened, for people.
    pub notes: Vec<(Time, String)>,
}

/// True if packets pass a port's link.
pub fn is_active(chassis: &Chassis, port: PortIdx) -> bool {
    let at = chassis.port_ref(port);
    chassis.is_powered(at.node) && chassis.wire(port).state() == PortState::Active
}

/// The nodes that packets from a port can get to.
pub fn reach(chassis: &Chassis, from: PortIdx) -> BTreeSet<NodeIdx> {
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
    pub fn new(seed: u64, broken: Option<Broken>) -> Self {
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

    pub fn note(&mut self, what: String) {
        self.notes.push((self.world.now(), what));
    }

    /// What happened and what managers said, by time.
    pub fn story(&self) -> String {
        let said = self
            .world
            .log()
            .iter()
            .map(|entry| (entry.at, format!("{:?} {}", entry.manager, entry.event)));
        let mut all: Vec<(Time, String)> = said.chain(self.notes.iter().cloned()).collect();
        all.sort_by_key(|(at, _)| *at);
        all.iter().map(|(at, what)| format!("{at} {what}\n")).collect()
    }

    pub fn chassis(&self) -> &Chassis {
        self.world.emulator().chassis()
    }

    pub fn lid(&self, port: PortIdx) -> Lid {
        self.chassis().port(port).settings().lids.base
    }

    pub fn command(&mut self, number: usize, command: Command) {
        let desk = &self.desks[number];
        if desk.runs {
            self.world.command(desk.id, command).unwrap();
        }
    }

    pub fn start(&mut self, number: usize) {
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

    pub fn kill(&mut self, number: usize) {
        self.note(format!("manager {number} is killed"));
        self.desks[number].runs = false;
        self.world.kill(self.desks[number].id).unwrap();
    }

    /// Hands an administrator an input, and carries what comes of it, and of that.
    pub fn administer(&mut self, number: usize, input: Input) {
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
    pub fn carry(&mut self, todo: Vec<(PortIdx, Output)>) {
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

    pub fn copied(&mut self, number: usize) {
        if let Some(copy) = self.desks[number].copier.take() {
            self.administer(number, Input::Copied(copy));
        }
    }

    /// What managers have said, as `daemon` goes by it.
    pub fn heed(&mut self) {
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

    pub fn commit(&mut self, number: usize) {
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

    pub fn role(&mut self, number: usize, role: Role) {
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
    pub fn turn(&mut self, number: usize) {
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
    pub fn tell(&mut self, number: usize) {
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

    pub fn run(&mut self, span: Duration) {
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
    pub fn hosts_are_asked(&mut self) {
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
    pub fn live(&mut self, number: usize) {
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
    pub fn ask(&mut self, number: usize, mut mad: Mad, meaning: Option<(usize, bool)>) -> Option<Mad> {
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
}
