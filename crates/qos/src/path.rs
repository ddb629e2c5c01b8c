//! The service level of a path, and the other properties that a QoS level gives it.
//!
//! Source: observed with OpenSM 3.3.23 (`saquery` on ibsim). The order in which a path gets its service level:
//!
//! 1. the requested SL, which must be that of the QoS level, if the query has one;
//! 2. the SL of the QoS level;
//! 3. the SL of the partition;
//! 4. SL 0, or the lowest SL that every hop has a lane for, if the path has no partition (raw packets).
//!
//! The SL must have a lane at every hop. The SL of the routing engine is last, and replaces the others.

use selvedge_types::{Mtu, PKey, Sl, Vl};

use crate::opensm::policy::{Level, Ranges};

/// A set of service levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlSet(u16);

impl SlSet {
    /// All service levels.
    pub const ALL: Self = Self(u16::MAX);

    /// Returns the service levels that no row maps to lane 15: packets of the others are dropped. The rows are those
    /// of the path's hops: from the source's row 0 on.
    #[must_use]
    pub fn along<'a>(rows: impl IntoIterator<Item = &'a [Vl; Sl::COUNT]>) -> Self {
        let dropped = |row: &[Vl; Sl::COUNT]| {
            let bits = row.iter().enumerate().filter(|(_, vl)| **vl == Vl::MANAGEMENT);
            bits.fold(0, |set, (sl, _)| set | 1 << sl)
        };
        Self(rows.into_iter().fold(u16::MAX, |set, row| set & !dropped(row)))
    }

    /// True if the service level is in the set.
    #[must_use]
    pub const fn contains(self, sl: Sl) -> bool {
        self.0 >> sl.get() & 1 != 0
    }

    /// Returns the lowest service level of the set.
    #[must_use]
    pub fn first(self) -> Option<Sl> {
        Sl::new(u8::try_from(self.0.trailing_zeros()).ok()?)
    }
}

/// What the service level of a path depends on.
#[derive(Clone, Copy, Debug)]
pub struct SlAsked {
    /// The requested service level.
    pub requested: Option<Sl>,
    /// The service level of the QoS level that the query has; `None`: no policy.
    pub level: Option<Sl>,
    /// The service level of the path's partition; `None`: the path has no partition. A partition that no longer
    /// exists has SL 0.
    pub partition: Option<Sl>,
    /// Service levels with a lane at every hop.
    pub valid: SlSet,
    /// The routing engine's service level of this path; `None`: the engine leaves the choice.
    pub engine: Option<Sl>,
}

/// The reason why a query has no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPath {
    /// Every service level is dropped at some hop.
    NoLane,
    /// The service level is dropped at some hop.
    Dropped(Sl),
    /// The requested service level is not that of the QoS level.
    NotOfLevel {
        /// The service level requested.
        requested: Sl,
        /// That of the QoS level.
        level: Sl,
    },
    /// The requested service level is not that of the routing engine.
    NotOfEngine {
        /// The service level requested.
        requested: Sl,
        /// That of the routing engine.
        engine: Sl,
    },
    /// The QoS level has P_Keys, and the requested one is not one of them.
    PKeyNotOfLevel(PKey),
    /// The QoS level has P_Keys, and the ends share none of them.
    NoSharedPKey,
}

/// Returns the service level of a path.
pub fn sl_of_path(asked: &SlAsked) -> Result<Sl, NoPath> {
    let Some(first) = asked.valid.first() else {
        return Err(NoPath::NoLane);
    };
    // The level is checked before the request.
    if let Some(level) = asked.level.filter(|level| !asked.valid.contains(*level)) {
        return Err(NoPath::Dropped(level));
    }
    let chosen = match (asked.requested, asked.level, asked.partition) {
        (Some(requested), Some(level), _) if requested != level => {
            return Err(NoPath::NotOfLevel { requested, level });
        }
        (Some(requested), _, _) => requested,
        (None, Some(level), _) => level,
        (None, None, Some(partition)) => partition,
        // SL 0 is the lowest one if it is valid.
        (None, None, None) => first,
    };
    if !asked.valid.contains(chosen) {
        return Err(NoPath::Dropped(chosen));
    }
    match (asked.engine, asked.requested) {
        (Some(engine), Some(requested)) if engine != requested => Err(NoPath::NotOfEngine { requested, engine }),
        (Some(engine), _) => Ok(engine),
        (None, _) => Ok(chosen),
    }
}

/// Returns the P_Key that a QoS level gives a path; `None`: the level leaves the choice. `are_shared` answers whether
/// both ends have a P_Key, one of them as a full member. Of several P_Keys of the level the lowest one is taken, and it
/// is returned without the membership bit, as OpenSM does.
pub fn pkey_of_path(
    level: Option<&Level>,
    requested: Option<PKey>,
    mut are_shared: impl FnMut(PKey) -> bool,
) -> Result<Option<PKey>, NoPath> {
    let pkeys = level.map(|level| &level.pkeys).filter(|pkeys| !pkeys.is_empty());
    match (pkeys, requested) {
        (None, _) => Ok(None),
        (Some(pkeys), Some(requested)) => match pkeys.contains(u64::from(requested.0 & 0x7FFF)) {
            true => Ok(None),
            false => Err(NoPath::PKeyNotOfLevel(requested)),
        },
        (Some(pkeys), None) => {
            let found = all(pkeys).find(|pkey| are_shared(*pkey));
            found.map(Some).ok_or(NoPath::NoSharedPKey)
        }
    }
}

fn all(pkeys: &Ranges) -> impl Iterator<Item = PKey> + '_ {
    let keys = pkeys.iter().flat_map(|(first, last)| first..=last);
    keys.filter_map(|key| u16::try_from(key).ok()).map(PKey)
}

/// Limits that a QoS level sets for a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Largest MTU.
    pub mtu: Option<Mtu>,
    /// Largest static rate, as a code. Codes are not in the order of rates.
    pub rate: Option<u8>,
    /// Packet lifetime (4.096 us x 2^value), except of a path from a port to itself, where it is 0.
    pub packet_life: Option<u8>,
}

impl Limits {
    /// Returns the limits of a level.
    #[must_use]
    pub fn of(level: Option<&Level>) -> Self {
        level.map_or_else(Self::default, |level| Self {
            mtu: level.mtu,
            rate: level.rate,
            packet_life: level.packet_life,
        })
    }

    /// Returns the MTU of a path if all its hops allow `mtu`.
    #[must_use]
    pub fn mtu(&self, mtu: Mtu) -> Mtu {
        self.mtu.map_or(mtu, |limit| limit.min(mtu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: SlAsked = SlAsked {
        requested: None,
        level: None,
        partition: Some(Sl::new(1).unwrap()),
        valid: SlSet::ALL,
        engine: None,
    };

    const fn sl(sl: u8) -> Sl {
        Sl::new(sl).unwrap()
    }

    fn row(dropped: &[usize]) -> [Vl; Sl::COUNT] {
        std::array::from_fn(|sl| {
            if dropped.contains(&sl) {
                Vl::MANAGEMENT
            } else {
                Vl::default()
            }
        })
    }

    #[test]
    fn precedence() {
        let check =
            |asked: SlAsked, want: Result<u8, NoPath>| assert_eq!(sl_of_path(&asked), want.map(sl), "{asked:?}");
        let requested = |requested, asked| SlAsked {
            requested: Some(sl(requested)),
            ..asked
        };
        let level = |level, asked| SlAsked {
            level: Some(sl(level)),
            ..asked
        };
        let engine = |engine, asked| SlAsked {
            engine: Some(sl(engine)),
            ..asked
        };
        let raw = SlAsked {
            partition: None,
            ..ASKED
        };
        check(ASKED, Ok(1));
        check(raw, Ok(0));
        check(level(2, ASKED), Ok(2));
        check(level(2, raw), Ok(2));
        check(requested(3, ASKED), Ok(3));
        check(requested(2, level(2, ASKED)), Ok(2));
        let (requested_sl, level_sl) = (sl(3), sl(2));
        check(
            requested(3, level(2, ASKED)),
            Err(NoPath::NotOfLevel {
                requested: requested_sl,
                level: level_sl,
            }),
        );
        check(engine(4, level(2, ASKED)), Ok(4));
        check(engine(3, requested(3, ASKED)), Ok(3));
        check(
            engine(2, requested(3, ASKED)),
            Err(NoPath::NotOfEngine {
                requested: requested_sl,
                engine: level_sl,
            }),
        );
    }

    /// A service level that some hop drops is no answer; only a path without a partition gets another one.
    #[test]
    fn levels_that_end_at_lane_15() {
        let rows = [row(&[0, 5]), row(&[2])];
        let valid = SlSet::along(&rows);
        let asked = SlAsked { valid, ..ASKED };
        let with = |requested, level, partition: Option<u8>| {
            let asked = SlAsked {
                requested,
                level,
                partition: partition.map(sl),
                ..asked
            };
            sl_of_path(&asked)
        };
        assert_eq!(with(None, None, Some(1)), Ok(sl(1)));
        assert_eq!(with(None, None, Some(0)), Err(NoPath::Dropped(sl(0))));
        assert_eq!(with(None, None, None), Ok(sl(1)));
        assert_eq!(with(Some(sl(5)), None, Some(1)), Err(NoPath::Dropped(sl(5))));
        assert_eq!(with(Some(sl(3)), Some(sl(2)), Some(1)), Err(NoPath::Dropped(sl(2))));
        // The engine's own level is not checked.
        let engine = SlAsked {
            engine: Some(sl(5)),
            ..asked
        };
        assert_eq!(sl_of_path(&engine), Ok(sl(5)));
        let all: Vec<usize> = (0..16).collect();
        let none = SlAsked {
            valid: SlSet::along(&[row(&all)]),
            ..ASKED
        };
        assert_eq!(sl_of_path(&none), Err(NoPath::NoLane));
        assert_eq!(SlSet::along(&[]), SlSet::ALL);
    }

    #[test]
    fn pkeys_and_limits_of_a_level() {
        let level = Level {
            pkeys: [(2, 4), (9, 9)].into_iter().collect(),
            mtu: Some(Mtu::B2048),
            rate: Some(3),
            packet_life: Some(8),
            ..Level::default()
        };
        let get = |requested, shared: &[u16]| pkey_of_path(Some(&level), requested, |pkey| shared.contains(&pkey.0));
        assert_eq!(get(None, &[4, 9]), Ok(Some(PKey(4))));
        assert_eq!(get(None, &[1, 5]), Err(NoPath::NoSharedPKey));
        assert_eq!(get(Some(PKey(0x8003)), &[]), Ok(None));
        assert_eq!(get(Some(PKey(5)), &[5]), Err(NoPath::PKeyNotOfLevel(PKey(5))));
        assert_eq!(pkey_of_path(Some(&Level::default()), None, |_| false), Ok(None));
        assert_eq!(pkey_of_path(None, Some(PKey(5)), |_| false), Ok(None));
        let limits = Limits::of(Some(&level));
        assert_eq!(limits.mtu(Mtu::B4096), Mtu::B2048);
        assert_eq!(limits.mtu(Mtu::B1024), Mtu::B1024);
        assert_eq!((limits.rate, limits.packet_life), (Some(3), Some(8)));
        assert_eq!(Limits::of(None).mtu(Mtu::B4096), Mtu::B4096);
    }
}
