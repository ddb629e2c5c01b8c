//! Results of the passes: losses, dependencies, loads, ends of paths. The merged result is the same however the work
//! was divided among threads.

use selvedge_types::{Lid, Vl};

use crate::cdg::Dependencies;
use crate::finding::{Cause, Sources};
use crate::ground::Exit;

/// The ways in which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The switch drops the packets.
    Dead(Cause),
    /// The packets loop.
    Loop {
        /// Number of switches in the loop.
        length: u32,
    },
    /// The packets are delivered to a wrong port.
    Wrong(Exit),
    /// The packets get no lane.
    Lane(Vl),
    /// The switch forwards its own LID.
    OwnLid,
}

impl What {
    /// Number of kinds of loss.
    pub const CLASSES: usize = 5;

    /// Returns a number for each kind of loss.
    pub const fn class(self) -> usize {
        match self {
            Self::Dead(_) => 0,
            Self::Loop { .. } => 1,
            Self::Wrong(_) => 2,
            Self::Lane(_) => 3,
            Self::OwnLid => 4,
        }
    }
}

/// Packets of one LID that are lost at one switch.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The LID.
    pub lid: Lid,
    /// The switch; for a loop, its first switch.
    pub switch: u32,
    /// The entry at the switch.
    pub entry: u8,
    /// How the packets are lost.
    pub what: What,
    /// Number of affected sources.
    pub from: Sources,
    /// True if no host is at either end.
    pub between_switches: bool,
}

/// Losses: all are counted, and the first of each class are kept.
#[derive(Debug)]
pub struct Losses {
    /// Kept losses by class; losses between switches are separate.
    pub kept: Vec<Vec<Loss>>,
    /// Number of losses in each list.
    pub totals: Vec<u64>,
    keep: usize,
}

impl Losses {
    /// Returns an empty list that keeps up to `keep` losses of each class.
    pub fn new(keep: usize) -> Self {
        Self {
            kept: vec![Vec::new(); 2 * What::CLASSES],
            totals: vec![0; 2 * What::CLASSES],
            keep,
        }
    }

    /// Counts a loss, keeps it while there is room.
    pub fn add(&mut self, loss: Loss) {
        let list = 2 * loss.what.class() + usize::from(loss.between_switches);
        self.totals[list] += 1;
        if self.kept[list].len() < self.keep {
            self.kept[list].push(loss);
        }
    }

    fn append(&mut self, later: Self) {
        for (list, losses) in later.kept.into_iter().enumerate() {
            let room = self.keep - self.kept[list].len();
            self.kept[list].extend(losses.into_iter().take(room));
            self.totals[list] += later.totals[list];
        }
    }
}

/// Where packets ended, in pairs of a source end port and a LID.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Pairs with packets that reach the owner.
    pub delivered: u64,
    /// Pairs with packets that are dropped, loop, are delivered to a wrong port or get no lane, by [`What`].
    pub lost: [u64; What::CLASSES],
    /// Pairs with packets that are dropped because no link connects the source with the destination.
    pub apart: u64,
    /// Host pairs: packets from a host port that reach the base LID of another host port.
    pub host_pairs: u64,
}

/// Results of the passes over all destinations.
#[derive(Debug)]
pub struct Tally {
    /// Losses in order of LIDs.
    pub losses: Losses,
    /// Channel dependencies.
    pub dependencies: Dependencies,
    /// Host pairs by lane, then channel.
    pub loads: Vec<u64>,
    /// Host pairs by number of links between switches on their path.
    pub hops: Vec<u64>,
    /// Where packets ended.
    pub ends: Ends,
}

impl Tally {
    /// Adds the results for later LIDs.
    pub fn merge(mut self, later: Self) -> Self {
        self.losses.append(later.losses);
        self.dependencies.merge(&later.dependencies);
        add(&mut self.loads, &later.loads);
        self.hops.resize(self.hops.len().max(later.hops.len()), 0);
        add(&mut self.hops, &later.hops);
        add(&mut self.ends.lost, &later.ends.lost);
        self.ends.delivered += later.ends.delivered;
        self.ends.apart += later.ends.apart;
        self.ends.host_pairs += later.ends.host_pairs;
        self
    }
}

fn add(sum: &mut [u64], more: &[u64]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}
