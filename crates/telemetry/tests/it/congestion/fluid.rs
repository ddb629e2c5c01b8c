//! The model of fluids in a network that loses nothing: flows grow together until a link is full. What crosses the full
//! link grows no more, nor does what shares a queue with it before that link: a packet that cannot go on holds back
//! those behind it. Without the second rule this is max-min fairness.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::PortRef;

/// A flow: its links in order, and what it would like to send, in bytes per second.
pub struct Flow {
    pub path: Vec<PortRef>,
    pub demand: f64,
}

/// Where a flow is throttled.
pub struct Throttled {
    /// Number of the flow.
    pub flow: usize,
    /// The first full link of its path when it could not grow any more.
    pub root: PortRef,
}

/// A link is full from this share of its capacity on. Of several full links on a path the first one is the root:
/// packets queue there, and arrive at the next as fast as it can send them.
const FULL: f64 = 0.95;

/// Where a flow stopped to grow.
#[derive(Clone, Copy)]
struct Stop {
    /// The link that holds it back; `None`: it got what it wanted.
    root: Option<PortRef>,
    /// Links of its path before this place are queues with packets that do not go on.
    before: usize,
}

/// Lets all flows grow together until links are full. Returns the flows that got less than they wanted. The link of the
/// source is no root: a host that sends as fast as its link is not throttled by the fabric.
pub fn throttled(flows: &[Flow], capacity: impl Fn(PortRef) -> f64) -> Vec<Throttled> {
    const EPSILON: f64 = 1e-9;
    let links: BTreeSet<PortRef> = flows.iter().flat_map(|flow| flow.path.iter().copied()).collect();
    let capacity: BTreeMap<PortRef, f64> = links.iter().map(|at| (*at, capacity(*at))).collect();
    let mut rates = vec![0.0; flows.len()];
    let mut grows: BTreeSet<usize> = (0..flows.len()).collect();
    let mut found = Vec::new();
    while !grows.is_empty() {
        let used = used(flows, &rates, &links);
        let growing = |at: PortRef| grows.iter().filter(|flow| flows[**flow].path.contains(&at)).count();
        let room = links.iter().filter(|at| growing(**at) > 0);
        let room = room.map(|at| (capacity[at] - used[at]) / growing(*at) as f64);
        let wish = grows.iter().map(|flow| flows[*flow].demand - rates[*flow]);
        let step = room.chain(wish).fold(f64::INFINITY, f64::min).max(0.0);
        for flow in &grows {
            rates[*flow] += step;
        }
        let used = self::used(flows, &rates, &links);
        let is_at = |at: &PortRef, share: f64| used[at] >= capacity[at] * share;
        let mut stops: BTreeMap<usize, Stop> = BTreeMap::new();
        for flow in &grows {
            let Flow { path, demand } = &flows[*flow];
            let is_stopped = path.iter().any(|at| is_at(at, 1.0 - EPSILON));
            if rates[*flow] >= demand * (1.0 - EPSILON) {
                stops.insert(*flow, Stop { root: None, before: 0 });
            } else if is_stopped && let Some(before) = path.iter().position(|at| is_at(at, FULL)) {
                let root = Some(path[before]).filter(|_| before > 0);
                stops.insert(*flow, Stop { root, before });
            }
        }
        assert!(!stops.is_empty(), "every step fills a link or serves a flow");
        while let Some((flow, stop)) = held_back(flows, &grows, &stops) {
            stops.insert(flow, stop);
        }
        for (flow, stop) in stops {
            grows.remove(&flow);
            found.extend(stop.root.map(|root| Throttled { flow, root }));
        }
    }
    found
}

/// Returns what crosses each link.
fn used(flows: &[Flow], rates: &[f64], links: &BTreeSet<PortRef>) -> BTreeMap<PortRef, f64> {
    let of = |at: &PortRef| {
        let crossing = flows.iter().zip(rates).filter(|(flow, _)| flow.path.contains(at));
        crossing.map(|(_, rate)| *rate).sum()
    };
    links.iter().map(|at| (*at, of(at))).collect()
}

/// Returns a flow that still grows, but shares a queue with a flow that is held back further on.
fn held_back(flows: &[Flow], grows: &BTreeSet<usize>, stops: &BTreeMap<usize, Stop>) -> Option<(usize, Stop)> {
    for (stopped, stop) in stops.iter().filter(|(_, stop)| stop.root.is_some()) {
        let queues = &flows[*stopped].path[..stop.before];
        for flow in grows.iter().filter(|flow| !stops.contains_key(flow)) {
            let shared = flows[*flow].path.iter().rposition(|at| queues.contains(at));
            if let Some(shared) = shared {
                let before = shared + 1;
                return Some((*flow, Stop { before, ..*stop }));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::NodeIdx;
    use selvedge_types::PortNum;

    use super::*;

    fn link(node: u32) -> PortRef {
        PortRef {
            node: NodeIdx(node),
            port: PortNum::new(1).unwrap(),
        }
    }

    /// Two flows share a link; a third one shares the second link with one of them, which leaves it more.
    #[test]
    fn the_first_full_link_throttles() {
        let flow = |path: &[u32], demand| Flow {
            path: path.iter().map(|node| link(*node)).collect(),
            demand,
        };
        let flows = [flow(&[1, 10, 11], 1.0), flow(&[2, 10], 1.0), flow(&[3, 11], 0.4)];
        let found = throttled(&flows, |_| 1.0);
        let found: Vec<_> = found.iter().map(|found| (found.flow, found.root)).collect();
        assert_eq!(found, [(0, link(10)), (1, link(10))]);
        // Link 11 is narrow: what shares link 10 with a packet for it waits behind it, so link 10 never fills.
        let flows = [flow(&[1, 10, 11], 1.0), flow(&[2, 10, 12], 1.0)];
        let found = throttled(&flows, |at| if at == link(11) { 0.25 } else { 1.0 });
        let found: Vec<_> = found.iter().map(|found| (found.flow, found.root)).collect();
        assert_eq!(found, [(0, link(11)), (1, link(11))]);
        let flows = [flow(&[1, 10], 1.0), flow(&[2, 11], 1.0)];
        assert!(throttled(&flows, |_| 1.0).is_empty());
    }
}
