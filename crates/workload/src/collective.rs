//! Collective operations and stencils as schedules.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::pattern::{Fields, PatternError};
use crate::schedule::{OpId, Schedule, Work};

/// A collective operation of ranks, with the number of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Collective {
    /// Kind of the operation.
    pub kind: CollectiveKind,
    /// Bytes per rank: of its vector (all-reduce), for each other rank (exchange), for each neighbour (stencil).
    pub bytes: u32,
    /// Number of repetitions, one after the other.
    pub repeat: u32,
}

/// Kinds of collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    /// All-reduce in a ring: a rank's vector is divided into as many parts as there are ranks, and each part travels
    /// around the ring twice.
    RingAllReduce,
    /// All-reduce by recursive doubling: partners at distance 1, 2, 4, …, whole vectors. Ranks beyond a power of two
    /// first send their vector to a partner, and get the result last.
    RecursiveDoubling,
    /// Each rank sends to every other: in round `r`, rank `i` to rank `i + r`; no rank waits between rounds.
    Exchange,
    /// Neighbours on a ring.
    Stencil1d,
    /// Neighbours on a torus as square as the number of ranks allows.
    Stencil2d,
    /// Neighbours on a torus as cubic as the number of ranks allows.
    Stencil3d,
}

impl CollectiveKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::RingAllReduce,
        Self::RecursiveDoubling,
        Self::Exchange,
        Self::Stencil1d,
        Self::Stencil2d,
        Self::Stencil3d,
    ];

    /// Returns the name of the kind in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingAllReduce => "ring-all-reduce",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::Exchange => "exchange",
            Self::Stencil1d => "stencil-1d",
            Self::Stencil2d => "stencil-2d",
            Self::Stencil3d => "stencil-3d",
        }
    }
}

/// Largest number of operations of a schedule, at about 100 bytes each. A ring of 3,888 ranks has 60 million.
const OPS_MAX: u64 = 100_000_000;

/// SLV-WORKLOAD-0010: a collective operation would need more memory than a simulation may take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SLV-WORKLOAD-0010: {collective} of {ranks} ranks has {ops} operations, at most {OPS_MAX} are allowed; repeat it \
     less often, or with fewer hosts"
)]
pub struct TooManyOps {
    /// The operation.
    pub collective: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Sends, receives and joins of rounds.
    pub ops: u64,
}

/// Default number of bytes: 64 KiB.
const BYTES: u32 = 65_536;

impl Collective {
    /// True if a text begins with the name of a collective operation, even if the rest is invalid.
    #[must_use]
    pub fn is_named_by(text: &str) -> bool {
        let name = text.split_once(':').map_or(text, |(name, _)| name);
        CollectiveKind::ALL.iter().any(|kind| kind.name() == name)
    }

    /// Returns the schedule for this number of ranks.
    pub fn schedule(self, ranks: u32) -> Result<Schedule, TooManyOps> {
        let ops = self.ops(ranks);
        if ops > OPS_MAX {
            let collective = self.to_string();
            return Err(TooManyOps { collective, ranks, ops });
        }
        let mut schedule = Schedule::new(ranks);
        let mut last: Vec<Vec<OpId>> = vec![Vec::new(); ranks as usize];
        for round in 0..self.repeat {
            // Tags distinguish the operations of consecutive rounds.
            let tag = round << 16;
            match self.kind {
                CollectiveKind::RingAllReduce => self.ring(&mut schedule, &mut last, tag),
                CollectiveKind::RecursiveDoubling => self.doubling(&mut schedule, &mut last, tag),
                CollectiveKind::Exchange => self.exchange(&mut schedule, &mut last, tag),
                CollectiveKind::Stencil1d => self.stencil(&mut schedule, &mut last, &[ranks], tag),
                CollectiveKind::Stencil2d => self.stencil(&mut schedule, &mut last, &torus(ranks, 2), tag),
                CollectiveKind::Stencil3d => self.stencil(&mut schedule, &mut last, &torus(ranks, 3), tag),
            }
        }
        Ok(schedule)
    }

    /// Returns the largest possible number of operations for this number of ranks.
    fn ops(self, ranks: u32) -> u64 {
        let others = u64::from(ranks).saturating_sub(1);
        let of_rank = match self.kind {
            CollectiveKind::RingAllReduce => 4 * others,
            CollectiveKind::RecursiveDoubling => 2 * (u64::from(ranks.max(1).ilog2()) + 2),
            // One more operation joins the round to the next.
            CollectiveKind::Exchange => 2 * others + 1,
            CollectiveKind::Stencil1d => 4,
            CollectiveKind::Stencil2d => 8,
            CollectiveKind::Stencil3d => 12,
        };
        of_rank
            .saturating_mul(u64::from(ranks))
            .saturating_mul(u64::from(self.repeat))
    }

    fn ring(self, schedule: &mut Schedule, last: &mut [Vec<OpId>], tag: u32) {
        let ranks = schedule.ranks();
        let bytes = self.bytes.div_ceil(ranks.max(1));
        for step in 0..2 * ranks.saturating_sub(1) {
            let tag = tag + step;
            for rank in 0..ranks {
                let before = last[rank as usize].clone();
                let to = (rank + 1) % ranks;
                schedule.add(rank, Work::Send { to, bytes, tag }, &before);
                let from = (rank + ranks - 1) % ranks;
                let received = schedule.add(rank, Work::Receive { from, tag }, &before);
                last[rank as usize] = vec![received];
            }
        }
    }

    fn doubling(self, schedule: &mut Schedule, last: &mut [Vec<OpId>], tag: u32) {
        let ranks = schedule.ranks();
        let power = 1 << ranks.max(1).ilog2();
        let mut pass = |from: u32, to: u32, tag: u32, last: &mut [Vec<OpId>]| {
            let bytes = self.bytes;
            schedule.add(from, Work::Send { to, bytes, tag }, &last[from as usize].clone());
            schedule.add(to, Work::Receive { from, tag }, &last[to as usize].clone())
        };
        for extra in power..ranks {
            let received = pass(extra, extra - power, tag, last);
            last[(extra - power) as usize] = vec![received];
        }
        let mut distance = 1;
        while distance < power {
            let received: Vec<OpId> = (0..power)
                .map(|rank| pass(rank ^ distance, rank, tag + distance, last))
                .collect();
            for (rank, received) in received.into_iter().enumerate() {
                last[rank] = vec![received];
            }
            distance *= 2;
        }
        for extra in power..ranks {
            let received = pass(extra - power, extra, tag + power, last);
            last[extra as usize] = vec![received];
        }
    }

    fn exchange(self, schedule: &mut Schedule, last: &mut [Vec<OpId>], tag: u32) {
        let (ranks, bytes) = (schedule.ranks(), self.bytes);
        for rank in 0..ranks {
            let before = last[rank as usize].clone();
            let mut received = Vec::new();
            for round in 1..ranks {
                let to = (rank + round) % ranks;
                schedule.add(rank, Work::Send { to, bytes, tag }, &before);
                let from = (rank + ranks - round) % ranks;
                received.push(schedule.add(rank, Work::Receive { from, tag }, &before));
            }
            // One operation waits for all of this round, and the next round waits for it. Otherwise each operation
            // would wait for each one of the previous round, and memory per rank would grow with the square of the
            // number of ranks.
            last[rank as usize] = vec![schedule.add(rank, Work::Compute { ns: 0 }, &received)];
        }
    }

    fn stencil(self, schedule: &mut Schedule, last: &mut [Vec<OpId>], sizes: &[u32], tag: u32) {
        let (ranks, bytes) = (schedule.ranks(), self.bytes);
        for rank in 0..ranks {
            let before = last[rank as usize].clone();
            let mut received = Vec::new();
            let mut stride = 1;
            for (dimension, &size) in (0..).zip(sizes) {
                let at = rank / stride % size;
                let neighbour = |step: u32| rank - at * stride + (at + step) % size * stride;
                for (way, step) in [(0, 1), (1, size - 1)] {
                    let (to, from) = (neighbour(step), neighbour(size - step));
                    let tag = tag + dimension * 2 + way;
                    if to != rank {
                        schedule.add(rank, Work::Send { to, bytes, tag }, &before);
                        received.push(schedule.add(rank, Work::Receive { from, tag }, &before));
                    }
                }
                stride *= size;
            }
            last[rank as usize] = received;
        }
    }
}

/// Returns the sizes of a torus of this many ranks, with sides as equal as their divisors allow.
fn torus(ranks: u32, dimensions: u32) -> Vec<u32> {
    let mut left = ranks.max(1);
    let mut sizes = Vec::new();
    for dimension in (1..=dimensions).rev() {
        let side = f64::from(left).powf(1.0 / f64::from(dimension)).round() as u32;
        let size = (1..=side.max(1))
            .rev()
            .find(|size| left.is_multiple_of(*size))
            .unwrap_or(1);
        let size = if dimension == 1 { left } else { size };
        sizes.push(size);
        left /= size;
    }
    sizes
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:bytes={},repeat={}", self.kind.name(), self.bytes, self.repeat)
    }
}

impl FromStr for Collective {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |what: String| PatternError {
            text: text.to_owned(),
            what,
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let kind = CollectiveKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| error(format!("there is no '{name}'")))?;
        let mut fields = Fields::read(rest).map_err(error)?;
        let bytes = fields.number("bytes", BYTES).map_err(error)?;
        let repeat = fields.number("repeat", 1).map_err(error)?;
        fields.end(name).map_err(error)?;
        if !(1..=1_000).contains(&repeat) {
            return Err(error(format!("repeat={repeat}: want 1 to 1000")));
        }
        Ok(Self { kind, bytes, repeat })
    }
}

impl From<Collective> for String {
    fn from(collective: Collective) -> Self {
        collective.to_string()
    }
}

impl TryFrom<String> for Collective {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_dataplane::{Arrival, Workload};

    use super::*;
    use crate::Program;

    /// Returns the number of messages of a collective with this many ranks, if each arrives a microsecond after it is
    /// posted, and its duration in microseconds.
    fn run(text: &str, ranks: u32) -> (usize, u64) {
        let collective: Collective = text.parse().unwrap();
        let mut program = Program::new(collective.schedule(ranks).unwrap());
        let mut flying = std::collections::BTreeMap::new();
        let (mut now, mut messages) = (0, 0_u64);
        while !program.is_done() {
            for host in 0..ranks {
                while let Some(message) = program.next(host, now) {
                    messages += 1;
                    flying.insert((message.at + 1_000_000, messages), (host, message));
                }
            }
            let ((at, _), (from, message)) = flying.pop_first().expect("a rank waits for ever");
            now = at;
            let arrival = Arrival {
                from,
                to: message.to,
                tag: message.tag,
                posted: message.at,
                whole: true,
            };
            program.arrived(arrival, now, &mut Vec::new());
        }
        (messages as usize, program.completed_at().unwrap() / 1_000_000)
    }

    #[test]
    fn messages_and_steps() {
        let check = |text, ranks, want| assert_eq!(run(text, ranks), want, "{text} {ranks}");
        check("ring-all-reduce", 8, (8 * 14, 14));
        check("ring-all-reduce:repeat=2", 5, (2 * 5 * 8, 16));
        check("recursive-doubling", 8, (8 * 3, 3));
        // Two ranks more than a power of two: one step before and one after. Only one of them is on the longest path,
        // because the other ranks have begun without waiting.
        check("recursive-doubling", 10, (2 + 8 * 3 + 2, 4));
        check("exchange", 6, (30, 1));
        check("stencil-1d:repeat=3", 6, (36, 3));
        check("stencil-2d", 12, (48, 1));
        check("stencil-3d:repeat=2", 27, (2 * 27 * 6, 2));
        check("stencil-2d", 7, (14, 1));
        check("ring-all-reduce", 1, (0, 0));
    }

    #[test]
    fn tori() {
        assert_eq!(torus(12, 2), [3, 4]);
        assert_eq!(torus(27, 3), [3, 3, 3]);
        assert_eq!(torus(64, 3), [4, 4, 4]);
        assert_eq!(torus(7, 2), [1, 7]);
    }

    #[test]
    fn operations_are_linear_in_messages() {
        let check = |text: &str, ranks: u32| {
            let collective: Collective = text.parse().unwrap();
            let schedule = collective.schedule(ranks).unwrap();
            assert!(schedule.ops() as u64 <= collective.ops(ranks), "{text} {ranks}");
            // The joins of an exchange are the only operations that wait for many.
            let waits = schedule.waits();
            assert!(
                waits <= 12 * schedule.ops(),
                "{text} {ranks}: {waits} of {}",
                schedule.ops()
            );
        };
        for kind in CollectiveKind::ALL {
            for ranks in [0, 1, 2, 7, 64, 100] {
                check(&format!("{}:repeat=3", kind.name()), ranks);
            }
        }
    }

    #[test]
    fn more_operations_than_memory_has_room_for_are_refused() {
        let check = |text: &str, ranks: u32| {
            let error = text
                .parse::<Collective>()
                .unwrap()
                .schedule(ranks)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with("SLV-WORKLOAD-0010"), "{error}");
        };
        check("ring-all-reduce:repeat=1000", 324);
        check("exchange", 49_151);
        check("stencil-1d:repeat=1000", u32::MAX);
        check("ring-all-reduce:repeat=1000", u32::MAX);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let check = |text: &str, want: &str| {
            let error = text.parse::<Collective>().unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("ring-all-reduce:byte=3", "did you mean 'bytes'?");
        check("exchange:repeat=0", "want 1 to 1000");
        check("exchange:bytes=-1", "want a whole number");
    }
}
