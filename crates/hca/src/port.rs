//! Ports as a driver sees them, and the turns of queue pairs on them.

use std::collections::VecDeque;

use selvedge_types::{Guid, Lid, LidRange, Lmc, Mtu, PKey, PortState};

use crate::attr::Gid;
use crate::event::EventType;

/// What the subnet manager has set at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// Logical state.
    pub state: PortState,
    /// LIDs.
    pub lids: LidRange,
    /// LID of the subnet manager.
    pub sm_lid: Lid,
    /// Service level of the subnet manager.
    pub sm_sl: u8,
    /// Active MTU.
    pub mtu: Mtu,
    /// P_Key table.
    pub pkeys: Vec<PKey>,
    /// Subnet prefix of the GIDs.
    pub subnet_prefix: u64,
}

impl Default for PortAttr {
    /// A port without a cable, before a subnet manager has seen it.
    fn default() -> Self {
        Self {
            state: PortState::Down,
            lids: LidRange {
                base: Lid::NONE,
                lmc: Lmc::ZERO,
            },
            sm_lid: Lid::NONE,
            sm_sl: 0,
            mtu: Mtu::B2048,
            pkeys: vec![PKey::DEFAULT_FULL],
            subnet_prefix: 0xFE80_0000_0000_0000,
        }
    }
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Packets sent to the link.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets sent while the port was not ACTIVE: they go nowhere.
    pub sent_down: u64,
    /// Packets received while the port was not ACTIVE.
    pub received_down: u64,
    /// Packets with a destination LID of another port.
    pub wrong_lid: u64,
    /// Packets for a queue pair that does not exist, does not receive, or has another transport.
    pub no_qp: u64,
    /// Packets with another P_Key.
    pub pkey_violations: u64,
    /// Datagrams with another Q_Key.
    pub qkey_violations: u64,
    /// Packets of a connection by a path that is neither its primary nor its alternate one.
    pub wrong_path: u64,
    /// Datagrams without a receive.
    pub no_receive: u64,
}

/// Stands for a service level: turns of packets to the port itself.
pub(crate) const LOOPBACK: u8 = 16;
/// Bits of the service levels.
const LEVELS: u32 = 0xFFFF;

/// A place in the order of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    qp: u32,
    ticket: u32,
}

/// A port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    guid: Guid,
    attr: PortAttr,
    pub counts: PortCounts,
    /// Queue pairs with a packet to send, by service level, then those with a packet to the port itself.
    turns: [VecDeque<Turn>; 17],
    /// True if the next packet to the port itself has its time.
    pub loopback_set: bool,
    /// Service levels with turns, as bits.
    waiting: u32,
}

impl Port {
    pub fn new(guid: Guid) -> Self {
        Self {
            guid,
            attr: PortAttr::default(),
            counts: PortCounts::default(),
            turns: core::array::from_fn(|_| VecDeque::new()),
            waiting: 0,
            loopback_set: false,
        }
    }

    pub const fn attr(&self) -> &PortAttr {
        &self.attr
    }

    pub fn is_active(&self) -> bool {
        self.attr.state == PortState::Active
    }

    /// Returns the port's GID.
    pub const fn gid(&self) -> Gid {
        Gid((self.attr.subnet_prefix as u128) << 64 | self.guid.0 as u128)
    }

    /// Takes new attributes and returns the events of the changes, as a driver derives them from PortInfo.
    pub fn set(&mut self, attr: PortAttr) -> Vec<EventType> {
        let old = core::mem::replace(&mut self.attr, attr);
        let new = &self.attr;
        let was_active = old.state == PortState::Active;
        let is_active = self.is_active();
        let lids = (old.lids.base, old.lids.lmc) != (new.lids.base, new.lids.lmc);
        let manager = (old.sm_lid, old.sm_sl) != (new.sm_lid, new.sm_sl);
        [
            (lids, EventType::LidChange),
            (old.pkeys != new.pkeys, EventType::PkeyChange),
            (old.subnet_prefix != new.subnet_prefix, EventType::GidChange),
            (manager, EventType::SmChange),
            (!was_active && is_active, EventType::PortActive),
            (was_active && !is_active, EventType::PortErr),
        ]
        .into_iter()
        .filter_map(|(changed, event)| changed.then_some(event))
        .collect()
    }

    /// Returns a P_Key of the table. `None`: the index is too large, or the entry is empty.
    pub fn pkey(&self, index: u16) -> Option<PKey> {
        let key = *self.attr.pkeys.get(usize::from(index))?;
        (key.0 & 0x7FFF != 0).then_some(key)
    }

    /// Returns the LID that packets with these path bits show as their source.
    pub fn source(&self, path_bits: u8) -> Lid {
        let mask = self.attr.lids.lmc.lids() - 1;
        Lid(self.attr.lids.base.0 | (u16::from(path_bits) & mask))
    }

    /// Adds a queue pair to the turns of a service level.
    pub fn add_turn(&mut self, sl: u8, qp: u32, ticket: u32) {
        self.turns[usize::from(sl)].push_back(Turn { qp, ticket });
        self.waiting |= LEVELS & 1 << sl;
    }

    /// Returns the queue pair with the next turn, and its ticket.
    pub fn next_turn(&self, sl: u8) -> Option<(u32, u32)> {
        let turn = self.turns.get(usize::from(sl))?.front()?;
        Some((turn.qp, turn.ticket))
    }

    pub fn drop_turn(&mut self, sl: u8) {
        let turns = &mut self.turns[usize::from(sl)];
        turns.pop_front();
        if turns.is_empty() {
            self.waiting &= !(1 << sl);
        }
    }

    /// Returns the service levels with turns, as bits.
    pub const fn waiting(&self) -> u16 {
        self.waiting as u16
    }

    /// True if a packet with this destination does not leave the adapter.
    pub const fn is_own(&self, dlid: Lid) -> bool {
        self.attr.lids.base.0 != Lid::NONE.0 && self.attr.lids.contains(dlid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_a_port_has_its_event() {
        let check = |change: fn(&mut PortAttr), want: &[EventType]| {
            let mut port = Port::new(Guid(1));
            let mut attr = PortAttr {
                state: PortState::Active,
                lids: LidRange::single(Lid(5)),
                ..PortAttr::default()
            };
            port.set(attr.clone());
            change(&mut attr);
            assert_eq!(port.set(attr), want);
        };
        check(|_| {}, &[]);
        check(|a| a.state = PortState::Down, &[EventType::PortErr]);
        check(|a| a.lids = LidRange::single(Lid(6)), &[EventType::LidChange]);
        check(|a| a.sm_lid = Lid(2), &[EventType::SmChange]);
        check(|a| a.pkeys.push(PKey(0x8001)), &[EventType::PkeyChange]);
        check(|a| a.subnet_prefix = 1, &[EventType::GidChange]);
        let mut port = Port::new(Guid(1));
        let up = PortAttr {
            state: PortState::Active,
            ..PortAttr::default()
        };
        assert_eq!(port.set(up), [EventType::PortActive]);
    }

    #[test]
    fn path_bits_choose_a_lid_of_the_range() {
        let mut port = Port::new(Guid(1));
        port.set(PortAttr {
            lids: LidRange {
                base: Lid(8),
                lmc: Lmc::new(2).unwrap(),
            },
            ..PortAttr::default()
        });
        assert_eq!([0, 3, 4, 127].map(|bits| port.source(bits).0), [8, 11, 8, 11]);
    }
}
