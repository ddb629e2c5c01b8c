//! Shift permutations.

use super::routes::Routes;
use super::{ContentionOptions, ShiftFigures};

/// Number of shifts counted in one pass. Hosts on one switch share a path, so their counters are adjacent; with this
/// number the counters of a large fabric still fit a cache.
const SIDE_BY_SIDE: usize = 32;

/// Tries all shifts, or a sample of them.
pub fn measure(routes: &Routes, options: &ContentionOptions) -> ShiftFigures {
    let hosts_max = routes.parts.iter().map(Vec::len).max().unwrap_or(0);
    let shifts = hosts_max.saturating_sub(1);
    let blocks = blocks(shifts, hosts_max, options);
    let most: Vec<Vec<u64>> = options.par.map(blocks.len(), |i| {
        let first = 1 + blocks[i] * SIDE_BY_SIDE;
        let count = SIDE_BY_SIDE.min(shifts + 1 - first);
        let mut most = vec![0; count];
        for hosts in &routes.parts {
            block(routes, hosts, first, &mut most);
        }
        most
    });
    let mut figures = ShiftFigures {
        shifts: shifts as u64,
        ..ShiftFigures::default()
    };
    let mut sum = 0;
    for (&block, most) in blocks.iter().zip(&most) {
        for (k, &flows) in (1 + block * SIDE_BY_SIDE..).zip(most) {
            figures.tried += 1;
            sum += flows;
            if flows > figures.max {
                (figures.max, figures.worst) = (flows, k as u64);
            }
        }
    }
    if figures.tried > 0 {
        figures.mean = sum as f64 / figures.tried as f64;
    }
    figures
}

/// Returns the blocks of shifts to try, ascending.
fn blocks(shifts: usize, hosts: usize, options: &ContentionOptions) -> Vec<usize> {
    let mut blocks: Vec<usize> = (0..shifts.div_ceil(SIDE_BY_SIDE)).collect();
    let pairs_of_block = (hosts * SIDE_BY_SIDE).max(1) as u64;
    let room = usize::try_from(options.shift_pairs_max / pairs_of_block).unwrap_or(usize::MAX);
    // The last block may be shorter.
    if (shifts * hosts) as u64 > options.shift_pairs_max {
        options.seed.child("shifts").rng().shuffle(&mut blocks);
        blocks.truncate(room.max(1));
        blocks.sort_unstable();
    }
    blocks
}

/// Raises `most[j]` to the most flows on a channel in shift `first + j`. Parts of the fabric with too few hosts for a
/// shift send nothing in it.
fn block(routes: &Routes, hosts: &[u32], first: usize, most: &mut [u64]) {
    let width = most.len().min(hosts.len().saturating_sub(first));
    if width == 0 {
        return;
    }
    let mut flows = vec![0_u32; routes.channels * width];
    let mut way = Vec::new();
    for (d, &to) in hosts.iter().enumerate() {
        // The sender to destination `d` in shift `first + j`. Senders on one switch share their path.
        let sender = |j: usize| hosts[(d + 2 * hosts.len() - first - j) % hosts.len()];
        let mut j = 0;
        while j < width {
            let from = routes.at[sender(j) as usize];
            let mut end = j + 1;
            while end < width && routes.at[sender(end) as usize] == from {
                end += 1;
            }
            way.clear();
            if from != routes.at[to as usize] && routes.follow(from, to, &mut way) {
                for &channel in &way {
                    let row = &mut flows[channel as usize * width..][..width];
                    row[j..end].iter_mut().for_each(|count| *count += 1);
                }
            }
            j = end;
        }
    }
    for row in flows.chunks_exact(width) {
        for (most, &count) in most.iter_mut().zip(row) {
            *most = (*most).max(u64::from(count));
        }
    }
}
