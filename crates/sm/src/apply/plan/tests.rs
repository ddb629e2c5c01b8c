//! Applies a plan without a manager: each Set is acknowledged, or ends as the test requires. The fabric is the row of
//! `selvedge_planner::made`: host, two switches, host.

use selvedge_planner::{Basis, Job, JobId, PlanFabric, Task};
use selvedge_sim::Par;
use selvedge_types::SecretKey;
use selvedge_wire::{AttributeId, Status};

use super::*;
use crate::apply::In;
use crate::made::{config, info, inventory, row};

/// The outcome of a Set.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Done,
    Refused,
    NotAnswered,
    LeftOut,
    /// The port acknowledges the settings, but reports this state.
    In(PortState),
}

/// Begins to apply a plan to the fabric that [`row`] makes (host, two switches, host), with every link in `state`.
/// Before the plan, the switches forward all packets by port 1.
fn begun(state: PortState) -> Apply {
    let mut found = row();
    let ports = found.iter_mut().flat_map(|node| &mut node.ports);
    ports
        .filter(|port| port.info.is_some())
        .for_each(|port| port.info = Some(info(state)));
    let inventory = Arc::new(inventory(found));
    let mut installed = Installed::unknown(2);
    for switch in inventory.fabric.switches().indices() {
        installed.learn(switch, 0, [1; BLOCK_LIDS]);
    }
    let basis = Basis::new(&inventory, &Arc::new(installed.clone()), Arc::default());
    let mut job = Job {
        id: JobId(1),
        task: Task::Plan(Box::new(PlanFabric::new(basis))),
    };
    let result = job.run(Par::Sequential);
    Apply::new(Arc::clone(result.outcome().unwrap()), inventory, installed)
}

fn give(apply: &mut Apply, input: In<'_>) -> (Vec<Effect>, Option<(SetId, Request)>) {
    let (config, mut effects) = (config(), Vec::new());
    let ctx = Ctx {
        now: Time::ZERO,
        config: &config,
    };
    let request = apply.handle(&ctx, input, &mut effects);
    (effects, request)
}

/// Offers room for a request when none can be sent. Returns true if there is neither a request nor an effect.
fn gives_nothing(apply: &mut Apply) -> bool {
    let (effects, request) = give(apply, In::Room);
    effects.is_empty() && request.is_none()
}

/// Sends all requests that can be sent, and adds them to `open`; other effects go to `others` by name.
fn send_all(apply: &mut Apply, open: &mut Vec<(SetId, Mad)>, others: &mut Vec<&'static str>) {
    loop {
        let (effects, request) = give(apply, In::Room);
        others.extend(effects.iter().map(name));
        let Some((id, request)) = request else { return };
        open.push((id, request.smp.datagram(SecretKey::default()).mad));
    }
}

fn name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Sweep(SweepReason::Overtaken) => "sweep",
        Effect::Event(Event::StepsLeftOut { .. }) => "steps left out",
        Effect::Event(Event::SetFailed { .. }) => "failed",
        other => panic!("{other:?}"),
    }
}

/// Ends a Set. If it sets no port state, the port answers with its present state.
fn end(apply: &mut Apply, (id, mut mad): (SetId, Mad), fate: Fate) -> Vec<Effect> {
    let op = &apply.outcome().changes.value().phases[id.phase].ops[id.op];
    if let Op::Port { port, .. } = op {
        let mut held = PortInfo::parse(mad.smp_data()).unwrap();
        held.state = held.state.or(apply.fabric().port(*port).map(|port| port.link.state));
        if let Fate::In(state) = fate {
            held.state = Some(state);
        }
        mad.set_smp_data(&held.emit());
    }
    let answer = match fate {
        Fate::LeftOut => return give(apply, In::LeftOut(id)).0,
        Fate::NotAnswered => None,
        Fate::Refused => {
            mad.set_status(Status(0x1c));
            Some(&mad)
        }
        Fate::Done | Fate::In(_) => Some(&mad),
    };
    give(apply, In::Ended(id, answer)).0
}

#[test]
fn a_phase_begins_when_all_answers_of_the_one_before_are_in() {
    let (mut apply, mut open, mut others) = (begun(PortState::Init), Vec::new(), Vec::new());
    send_all(&mut apply, &mut open, &mut others);
    assert_eq!((open.len(), apply.phase()), (16, 0));
    while let Some(set) = open.pop() {
        assert!(!apply.is_done() && apply.phase() == 0);
        assert!(gives_nothing(&mut apply), "{} are open", open.len() + 1);
        assert!(end(&mut apply, set, Fate::Done).is_empty());
        assert!(end(&mut apply, set, Fate::NotAnswered).is_empty(), "it has ended");
    }
    send_all(&mut apply, &mut open, &mut others);
    assert_eq!((open.len(), apply.phase()), (6, 1));
    open.into_iter().for_each(|set| drop(end(&mut apply, set, Fate::Done)));
    assert!(gives_nothing(&mut apply) && apply.is_done() && others.is_empty());
    let applied = apply.end();
    let counts = Counts {
        acknowledged: 22,
        failed: 0,
    };
    assert_eq!(applied.counts, counts);
    let mut ports = applied.fabric.nodes().iter().flat_map(|node| node.external_ports());
    assert!(ports.all(|(_, port)| port.link.state == PortState::Active));
}

#[test]
fn what_fails_is_accounted_for_and_what_relies_on_it_is_not_sent() {
    // Links in a state; Sets of an attribute end so, of one agent or of all. How many Sets are acknowledged and failed,
    // blocks that are known in the end, and what is told apart from failures.
    let check =
        |state, (of, fate): (AttributeId, Fate), node: Option<u32>, want: (usize, usize, usize), told: &[&str]| {
            let (mut apply, mut open, mut others) = (begun(state), Vec::new(), Vec::new());
            loop {
                send_all(&mut apply, &mut open, &mut others);
                if open.is_empty() {
                    break;
                }
                for (id, mad) in open.drain(..) {
                    let agent = apply.outcome().changes.value().phases[id.phase].ops[id.op].node().0;
                    let is_hit = mad.attribute() == of && node.is_none_or(|node| node == agent);
                    let fate = if is_hit { fate } else { Fate::Done };
                    others.extend(end(&mut apply, (id, mad), fate).iter().map(name));
                }
            }
            assert!(apply.is_done());
            let Applied { counts, installed, .. } = apply.end();
            let known = installed.lfts.iter().filter(|blocks| blocks[0].is_some()).count();
            others.retain(|told| *told != "failed");
            let found = ((counts.acknowledged, counts.failed, known), &*others);
            assert_eq!(found, (want, told), "{state:?} {of:?} {fate:?} {node:?}");
        };
    use PortState::{Active, Init};
    let (lft, port, switch) = (
        AttributeId::LINEAR_FORWARDING,
        AttributeId::PORT_INFO,
        AttributeId::SWITCH_INFO,
    );
    check(Active, (lft, Fate::Done), None, (17, 0, 2), &[]);
    // The next step is no longer proved.
    check(Active, (lft, Fate::NotAnswered), None, (14, 3, 0), &["steps left out"]);
    check(Active, (lft, Fate::Refused), None, (14, 3, 2), &["steps left out"]);
    check(Active, (lft, Fate::LeftOut), None, (14, 3, 2), &["steps left out"]);
    check(
        Active,
        (switch, Fate::NotAnswered),
        Some(1),
        (15, 2, 2),
        &["steps left out"],
    );
    check(Active, (switch, Fate::Refused), Some(1), (16, 1, 2), &[]);
    check(Active, (port, Fate::NotAnswered), Some(0), (16, 1, 2), &[]);
    check(Active, (port, Fate::In(Init)), Some(0), (17, 0, 2), &["sweep"]);
    // No end of a link with a failed Set is activated, and no link of a switch with a failed table.
    check(Init, (port, Fate::NotAnswered), Some(0), (19, 3, 2), &[]);
    check(Init, (port, Fate::LeftOut), Some(0), (19, 3, 2), &[]);
    check(Init, (lft, Fate::NotAnswered), Some(1), (17, 5, 1), &[]);
}
