//! A backup is recalled only in the state that it was judged for, and is then what was judged.

use crate::support;
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{ChangeSet, Generation, Op, Phase, Plan};
use selvedge_sim::Par;
use selvedge_types::Lid;
use selvedge_verify::standing::{Backup, Change, Entry, LinkChange, Standing, judge_repair};
use selvedge_verify::{JudgeOptions, Subject, Verdict, verify};

/// The switch at the top.
const ROOT: u32 = 2;

/// Two leaves and two spines, and a change set that routes around a link between a leaf and a spine.
struct Bench {
    fabric: Fabric,
    plan: Plan,
    verdict: Verdict,
    standing: Standing,
    links: Vec<LinkChange>,
    changes: ChangeSet,
}

fn phase(ops: Vec<Op>) -> Phase {
    Phase {
        label: "test",
        wait_before_ns: 0,
        ops,
    }
}

fn bench() -> Bench {
    let fabric = support::tree(2, 2, 2);
    let lids = support::lids(&fabric, 0);
    let tables = support::updown(&fabric, &lids, SwitchIdx(ROOT));
    let plan = support::plan(&fabric, lids, tables);
    let standing = Standing::new(Subject::plan(&fabric, &plan), Par::Sequential).unwrap();
    let verdict = verify(Subject::plan(&fabric, &plan), &JudgeOptions::default());
    assert!(verdict.is_ok(), "{:?}", verdict.errors().next());
    // The link of the second leaf to the other spine: no other path uses it, so steps need no order.
    let leaf = SwitchIdx(1);
    let node = fabric.switches()[leaf];
    let ways = support::neighbours(&fabric, leaf);
    let row = plan.tables.block(leaf, 0);
    let used = |port: u8| row.iter().filter(|egress| **egress == port).count();
    let &(port, spine) = ways.iter().min_by_key(|(port, _)| used(port.get())).unwrap();
    assert!(spine != SwitchIdx(ROOT) && used(port.get()) > 0);
    let peer = fabric.peer(PortRef { node, port }).unwrap();
    let links = [(leaf, port), (fabric.switch_index(peer.node).unwrap(), peer.port)];
    let links: Vec<LinkChange> = links
        .map(|(switch, port)| LinkChange {
            switch,
            port,
            is_up: false,
        })
        .into();
    // Up and down without it, as a whole plan.
    let mut without = fabric.clone();
    for at in [PortRef { node, port }, peer] {
        let seen = without.port(at).unwrap();
        let (mut link, settings) = (seen.link, seen.settings);
        link.state = selvedge_types::PortState::Down;
        without.set_port(at, link, settings);
    }
    let after = support::updown(&without, &plan.lids, SwitchIdx(ROOT));
    let ops = fabric.switches().iter_enumerated().filter_map(|(switch, &node)| {
        let data = *after.block(switch, 0);
        (data != *plan.tables.block(switch, 0)).then_some(Op::Lft { node, block: 0, data })
    });
    let changes = ChangeSet {
        generation: Generation(7),
        phases: vec![phase(ops.collect())],
    };
    Bench {
        fabric,
        plan,
        verdict,
        standing,
        links,
        changes,
    }
}

impl Bench {
    fn back_up(&mut self) -> Backup {
        let (state, proof) = (self.standing.state(), self.standing.proof());
        let backup = self.standing.back_up(&self.fabric, &self.links, &self.changes).unwrap();
        // Nothing is left of it.
        assert_eq!((self.standing.state(), self.standing.proof()), (state, proof));
        assert_eq!((backup.state(), backup.links()), (state, &self.links[..]));
        assert_eq!(backup.blocks().count(), self.changes.phases[0].ops.len());
        backup
    }

    fn is_recalled(&self, backup: &Backup, quiet: Vec<Op>) -> bool {
        let what = (Generation(7), phase(quiet));
        self.standing
            .recall(&self.fabric, backup, what, &self.verdict)
            .is_some()
    }
}

#[test]
fn what_is_recalled_is_what_was_judged() {
    let mut bench = bench();
    let backup = bench.back_up();
    let what = (Generation(7), phase(Vec::new()));
    let recalled = bench
        .standing
        .recall(&bench.fabric, &backup, what, &bench.verdict)
        .unwrap();
    let (fabric, changes) = (&bench.fabric, bench.changes.clone());
    let judged = judge_repair(
        &mut bench.standing.clone(),
        fabric,
        &bench.links,
        changes,
        &[],
        &bench.verdict,
    )
    .unwrap();
    assert_eq!(recalled.value(), judged.value());
    assert_eq!(recalled.verdict(), judged.verdict());
    assert_eq!(format!("{:?}", recalled.passage()), format!("{:?}", judged.passage()));
    // The proof follows, once.
    let mut other = bench.standing.clone();
    judge_repair(
        &mut other,
        fabric,
        &bench.links,
        bench.changes.clone(),
        &[],
        &bench.verdict,
    )
    .unwrap();
    assert!(bench.standing.follow(fabric, &backup));
    assert_eq!(
        (bench.standing.state(), bench.standing.proof()),
        (other.state(), other.proof())
    );
    assert!(!bench.standing.follow(fabric, &backup));
    assert!(!bench.is_recalled(&backup, Vec::new()));
}

#[test]
fn nothing_is_recalled_beside_something_else() {
    let mut bench = bench();
    let backup = bench.back_up();
    assert!(bench.is_recalled(&backup, Vec::new()));
    // An entry of a LID without an owner, and back.
    let lid = Lid(bench.plan.lids.top().0);
    let egress = bench.plan.tables.get(SwitchIdx(1), lid);
    let change = Change {
        links: Vec::new(),
        entries: vec![Entry {
            switch: SwitchIdx(1),
            lid,
            egress: 255,
        }],
    };
    let undo = bench.standing.apply(&change).unwrap();
    assert_eq!(undo.entries[0].egress, egress);
    assert!(!bench.is_recalled(&backup, Vec::new()));
    bench.standing.apply(&undo).unwrap();
    assert!(bench.is_recalled(&backup, Vec::new()));
    // Another link that is down, and back.
    let other = support::neighbours(&bench.fabric, SwitchIdx(1))[0].0;
    let change = |is_up: bool| Change {
        links: vec![LinkChange {
            switch: SwitchIdx(1),
            port: other,
            is_up,
        }],
        entries: Vec::new(),
    };
    bench.standing.apply(&change(false)).unwrap();
    assert!(!bench.is_recalled(&backup, Vec::new()));
    bench.standing.apply(&change(true)).unwrap();
    assert!(bench.is_recalled(&backup, Vec::new()));
}

#[test]
fn nothing_else_is_sent_with_it() {
    let mut bench = bench();
    let backup = bench.back_up();
    let node = bench.fabric.switches()[SwitchIdx(0)];
    let held = bench.fabric.node(node).switch_settings;
    let with = |change: fn(&mut selvedge_fabric::SwitchSettings)| {
        let mut settings = held;
        settings.port_state_change = false;
        change(&mut settings);
        vec![Op::Switch { node, settings }]
    };
    assert!(bench.is_recalled(&backup, with(|_| {})));
    assert!(!bench.is_recalled(&backup, with(|settings| settings.lifetime = 3)));
    let table = bench.changes.phases[0].ops[0].clone();
    assert!(!bench.is_recalled(&backup, vec![table]));
    // Neither is it judged beforehand.
    bench.changes.phases[0].ops.extend(with(|_| {}));
    assert!(
        bench
            .standing
            .back_up(&bench.fabric, &bench.links, &bench.changes)
            .is_none()
    );
}

#[test]
fn what_loses_packets_is_no_backup() {
    let mut bench = bench();
    let state = bench.standing.state();
    let (lost, nothing) = (&bench.links, ChangeSet::default());
    assert!(bench.standing.back_up(&bench.fabric, lost, &nothing).is_none());
    assert_eq!(bench.standing.state(), state);
}
