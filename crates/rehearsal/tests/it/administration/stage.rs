//! The fabric, its managers and its clients, as they are disturbed.

use selvedge_plan::out_of_service::Place;
use selvedge_planner::out_of_service::port_id;
use selvedge_sm::View;

use super::*;
use crate::common;

pub struct Stage {
    pub world: Rehearsal,
    pub fabric: Fabric,
    pub clients: Clients,
    managers: Vec<ManagerId>,
    seats: Vec<NodeIdx>,
    pub runs: [bool; 2],
    pub rng: Rng,
    /// What happened, for people.
    notes: Vec<(Time, String)>,
}

impl Stage {
    pub fn new(seed: u64, defect: Option<DeskDefect>) -> Self {
        let fabric = common::fabric(SPECS[seed as usize % SPECS.len()]);
        let options = Options {
            seed: Seed(seed),
            ..Options::default()
        };
        let mut world = Rehearsal::new(&fabric, options);
        let hosts = fabric.nodes().iter_enumerated().filter(|(_, node)| !node.is_switch());
        let hosts: Vec<NodeIdx> = hosts.map(|(at, _)| at).collect();
        let seats = vec![hosts[0], hosts[hosts.len() - 1]];
        let managers: Vec<ManagerId> = ["a", "b"]
            .into_iter()
            .zip(&seats)
            .zip([1, 0])
            .map(|((name, &node), priority)| {
                let at = format!("\"{}\"[1]", fabric.node(node).description);
                common::add_manager(&mut world, name, &at, priority, Policy::default())
            })
            .collect();
        let places: Vec<_> = managers.iter().map(|&id| (id, world.seat_of(id).unwrap())).collect();
        let seed = Seed(seed).child("administration");
        Self {
            clients: Clients::new(&mut world, &places, seed, defect),
            world,
            fabric,
            managers,
            seats,
            runs: [false; 2],
            rng: seed.rng(),
            notes: Vec::new(),
        }
    }

    /// The events, and the managers' log, by time.
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

    fn note(&mut self, what: String) {
        self.notes.push((self.world.now(), what));
    }

    pub fn start(&mut self, which: usize) {
        self.note(format!("manager {which} starts"));
        self.runs[which] = true;
        self.world.start(self.managers[which]).unwrap();
    }

    pub fn kill(&mut self, which: usize) {
        self.note(format!("manager {which} is killed"));
        self.runs[which] = false;
        self.world.kill(self.managers[which]).unwrap();
    }

    pub fn reload(&mut self, which: usize, policy: Policy) {
        self.note(format!("manager {which} gets another policy"));
        self.world.reload(self.managers[which], Arc::new(policy)).unwrap();
    }

    pub fn view(&self, which: usize) -> View {
        self.world.view(self.managers[which]).unwrap()
    }

    /// A list that drains one of several links of a switch.
    pub fn drained_uplink(&self) -> OutOfService {
        let uplink = &self.uplinks_of_a_leaf()[0];
        let link = self
            .fabric
            .links()
            .find(|link| self.fabric.port_name(link.a) == *uplink);
        let ends = link.map(|link| (port_id(&self.fabric, link.a), port_id(&self.fabric, link.b)));
        let (a, b) = ends.unwrap();
        OutOfService::parse(&format!("drain {} since 5", Place::link(a, b))).unwrap()
    }

    pub fn fault(&mut self, text: &str) {
        self.note(text.to_owned());
        self.world.fault(&text.parse().unwrap()).unwrap();
    }

    pub fn run(&mut self, span: Duration) -> Result<(), Wrong> {
        let end = self.world.now() + span;
        while self.world.now() < end {
            let limit = end.min(self.clients.next());
            let stepped = self.world.step(limit).map(|_| ());
            let went = stepped.and_then(|()| self.clients.after_step(&mut self.world));
            self.notes.append(&mut self.clients.take_notes());
            went.map_err(Box::new)?;
        }
        Ok(())
    }

    /// Lets a random fault happen, or mends one.
    pub fn happen(&mut self) {
        let below = |rng: &mut Rng, count: usize| rng.below(count as u64) as usize;
        let links: Vec<_> = self.fabric.links().collect();
        let link = links[below(&mut self.rng, links.len())];
        let link = self.fabric.port_name(link.a);
        let nodes = self.fabric.nodes().indices().filter(|node| !self.seats.contains(node));
        let nodes: Vec<NodeIdx> = nodes.collect();
        let node = nodes[below(&mut self.rng, nodes.len())];
        let node = format!("\"{}\"", self.fabric.node(node).description);
        let which = below(&mut self.rng, 2);
        match self.rng.below(11) {
            0..=2 => self.fault(&format!("cut {link}")),
            3 | 4 => self.fault(&format!("restore {link}")),
            5 => self.fault(&format!("reboot {node}")),
            6 => self.fault(&format!("kill {node}")),
            7 => self.fault(&format!("revive {node}")),
            _ if self.runs[which] => {
                self.kill(which);
                if self.rng.below(2) == 0 {
                    self.start(which);
                }
            }
            _ => self.start(which),
        }
    }

    /// Mends all faults, and starts managers that do not run.
    pub fn mend(&mut self) {
        for node in self.fabric.nodes().indices() {
            let name = self.fabric.node(node).description.clone();
            self.fault(&format!("revive \"{name}\""));
        }
        let links: Vec<_> = self.fabric.links().collect();
        for link in links {
            let name = self.fabric.port_name(link.a);
            self.fault(&format!("restore {name}"));
        }
        for which in 0..2 {
            if !self.runs[which] {
                self.start(which);
            }
        }
    }

    /// Returns the links that lead from a leaf switch to other switches. The leaf has hosts, but none with a manager.
    pub fn uplinks_of_a_leaf(&self) -> Vec<String> {
        let leaf_of = |host: NodeIdx| {
            let (port, _) = self.fabric.node(host).external_ports().next().unwrap();
            self.fabric.peer(PortRef { node: host, port }).unwrap().node
        };
        let taken: Vec<NodeIdx> = self.seats.iter().map(|seat| leaf_of(*seat)).collect();
        let hosts = self
            .fabric
            .nodes()
            .iter_enumerated()
            .filter(|(_, node)| !node.is_switch());
        let leaf = hosts
            .map(|(host, _)| leaf_of(host))
            .find(|leaf| !taken.contains(leaf))
            .unwrap();
        let is_switch = |at: PortRef| self.fabric.node(at.node).is_switch();
        let links = self
            .fabric
            .links()
            .filter(|link| is_switch(link.a) && is_switch(link.b));
        let uplinks = links.filter(|link| [link.a.node, link.b.node].contains(&leaf));
        uplinks.map(|link| self.fabric.port_name(link.a)).collect()
    }

    /// Returns true if all is well, for the fabric and for each host.
    fn is_well(&self) -> bool {
        let masters = self.managers.iter().filter(|&&id| {
            let view = self.world.view(id);
            view.is_some_and(|view| view.role == Role::Master && view.is_up())
        });
        let chassis = self.world.emulator().chassis();
        let is_active = |at: PortRef| {
            let port = chassis.port_idx(at);
            port.is_some_and(|port| chassis.wire(port).state() == PortState::Active)
        };
        let mut links = self.fabric.links();
        let is_up = links.all(|link| is_active(link.a) && is_active(link.b));
        masters.count() == 1 && is_up && self.world.is_quiet() && self.clients.is_content(&self.world)
    }

    /// Waits until all is well, and checks what must hold then.
    pub fn settle(&mut self) -> Result<(), Wrong> {
        let end = self.world.now() + PATIENCE;
        while !self.is_well() {
            if self.world.now() >= end {
                let when = "when all was well again";
                let violation = self.clients.complaint(&self.world, when, PATIENCE.as_secs());
                let now = self.world.now();
                return Err(Box::new(RehearsalError::Violated { now, violation }));
            }
            // Not in step with polls.
            self.run(Duration::from_millis(970))?;
        }
        self.clients.check(&mut self.world).map_err(Box::new)
    }

    /// A host goes and comes back, and subscribers get Reports.
    pub fn check_reports(&mut self) -> Result<(), Wrong> {
        let gone = self.clients.expect_reports(&self.world).unwrap();
        self.fault(&format!("kill \"{gone}\""));
        self.run(Duration::from_secs(25))?;
        self.fault(&format!("revive \"{gone}\""));
        self.settle()?;
        self.clients.check_reports(&mut self.world, &gone).map_err(Box::new)
    }
}
