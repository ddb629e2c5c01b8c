//! Seeded cases of congestion: which hosts send to which, and where the root is.

use std::collections::BTreeMap;
use std::fmt;

use selvedge_dataplane::{Host, LinkRate, Message, Ps, Queueing, Workload, header};
use selvedge_fabric::PortRef;
use selvedge_sim::{Rng, Seed};
use selvedge_telemetry::End;

use super::fluid::{Flow, Throttled, throttled};
use super::lab::{Lab, Loads};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Several hosts send to one.
    Incast,
    /// Two incasts at the same time, by different hosts to different leaves.
    TwoIncasts,
    /// The routes of several pairs share a link between switches.
    Collision,
    /// A link between switches has trained with one lane.
    NarrowLink,
    /// A host accepts a quarter of what its link carries.
    SlowHost,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Incast,
        Self::TwoIncasts,
        Self::Collision,
        Self::NarrowLink,
        Self::SlowHost,
    ];
}

/// A case.
pub struct Case {
    pub seed: u64,
    pub kind: Kind,
    pub lab: Lab,
    spec: &'static str,
    /// Pairs of hosts that send as fast as their links allow.
    flows: Vec<(usize, usize)>,
    /// Share of its link that every host sends to random others.
    background: f64,
    throttled: Vec<Throttled>,
    /// The true roots, sorted.
    pub roots: Vec<End>,
}

const FABRICS: [(&str, &str); 5] = [
    ("karytree:k=4,n=2", "fat-tree"),
    ("karytree:k=6,n=2", "fat-tree"),
    ("karytree:k=4,n=3", "fat-tree"),
    ("karytree:k=6,n=2", "minhop"),
    ("karytree:k=4,n=3", "updn"),
];

impl Case {
    pub fn new(seed: u64) -> Self {
        Self::of(Kind::ALL[seed as usize % Kind::ALL.len()], seed)
    }

    pub fn of(kind: Kind, seed: u64) -> Self {
        let mut rng = Seed(seed).child("congestion").rng();
        let (spec, engine) = FABRICS[rng.below(FABRICS.len() as u64) as usize];
        let mut lab = Lab::new(spec, engine);
        lab.settings.queueing = [Queueing::Fifo, Queueing::Voq][rng.below(2) as usize];
        // A link of one lane would be full of a larger background alone, in both directions.
        let most = if matches!(kind, Kind::NarrowLink | Kind::SlowHost) {
            0.05
        } else {
            1.0
        };
        let background = f64::min([0.0, 0.05, 0.1, 0.2][rng.below(4) as usize], most);
        let flows = match kind {
            Kind::Incast => incast(&lab, &mut rng, &mut Vec::new()),
            Kind::TwoIncasts => two_incasts(&lab, &mut rng),
            Kind::Collision => sharing(&lab, &mut rng, 2),
            Kind::NarrowLink => {
                let flows = sharing(&lab, &mut rng, 1);
                let (from, to) = flows[0];
                let path = lab.path(lab.hosts()[from], lab.hosts()[to]);
                // The first and the last link are those of hosts.
                let between = 1 + rng.below(path.len() as u64 - 2) as usize;
                lab.narrow(path[between]);
                flows
            }
            Kind::SlowHost => {
                let flows: Vec<_> = incast(&lab, &mut rng, &mut Vec::new()).into_iter().take(2).collect();
                let at = lab.fabric.peer(lab.hosts()[flows[0].1]).unwrap();
                lab.narrow(at);
                lab.slow = Some(lab.routes().end(at));
                flows
            }
        };
        let mut case = Self {
            seed,
            kind,
            lab,
            spec,
            flows,
            background,
            throttled: Vec::new(),
            roots: Vec::new(),
        };
        case.solve();
        case
    }

    /// Where the root is by the model of fluids. The background takes its part of each link.
    fn solve(&mut self) {
        let hosts = self.lab.hosts();
        let rate = |at: PortRef| LinkRate::from(self.lab.rate(at)).bytes_per_s();
        let flow = |(from, to): &(usize, usize)| Flow {
            path: self.lab.path(hosts[*from], hosts[*to]),
            demand: rate(hosts[*from]) * (1.0 - self.background),
        };
        let flows: Vec<Flow> = self.flows.iter().map(flow).collect();
        let mut background: BTreeMap<PortRef, f64> = BTreeMap::new();
        for from in &hosts {
            for to in hosts.iter().filter(|to| *to != from) {
                let part = rate(*from) * self.background / (hosts.len() - 1) as f64;
                for at in self.lab.path(*from, *to) {
                    *background.entry(at).or_default() += part;
                }
            }
        }
        let free = |at: PortRef| (rate(at) - background.get(&at).copied().unwrap_or(0.0)).max(0.0);
        self.throttled = throttled(&flows, free);
        self.roots = self.throttled.iter().map(|at| self.lab.routes().end(at.root)).collect();
        self.roots.sort_unstable();
        self.roots.dedup();
        assert!(!self.roots.is_empty(), "{self}");
    }

    /// Source, destination and root of every flow that is throttled by a link that it crosses.
    pub fn throttled(&self) -> impl Iterator<Item = (End, End, End)> {
        let ends = self.lab.ends();
        let hosts = self.lab.hosts();
        self.throttled.iter().filter_map(move |at| {
            let (from, to) = self.flows[at.flow];
            let crosses = self.lab.path(hosts[from], hosts[to]).contains(&at.root);
            crosses.then(|| (ends[from], ends[to], self.lab.routes().end(at.root)))
        })
    }

    /// The loads of all ports by the packet simulator.
    pub fn loads(&self) -> Loads {
        self.lab.run(Traffic::new(self), self.seed)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = &self.lab.routed.engine;
        write!(
            f,
            "seed {}, {:?} on {} by {engine:?}, {:?}, ",
            self.seed, self.kind, self.spec, self.lab.settings.queueing
        )?;
        write!(f, "background {}, flows {:?}", self.background, self.flows)
    }
}

/// Three to eight hosts send to one, on a leaf of its own.
fn incast(lab: &Lab, rng: &mut Rng, used: &mut Vec<usize>) -> Vec<(usize, usize)> {
    let hosts = lab.hosts();
    let leaf = |host: usize| lab.fabric.peer(hosts[host]).unwrap().node;
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    rng.shuffle(&mut order);
    let is_free = |host: &usize, used: &[usize]| !used.contains(host);
    let to = order
        .iter()
        .copied()
        .find(|to| is_free(to, used) && used.iter().all(|other| leaf(*other) != leaf(*to)));
    let to = to.unwrap_or(order[0]);
    used.push(to);
    let senders = 3 + rng.below(6) as usize;
    let from: Vec<usize> = order
        .into_iter()
        .filter(|from| is_free(from, used))
        .take(senders)
        .collect();
    used.extend(&from);
    from.into_iter().map(|from| (from, to)).collect()
}

/// Two incasts. Where they share a link before their roots, one of them may hold the other back so far that it has no
/// root of its own: the model says so.
fn two_incasts(lab: &Lab, rng: &mut Rng) -> Vec<(usize, usize)> {
    let mut used = Vec::new();
    let mut flows = incast(lab, rng, &mut used);
    flows.extend(incast(lab, rng, &mut used));
    flows
}

/// Pairs with different sources and destinations, the routes of which share a link between switches.
fn sharing(lab: &Lab, rng: &mut Rng, least: usize) -> Vec<(usize, usize)> {
    let hosts = lab.hosts();
    for _ in 0..1_000 {
        let draw = |rng: &mut Rng| rng.below(hosts.len() as u64) as usize;
        let (from, to) = (draw(rng), draw(rng));
        if from == to {
            continue;
        }
        let path = lab.path(hosts[from], hosts[to]);
        if path.len() < 4 {
            continue;
        }
        let shared = path[1 + rng.below(path.len() as u64 - 3) as usize];
        let mut flows = vec![(from, to)];
        let mut order: Vec<(usize, usize)> = Vec::new();
        for a in 0..hosts.len() {
            order.extend((0..hosts.len()).map(|b| (a, b)));
        }
        rng.shuffle(&mut order);
        for (a, b) in order {
            let is_new = flows
                .iter()
                .all(|(from, to)| *from != a && *to != b && *to != a && *from != b);
            if a != b && is_new && flows.len() < least + 2 && lab.path(hosts[a], hosts[b]).contains(&shared) {
                flows.push((a, b));
            }
        }
        if flows.len() >= least {
            return flows;
        }
    }
    panic!("no routes share a link")
}

/// Flows as fast as the hosts' links, and evenly spread messages beside them.
#[derive(Default)]
pub struct Traffic {
    /// By host: receiver of its flow.
    flows: Vec<Option<Host>>,
    next: Vec<Ps>,
    /// By host: time from one message to the next at the full rate of its link.
    period: Vec<f64>,
    background: f64,
    rng: Option<Rng>,
    bytes: u32,
}

impl Traffic {
    fn new(case: &Case) -> Self {
        let hosts = case.lab.hosts();
        let bytes = u32::from(case.lab.settings.mtu.bytes());
        let mut flows = vec![None; hosts.len()];
        for (from, to) in &case.flows {
            flows[*from] = Some(*to as Host);
        }
        let period = |at: &PortRef| {
            let rate = LinkRate::from(case.lab.rate(*at)).bytes_per_s();
            f64::from(bytes + u32::from(header::LOCAL)) * 1e12 / rate
        };
        Self {
            flows,
            next: vec![0; hosts.len()],
            period: hosts.iter().map(period).collect(),
            background: case.background,
            rng: Some(Seed(case.seed).child("traffic").rng()),
            bytes,
        }
    }
}

impl Workload for Traffic {
    fn next(&mut self, host: Host, _now: Ps) -> Option<Message> {
        let (rng, at) = (self.rng.as_mut()?, host as usize);
        let is_background = self.flows[at].is_none() || (rng.below(1_000) as f64) < self.background * 1_000.0;
        if self.flows[at].is_none() && self.background == 0.0 {
            return None;
        }
        // A host with a flow posts a little faster than its link, so that it always has something to send.
        let pause = match self.flows[at] {
            Some(_) => 0.95 * self.period[at],
            None => self.period[at] / self.background * (500 + rng.below(1_000)) as f64 / 1_000.0,
        };
        self.next[at] += pause as Ps;
        let others = self.flows.len() as u64 - 1;
        let random = (u64::from(host) + 1 + rng.below(others)) % (others + 1);
        Some(Message {
            at: self.next[at],
            to: self.flows[at].filter(|_| !is_background).unwrap_or(random as Host),
            bytes: self.bytes,
            tag: 0,
            sl: None,
        })
    }
}
