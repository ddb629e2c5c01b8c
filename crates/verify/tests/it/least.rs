//! The least change, compared with all possible plans: on small fabrics, with every next hop of every switch tried.

use crate::support;
use std::collections::BTreeSet;

use crate::support::{Net, lids, minhop, neighbours, ring, tree, updown};
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_types::{Idx, Lid};
use selvedge_verify::{Least, Rule, Subject, least_change};

fn found(fabric: &Fabric, lids: &Lids, tables: &Tables, lost: &[PortRef]) -> Least {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    least_change(Subject::tables(fabric, lids, tables, &levels, &lanes), lost)
}

/// A fabric after a fault, for one LID.
struct Problem {
    home: usize,
    is_host: bool,
    /// Ports and next switches of each switch over links that are left.
    steps: Vec<Vec<(u8, usize)>>,
    old: Vec<u8>,
    hosts: Vec<bool>,
    level: Vec<usize>,
    /// True if hosts' old paths went up, then down, so that new ones must too.
    in_levels: bool,
}

impl Problem {
    fn next(&self, plan: &[u8], s: usize) -> Option<usize> {
        self.steps[s].iter().find(|step| step.0 == plan[s]).map(|step| step.1)
    }

    /// Returns the switches on a packet's path from `s`; `None` if it is not delivered.
    fn way(&self, plan: &[u8], s: usize) -> Option<Vec<usize>> {
        let mut way = vec![s];
        while way[way.len() - 1] != self.home {
            way.push(self.next(plan, way[way.len() - 1])?);
            if way.len() > plan.len() {
                return None;
            }
        }
        Some(way)
    }

    fn turns_once(&self, way: &[usize]) -> bool {
        let ups: Vec<bool> = way.windows(2).map(|w| self.level[w[1]] > self.level[w[0]]).collect();
        ups.windows(2).all(|w| w[0] || !w[1])
    }

    /// True if a path of at most this many steps is left, up then down if required; found by trying.
    fn can(&self, way: &mut Vec<usize>, in_levels: bool) -> bool {
        let at = way[way.len() - 1];
        if at == self.home {
            return true;
        }
        for step in 0..self.steps[at].len() {
            let next = self.steps[at][step].1;
            if way.contains(&next) {
                continue;
            }
            way.push(next);
            let good = (!in_levels || self.turns_once(way)) && self.can(way, in_levels);
            way.pop();
            if good {
                return true;
            }
        }
        false
    }

    /// Returns the requirement for each switch: none, delivery, or delivery up, then down.
    fn duties(&self) -> Vec<Option<bool>> {
        let duty = |s: usize| {
            if !self.can(&mut vec![s], false) || !(self.hosts[s] || self.is_host) {
                return None;
            }
            let in_levels = self.hosts[s] && self.in_levels && self.can(&mut vec![s], true);
            Some(in_levels)
        };
        (0..self.old.len()).map(duty).collect()
    }

    /// Returns the sets of switches (bits) that legal plans change; `None` if there is no legal plan.
    fn changed(&self) -> Option<BTreeSet<u32>> {
        let duties = self.duties();
        let choices: Vec<Vec<u8>> = (0..self.old.len())
            .map(|s| {
                let mut choice: Vec<u8> = self.steps[s].iter().map(|step| step.0).collect();
                if s == self.home || !choice.contains(&self.old[s]) {
                    choice.push(self.old[s]);
                }
                if s == self.home { vec![self.old[s]] } else { choice }
            })
            .collect();
        let mut found: Option<BTreeSet<u32>> = None;
        let mut count = vec![0; choices.len()];
        loop {
            let plan: Vec<u8> = choices.iter().zip(&count).map(|(c, &i)| c[i]).collect();
            let is_legal = duties.iter().enumerate().all(|(s, duty)| match duty {
                None => true,
                Some(in_levels) => self
                    .way(&plan, s)
                    .is_some_and(|way| !in_levels || self.turns_once(&way)),
            });
            if is_legal {
                let moved = (0..plan.len()).filter(|&s| plan[s] != self.old[s]);
                found.get_or_insert_default().insert(moved.map(|s| 1 << s).sum());
            }
            let Some(turn) = (0..count.len()).find(|&s| count[s] + 1 < choices[s].len()) else {
                return found;
            };
            count[..turn].fill(0);
            count[turn] += 1;
        }
    }
}

/// Links from each switch to the nearest with hosts.
fn levels(fabric: &Fabric, hosts: &[bool]) -> Vec<usize> {
    let mut level: Vec<usize> = hosts.iter().map(|&has| if has { 0 } else { usize::MAX }).collect();
    for _ in 0..level.len() {
        for s in 0..level.len() {
            for (_, next) in neighbours(fabric, SwitchIdx::from_usize(s)) {
                level[s] = level[s].min(level[next.to_usize()].saturating_add(1));
            }
        }
    }
    level
}

/// Every link between switches is lost in turn, then every switch. The result must equal that of trying all plans, and
/// the bound may be too low by at most `slack`.
fn check(name: &str, fabric: &Fabric, tables: impl Fn(&Fabric, &Lids) -> Tables, (rule, slack): (Rule, u64)) {
    let lids = lids(fabric, 0);
    let tables = tables(fabric, &lids);
    let mut faults: Vec<Vec<PortRef>> = Vec::new();
    for s in fabric.switches().indices() {
        let node = fabric.switches()[s];
        let ports: Vec<PortRef> = neighbours(fabric, s)
            .iter()
            .map(|&(port, _)| PortRef { node, port })
            .collect();
        faults.extend(ports.iter().map(|&at| vec![at]));
        let all = fabric
            .switch(s)
            .external_ports()
            .map(|(port, _)| PortRef { node, port });
        faults.push(all.filter(|&at| fabric.link_is_up(at)).collect());
    }
    for lost in faults {
        let least = found(fabric, &lids, &tables, &lost);
        assert!(least.entries.is_empty() || least.rule == rule, "{name}");
        let (want, fewest) = tried(fabric, &lids, &tables, &lost);
        let got: BTreeSet<(u32, Lid)> = least.entries.iter().copied().collect();
        assert_eq!(got, want, "{name}: {lost:?}");
        // So few LIDs fit into one block.
        assert_eq!(least.by_layout, least.by_fabric, "{name}: {lost:?}");
        let bound = least.by_layout;
        assert!(
            bound <= fewest && bound + slack >= fewest,
            "{name}: {lost:?}: {bound}, in truth {fewest}"
        );
    }
}

/// Returns the entries that all legal plans change, and the smallest number of switches with changed entries in any
/// legal plan.
fn tried(fabric: &Fabric, lids: &Lids, tables: &Tables, lost: &[PortRef]) -> (BTreeSet<(u32, Lid)>, u64) {
    let is_lost = |at: PortRef| lost.contains(&at) || fabric.peer(at).is_some_and(|peer| lost.contains(&peer));
    let switches: Vec<SwitchIdx> = fabric.switches().indices().collect();
    let home_of = |at: PortRef| match fabric.switch_index(at.node) {
        Some(switch) => Some(switch),
        None => fabric.peer(at).and_then(|peer| fabric.switch_index(peer.node)),
    };
    let mut hosts = vec![false; switches.len()];
    for (at, _) in fabric.end_ports().filter(|(at, _)| !fabric.node(at.node).is_switch()) {
        hosts[home_of(at).unwrap().to_usize()] = true;
    }
    let level = levels(fabric, &hosts);
    let all: Vec<Vec<(u8, usize)>> = switches
        .iter()
        .map(|&s| {
            let all = neighbours(fabric, s);
            all.iter().map(|(port, next)| (port.get(), next.to_usize())).collect()
        })
        .collect();
    let has_levels = (0..all.len()).all(|s| all[s].iter().all(|step| level[s].abs_diff(level[step.1]) == 1));
    let steps: Vec<Vec<(u8, usize)>> = switches
        .iter()
        .map(|&s| {
            let node = fabric.switches()[s];
            let left = neighbours(fabric, s);
            let left = left.iter().filter(|(port, _)| !is_lost(PortRef { node, port: *port }));
            left.map(|(port, next)| (port.get(), next.to_usize())).collect()
        })
        .collect();
    let (mut must, mut plans) = (BTreeSet::new(), Vec::new());
    for (lid, at) in lids.by_lid() {
        let is_host = !fabric.node(at.node).is_switch();
        if is_host && is_lost(at) {
            continue;
        }
        let mut problem = Problem {
            home: home_of(at).unwrap().to_usize(),
            is_host,
            steps: all.clone(),
            old: switches.iter().map(|&s| tables.get(s, lid)).collect(),
            hosts: hosts.clone(),
            level: level.clone(),
            in_levels: false,
        };
        let goes_by_levels = |s: usize| problem.way(&problem.old, s).is_none_or(|way| problem.turns_once(&way));
        problem.in_levels = has_levels && (0..hosts.len()).all(|s| !hosts[s] || goes_by_levels(s));
        problem.steps.clone_from(&steps);
        assert!(problem.old.iter().all(|&egress| egress != NO_PATH));
        let changed = problem.changed().unwrap();
        let all = changed.iter().fold(u32::MAX, |all, set| all & set);
        must.extend(
            (0..switches.len() as u32)
                .filter(|s| all & (1 << s) != 0)
                .map(|s| (s, lid)),
        );
        plans.push(changed);
    }
    let suffices = |sent: &u32| plans.iter().all(|sets| sets.iter().any(|set| set & !sent == 0));
    let fewest = (0..1_u32 << switches.len()).filter(suffices).map(u32::count_ones).min();
    (must, fewest.unwrap().into())
}

/// Two pods of two leaves and two upper switches each, two tops that each join one upper switch of both pods.
fn three_levels() -> Fabric {
    let mut net = Net::new(10, 6);
    for pod in 0..2 {
        for leaf in 0..2 {
            net.link(2 * pod + leaf, 4 + 2 * pod).link(2 * pod + leaf, 5 + 2 * pod);
            net.host(2 * pod + leaf);
        }
    }
    for plane in 0..2 {
        net.link(4 + plane, 8 + plane).link(6 + plane, 8 + plane);
    }
    net.finish(selvedge_types::PortState::Active)
}

#[test]
fn trees() {
    let up = |root: u32| move |fabric: &Fabric, lids: &Lids| updown(fabric, lids, SwitchIdx(root));
    check("2 leaves, 2 spines", &tree(2, 2, 2), minhop, (Rule::UpThenDown, 0));
    check("3 leaves, 2 spines", &tree(3, 2, 1), minhop, (Rule::UpThenDown, 0));
    check("3 leaves, 3 spines", &tree(3, 3, 1), up(4), (Rule::UpThenDown, 1));
    check("three levels", &three_levels(), minhop, (Rule::UpThenDown, 0));
}

#[test]
fn any_fabric() {
    let up = |root: u32| move |fabric: &Fabric, lids: &Lids| updown(fabric, lids, SwitchIdx(root));
    check("ring of 3", &ring(3, 1), minhop, (Rule::AnyWay, 0));
    check("ring of 5", &ring(5, 1), minhop, (Rule::AnyWay, 0));
    check("ring of 5, up and down", &ring(5, 2), up(0), (Rule::AnyWay, 0));
    let mut draw = selvedge_sim::Seed(7).rng();
    for number in 0..12 {
        let fabric = support::random(6, 4, 4, 0, |bound| draw.below(bound as u64) as usize);
        let hosts: BTreeSet<_> = fabric.end_ports().map(|(at, _)| at).collect();
        assert!(!hosts.is_empty());
        let lids = lids(&fabric, 0);
        let least = found(&fabric, &lids, &minhop(&fabric, &lids), &[]);
        assert_eq!((least.by_layout, least.by_fabric), (0, 0));
        for s in fabric.switches().indices() {
            let node = fabric.switches()[s];
            for (port, _) in neighbours(&fabric, s) {
                let lost = [PortRef { node, port }];
                let tables = minhop(&fabric, &lids);
                let least = found(&fabric, &lids, &tables, &lost);
                let (want, fewest) = tried(&fabric, &lids, &tables, &lost);
                assert!(least.by_layout <= fewest, "random {number}: {lost:?}");
                let got: BTreeSet<(u32, Lid)> = least.entries.into_iter().collect();
                assert_eq!(got, want, "random {number}: {lost:?}");
            }
        }
    }
}

#[test]
fn more_lids_than_a_block() {
    // 70 hosts on each of two leaves, two spines. A lost link changes the entries of its leaf that used it, and the
    // entries of the other leaf for packets that came down over it.
    let fabric = {
        let mut net = Net::new(4, 80);
        for leaf in 0..2 {
            net.link(leaf, 2).link(leaf, 3);
            for _ in 0..70 {
                net.host(leaf);
            }
        }
        net.finish(selvedge_types::PortState::Active)
    };
    let lids = lids(&fabric, 0);
    let tables = minhop(&fabric, &lids);
    let node = fabric.switches()[SwitchIdx(0)];
    let at = PortRef {
        node,
        port: support::port(1),
    };
    let least = found(&fabric, &lids, &tables, &[at]);
    assert_eq!(least.rule, Rule::UpThenDown);
    assert!(least.by_fabric <= least.by_layout);
    let of = |s: u32| least.entries.iter().filter(|entry| entry.0 == s).count();
    // Each leaf reaches the other's hosts by both spines in turn; the spine loses all 70 hosts of the leaf.
    assert_eq!((of(1), of(2)), (35, 70));
}

/// If a single LID is on a detour, others still go up, then down. Example: the LID of a spine's agent after the link to
/// it was repaired and came back.
#[test]
fn one_lid_on_a_detour_leaves_the_rule_of_others() {
    let fabric = tree(4, 2, 3);
    let lids = lids(&fabric, 0);
    let [first, second, near, far] = [0, 1, 4, 5].map(SwitchIdx);
    let port = |from: SwitchIdx, to: SwitchIdx| {
        let found = neighbours(&fabric, from).into_iter().find(|(_, next)| *next == to);
        found.map(|(port, _)| port).unwrap()
    };
    let agent = PortRef {
        node: fabric.switches()[near],
        port: selvedge_types::PortNum::MANAGEMENT,
    };
    let of_agent = lids.base(agent).unwrap();
    let lost = [PortRef {
        node: fabric.switches()[second],
        port: port(second, near),
    }];
    let mut tables = minhop(&fabric, &lids);
    let strict = found(&fabric, &lids, &tables, &lost);
    // From the first leaf to the agent of a spine: by the other spine and the second leaf.
    for (at, next) in [(first, far), (far, second), (second, near)] {
        tables.set(at, of_agent, port(at, next).get());
    }
    let mixed = found(&fabric, &lids, &tables, &lost);
    assert_eq!((strict.rule, mixed.rule), (Rule::UpThenDown, Rule::Both));
    let of_others = |least: &Least| -> Vec<(u32, Lid)> {
        let others = least.entries.iter().filter(|(_, lid)| *lid != of_agent);
        others.copied().collect()
    };
    assert_eq!(of_others(&mixed), of_others(&strict));
    let (want, fewest) = tried(&fabric, &lids, &tables, &lost);
    assert_eq!(want, mixed.entries.iter().copied().collect());
    assert!(mixed.by_layout <= fewest, "{mixed:?} {fewest}");
}
