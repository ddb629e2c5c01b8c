//! Draws a schedule from a seed.

use std::time::Duration;

use selvedge_sim::{Rng, Seed};

use super::event::{Happening, Kind, STAGES, When};
use super::schedule::{ENGINES, Family, Requests, Schedule, Setup};

/// Events of a schedule, at least.
pub const HAPPENINGS_MIN: usize = 50;
/// Events of a schedule, at most.
const HAPPENINGS_MAX: usize = 70;

/// Weights of the kinds of events.
const WEIGHTS: [(Kind, u64); 23] = [
    (Kind::Cut, 12),
    (Kind::Restore, 10),
    (Kind::Flap, 5),
    (Kind::Die, 4),
    (Kind::Revive, 5),
    (Kind::Reboot, 4),
    (Kind::Swap, 3),
    (Kind::Clone, 2),
    (Kind::Slow, 3),
    (Kind::Hang, 4),
    (Kind::Lie, 2),
    (Kind::Lose, 4),
    (Kind::Double, 4),
    (Kind::Late, 4),
    (Kind::Corrupt, 2),
    (Kind::Part, 3),
    (Kind::Kill, 4),
    (Kind::Start, 6),
    (Kind::Restart, 3),
    (Kind::Engines, 5),
    (Kind::Lmc, 1),
    (Kind::Settings, 3),
    (Kind::Sweep, 3),
];

/// Weights of the operator's changes.
const CHANGE_WEIGHTS: [(Kind, u64); 9] = [
    (Kind::Drain, 5),
    (Kind::Isolate, 4),
    (Kind::Enable, 4),
    (Kind::Refused, 4),
    (Kind::MKey, 3),
    (Kind::Twice, 4),
    (Kind::Engines, 1),
    (Kind::Lmc, 1),
    (Kind::Settings, 1),
];
/// The operator's changes in a schedule, at least and at most.
const CHANGES: (usize, usize) = (8, 14);

/// In one of this many seeds, most events are bound to stages of a manager (such as "while it applies a plan") instead
/// of times. So short stages get as many events as long ones, and each kind of event occurs as often as any other.
const AMID_EVERY: u64 = 4;
/// One seed in this number has managers that compute backups: that takes as much time as all repairs.
const BACKUPS_ONE_IN: u64 = 4;

impl Schedule {
    /// Returns the schedule of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut schedule = Self::draw_restless(seed);
        let root = Seed(seed).child("soak");
        if root.child("backups").rng().below(BACKUPS_ONE_IN) == 0 {
            schedule.setup.backups = true;
            rest(&mut root.child("rest").rng(), &mut schedule.happenings);
        }
        schedule
    }

    /// Returns the schedule of a seed as it was drawn before schedules had idle times. It reproduces failures that were
    /// found then.
    #[must_use]
    pub fn draw_restless(seed: u64) -> Self {
        let root = Seed(seed).child("soak");
        let mut rng = root.child("fabric").rng();
        let family = Family::ALL[pick(&mut rng, Family::ALL.len())];
        let fabric = family.draw(&mut rng);
        let mut setup = Setup::draw(&mut root.child("setup").rng());
        setup.uses_lanes = setup.lanes > 1 && root.child("lanes").rng().below(2) == 1;
        let mut rng = root.child("happenings").rng();
        let count = HAPPENINGS_MIN + pick(&mut rng, HAPPENINGS_MAX - HAPPENINGS_MIN + 1);
        // A few kinds at a time: events that overlap are then more often of the same few kinds, in another mixture each
        // time.
        let kinds: Vec<(Kind, u64)> = match rng.below(3) {
            0 => WEIGHTS.to_vec(),
            _ => subset(&mut rng),
        };
        let mut happenings: Vec<Happening> = (0..count).map(|_| happening(&mut rng, &kinds)).collect();
        if seed.is_multiple_of(AMID_EVERY) {
            amid(&mut root.child("amid").rng(), &mut happenings);
        }
        Self {
            seed,
            family,
            fabric,
            setup,
            happenings,
        }
    }
}

impl Schedule {
    /// Adds the operator's changes, from a random stream of their own: all other events stay as they were drawn.
    #[must_use]
    pub fn with_changes(mut self) -> Self {
        self.setup.changes = true;
        let mut rng = Seed(self.seed).child("soak").child("changes").rng();
        let (least, most) = CHANGES;
        for _ in 0..least + pick(&mut rng, most - least + 1) {
            let at = pick(&mut rng, self.happenings.len() + 1);
            self.happenings.insert(at, happening(&mut rng, &CHANGE_WEIGHTS));
        }
        self
    }
}

fn pick(rng: &mut Rng, count: usize) -> usize {
    usize::try_from(rng.below(count.max(1) as u64)).unwrap_or(0)
}

/// Returns at least five kinds of events. For each kind that breaks something, the kind that repairs it is included.
fn subset(rng: &mut Rng) -> Vec<(Kind, u64)> {
    let mut all = WEIGHTS.to_vec();
    rng.shuffle(&mut all);
    let count = 5 + pick(rng, 9);
    let mut kinds: Vec<(Kind, u64)> = all[..count].to_vec();
    for (breaks, mends, weight) in [
        (Kind::Cut, Kind::Restore, 10),
        (Kind::Die, Kind::Revive, 6),
        (Kind::Kill, Kind::Start, 8),
    ] {
        let has = |kind: Kind| kinds.iter().any(|(k, _)| *k == kind);
        if has(breaks) && !has(mends) {
            kinds.push((mends, weight));
        }
    }
    kinds
}

fn happening(rng: &mut Rng, kinds: &[(Kind, u64)]) -> Happening {
    let sum = kinds.iter().map(|(_, weight)| weight).sum::<u64>().max(1);
    let mut left = rng.below(sum);
    let mut kind = Kind::Sweep;
    for &(candidate, weight) in kinds {
        kind = candidate;
        if left < weight {
            break;
        }
        left -= weight;
    }
    let when = match rng.below(3) {
        0 => When::During(STAGES[pick(rng, STAGES.len())], scale(rng, 1, 2_000)),
        _ => When::After(match rng.below(8) {
            0 => Duration::ZERO,
            7 => scale(rng, 500_000, 12_000_000),
            _ => scale(rng, 10, 900_000),
        }),
    };
    Happening {
        when,
        kind,
        pick: u32::try_from(rng.below(1 << 16)).unwrap_or(0),
        other: u32::try_from(rng.below(1 << 16)).unwrap_or(0),
        span: scale(rng, 50, 2_000_000),
    }
}

/// Makes two thirds of the events happen within a stage of the master; kind and stage are random.
fn amid(rng: &mut Rng, happenings: &mut [Happening]) {
    for happening in happenings {
        if rng.below(3) > 0 {
            happening.kind = Kind::ALL[pick(rng, Kind::ALL.len())];
            happening.when = When::Amid(STAGES[pick(rng, STAGES.len())], scale(rng, 1, 64));
        }
    }
}

/// Delays some events, lost links above all, until packets in flight are gone and backups are computed.
fn rest(rng: &mut Rng, happenings: &mut [Happening]) {
    for happening in happenings {
        if rng.below(6) == 0 {
            happening.when = When::After(Duration::from_millis(5_000 + rng.below(7_000)));
            if rng.below(2) == 0 {
                happening.kind = Kind::Cut;
            }
        }
    }
}

/// Returns a random time in this range of microseconds. Every order of magnitude is equally likely.
pub(super) fn scale(rng: &mut Rng, from: u64, to: u64) -> Duration {
    let steps = u64::from((to / from.max(1)).max(1).ilog2());
    let low = from << rng.below(steps + 1);
    Duration::from_micros((low + rng.below(low.max(1))).min(to))
}

impl Setup {
    fn draw(rng: &mut Rng) -> Self {
        let mut one_of = |of: &[u16]| of[pick(rng, of.len())];
        let lmc = one_of(&[0, 0, 0, 0, 1, 1, 2]);
        let plan = one_of(&[0, 0, 0, 0, 0, 1, 30, 800]);
        let small = |n: u16| u8::try_from(n).unwrap_or(0);
        Self {
            engine: small(one_of(&[0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7])) % small(ENGINES.len() as u16),
            lmc: small(lmc),
            lanes: small(one_of(&[1, 1, 1, 2, 4])),
            uses_lanes: false,
            sa: false,
            m_key: u64::from(one_of(&[0, 0, 0, 0xfeed])),
            sweep_s: small(one_of(&[10, 10, 5, 2])),
            requests: Requests {
                window: small(one_of(&[32, 32, 8, 2, 64])),
                agent_window: small(one_of(&[2, 2, 1, 4])),
                retries: small(one_of(&[3, 3, 1, 2])),
                timeout_ms: one_of(&[200, 200, 50, 400]),
            },
            plan_ms: (plan != 0).then_some(plan),
            both: one_of(&[0, 1]) == 1,
            backups: false,
            store_faults: false,
            changes: false,
        }
    }
}

impl Family {
    /// Returns a fabric of the family.
    fn draw(self, rng: &mut Rng) -> String {
        let specs: &[&str] = match self {
            Self::Tree2 => &[
                "karytree:k=2,n=2",
                "karytree:k=3,n=2",
                "karytree:k=4,n=2",
                "xgft:m=3x4,w=1x3",
                "pgft:m=4x3,w=1x2,p=1x2",
                "mport:m=4,n=2",
            ],
            Self::Tree3 => &[
                "karytree:k=2,n=3",
                "xgft:m=2x2x3,w=1x2x2",
                "mport:m=4,n=3",
                "pgft:m=2x2x2,w=1x2x1,p=1x1x2",
            ],
            Self::Random => return random(rng),
            Self::Torus => &[
                "torus:3x3,hosts=1",
                "torus:4x3,hosts=1",
                "torus:3x2x2,hosts=1",
                "torus:3x3,hosts=2",
            ],
            Self::Mesh => &["mesh:3x3,hosts=1", "mesh:4x2,hosts=2", "mesh:2x2x2,hosts=1"],
            Self::Ring => &[
                "ring:switches=3,hosts=2",
                "ring:switches=5,hosts=2",
                "ring:switches=6,hosts=1",
                "ring:switches=8,hosts=1",
            ],
            Self::Rails => &[
                "karytree:k=2,n=2,rails=2",
                "ring:switches=4,hosts=1,rails=2",
                "xgft:m=2x3,w=1x2,rails=2",
            ],
            Self::Odd => &[
                "single:ports=8,hosts=6",
                "ring:switches=2,hosts=2",
                "karytree:k=3,n=2,remove-links=2,seed=3",
                "torus:3x3,hosts=1,remove-links=3,seed=5",
                "karytree:k=2,n=3,guids=shuffled",
                "karytree:k=3,n=2,ports-per-host=2",
                "mesh:5,hosts=1",
            ],
        };
        specs[pick(rng, specs.len())].to_owned()
    }
}

fn random(rng: &mut Rng) -> String {
    let switches = 6 + 2 * rng.below(4);
    let (degree, hosts, seed) = (3 + rng.below(2), 1 + rng.below(2), rng.below(50));
    format!("random:switches={switches},degree={degree},hosts={hosts},seed={seed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_reads_back() {
        for seed in 0..200 {
            let schedule = Schedule::draw(seed);
            assert_eq!(schedule, Schedule::draw(seed));
            assert!(schedule.happenings.len() >= HAPPENINGS_MIN, "{seed}");
            let mut kinds: Vec<Kind> = schedule.happenings.iter().map(|h| h.kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            assert!(kinds.len() >= 5, "seed {seed}: {kinds:?}");
            let changed = schedule.clone().with_changes();
            assert_eq!(changed, schedule.clone().with_changes());
            let text = schedule.to_string();
            assert_eq!(text.parse::<Schedule>().as_ref(), Ok(&schedule), "{text}");
            let text = changed.to_string();
            assert_eq!(text.parse::<Schedule>().as_ref(), Ok(&changed), "{text}");
        }
    }
}
