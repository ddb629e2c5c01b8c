//! Automatic path migration: which end migrates when, and what the other end does.

use selvedge_hca::{
    AttrMask as M, EventType, HcaConfig, PS_PER_US, Path, PathCheck, PathState, Qp, QpAttr, QpState, SendOp, SendWr,
    Transport, VerbsError,
};
use selvedge_types::PortState;

use crate::net::{Net, attributes, connect, path};

const MS: u64 = 1_000 * PS_PER_US;

/// Loads the mirrored path by the ports `port` at both ends, and asks for REARM.
pub fn rearm(net: &mut Net, host: usize, qp: Qp, alternate: Path) -> Result<u64, VerbsError> {
    let attr = QpAttr {
        alternate,
        path_mig_state: PathState::Rearm,
        ..attributes(2, path(1, (1, 1), 0))
    };
    net.modify(host, qp, &attr, M::ALT_PATH.with(M::PATH_MIG_STATE))
}

fn migrate(net: &mut Net, host: usize, qp: Qp) -> Result<u64, VerbsError> {
    let attr = QpAttr {
        path_mig_state: PathState::Migrated,
        ..attributes(2, path(1, (1, 1), 0))
    };
    net.modify(host, qp, &attr, M::PATH_MIG_STATE)
}

fn post(net: &mut Net, host: usize, qp: Qp, wr_id: u64, bytes: u32) {
    let op = SendOp::Send {
        immediate: Some(wr_id as u32),
    };
    let wr = SendWr {
        op,
        ..SendWr::send(wr_id, net.hosts[host].sge(bytes))
    };
    net.send_wr(host, qp, &wr);
}

/// Both ends exchange a message, so that each learns the other's state.
fn exchange(net: &mut Net, qps: [Qp; 2]) {
    for host in [0, 1] {
        post(net, host, qps[host], 1_000, 8);
    }
    net.settle();
}

/// A connection by the first ports, ARMED with the second ones.
fn armed(net: &mut Net, transport: Transport) -> [Qp; 2] {
    let qps = connect(net, transport, |a| (a.retry_cnt, a.primary.timeout) = (2, 10));
    for host in [0, 1] {
        net.post_receives(host, qps[host], 500, 10_000);
        rearm(net, host, qps[host], path(2, (1 - host, 2), 0)).unwrap();
        assert_eq!(net.path_state(host, qps[host]), PathState::Rearm);
    }
    exchange(net, qps);
    assert_eq!(
        [0, 1].map(|host| net.path_state(host, qps[host])),
        [PathState::Armed; 2]
    );
    for host in &mut net.hosts {
        host.done.clear();
        host.events.clear();
    }
    qps
}

fn ports(net: &Net, qps: [Qp; 2]) -> [u8; 2] {
    [0, 1].map(|host| net.port_in_use(host, qps[host]))
}

fn events(net: &Net) -> [Vec<EventType>; 2] {
    [0, 1].map(|host| net.hosts[host].event_kinds())
}

#[test]
fn one_end_in_rearm_is_not_armed() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    for host in [0, 1] {
        net.post_receives(host, qps[host], 50, 10_000);
    }
    rearm(&mut net, 0, qps[0], path(2, (1, 2), 0)).unwrap();
    exchange(&mut net, qps);
    assert_eq!(net.path_state(0, qps[0]), PathState::Rearm);
    assert_eq!(net.path_state(1, qps[1]), PathState::Migrated);
    let refused = migrate(&mut net, 0, qps[0]);
    let want = VerbsError::PathTransition {
        found: PathState::Rearm,
        wanted: PathState::Migrated,
        state: QpState::Rts,
    };
    assert_eq!(refused, Err(want));
    // An idle connection stays in REARM.
    rearm(&mut net, 1, qps[1], path(2, (0, 2), 0)).unwrap();
    net.run(100 * MS);
    assert_eq!(
        [0, 1].map(|host| net.path_state(host, qps[host])),
        [PathState::Rearm; 2]
    );
    exchange(&mut net, qps);
    assert_eq!(
        [0, 1].map(|host| net.path_state(host, qps[host])),
        [PathState::Armed; 2]
    );
    assert_eq!(events(&net), [vec![], vec![]], "ARMED has no event in IBA");
}

#[test]
fn a_request_migrates_both_ends() {
    for transport in [Transport::Rc, Transport::Uc] {
        let mut net = Net::free(1);
        let qps = armed(&mut net, transport);
        for wr_id in 0..20 {
            post(&mut net, 0, qps[0], wr_id, 5_000);
        }
        // Packets are under way by the former path; they and those of the other path overtake each other.
        net.run(2 * PS_PER_US);
        migrate(&mut net, 0, qps[0]).unwrap();
        net.settle();
        assert_eq!(ports(&net, qps), [2, 2], "{transport}");
        assert_eq!(events(&net), [vec![EventType::PathMig], vec![EventType::PathMig]]);
        let got: Vec<u32> = net.hosts[1].done.iter().filter_map(|wc| wc.immediate).collect();
        if transport == Transport::Rc {
            assert_eq!(got, (0..20).collect::<Vec<_>>());
        } else {
            // Packets of both paths arrive interleaved and break each other's messages; the end comes by one path.
            let unique: std::collections::BTreeSet<u32> = got.iter().copied().collect();
            assert_eq!((unique.len(), got.last()), (got.len(), Some(&19)), "{got:?}");
        }
        exchange(&mut net, qps);
        assert_eq!(ports(&net, qps), [2, 2]);
    }
}

#[test]
fn retries_that_are_used_up_migrate_and_are_counted_anew() {
    let mut net = Net::free(1);
    let qps = armed(&mut net, Transport::Rc);
    net.black_holes.push(((0, 1), (1, 1)));
    let begin = net.now;
    for wr_id in 0..20 {
        post(&mut net, 0, qps[0], wr_id, 5_000);
    }
    // Three times 4.2 ms, then the other path.
    net.run(12 * MS);
    assert_eq!(net.hosts[0].done, []);
    net.run(MS);
    assert_eq!(net.hosts[0].done.len(), 20, "{}", net.now - begin);
    net.settle();
    assert!(
        net.hosts[0]
            .done
            .iter()
            .all(|wc| wc.status == selvedge_hca::WcStatus::Success)
    );
    let got: Vec<u32> = net.hosts[1].done.iter().filter_map(|wc| wc.immediate).collect();
    assert_eq!(got, (0..20).collect::<Vec<_>>());
    assert_eq!(ports(&net, qps), [2, 2]);
    assert_eq!(events(&net), [vec![EventType::PathMig], vec![EventType::PathMig]]);
    assert_eq!(net.hosts[0].hca.qp_counts(qps[0]).unwrap().migrations, 1);
}

#[test]
fn a_port_that_goes_down_migrates_at_once_or_after_all_retries() {
    let run = |at_once: bool| {
        let change = move |config: &mut HcaConfig| config.migrate_on_port_down = at_once;
        let mut net = Net::new(1, 2, 2, change);
        let qps = armed(&mut net, Transport::Rc);
        let begin = net.now;
        net.set_port(0, 1, PortState::Down);
        post(&mut net, 0, qps[0], 0, 100);
        while net.hosts[0].done.is_empty() && net.now < begin + 100 * MS {
            net.run(PS_PER_US);
        }
        let end = net.now - begin;
        net.settle();
        assert_eq!(ports(&net, qps), [2, 2]);
        assert_eq!(net.hosts[0].event_kinds(), [EventType::PortErr, EventType::PathMig]);
        end
    };
    assert!(run(true) < 20 * PS_PER_US);
    assert!((12 * MS..14 * MS).contains(&run(false)));
}

#[test]
fn the_end_without_the_fault_follows() {
    // The acknowledgements are lost: the requester has to migrate, and the responder answers by the other path.
    let mut net = Net::free(1);
    let qps = armed(&mut net, Transport::Rc);
    net.black_holes.push(((1, 1), (0, 1)));
    for wr_id in 0..3 {
        post(&mut net, 0, qps[0], wr_id, 5_000);
    }
    net.settle();
    assert_eq!(
        net.hosts[0].statuses(),
        [(0, "SUCCESS"), (1, "SUCCESS"), (2, "SUCCESS")]
    );
    let got: Vec<u32> = net.hosts[1].done.iter().filter_map(|wc| wc.immediate).collect();
    assert_eq!(got, [0, 1, 2], "duplicates are not received again");
    assert_eq!(ports(&net, qps), [2, 2]);
}

#[test]
fn a_dead_alternate_path_ends_in_an_error() {
    // Dead on the way: the adapter cannot know it.
    let mut net = Net::free(1);
    let qps = armed(&mut net, Transport::Rc);
    net.black_holes.extend([((0, 1), (1, 1)), ((0, 2), (1, 2))]);
    post(&mut net, 0, qps[0], 7, 100);
    net.settle();
    assert_eq!(
        net.hosts[0].statuses(),
        [(7, "RETRY_EXC_ERR")]
            .into_iter()
            .chain(flushed(499))
            .collect::<Vec<_>>()
    );
    assert_eq!(net.hosts[0].event_kinds(), [EventType::PathMig]);
    // Dead at the port: PATH_MIG_ERR, and the requests fail.
    let mut net = Net::free(1);
    let qps = armed(&mut net, Transport::Rc);
    net.set_port(0, 2, PortState::Down);
    net.black_holes.push(((0, 1), (1, 1)));
    post(&mut net, 0, qps[0], 7, 100);
    net.settle();
    assert_eq!(net.hosts[0].statuses()[0], (7, "RETRY_EXC_ERR"));
    assert_eq!(net.hosts[0].event_kinds(), [EventType::PortErr, EventType::PathMigErr]);
    assert_eq!(net.state(0, qps[0]), QpState::Err);
}

/// Receives that were left, after the one that the first exchange has taken.
fn flushed(count: u64) -> impl Iterator<Item = (u64, &'static str)> {
    (500 - count..500).map(|wr_id| (wr_id, "WR_FLUSH_ERR"))
}

#[test]
fn a_request_to_migrate_to_a_dead_port_is_reported_and_the_connection_goes_on() {
    let mut net = Net::free(1);
    let qps = armed(&mut net, Transport::Rc);
    net.set_port(0, 2, PortState::Down);
    migrate(&mut net, 0, qps[0]).unwrap();
    exchange(&mut net, qps);
    assert_eq!(ports(&net, qps), [1, 1]);
    assert_eq!(net.path_state(0, qps[0]), PathState::Armed);
    assert_eq!(net.hosts[0].event_kinds(), [EventType::PortErr, EventType::PathMigErr]);
    assert_eq!(net.state(0, qps[0]), QpState::Rts);
}

#[test]
fn an_end_that_expects_another_alternate_path_refuses() {
    let mut net = Net::free(1);
    let qps = armed(&mut net, Transport::Rc);
    // The second end loads a path that the first one does not use.
    rearm(&mut net, 1, qps[1], path(2, (0, 1), 0)).unwrap();
    exchange(&mut net, qps);
    assert_eq!(net.path_state(1, qps[1]), PathState::Armed);
    migrate(&mut net, 0, qps[0]).unwrap();
    post(&mut net, 0, qps[0], 7, 100);
    net.settle();
    assert_eq!(
        net.hosts[1].event_kinds(),
        [EventType::PathMigErr],
        "once, for all repeats"
    );
    assert_eq!(net.state(0, qps[0]), QpState::Err);
    assert!(net.hosts[0].statuses().contains(&(7, "RETRY_EXC_ERR")));
}

#[test]
fn a_connection_migrates_back_and_forth_when_it_is_rearmed() {
    let mut net = Net::free(1);
    let qps = armed(&mut net, Transport::Rc);
    let mut number = 0;
    for round in 0..6_u8 {
        let (from, to) = (1 + round % 2, 2 - round % 2);
        assert_eq!(ports(&net, qps), [from; 2]);
        net.black_holes = vec![((0, from), (1, from)), ((1, from), (0, from))];
        for _ in 0..5 {
            post(
                &mut net,
                usize::from(round) % 2,
                qps[usize::from(round) % 2],
                number,
                3_000,
            );
            number += 1;
        }
        net.settle();
        assert_eq!(ports(&net, qps), [to; 2], "round {round}");
        assert_eq!(
            rearm(&mut net, 0, qps[0], path(to, (1, to), 0)),
            Err(VerbsError::NoAlternate)
        );
        for host in [0, 1] {
            rearm(&mut net, host, qps[host], path(from, (1 - host, from), 0)).unwrap();
        }
        net.black_holes.clear();
        exchange(&mut net, qps);
        assert_eq!(
            [0, 1].map(|host| net.path_state(host, qps[host])),
            [PathState::Armed; 2]
        );
    }
    assert_eq!(
        [0, 1].map(|host| net.hosts[host].hca.qp_counts(qps[host]).unwrap().migrations),
        [6; 2]
    );
    let failed = net
        .hosts
        .iter()
        .flat_map(|host| &host.done)
        .find(|wc| wc.status != selvedge_hca::WcStatus::Success);
    assert_eq!(failed, None);
}

#[test]
fn the_alternate_path_may_be_another_lid_of_the_same_port() {
    for check in [PathCheck::Strict, PathCheck::Port] {
        let mut net = Net::new(1, 2, 1, |config| config.path_check = check);
        let qps = connect(&mut net, Transport::Rc, |_| {});
        for host in [0, 1] {
            net.post_receives(host, qps[host], 50, 10_000);
            rearm(&mut net, host, qps[host], path(1, (1 - host, 1), 1)).unwrap();
        }
        exchange(&mut net, qps);
        migrate(&mut net, 1, qps[1]).unwrap();
        exchange(&mut net, qps);
        let lids = [0, 1].map(|host| net.hosts[host].hca.query_qp(qps[host]).unwrap().primary.ah.dlid.0 & 1);
        assert_eq!(lids, [1, 1], "{check:?}");
    }
}

#[test]
fn the_alternate_path_can_be_loaded_in_each_step() {
    let alternate = |host: usize| path(2, (1 - host, 2), 0);
    for step in [QpState::Rtr, QpState::Rts] {
        let mut net = Net::free(1);
        let qps = [0, 1].map(|host| net.hosts[host].create_qp(Transport::Rc, None));
        for host in [0, 1] {
            let number = net.hosts[1 - host].hca.qp_num(qps[1 - host]).unwrap();
            let attr = QpAttr {
                alternate: alternate(host),
                path_mig_state: PathState::Rearm,
                ..attributes(number, path(1, (1 - host, 1), 0))
            };
            for (state, mask) in crate::net::steps(Transport::Rc) {
                let mut mask = mask;
                if state == step {
                    mask = mask.with(M::ALT_PATH);
                }
                if state == QpState::Rts {
                    mask = mask.with(M::PATH_MIG_STATE);
                }
                net.modify(host, qps[host], &QpAttr { state, ..attr }, mask).unwrap();
            }
            net.post_receives(host, qps[host], 5, 64);
        }
        exchange(&mut net, qps);
        assert_eq!(
            [0, 1].map(|host| net.path_state(host, qps[host])),
            [PathState::Armed; 2],
            "{step}"
        );
    }
}

#[test]
fn arming_and_migrating_take_time_and_hold_up_the_queue_pair() {
    let mut net = Net::new(1, 2, 2, |config| {
        config.armed_events = true;
        config.costs.migrate_ps = 50 * PS_PER_US;
    });
    let qps = connect(&mut net, Transport::Rc, |_| {});
    let mut done = net.now;
    for host in [0, 1] {
        net.post_receives(host, qps[host], 50, 10_000);
        done = done.max(rearm(&mut net, host, qps[host], path(2, (1 - host, 2), 0)).unwrap());
    }
    assert!(
        done >= 13 * PS_PER_US,
        "a command with an alternate path and a path state: {done}"
    );
    exchange(&mut net, qps);
    assert_eq!(events(&net), [vec![EventType::PathArmed], vec![EventType::PathArmed]]);
    let begin = net.now;
    net.hosts[0].done.clear();
    migrate(&mut net, 0, qps[0]).unwrap();
    post(&mut net, 0, qps[0], 1, 8);
    while net.hosts[0].done.is_empty() && net.now < begin + MS {
        net.run(PS_PER_US);
    }
    // 11 µs for the command, then 50 µs at each end.
    assert!(
        (110 * PS_PER_US..130 * PS_PER_US).contains(&(net.now - begin)),
        "{}",
        net.now - begin
    );
}
