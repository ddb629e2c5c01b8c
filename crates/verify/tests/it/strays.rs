//! Packets that had crossed a link before it went down: every repair that the quick judge accepts, the full judge
//! accepts too.

use crate::support;
use selvedge_fabric::{Fabric, LinkState, PortRef, SwitchIdx};
use selvedge_plan::{ChangeSet, Lids, LostLink, Op, Phase, Plan, Tables};
use selvedge_sim::{Par, Seed};
use selvedge_types::{PhysState, PortState};
use selvedge_verify::phases::{PhaseFault, PhaseFinding, PhaseOptions, PhaseStep, Proposal, Write, prove};
use selvedge_verify::standing::{Change, Entry, LinkChange, Replaced, Standing, judge_repair};
use selvedge_verify::{JudgeOptions, Severity, Subject, verify};

fn take_down(fabric: &mut Fabric, at: PortRef) {
    for end in [at, fabric.peer(at).unwrap()] {
        let port = fabric.port(end).unwrap();
        let settings = port.settings;
        let link = LinkState {
            state: PortState::Down,
            phys: PhysState::Polling,
            ..port.link
        };
        fabric.set_port(end, link, settings);
    }
}

/// Returns the entries of the second tables that differ from the first.
fn differ(one: &Tables, other: &Tables, lids: &Lids) -> Vec<Entry> {
    let places = one
        .switch_indices()
        .flat_map(|s| lids.by_lid().map(move |(lid, _)| (s, lid)));
    let changed = places.filter(|&(switch, lid)| one.get(switch, lid) != other.get(switch, lid));
    changed
        .map(|(switch, lid)| Entry {
            switch,
            lid,
            egress: other.get(switch, lid),
        })
        .collect()
}

/// A link from a switch that has hosts to one that has none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cable {
    ends: [PortRef; 2],
    switches: [SwitchIdx; 2],
}

impl Cable {
    fn all(fabric: &Fabric) -> Vec<Self> {
        let cables = fabric.links().flat_map(|link| [[link.a, link.b], [link.b, link.a]]);
        let index = |end: PortRef| fabric.switch_index(end.node);
        let cables = cables.filter_map(|ends| {
            let switches = [index(ends[0])?, index(ends[1])?];
            Some(Self { ends, switches })
        });
        let is_one = |cable: &Self| has_host(fabric, cable.switches[0]) && !has_host(fabric, cable.switches[1]);
        cables.filter(is_one).collect()
    }

    const fn change(&self) -> LinkChange {
        LinkChange {
            switch: self.switches[0],
            port: self.ends[0].port,
            is_up: false,
        }
    }

    const fn lost(&self) -> LostLink {
        LostLink {
            from: Some(self.switches[0]),
            port: self.ends[0].port.get(),
            to: self.switches[1],
            into: self.ends[1].port.get(),
        }
    }
}

fn has_host(fabric: &Fabric, switch: SwitchIdx) -> bool {
    let node = fabric.switches()[switch];
    let mut peers = fabric
        .switch(switch)
        .external_ports()
        .filter_map(|(port, _)| fabric.peer(PortRef { node, port }));
    peers.any(|peer| fabric.switch_index(peer.node).is_none())
}

/// A tree with a recently changed root for some entries. One link is lost and repaired, then another.
struct Case {
    /// The fabric with all links, with one, and with two lost.
    fabrics: [Fabric; 3],
    cables: [Cable; 2],
    lids: Lids,
    /// Entries at first, those of the tree, and those after each repair.
    tables: [Tables; 4],
}

impl Case {
    fn random(number: u64) -> Option<Self> {
        let mut rng = Seed(47).child("strays").nth(number).rng();
        let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
        let switches = 6 + below(6);
        let (more, hosts) = (switches / 2 + below(switches), 2 + below(2));
        let whole = support::random(switches, more, hosts, 0, &mut below);
        let lids = support::lids(&whole, 0);
        let [root, other] = [below(switches), below(switches)].map(|s| SwitchIdx(s as u32));
        let all = Cable::all(&whole);
        let cables = [0, 1].map(|_| all.get(below(all.len().max(1))).copied());
        let cables = [cables[0]?, cables[1]?];
        if cables[0] == cables[1] {
            return None;
        }
        let mut fabrics = [whole.clone(), whole.clone(), whole];
        take_down(&mut fabrics[1], cables[0].ends[0]);
        cables
            .iter()
            .for_each(|cable| take_down(&mut fabrics[2], cable.ends[0]));
        let [tree, once, twice] = [0, 1, 2].map(|i| support::updown(&fabrics[i], &lids, root));
        let mut first = tree.clone();
        for entry in differ(&tree, &support::updown(&fabrics[0], &lids, other), &lids) {
            if below(6) == 0 {
                first.set(entry.switch, entry.lid, entry.egress);
            }
        }
        Some(Self {
            fabrics,
            cables,
            lids,
            tables: [first, tree, once, twice],
        })
    }

    fn differ(&self, one: usize, other: usize) -> Vec<Entry> {
        differ(&self.tables[one], &self.tables[other], &self.lids)
    }

    fn plan(&self, fabric: usize, tables: usize) -> Plan {
        support::plan(&self.fabrics[fabric], self.lids.clone(), self.tables[tables].clone())
    }

    /// Returns whether the last repair is accepted quickly, with all earlier packets in flight. `None`: its starting
    /// point is not proved.
    fn is_quick(&self) -> Option<bool> {
        let mut standing = Standing::new(Subject::plan(&self.fabrics[0], &self.plan(0, 1)), Par::Sequential).ok()?;
        let first = Change {
            links: vec![self.cables[0].change()],
            entries: self.differ(1, 2),
        };
        standing.apply(&first).ok()?;
        let plan = self.plan(1, 2);
        let verdict = verify(Subject::plan(&self.fabrics[1], &plan), &JudgeOptions::default());
        if !verdict.is_ok() {
            return None;
        }
        let under_way = [self.differ(1, 0), self.differ(2, 1)].concat();
        let under_way: Vec<Replaced> = under_way.into_iter().map(Replaced::from).collect();
        let (held, wanted) = (&self.tables[2], &self.tables[3]);
        let blocks = held
            .switch_indices()
            .filter(|&s| held.block(s, 0) != wanted.block(s, 0));
        let ops = blocks.map(|switch| Op::Lft {
            node: self.fabrics[2].switches()[switch],
            block: 0,
            data: *wanted.block(switch, 0),
        });
        let phase = Phase {
            label: "change entries",
            wait_before_ns: 0,
            ops: ops.collect(),
        };
        let changes = ChangeSet {
            generation: plan.generation,
            phases: vec![phase],
        };
        let links = [self.cables[1].change()];
        let judged = judge_repair(&mut standing, &self.fabrics[2], &links, changes, &under_way, &verdict);
        Some(judged.is_some())
    }

    /// Returns whether no loop or cycle is possible if all changes follow each other without a wait.
    fn is_safe(&self) -> bool {
        let step = |number: usize| {
            let writes = self.differ(number, number + 1).into_iter();
            let writes = writes.map(|Entry { switch, lid, egress }| Write { switch, lid, egress });
            PhaseStep {
                wait_before_ns: 0,
                writes: writes.collect(),
            }
        };
        let proposal = Proposal {
            steps: (0..3).map(step).collect(),
            service_levels: None,
            sl_to_vl: None,
        };
        let options = PhaseOptions {
            lost: self.cables.iter().map(Cable::lost).collect(),
            ..PhaseOptions::default()
        };
        let proof = prove(
            Subject::plan(&self.fabrics[2], &self.plan(2, 0)),
            None,
            &proposal,
            &options,
        );
        let is_circle = |finding: &PhaseFinding| {
            finding.severity == Severity::Error && matches!(finding.fault, PhaseFault::MixedCycle { .. })
        };
        proof.map_or_else(|refusal| !refusal.findings.iter().any(is_circle), |_| true)
    }
}

#[test]
fn what_the_quick_judge_accepts_the_slow_one_does() {
    let (mut quick, mut refused) = (0, 0);
    for number in 0..10_000 {
        let Some(case) = Case::random(number) else { continue };
        let Some(is_quick) = case.is_quick() else { continue };
        let is_safe = case.is_safe();
        assert!(is_safe || !is_quick, "case {number}");
        quick += u32::from(is_quick);
        refused += u32::from(!is_safe);
    }
    assert!(quick > 2_500 && refused > 300, "{quick} {refused}");
}
