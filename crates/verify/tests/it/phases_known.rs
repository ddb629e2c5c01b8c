//! Transitions with a known answer.

use crate::support;
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Installed, Lids, LostLink, ServiceLevels, SlToVl, Tables, changes};
use selvedge_sim::Par;
use selvedge_types::{Lid, PortState, Sl};
use selvedge_verify::phases::{
    Era, Links, PhaseFault, PhaseOptions, PhaseStep, Proposal, StandingTurns, TransitionProof, TransitionRefusal,
    Write, drain_bound_ns, needs_wait, prove,
};
use selvedge_verify::{Severity, Sources, Subject, Traffic};

const DRAIN_NS: u64 = 1_000_000_000;

fn options() -> PhaseOptions {
    PhaseOptions {
        drain_ns: Some(DRAIN_NS),
        ..PhaseOptions::default()
    }
}

/// A fabric with tables, everything on one lane.
struct Bench {
    fabric: Fabric,
    lids: Lids,
    tables: Tables,
    levels: ServiceLevels,
    lanes: SlToVl,
}

impl Bench {
    fn new(fabric: Fabric, tables: impl Fn(&Fabric, &Lids) -> Tables) -> Self {
        let lids = support::lids(&fabric, 0);
        Self {
            tables: tables(&fabric, &lids),
            fabric,
            lids,
            levels: ServiceLevels::default(),
            lanes: SlToVl::modulo(4),
        }
    }

    fn subject(&self) -> Subject<'_> {
        Subject::tables(&self.fabric, &self.lids, &self.tables, &self.levels, &self.lanes)
    }

    fn prove(&self, steps: Vec<PhaseStep>) -> Result<TransitionProof, Box<TransitionRefusal>> {
        prove(self.subject(), None, &proposal(steps), &options())
    }

    /// Egress port of a switch towards another.
    fn way(&self, from: u32, to: u32) -> u8 {
        let ways = support::neighbours(&self.fabric, SwitchIdx(from));
        ways.into_iter().find(|(_, next)| next.0 == to).unwrap().0.get()
    }

    /// The first host's LID at a switch.
    fn host_lid(&self, leaf: u32) -> Lid {
        let at_leaf = |(_, at): &(Lid, PortRef)| {
            self.fabric.switch_index(at.node).is_none()
                && self.fabric.switch_index(self.fabric.peer(*at).unwrap().node) == Some(SwitchIdx(leaf))
        };
        self.lids.by_lid().find(at_leaf).unwrap().0
    }

    /// Switch `from` is to send packets for the host at `leaf` to switch `to`.
    fn turn(&self, from: u32, leaf: u32, to: u32) -> Write {
        Write {
            switch: SwitchIdx(from),
            lid: self.host_lid(leaf),
            egress: self.way(from, to),
        }
    }

    /// Returns all differences from other tables.
    fn towards(&self, after: &Tables) -> Vec<Write> {
        let lids = self.lids.by_lid().map(|(lid, _)| lid);
        let all = lids.flat_map(|lid| self.fabric.switches().indices().map(move |switch| (switch, lid)));
        let differ = all.filter(|&(switch, lid)| self.tables.get(switch, lid) != after.get(switch, lid));
        differ
            .map(|(switch, lid)| Write {
                switch,
                lid,
                egress: after.get(switch, lid),
            })
            .collect()
    }
}

fn at_once(writes: Vec<Write>) -> PhaseStep {
    PhaseStep {
        wait_before_ns: 0,
        writes,
    }
}

fn after_wait(writes: Vec<Write>) -> PhaseStep {
    PhaseStep {
        wait_before_ns: DRAIN_NS,
        writes,
    }
}

fn proposal<'a>(steps: Vec<PhaseStep>) -> Proposal<'a> {
    Proposal {
        steps,
        ..Proposal::default()
    }
}

fn dropped(writes: &[Write]) -> Vec<Write> {
    writes.iter().map(|&write| Write { egress: 255, ..write }).collect()
}

fn updown(root: u32) -> impl Fn(&Fabric, &Lids) -> Tables {
    move |fabric, lids| support::updown(fabric, lids, SwitchIdx(root))
}

fn torus(side: usize) -> Fabric {
    let mut net = support::Net::new((side * side) as u64, 8);
    for i in 0..side * side {
        net.link(i, i / side * side + (i + 1) % side);
        net.link(i, (i + side) % (side * side));
    }
    (0..side * side).for_each(|i| {
        net.host(i);
    });
    net.finish(PortState::Active)
}

fn first(refused: Result<TransitionProof, Box<TransitionRefusal>>) -> (u32, PhaseFault) {
    let refusal = refused.unwrap_err();
    assert_eq!(refusal.findings[0].severity, Severity::Error);
    let first = refusal.findings.into_iter().next().unwrap();
    (first.step, first.fault)
}

/// Nothing to do: only the tables in force are judged. Up-then-down passes on a ring with one lane; shortest paths (as
/// in minhop, and in dnup with hosts everywhere) do not.
#[test]
fn tables_in_force() {
    for switches in 3..9 {
        let proof = Bench::new(support::ring(switches, 1), updown(0))
            .prove(Vec::new())
            .unwrap();
        assert_eq!(
            (proof.figures.steps.len(), proof.figures.turns_max, proof.warnings.len()),
            (0, 0, 0)
        );
    }
    for switches in 5..9 {
        let bench = Bench::new(support::ring(switches, 1), support::minhop);
        let (step, fault) = first(bench.prove(Vec::new()));
        assert_eq!(step, 0);
        let PhaseFault::MixedCycle {
            traffic: Traffic::Hosts,
            length,
            ghosts: 0,
        } = fault
        else {
            panic!("{fault}")
        };
        assert_eq!(length as usize, switches);
    }
}

/// A transition away from tables that can deadlock: the old fault is reported, and whether it ends with the wait.
#[test]
fn away_from_a_cycle() {
    let bench = Bench::new(support::ring(6, 1), support::minhop);
    let writes = bench.towards(&updown(0)(&bench.fabric, &bench.lids));
    let steps = vec![at_once(dropped(&writes)), after_wait(writes.clone())];
    let refusal = bench.prove(steps).unwrap_err();
    assert!(refusal.is_inherited(0) && refusal.findings.len() == 1, "{refusal}");
    // Half of it leaves a cycle after the wait too.
    let few = writes[..1].to_vec();
    let refusal = bench.prove(vec![at_once(dropped(&few)), after_wait(few)]).unwrap_err();
    assert!(!refusal.is_inherited(0), "{refusal}");
    assert_eq!(refusal.findings.iter().map(|f| f.step).collect::<Vec<_>>(), [0, 2]);
}

/// Another root: in one step there is a cycle. With entries dropped first, one wait before the new ones is needed, and
/// no other.
#[test]
fn another_root_needs_a_wait() {
    let check = |name: &str, fabric: Fabric, root: u32| {
        let bench = Bench::new(fabric, updown(0));
        let writes = bench.towards(&updown(root)(&bench.fabric, &bench.lids));
        let (step, _) = first(bench.prove(vec![at_once(writes.clone())]));
        assert_eq!(step, 1, "{name}");
        let steps = vec![at_once(dropped(&writes)), at_once(writes.clone())];
        let refusal = bench.prove(steps.clone()).unwrap_err();
        let (ghosts, named) = refusal
            .findings
            .iter()
            .fold((0, 0), |sum, finding| match finding.fault {
                PhaseFault::MixedCycle { ghosts, .. } => {
                    let eras = finding.witness.iter().filter(|step| step.era == Era::Ghost);
                    (sum.0 + ghosts, sum.1 + eras.count() as u32)
                }
                _ => sum,
            });
        assert!(ghosts > 0 && ghosts == named, "{name}: {refusal}");
        let waits = needs_wait(bench.subject(), None, &proposal(steps), &options()).unwrap();
        assert_eq!(waits, [2], "{name}");
        let steps = vec![
            after_wait(dropped(&writes)),
            after_wait(writes.clone()),
            after_wait(Vec::new()),
        ];
        let figures = bench.prove(steps.clone()).unwrap().figures;
        assert_eq!(
            (figures.waits, figures.waits_spare),
            (vec![1, 2, 3], vec![1, 3]),
            "{name}"
        );
        assert_eq!(figures.lost, Sources::default(), "{name}");
        assert!(
            figures.steps[0].live_dropped.hosts > 0 && figures.steps[2].live_dropped.hosts == 0,
            "{name}"
        );
        assert_eq!(
            (figures.entries, figures.blocks_rewritten),
            (2 * writes.len() as u64, 0),
            "{name}"
        );
        // Half the time is no wait.
        let mut short = steps;
        short[1].wait_before_ns = DRAIN_NS / 2;
        assert!(bench.prove(short).is_err(), "{name}");
    };
    check("ring", support::ring(6, 1), 3);
    check("ring", support::ring(7, 2), 3);
    check("torus", torus(3), 4);
    check("torus", torus(4), 10);
}

/// Sources may use the old or the new service level until their next query: both lanes count.
#[test]
fn another_lane() {
    let mut bench = Bench::new(support::ring(6, 1), updown(0));
    bench.levels = ServiceLevels::PerDestination(vec![Sl::new(0).unwrap(); 32]);
    let after = ServiceLevels::PerDestination(vec![Sl::new(1).unwrap(); 32]);
    // The same tables on two lanes: each lane is as free of cycles as the other.
    let only_lanes = Proposal {
        service_levels: Some(&after),
        ..Proposal::default()
    };
    let proof = prove(bench.subject(), None, &only_lanes, &options()).unwrap();
    assert_eq!(proof.figures.lids, bench.lids.by_lid().count() as u64);
    // Other tables at the same time are mixed on both lanes.
    let writes = bench.towards(&updown(3)(&bench.fabric, &bench.lids));
    let both = Proposal {
        steps: vec![at_once(writes)],
        ..only_lanes
    };
    assert!(prove(bench.subject(), None, &both, &options()).is_err());
}

/// Four leaves (0-3), two spines (4, 5). Spine 4 has lost its link to leaf 0, so it sends to leaf 2, and that to spine
/// 5: upward in plane number. Spine 5 doing the same through leaf 3 and spine 4 is the opposing detour.
fn detour(bench: &Bench, spine: u32, other: u32, through: u32, leaf: u32) -> [Vec<Write>; 2] {
    [
        vec![bench.turn(through, leaf, other)],
        vec![bench.turn(spine, leaf, through)],
    ]
}

/// Every leaf sends what is for leaf 0 to spine 4, what is for leaf 1 to spine 5.
fn crossed() -> Bench {
    let mut bench = Bench::new(support::tree(4, 2, 2), updown(4));
    for (leaf, spine) in [(0, 4), (1, 5)] {
        for from in (0..4).filter(|from| *from != leaf) {
            let write = bench.turn(from, leaf, spine);
            bench.tables.set(write.switch, write.lid, write.egress);
        }
        let other = 9 - spine;
        let write = bench.turn(spine, leaf, leaf);
        bench.tables.set(write.switch, write.lid, write.egress);
        let write = bench.turn(other, leaf, leaf);
        bench.tables.set(write.switch, write.lid, write.egress);
    }
    bench
}

#[test]
fn detours_upward_pass_and_opposing_ones_do_not() {
    let bench = crossed();
    let [before, turn] = detour(&bench, 4, 5, 2, 0);
    let upward = bench
        .prove(vec![at_once(before.clone()), at_once(turn.clone())])
        .unwrap();
    assert_eq!(upward.figures.steps[0].live_dropped, Sources::default());
    assert_eq!(upward.figures.steps[1].live_dropped, Sources::default());
    assert_eq!(upward.figures.lifetimes_max, 0, "nothing to wait for");
    // The spine first: its packets come back.
    let both = || before.iter().chain(&turn).copied().collect();
    for steps in [
        vec![at_once(both())],
        vec![at_once(turn.clone()), at_once(before.clone())],
    ] {
        let (step, fault) = first(bench.prove(steps));
        let PhaseFault::MixedLoop {
            traffic: Traffic::Hosts,
            lid,
            switches,
            ..
        } = fault
        else {
            panic!("{fault}")
        };
        assert_eq!((step, lid, switches.len()), (1, bench.host_lid(0), 2));
    }
    // The opposing detour, after the first: no step helps, no wait helps.
    let [other_before, other_turn] = detour(&bench, 5, 4, 3, 1);
    let steps: Vec<PhaseStep> = [before, turn, other_before, other_turn].map(at_once).into();
    let (step, fault) = first(bench.prove(steps.clone()));
    assert!(
        matches!(
            fault,
            PhaseFault::MixedCycle {
                traffic: Traffic::Hosts,
                ghosts: 0,
                ..
            }
        ),
        "{fault}"
    );
    assert_eq!(step, 4);
    assert!(needs_wait(bench.subject(), None, &proposal(steps), &options()).is_err());
}

/// Leaves 0 and 1, two switches above both (2, 3), a top (4) above those. Switch 2 loses its link to leaf 0: it can
/// only go up, which is safe once the top no longer sends down to it.
#[test]
fn down_turns_up_when_those_above_have_moved() {
    let mut net = support::Net::new(5, 8);
    net.link(0, 2)
        .link(0, 3)
        .link(1, 2)
        .link(1, 3)
        .link(2, 4)
        .link(3, 4)
        .host(0)
        .host(1)
        .host(4);
    let mut bench = Bench::new(net.finish(PortState::Active), updown(4));
    for (from, to) in [(1, 2), (4, 2), (2, 0), (3, 0)] {
        let write = bench.turn(from, 0, to);
        bench.tables.set(write.switch, write.lid, write.egress);
    }
    let (above, turning) = (vec![bench.turn(4, 0, 3)], vec![bench.turn(2, 0, 4)]);
    let check = |steps: Vec<PhaseStep>, want: Option<u32>| match bench.prove(steps) {
        Ok(_) => assert_eq!(want, None),
        refused => {
            let (step, fault) = first(refused);
            assert!(
                matches!(&fault, PhaseFault::MixedLoop { switches, .. } if switches.len() == 2),
                "{fault}"
            );
            assert_eq!(Some(step), want);
        }
    };
    let both = above.iter().chain(&turning).copied().collect();
    check(vec![at_once(both)], Some(1));
    check(vec![at_once(turning.clone()), at_once(above.clone())], Some(1));
    check(vec![at_once(above), at_once(turning)], None);
}

/// A link that went down carries nothing, in a standing graph from before too.
#[test]
fn dead_links_carry_nothing() {
    // Shortest ways on a ring are cyclic, but not once a cable is out.
    let build = |down: bool| {
        let mut net = support::Net::new(6, 8);
        (0..6).for_each(|i| {
            net.link(i, (i + 1) % 6);
        });
        (0..6).for_each(|i| {
            net.host(i);
        });
        if down {
            net.down(0, support::port(1));
        }
        net.finish(PortState::Active)
    };
    let whole = Bench::new(build(false), support::minhop);
    assert!(whole.prove(Vec::new()).is_err());
    let standing = StandingTurns::new(whole.subject(), Links::Active, Par::Sequential);
    let damaged = Bench {
        fabric: build(true),
        ..whole
    };
    for standing in [None, Some(&standing)] {
        let proof = prove(damaged.subject(), standing, &Proposal::default(), &options()).unwrap();
        assert_eq!(proof.warnings, []);
    }
}

/// A link that is trained but not ACTIVE carries nothing, unless the transition activates it.
#[test]
fn links_that_are_not_active() {
    let mut net = support::Net::new(6, 8);
    (0..6).for_each(|i| {
        net.link(i, (i + 1) % 6).host(i);
    });
    let bench = Bench::new(net.finish(PortState::Armed), support::minhop);
    assert!(bench.prove(Vec::new()).is_ok());
    let trained = PhaseOptions {
        links: Links::Trained,
        ..options()
    };
    assert!(prove(bench.subject(), None, &Proposal::default(), &trained).is_err());
}

/// Cycles of traffic only between switches are warnings.
#[test]
fn switches_among_themselves() {
    let bench = Bench::new(support::tree(4, 3, 2), support::minhop);
    let warnings = bench.prove(Vec::new()).unwrap().warnings;
    assert_eq!(
        (warnings.len(), warnings[0].severity, warnings[0].step),
        (1, Severity::Warning, 0)
    );
    let strict = PhaseOptions {
        switch_pairs: Severity::Error,
        ..options()
    };
    assert!(prove(bench.subject(), None, &Proposal::default(), &strict).is_err());
}

#[test]
fn writes_that_make_no_sense() {
    let bench = Bench::new(support::ring(4, 1), updown(0));
    let lid = bench.host_lid(2);
    let write = |switch: u32, egress: u8| Write {
        switch: SwitchIdx(switch),
        lid,
        egress,
    };
    let check = |writes: Vec<Write>, want: &str| {
        let refusal = bench.prove(vec![at_once(Vec::new()), at_once(writes)]).unwrap_err();
        assert_eq!(
            (refusal.findings[0].code, refusal.findings[0].step),
            (want, 2),
            "{refusal}"
        );
    };
    check(vec![write(1, 1), write(1, 2)], "SLV-JUDGE-0042");
    check(vec![write(9, 1)], "SLV-JUDGE-0043");
    // The same write twice counts once. A LID without an owner, a port that does not exist: packets are dropped.
    assert!(bench.prove(vec![at_once(vec![write(1, 77), write(1, 77)])]).is_ok());
    let nobody = Write {
        lid: Lid(900),
        ..write(1, 1)
    };
    assert_eq!(bench.prove(vec![at_once(vec![nobody])]).unwrap().figures.entries, 1);
}

/// The phases of a change set: a new manager's tables over those of another.
#[test]
fn change_sets() {
    let bench = Bench::new(support::ring(6, 1), updown(0));
    let plan = support::plan(&bench.fabric, bench.lids.clone(), updown(3)(&bench.fabric, &bench.lids));
    let mut installed = Installed::unknown(6);
    for switch in bench.fabric.switches().indices() {
        installed.learn(switch, 0, *bench.tables.block(switch, 0));
    }
    let set = changes(&bench.fabric, &installed, &plan);
    let proposed = Proposal::of_changes(&bench.fabric, &bench.tables, &set);
    let mut writes = bench.towards(&plan.tables);
    writes.sort();
    let mut got = proposed.steps[0].writes.clone();
    got.sort();
    assert_eq!((proposed.steps.len(), got), (1, writes));
    assert!(prove(bench.subject(), None, &proposed, &options()).is_err());
}

#[test]
fn drain_bounds() {
    let check =
        |lifetimes: &[u8], switches, want| assert_eq!(drain_bound_ns(lifetimes.iter().copied(), switches), want);
    check(&[18], 1, Some(1_073_741_824));
    check(&[16, 18, 0], 5, Some(5_368_709_120));
    check(&[0], 3, Some(12_288));
    check(&[18, 20], 3, None);
    check(&[31], 0, None);
}

#[test]
fn words() {
    let bench = crossed();
    let [before, turn] = detour(&bench, 4, 5, 2, 0);
    let refusal = bench.prove(vec![at_once(turn), at_once(before)]).unwrap_err();
    let text = refusal.to_string();
    for want in [
        "SLV-JUDGE-0201",
        "SLV-JUDGE-0041",
        "in step 1",
        "\"s4\" >",
        "\"s2\" >",
        "write the switch nearest",
    ] {
        assert!(text.contains(want), "{text} has no {want}");
    }
    let bench = Bench::new(support::ring(6, 1), updown(0));
    let writes = bench.towards(&updown(3)(&bench.fabric, &bench.lids));
    let refusal = bench
        .prove(vec![at_once(dropped(&writes)), at_once(writes)])
        .unwrap_err();
    let text = refusal.to_string();
    for want in [
        "SLV-JUDGE-0040",
        "in step 2",
        "of them from earlier steps; let packets drain",
    ] {
        assert!(text.contains(want), "{text} has no {want}");
    }
    let step = refusal.findings[0]
        .witness
        .iter()
        .find(|step| step.era == Era::Ghost)
        .unwrap();
    assert!(step.to_string().starts_with("still draining: \"s"), "{step}");
    let json = serde_json::to_string(&refusal).unwrap();
    assert!(
        json.contains("\"kind\":\"mixed_cycle\"") && json.contains("\"era\":\"ghost\""),
        "{json}"
    );
}

/// Packets of a host that has left are in its former switch. Until a wait, they leave it by any entry written there, in
/// any step.
#[test]
fn what_crossed_a_lost_link_meets_every_step_until_a_wait() {
    let mut net = support::Net::new(4, 8);
    (0..4).for_each(|i| {
        net.link(i, (i + 1) % 4);
    });
    (0..3).for_each(|i| {
        net.host(i);
    });
    let mut bench = Bench::new(net.finish(PortState::Active), |fabric, lids| {
        Tables::new(fabric.switches().len(), lids.top())
    });
    let of_switch = |switch: u32| {
        let node = bench.fabric.switches()[SwitchIdx(switch)];
        bench.lids.by_lid().find(|(_, at)| at.node == node).unwrap().0
    };
    let (near, far) = (of_switch(1), of_switch(3));
    // Three of the four turns round the ring, and the way to switch 1, which from switch 3 leads back.
    let (first, last) = (bench.host_lid(0), bench.host_lid(2));
    let round = [
        (0, last, 1),
        (1, last, 2),
        (1, far, 2),
        (2, far, 3),
        (2, first, 3),
        (3, first, 0),
    ];
    for (from, lid, to) in round.into_iter().chain([(0, near, 1), (2, near, 1), (3, near, 2)]) {
        let egress = bench.way(from, to);
        bench.tables.set(SwitchIdx(from), lid, egress);
    }
    let step = |egress: u8| {
        vec![Write {
            switch: SwitchIdx(3),
            lid: near,
            egress,
        }]
    };
    let check = |is_host_gone: bool, waits: bool, want: bool| {
        let lost = LostLink {
            from: None,
            port: 1,
            to: SwitchIdx(3),
            into: 5,
        };
        let options = PhaseOptions {
            lost: is_host_gone.then_some(lost).into_iter().collect(),
            ..options()
        };
        let turned = step(bench.way(3, 0));
        let turned = if waits { after_wait(turned) } else { at_once(turned) };
        let steps = vec![at_once(step(255)), turned];
        let proof = prove(bench.subject(), None, &proposal(steps), &options);
        assert_eq!(proof.is_ok(), want, "{is_host_gone} {waits}");
    };
    // Only the agent of switch 3 sends there: a warning.
    check(false, false, true);
    check(true, false, false);
    check(true, true, true);
}
