//! When a step is planned, and what follows from its result.

use selvedge_planner::rebalance::Difference;
use selvedge_verify::Load;

use super::*;
use crate::made::{empty_plan, outcome};

/// A rebalancer that pauses for 30 s, after a quiet time of 300 s; 9 host pairs are on the busiest link.
struct Bench {
    rebalancer: Rebalancer,
    mode: Mode,
    policy: Policy,
}

impl Bench {
    fn new(when: RebalanceWhen) -> Self {
        Self {
            rebalancer: Rebalancer::default(),
            mode: Mode::Manage,
            policy: Policy {
                rebalance: when,
                ..Policy::default()
            },
        }
    }

    /// Hands in an input at this second. Returns codes of events, and the other effects by name.
    fn hand(&mut self, second: u64, input: In) -> Vec<&'static str> {
        let ctx = Ctx {
            now: at(second),
            mode: self.mode,
            policy: &self.policy,
            busiest: 9,
        };
        let mut effects = Vec::new();
        self.rebalancer.handle(&ctx, input, &mut effects);
        let words = effects.into_iter().map(|effect| match effect {
            Effect::Event(event) => event.code(),
            Effect::Apply { .. } => "apply",
            Effect::MoveTrees => "move trees",
        });
        words.collect()
    }

    /// Has a step planned, and hands in this result at this second.
    fn planned(&mut self, second: u64, balance: Balance, is_under_way: bool) -> Vec<&'static str> {
        let job = JobId(7);
        self.hand(second, In::Planning(job, Arc::new(empty_plan())));
        assert!(self.rebalancer.is_planning(job) && !self.rebalancer.is_planning(JobId(6)));
        self.hand(second, result(balance, is_under_way))
    }
}

const fn at(second: u64) -> Time {
    Time(second * 1_000_000_000)
}

fn result(balance: Balance, is_under_way: bool) -> In {
    let result = RebalanceResult {
        balance: Some(balance),
        copies_first: None,
    };
    In::Planned { result, is_under_way }
}

/// Returns a step after which this number of LFT blocks is left to write.
fn step(blocks_left: usize) -> Balance {
    let outcome = outcome();
    let load = |max| Load { max, ..Load::default() };
    Balance::Step(Box::new(Step {
        changed: Difference::default(),
        left: Difference {
            blocks: blocks_left,
            ..Difference::default()
        },
        load_max: 8,
        goal: Arc::new(Goal {
            tables: outcome.plan.tables.clone(),
            before: load(9),
            after: load(4),
        }),
        outcome,
    }))
}

const HELD: fn() -> Balance = || Balance::Held { why: String::new() };
const STEP: &str = "SLV-SM-0050";
const EVEN: &str = "SLV-SM-0051";
const NO_STEP: &str = "SLV-SM-0052";
const INTERRUPTED: &str = "SLV-SM-0053";

#[test]
fn a_step_is_due_when_the_fabric_has_been_quiet_or_the_operator_asks() {
    let check = |when: RebalanceWhen, mode: Mode, inputs: &[fn() -> In], want: Option<u64>| {
        let mut bench = Bench::new(when);
        bench.mode = mode;
        for (second, input) in (1..).zip(inputs) {
            assert!(bench.hand(second, input()).is_empty());
        }
        assert_eq!(bench.rebalancer.due(), want.map(at), "{when:?} {mode:?}");
    };
    let fault: fn() -> In = || In::Interrupted;
    let idle: fn() -> In = || In::Idle;
    let asked: fn() -> In = || In::Asked(Asked { at_once: false });
    for (when, want) in [
        (RebalanceWhen::Never, None),
        (RebalanceWhen::Later, Some(302)),
        (RebalanceWhen::AtOnce, Some(2)),
    ] {
        check(when, Mode::Manage, &[fault, idle], want);
        check(when, Mode::Watch, &[fault, idle], None);
        // Without a fault there is nothing to do, and the manager's own work does not extend the wait.
        check(when, Mode::Manage, &[idle, idle], None);
        check(when, Mode::Manage, &[fault, idle, idle], want);
        // A command waits only for work in progress.
        check(when, Mode::Manage, &[asked], Some(1));
        check(when, Mode::Manage, &[fault, idle, asked], Some(3));
        check(when, Mode::Manage, &[asked, fault], None);
        check(when, Mode::Manage, &[asked, fault, idle], Some(3));
    }
    check(
        RebalanceWhen::Later,
        Mode::Manage,
        &[fault, idle, || In::NotReady],
        None,
    );
}

#[test]
fn steps_follow_each_other_until_load_is_even() {
    let mut bench = Bench::new(RebalanceWhen::Later);
    bench.hand(0, In::Interrupted);
    assert_eq!(bench.planned(10, step(5), false), [STEP, "apply"]);
    assert!(bench.rebalancer.is_applying() && bench.rebalancer.goal().is_some());
    let shown = bench.rebalancer.status();
    assert_eq!(
        (shown.steps, shown.blocks_left, shown.load_max),
        (1, 5, Some((9, 8, 4)))
    );
    assert!(bench.hand(11, In::Applied).is_empty());
    assert_eq!(bench.rebalancer.due(), Some(at(41)));
    assert!(bench.hand(12, In::Applied).is_empty(), "another plan");
    assert_eq!(bench.rebalancer.due(), Some(at(41)));
    assert_eq!(bench.planned(41, step(0), false), [STEP, "apply"]);
    assert_eq!(bench.hand(42, In::Applied), [EVEN, "move trees"]);
    assert_eq!(bench.rebalancer.status(), BalanceView::default());
    assert!(bench.rebalancer.goal().is_none());
}

#[test]
fn a_fault_between_two_steps_is_told_once() {
    let mut bench = Bench::new(RebalanceWhen::Later);
    bench.planned(0, step(5), false);
    assert_eq!(bench.hand(1, In::Interrupted), [INTERRUPTED]);
    assert!(bench.hand(2, In::Interrupted).is_empty());
    let shown = bench.rebalancer.status();
    assert_eq!((shown.state, shown.steps), (Balancing::Waiting { until: None }, 0));
    // The step came into force all the same, before the sweep.
    assert!(bench.hand(3, In::Applied).is_empty());
    assert_eq!(bench.rebalancer.due(), None);
}

#[test]
fn what_comes_of_a_job() {
    let check = |balance: fn() -> Balance, is_under_way: bool, want: &[&str], due: Option<u64>| {
        let mut bench = Bench::new(RebalanceWhen::Later);
        assert_eq!(bench.planned(5, balance(), is_under_way), want);
        assert_eq!(bench.rebalancer.due(), due.map(at));
        // A result that is no longer awaited.
        let before = bench.rebalancer.status();
        assert!(bench.hand(6, result(balance(), false)).is_empty());
        assert!(bench.hand(6, In::Stale).is_empty());
        assert_eq!(bench.rebalancer.status(), before);
    };
    check(|| Balance::Even, false, &["move trees"], None);
    check(|| step(5), false, &[STEP, "apply"], None);
    check(HELD, false, &[NO_STEP, "move trees"], None);
    check(HELD, true, &[], Some(35));
    let mut bench = Bench::new(RebalanceWhen::Later);
    let plan = Arc::new(empty_plan());
    bench.hand(0, In::Planning(JobId(1), Arc::clone(&plan)));
    assert!(bench.rebalancer.is_planning_from(&plan));
    assert!(!bench.rebalancer.is_planning_from(&Arc::new(empty_plan())));
    bench.hand(1, In::Stale);
    assert_eq!(bench.rebalancer.due(), Some(at(31)));
}

#[test]
fn a_step_with_failed_sets_waits_for_a_sweep() {
    let mut bench = Bench::new(RebalanceWhen::Later);
    bench.planned(0, step(5), false);
    assert!(bench.hand(1, In::AppliedInPart).is_empty());
    assert_eq!(bench.rebalancer.status().state, Balancing::Waiting { until: None });
    bench.hand(2, In::Idle);
    assert_eq!(bench.rebalancer.due(), Some(at(302)));
}

#[test]
fn a_command_says_how_much_a_step_may_write_and_is_answered() {
    let tables = empty_plan().tables;
    let check = |when: RebalanceWhen, asked: Option<Asked>, is_bounded: bool| {
        let mut bench = Bench::new(when);
        asked.map(|asked| bench.hand(0, In::Asked(asked)));
        let blocks = bench.rebalancer.blocks(&bench.policy, &tables);
        assert_eq!(blocks.is_some(), is_bounded, "{when:?} {asked:?}");
        let told = bench.planned(1, Balance::Even, false);
        assert_eq!(told.contains(&EVEN), asked.is_some(), "{when:?} {asked:?}");
    };
    let [steps, at_once] = [false, true].map(|at_once| Some(Asked { at_once }));
    check(RebalanceWhen::Later, None, true);
    check(RebalanceWhen::Later, at_once, false);
    check(RebalanceWhen::AtOnce, None, false);
    check(RebalanceWhen::AtOnce, steps, true);
}
