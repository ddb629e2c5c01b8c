//! Which hosts a plan asks to register again, and when such a request is dropped.

use selvedge_plan::{Installed, Policy};
use selvedge_planner::{Basis, Job, JobId, PlanFabric, Task};
use selvedge_sim::Par;
use selvedge_types::Lid;
use selvedge_wire::CapabilityMask;

use super::*;
use crate::made::{FAR, SECOND, guid, inventory, place, row};

/// Returns the fabric of [`row`] (host, two switches, host), with a far host that supports re-registration.
fn fabric() -> Inventory {
    let mut found = row();
    let port = found[FAR].ports[1].info.as_mut().unwrap();
    port.capabilities = CapabilityMask::CLIENT_REREGISTRATION;
    inventory(found)
}

fn far(inventory: &Inventory) -> Guid {
    inventory.fabric.port(place(inventory, FAR, 1)).unwrap().guid
}

/// Returns a plan for the fabric of [`row`] that asks these hosts to register again, and gives each port a LID.
fn planned(inventory: &Inventory, asks: Asks) -> Arc<Outcome> {
    let installed = Arc::new(Installed::unknown(inventory.fabric.switches().len()));
    let basis = Basis::new(&Arc::new(inventory.clone()), &installed, Arc::new(Policy::default()));
    let mut task = PlanFabric::new(basis);
    task.asks = asks;
    let mut job = Job {
        id: JobId::default(),
        task: Task::Plan(Box::new(task)),
    };
    Arc::clone(job.run(Par::Sequential).outcome().unwrap())
}

const fn ctx(role: Role) -> Ctx<'static> {
    Ctx {
        mode: Mode::Manage,
        role,
        in_force: None,
    }
}

/// Makes a plan without one in force; returns how it asks hosts.
fn plan(registration: &mut Registration, inventory: &Inventory, strangers: &[PortRef]) -> Asks {
    let input = In::Planning {
        inventory,
        generation: Generation(1),
        strangers: strangers.iter().copied().collect(),
    };
    registration.handle(&ctx(Role::Master), input);
    registration.asks(Mode::Manage)
}

/// Lets a plan be applied without a failed Set.
fn apply(registration: &mut Registration, outcome: &Outcome, known: &[Guid]) {
    let input = In::Applied {
        fabric: &outcome.inventory.fabric,
        outcome,
        known: known.to_vec(),
    };
    registration.handle(&ctx(Role::Master), input);
}

#[test]
fn all_hosts_are_asked_once() {
    let inventory = fabric();
    let mut registration = Registration::default();
    registration.handle(&ctx(Role::Master), In::AllLost);
    assert!(matches!(registration.asks(Mode::DryRun), Asks::Nobody));
    assert!(matches!(plan(&mut registration, &inventory, &[]), Asks::All));
    let outcome = planned(&inventory, Asks::All);
    // One host is absent: its registrations are unknown.
    apply(&mut registration, &outcome, &[far(&inventory), Guid(7)]);
    assert!(!registration.asks_all());
    assert_eq!(**registration.unasked(), [Guid(7)].into());
    // Registrations are lost again while the plan is applied.
    registration.handle(&ctx(Role::Master), In::AllLost);
    plan(&mut registration, &inventory, &[]);
    registration.handle(&ctx(Role::Master), In::AllLost);
    apply(&mut registration, &outcome, &[]);
    assert!(registration.asks_all());
    registration.handle(&ctx(Role::Master), In::Known);
    assert!(!registration.asks_all());
}

#[test]
fn lost_hosts_are_asked_until_a_plan_has_them() {
    let inventory = fabric();
    let mut registration = Registration::default();
    registration.handle(&ctx(Role::Standby), In::Lost([Guid(6)].into()));
    registration.handle(&ctx(Role::Standby), In::Lost([Guid(7)].into()));
    registration.handle(&ctx(Role::Master), In::Lost([far(&inventory)].into()));
    let want: BTreeSet<Guid> = [Guid(7), far(&inventory)].into();
    let asks = plan(&mut registration, &inventory, &[]);
    assert!(matches!(&asks, Asks::These(ports) if **ports == want), "{asks:?}");
    let outcome = planned(&inventory, asks);
    apply(&mut registration, &outcome, &[]);
    assert_eq!(**registration.unasked(), [Guid(7)].into());
}

#[test]
fn a_host_that_was_not_there_is_asked() {
    let inventory = fabric();
    let (at, host) = (place(&inventory, FAR, 1), far(&inventory));
    let is_asked = |registration: &mut Registration, strangers: &[PortRef]| {
        plan(registration, &inventory, strangers);
        registration.unasked().contains(&host)
    };
    assert!(!is_asked(&mut Registration::default(), &[]));
    assert!(is_asked(&mut Registration::default(), &[at]));
    // A manager that has stood by knows more, as long as the switch was present.
    let stood_by = |fabric: &Arc<Fabric>| {
        let mut registration = Registration::default();
        registration.handle(&ctx(Role::Standby), In::StoodBy(Arc::clone(fabric)));
        registration
    };
    assert!(!is_asked(&mut stood_by(&inventory.fabric), &[at]));
    assert!(is_asked(&mut stood_by(&Arc::default()), &[]));
    let mut registration = stood_by(&inventory.fabric);
    registration.handle(&ctx(Role::Master), In::OtherMaster);
    assert!(is_asked(&mut registration, &[at]));
    // It became master, and was cut off before a plan was in force: another one may have taken over.
    let mut found = row();
    found[FAR].ports[1].info.as_mut().unwrap().sm_lid = Lid(9);
    let names_another = self::inventory(found);
    let mut registration = stood_by(&names_another.fabric);
    registration.handle(&ctx(Role::Master), In::RoleChanged);
    plan(&mut registration, &names_another, &[]);
    assert!(registration.unasked().is_empty());
    registration.handle(&ctx(Role::Discovering), In::RoleChanged);
    plan(&mut registration, &names_another, &[]);
    assert!(registration.unasked().contains(&host));
}

#[test]
fn a_host_that_is_not_as_the_dropped_plan_had_it_is_asked() {
    let inventory = fabric();
    let outcome = planned(&inventory, Asks::Nobody);
    let lid = outcome.plan.lids.base(place(&inventory, FAR, 1)).unwrap();
    let check = |lid: Lid, sm_lid: Lid, switch: Guid, want: bool| {
        let mut registration = Registration::default();
        let in_force = Some((&*inventory.fabric, &*outcome.plan));
        registration.handle(
            &Ctx {
                in_force,
                ..ctx(Role::Master)
            },
            In::Dropped,
        );
        let mut found = row();
        found[SECOND].info.node_guid = switch;
        let port = found[FAR].ports[1].info.as_mut().unwrap();
        (port.lid, port.sm_lid) = (lid, sm_lid);
        let asks = plan(&mut registration, &self::inventory(found), &[]);
        assert_eq!(matches!(asks, Asks::These(_)), want, "{lid} {sm_lid} {switch}");
    };
    let ours = Lid::default();
    check(lid, ours, guid(SECOND), false);
    check(Lid(lid.0 + 1), ours, guid(SECOND), true);
    check(lid, Lid(99), guid(SECOND), true);
    check(lid, ours, Guid(99), true);
}

#[test]
fn hosts_written_to_beside_another_master_are_asked() {
    let inventory = fabric();
    let outcome = planned(&inventory, Asks::Nobody);
    let check = |role: Role, has_looked: bool, want: bool| {
        let mut registration = Registration::default();
        let input = In::Applying {
            fabric: &inventory.fabric,
            outcome: &outcome,
        };
        registration.handle(&ctx(role), input);
        if has_looked {
            registration.handle(&ctx(role), In::NoOtherMaster);
        }
        registration.handle(&ctx(role), In::OtherMaster);
        assert_eq!(
            registration.unasked().contains(&far(&inventory)),
            want,
            "{role:?} {has_looked}"
        );
    };
    check(Role::Master, false, true);
    check(Role::Master, true, false);
    check(Role::Discovering, false, false);
}
