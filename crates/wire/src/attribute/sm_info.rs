//! SMInfo: state and priority of a subnet manager, for other managers.

use core::fmt;

use selvedge_types::Guid;

use super::bytes::{Bits, put, u32_at, u64_at};
use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// State of a subnet manager. Source: IBA vol 1 §14.4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SmState {
    /// Disabled by another manager: takes no part in elections.
    #[default]
    NotActive,
    /// Discovering the subnet.
    Discovering,
    /// Polling the master.
    Standby,
    /// The master.
    Master,
}

impl SmState {
    /// Decodes SMInfo.SMState (0–3).
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::NotActive),
            1 => Some(Self::Discovering),
            2 => Some(Self::Standby),
            3 => Some(Self::Master),
            _ => None,
        }
    }

    /// Returns the code for SMInfo.SMState.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for SmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotActive => "NOT-ACTIVE",
            Self::Discovering => "DISCOVERING",
            Self::Standby => "STANDBY",
            Self::Master => "MASTER",
        })
    }
}

/// Request from one subnet manager to another: the modifier of SubnSet(SMInfo). Source: IBA vol 1 §14.4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SmControl {
    /// The master hands over mastership (1).
    Handover,
    /// The new master confirms the handover (2).
    Acknowledge,
    /// Take no part in elections (3).
    Disable,
    /// Return from Disable to standby (4).
    Standby,
    /// Discover the subnet again (5).
    Discover,
}

impl SmControl {
    /// Decodes the modifier.
    #[must_use]
    pub const fn from_modifier(modifier: u32) -> Option<Self> {
        match modifier {
            1 => Some(Self::Handover),
            2 => Some(Self::Acknowledge),
            3 => Some(Self::Disable),
            4 => Some(Self::Standby),
            5 => Some(Self::Discover),
            _ => None,
        }
    }

    /// Returns the modifier.
    #[must_use]
    pub const fn modifier(self) -> u32 {
        self as u32 + 1
    }
}

impl fmt::Display for SmControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handover => "HANDOVER",
            Self::Acknowledge => "ACKNOWLEDGE",
            Self::Disable => "DISABLE",
            Self::Standby => "STANDBY",
            Self::Discover => "DISCOVER",
        })
    }
}

/// State and priority of a subnet manager.
///
/// Source: IBA vol 1 §14.2.5.13.
/// ```text
///  0 GUID of its port | 8 SM_Key | 16 ActCount | 20 priority (4 bits), state (4 bits)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmInfo {
    /// GUID of the port at which the manager runs.
    pub guid: Guid,
    /// SM_Key, which authenticates a manager. A response contains 0 unless the request contained the key.
    pub sm_key: u64,
    /// Activity counter: it increases with every action of the manager, so a standby can see that the master is alive.
    pub act_count: u32,
    /// Priority 0–15. The manager with the highest priority becomes master; among equals, the one with the lowest GUID.
    pub priority: Bits<4>,
    /// Current state.
    pub state: SmState,
}

impl Attribute for SmInfo {
    const ID: AttributeId = AttributeId::SM_INFO;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        let code = data[20] & 0x0F;
        Ok(Self {
            guid: Guid(u64_at(data, 0)),
            sm_key: u64_at(data, 8),
            act_count: u32_at(data, 16),
            priority: Bits::low(data[20] >> 4),
            state: SmState::from_code(code).ok_or(DecodeError::Field {
                field: "SMInfo.SMState",
                want: "0-3",
                found: u64::from(code),
            })?,
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        put(&mut data, 0, self.guid.0.to_be_bytes());
        put(&mut data, 8, self.sm_key.to_be_bytes());
        put(&mut data, 16, self.act_count.to_be_bytes());
        data[20] = self.priority.get() << 4 | self.state.code();
        data
    }
}

impl fmt::Display for SmInfo {
    /// The SM_Key is a secret, so the text only shows whether there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SMInfo guid={} {} priority={} act={} key={}",
            self.guid,
            self.state,
            self.priority,
            self.act_count,
            if self.sm_key == 0 { "none" } else { "set" },
        )
    }
}
