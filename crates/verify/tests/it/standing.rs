//! After every change, a standing proof gives the result of a full judgement, at a cost proportional to the change.

use crate::support;
use selvedge_fabric::{Fabric, LinkState, PortRef, SwitchIdx};
use selvedge_plan::{ChangeSet, Installed, Op, Phase, Plan, ServiceLevels, SlToVl, changes};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_types::{Lid, PhysState, PortNum, PortState, Sl};
use selvedge_verify::standing::{
    self, Change, Entry, LinkChange, Proof, Replaced, Standing, StandingError, Turn, Work,
};
use selvedge_verify::{Fault, JudgeOptions, Subject, Traffic, Verdict, Witness, judge, verify};

fn judged(fabric: &Fabric, plan: &Plan) -> Verdict {
    verify(Subject::plan(fabric, plan), &JudgeOptions::default())
}

fn cycle_of(verdict: &Verdict) -> Option<Traffic> {
    verdict.findings.iter().find_map(|finding| match finding.fault {
        Fault::Cycle { traffic, .. } => Some(traffic),
        _ => None,
    })
}

/// Compares what is proved with what the judge says of the same tables.
fn compare(proof: &Proof, verdict: &Verdict, what: &str) {
    let figures = &verdict.figures;
    assert_eq!(proof.host_pairs_reached, figures.host_pairs_reached, "{what}");
    let pairs = figures.pairs;
    let is_lossless = pairs.black_hole + pairs.misdelivered + pairs.apart + pairs.looped == 0;
    assert_eq!(proof.dead_ends == 0, is_lossless, "{what}: {proof:?} {pairs:?}");
    if !is_lossless {
        return;
    }
    assert_eq!(proof.lost, 0, "{what}");
    assert_eq!(proof.load, figures.load, "{what}");
    assert_eq!(proof.lanes, figures.lanes, "{what}");
    assert!((proof.hops_mean - figures.hops_mean).abs() < 1e-9, "{what}");
    let cycle = match cycle_of(verdict) {
        Some(Traffic::Hosts | Traffic::Agents) => Some(Traffic::Agents),
        other => other,
    };
    assert_eq!(proof.cyclic, cycle, "{what}");
    assert_eq!(proof.holds(), verdict.is_ok(), "{what}");
}

/// A random graph, up and down or shortest paths, destinations spread over up to four lanes; some LIDs have no owner.
fn start(rng: &mut Rng) -> (Fabric, Plan) {
    let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
    let switches = 2 + below(12);
    let fabric = match below(10) {
        0 => support::wide(66 + below(60), 3 + below(9)),
        _ => support::random(switches, below(2 * switches), 1 + below(12), 0, &mut below),
    };
    let switches = fabric.switches().len();
    let lids = support::lids(&fabric, u8::from(below(4) == 0));
    let tables = match below(3) {
        0 => support::minhop(&fabric, &lids),
        _ => support::updown(&fabric, &lids, SwitchIdx(below(switches) as u32)),
    };
    let (mut fabric, mut lids) = (fabric, lids);
    if below(3) == 0 {
        let is_host = |at: &PortRef| !fabric.node(at.node).is_switch();
        let hosts: Vec<PortRef> = lids.iter().map(|(at, _)| at).filter(is_host).collect();
        for at in hosts.into_iter().filter(|_| below(3) == 0) {
            lids.remove(at).unwrap();
            set_link(&mut fabric, at, false);
        }
    }
    let mut plan = support::plan(&fabric, lids, tables);
    let lanes = 1 + below(4) as u8;
    let mut level = |_| Sl::new(below(4) as u8).unwrap();
    let levels: Vec<Sl> = (0..=plan.lids.top().0).map(&mut level).collect();
    plan.service_levels = match level(0).get() {
        // Only then LIDs without an owner count.
        0 | 1 => ServiceLevels::Uniform(levels[0]),
        _ => ServiceLevels::PerDestination(levels),
    };
    plan.sl_to_vl = SlToVl::modulo(lanes);
    (fabric, plan)
}

fn set_link(fabric: &mut Fabric, at: PortRef, is_up: bool) {
    let peer = fabric.peer(at).unwrap();
    for end in [at, peer] {
        let port = fabric.port(end).unwrap();
        let (mut link, settings) = (port.link, port.settings);
        link = match is_up {
            true => LinkState {
                state: PortState::Active,
                phys: PhysState::LinkUp,
                ..link
            },
            false => LinkState {
                state: PortState::Down,
                phys: PhysState::Polling,
                ..link
            },
        };
        fabric.set_port(end, link, settings);
    }
}

/// A change: a link goes down or comes back, some entries change, or whole LIDs get other paths.
fn change(rng: &mut Rng, fabric: &mut Fabric, plan: &mut Plan) -> Change {
    let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
    let mut change = Change::default();
    let links: Vec<PortRef> = fabric.links().map(|link| link.a).collect();
    let at = links[below(links.len())];
    let between = |end: PortRef| fabric.switch_index(end.node);
    if let (Some(switch), Some(_), 0) = (between(at), fabric.peer(at).and_then(between), below(3)) {
        let is_up = !fabric.link_is_up(at);
        set_link(fabric, at, is_up);
        let port = at.port;
        change.links.push(LinkChange { switch, port, is_up });
    }
    let before = plan.tables.clone();
    match below(4) {
        // As an engine would after it: all that is needed, maybe more.
        0 => plan.tables = support::updown(fabric, &plan.lids, SwitchIdx(0)),
        1 => plan.tables = support::minhop(fabric, &plan.lids),
        _ => {
            for _ in 0..below(5) {
                let switch = SwitchIdx(below(fabric.switches().len()) as u32);
                let lid = Lid(1 + below(plan.lids.top().index()) as u16);
                let ways = support::neighbours(fabric, switch);
                let egress = match below(8) {
                    0 => [0, 255, 200][below(3)],
                    _ if ways.is_empty() => 255,
                    _ => ways[below(ways.len())].0.get(),
                };
                plan.tables.set(switch, lid, egress);
            }
        }
    }
    for switch in fabric.switches().indices() {
        for lid in (1..=plan.tables.top().0).map(Lid) {
            let egress = plan.tables.get(switch, lid);
            if egress != before.get(switch, lid) {
                change.entries.push(Entry { switch, lid, egress });
            }
        }
    }
    change
}

/// Returns a random turn; some of its ports lead nowhere.
fn any_turn(rng: &mut Rng, fabric: &Fabric) -> Turn {
    let mut port = || PortNum::new(rng.below(8) as u8).unwrap();
    Turn {
        port: port(),
        onward: port(),
        switch: SwitchIdx(rng.below(1 + fabric.switches().len() as u64) as u32),
    }
}

#[test]
fn says_what_a_full_judgement_says() {
    let (mut steps, mut sound, mut cyclic, mut circles, mut alike) = (0, 0, 0, 0, 0);
    for case in 0..150 {
        let mut rng = Seed(5).child("standing").nth(case).rng();
        let (mut fabric, mut plan) = start(&mut rng);
        let par = if case % 2 == 0 { Par::Sequential } else { Par::Rayon };
        let mut standing = match Standing::new(Subject::plan(&fabric, &plan), par) {
            Ok(standing) => standing,
            Err(error) => panic!("case {case}: {error}"),
        };
        compare(&standing.proof(), &judged(&fabric, &plan), &format!("case {case}"));
        for step in 0..40 {
            let what = format!("case {case}, step {step}");
            // A LID without an owner is followed if it has an entry when the proof is made.
            let is_somebodys = |lid: u16| plan.lids.owner(Lid(lid)).is_some();
            let anew = Standing::new(Subject::plan(&fabric, &plan), Par::Sequential).ok();
            if let Some(anew) = anew.filter(|_| (1..=plan.tables.top().0).all(is_somebodys)) {
                let is_row = |s: SwitchIdx| (0..plan.tables.blocks()).all(|b| anew.row(s, b) == standing.row(s, b));
                // Entries beyond the last LID are dropped when tables are made, and stay in the proof.
                let are_rows = fabric.switches().indices().all(is_row);
                assert_eq!(anew.state() == standing.state(), are_rows, "{what}");
                alike += u32::from(are_rows);
            }
            if case % 2 == 0 && rng.below(4) == 0 {
                let turns = (0..rng.below(40)).map(|_| any_turn(&mut rng, &fabric));
                standing.make_room_for(turns.collect::<Vec<_>>());
            }
            let (old_fabric, old_plan, old) = (fabric.clone(), plan.clone(), standing.proof());
            let change = change(&mut rng, &mut fabric, &mut plan);
            let verdict = judged(&fabric, &plan);
            match standing.apply(&change) {
                Err(StandingError::Circle { .. }) => {
                    // Packets to a LID without an owner are not counted as lost in a loop; they are a cycle.
                    let goes_round = verdict.figures.pairs.looped > 0 || cycle_of(&verdict).is_some();
                    assert!(goes_round, "{what}");
                    assert_eq!(standing.proof(), old, "{what}: not rolled back");
                    (fabric, plan) = (old_fabric, old_plan);
                    circles += 1;
                }
                Err(error) => panic!("{what}: {error}"),
                Ok(undo) => {
                    compare(&standing.proof(), &verdict, &what);
                    if rng.below(3) == 0 {
                        let redo = standing.apply(&undo).unwrap();
                        assert_eq!(standing.proof(), old, "{what}: not undone");
                        standing.apply(&redo).unwrap();
                        compare(&standing.proof(), &verdict, &what);
                    }
                    sound += u32::from(standing.proof().holds());
                    cyclic += u32::from(standing.proof().cyclic.is_some());
                }
            }
            steps += 1;
        }
    }
    println!("{steps} steps: {sound} sound, {cyclic} cyclic, {circles} with a circle");
    assert!(sound > 500 && cyclic > 200 && circles > 200 && alike > 1_000, "{alike}");
}

/// Returns a verdict without the figures that an updated proof does not count; a cycle may be a different one.
fn comparable(verdict: &Verdict) -> Verdict {
    let mut verdict = verdict.clone();
    verdict.figures.hops = Vec::new();
    verdict.figures.hops_max = 0;
    verdict
        .findings
        .retain(|finding| !matches!(finding.fault, Fault::Cycle { .. }));
    verdict
}

#[test]
fn judges_a_plan_as_the_judge_does() {
    let options = JudgeOptions::default();
    let (mut accepted, mut mended, mut warned) = (0, 0, 0);
    for case in 0..120 {
        let mut rng = Seed(6).child("judge").nth(case).rng();
        let (mut fabric, mut plan) = start(&mut rng);
        let mut standing = Standing::new(Subject::plan(&fabric, &plan), Par::Sequential).ok();
        for step in 0..20 {
            let what = format!("case {case}, step {step}");
            let (old_fabric, old_plan) = (fabric.clone(), plan.clone());
            change(&mut rng, &mut fabric, &mut plan);
            let installed = Installed::unknown(fabric.switches().len());
            let set = changes(&fabric, &installed, &plan);
            let want = judge(&fabric, &installed, &plan, set.clone(), &options);
            let got = standing::judge(&mut standing, &fabric, &installed, &plan, set, &options);
            match (want, got) {
                (Ok(want), Ok(got)) => {
                    assert_eq!(comparable(got.verdict()), comparable(want.verdict()), "{what}");
                    accepted += 1;
                    mended += u32::from(got.verdict().figures.hops.is_empty());
                    let cycle = got
                        .verdict()
                        .findings
                        .iter()
                        .find_map(|finding| match &finding.witness {
                            Witness::Cycle(steps) => Some((&finding.fault, steps.len())),
                            _ => None,
                        });
                    if let Some((fault, steps)) = cycle {
                        assert!(
                            matches!(fault, Fault::Cycle { length, .. } if *length as usize == steps),
                            "{what}"
                        );
                        warned += 1;
                    }
                }
                (Err(want), Err(got)) => {
                    assert_eq!(comparable(&got.verdict), comparable(&want.verdict), "{what}");
                    (fabric, plan) = (old_fabric, old_plan);
                }
                (want, got) => panic!("{what}: {want:?} {got:?}"),
            }
            if standing.is_none() {
                standing = Standing::new(Subject::plan(&fabric, &plan), Par::Sequential).ok();
            }
            if let Some(standing) = &standing {
                let proof = standing.proof();
                compare(&proof, &judged(&fabric, &plan), &what);
            }
        }
    }
    println!("{accepted} accepted, {mended} of them mended, {warned} with a cycle");
    assert!(mended > 400 && warned > 20, "{mended} {warned}");
}

fn entry(switch: u32, lid: u16, egress: u8) -> Change {
    Change {
        entries: vec![Entry {
            switch: SwitchIdx(switch),
            lid: Lid(lid),
            egress,
        }],
        links: Vec::new(),
    }
}

#[test]
fn costs_what_a_change_is_worth() {
    // Trees of very different size: an entry that turns costs the entries of its neighbours and of two paths, however
    // many LIDs and switches there are.
    for (leaves, hosts) in [(4, 2), (10, 6)] {
        let fabric = support::tree(leaves, 3, hosts);
        let lids = support::lids(&fabric, 0);
        let tables = support::updown(&fabric, &lids, SwitchIdx(leaves as u32));
        let plan = support::plan(&fabric, lids, tables);
        let mut standing = Standing::new(Subject::plan(&fabric, &plan), Par::Sequential).unwrap();
        assert_eq!(standing.work(), Work::default());
        let far = fabric.end_ports().last().unwrap().0;
        let lid = plan.lids.base(far).unwrap();
        let now = plan.tables.get(SwitchIdx(0), lid);
        standing.apply(&entry(0, lid.0, if now == 1 { 2 } else { 1 })).unwrap();
        let work = standing.work();
        // Whether it comes back: 2. Itself, three neighbours. Each path: itself, the spine for the turn there, the
        // spine and the leaf for the flow.
        assert_eq!((work.entries, work.blocks), (2 + 1 + 3 + 2 * 4, 0));

        // A link: the rows of its two ends, and then what points at it, taken out and put in: 11 neighbours at most,
        // and ways of at most 4 links.
        let link = LinkChange {
            switch: SwitchIdx(0),
            port: PortNum::new(1).unwrap(),
            is_up: false,
        };
        let pointing = |switch, port| {
            let lids = plan.lids.by_lid().map(|(lid, _)| lid);
            lids.filter(|&lid| standing.entry(switch, lid) == Some(port)).count() as u64
        };
        let back = 1;
        let moved = pointing(SwitchIdx(0), 1) + pointing(SwitchIdx(leaves as u32), back);
        let change = Change {
            links: vec![link],
            entries: Vec::new(),
        };
        standing.apply(&change).unwrap();
        let cost = standing.work().entries - work.entries;
        assert_eq!(standing.work().blocks, 2 * plan.tables.blocks() as u64);
        assert!(moved > 0 && cost <= moved * 2 * (11 + 2 * 6), "{cost} for {moved}");
        assert!(!standing.proof().holds());
    }
}

#[test]
fn refuses_what_it_does_not_cover() {
    let fabric = support::ring(4, 1);
    let lids = support::lids(&fabric, 0);
    let tables = support::minhop(&fabric, &lids);
    let good = support::plan(&fabric, lids, tables);
    let check = |edit: &dyn Fn(&mut Plan), want: &str| {
        let mut plan = good.clone();
        edit(&mut plan);
        match Standing::new(Subject::plan(&fabric, &plan), Par::Sequential) {
            Ok(_) => assert_eq!(want, ""),
            Err(error) => assert!(error.to_string().contains(want), "{error} is not {want}"),
        }
    };
    check(&|_| {}, "");
    check(
        &|plan| plan.service_levels = ServiceLevels::Uniform(Sl::new(9).unwrap()),
        "",
    );
    check(
        &|plan| plan.sl_to_vl.default = [selvedge_types::Vl::new(8).unwrap(); Sl::COUNT],
        "SLV-JUDGE-0300",
    );
    check(&|plan| plan.switches[SwitchIdx(1)].linear_top = 3, "SLV-JUDGE-0302");
    check(
        &|plan| {
            let (a, b) = (SwitchIdx(0), SwitchIdx(1));
            let way = |from, to| {
                let ways = support::neighbours(&fabric, from);
                ways.into_iter().find(|way| way.1 == to).unwrap().0.get()
            };
            let lid = plan.lids.top();
            plan.tables.set(a, lid, way(a, b));
            plan.tables.set(b, lid, way(b, a));
        },
        "SLV-JUDGE-0303",
    );
    let mut standing = Standing::new(Subject::plan(&fabric, &good), Par::Sequential).unwrap();
    let link = |port| Change {
        links: vec![LinkChange {
            switch: SwitchIdx(0),
            port: PortNum::new(port).unwrap(),
            is_up: false,
        }],
        entries: Vec::new(),
    };
    for (change, want) in [
        (entry(4, 1, 1), "SLV-JUDGE-0305"),
        (entry(0, 9_999, 1), "SLV-JUDGE-0305"),
        (link(0), "SLV-JUDGE-0306"),
        (link(3), "SLV-JUDGE-0306"),
        (link(200), "SLV-JUDGE-0306"),
    ] {
        let error = standing.apply(&change).unwrap_err();
        assert!(error.to_string().contains(want), "{error} is not {want}");
    }
}

/// Three switches in a ring with a host each. For the host at `c`, `a` sent to `b` until a first phase; since a second
/// one `b` sends to `a`. A packet that `b` sends to `a` arrives too late for the old entry of `a`. If the times were
/// unknown, packets could loop between them. Now `b` is to send directly again.
#[test]
fn packets_meet_only_entries_that_were_in_force_later() {
    let fabric = support::ring(3, 1);
    let lids = support::lids(&fabric, 0);
    let tables = support::minhop(&fabric, &lids);
    let mut plan = support::plan(&fabric, lids, tables);
    let [a, b, c] = [0, 1, 2].map(SwitchIdx);
    let towards = |from, to| {
        let ways = support::neighbours(&fabric, from);
        ways.into_iter().find(|way| way.1 == to).unwrap().0.get()
    };
    let host = fabric.peer(PortRef {
        node: fabric.switches()[c],
        port: support::port(3),
    });
    let lid = plan.lids.base(host.unwrap()).unwrap();
    assert_eq!(plan.tables.get(a, lid), towards(a, c));
    plan.tables.set(b, lid, towards(b, a));
    let verdict = judged(&fabric, &plan);
    assert!(verdict.is_ok(), "{verdict:?}");
    let mut wanted = plan.tables.clone();
    wanted.set(b, lid, towards(b, c));
    let write = Op::Lft {
        node: fabric.switches()[b],
        block: 0,
        data: *wanted.block(b, 0),
    };
    let changes = one_step(&plan, vec![write]);
    let entry = |switch, to| Entry {
        switch,
        lid,
        egress: towards(switch, to),
    };
    let check = |left: &[Replaced], is_safe: bool| {
        let standing = Standing::new(Subject::plan(&fabric, &plan), Par::Sequential).unwrap();
        let mut prepared = standing.clone();
        prepared.prepare_for(left);
        for mut standing in [standing, prepared] {
            let judged = standing::judge_repair(&mut standing, &fabric, &[], changes.clone(), left, &verdict);
            assert_eq!(judged.is_some(), is_safe, "{left:?}");
        }
    };
    let old = |entry, since, until| Replaced {
        entry,
        since,
        until,
        is_emptied: false,
    };
    check(&[], true);
    check(&[old(entry(a, b), 0, 1), old(entry(b, c), 0, 2)], true);
    // In one phase, or the other way round, they may have met.
    check(&[old(entry(a, b), 0, 2), old(entry(b, c), 0, 2)], false);
    check(&[old(entry(a, b), 0, 2), old(entry(b, c), 0, 1)], false);
    check(&[entry(a, b).into()], false);
    // Packets waiting for that link were discarded when it went down; packets that had crossed it come back to `a`, and
    // continue.
    let emptied = |old: Replaced| Replaced {
        is_emptied: true,
        ..old
    };
    check(&[emptied(entry(a, b).into())], true);
    check(&[emptied(old(entry(a, b), 0, 2)), old(entry(b, c), 0, 1)], true);
    check(&[old(entry(a, b), 0, 2), emptied(old(entry(b, c), 0, 2))], false);
    // A LID of an earlier plan that had more of them.
    let beyond = Entry {
        lid: Lid(0xBFFF),
        ..entry(a, b)
    };
    check(&[beyond.into()], false);
}

/// A change set of one step.
fn one_step(plan: &Plan, ops: Vec<Op>) -> ChangeSet {
    let phase = Phase {
        label: "change entries",
        wait_before_ns: 0,
        ops,
    };
    ChangeSet {
        generation: plan.generation,
        phases: vec![phase],
    }
}

/// Random trees with a recently changed root for some LIDs, and a lost link.
#[test]
fn what_was_prepared_of_packets_under_way_changes_no_judgement() {
    let (mut yes, mut no) = (0, 0);
    for case in 0..400 {
        let mut rng = Seed(11).child("prepared").nth(case).rng();
        let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
        let switches = 4 + below(8);
        let mut fabric = support::random(switches, switches + below(switches), 1 + below(12), 0, &mut below);
        let lids = support::lids(&fabric, 0);
        let [root, other] = [below(switches), below(switches)].map(|s| SwitchIdx(s as u32));
        let [tables, before] = [root, other].map(|root| support::updown(&fabric, &lids, root));
        let plan = support::plan(&fabric, lids, tables);
        let (verdict, shown) = (judged(&fabric, &plan), fabric.clone());
        let Ok(standing) = Standing::new(Subject::plan(&shown, &plan), Par::Sequential) else {
            continue;
        };
        let is_switch = |at: PortRef| shown.switch_index(at.node).is_some();
        let mut links = shown.links().filter(|l| is_switch(l.a) && is_switch(l.b));
        let at = links.nth(below(switches - 1)).unwrap().a;
        set_link(&mut fabric, at, false);
        let after = support::plan(&fabric, plan.lids.clone(), support::updown(&fabric, &plan.lids, root));
        let lost = LinkChange {
            switch: fabric.switch_index(at.node).unwrap(),
            port: at.port,
            is_up: false,
        };
        let mut ops = Vec::new();
        let mut left = Vec::new();
        for switch in plan.tables.switch_indices() {
            let (now, next) = (plan.tables.block(switch, 0), after.tables.block(switch, 0));
            ops.extend((now != next).then_some(Op::Lft {
                node: fabric.switches()[switch],
                block: 0,
                data: *next,
            }));
            for (lid, (&egress, &now)) in (0..).map(Lid).zip(before.block(switch, 0).iter().zip(now)) {
                if egress != now && below(3) == 0 {
                    let (since, until) = (0, 1 + below(3) as u16);
                    let entry = Entry { switch, lid, egress };
                    left.push(Replaced {
                        entry,
                        since,
                        until,
                        is_emptied: below(4) == 0,
                    });
                }
            }
        }
        let changes = one_step(&plan, ops);
        let says = |known: Option<&[Replaced]>| {
            let mut standing = standing.clone();
            known.into_iter().for_each(|known| standing.prepare_for(known));
            let judged = standing::judge_repair(&mut standing, &fabric, &[lost], changes.clone(), &left, &verdict);
            judged.is_some()
        };
        let plainly = says(None);
        // Also if something else was prepared for.
        for known in [&left[..], &left[..left.len() / 2]] {
            assert_eq!(says(Some(known)), plainly, "case {case}");
        }
        *(if plainly { &mut yes } else { &mut no }) += 1;
    }
    assert!(yes > 50 && no > 50, "{yes} {no}");
}
