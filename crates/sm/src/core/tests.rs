//! The manager against hand-made answers: two hosts with a cable between them, no switch, no emulator.

use selvedge_fabric::Fabric;
use selvedge_plan::Generation;
use selvedge_planner::{DefaultJudge, Job};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Guid, Lid, LidRange, LinkWidth, Mtu, NodeKind, PKey, PhysState, PortNum, PortState};
use selvedge_wire::{
    Address, CapabilityMask, Class, LinkWidths, LocalChange, LocalPort, NodeDescription, NodeInfo, Notice, PKeyTable,
    PRODUCER_CA, PortInfo, SmInfo, SmState, Status, Trap, VlCount,
};

use super::*;
use crate::StageName;
use crate::election::{Foreign, Role};
use crate::io::Command;
use crate::persist::GENERATIONS_AHEAD;

mod lids_in_force;
mod policy;
mod registration;
mod standing_by;
mod storing;

/// A host, as its agent holds it: the near host, where the manager runs, is number 0; the far host is number 1.
#[derive(Clone, Copy, Debug)]
struct Host {
    guid: u64,
    info: PortInfo,
    /// True if the agent answers every Set with an error.
    refuses: bool,
    /// The manager at this host, and whether it accepts a handover.
    manager: Option<(SmInfo, bool)>,
    /// True if the host does not answer.
    is_mute: bool,
}

impl Host {
    fn new(guid: u64) -> Self {
        let info = PortInfo {
            state: Some(PortState::Init),
            phys_state: Some(PhysState::LinkUp),
            local_port: 1,
            mtu_cap: Some(Mtu::B4096),
            neighbor_mtu: Some(Mtu::B256),
            vl_cap: VlCount::from_code(1),
            oper_vls: VlCount::from_code(1),
            width_active: Some(LinkWidths::only(LinkWidth::X4)),
            gid_prefix: 0xFE80_0000_0000_0000,
            ..PortInfo::default()
        };
        Self {
            guid,
            info,
            refuses: false,
            manager: None,
            is_mute: false,
        }
    }

    /// Returns the host's answer to a request; every Set is acknowledged.
    fn answer(&mut self, request: &Mad) -> Mad {
        let mut answer = *request;
        answer.set_method(Method::GetResp);
        match (request.method(), request.attribute()) {
            (_, AttributeId::NODE_INFO) => answer.write(&NodeInfo {
                base_version: 1,
                class_version: 1,
                kind: NodeKind::Ca,
                port_count: 1,
                system_guid: Guid(self.guid),
                node_guid: Guid(self.guid),
                port_guid: Guid(self.guid + 1),
                partition_cap: 32,
                device_id: 0,
                revision: 0,
                local_port: 1,
                vendor_id: 0,
            }),
            (_, AttributeId::NODE_DESCRIPTION) => answer.write(&NodeDescription::new("host")),
            (_, AttributeId::PKEY_TABLE) => {
                let mut keys = [PKey(0); 32];
                keys[0] = PKey::DEFAULT_FULL;
                answer.write(&PKeyTable { keys });
            }
            (method, AttributeId::SM_INFO) => {
                let (info, takes) = self.manager.unwrap();
                answer.write(&info);
                if method == Method::Set && !takes {
                    answer.set_status(Status::BAD_FIELD);
                }
            }
            (Method::Set, _) if self.refuses => answer.set_status(Status::BAD_FIELD),
            (Method::Set, AttributeId::PORT_INFO) => {
                let set: PortInfo = request.read().unwrap();
                let (state, phys_state) = (set.state.or(self.info.state), self.info.phys_state);
                self.info = PortInfo {
                    state,
                    phys_state,
                    width_active: self.info.width_active,
                    ..set
                };
                answer.write(&self.info);
            }
            (_, AttributeId::PORT_INFO) => answer.write(&self.info),
            (method, attribute) => panic!("{method:?} {attribute:?}"),
        }
        answer
    }
}

/// A manager, its two hosts, and its outputs.
struct Bench {
    sm: Sm,
    hosts: [Host; 2],
    now: Time,
    events: Vec<Event>,
    milestones: Vec<Milestone>,
    is_sm: Vec<bool>,
    jobs: Vec<Job>,
    sets: u32,
    /// Number of requests to a manager that does not answer.
    unheard: u32,
    /// Stored states, with the number of Sets sent before each.
    stored: Vec<(PersistentState, u32)>,
    /// True if every attempt to store the state fails.
    is_full: bool,
    /// The newest request to store something.
    asked: u64,
}

impl Bench {
    fn new(mode: Mode) -> Self {
        Self::with_state(mode, PersistentState::default())
    }

    fn with_state(mode: Mode, state: PersistentState) -> Self {
        let local = LocalPort {
            node_guid: Guid(0x10),
            port_guid: Guid(0x11),
            port: PortNum::new(1).unwrap(),
        };
        let config = Config::new(mode, local, Arc::default());
        Self {
            sm: Sm::new(config, Arc::new(DefaultJudge::default()), state),
            hosts: [Host::new(0x10), Host::new(0x20)],
            now: Time::ZERO,
            events: Vec::new(),
            milestones: Vec::new(),
            is_sm: Vec::new(),
            jobs: Vec::new(),
            sets: 0,
            unheard: 0,
            stored: Vec::new(),
            is_full: false,
            asked: 0,
        }
    }

    /// Hands in one input and answers every request until there is none; jobs are kept. Each answer takes a
    /// microsecond.
    fn hand(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.now += Duration::from_micros(1);
            let mut out = Vec::new();
            self.sm.handle(self.now, input, &mut out);
            for output in out {
                match output {
                    Output::Send { datagram, .. } => {
                        let mad = datagram.mad;
                        self.sets += u32::from(mad.method() == Method::Set);
                        if matches!(mad.method(), Method::Get | Method::Set) {
                            let host = &mut self.hosts[usize::from(mad.hop_count())];
                            if host.is_mute && mad.attribute() == AttributeId::SM_INFO {
                                self.unheard += 1;
                                inputs.insert(0, Input::Returned(datagram));
                                continue;
                            }
                            let mad = host.answer(&mad);
                            inputs.insert(
                                0,
                                Input::Received(Datagram {
                                    address: Address::DIRECTED,
                                    mad,
                                }),
                            );
                        }
                    }
                    Output::Compute(job) => self.jobs.push(*job),
                    Output::Persist { id, .. } if self.is_full => {
                        self.asked = id;
                        inputs.insert(0, Input::NotPersisted { id });
                    }
                    Output::Persist { id, state } => {
                        self.stored.push((state, self.sets));
                        inputs.insert(0, Input::Persisted { id });
                    }
                    Output::SetIsSm(is_sm) => {
                        self.is_sm.push(is_sm);
                        let mask = &mut self.hosts[0].info.capabilities;
                        *mask = match is_sm {
                            true => mask.with(CapabilityMask::IS_SM),
                            false => mask.without(CapabilityMask::IS_SM),
                        };
                    }
                    Output::Milestone(milestone) => self.milestones.push(milestone),
                    Output::Event(event) => self.events.push(event),
                }
            }
        }
    }

    /// Does the oldest job.
    fn compute(&mut self) {
        let mut job = self.jobs.remove(0);
        let result = Box::new(job.run(Par::Sequential));
        self.hand(Input::Computed { id: job.id, result });
    }

    fn has(&self, code: &str) -> bool {
        self.events.iter().any(|e| e.code() == code)
    }

    fn up(mode: Mode) -> Self {
        let mut bench = Self::new(mode);
        bench.hand(Input::Start);
        bench.compute();
        bench
    }

    /// Lets time pass until a timer is due, and serves it.
    fn until_due(&mut self) {
        self.now = self.sm.next_wake().unwrap();
        self.hand(Input::Wake);
    }

    /// Returns the state after [`Bench::up`] and the check after the plan.
    fn at_rest() -> Self {
        let mut bench = Self::up(Mode::Manage);
        bench.until_due();
        bench
    }
}

#[test]
fn two_hosts_come_up() {
    let bench = Bench::up(Mode::Manage);
    assert!(bench.has("SLV-SM-0007"), "{:?}", bench.events);
    assert_eq!(bench.hosts.map(|h| h.info.lid), [Lid(1), Lid(2)]);
    assert_eq!(bench.hosts.map(|h| h.info.state), [Some(PortState::Active); 2]);
    assert_eq!(bench.hosts.map(|h| h.info.sm_lid), [Lid(1); 2]);
    assert_eq!(bench.is_sm, [true]);
    assert!(bench.sm.view().is_up() && bench.sm.is_resting());
}

/// The milestones of a bring-up come in this order. Each carries the values of its moment, so no test needs the view of
/// the manager for them.
#[test]
fn a_bring_up_passes_its_milestones_in_order() {
    let mut bench = Bench::up(Mode::Manage);
    let in_force = bench.sm.view().plan.unwrap();
    match &bench.milestones[..] {
        [
            Milestone::SweepStarted,
            Milestone::Swept(swept),
            Milestone::KnownChanged(known),
            Milestone::RoleChanged { role: Role::Master },
            Milestone::Coming {
                fabric,
                plan,
                was_known: false,
            },
            Milestone::Committed(committed),
        ] => {
            assert!(Arc::ptr_eq(swept, fabric));
            assert_eq!(known.nodes.len(), swept.nodes().len());
            assert!(Arc::ptr_eq(plan, &in_force) && Arc::ptr_eq(&committed.plan, &in_force));
            let (port, _) = committed.fabric.end_ports().next().unwrap();
            let state = |fabric: &Fabric| fabric.port(port).unwrap().link.state;
            assert_eq!(
                [state(swept), state(&committed.fabric)],
                [PortState::Init, PortState::Active]
            );
            assert_eq!((committed.manager.state, committed.asks_all), (SmState::Master, false));
        }
        others => panic!("{others:?}"),
    }
    bench.milestones.clear();
    bench.hand(Input::Command(Command::Stop));
    assert!(bench.milestones.is_empty());
}

#[test]
fn who_only_looks_sends_no_set() {
    for mode in [Mode::DryRun, Mode::Watch] {
        let mut bench = Bench::new(mode);
        bench.hand(Input::Start);
        if mode == Mode::DryRun {
            bench.compute();
        }
        assert_eq!((bench.sets, bench.is_sm.len(), bench.jobs.len()), (0, 0, 0), "{mode:?}");
        assert_eq!(bench.sm.role(), Role::NotActive);
    }
}

#[test]
fn a_result_that_comes_too_late_is_dropped() {
    let mut bench = Bench::new(Mode::Manage);
    bench.hand(Input::Start);
    bench.hand(Input::Command(Command::Sweep));
    assert_eq!(bench.jobs.len(), 2, "the sweep overtook the first plan");
    bench.compute();
    assert!(!bench.has("SLV-SM-0004") && bench.sets == 0, "{:?}", bench.events);
    bench.compute();
    assert!(bench.has("SLV-SM-0007"));
}

#[test]
fn only_so_many_plans_are_overtaken() {
    let mut bench = Bench::new(Mode::Manage);
    bench.hand(Input::Start);
    for _ in 0..10 {
        bench.hand(Input::Command(Command::Sweep));
    }
    assert_eq!(bench.jobs.len(), 1 + crate::sweep::DROPPED_MAX as usize);
    bench.jobs.drain(..crate::sweep::DROPPED_MAX as usize);
    bench.compute();
    assert!(bench.has("SLV-SM-0007"), "the last one is applied");
}

#[test]
fn a_light_sweep_begins_on_time_and_once() {
    let mut bench = Bench::at_rest();
    let due = bench.sm.next_wake().unwrap();
    bench.now = due;
    let mut out = Vec::new();
    bench.sm.handle(due, Input::Wake, &mut out);
    assert_eq!(bench.sm.view().stage, crate::StageName::LightSweep);
    assert!(
        bench.sm.next_wake().is_some_and(|at| at > due),
        "it does not ask to be woken in the past"
    );
}

#[test]
fn a_port_that_somebody_else_took_is_looked_at() {
    let mut bench = Bench::at_rest();
    bench.hosts[0].info.sm_lid = Lid(9);
    let before = bench.events.len();
    bench.until_due();
    assert!(matches!(
        bench.events[before],
        Event::SweepStarted {
            reason: SweepReason::LightSweep
        }
    ));
}

#[test]
fn sm_info_is_answered_in_every_stage() {
    let mut bench = Bench::new(Mode::Manage);
    let check = |bench: &mut Bench, want: SmState| {
        let mad = Mad::directed(
            Method::Get,
            AttributeId::SM_INFO,
            0,
            &selvedge_wire::DirectedRoute::LOCAL,
        );
        let mut out = Vec::new();
        bench.sm.handle(
            bench.now,
            Input::Received(Datagram {
                address: Address::DIRECTED,
                mad,
            }),
            &mut out,
        );
        let answers = out.iter().filter_map(|o| match o {
            Output::Send { datagram, .. } if datagram.mad.method() == Method::GetResp => Some(datagram.mad),
            _ => None,
        });
        let states: Vec<SmState> = answers.map(|mad| mad.read::<SmInfo>().unwrap().state).collect();
        assert_eq!(states, [want]);
    };
    let mut out = Vec::new();
    bench.sm.handle(Time::ZERO, Input::Start, &mut out);
    check(&mut bench, SmState::Discovering);
    let mut bench = Bench::new(Mode::Manage);
    bench.hand(Input::Start);
    check(&mut bench, SmState::Master);
    bench.compute();
    check(&mut bench, SmState::Master);
}

#[test]
fn only_a_master_represses_traps() {
    let trap = || {
        let notice = Notice::new(PRODUCER_CA, Lid(2), &Trap::LocalChange(LocalChange::default()));
        let mut mad = Mad::request(Class::SubnLid, Method::Trap, AttributeId::NOTICE, 0);
        mad.write(&notice);
        Input::Received(Datagram {
            address: Address::smi(Lid(2)),
            mad,
        })
    };
    let mut watcher = Bench::new(Mode::Watch);
    watcher.hand(Input::Start);
    let mut master = Bench::up(Mode::Manage);
    let others = |bench: &mut Bench| {
        let before = bench.sm.view().mads.others;
        bench.hand(trap());
        bench.sm.view().mads.others - before
    };
    assert_eq!(others(&mut watcher), 0);
    assert_eq!(others(&mut master), 1);
    assert_eq!(master.jobs.len(), 1, "and looks again");
}

#[test]
fn a_stopped_manager_is_silent() {
    let mut bench = Bench::up(Mode::Manage);
    bench.hand(Input::Command(Command::Stop));
    assert_eq!(bench.is_sm, [true, false]);
    let sets = bench.sets;
    bench.hand(Input::Command(Command::Sweep));
    assert_eq!((bench.sets, bench.jobs.len(), bench.sm.next_wake()), (sets, 0, None));
}

#[test]
fn hostile_datagrams_are_dropped_in_every_stage() {
    let mut rng = Seed(5).child("hostile").rng();
    for stage in 0..3 {
        let mut bench = Bench::new(Mode::Manage);
        match stage {
            0 => bench.sm.handle(Time::ZERO, Input::Start, &mut Vec::new()),
            1 => bench.hand(Input::Start),
            _ => bench = Bench::up(Mode::Manage),
        }
        for _ in 0..2_000 {
            let bytes = std::array::from_fn(|_| rng.below(256) as u8);
            // A header that gets further than the first check, and ids that are in use.
            let mut mad = Mad::from_bytes(bytes);
            mad.set_method([Method::GetResp, Method::Trap, Method::Get][rng.below(3) as usize]);
            mad.set_transaction(selvedge_types::TransactionId(rng.below(8)));
            let datagram = Datagram {
                address: Address::DIRECTED,
                mad,
            };
            bench.sm.handle(bench.now, Input::Received(datagram), &mut Vec::new());
        }
        assert!(bench.sm.view().mads.dropped > 0);
    }
}

#[test]
fn what_failed_is_not_activated_and_tried_again() {
    let mut bench = Bench::new(Mode::Manage);
    bench.hosts[1].refuses = true;
    bench.hand(Input::Start);
    bench.compute();
    assert!(
        bench.has("SLV-SM-0009") && bench.has("SLV-SM-0008"),
        "{:?}",
        bench.events
    );
    assert_eq!(
        bench.hosts[0].info.state,
        Some(PortState::Armed),
        "no use without its peer"
    );
    let reasons: Vec<_> = bench.sm.view().ports.iter().map(|p| p.reason).collect();
    assert_eq!(reasons, [selvedge_planner::PortReason::SetFailed; 2]);
    assert!(!bench.sm.view().is_up());
    bench.hosts[1].refuses = false;
    bench.now = bench.sm.next_wake().unwrap();
    bench.hand(Input::Wake);
    bench.compute();
    assert!(bench.sm.view().is_up());
}

#[test]
fn a_better_manager_is_offered_the_subnet() {
    /// Checks a master that finds another manager (SMInfo state, priority, SM_Key) on the far host: the role of the
    /// master afterwards, and the codes of its events. `takes`: the other manager accepts HANDOVER.
    fn check(other: (SmState, u8, u64), takes: bool, role: Role, codes: &[&str]) {
        let mut bench = Bench::up(Mode::Manage);
        let (state, priority, sm_key) = other;
        let info = SmInfo {
            guid: Guid(0x21),
            sm_key,
            act_count: 1,
            priority: selvedge_wire::Bits::saturating(priority),
            state,
        };
        bench.hosts[1].manager = Some((info, takes));
        bench.hosts[1].info.capabilities = CapabilityMask::IS_SM;
        bench.events.clear();
        bench.hand(Input::Command(Command::Sweep));
        if !bench.jobs.is_empty() {
            bench.compute();
        }
        assert_eq!(bench.sm.role(), role, "{other:?}");
        let said: Vec<&str> = bench
            .events
            .iter()
            .map(Event::code)
            .filter(|code| *code >= "SLV-SM-0060")
            .collect();
        assert_eq!(said, codes, "{other:?}");
        // A refused offer is not repeated after every light sweep; another master is a reason for a sweep.
        if role == Role::Master {
            // The check after the plan, then a light sweep.
            bench.until_due();
            bench.until_due();
            assert_eq!(
                bench.sm.stage_name() == StageName::Idle,
                state != SmState::Master || sm_key != 1,
                "{other:?}"
            );
        }
    }
    check((SmState::Standby, 1, 1), true, Role::Standby, &["SLV-SM-0060"]);
    // It will find this manager, stand by and send trap 144.
    check((SmState::Discovering, 1, 1), true, Role::Master, &[]);
    check(
        (SmState::Standby, 1, 1),
        false,
        Role::Master,
        &["SLV-SM-0060", "SLV-SM-0061"],
    );
    check((SmState::Master, 1, 1), false, Role::Standby, &["SLV-SM-0060"]);
    check((SmState::Master, 0, 1), true, Role::Master, &[]);
    check((SmState::Standby, 0, 1), true, Role::Master, &[]);
    check((SmState::NotActive, 15, 1), true, Role::Master, &[]);
    check((SmState::Standby, 1, 2), true, Role::Master, &["SLV-SM-0063"]);
    check((SmState::Master, 1, 2), true, Role::Master, &["SLV-SM-0063"]);
}
