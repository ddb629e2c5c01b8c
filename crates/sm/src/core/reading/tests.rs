//! Tests the knowledge of tables when a plan is made: which tables are read again, which differ from what was believed,
//! and which no longer count as known.

use selvedge_fabric::SwitchIdx;
use selvedge_plan::{BLOCK_LIDS, Plan};
use selvedge_planner::Job;
use selvedge_planner::held::unread;
use selvedge_sim::Par;
use selvedge_types::{Guid, Lid, LidRange, PortState};
use selvedge_wire::{AttributeId, Bits, DirectedRoute, Mad, Method, PortInfo, SmInfo, SmState};

use super::*;
use crate::commit::InForce;
use crate::election::{self, Ask, Foreign};
use crate::io::PersistentState;
use crate::lid_book::LidBook;
use crate::made::{FAR, FIRST, SECOND, info, inventory, master, place, row};
use crate::readback;

fn of(known: &[usize]) -> Installed {
    let mut installed = Installed::unknown(2);
    for &switch in known {
        installed.learn(SwitchIdx(switch as u32), 0, [1; BLOCK_LIDS]);
    }
    installed
}

/// Returns the row (host, two switches, host) with the link between its switches in this state.
fn row_in(state: PortState) -> Arc<Inventory> {
    let mut found = row();
    found[FIRST].ports[2].info = Some(info(state));
    Arc::new(inventory(found))
}

/// Returns the jobs among these outputs.
fn jobs(out: Vec<Output>) -> Vec<Job> {
    let job = |output| match output {
        Output::Compute(job) => Some(*job),
        _ => None,
    };
    out.into_iter().filter_map(job).collect()
}

/// Returns a plan in force on the fabric of `inventory`. The manager believes that the switches hold its tables.
fn in_force(plan: &Arc<Plan>, inventory: &Arc<Inventory>) -> InForce {
    InForce::made(Plan::clone(plan), Some(Arc::clone(inventory)), of(&[0, 1]))
}

/// Takes the reason of the heavy sweep that is due.
fn take_sweep(sm: &mut Sm) -> Option<SweepReason> {
    let due = sm.sweep().schedule().due();
    sm.tell_sweep(crate::sweep::In::StoodBy);
    due
}

/// Returns a master with a plan in force for the fabric of `row`. The master believes that the switches hold the tables
/// of the plan.
fn planned() -> (Sm, Arc<Inventory>) {
    let (mut sm, inventory) = (master(), row_in(PortState::Active));
    let mut out = Vec::new();
    sm.tables_read(Arc::clone(&inventory), of(&[0, 1]), Time::ZERO, &mut out);
    let result = jobs(out).remove(0).run(Par::Sequential);
    let outcome = result.outcome().unwrap();
    sm.in_force = in_force(&outcome.plan, &inventory);
    (sm, inventory)
}

#[test]
fn a_sweep_reads_what_was_written_under_traffic_and_not_read_since() {
    let check = |is_live: bool, is_overdue: bool, answers: &[(u32, u8)], want: (usize, [u8; 2])| {
        let (mut sm, inventory) = planned();
        let node = inventory.fabric.switches()[SwitchIdx(1)];
        let data = [1; BLOCK_LIDS];
        let ops = vec![selvedge_plan::Op::Lft { node, block: 0, data }];
        let phase = selvedge_plan::Phase {
            label: "",
            wait_before_ns: 0,
            ops,
        };
        let changes = selvedge_plan::ChangeSet {
            phases: vec![phase],
            ..Default::default()
        };
        sm.tell_read_back(readback::In::Writing);
        sm.tell_read_back(readback::In::Written {
            fabric: &inventory.fabric,
            changes: &changes,
            is_live,
        });
        let mut installed = of(&[0, 1]);
        sm.now = Time::from_secs(if is_overdue { 10 } else { 0 });
        sm.doubt_tables(&inventory.fabric, &mut installed);
        let asked = unread(&inventory.fabric, &installed).len();
        for &(switch, entry) in answers {
            installed.learn(SwitchIdx(switch), 0, [entry; BLOCK_LIDS]);
        }
        sm.now = Time::from_secs(10);
        sm.tell_reading(In::Begin(Arc::clone(&inventory), installed));
        let believed = sm.believed_blocks();
        let Some(Effect::Read(_, mut installed)) = sm.tell_reading(In::AllAsked(believed)) else {
            panic!("a table is not known")
        };
        let held = [0, 1].map(|switch| installed.block(SwitchIdx(switch), 0).unwrap()[0]);
        assert_eq!((asked, held), want, "{is_live} {answers:?}");
        assert_eq!(sm.is_read_back_overdue(), !is_overdue);
        // Once it has been read it is known; else the next sweep asks again.
        sm.now = Time::from_secs(if is_overdue { 20 } else { 0 });
        sm.doubt_tables(&inventory.fabric, &mut installed);
        let again = unread(&inventory.fabric, &installed).len();
        assert_eq!(again, if answers.is_empty() { asked } else { 0 });
    };
    check(false, false, &[], (0, [1, 1]));
    check(true, false, &[(1, 7)], (1, [1, 7]));
    check(true, false, &[], (1, [1, 1]));
    // The sweep takes the place of a light sweep.
    check(false, true, &[(1, 7)], (1, [1, 7]));
    check(true, true, &[(1, 7)], (1, [1, 7]));
    check(false, true, &[], (1, [1, 1]));
}

/// Returns the inventory of a sweep if nothing has changed since the plan: LinearFDBTop of each switch is that of the
/// plan.
fn as_planned(sm: &Sm, inventory: &Inventory) -> Arc<Inventory> {
    let mut found = inventory.clone();
    let top = sm.in_force.plan().unwrap().tables.top().0;
    for &node in inventory.fabric.switches().iter() {
        let settings = inventory.fabric.node(node).switch_settings;
        let settings = selvedge_fabric::SwitchSettings {
            linear_top: top,
            ..settings
        };
        Arc::make_mut(&mut found.fabric).set_switch(node, settings);
    }
    Arc::new(found)
}

/// A second node shows the GUID of the manager's node. It may run a manager, so all tables are read again.
#[test]
fn after_a_double_of_its_own_all_tables_are_read() {
    // GUIDs seen twice in this sweep, and in the one before.
    let check = |now: Option<u64>, before: Option<u64>, want: usize| {
        let (mut sm, inventory) = planned();
        let found = as_planned(&sm, &inventory);
        for guid in [before, now] {
            sm.repeats_sweep(crate::sweep::In::Twins(guid.into_iter().map(Guid).collect()));
        }
        sm.note_other_masters(&found, &mut Vec::new());
        sm.begin_reading(found);
        assert!(matches!(sm.stage, Stage::Reading), "{:?}", sm.stage);
        assert_eq!(sm.reading.progress().1, want, "{now:?} {before:?}");
    };
    check(None, None, 0);
    check(Some(2), Some(2), 0);
    check(Some(10), None, 2);
    check(None, Some(10), 2);
}

#[test]
fn after_another_master_all_tables_are_read() {
    // The state of the other manager, and whether its link was up in the last sweep of this one.
    let check = |state: SmState, was_in_sight: bool, want: usize| {
        let (mut sm, inventory) = planned();
        if !was_in_sight {
            let mut before = row();
            before[FAR].ports[1].info = Some(PortInfo::default());
            let plan = Arc::clone(sm.in_force.plan().unwrap());
            sm.in_force = in_force(&plan, &Arc::new(crate::made::inventory(before)));
        }
        let worse = SmInfo {
            guid: Guid(0x99),
            sm_key: 1,
            act_count: 1,
            priority: Bits::saturating(0),
            state,
        };
        let mut answer = Mad::directed(Method::GetResp, AttributeId::SM_INFO, 0, &DirectedRoute::LOCAL);
        answer.write(&worse);
        let found = as_planned(&sm, &inventory);
        sm.inventory = Some(Arc::clone(&found));
        let ask = Ask::Election(place(&inventory, FAR, 1));
        for input in [
            election::In::Swept,
            election::In::Answered(ask, Some(&answer)),
            election::In::AllAnswered,
        ] {
            sm.run_election(input, &mut Vec::new());
        }
        assert!(matches!(sm.stage, Stage::Reading), "{:?}", sm.stage);
        assert_eq!(sm.reading.progress().1, want, "{state:?} {was_in_sight}");
        // Packets may be in flight by the tables that it wrote last.
        assert_eq!(sm.election().has_met_another(), want > 0);
        sm.run_election(election::In::Foreign(Foreign::TablesRead), &mut Vec::new());
        assert_eq!(sm.drain.fog(Time::ZERO).is_zero(), want == 0);
    };
    check(SmState::Standby, true, 0);
    check(SmState::Master, true, 2);
    // It may have been master where it was until a moment ago.
    check(SmState::Standby, false, 2);
}

#[test]
fn a_lid_by_which_a_port_is_not_known_is_read_twice() {
    // The LIDs that the far host holds, and the number of further sweeps.
    let check = |held: u16, want: usize| {
        let (mut sm, _) = planned();
        let mut found = row();
        found[FAR].ports[1].info.as_mut().unwrap().lid = Lid(held);
        let found = Arc::new(inventory(found));
        let guid = found.fabric.port(place(&found, FAR, 1)).unwrap().guid;
        sm.lids = LidBook::stored(&PersistentState {
            lids: [(guid, LidRange::single(Lid(4)))].into(),
            ..PersistentState::default()
        });
        let mut sweeps = 0;
        while sweeps < 3 && !matches!(sm.stage, Stage::Reading) {
            sm.begin_reading(Arc::clone(&found));
            sweeps += usize::from(take_sweep(&mut sm).is_some());
        }
        assert_eq!(sweeps, want, "{held}");
    };
    check(4, 0);
    check(4100, 1);
}

/// Returns the fabric of `row`, with the ports of its second switch in `state`. LinearFDBTop of both switches is that
/// of the plan in force.
fn second_in(state: PortState, sm: &Sm) -> Inventory {
    let mut found = row();
    let top = sm.in_force.plan().unwrap().tables.top();
    for node in [FIRST, SECOND] {
        found[node].switch.as_mut().unwrap().linear_top = top;
    }
    for num in [1, 2] {
        found[SECOND].ports[num].info = Some(info(state));
    }
    inventory(found)
}

#[test]
fn tables_of_a_switch_that_may_have_been_off_are_not_carried_over() {
    let check = |state: PortState, want: [bool; 2]| {
        let (sm, _) = planned();
        let found = second_in(state, &sm);
        let carried = sm.carried_tables(&found);
        let known = [FIRST, SECOND].map(|node| {
            let node = found.fabric.find(crate::made::guid(node)).unwrap();
            carried.block(found.fabric.switch_index(node).unwrap(), 0).is_some()
        });
        assert_eq!(known, want, "{state:?}");
    };
    check(PortState::Active, [true, true]);
    check(PortState::Init, [true, false]);
}

#[test]
fn a_switch_that_may_have_been_off_before_its_links_were_activated_is_read_back() {
    // The states of its ports as the sweep saw them, and after the plan.
    let check = |seen: PortState, left: PortState, want: bool| {
        let (mut sm, _) = planned();
        let (seen, left) = (second_in(seen, &sm).fabric, second_in(left, &sm).fabric);
        sm.tell_read_back(readback::In::Writing);
        sm.read_who_may_have_been_off(&seen, &left, &of(&[0, 1]));
        sm.tell_read_back(readback::In::Written {
            fabric: &left,
            changes: &selvedge_plan::ChangeSet::default(),
            is_live: true,
        });
        sm.now = Time::from_secs(10);
        assert_eq!(sm.is_read_back_overdue(), want);
    };
    check(PortState::Active, PortState::Active, false);
    check(PortState::Init, PortState::Active, true);
    // No packet uses its tables.
    check(PortState::Init, PortState::Init, false);
}
