//! A port: the part that packets use, and the part that its agent uses.

use selvedge_fabric::{NodeIdx, PortCapability, PortSettings};
use selvedge_types::{Guid, Idx, Lid, LinkSpeed, LinkWidth, PKey, PhysState, PortNum, PortState, Rate, Vl};

use crate::Counters;
use crate::detail::Details;

/// Index of a port in a [`crate::Chassis`]: by node, then by number. Index 0 of a node without a port 0 is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortIdx(pub u32);

impl Idx for PortIdx {
    /// Converts an index. A fabric has fewer than 2^32 ports, because each needs memory.
    #[inline]
    fn from_usize(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    #[inline]
    fn to_usize(self) -> usize {
        self.0 as usize
    }
}

/// The part of a port that each passing packet uses: 32 bytes. Changed only through [`crate::Chassis`], which keeps
/// both ends of a cable consistent.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Wire {
    pub(crate) mads_out: u64,
    pub(crate) mads_in: u64,
    pub(crate) peer: u32,
    pub(crate) node: NodeIdx,
    pub(crate) lid: Lid,
    pub(crate) lid_count: u8,
    pub(crate) num: PortNum,
    pub(crate) state: PortState,
    pub(crate) phys: PhysState,
    pub(crate) flags: u8,
}

const _: () = assert!(size_of::<Wire>() == 32);

impl Wire {
    pub(crate) const PLUGGED: u8 = 1;
    pub(crate) const MARKED: u8 = 2;
    pub(crate) const NO_PEER: u32 = u32::MAX;

    /// Returns the node of the port.
    #[must_use]
    #[inline]
    pub const fn node(&self) -> NodeIdx {
        self.node
    }

    /// Returns the number of the port.
    #[must_use]
    #[inline]
    pub const fn num(&self) -> PortNum {
        self.num
    }

    /// Returns the port at the other end of the cable, whether or not the cable is plugged in.
    #[must_use]
    #[inline]
    pub const fn peer(&self) -> Option<PortIdx> {
        if self.peer == Self::NO_PEER {
            None
        } else {
            Some(PortIdx(self.peer))
        }
    }

    /// Returns the port state.
    #[must_use]
    #[inline]
    pub const fn state(&self) -> PortState {
        self.state
    }

    /// Returns the physical state.
    #[must_use]
    #[inline]
    pub const fn phys(&self) -> PhysState {
        self.phys
    }

    /// True if the port has a cable that is plugged in.
    #[must_use]
    #[inline]
    pub const fn is_plugged(&self) -> bool {
        self.flags & Self::PLUGGED != 0
    }

    /// True if [`crate::Chassis::mark`] has marked the port; the caller defines the meaning of a mark.
    #[must_use]
    #[inline]
    pub const fn is_marked(&self) -> bool {
        self.flags & Self::MARKED != 0
    }

    /// True if `lid` is one of the port's LIDs.
    #[must_use]
    #[inline]
    pub const fn answers_to(&self, lid: Lid) -> bool {
        lid.0.wrapping_sub(self.lid.0) < self.lid_count as u16
    }
}

/// A set of link speeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeedSet(u16);

impl SpeedSet {
    /// No speed.
    pub const EMPTY: Self = Self(0);

    /// Returns every known speed up to `fastest`, which may be unknown. FDR10 is a vendor speed: the set contains it
    /// only if it is the fastest.
    #[must_use]
    pub fn up_to(fastest: LinkSpeed) -> Self {
        LinkSpeed::ALL
            .into_iter()
            .filter(|&s| s <= fastest && (s != LinkSpeed::Fdr10 || fastest == LinkSpeed::Fdr10))
            .fold(Self::EMPTY, Self::with)
    }

    /// Returns the set with `speed`.
    #[must_use]
    pub const fn with(self, speed: LinkSpeed) -> Self {
        Self(self.0 | 1 << speed as u8)
    }

    /// Returns the set without `speed`.
    #[must_use]
    pub const fn without(self, speed: LinkSpeed) -> Self {
        Self(self.0 & !(1 << speed as u8))
    }

    /// True if `speed` is in the set.
    #[must_use]
    pub const fn contains(self, speed: LinkSpeed) -> bool {
        self.0 >> speed as u8 & 1 != 0
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the fastest speed; `None` if the set is empty.
    #[must_use]
    pub fn fastest(self) -> Option<LinkSpeed> {
        LinkSpeed::ALL.into_iter().rev().find(|&s| self.contains(s))
    }
}

/// One entry of a port's arbitration table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArbEntry {
    /// The lane.
    pub vl: Vl,
    /// Amount that the lane may send in its turn, in units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}

/// Both arbitration tables of a port; entries beyond the port's capability are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlArbitration {
    /// Low priority.
    pub low: [ArbEntry; 64],
    /// High priority.
    pub high: [ArbEntry; 64],
}

impl VlArbitration {
    /// The power-on state: all entries zero.
    pub const EMPTY: Self = Self {
        low: [ArbEntry {
            vl: match Vl::new(0) {
                Some(vl) => vl,
                None => Vl::MANAGEMENT,
            },
            weight: 0,
        }; 64],
        high: [ArbEntry {
            vl: match Vl::new(0) {
                Some(vl) => vl,
                None => Vl::MANAGEMENT,
            },
            weight: 0,
        }; 64],
    };
}

/// The part of a port that its agent uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortData {
    pub(crate) settings: PortSettings,
    /// Width and speed of the link, as last trained.
    pub rate: Rate,
    /// LinkWidthEnabled, a bit set of `LinkWidth::bit`.
    pub widths_enabled: u8,
    /// LinkSpeedEnabled and LinkSpeedExtEnabled.
    pub speeds_enabled: SpeedSet,
    /// Physical state after the link goes down: Sleep or Polling (LinkDownDefaultState).
    pub down_default: PhysState,
    /// CapabilityMask; its IsSM bit changes.
    pub capability_mask: u32,
    /// CapabilityMask2.
    pub capability_mask2: u16,
    /// PartitionEnforcementInbound, Outbound, FilterRawInbound, Outbound: bits 3 to 0, as in PortInfo.
    pub enforcement: u8,
    /// SMPs with a wrong M_Key; saturates.
    pub m_key_violations: u16,
    /// Packets with a wrong P_Key; saturates.
    pub p_key_violations: u16,
    /// Packets with a wrong Q_Key; saturates.
    pub q_key_violations: u16,
    /// P_Key table; entries beyond the end are 0.
    pub pkeys: Vec<PKey>,
    /// GUID table from entry 1 on (entry 0 is the port's own GUID); entries beyond the end are 0.
    pub guids: Vec<Guid>,
    /// Arbitration tables; `None`: power-on state.
    pub vl_arbitration: Option<Box<VlArbitration>>,
    /// All counters without the MADs of [`Wire`]; read them with [`crate::Chassis::counters`].
    pub(crate) counters: Counters,
    /// Counters of the optional attributes; read them with [`crate::Chassis::detail`].
    pub(crate) details: Details,
}

impl PortData {
    /// Returns the power-on state.
    #[must_use]
    pub(crate) fn new(capability: &PortCapability) -> Self {
        Self {
            settings: PortSettings::default(),
            // Port 0 of a switch never trains, so it has its best supported rate.
            rate: Rate {
                width: widest(capability.widths).unwrap_or_default(),
                speed: capability.speed,
            },
            widths_enabled: capability.widths,
            speeds_enabled: SpeedSet::up_to(capability.speed),
            down_default: PhysState::Polling,
            capability_mask: capability.mask,
            capability_mask2: capability.mask2,
            enforcement: 0,
            m_key_violations: 0,
            p_key_violations: 0,
            q_key_violations: 0,
            // Source: IBA vol 1 §10.9.1.2: entry 0 is the default partition at power-on.
            pkeys: vec![PKey::DEFAULT_FULL],
            guids: Vec::new(),
            vl_arbitration: None,
            counters: Counters::default(),
            details: Details::default(),
        }
    }

    /// Returns the settings; [`crate::Chassis::set_settings`] changes them.
    #[must_use]
    #[inline]
    pub const fn settings(&self) -> &PortSettings {
        &self.settings
    }

    /// Returns the P_Keys without the empty entries at the end.
    #[must_use]
    pub fn used_pkeys(&self) -> &[PKey] {
        let used = self.pkeys.iter().rposition(|k| k.0 != 0).map_or(0, |last| last + 1);
        &self.pkeys[..used]
    }
}

/// Returns the widest of a bit set of `LinkWidth::bit`.
pub(crate) fn widest(widths: u8) -> Option<LinkWidth> {
    LinkWidth::ALL.into_iter().rev().find(|w| w.bit() & widths != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_sets() {
        let check = |fastest, want: &[LinkSpeed]| {
            let set = SpeedSet::up_to(fastest);
            let found: Vec<_> = LinkSpeed::ALL.into_iter().filter(|&s| set.contains(s)).collect();
            assert_eq!(found, want);
            assert_eq!(set.fastest(), want.last().copied());
        };
        use LinkSpeed::*;
        check(Sdr, &[Sdr]);
        check(Fdr10, &[Sdr, Ddr, Qdr, Fdr10]);
        check(Edr, &[Sdr, Ddr, Qdr, Fdr, Edr]);
        check(Xdr, &[Sdr, Ddr, Qdr, Fdr, Edr, Hdr, Ndr, Xdr]);
        check(Unknown, &[Sdr, Ddr, Qdr, Fdr, Edr, Hdr, Ndr, Xdr]);
        assert_eq!(SpeedSet::EMPTY.fastest(), None);
        let both = SpeedSet::up_to(Ndr).and(SpeedSet::up_to(Fdr10));
        assert_eq!(both.fastest(), Some(Qdr));
    }
}
