//! Tests the state of a proposed policy after each input.

use selvedge_plan::{EngineName, OutOfService};

use super::*;

/// Changes of policy, with the policy in force.
struct Bench {
    changes: Changes,
    in_force: Arc<Policy>,
    /// The SM_Key that is shown.
    shown: u64,
    second: u64,
}

impl Bench {
    fn new() -> Self {
        Self {
            changes: Changes::default(),
            in_force: policy("first"),
            shown: 0,
            second: 0,
        }
    }

    /// Hands in an input, a second after the last. Returns the codes of events. If a policy is to be used, it becomes
    /// the one in force.
    fn hand(&mut self, input: In) -> Vec<&'static str> {
        self.second += 1;
        let ctx = Ctx {
            now: Time(self.second * 1_000_000_000),
            in_force: &self.in_force,
        };
        let mut effects = Vec::new();
        self.changes.handle(&ctx, input, &mut effects);
        let mut codes = Vec::new();
        for effect in effects {
            match effect {
                Effect::Event(event) => codes.push(event.code()),
                Effect::Take(policy) => self.in_force = policy,
                Effect::Show(key) => self.shown = key.expose(),
                Effect::RolledBack { why } => assert_eq!(&*why, "credit loop"),
            }
        }
        codes
    }

    fn propose(&mut self, engine: &str) -> Vec<&'static str> {
        self.hand(In::Proposed(policy(engine)))
    }

    /// Names of the states of all changes.
    fn states(&self) -> Vec<&'static str> {
        self.changes.list().iter().map(|change| change.state.name()).collect()
    }

    fn engine_in_force(&self) -> &str {
        &self.in_force.engines[0].0
    }

    /// Returns the engine in the policy with which the next plan is made.
    fn wanted(&self) -> Option<&str> {
        self.changes.wanted().map(|policy| policy.engines[0].0.as_str())
    }
}

fn policy(engine: &str) -> Arc<Policy> {
    Arc::new(Policy {
        engines: vec![EngineName(engine.to_owned())],
        ..Policy::default()
    })
}

fn refused() -> In {
    In::Refused {
        why: "credit loop".into(),
        verdict: None,
        held: None,
    }
}

/// Returns a proposal that changes the M_Key.
fn rotates(m_key: u64) -> In {
    In::Proposed(Arc::new(Policy {
        m_key,
        ..Policy::clone(&policy("second"))
    }))
}

const KEPT: &str = "SLV-SM-0100";
const LATER: &str = "SLV-SM-0101";
const ROLLED_BACK: &str = "SLV-SM-0102";
const SUPERSEDED: &str = "SLV-SM-0103";

#[test]
fn a_policy_is_in_force_when_the_judge_has_accepted_its_plan() {
    let mut bench = Bench::new();
    assert!(bench.propose("second").is_empty());
    assert_eq!((bench.engine_in_force(), bench.wanted()), ("first", Some("second")));
    assert_eq!(*bench.changes.list()[0].changed, ["routing.engines"]);
    assert!(bench.hand(In::SweepBegins).is_empty());
    assert!(bench.hand(In::HandedOut(JobId(4))).is_empty());
    assert_eq!((bench.engine_in_force(), bench.states()), ("first", vec!["planned"]));
    assert_eq!(bench.changes.plans_with(JobId(4)), PlansWith::Proposed);
    assert_eq!(bench.changes.plans_with(JobId(3)), PlansWith::InForce);
    assert!(bench.hand(In::Accepted).is_empty());
    assert_eq!((bench.engine_in_force(), bench.wanted()), ("second", None));
    assert_eq!(bench.states(), ["judged"]);
    assert_eq!(bench.hand(In::Applied { failed: 0 }), [KEPT]);
    assert_eq!(bench.states(), ["kept"]);
    // Later plans are no news.
    assert!(bench.hand(In::Applied { failed: 0 }).is_empty());
    assert!(!bench.changes.would_roll_back(JobId(5)));
}

#[test]
fn a_refused_change_is_rolled_back_and_reported_until_another_is_kept() {
    let mut bench = Bench::new();
    bench.propose("second");
    bench.hand(In::HandedOut(JobId(1)));
    assert!(bench.changes.would_roll_back(JobId(1)) && !bench.changes.would_roll_back(JobId(2)));
    assert_eq!(bench.hand(refused()), [ROLLED_BACK]);
    assert_eq!((bench.engine_in_force(), bench.wanted()), ("first", None));
    assert_eq!(bench.states(), ["rolled_back"]);
    let told = bench.changes.rolled_back().unwrap();
    assert!(told.contains("change 1 of routing.engines: credit loop"), "{told}");
    // The plan with the former policy.
    bench.hand(In::HandedOut(JobId(2)));
    assert_eq!(bench.changes.plans_with(JobId(2)), PlansWith::InForce);
    assert!(bench.hand(In::Applied { failed: 0 }).is_empty());
    assert!(bench.changes.rolled_back().is_some());
    assert_eq!(bench.propose("first"), [KEPT]);
    assert!(bench.changes.rolled_back().is_none());
    assert_eq!(bench.states(), ["rolled_back", "kept"]);
}

#[test]
fn a_second_proposal_supersedes_the_first_and_goes_back_to_the_last_accepted_policy() {
    let mut bench = Bench::new();
    bench.propose("second");
    bench.hand(In::HandedOut(JobId(1)));
    assert_eq!(bench.propose("third"), [SUPERSEDED]);
    assert_eq!((bench.engine_in_force(), bench.wanted()), ("first", Some("third")));
    // What becomes of the first plan concerns nothing.
    assert_eq!(bench.changes.plans_with(JobId(1)), PlansWith::Superseded);
    assert!(!bench.changes.would_roll_back(JobId(1)));
    bench.hand(In::SweepBegins);
    bench.hand(In::HandedOut(JobId(2)));
    assert_eq!(bench.hand(refused()), [ROLLED_BACK]);
    assert_eq!(bench.engine_in_force(), "first");
    assert_eq!(bench.states(), ["superseded", "rolled_back"]);
}

#[test]
fn a_policy_that_was_accepted_is_what_a_second_proposal_goes_back_to() {
    let mut bench = Bench::new();
    bench.propose("second");
    bench.hand(In::HandedOut(JobId(1)));
    bench.hand(In::Accepted);
    assert_eq!(bench.propose("third"), [KEPT]);
    bench.hand(In::HandedOut(JobId(2)));
    assert_eq!(bench.hand(refused()), [ROLLED_BACK]);
    assert_eq!(bench.engine_in_force(), "second");
    assert_eq!(bench.states(), ["kept", "rolled_back"]);
}

#[test]
fn a_policy_that_changes_nothing_is_kept_at_once() {
    let mut bench = Bench::new();
    assert_eq!(bench.propose("first"), [KEPT]);
    assert_eq!((bench.states(), bench.wanted()), (vec!["kept"], None));
    // As is one that goes back to the policy in force before the other was planned.
    bench.propose("second");
    assert_eq!(bench.propose("first"), [SUPERSEDED, KEPT]);
    assert_eq!((bench.engine_in_force(), bench.wanted()), ("first", None));
}

#[test]
fn a_manager_that_makes_no_plan_keeps_a_change_for_later() {
    for why in [
        Later::Standby,
        Later::Disabled,
        Later::Watching,
        Later::CutOff,
        Later::MKey,
    ] {
        let mut bench = Bench::new();
        assert!(bench.hand(In::NotNow(why)).is_empty(), "nothing is proposed");
        bench.propose("second");
        assert_eq!(bench.hand(In::NotNow(why)), [LATER]);
        assert!(bench.hand(In::NotNow(why)).is_empty(), "told twice");
        assert_eq!(bench.states(), ["kept_for_later"]);
        assert_eq!((bench.engine_in_force(), bench.wanted()), ("first", Some("second")));
        // Its first plan decides.
        bench.hand(In::HandedOut(JobId(1)));
        assert_eq!(bench.hand(refused()), [ROLLED_BACK]);
        assert_eq!(bench.engine_in_force(), "first");
    }
}

#[test]
fn ports_keep_their_m_key_if_a_change_that_was_kept_for_later_is_rolled_back() {
    let check = |is_later: bool, is_superseded: bool, held: Option<u64>, want: u64| {
        let mut bench = Bench::new();
        bench.hand(rotates(7));
        if is_later {
            bench.hand(In::NotNow(Later::Standby));
            // The key does not wait: the manager uses it.
            Arc::make_mut(&mut bench.in_force).m_key = 7;
        }
        if is_superseded {
            bench.hand(rotates(8));
        }
        bench.hand(In::HandedOut(JobId(1)));
        let held = held.map(SecretKey::new);
        let (why, verdict) = ("credit loop".into(), None);
        assert_eq!(bench.hand(In::Refused { why, verdict, held }), [ROLLED_BACK]);
        assert_eq!((bench.engine_in_force(), bench.in_force.m_key), ("first", want));
    };
    // The master refused it too, and nothing else has set a key.
    check(true, false, Some(0), 0);
    check(true, true, Some(0), 0);
    // The master accepted the first change.
    check(true, true, Some(7), 7);
    // It was on its way: what this manager used then stays.
    check(true, true, None, 7);
    // A master knows what it gave: ports may not have got it yet.
    check(false, false, Some(5), 0);
    check(false, true, Some(5), 0);
}

#[test]
fn a_plan_that_was_not_applied_can_be_taken_back() {
    let mut bench = Bench::new();
    bench.propose("second");
    bench.hand(In::HandedOut(JobId(1)));
    bench.hand(In::Accepted);
    // A fault interrupts it, and the next plan is refused.
    bench.hand(In::SweepBegins);
    assert_eq!(bench.states(), ["judged"]);
    bench.hand(In::HandedOut(JobId(2)));
    assert!(bench.changes.would_roll_back(JobId(2)));
    assert_eq!(bench.hand(refused()), [ROLLED_BACK]);
    assert_eq!(bench.engine_in_force(), "first");
}

#[test]
fn a_rollback_enables_ports_that_the_change_may_have_disabled() {
    let with = |line: &str| {
        In::Proposed(Arc::new(Policy {
            out_of_service: Arc::new(OutOfService::parse(line).unwrap()),
            ..Policy::clone(&policy("first"))
        }))
    };
    let isolate = "isolate switch 0x10 since 5 disabled 0x20[1]";
    let check = |is_accepted: bool, want: &str| {
        let mut bench = Bench::new();
        bench.hand(with(isolate));
        bench.hand(In::HandedOut(JobId(1)));
        if is_accepted {
            bench.hand(In::Accepted);
            bench.hand(In::SweepBegins);
            bench.hand(In::HandedOut(JobId(2)));
        }
        assert_eq!(bench.hand(refused()), [ROLLED_BACK]);
        let want = OutOfService::parse(want).unwrap();
        assert_eq!(*bench.in_force.out_of_service, want, "{is_accepted}");
    };
    // Its Sets may have been sent in part.
    check(true, "enable switch 0x10 since 5 disabled 0x20[1]");
    check(false, "");
}

#[test]
fn failed_sets_do_not_undo_a_change() {
    let mut bench = Bench::new();
    bench.propose("second");
    bench.hand(In::HandedOut(JobId(1)));
    bench.hand(In::Accepted);
    assert!(bench.hand(In::Applied { failed: 3 }).is_empty());
    assert_eq!(bench.states(), ["applied"]);
    bench.hand(In::SweepBegins);
    bench.hand(In::HandedOut(JobId(2)));
    assert!(!bench.changes.would_roll_back(JobId(2)));
    assert!(bench.hand(In::Applied { failed: 1 }).is_empty());
    assert_eq!(bench.hand(In::Applied { failed: 0 }), [KEPT]);
    assert_eq!(bench.engine_in_force(), "second");
}

#[test]
fn a_dropped_plan_is_made_again() {
    let mut bench = Bench::new();
    bench.propose("second");
    bench.hand(In::HandedOut(JobId(1)));
    bench.hand(In::SweepBegins);
    assert_eq!((bench.states(), bench.wanted()), (vec!["proposed"], Some("second")));
    assert_eq!(bench.changes.plans_with(JobId(1)), PlansWith::InForce);
}

#[test]
fn the_last_changes_are_listed() {
    let mut bench = Bench::new();
    for number in 0..40 {
        bench.propose(&format!("engine-{number}"));
    }
    let serials: Vec<u64> = bench.changes.list().iter().map(|change| change.serial).collect();
    assert_eq!(serials, (25..=40).collect::<Vec<u64>>());
    let list = bench.changes.list();
    assert_eq!(list[14].state.name(), "superseded");
    assert!(list[14].since > list[14].proposed);
}

#[test]
fn an_sm_key_is_shown_when_the_change_is_kept_and_not_if_it_is_rolled_back() {
    let load = |bench: &mut Bench, key: u64| bench.hand(In::SmKey(SecretKey::new(key)));
    let mut bench = Bench::new();
    // With no other policy there is nothing to wait for.
    bench.propose("first");
    load(&mut bench, 1);
    assert_eq!(bench.shown, 1);
    bench.propose("second");
    load(&mut bench, 2);
    bench.hand(In::HandedOut(JobId(1)));
    bench.hand(In::Accepted);
    assert_eq!(bench.shown, 1);
    bench.hand(In::Applied { failed: 1 });
    assert_eq!(bench.shown, 1);
    bench.hand(In::Applied { failed: 0 });
    assert_eq!(bench.shown, 2);
    bench.propose("third");
    load(&mut bench, 3);
    bench.hand(In::HandedOut(JobId(2)));
    assert_eq!(bench.hand(refused()), [ROLLED_BACK]);
    assert_eq!(bench.shown, 2);
    // That of a superseded change waits for the end of the change that supersedes it.
    bench.propose("third");
    load(&mut bench, 4);
    bench.propose("fourth");
    assert_eq!(bench.shown, 2);
    bench.hand(In::HandedOut(JobId(3)));
    bench.hand(In::Accepted);
    bench.hand(In::Applied { failed: 0 });
    assert_eq!(bench.shown, 4);
    // A manager that makes no plan shows what the operator wants all of them to show.
    bench.propose("fifth");
    load(&mut bench, 5);
    bench.hand(In::NotNow(Later::Standby));
    assert_eq!(bench.shown, 5);
    load(&mut bench, 6);
    assert_eq!(bench.shown, 6);
}
