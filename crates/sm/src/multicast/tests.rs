//! When blocks are read and trees planned, and what follows from results and answers.

use selvedge_plan::multicast::{MFT_LIDS, Member};
use selvedge_planner::{Job, JobResult, PlanEvent, Task};
use selvedge_sim::Par;
use selvedge_types::{Mtu, Sl};

use super::*;
use crate::made::{FAR, FIRST, NEAR, SECOND, guid, inventory, outcome, row};

const GROUP: Lid = Lid(0xc001);
const OTHER: Lid = Lid(0xc002);
const JOB: JobId = JobId(7);
/// Number and position of the MFT block that has both groups of these tests.
const PLACE: Place = (0, 0);
const EMPTY: MftBlock = [0; MFT_LIDS];

const IN_FORCE: &str = "SLV-SM-0070";
const SILENT: &str = "SLV-SM-0072";
const UNREACHED: &str = "SLV-SM-0073";
const TAKEN_APART: &str = "SLV-SM-0075";
const APART: &str = "SLV-SM-0076";
const MOVED: &str = "SLV-SM-0077";
/// The effect that has the whole fabric planned.
const WHOLE: &str = "plan whole";

/// Multicast of a master. Its fabric is that of [`row`] (host, two switches, host); the switches have room for groups.
struct Bench {
    multicast: Multicast,
    mode: Mode,
    policy: Arc<Policy>,
    inventory: Arc<Inventory>,
    plan: Arc<Plan>,
    /// The last change that was to be written.
    change: Option<Judged<MulticastChange>>,
}

impl Bench {
    fn new() -> Self {
        let mut found = row();
        for switch in found.iter_mut().filter_map(|found| found.switch.as_mut()) {
            switch.mcast_cap = 64;
        }
        Self {
            multicast: Multicast::default(),
            mode: Mode::Manage,
            policy: Arc::new(Policy {
                rebalance_pause_s: 30,
                ..Policy::default()
            }),
            inventory: Arc::new(inventory(found)),
            plan: Arc::clone(&outcome().plan),
            change: None,
        }
    }

    /// Returns a bench in which both switches are known to copy nothing, and both hosts are members of the group.
    fn ready() -> Self {
        let mut bench = Self::new();
        bench.hand(0, In::GroupsChanged(vec![group(GROUP)]));
        bench.know();
        bench
    }

    /// Hands an input in at this second. Returns codes of events, and words for the other effects.
    fn hand(&mut self, second: u64, input: In<'_>) -> Vec<&'static str> {
        let ctx = Ctx {
            now: at(second),
            mode: self.mode,
            policy: &self.policy,
            inventory: Some(&self.inventory),
            plan: Some(&self.plan),
        };
        let mut effects = Vec::new();
        self.multicast.handle(&ctx, input, &mut effects);
        let words = effects.into_iter().map(|effect| match effect {
            Effect::Event(event) => event.code(),
            Effect::Read(blocks) => ["", "read 1", "read 2"][blocks.len()],
            Effect::Plan { .. } => "plan",
            Effect::Write(change) => {
                self.change = Some(change);
                "write"
            }
            Effect::WriteFirst(_) => "write first",
            Effect::PlanWhole => WHOLE,
        });
        words.collect()
    }

    /// Lets both switches answer that they copy nothing.
    fn know(&mut self) {
        for switch in [FIRST, SECOND] {
            self.hand(0, In::Holds(guid(switch), PLACE, EMPTY));
        }
    }

    fn refuses(&mut self, second: u64) -> Vec<&'static str> {
        let refuses = In::Refuses {
            switch: guid(FIRST),
            what: String::new(),
            place: PLACE,
            holds: None,
        };
        self.hand(second, refuses)
    }

    fn task(&self) -> MulticastTask {
        let basis = Basis::new(&self.inventory, &Arc::default(), Arc::clone(&self.policy));
        let left_out = self.multicast.left_out();
        self.multicast.task(basis, Arc::clone(&self.plan), left_out)
    }

    /// Hands out the due job. Returns its result.
    fn plan(&mut self, second: u64) -> MulticastResult {
        assert_eq!(self.hand(second, In::Due), ["plan"]);
        let task = Task::Multicast(Box::new(self.task()));
        self.hand(second, In::Planning(JOB, Arc::clone(&self.plan)));
        assert!(self.multicast.is_planning(JOB) && !self.multicast.is_planning(JobId(6)));
        assert_eq!(self.multicast.due(), None, "one job at a time");
        match (Job { id: JOB, task }).run(Par::Sequential) {
            JobResult::Multicast(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn planned(&mut self, second: u64, result: MulticastResult) -> Vec<&'static str> {
        self.hand(second, In::Planned { result, is_free: true })
    }

    /// Writes the trees that are due, after this change. Returns the events and effects.
    fn lay(&mut self, second: u64, change: impl FnOnce(&mut MulticastPlan)) -> Vec<&'static str> {
        let mut plan = accepted(self.plan(second));
        change(&mut plan);
        self.planned(second, result(PlannedTrees::Accepted(plan)))
    }

    fn due(&self) -> Option<Time> {
        self.multicast.due()
    }
}

const fn at(second: u64) -> Time {
    Time(second * 1_000_000_000)
}

fn group(mlid: Lid) -> MulticastGroup {
    let member = |host: usize| Member {
        guid: Guid(guid(host).0 + 1),
        receives: true,
    };
    MulticastGroup {
        mlid,
        mtu: Mtu::B2048,
        sl: Sl::default(),
        members: [member(NEAR), member(FAR)].into(),
    }
}

fn result(trees: PlannedTrees) -> MulticastResult {
    MulticastResult {
        trees,
        events: Vec::new(),
    }
}

fn accepted(result: MulticastResult) -> Box<MulticastPlan> {
    match result.trees {
        PlannedTrees::Accepted(plan) => plan,
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_are_read_before_trees_are_planned_and_written() {
    let mut bench = Bench::new();
    bench.hand(1, In::PlanInForce);
    assert_eq!(bench.due(), None, "without groups nothing is to be done");
    bench.hand(2, In::GroupsChanged(vec![group(GROUP)]));
    assert_eq!(bench.due(), Some(at(2)));
    assert_eq!(bench.hand(2, In::Due), ["read 2"]);
    assert_eq!(bench.due(), None);
    bench.know();
    bench.hand(3, In::BlocksRead);
    assert_eq!(bench.due(), Some(at(3)));
    assert_eq!(bench.lay(3, |_| {}), ["write"]);
    let sets = bench.change.take().unwrap().value().sets();
    assert_eq!(bench.hand(4, In::Written(sets)), [IN_FORCE]);
    assert_eq!((sets, bench.due()), (2, None));
    bench.hand(5, In::GroupsChanged(vec![group(GROUP)]));
    assert_eq!(bench.due(), None, "a group that is the same is no change");
}

#[test]
fn what_is_not_written_is_planned_again() {
    let mut bench = Bench::ready();
    assert_eq!(bench.lay(1, |_| {}), ["write"]);
    bench.hand(2, In::WrittenInPart);
    assert_eq!(bench.due(), Some(at(2)));
    assert_eq!(bench.lay(2, |_| {}), ["write"]);
    // The contents of blocks in flight are unknown.
    bench.hand(3, In::Unknown(guid(SECOND), PLACE));
    bench.hand(3, In::Interrupted);
    assert_eq!((bench.due(), bench.hand(3, In::Due)), (Some(at(3)), vec!["read 1"]));
    bench.know();
    bench.hand(4, In::HoldsOtherwise(guid(FIRST), PLACE, [2; MFT_LIDS]));
    assert_eq!(bench.due(), Some(at(4)));
    assert_eq!(bench.task().stale, BTreeSet::from([GROUP]));
    assert_eq!(bench.multicast.held()[&guid(FIRST)][&PLACE], [2; MFT_LIDS]);
}

#[test]
fn a_switch_that_refuses_is_left_out_for_twice_as_long_each_time() {
    let mut bench = Bench::ready();
    bench.lay(0, |_| {});
    let mut second = 0;
    for pause in [4, 8, 16, 32, 60, 60] {
        assert_eq!(bench.refuses(second), [SILENT]);
        assert_eq!(bench.multicast.left_out(), BTreeSet::from([guid(FIRST)]));
        // Another of its blocks that was in flight.
        assert_eq!(bench.refuses(second + 1), [SILENT]);
        second += pause;
        assert_eq!(bench.due(), Some(at(second)));
        assert_eq!(bench.hand(second, In::Due), ["read 1"], "it may answer now");
        assert_eq!((bench.multicast.left_out(), bench.due()), (BTreeSet::new(), None));
    }
    bench.refuses(second + 60);
    assert_eq!(bench.due(), Some(at(second + 64)), "that was a minute ago");
    bench.hand(second + 61, In::PlanInForce);
    assert_eq!(
        (bench.multicast.left_out(), bench.due()),
        (BTreeSet::new(), Some(at(second + 61)))
    );
    bench.refuses(second + 61);
    bench.hand(second + 61, In::BlocksRead);
    bench.hand(second + 61, In::Due);
    assert_eq!(
        bench.due(),
        Some(at(second + 69)),
        "a plan in force does not make it believed"
    );
}

#[test]
fn trees_of_another_plan_or_at_another_time_are_planned_again() {
    let mut bench = Bench::ready();
    let trees = bench.plan(1);
    assert!(
        bench
            .hand(
                2,
                In::Planned {
                    result: trees.clone(),
                    is_free: false
                }
            )
            .is_empty()
    );
    assert_eq!(
        (bench.due(), bench.task().stale),
        (Some(at(2)), BTreeSet::from([GROUP]))
    );
    bench.plan(3);
    bench.plan = Arc::new(Plan::clone(&bench.plan));
    assert!(bench.planned(4, trees.clone()).is_empty());
    assert_eq!(
        (bench.due(), bench.task().stale),
        (Some(at(4)), BTreeSet::from([GROUP]))
    );
    bench.plan(5);
    let refused = MulticastResult {
        trees: PlannedTrees::Refused,
        events: vec![PlanEvent::NoPlan],
    };
    let refusal = Event::Plan(PlanEvent::NoPlan).code();
    assert_eq!(bench.planned(6, refused.clone()), [refusal, WHOLE]);
    assert_eq!(bench.due(), None, "not before something changes");
    assert!(bench.planned(7, trees).is_empty(), "no job is on its way");
    bench.hand(8, In::GroupsChanged(vec![group(OTHER)]));
    assert_eq!(bench.task().stale, BTreeSet::from([GROUP, OTHER]));
    // A group that changes while trees are planned that are refused then.
    bench.plan(9);
    bench.hand(10, In::GroupsChanged(vec![group(Lid(OTHER.0 + 1))]));
    assert_eq!(bench.planned(11, refused), [refusal, WHOLE]);
    assert_eq!(bench.due(), Some(at(11)), "it is planned at once");
}

#[test]
fn trees_wait_until_packets_are_gone() {
    let mut bench = Bench::ready();
    let change = accepted(bench.plan(1)).change;
    let first = Box::new(TakenApart {
        change,
        groups: BTreeSet::from([GROUP]),
    });
    let later = result(PlannedTrees::Later(Some(first.clone())));
    assert_eq!(bench.planned(1, later), [TAKEN_APART, "write"]);
    let until = bench.due().unwrap();
    assert!(until > at(1));
    bench.hand(1, In::GroupsChanged(vec![group(OTHER)]));
    assert_eq!(bench.due(), Some(until));
    // Routes cannot wait: the groups follow them.
    bench.lay(100, |_| {});
    bench.hand(101, In::TakeApartFirst(Some(first)));
    assert_eq!(bench.hand(101, In::Applying), [TAKEN_APART, "write first"]);
    assert_eq!(bench.task().stale, BTreeSet::from([GROUP]));
    assert!(bench.hand(102, In::Applying).is_empty(), "once");
}

#[test]
fn members_without_a_tree_are_told_once_and_tried_again() {
    let mut bench = Bench::ready();
    let alone = vec![(GROUP, Guid(guid(FAR).0 + 1))];
    let leave = |plan: &mut MulticastPlan| (plan.apart, plan.unreached) = (alone.clone(), alone.clone());
    assert_eq!(bench.lay(1, leave), [APART, UNREACHED, "write", WHOLE]);
    assert_eq!(bench.multicast.left_apart(), alone);
    bench.hand(2, In::GroupsChanged(vec![group(OTHER)]));
    assert_eq!(bench.task().stale, BTreeSet::from([GROUP, OTHER]));
    assert_eq!(bench.lay(2, leave), ["write", WHOLE]);
    bench.hand(
        3,
        In::GroupsChanged(vec![
            group(OTHER),
            MulticastGroup {
                members: [].into(),
                ..group(GROUP)
            },
        ]),
    );
    assert_eq!(bench.task().stale, BTreeSet::from([GROUP]), "it has ended");
}

#[test]
fn routes_without_room_for_a_tree_are_planned_anew_once() {
    let mut bench = Bench::ready();
    let alone = vec![(GROUP, Guid(guid(FAR).0 + 1))];
    let leave = |plan: &mut MulticastPlan| plan.apart = alone.clone();
    let join = |bench: &mut Bench, second: u64, more: u16| {
        bench.hand(second, In::GroupsChanged(vec![group(Lid(OTHER.0 + more))]));
        bench.hand(second, In::PlanInForce);
        bench.lay(second, leave).contains(&WHOLE)
    };
    assert!(join(&mut bench, 1, 0), "a repair made the routes");
    let whole = |bench: &Bench| In::Whole(Arc::clone(&bench.plan), Arc::clone(bench.multicast.groups()));
    let made = whole(&bench);
    bench.hand(2, made);
    bench.hand(2, In::PlanInForce);
    assert!(
        !bench.lay(2, leave).contains(&WHOLE),
        "no engine leaves room for these groups"
    );
    assert!(!join(&mut bench, 61, 1), "less than a minute ago no engine could");
    assert!(join(&mut bench, 62, 2), "other groups, a minute later");
    let made = whole(&bench);
    bench.hand(63, made);
    bench.plan = Arc::new(Plan::clone(&bench.plan));
    bench.hand(64, In::PlanInForce);
    assert!(bench.lay(64, leave).contains(&WHOLE), "a repair changed the routes");
}

#[test]
fn trees_move_a_step_at_a_time() {
    let mut bench = Bench::new();
    bench.hand(0, In::MoveTrees);
    assert_eq!(bench.due(), None, "there are none");
    let mut bench = Bench::ready();
    bench.lay(1, |_| {});
    let change = bench.change.take().unwrap();
    bench.hand(2, In::Written(2));
    bench.hand(3, In::MoveTrees);
    assert_eq!((bench.due(), bench.task().moves.is_some()), (Some(at(3)), true));
    for (second, left, due) in [(3, 2, Some(at(33))), (33, 0, None)] {
        bench.plan(second);
        let mut step = accepted(Bench::ready().plan(0));
        (step.change, step.moved) = (change.clone(), (1, left));
        let step = result(PlannedTrees::Accepted(step));
        assert_eq!(bench.planned(second, step), [MOVED, "write"]);
        bench.hand(second, In::Written(2));
        assert_eq!(bench.due(), due);
    }
}

#[test]
fn a_manager_knows_what_it_wrote_and_no_other() {
    let mut bench = Bench::ready();
    let fabric = Arc::clone(&bench.inventory.fabric);
    let mut installed = Installed::unknown(2);
    for switch in [0, 1].map(SwitchIdx) {
        installed.learn(switch, 0, [1; selvedge_plan::BLOCK_LIDS]);
    }
    bench.hand(1, In::Swept(&fabric, &installed));
    assert_eq!(bench.multicast.held().len(), 2);
    let fresh = fabric.switch_index(fabric.find(guid(SECOND)).unwrap()).unwrap();
    installed.lfts[fresh].clear();
    bench.hand(2, In::Swept(&fabric, &installed));
    assert_eq!(bench.multicast.held().keys().collect::<Vec<_>>(), [&guid(FIRST)]);
    bench.hand(3, In::AnotherManages);
    assert!(bench.multicast.held().is_empty() && bench.multicast.groups().is_empty());
    assert_eq!(bench.due(), None);
    bench.mode = Mode::Watch;
    bench.hand(4, In::GroupsChanged(vec![group(GROUP)]));
    assert!(bench.multicast.groups().is_empty(), "groups are the master's");
}
