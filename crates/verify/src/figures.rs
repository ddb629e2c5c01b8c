//! Quality figures of a set of tables. Every figure that the project shows is computed here.

use selvedge_sim::Par;
use serde::Serialize;

use crate::cdg::DependencyGraph;
use crate::finding::Traffic;
use crate::ground::Ground;
use crate::tally::{Ends, Tally};
use crate::whole::Whole;

/// Figures that the judge measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Number of switches.
    pub switches: u64,
    /// Host ports with a trained link.
    pub host_ports: u64,
    /// LIDs in use.
    pub lids: u64,
    /// Number of connected parts of the fabric.
    pub parts: u64,
    /// Packets from every end port to every LID, by outcome.
    pub pairs: PairFigures,
    /// Number of ordered pairs of different host ports of the whole fabric, whether or not they are connected and have
    /// a trained link. Ports on different rails form no pair.
    pub host_pairs: u64,
    /// Number of `host_pairs` with packets to the base LID that are delivered.
    pub host_pairs_reached: u64,
    /// Delivered host pairs by the number of links between switches on the path; `[0]`: both on one switch. Empty if
    /// the proof was updated incrementally: see [`crate::standing`].
    pub hops: Vec<u64>,
    /// Most links between switches on a path; 0 if not measured.
    pub hops_max: u64,
    /// Mean number of links between switches, over delivered host pairs on different switches.
    pub hops_mean: f64,
    /// Number of directed links between switches.
    pub channels: u64,
    /// Host pairs per directed link, all lanes together.
    pub load: Load,
    /// Lanes that carry host pairs or have channel dependencies.
    pub lanes: Vec<LaneFigures>,
}

/// Outcomes by pair: a source end port (host port, or port 0 of a switch) and a LID of another end port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PairFigures {
    /// Delivered.
    pub delivered: u64,
    /// Dropped because no entry leads on.
    pub black_hole: u64,
    /// Caught in a forwarding loop.
    pub looped: u64,
    /// Delivered to a port that does not own the LID.
    pub misdelivered: u64,
    /// Dropped because of a missing lane.
    pub lane_drop: u64,
    /// Dropped because no link connects the source with the owner of the LID.
    pub apart: u64,
}

/// Host pairs per directed link between switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Load of the busiest link.
    pub max: u64,
    /// Mean over all links, idle ones included.
    pub mean: f64,
    /// Standard deviation over all links.
    pub sd: f64,
}

/// Figures of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LaneFigures {
    /// Number of the lane.
    pub vl: u8,
    /// Host pairs per directed link between switches.
    pub load: Load,
    /// Channels on this lane with a dependency to or from another, in traffic of hosts.
    pub channels: u64,
    /// Dependencies between channels of this lane, in traffic of hosts.
    pub dependencies: u64,
}

impl Load {
    pub(crate) fn of(loads: impl ExactSizeIterator<Item = u64>) -> Self {
        let count = loads.len();
        if count == 0 {
            return Self::default();
        }
        // Sums of integers, so that the result does not depend on their order.
        let (mut max, mut sum, mut squares) = (0, 0_u128, 0_u128);
        for load in loads {
            max = max.max(load);
            sum += u128::from(load);
            squares += u128::from(load) * u128::from(load);
        }
        Self::from_sums(count, max, (sum, squares))
    }

    /// Returns the load from the number of links, the largest load, the sum and the sum of squares.
    pub(crate) fn from_sums(count: usize, max: u64, (sum, squares): (u128, u128)) -> Self {
        if count == 0 {
            return Self::default();
        }
        let mean = sum as f64 / count as f64;
        let spread = squares * count as u128 - sum * sum;
        let sd = (spread as f64).sqrt() / count as f64;
        Self { max, mean, sd }
    }
}

/// Measured values, from a full or an incremental proof.
pub struct Measured {
    /// Outcomes of packets.
    pub ends: Ends,
    /// Host pairs by number of links, if counted.
    pub hops: Option<Vec<u64>>,
    /// See [`Figures::hops_mean`].
    pub hops_mean: f64,
    /// Load of all lanes together.
    pub load: Load,
    /// Lanes in use.
    pub lanes: Vec<LaneFigures>,
}

/// Returns the figures of a full proof.
pub fn figures(ground: &Ground<'_>, tally: &Tally, par: Par) -> Figures {
    let far: u64 = tally.hops.iter().skip(1).sum();
    let steps: u64 = tally.hops.iter().zip(0..).map(|(pairs, links)| pairs * links).sum();
    let channels = ground.channels.len();
    let total = (0..channels).map(|c| {
        (0..tally.dependencies.lanes())
            .map(|l| tally.loads[l * channels + c])
            .sum()
    });
    let measured = Measured {
        ends: tally.ends,
        hops: Some(tally.hops.clone()),
        hops_mean: if far == 0 { 0.0 } else { steps as f64 / far as f64 },
        load: Load::of(total),
        lanes: lanes(ground, tally, par),
    };
    assemble(ground, measured)
}

/// Returns the figures made from measured values.
pub fn assemble(ground: &Ground<'_>, measured: Measured) -> Figures {
    let lids = ground.subject.lids;
    // Two host ports cabled to each other need no switch. Their packets are delivered if the peer has a LID.
    let lids_of = |at| lids.range(at).map_or(0, |range| u64::from(range.lmc.lids()));
    let direct_lids: u64 = ground.back_to_back.iter().map(|&(a, b)| lids_of(a) + lids_of(b)).sum();
    let direct = ground
        .back_to_back
        .iter()
        .map(|&(a, b)| u64::from(lids_of(a) > 0) + u64::from(lids_of(b) > 0));
    let direct: u64 = direct.sum();
    let mut hops = measured.hops;
    if let Some(hops) = hops.as_mut().filter(|_| direct > 0) {
        hops.resize(hops.len().max(1), 0);
        hops[0] += direct;
    }
    let hops = hops.unwrap_or_default();
    let ends = &measured.ends;
    Figures {
        switches: ground.switches as u64,
        host_ports: (ground.hosts.len() + 2 * ground.back_to_back.len()) as u64,
        lids: lids.iter().map(|(_, range)| u64::from(range.lmc.lids())).sum(),
        parts: (ground.parts + ground.back_to_back.len()) as u64,
        pairs: PairFigures {
            delivered: ends.delivered + direct_lids,
            black_hole: ends.lost[0],
            looped: ends.lost[1],
            misdelivered: ends.lost[2],
            lane_drop: ends.lost[3],
            apart: ends.apart,
        },
        host_pairs: Whole::new(ground).host_pairs(),
        host_pairs_reached: ends.host_pairs + direct,
        hops_max: hops.len().saturating_sub(1) as u64,
        hops_mean: measured.hops_mean,
        hops,
        channels: ground.channels.len() as u64,
        load: measured.load,
        lanes: measured.lanes,
    }
}

fn lanes(ground: &Ground<'_>, tally: &Tally, par: Par) -> Vec<LaneFigures> {
    let channels = ground.channels.len();
    let sizes = DependencyGraph::new(ground, &tally.dependencies, Traffic::Hosts).sizes(par);
    let all = (0_u8..).zip(sizes).map(|(vl, (used, dependencies))| {
        let lane = usize::from(vl);
        LaneFigures {
            vl,
            load: Load::of(tally.loads[lane * channels..(lane + 1) * channels].iter().copied()),
            channels: used,
            dependencies,
        }
    });
    all.filter(|lane| lane.load.max > 0 || lane.dependencies > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads() {
        let check = |loads: &[u64], max: u64, mean: f64, sd: f64| {
            assert_eq!(Load::of(loads.iter().copied()), Load { max, mean, sd });
        };
        check(&[], 0, 0.0, 0.0);
        check(&[4], 4, 4.0, 0.0);
        check(&[2, 4], 4, 3.0, 1.0);
        check(&[0, 0, 6, 6], 6, 3.0, 3.0);
    }
}
