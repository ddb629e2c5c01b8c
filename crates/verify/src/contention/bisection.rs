//! Effective bisection bandwidth.

use selvedge_sim::Rng;

use super::routes::{Routes, UNLINKED};
use super::{Bisection, ContentionOptions};

/// Number of pairings per job: enough to amortise the job's counters.
const BATCH: usize = 16;
/// Standard deviations on either side of a mean that hold 95 % of a normal distribution.
const Z_95: f64 = 1.96;

/// Draws random pairings of hosts. Returns the mean share of a link's bandwidth that a flow of a pairing gets, with its
/// 95 % interval.
pub fn measure(routes: &Routes, options: &ContentionOptions) -> Bisection {
    let pairings = options.pairings as usize;
    let seed = options.seed.child("pairings");
    let batches = options.par.map(pairings.div_ceil(BATCH), |batch| {
        let mut scratch = Scratch::new(routes);
        let range = batch * BATCH..pairings.min((batch + 1) * BATCH);
        let one = |i: usize| scratch.pairing(routes, &mut seed.nth(i as u64).rng());
        range.map(one).collect::<Vec<Option<f64>>>()
    });
    // In index order, so that the sums do not depend on the number of threads.
    let shares: Vec<f64> = batches.into_iter().flatten().flatten().collect();
    let count = shares.len() as f64;
    if shares.is_empty() {
        return Bisection::default();
    }
    let mean = shares.iter().sum::<f64>() / count;
    let squares: f64 = shares.iter().map(|share| (share - mean) * (share - mean)).sum();
    let half = Z_95 * (squares / (count - 1.0).max(1.0) / count).sqrt();
    Bisection {
        pairings: shares.len() as u64,
        mean,
        low: (mean - half).max(0.0),
        high: (mean + half).min(1.0),
    }
}

struct Scratch {
    order: Vec<u32>,
    flows: Vec<u32>,
    ways: Vec<u32>,
    /// Index in `ways` at which the path of each delivered flow begins.
    starts: Vec<usize>,
}

impl Scratch {
    fn new(routes: &Routes) -> Self {
        Self {
            order: Vec::new(),
            flows: vec![0; routes.channels],
            ways: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Returns the mean share of the flows of one pairing, or `None` if no plane has two hosts.
    fn pairing(&mut self, routes: &Routes, rng: &mut Rng) -> Option<f64> {
        self.ways.clear();
        self.starts.clear();
        let mut flows = 0_u64;
        for hosts in &routes.planes {
            self.order.clone_from(hosts);
            rng.shuffle(&mut self.order);
            let half = self.order.len() / 2;
            flows += half as u64;
            for (&from, &to) in self.order[..half].iter().zip(&self.order[half..]) {
                let start = self.ways.len();
                let has_links = from != UNLINKED && to != UNLINKED;
                if has_links && routes.follow(routes.at[from as usize], to, &mut self.ways) {
                    self.starts.push(start);
                }
            }
        }
        if flows == 0 {
            return None;
        }
        for &channel in &self.ways {
            self.flows[channel as usize] += 1;
        }
        let mut sum = 0.0;
        for (i, &start) in self.starts.iter().enumerate() {
            let end = self.starts.get(i + 1).copied().unwrap_or(self.ways.len());
            let most = self.ways[start..end].iter().map(|&c| self.flows[c as usize]).max();
            sum += 1.0 / f64::from(most.unwrap_or(1).max(1));
        }
        for &channel in &self.ways {
            self.flows[channel as usize] = 0;
        }
        Some(sum / flows as f64)
    }
}
