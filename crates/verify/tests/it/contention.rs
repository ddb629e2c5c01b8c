//! Figures of contention against a brute force: every pair is walked alone, from port to port, through the tables.

use crate::support;
use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_sim::{Par, Seed};
use selvedge_types::PortNum;
use selvedge_verify::{Contention, ContentionOptions, JudgeOptions, Subject, contention, verify};

/// Sending ports on the path; `None` if the packet is not delivered.
type Way = Option<Vec<PortRef>>;

struct Brute {
    /// Hosts by switch, then port.
    hosts: Vec<PortRef>,
    ways: BTreeMap<(usize, usize), Way>,
}

impl Brute {
    fn new(fabric: &Fabric, lids: &Lids, tables: &Tables) -> Self {
        let mut hosts = Vec::new();
        for &node in fabric.switches().iter() {
            for (port, _) in fabric.node(node).external_ports() {
                let at = PortRef { node, port };
                let peer = fabric.link_is_up(at).then(|| fabric.peer(at)).flatten();
                hosts.extend(peer.filter(|peer| fabric.switch_index(peer.node).is_none()));
            }
        }
        let mut ways = BTreeMap::new();
        for (i, &from) in hosts.iter().enumerate() {
            for (j, &to) in hosts.iter().enumerate() {
                ways.insert((i, j), walk(fabric, lids, tables, from, to));
            }
        }
        Self { hosts, ways }
    }

    fn most(&self, pairs: impl Iterator<Item = (usize, usize)>) -> (BTreeMap<PortRef, u64>, u64) {
        let mut flows = BTreeMap::new();
        for pair in pairs {
            for &port in self.ways[&pair].iter().flatten() {
                *flows.entry(port).or_insert(0) += 1;
            }
        }
        let most = flows.values().copied().max().unwrap_or(0);
        (flows, most)
    }

    fn shift(&self, k: usize) -> u64 {
        let n = self.hosts.len();
        self.most((0..n).map(|i| (i, (i + k) % n))).1
    }

    /// Returns the mean share over all orders of the hosts.
    fn bisection(&self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        let half = self.hosts.len() / 2;
        orders(&mut (0..self.hosts.len()).collect(), 0, &mut |order| {
            let pairs: Vec<_> = order[..half]
                .iter()
                .copied()
                .zip(order[half..].iter().copied())
                .collect();
            let flows = self.most(pairs.iter().copied()).0;
            for pair in &pairs {
                if let Some(way) = &self.ways[pair] {
                    sum += 1.0 / way.iter().map(|port| flows[port]).max().unwrap_or(1) as f64;
                }
                count += 1.0;
            }
        });
        sum / count
    }
}

fn orders(order: &mut Vec<usize>, from: usize, each: &mut impl FnMut(&[usize])) {
    if from == order.len() {
        return each(order);
    }
    for i in from..order.len() {
        order.swap(from, i);
        orders(order, from + 1, each);
        order.swap(from, i);
    }
}

fn walk(fabric: &Fabric, lids: &Lids, tables: &Tables, from: PortRef, to: PortRef) -> Way {
    let mut at = fabric.peer(from)?.node;
    let mut way = Vec::new();
    for _ in 0..=fabric.switches().len() {
        let egress = tables.get(fabric.switch_index(at)?, lids.base(to)?);
        let port = PortRef {
            node: at,
            port: PortNum::new(egress)?,
        };
        let next = fabric.peer(port).filter(|_| fabric.link_is_up(port))?;
        if fabric.switch_index(next.node).is_none() {
            return (next == to).then_some(way);
        }
        way.push(port);
        at = next.node;
    }
    None
}

fn measure(fabric: &Fabric, lids: &Lids, tables: &Tables, options: ContentionOptions) -> Contention {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let subject = Subject::tables(fabric, lids, tables, &levels, &lanes);
    let one = contention(subject, &options);
    let many = contention(
        subject,
        &ContentionOptions {
            par: Par::Rayon,
            ..options
        },
    );
    assert_eq!(one, many, "one thread and many");
    one
}

/// One part only: the brute force does not tell parts apart.
fn check(fabric: &Fabric, tables: &Tables) {
    let lids = &support::lids(fabric, 0);
    let brute = Brute::new(fabric, lids, tables);
    let found = measure(fabric, lids, tables, ContentionOptions::default());
    let shifts: Vec<u64> = (1..brute.hosts.len()).map(|k| brute.shift(k)).collect();
    assert_eq!(
        (found.shift.shifts, found.shift.tried),
        (shifts.len() as u64, shifts.len() as u64)
    );
    assert_eq!(found.shift.max, shifts.iter().copied().max().unwrap_or(0));
    let sum: u64 = shifts.iter().sum();
    assert_eq!(
        found.shift.mean,
        if sum == 0 {
            0.0
        } else {
            sum as f64 / shifts.len() as f64
        }
    );
    if found.shift.max > 0 {
        assert_eq!(shifts[found.shift.worst as usize - 1], found.shift.max);
    }
    let far = |(i, j): &(usize, usize)| {
        fabric.peer(brute.hosts[*i]).unwrap().node != fabric.peer(brute.hosts[*j]).unwrap().node
    };
    let (loads, _) = brute.most(brute.ways.keys().copied().filter(far));
    let mut cables: BTreeMap<PortRef, u64> = BTreeMap::new();
    for (port, load) in loads {
        *cables.entry(port.min(fabric.peer(port).unwrap())).or_default() += load;
    }
    assert_eq!(found.cables.max, cables.values().copied().max().unwrap_or(0));
    // The judge counts the same pairs another way.
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let figures = verify(
        Subject::tables(fabric, lids, tables, &levels, &lanes),
        &JudgeOptions::default(),
    )
    .figures;
    assert!((found.cables.mean - 2.0 * figures.load.mean).abs() < 1e-9);
    let lengths = found.stretch.mean >= 1.0 && found.stretch.max >= found.stretch.mean;
    assert!(lengths || figures.hops_mean == 0.0, "{:?}", found.stretch);
}

#[test]
fn shifts_and_cables_are_as_by_brute_force() {
    for seed in 1..=60 {
        let mut rng = Seed(seed).rng();
        let mut below = |bound: usize| rng.below(bound as u64) as usize;
        let (switches, more, hosts) = (2 + below(9), below(8), below(17));
        let fabric = support::random(switches, more, hosts, 0, &mut below);
        let lids = support::lids(&fabric, 0);
        let mut tables = support::minhop(&fabric, &lids);
        check(&fabric, &tables);
        // Some entries are removed, some lead elsewhere, perhaps in loops.
        for _ in 0..below(6) {
            let switch = selvedge_fabric::SwitchIdx(below(switches) as u32);
            let lid = selvedge_types::Lid(1 + below(lids.top().index()) as u16);
            tables.set(switch, lid, [NO_PATH, 1 + below(5) as u8][below(2)]);
        }
        check(&fabric, &tables);
    }
}

#[test]
fn a_sample_of_shifts_is_of_those_there_are() {
    let fabric = support::ring(10, 6);
    let lids = support::lids(&fabric, 0);
    let tables = support::minhop(&fabric, &lids);
    let brute = Brute::new(&fabric, &lids, &tables);
    let options = ContentionOptions {
        shift_pairs_max: 3_000,
        pairings: 0,
        ..ContentionOptions::default()
    };
    let found = measure(&fabric, &lids, &tables, options);
    assert_eq!(found.shift.shifts, 59);
    assert!([27, 32].contains(&found.shift.tried), "one block of two");
    assert_eq!(brute.shift(found.shift.worst as usize), found.shift.max);
    assert_eq!(found.bisection.pairings, 0);
}

#[test]
fn bisection_is_near_the_mean_over_all_pairings() {
    let check = |fabric: &Fabric, tolerance: f64| {
        let lids = support::lids(fabric, 0);
        let tables = support::minhop(fabric, &lids);
        let want = Brute::new(fabric, &lids, &tables).bisection();
        let options = ContentionOptions {
            pairings: 20_000,
            ..ContentionOptions::default()
        };
        let found = measure(fabric, &lids, &tables, options).bisection;
        assert!((found.mean - want).abs() <= tolerance, "{found:?}, want {want}");
        assert!(found.low <= found.mean && found.mean <= found.high);
        assert!(found.high - found.low <= tolerance);
    };
    check(&support::tree(1, 0, 6), 0.0);
    check(&support::tree(2, 1, 3), 0.01);
    check(&support::tree(2, 2, 4), 0.01);
    check(&support::ring(5, 1), 0.01);
    check(&support::ring(7, 1), 0.01);
}

#[test]
fn ways_are_compared_with_the_shortest() {
    let fabric = support::ring(5, 1);
    let lids = support::lids(&fabric, 0);
    let check = |tables: &Tables, mean: f64, max: f64, share: f64| {
        let found = measure(&fabric, &lids, tables, ContentionOptions::default()).stretch;
        assert!(
            (found.mean - mean).abs() < 1e-9 && (found.max - max).abs() < 1e-9,
            "{found:?}"
        );
        assert!((found.shortest_share - share).abs() < 1e-9 && (found.shortest_mean - 1.5).abs() < 1e-9);
    };
    check(&support::minhop(&fabric, &lids), 1.0, 1.0, 1.0);
    // All paths go clockwise, by port 1 of each switch except the last one; the second port of that switch closes the
    // ring.
    let mut clockwise = support::minhop(&fabric, &lids);
    for (lid, owner) in lids.by_lid() {
        for switch in fabric.switches().indices() {
            let here = fabric.switches()[switch];
            let is_at = owner.node == here || fabric.peer(owner).is_some_and(|peer| peer.node == here);
            if !is_at {
                let ports = support::neighbours(&fabric, switch);
                let next = ports.iter().find(|(_, to)| to.0 == (switch.0 + 1) % 5).unwrap();
                clockwise.set(switch, lid, next.0.get());
            }
        }
    }
    // One to four links where one, two, two, one are enough.
    check(&clockwise, (1.0 + 1.0 + 1.5 + 4.0) / 4.0, 4.0, 0.5);
}

#[test]
fn fabrics_without_traffic_have_no_figures() {
    let check = |fabric: &Fabric| {
        let lids = support::lids(fabric, 0);
        let found = measure(
            fabric,
            &lids,
            &support::minhop(fabric, &lids),
            ContentionOptions::default(),
        );
        assert_eq!((found.shift.max, found.bisection.pairings, found.cables.max), (0, 0, 0));
    };
    check(&support::ring(4, 0));
    check(&support::tree(1, 0, 1));
    let (fabric, lids) = (support::ring(4, 1), Lids::new());
    let foreign = Tables::new(3, selvedge_types::Lid(9));
    assert_eq!(
        measure(&fabric, &lids, &foreign, ContentionOptions::default()),
        Contention::default()
    );
}

#[test]
fn parts_shift_on_their_own_and_are_split_as_one() {
    let mut net = support::Net::new(4, 8);
    net.link(0, 1).link(2, 3);
    for host in 0..8 {
        net.host(host % 4);
    }
    let fabric = net.finish(selvedge_types::PortState::Active);
    let lids = support::lids(&fabric, 0);
    let found = measure(
        &fabric,
        &lids,
        &support::minhop(&fabric, &lids),
        ContentionOptions::default(),
    );
    // Each part is two switches of two hosts: shifting by two sends both hosts over the one cable.
    assert_eq!((found.shift.shifts, found.shift.max, found.shift.worst), (3, 2, 2));
    // Eight hosts in two parts: three in seven flows go to another host of the same part, the other flows do not
    // arrive.
    assert!(
        (0.25..3.0 / 7.0).contains(&found.bisection.mean),
        "{}",
        found.bisection.mean
    );
}
