//! The LIDs of each end port.

use std::collections::BTreeMap;

use selvedge_fabric::PortRef;
use selvedge_types::{Guid, Lid, LidRange};

/// The LIDs of every end port, and the owner of every LID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lids {
    ranges: BTreeMap<PortRef, LidRange>,
    owner: Vec<Option<PortRef>>,
}

/// A range that cannot be assigned to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LidConflict {
    /// SLV-PLAN-0001: a LID of the range belongs to another port already.
    #[error("SLV-PLAN-0001: LID {lid} belongs to another port already")]
    Taken {
        /// The LID.
        lid: Lid,
        /// Port that owns the LID.
        owner: PortRef,
    },
    /// SLV-PLAN-0002: a LID is outside 1–0xBFFF, or not aligned to `2^lmc`.
    #[error("SLV-PLAN-0002: LIDs from {base} with LMC {lmc} are not unicast LIDs aligned to 2^LMC (1-49151)")]
    NotUnicast {
        /// Base LID.
        base: Lid,
        /// LMC.
        lmc: u8,
    },
}

impl Lids {
    /// Returns an empty assignment.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Assigns `range` to `port` and replaces its former range.
    pub fn insert(&mut self, port: PortRef, range: LidRange) -> Result<(), LidConflict> {
        let aligned = range.base.0.is_multiple_of(range.lmc.lids());
        let end = u32::from(range.base.0) + u32::from(range.lmc.lids()) - 1;
        if !aligned || !range.base.is_unicast() || end > u32::from(Lid::UNICAST_MAX.0) {
            return Err(LidConflict::NotUnicast {
                base: range.base,
                lmc: range.lmc.get(),
            });
        }
        let taken = range
            .iter()
            .find_map(|lid| self.owner(lid).filter(|&o| o != port).map(|owner| (lid, owner)));
        if let Some((lid, owner)) = taken {
            return Err(LidConflict::Taken { lid, owner });
        }
        self.remove(port);
        if self.owner.len() <= range.last().index() {
            self.owner.resize(range.last().index() + 1, None);
        }
        self.owner[range.base.index()..=range.last().index()].fill(Some(port));
        self.ranges.insert(port, range);
        Ok(())
    }

    /// Removes a port's LIDs.
    pub fn remove(&mut self, port: PortRef) -> Option<LidRange> {
        let range = self.ranges.remove(&port)?;
        self.owner[range.base.index()..=range.last().index()].fill(None);
        Some(range)
    }

    /// Returns the LIDs of a port.
    #[must_use]
    pub fn range(&self, port: PortRef) -> Option<LidRange> {
        self.ranges.get(&port).copied()
    }

    /// Returns the base LID of a port.
    #[must_use]
    pub fn base(&self, port: PortRef) -> Option<Lid> {
        self.range(port).map(|r| r.base)
    }

    /// Returns the port that a LID belongs to.
    #[must_use]
    pub fn owner(&self, lid: Lid) -> Option<PortRef> {
        self.owner.get(lid.index()).copied().flatten()
    }

    /// Returns the highest LID in use; [`Lid::NONE`] if there is none.
    #[must_use]
    pub fn top(&self) -> Lid {
        self.ranges.values().map(|r| r.last()).max().unwrap_or(Lid::NONE)
    }

    /// Returns ports with their LIDs, by port.
    pub fn iter(&self) -> impl Iterator<Item = (PortRef, LidRange)> + '_ {
        self.ranges.iter().map(|(&port, &range)| (port, range))
    }

    /// Returns LIDs in use with their owners, ascending.
    pub fn by_lid(&self) -> impl Iterator<Item = (Lid, PortRef)> + '_ {
        self.owner
            .iter()
            .zip(0..=u16::MAX)
            .filter_map(|(owner, lid)| owner.map(|port| (Lid(lid), port)))
    }

    /// Returns the number of ports with LIDs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True if no port has a LID.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Two ports that have the same LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLid {
    /// The first LID that both have.
    pub lid: Lid,
    /// The port with the lower LIDs, or the lower GUID.
    pub first: Guid,
    /// The other port.
    pub second: Guid,
}

/// Returns pairs of ports that share a LID, ordered by LID, then GUID.
pub fn shared_lids(ranges: impl IntoIterator<Item = (Guid, LidRange)>) -> Vec<SharedLid> {
    let ranges = ranges.into_iter();
    let mut by_lid: Vec<_> = ranges.map(|(guid, range)| (range.base, range.last(), guid)).collect();
    by_lid.sort_unstable();
    let mut found = Vec::new();
    // The port with the highest last LID so far.
    let mut reaches: Option<(Lid, Guid)> = None;
    for (lid, last, second) in by_lid {
        if let Some((end, first)) = reaches
            && lid <= end
        {
            found.push(SharedLid { lid, first, second });
        }
        if reaches.is_none_or(|(end, _)| last > end) {
            reaches = Some((last, second));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::NodeIdx;
    use selvedge_types::{Lmc, PortNum};

    use super::*;

    fn port(node: u32) -> PortRef {
        PortRef {
            node: NodeIdx(node),
            port: PortNum::new(1).unwrap(),
        }
    }

    fn range(base: u16, lmc: u8) -> LidRange {
        LidRange {
            base: Lid(base),
            lmc: Lmc::new(lmc).unwrap(),
        }
    }

    #[test]
    fn ranges_do_not_overlap() {
        let mut lids = Lids::new();
        lids.insert(port(1), range(8, 2)).unwrap();
        assert_eq!(
            lids.insert(port(2), range(10, 1)),
            Err(LidConflict::Taken {
                lid: Lid(10),
                owner: port(1)
            })
        );
        lids.insert(port(1), range(4, 2)).unwrap();
        assert_eq!(lids.owner(Lid(8)), None, "the old range is free again");
        lids.insert(port(2), range(10, 1)).unwrap();
        assert_eq!(lids.top(), Lid(11));
        assert_eq!(
            lids.by_lid().map(|(lid, _)| lid.0).collect::<Vec<_>>(),
            [4, 5, 6, 7, 10, 11]
        );
    }

    #[test]
    fn only_aligned_unicast_lids() {
        let check =
            |base, lmc, ok: bool| assert_eq!(Lids::new().insert(port(0), range(base, lmc)).is_ok(), ok, "{base}");
        check(0, 0, false);
        check(1, 0, true);
        check(1, 1, false);
        check(0xBFFF, 0, true);
        check(0xBFFE, 1, true);
        check(0xC000, 0, false);
        check(0xFFFF, 0, false);
    }
}
