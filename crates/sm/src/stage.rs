//! The stage of a manager: one value of an enum, so that the code cannot represent impossible combinations.

use std::sync::Arc;

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_plan::{Installed, LaneTable};
use selvedge_planner::{Inventory, JobId, Outcome};

use crate::apply::{Apply, Blocks, SetId};
use crate::discover::{Ask, Discovery};
use crate::election;
use crate::fault::probe::{Behind, Probe};
use crate::readback::ReadId;
use crate::sweep;
use crate::view::StageName;

/// The subject of a request, kept with each request in flight.
#[derive(Clone, Copy, Debug)]
pub enum Token {
    /// Part of discovery.
    Discover(Ask),
    /// A forwarding table block.
    Table {
        /// The switch.
        switch: SwitchIdx,
        /// The block.
        block: usize,
    },
    /// A lane table, in a sweep.
    Lanes(LaneTable),
    /// A table that is read back.
    ReadBack(ReadId),
    /// A Set.
    Set(SetId),
    /// A Get of a light sweep, or of the check after a plan. The local port is read at other times, too.
    Look(sweep::Ask),
    /// PortInfo of a port of a switch that reported a change.
    Probe(PortRef),
    /// The node behind a port with a link that came back.
    Behind(PortRef, Behind),
    /// A block of a multicast table or of a port's GUIDs.
    Block(SetId),
    /// SMInfo of another manager.
    SmInfo(election::Ask),
}

/// The stage of a manager: its current work.
#[derive(Debug, Default)]
pub enum Stage {
    /// Idle until a timer is due or an input arrives.
    #[default]
    Idle,
    /// Walking the fabric.
    Discovering(Box<Discovery>),
    /// A heavy sweep asks other managers for their SMInfo. The election handles their answers.
    Electing,
    /// A heavy sweep reads the tables that are not known.
    Reading,
    /// A job plans the whole fabric, or a repair.
    Planning {
        /// The ticket of the job.
        job: JobId,
        /// The inventory.
        inventory: Arc<Inventory>,
        /// Tables as read.
        installed: Arc<Installed>,
    },
    /// Waiting until LIDs are stored.
    Persisting {
        /// The inventory.
        inventory: Arc<Inventory>,
        /// Tables as read.
        installed: Arc<Installed>,
        /// The plan to be applied.
        outcome: Arc<Outcome>,
    },
    /// Sending Sets.
    Applying(Box<Apply>, Arc<Inventory>),
    /// A light sweep, or the check after a plan. The stage is also entered without any Get, as the last one before
    /// [`Stage::Idle`].
    LightSweep,
    /// Probing the ports of switches that reported a change.
    Probing(Box<Probe>),
    /// Reading or writing multicast tables.
    MftBlocks(MftWork),
    /// Reading or writing alias GUIDs; `None`: reading them back, see [`readback`](crate::readback).
    GuidBlocks(Option<Box<Apply<Blocks>>>),
    /// Watching the master.
    Standby,
    /// As master, the manager waits for a better manager to take the subnet.
    HandingOver,
    /// The manager is NOT-ACTIVE: the master disabled it, until the master sends STANDBY.
    Disabled,
    /// Stopped.
    Stopped,
}

/// The current work on MFTs.
#[derive(Debug, Default)]
pub struct MftWork {
    /// Blocks that are read or written. `None`: they are read back, see [`readback`](crate::readback).
    pub blocks: Option<Box<Apply<Blocks>>>,
    /// The plan that is applied afterwards.
    pub then: Option<(Box<Apply>, Arc<Inventory>)>,
}

impl MftWork {
    /// Returns the work of reading or writing these blocks, with no plan to apply afterwards.
    pub fn of(blocks: Apply<Blocks>) -> Self {
        Self {
            blocks: Some(Box::new(blocks)),
            then: None,
        }
    }
}

impl Stage {
    /// Returns the name of the stage, for people.
    pub const fn name(&self) -> StageName {
        match self {
            Self::Idle | Self::Standby | Self::Disabled | Self::Stopped => StageName::Idle,
            Self::Discovering(_) | Self::Electing | Self::HandingOver => StageName::Discovering,
            Self::Reading => StageName::ReadingTables,
            Self::Planning { .. } => StageName::Planning,
            Self::Persisting { .. } => StageName::Persisting,
            Self::Applying(..) | Self::MftBlocks(_) | Self::GuidBlocks(_) => StageName::Applying,
            Self::Probing(_) => StageName::Probing,
            Self::LightSweep => StageName::LightSweep,
        }
    }
}
