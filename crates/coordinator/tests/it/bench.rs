//! A manager with its coordinator on an emulated fabric. Disks and indexing are done at once by default.

#![allow(clippy::unwrap_used, reason = "a test stops where its bench fails")]

use std::sync::Arc;
use std::time::Duration;

use selvedge_coordinator::{Administrated, Coordinator, In, Out, Sampled, survey};
use selvedge_emulator::{ClientId, Emulator, EmulatorConfig};
use selvedge_plan::Policy;
use selvedge_plan::multicast::MulticastGroup;
use selvedge_planner::DefaultJudge;
use selvedge_sa::{Registrations, Snapshot, Sources};
use selvedge_sim::{Par, Seed, Time};
use selvedge_sm::{Command, Config, Input, Mode, Output, PersistentState, Role, Sm};
use selvedge_telemetry::{Sampler, Wall};
use selvedge_topology::Spec;
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::sa::records;
use selvedge_wire::{Address, Class, Datagram, Mad, Method, Status};

/// Outputs that the driver has carried out, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    Sent(Status),
    RemovedMark,
    SetMark { has_ended: bool },
    StoredState(u64),
    StoredRegistrations,
    Repressed,
}

pub struct Bench {
    pub emulator: Emulator,
    client: ClientId,
    pub sm: Sm,
    pub coordinator: Coordinator,
    pub now: Time,
    /// Commands that the manager got.
    pub commands: Vec<Command>,
    /// Groups that the manager got.
    pub groups: Vec<MulticastGroup>,
    /// Datagrams of the administrator and the copier.
    pub sent: Vec<Datagram>,
    pub did: Vec<Did>,
    /// Plans in force that wait to be indexed, if indexing is not done at once.
    pub sources: Vec<Sources>,
    pub indexes: bool,
    /// The mark cannot be removed.
    pub mark_is_stuck: bool,
    /// The outputs of the sampler.
    pub sampled: Vec<Sampled>,
    transaction: u64,
}

impl Bench {
    /// Returns a bench on two switches with two hosts each; earlier registrations of hosts are known.
    pub fn new(policy: Policy) -> Self {
        Self::with(policy, |_| {})
    }

    pub fn with(policy: Policy, change: impl FnOnce(&mut Administrated)) -> Self {
        let Spec::Generated(recipe) = "ring:switches=2,hosts=2".parse().unwrap() else {
            panic!("it is generated");
        };
        let mut emulator = Emulator::new(&recipe.fabric().unwrap(), EmulatorConfig::default(), Seed(1));
        let client = emulator.attach_named("\"H-0\"").unwrap();
        let config = Config::new(Mode::Manage, emulator.local(client).unwrap(), Arc::new(policy));
        let mut with = Administrated {
            administrator: selvedge_sa::Config::default(),
            registrations: Registrations::default(),
            is_lost: false,
            has_folder: true,
            has_hosts: true,
        };
        change(&mut with);
        Self {
            coordinator: Coordinator::new(Time::ZERO, &config, Some(with)),
            sm: Sm::new(config, Arc::new(DefaultJudge::default()), PersistentState::default()),
            emulator,
            client,
            now: Time::ZERO,
            commands: Vec::new(),
            groups: Vec::new(),
            sent: Vec::new(),
            did: Vec::new(),
            sources: Vec::new(),
            indexes: true,
            mark_is_stuck: false,
            sampled: Vec::new(),
            transaction: 0,
        }
    }

    /// Returns a bench with a sampler. The wall clock began with the bench.
    pub fn sampling(config: selvedge_telemetry::Config) -> Self {
        let mut bench = Self::new(Policy::default());
        bench.coordinator = bench.coordinator.sampling(Some(Sampler::new(config)));
        bench.hand(In::Start);
        bench.hand(In::Clock(Wall(0)));
        bench
    }

    /// Returns a bench with a master that has a plan in force.
    pub fn up(policy: Policy) -> Self {
        let mut bench = Self::new(policy);
        bench.hand(In::Start);
        bench.run_for(Duration::from_secs(1));
        assert_eq!(bench.sm.role(), Role::Master);
        assert!(bench.administrator_answers());
        bench.did.clear();
        bench
    }

    pub fn administrator_answers(&self) -> bool {
        self.coordinator.administrator().unwrap().snapshot().is_some()
    }

    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            let wakes = [self.sm.next_wake(), self.coordinator.next_wake()];
            let wake = wakes.into_iter().flatten().min().unwrap_or(end);
            let mut arrived = Vec::new();
            self.now = self
                .emulator
                .advance_to_delivery(wake.min(end).max(self.now), &mut arrived);
            for delivery in arrived {
                self.hand(In::Arrived(delivery.datagram));
            }
            if self.coordinator.next_wake().is_some_and(|at| at <= self.now) {
                self.hand(In::Wake);
            }
            if self.sm.next_wake().is_some_and(|at| at <= self.now) {
                self.feed(Input::Wake);
            }
        }
    }

    /// Hands an input to the coordinator.
    pub fn hand(&mut self, input: In) {
        let mut out = Vec::new();
        self.coordinator.handle(self.now, input, &mut out);
        out.into_iter().for_each(|wanted| self.carry_out(wanted));
    }

    fn carry_out(&mut self, wanted: Out) {
        match wanted {
            Out::Manager(input) => {
                match &input {
                    Input::Command(command) => self.commands.push(command.clone()),
                    Input::Groups(groups) => self.groups.extend(groups.iter().cloned()),
                    _ => {}
                }
                self.feed(input);
            }
            Out::Send { datagram, .. } => {
                self.did.push(Did::Sent(datagram.mad.status()));
                self.sent.push(datagram);
            }
            Out::Repress(datagram) => {
                self.did.push(Did::Repressed);
                self.sent.push(datagram);
            }
            Out::Event(_) | Out::JobAnswered { .. } => {}
            Out::Index(sources) if !self.indexes => self.sources.push(sources),
            Out::Index(sources) => self.hand(In::Indexed(Some(Arc::new(Snapshot::new(sources))))),
            Out::Survey(fabric, plan) => self.hand(In::Surveyed {
                generation: plan.generation,
                inventory: Arc::new(survey(&fabric, &plan)),
            }),
            Out::Request { datagram, .. } => self.emulator.send(self.now, self.client, &datagram),
            Out::Sampled(sampled) => self.sampled.push(sampled),
            Out::StoreState { id, .. } => {
                self.did.push(Did::StoredState(id));
                self.hand(In::StateStored { id, is_stored: true });
            }
            Out::StoreKnown { id, .. } => self.hand(In::KnownStored { id, is_stored: true }),
            Out::StoreRegistrations { revision, .. } => {
                self.did.push(Did::StoredRegistrations);
                let is_stored = true;
                self.hand(In::RegistrationsStored { revision, is_stored });
            }
            Out::RemoveMark => {
                self.did.push(Did::RemovedMark);
                let is_done = !self.mark_is_stuck;
                self.hand(In::MarkRemoved { is_done });
            }
            Out::SetMark { has_ended } => {
                self.did.push(Did::SetMark { has_ended });
                self.hand(In::MarkSet { is_done: true });
            }
        }
    }

    /// Hands an input to the manager.
    pub fn feed(&mut self, input: Input) {
        let mut out = Vec::new();
        self.sm.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Output::Send { datagram, .. } => self.emulator.send(self.now, self.client, &datagram),
                Output::Compute(mut job) => {
                    let id = job.id;
                    let result = Box::new(job.run(Par::Sequential));
                    self.feed(Input::Computed { id, result });
                }
                Output::Persist { id, state } => self.hand(In::Persist { id, state }),
                Output::SetIsSm(is_sm) => self.emulator.set_is_sm(self.now, self.client, is_sm).unwrap(),
                Output::Milestone(milestone) => self.hand(In::Milestone(milestone)),
                Output::Event(_) => {}
            }
        }
    }

    /// Returns LID and GID of a host, by its number from 0. The host of the manager is not counted.
    pub fn host(&self, number: usize) -> (Lid, u128) {
        let view = self.sm.view();
        let (fabric, plan) = (view.fabric.unwrap(), view.plan.unwrap());
        let mut hosts = fabric.end_ports().filter(|(at, _)| !fabric.node(at.node).is_switch());
        let (at, port) = hosts.nth(1 + number).unwrap();
        (
            plan.lids.base(at).unwrap(),
            0xFE80_u128 << 112 | u128::from(port.guid.0),
        )
    }

    /// A host joins the broadcast group of IPoIB; returns the answers so far.
    pub fn join(&mut self, number: usize) -> Vec<Datagram> {
        use records::member as f;
        let (lid, gid) = self.host(number);
        let mut mad = Mad::request(Class::SubnAdm, Method::Set, records::MEMBER.id, 0);
        let group = 0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF_u128;
        f::MGID.put(mad.sa_data_mut(), &group.to_be_bytes());
        f::PORT_GID.put(mad.sa_data_mut(), &gid.to_be_bytes());
        f::JOIN_STATE.set(mad.sa_data_mut(), 1);
        mad.set_component_mask(f::MGID.mask() | f::PORT_GID.mask() | f::JOIN_STATE.mask());
        self.ask(lid, mad)
    }

    /// A host subscribes to every trap.
    pub fn subscribe(&mut self, number: usize) -> Vec<Datagram> {
        use records::inform_info as f;
        let mut mad = Mad::request(Class::SubnAdm, Method::Set, records::INFORM_INFO.id, 0);
        for (field, value) in [
            (f::LID_BEGIN, 0xFFFF),
            (f::IS_GENERIC, 1),
            (f::SUBSCRIBE, 1),
            (f::TYPE, 0xFFFF),
            (f::TRAP_NUMBER, 0xFFFF),
            (f::PRODUCER, 0xFF_FFFF),
        ] {
            field.set(mad.sa_data_mut(), value);
        }
        let (lid, _) = self.host(number);
        self.ask(lid, mad)
    }

    fn ask(&mut self, from: Lid, mut mad: Mad) -> Vec<Datagram> {
        self.transaction += 1;
        mad.set_transaction(TransactionId(self.transaction));
        self.sent.clear();
        self.hand(In::Arrived(Datagram {
            address: Address::gsi(from, Sl::default()),
            mad,
        }));
        std::mem::take(&mut self.sent)
    }
}
