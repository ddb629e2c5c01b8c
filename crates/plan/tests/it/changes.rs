//! What is sent to turn a fabric into its plan: no Set too many, none too few, and in which phase.
use selvedge_fabric::{Fabric, FabricBuilder, LinkState, Node, PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_plan::{
    BLOCK_LIDS, EndPortPlan, EngineName, Generation, Installed, Lids, Op, Plan, ServiceLevels, SlToVl, Tables, changes,
};
use selvedge_types::{Guid, Lid, LidRange, Mtu, NodeKind, PKey, PhysState, PortNum, PortState};

fn port(number: u8) -> PortNum {
    PortNum::new(number).unwrap()
}

/// Two switches with a cable between their ports 2, a host at port 1 of each.
fn fabric() -> Fabric {
    let mut builder = FabricBuilder::new();
    let switches = [1, 2].map(|n| builder.add(Node::new(NodeKind::Switch, Guid(n), 4, format!("s{n}"))));
    let hosts = [3, 4].map(|n| builder.add(Node::new(NodeKind::Ca, Guid(n), 1, format!("h{n}"))));
    for (switch, host) in switches.into_iter().zip(hosts) {
        builder.link((host, port(1)), (switch, port(1))).unwrap();
    }
    builder.link((switches[0], port(2)), (switches[1], port(2))).unwrap();
    builder.finish().unwrap()
}

/// A plan with LIDs up to 129, so three blocks, and settings that no agent has by itself.
fn plan(fabric: &Fabric) -> Plan {
    let mut lids = Lids::new();
    let mut tables = Tables::new(2, Lid(129));
    let (mut ports, mut end_ports) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
    for (lid, (at, _)) in [1, 2, 64, 129].map(Lid).into_iter().zip(fabric.end_ports()) {
        lids.insert(at, LidRange::single(lid)).unwrap();
        let pkeys = vec![PKey::DEFAULT_FULL];
        end_ports.insert(at, EndPortPlan { pkeys });
        for switch in tables.switch_indices() {
            tables.set(switch, lid, 1);
        }
    }
    for (node, seen) in fabric.nodes().iter_enumerated() {
        for (number, seen) in seen.all_ports() {
            let at = PortRef { node, port: number };
            if number == PortNum::MANAGEMENT || seen.peer.is_some() {
                let settings = PortSettings {
                    lids: lids.range(at).unwrap_or_default(),
                    sm_lid: Lid(64),
                    mtu: Mtu::B2048,
                    ..PortSettings::default()
                };
                ports.insert(at, settings);
            }
        }
    }
    let switch = SwitchSettings {
        linear_top: 129,
        ..SwitchSettings::default()
    };
    Plan {
        generation: Generation(7),
        engine: EngineName("test".to_owned()),
        tables,
        service_levels: ServiceLevels::default(),
        sl_to_vl: SlToVl::default(),
        lanes: 1,
        lane_tables: None,
        ports,
        end_ports,
        switches: [switch, switch].into_iter().collect(),
        lids,
    }
}

/// Puts every port that has settings in the plan into a state, with the settings of the plan or its own.
fn into_state(fabric: &mut Fabric, plan: &Plan, state: PortState, with_settings: bool) {
    for (&at, &wanted) in &plan.ports {
        let seen = fabric.port(at).unwrap();
        let settings = if with_settings { wanted } else { seen.settings };
        let link = LinkState {
            state,
            phys: PhysState::LinkUp,
            ..seen.link
        };
        fabric.set_port(at, link, settings);
    }
}

/// Returns a plan, with the fabric and the tables that agents hold once all of the plan is in force.
fn in_force() -> (Fabric, Installed, Plan) {
    let mut fabric = fabric();
    let plan = plan(&fabric);
    into_state(&mut fabric, &plan, PortState::Active, true);
    for (&at, end) in &plan.end_ports {
        fabric.set_pkeys(at, end.pkeys.clone());
    }
    let mut installed = Installed::unknown(2);
    for (switch, &settings) in plan.switches.iter_enumerated() {
        fabric.set_switch(fabric.switches()[switch], settings);
        (0..plan.tables.blocks()).for_each(|block| installed.learn(switch, block, *plan.tables.block(switch, block)));
    }
    (fabric, installed, plan)
}

/// Returns the phases of the change set: a line for each, with its sorted operations.
fn lines(fabric: &Fabric, installed: &Installed, plan: &Plan) -> Vec<String> {
    let set = changes(fabric, installed, plan);
    assert_eq!(set.generation, plan.generation);
    assert_eq!(
        set.count().total(),
        set.phases.iter().map(|phase| phase.ops.len()).sum::<usize>()
    );
    let name = |op: &Op| {
        let node = &fabric.node(op.node()).description;
        match op {
            Op::Lft { block, .. } => format!("{node} block {block}"),
            Op::Switch { .. } => format!("{node} switch"),
            Op::SlToVl { .. } => format!("{node} lanes"),
            Op::Arbitration { .. } => format!("{node} turns"),
            Op::PKeys { .. } => format!("{node} pkeys"),
            Op::Link { port, order } => format!("{node}[{}] {order:?}", port.port),
            Op::Port { port, state: None, .. } => format!("{node}[{}]", port.port),
            Op::Port {
                port,
                state: Some(state),
                ..
            } => format!("{node}[{}] {state}", port.port),
        }
    };
    let line = |ops: &[Op]| {
        let mut names: Vec<String> = ops.iter().map(name).collect();
        names.sort();
        names.join(", ")
    };
    set.phases.iter().map(|phase| line(&phase.ops)).collect()
}

/// Checks which Sets are sent after `change` has changed the plan or what agents hold.
fn check(change: impl Fn(&mut Fabric, &mut Installed, &mut Plan), want: &[&str]) {
    let (mut fabric, mut installed, mut plan) = in_force();
    change(&mut fabric, &mut installed, &mut plan);
    assert_eq!(lines(&fabric, &installed, &plan), want);
}

fn at(fabric: &Fabric, guid: u64, number: u8) -> PortRef {
    let node = fabric.find(Guid(guid)).unwrap();
    PortRef {
        node,
        port: port(number),
    }
}

#[test]
fn what_is_in_force_is_left_alone() {
    check(|_, _, _| {}, &[]);
}

#[test]
fn a_fresh_fabric_gets_everything_and_then_goes_active() {
    let mut fabric = fabric();
    let plan = plan(&fabric);
    into_state(&mut fabric, &plan, PortState::Init, false);
    let configure = "h3 pkeys, h3[1] ARMED, h4 pkeys, h4[1] ARMED, \
                     s1 block 0, s1 block 1, s1 block 2, s1 pkeys, s1 switch, s1[0], s1[1] ARMED, s1[2] ARMED, \
                     s2 block 0, s2 block 1, s2 block 2, s2 pkeys, s2 switch, s2[0], s2[1] ARMED, s2[2] ARMED";
    let activate = "h3[1] ACTIVE, h4[1] ACTIVE, s1[1] ACTIVE, s1[2] ACTIVE, s2[1] ACTIVE, s2[2] ACTIVE";
    assert_eq!(lines(&fabric, &Installed::unknown(2), &plan), [configure, activate]);
}

#[test]
fn one_difference_is_one_set() {
    check(|_, _, plan| plan.tables.set(SwitchIdx(1), Lid(64), 3), &["s2 block 1"]);
    check(
        |_, installed, _| installed.learn(SwitchIdx(0), 2, [255; BLOCK_LIDS]),
        &["s1 block 2"],
    );
    check(
        |fabric, _, _| fabric.set_pkeys(at(fabric, 4, 1), Vec::new()),
        &["h4 pkeys"],
    );
    check(|_, _, plan| plan.switches[SwitchIdx(0)].lifetime += 1, &["s1 switch"]);
    check(
        |fabric, _, plan| plan.ports.get_mut(&at(fabric, 1, 2)).unwrap().mtu = Mtu::B256,
        &["s1[2]"],
    );
}

#[test]
fn keys_are_written_before_a_live_port_enforces_them() {
    let enforce = |fabric: &mut Fabric, _: &mut Installed, plan: &mut Plan| {
        let at = at(fabric, 1, 2);
        plan.ports.get_mut(&at).unwrap().enforcement = 12;
        let pkeys = vec![PKey(0x8001)];
        plan.end_ports.insert(at, EndPortPlan { pkeys });
    };
    check(enforce, &["s1 pkeys", "s1[2]"]);
}

#[test]
fn blocks_that_nobody_knows_are_written() {
    check(
        |_, installed, _| *installed = Installed::unknown(2),
        &["s1 block 0, s1 block 1, s1 block 2, s2 block 0, s2 block 1, s2 block 2"],
    );
}

#[test]
fn ports_go_on_from_the_state_they_are_in() {
    let in_state = |state: PortState| {
        move |fabric: &mut Fabric, _: &mut Installed, _: &mut Plan| {
            let at = at(fabric, 3, 1);
            let port = fabric.port(at).unwrap();
            let (link, settings) = (LinkState { state, ..port.link }, port.settings);
            fabric.set_port(at, link, settings);
        }
    };
    check(in_state(PortState::Init), &["h3[1] ARMED", "h3[1] ACTIVE"]);
    check(in_state(PortState::Armed), &["h3[1] ACTIVE"]);
    check(in_state(PortState::Down), &[]);
}

#[test]
fn ports_that_are_not_there_are_skipped() {
    let gone = |_: &mut Fabric, _: &mut Installed, plan: &mut Plan| {
        let (&last, &settings) = plan.ports.last_key_value().unwrap();
        plan.ports.insert(
            PortRef {
                port: port(200),
                ..last
            },
            settings,
        );
    };
    check(gone, &[]);
}

/// Consecutive Sets go to different switches, so that their agents work side by side.
#[test]
fn blocks_alternate_between_switches() {
    let (fabric, _, plan) = in_force();
    let set = changes(&fabric, &Installed::unknown(2), &plan);
    let nodes: Vec<_> = set.phases[0].ops.iter().map(Op::node).collect();
    assert!(nodes.windows(2).all(|pair| pair[0] != pair[1]), "{nodes:?}");
}
