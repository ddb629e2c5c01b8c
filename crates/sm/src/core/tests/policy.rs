//! Changes of policy: what is in force until a plan is accepted, and after one is refused.

use selvedge_plan::{EngineName, Policy};
use selvedge_types::Lmc;

use super::*;
use crate::milestone::Committed;

/// Returns a policy with which no plan can be made.
fn hopeless(lmc: u8) -> Arc<Policy> {
    Arc::new(Policy {
        engines: vec![EngineName("none".to_owned())],
        lmc: Lmc::new(lmc).unwrap(),
        ..Policy::default()
    })
}

fn of_lmc(lmc: u8) -> Arc<Policy> {
    Arc::new(Policy {
        lmc: Lmc::new(lmc).unwrap(),
        ..Policy::default()
    })
}

impl Bench {
    fn propose(&mut self, policy: &Arc<Policy>) {
        self.hand(Input::Command(Command::SetPolicy(Arc::clone(policy))));
    }

    /// Names of the states of all changes.
    fn states(&self) -> Vec<&'static str> {
        self.sm
            .policy_changes()
            .iter()
            .map(|change| change.state.name())
            .collect()
    }

    /// Does all jobs.
    fn compute_all(&mut self) {
        while !self.jobs.is_empty() {
            self.compute();
        }
    }

    /// Returns the reason of each rollback, with the engine that was in force after it.
    fn rolled_back(&self) -> Vec<(&str, &str)> {
        let mut all = Vec::new();
        for milestone in &self.milestones {
            if let Milestone::RolledBack { policy, why } = milestone {
                all.push((&*policy.engines[0].0, &**why));
            }
        }
        all
    }

    fn committed(&self) -> Vec<&Committed> {
        let mut all = Vec::new();
        for milestone in &self.milestones {
            if let Milestone::Committed(committed) = milestone {
                all.push(&**committed);
            }
        }
        all
    }
}

#[test]
fn a_refused_policy_is_rolled_back_and_the_plan_in_force_stays() {
    let mut bench = Bench::at_rest();
    let (before, sets) = (bench.sm.view(), bench.sets);
    let plan = before.plan.unwrap();
    bench.propose(&hopeless(0));
    assert_eq!(bench.states(), ["planned"]);
    // The refused plan, then one with the former policy: nothing of it is new.
    bench.compute();
    assert_eq!(bench.states(), ["rolled_back"]);
    let former = Policy::default().engines[0].0.clone();
    let [(engine, why)] = bench.rolled_back()[..] else {
        panic!("{:?}", bench.rolled_back());
    };
    assert!(engine == former && why.starts_with("none:"), "{engine}: {why}");
    let view = bench.sm.view();
    assert!(
        Arc::ptr_eq(&view.plan.unwrap(), &plan),
        "the plan in force is not dropped"
    );
    assert!(view.refused.is_none() && view.facts.refused.is_none());
    assert!(view.facts.is_planned);
    bench.compute_all();
    assert_eq!(bench.sets, sets, "no Set is sent");
    let view = bench.sm.view();
    assert!(view.is_up() && bench.sm.is_resting());
    assert_eq!(view.policy.unwrap(), before.policy.unwrap());
    assert_eq!(view.plan.unwrap().lids, plan.lids);
    let why = view.facts.rolled_back.unwrap();
    assert!(why.contains("change 1 of routing.engines: none:"), "{why}");
    assert!(bench.has("SLV-SM-0102") && bench.has("SLV-SM-0005") && !bench.has("SLV-SM-0006"));
    // The next change that is kept clears it.
    bench.propose(&of_lmc(1));
    bench.compute_all();
    assert_eq!(bench.states(), ["rolled_back", "kept"]);
    assert!(bench.sm.view().facts.rolled_back.is_none());
}

#[test]
fn an_accepted_policy_is_in_force_with_its_plan() {
    let mut bench = Bench::at_rest();
    bench.milestones.clear();
    let policy = of_lmc(1);
    bench.propose(&policy);
    assert_eq!(*bench.sm.view().policy.unwrap(), Policy::default());
    bench.compute_all();
    assert_eq!(bench.states(), ["kept"]);
    assert!(Arc::ptr_eq(&bench.sm.view().policy.unwrap(), &policy));
    assert_eq!(bench.committed().last().unwrap().policy, policy);
    assert!(bench.rolled_back().is_empty());
    assert_eq!(bench.hosts[1].info.lmc.get(), 1);
}

#[test]
fn a_policy_that_changes_nothing_is_kept_at_once() {
    let mut bench = Bench::at_rest();
    bench.propose(&Arc::default());
    assert_eq!(bench.states(), ["kept"]);
    bench.compute_all();
    assert!(bench.sm.view().is_up());
}

#[test]
fn a_second_change_in_the_middle_supersedes_the_first() {
    for (second, end) in [(of_lmc(1), "kept"), (hopeless(2), "rolled_back")] {
        let mut bench = Bench::at_rest();
        let before = bench.sm.view();
        bench.propose(&hopeless(1));
        bench.propose(&second);
        assert_eq!(bench.states()[0], "superseded");
        assert!(bench.has("SLV-SM-0103"));
        bench.compute_all();
        assert_eq!(bench.states(), ["superseded", end]);
        let view = bench.sm.view();
        assert!(view.is_up() && view.plan.is_some());
        let want = match end {
            "kept" => second,
            _ => before.policy.unwrap(),
        };
        assert_eq!(view.policy.unwrap(), want, "never the superseded one");
    }
}

/// Proposals that come faster than plans are made: after a few dropped plans the manager waits for one. The plan with a
/// superseded policy is of no use, accepted or refused.
#[test]
fn the_plan_of_a_superseded_change_takes_nothing_away() {
    for first in [hopeless(1), of_lmc(1)] {
        let mut bench = Bench::at_rest();
        let plan = bench.sm.view().plan.unwrap();
        // Until the plan that is being made is waited for.
        for flap_downs in 1.. {
            assert!(flap_downs < 20, "every plan is dropped");
            let jobs = bench.jobs.len();
            let policy = Policy {
                flap_downs,
                ..Policy::clone(&first)
            };
            bench.propose(&Arc::new(policy));
            if jobs > 0 && bench.jobs.len() == jobs {
                break;
            }
        }
        assert_eq!(bench.sm.stage_name(), StageName::Planning);
        bench.propose(&of_lmc(2));
        let in_force = bench.sm.view().plan;
        assert!(in_force.is_some_and(|in_force| Arc::ptr_eq(&in_force, &plan)));
        bench.compute_all();
        let view = bench.sm.view();
        assert_eq!(bench.states().last(), Some(&"kept"));
        assert!(bench.states().iter().rev().skip(1).all(|state| *state == "superseded"));
        assert!(!bench.has("SLV-SM-0102") && view.is_up());
        assert_eq!(bench.hosts[1].info.lmc.get(), 2, "not that of the superseded policy");
    }
}

#[test]
fn a_standby_keeps_a_change_for_later_and_decides_as_master() {
    for (policy, end) in [(of_lmc(1), "kept"), (hopeless(1), "rolled_back")] {
        let mut bench = standing_by::standing_by();
        bench.propose(&policy);
        assert_eq!(bench.states(), ["kept_for_later"]);
        assert!(bench.has("SLV-SM-0101"));
        assert_eq!(*bench.sm.view().policy.unwrap(), Policy::default());
        // The master is lost.
        bench.hosts[1].is_mute = true;
        for _ in 0..bench.sm.config.poll_misses {
            bench.until_due();
        }
        assert_eq!(bench.sm.role(), Role::Master);
        assert_eq!(bench.states(), ["planned"]);
        bench.compute_all();
        assert_eq!(bench.states(), [end]);
        assert!(bench.sm.view().is_up(), "{:?}", bench.events);
    }
}

/// A proposal, and then another manager becomes master.
#[test]
fn a_master_that_stands_by_keeps_its_open_change_for_later() {
    let mut bench = Bench::at_rest();
    bench.propose(&of_lmc(1));
    assert_eq!(bench.states(), ["planned"]);
    let master = SmInfo {
        guid: Guid(0x21),
        sm_key: 1,
        act_count: 1,
        priority: selvedge_wire::Bits::saturating(9),
        state: SmState::Master,
    };
    bench.hosts[1].manager = Some((master, true));
    bench.hosts[1].info.capabilities = CapabilityMask::IS_SM;
    bench.hand(Input::Command(Command::Sweep));
    assert_eq!(
        (bench.sm.role(), bench.states()),
        (Role::Standby, vec!["kept_for_later"])
    );
    assert_eq!(*bench.sm.view().policy.unwrap(), Policy::default());
}

#[test]
fn a_dry_run_keeps_what_the_judge_accepts() {
    let mut bench = Bench::up(Mode::DryRun);
    bench.propose(&of_lmc(1));
    bench.compute_all();
    assert_eq!((bench.states(), bench.sets), (vec!["kept"], 0));
    bench.propose(&hopeless(1));
    bench.compute_all();
    assert_eq!(bench.states(), ["kept", "rolled_back"]);
    assert!(bench.sm.view().plan.is_some());
    let mut watch = Bench::new(Mode::Watch);
    watch.hand(Input::Start);
    watch.propose(&of_lmc(1));
    assert_eq!(watch.states(), ["kept_for_later"]);
}

/// The first plan of a process has no accepted policy before it: the manager has no plan, as without a change.
#[test]
fn a_refused_first_policy_is_replaced_by_a_good_one() {
    let mut bench = Bench::new(Mode::Manage);
    bench.sm.config.policy = hopeless(0);
    bench.hand(Input::Start);
    bench.compute_all();
    assert!(bench.sm.view().facts.refused.is_some());
    bench.propose(&of_lmc(0));
    bench.compute_all();
    assert_eq!(bench.states(), ["kept"]);
    assert!(bench.sm.view().is_up());
    // A second bad one does not bring the first one back.
    bench.propose(&hopeless(0));
    bench.compute_all();
    assert_eq!(bench.states(), ["kept", "rolled_back"]);
    assert!(bench.sm.view().is_up());
}

/// The operator drains a host: the change is one of the policy that the operator wants, whether it is in force or not.
#[test]
fn a_change_of_one_setting_keeps_what_was_proposed_before() {
    let drained = |policy: &Policy| {
        let list = selvedge_plan::OutOfService::parse("drain port 0x20[1] since 5").unwrap();
        Arc::new(Policy {
            out_of_service: Arc::new(list),
            ..policy.clone()
        })
    };
    // An M_Key that is not stored yet: ports keep the former one.
    let mut bench = Bench::at_rest();
    bench.is_full = true;
    let keyed = Policy {
        m_key: 7,
        ..Policy::default()
    };
    bench.propose(&Arc::new(keyed));
    bench.compute_all();
    let in_force = bench.sm.view().policy.unwrap();
    assert_eq!((in_force.m_key, bench.sm.wanted_policy().m_key), (0, 7));
    bench.propose(&drained(&bench.sm.wanted_policy()));
    assert_eq!(bench.sm.keys.wanted().expose(), 7);
    assert_eq!(bench.sm.wanted_policy().m_key, 7);

    // A standby keeps a reload for later.
    let mut bench = standing_by::standing_by();
    bench.propose(&of_lmc(1));
    assert_eq!(bench.states(), ["kept_for_later"]);
    let wanted = drained(&bench.sm.wanted_policy());
    bench.propose(&wanted);
    assert_eq!(bench.states(), ["superseded", "kept_for_later"]);
    assert_eq!((bench.sm.wanted_policy(), wanted.lmc.get()), (wanted, 1));
}

/// The engine of the policy in force can no longer make a plan: `minhop`, where the tables found at the start were kept
/// so far. The plan in force stays, and each sweep tries again.
#[test]
fn the_plan_in_force_stays_where_its_policy_makes_no_other() {
    let mut bench = Bench::at_rest();
    let (before, sets) = (bench.sm.view(), bench.sets);
    bench.sm.config.policy = hopeless(0);
    bench.hand(Input::Command(Command::Sweep));
    bench.compute_all();
    let view = bench.sm.view();
    assert!(view.is_up() && bench.sm.is_resting(), "{:?}", bench.events);
    assert_eq!(view.plan.unwrap().lids, before.plan.unwrap().lids);
    assert_eq!(bench.sets, sets, "no Set is sent");
    assert!(bench.has("SLV-SM-0104") && !bench.has("SLV-SM-0006"));
    let refused = view.facts.refused.unwrap();
    assert!(
        refused.in_force.is_some() && refused.why.starts_with("none:"),
        "{refused:?}"
    );
    let begun = view.sweeps.begun;
    // The check after the plan, and the next light sweep.
    for _ in 0..2 {
        bench.until_due();
        bench.compute_all();
    }
    assert!(bench.sm.view().sweeps.begun > begun, "it tries again");
    assert!(bench.sm.view().facts.refused.is_some());
    bench.propose(&of_lmc(0));
    bench.compute_all();
    assert_eq!(bench.states(), ["kept"]);
    assert!(bench.sm.view().facts.refused.is_none());
}

/// The M_Key of a change that was kept waits for the disk. Another change is refused meanwhile.
#[test]
fn a_rollback_of_the_next_change_keeps_an_m_key_that_is_not_stored_yet() {
    for is_stored_late in [false, true] {
        let mut bench = Bench::at_rest();
        bench.is_full = is_stored_late;
        let rotates = |policy: &Arc<Policy>| {
            Arc::new(Policy {
                m_key: 7,
                ..Policy::clone(policy)
            })
        };
        bench.propose(&rotates(&Arc::default()));
        bench.compute_all();
        assert_eq!(bench.states(), ["kept"]);
        assert_eq!(bench.hosts[1].info.m_key, if is_stored_late { 0 } else { 7 });
        bench.propose(&rotates(&hopeless(0)));
        let changed = bench.sm.policy_changes().last().unwrap().changed.clone();
        assert_eq!(*changed, ["routing.engines"], "the key is that of the policy in force");
        bench.compute_all();
        assert_eq!(bench.states(), ["kept", "rolled_back"]);
        if is_stored_late {
            bench.is_full = false;
            let id = bench.asked;
            bench.hand(Input::Persisted { id });
            bench.compute_all();
        }
        assert_eq!(bench.hosts[1].info.m_key, 7, "stored late: {is_stored_late}");
        assert_eq!(bench.sm.view().policy.unwrap().m_key, 7);
    }
}

/// A manager that was started with the proposed policy asks with its key before ports get it. Without the SM_Key it
/// would become master as well.
#[test]
fn a_manager_with_the_proposed_m_key_is_shown_the_sm_key() {
    let with_key = |m_key| {
        Arc::new(Policy {
            m_key,
            m_key_protect: 1,
            ..Policy::default()
        })
    };
    let mut bench = Bench::at_rest();
    bench.propose(&with_key(7));
    bench.compute_all();
    bench.until_due();
    assert_eq!(bench.hosts.map(|host| host.info.m_key), [7; 2]);
    let shown = |bench: &mut Bench, m_key: u64| {
        let route = selvedge_wire::DirectedRoute::LOCAL;
        let mut mad = Mad::directed(Method::Get, AttributeId::SM_INFO, 0, &route);
        mad.set_m_key(m_key);
        let address = Address::DIRECTED;
        let mut out = Vec::new();
        let input = Input::Received(Datagram { address, mad });
        bench.sm.handle(bench.now, input, &mut out);
        let mut answers = out.iter().filter_map(|output| match output {
            Output::Send { datagram, .. } => datagram.mad.read::<SmInfo>().ok(),
            _ => None,
        });
        answers.next().unwrap().sm_key
    };
    let sm_key = bench.sm.config.sm_key;
    assert!(sm_key != 0);
    assert_eq!([7, 8].map(|key| shown(&mut bench, key)), [sm_key, 0]);
    bench.propose(&with_key(8));
    assert_eq!(bench.sm.keys.wanted(), selvedge_types::SecretKey::new(7));
    assert_eq!([7, 8, 0].map(|key| shown(&mut bench, key)), [sm_key, sm_key, 0]);
    // Without a key, nothing will be guarded.
    bench.propose(&with_key(0));
    assert_eq!([7, 8, 0].map(|key| shown(&mut bench, key)), [sm_key, 0, sm_key]);
}
