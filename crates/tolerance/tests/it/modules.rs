//! The three modules, each alone and in any order.

use selvedge_hca::{AttrMask as M, Costs, PS_PER_US, PathState, QpAttr, QpState, VerbsError};
use selvedge_sim::{Rng, Seed};
use selvedge_tolerance::{Module, Of, Report, Status, ToleranceError, path};

use crate::duo::{Duo, MS};

/// Calls one module for everything on a host.
fn call(duo: &mut Duo, host: usize, module: Module, of: Of<'_>) -> Result<(), ToleranceError> {
    let other = |port: u8| path(1 - host, 3 - port, 8);
    duo.with(host, |process, hca, now| {
        let ports: std::collections::BTreeMap<_, _> = process
            .entries()
            .map(|(qp, _)| (qp, hca.query_qp(qp).unwrap().primary.port.clamp(1, 2)))
            .collect();
        match module {
            Module::Specify => process.specify(now, hca, of, |qp| Some(other(ports[&qp]))),
            Module::Load => process.load(now, hca, of),
            Module::SpecifyAndLoad => process.specify_and_load(now, hca, of, |qp| Some(other(ports[&qp]))),
            Module::Migrate => process.migrate(now, hca, of),
        }
    })
}

fn refusals(duo: &mut Duo, host: usize) -> Vec<ToleranceError> {
    let refused = |report| match report {
        Report::Refused(_, _, _, error) => Some(error),
        Report::Event(..) => None,
    };
    duo.reports(host).into_iter().filter_map(refused).collect()
}

fn armed(ports: u8, qps: usize, costs: Costs) -> Duo {
    let mut duo = Duo::connected(ports, qps, costs);
    for host in [0, 1] {
        call(&mut duo, host, Module::SpecifyAndLoad, Of::All).unwrap();
    }
    duo.run(100 * MS);
    duo.exchange();
    for host in [0, 1] {
        assert_eq!(duo.processes[host].count(Status::Armed), qps);
    }
    duo
}

#[test]
fn each_module_alone_in_each_state() {
    use Module::{Load, Migrate, Specify, SpecifyAndLoad};
    for module in [Specify, Load, SpecifyAndLoad, Migrate] {
        for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Err] {
            let mut duo = Duo::reset(2, 1, Costs::FREE);
            let steps = match state {
                QpState::Err | QpState::Init => 1,
                QpState::Rtr => 2,
                QpState::Rts => 3,
                _ => 0,
            };
            for step in [QpState::Init, QpState::Rtr, QpState::Rts].into_iter().take(steps) {
                for host in [0, 1] {
                    duo.step(0, host, step);
                }
            }
            let qp = duo.qps[0][0];
            if state == QpState::Err {
                let attr = QpAttr {
                    state,
                    ..QpAttr::default()
                };
                duo.with(0, |_, hca, _| hca.modify_qp(0, qp, &attr, M::STATE).unwrap());
            }
            call(&mut duo, 0, module, Of::Qps(&[qp])).unwrap();
            duo.run(MS);
            let want = match (module, state) {
                (Migrate, _) => vec![ToleranceError::NotArmed],
                (_, QpState::Reset | QpState::Err) => vec![ToleranceError::NoPaths { state }],
                // Nothing was specified.
                (Load, QpState::Rts) => vec![ToleranceError::Verbs(VerbsError::NoAlternate)],
                _ => vec![],
            };
            let found = refusals(&mut duo, 0);
            let is_state_error = matches!(found.as_slice(), [ToleranceError::NoPaths { .. }]);
            let fits = found == want || (module == Migrate && is_state_error);
            assert!(fits, "{module:?} in {state}: {found:?}");
            duo.invariant_shared_state(&format!("{module:?} in {state}"));
        }
    }
}

#[test]
fn what_is_asked_for_before_rts_goes_out_with_rts() {
    for first in [QpState::Init, QpState::Rtr] {
        let mut duo = Duo::reset(2, 1, Costs::default());
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            for host in [0, 1] {
                duo.step(0, host, state);
                if state == first {
                    call(&mut duo, host, Module::Specify, Of::All).unwrap();
                    call(&mut duo, host, Module::Load, Of::Peers(&[0])).unwrap();
                    duo.run(MS);
                    let entry = duo.processes[host].entry(duo.qps[0][host]).unwrap();
                    assert_eq!(entry.status, Status::Migrated, "nothing is loaded before RTS");
                }
            }
        }
        for host in [0, 1] {
            duo.post_receives(0, host, 4);
        }
        assert_eq!(duo.path_state(0, 0), PathState::Rearm);
        duo.exchange();
        assert_eq!(
            [0, 1].map(|host| duo.processes[host].count(Status::Armed)),
            [1, 1],
            "{first}"
        );
        duo.invariant_shared_state("after RTS");
    }
}

#[test]
fn specification_loading_and_migration_one_after_the_other() {
    let mut duo = Duo::connected(2, 4, Costs::default());
    for module in [Module::Specify, Module::Load] {
        for host in [0, 1] {
            call(&mut duo, host, module, Of::All).unwrap();
        }
        duo.run(MS);
    }
    for host in [0, 1] {
        assert_eq!(duo.processes[host].count(Status::Loading), 4);
    }
    duo.exchange();
    let armed_at = duo.processes[0].entry(duo.qps[0][0]).unwrap().since;
    assert!(armed_at > MS && armed_at < duo.now());
    // One peer's queue pairs, at one end: the other end follows with the next packet.
    call(&mut duo, 0, Module::Migrate, Of::Peers(&[1])).unwrap();
    duo.run(MS);
    duo.exchange();
    let ports: Vec<[u8; 2]> = (0..4)
        .map(|pair| [0, 1].map(|host| duo.port_in_use(pair, host)))
        .collect();
    assert_eq!(ports, [[1, 1], [1, 1], [2, 2], [2, 2]]);
    for host in [0, 1] {
        assert_eq!(duo.processes[host].count(Status::Migrated), 2);
        let entry = duo.processes[host].entry(duo.qps[2][host]).unwrap();
        assert_eq!((entry.armed, entry.migrations, entry.alternate), (1, 1, None));
    }
    duo.invariant_shared_state("after a migration");
}

#[test]
fn the_main_thread_makes_one_call_after_the_other() {
    let costs = Costs::default();
    let mut duo = Duo::connected(2, 100, costs);
    let begin = duo.now();
    call(&mut duo, 0, Module::SpecifyAndLoad, Of::All).unwrap();
    let one = costs.modify(M::ALT_PATH.with(M::PATH_MIG_STATE));
    assert_eq!(duo.processes[0].main_free_at(), begin + one);
    assert_eq!(duo.processes[0].count(Status::Loading), 1);
    duo.run(10 * one);
    assert_eq!(duo.processes[0].count(Status::Loading), 11);
    duo.run(MS + 100 * one);
    assert_eq!(duo.processes[0].main_free_at(), begin + 100 * one);
    assert_eq!(duo.processes[0].count(Status::Loading), 100);
}

#[test]
fn a_list_with_a_stranger_is_refused_as_a_whole() {
    let mut duo = Duo::connected(2, 4, Costs::FREE);
    let found = call(&mut duo, 0, Module::SpecifyAndLoad, Of::Peers(&[0, 9]));
    assert_eq!(found, Err(ToleranceError::UnknownPeer { peer: 9 }));
    let of = duo.objects[0];
    let stranger = duo.with(0, |_, hca, _| {
        of.create_qp(hca, selvedge_hca::Transport::Rc, 4).unwrap()
    });
    let known = duo.qps[0][0];
    let found = call(&mut duo, 0, Module::Load, Of::Qps(&[known, stranger]));
    assert_eq!(found, Err(ToleranceError::UnknownQp));
    duo.run(MS);
    assert_eq!(duo.processes[0].count(Status::Migrated), 4);
    let found = duo.processes[0].add(0, 1, stranger, selvedge_hca::Transport::Ud);
    assert_eq!(found, Err(ToleranceError::NotConnected));
}

#[test]
fn the_thread_sleeps_until_events_and_stamps_what_it_writes() {
    let costs = Costs::default();
    let mut duo = armed(2, 8, costs);
    let before = duo.processes[0].thread_counts();
    duo.run(1_000 * MS);
    assert_eq!(
        duo.processes[0].thread_counts(),
        before,
        "nothing happens, nothing is woken"
    );
    let pulled = duo.now();
    duo.rails.set_cable(0, 1, false).unwrap();
    duo.run(MS);
    // PORT_ERR and eight PATH_MIG.
    let after = duo.processes[0].thread_counts();
    assert_eq!(after.events - before.events, 9);
    // The thread is awake when the later ones come: one interrupt serves them.
    let woken = after.wakeups - before.wakeups;
    assert!((1..9).contains(&woken), "{woken}");
    assert_eq!(
        after.busy_ps - before.busy_ps,
        9 * PS_PER_US + woken * costs.interrupt_ps
    );
    let times: Vec<_> = duo.processes[0]
        .entries()
        .map(|(_, entry)| entry.since - pulled)
        .collect();
    assert!(times.is_sorted() && times[0] > costs.interrupt_ps, "{times:?}");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= PS_PER_US), "{times:?}");
    duo.invariant_shared_state("after the cable was pulled");
}

#[test]
fn a_dead_alternate_is_reported_and_needs_another_path() {
    let mut duo = armed(3, 1, Costs::default());
    duo.rails.set_cable(0, 2, false).unwrap();
    call(&mut duo, 0, Module::Migrate, Of::All).unwrap();
    assert_eq!(duo.processes[0].count(Status::Migrating), 1);
    duo.run(MS);
    let entry = *duo.processes[0].entry(duo.qps[0][0]).unwrap();
    assert_eq!((entry.status, entry.refusals, entry.dead), (Status::Armed, 1, true));
    duo.reports(0);
    call(&mut duo, 0, Module::Migrate, Of::All).unwrap();
    assert_eq!(refusals(&mut duo, 0), [ToleranceError::AlternateDead]);
    duo.load(3);
    duo.run(MS);
    duo.exchange();
    call(&mut duo, 1, Module::Migrate, Of::All).unwrap();
    duo.exchange();
    assert_eq!([0, 1].map(|host| duo.port_in_use(0, host)), [3, 3]);
    duo.invariant_shared_state("on the third port");
}

/// Any modules in any order at any time, with cables pulled and traffic: when nothing happens any more, the shared
/// state is that of the HCAs.
#[test]
fn the_shared_state_never_lies_at_rest() {
    let mut seen = [0_u32; 3];
    for seed in 0..150 {
        let mut rng = Seed(seed).child("modules").rng();
        let costs = if seed % 3 == 0 { Costs::FREE } else { Costs::default() };
        let mut duo = Duo::connected(2, 3, costs);
        let mut cut = [false; 2];
        for _ in 0..30 {
            random_step(&mut duo, &mut rng, &mut cut);
            let pause = [0, 3, 40, 900][rng.below(4) as usize] * PS_PER_US;
            duo.run(pause);
        }
        duo.run(1_000 * MS);
        duo.invariant_shared_state(&format!("seed {seed}"));
        for (_, entry) in duo.processes[0].entries() {
            seen[0] += entry.armed;
            seen[1] += entry.migrations;
            seen[2] += entry.refusals;
        }
    }
    assert!(
        seen.iter().all(|count| *count > 10),
        "armed, migrated, refused: {seen:?}"
    );
}

fn random_step(duo: &mut Duo, rng: &mut Rng, cut: &mut [bool; 2]) {
    let host = rng.below(2) as usize;
    let pair = rng.below(3) as usize;
    match rng.below(12) {
        0..=4 => {
            let module = [Module::Specify, Module::Load, Module::SpecifyAndLoad, Module::Migrate];
            let module = module[rng.below(4) as usize];
            let peers = [rng.below(2) as u32];
            let of = if rng.below(2) == 0 { Of::All } else { Of::Peers(&peers) };
            call(duo, host, module, of).unwrap();
        }
        5 | 6 => {
            for host in [0, 1] {
                call(duo, host, Module::SpecifyAndLoad, Of::All).unwrap();
            }
        }
        7 => {
            let port = rng.below(2) as usize;
            // One cable always stays, so that queue pairs live on unless their alternate path is not loaded.
            if cut[port] || !cut[1 - port] {
                cut[port] = !cut[port];
                duo.rails.set_cable(0, port as u8 + 1, !cut[port]).unwrap();
            }
        }
        _ => {
            // The queue may be full, or the queue pair in error: then nothing is sent.
            let _ = duo.send(pair, host);
        }
    }
}
