//! Which hosts are asked to register again.

use super::*;

#[test]
fn hosts_are_asked_to_register_again_once() {
    let check = |mode: Mode, understands: bool, want: (u32, bool)| {
        let mut bench = Bench::up(Mode::Manage);
        let mask = match understands {
            true => CapabilityMask::CLIENT_REREGISTRATION,
            false => CapabilityMask::default(),
        };
        bench.hosts.iter_mut().for_each(|host| host.info.capabilities = mask);
        bench.sm.config.mode = mode;
        bench.hand(Input::Command(Command::Reregister));
        let before = bench.sets;
        bench.hand(Input::Command(Command::Sweep));
        bench.compute();
        let asked = bench.hosts.map(|host| host.info.client_reregister);
        assert_eq!((bench.sets - before, asked), (want.0, [want.1; 2]), "{mode:?}");
        // Once is enough.
        let before = bench.sets;
        bench.hand(Input::Command(Command::Sweep));
        bench.compute();
        assert_eq!(bench.sets, before);
    };
    check(Mode::Manage, true, (2, true));
    check(Mode::Manage, false, (0, false));
    check(Mode::DryRun, true, (0, false));
}

/// Another manager became master after the sweep that the plan was made for: hosts may have registered with it before
/// the plan's Sets named this manager again. If a later election finds no other manager, no host has done so, and none
/// is asked.
#[test]
fn hosts_written_to_beside_another_master_are_asked() {
    let check = |has_looked: bool, want: bool| {
        let mut bench = Bench::new(Mode::Manage);
        let understands = CapabilityMask::CLIENT_REREGISTRATION;
        bench
            .hosts
            .iter_mut()
            .for_each(|host| host.info.capabilities = understands);
        bench.hand(Input::Start);
        bench.compute();
        assert!(bench.hosts.iter().all(|host| !host.info.client_reregister));
        if has_looked {
            bench.hand(Input::Command(Command::Sweep));
            bench.compute();
        }
        for sign in [Foreign::OwnGuid, Foreign::Applied] {
            bench
                .sm
                .run_election(crate::election::In::Foreign(sign), &mut Vec::new());
        }
        bench.hand(Input::Command(Command::Sweep));
        bench.compute();
        assert_eq!(bench.hosts[1].info.client_reregister, want, "{has_looked}");
    };
    check(false, true);
    check(true, false);
}

/// A later process finds everything unchanged: hosts that this manager set are not asked, whether its state names the
/// hosts or not. If the state names other hosts, a host that is not among them was set by another manager that had the
/// same LID.
#[test]
fn a_later_life_asks_only_hosts_of_others() {
    let check = |remember: fn(&mut PersistentState), want: [bool; 2]| {
        let first = Bench::up(Mode::Manage);
        let mut state = first.stored.last().unwrap().0.clone();
        remember(&mut state);
        let mut bench = Bench::with_state(Mode::Manage, state);
        bench.hosts = first.hosts;
        for host in &mut bench.hosts {
            host.info.capabilities = CapabilityMask::CLIENT_REREGISTRATION;
        }
        bench.hand(Input::Start);
        bench.compute();
        assert_eq!(bench.hosts.map(|host| host.info.client_reregister), want);
    };
    check(|_| {}, [false; 2]);
    check(|state| *state = PersistentState::default(), [false; 2]);
    check(|state| _ = state.lids.remove(&Guid(0x21)), [false, true]);
}
