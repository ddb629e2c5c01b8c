//! What a manager is in the middle of: one value, so that impossible combinations cannot be written down.

use std::sync::Arc;

use selvedge_fabric::{NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{Installed, LaneTable};
use selvedge_planner::{Inventory, JobId, Outcome};
use selvedge_wire::{Attribute, LinearForwardingTable, Mad};

use crate::apply::{Apply, Blocks, SetId};
use crate::discover::{Ask, Discovery};
use crate::election;
use crate::lane_smp;
use crate::probe::{Behind, Probe};
use crate::readback::ReadId;
use crate::view::StageName;

/// What was asked, kept with each request in flight.
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
    /// SwitchInfo in a light sweep.
    Light(NodeIdx),
    /// PortInfo of our own port in a light sweep or a look at ports, or of a switch that may have been off while a plan
    /// was on its way.
    Held(PortRef),
    /// PortInfo of a port whose switch may have told nobody what happened to it, in a light sweep.
    Unwatched(PortRef),
    /// PortInfo of a port whose link is up at the other end only, in a light sweep.
    Torn(PortRef),
    /// NodeInfo behind a port whose peer was silent, in a light sweep.
    Knock,
    /// NodeInfo behind a port where a GUID was seen that another node has, in a light sweep.
    Twin,
    /// NodeInfo behind a link that came up before its switch knew us, or showed PortStateChange, in a light sweep.
    AtLink(PortRef),
    /// NodeInfo of a node whose link is up at the other end only, by the node's own way, in a light sweep.
    Who(NodeIdx),
    /// NodeInfo of a port that calls itself otherwise than it was seen, in a light sweep.
    Whose(PortRef),
    /// PortInfo of a port of a switch that said that something changed.
    Probe(PortRef),
    /// What is behind such a port, if its link came back.
    Behind(PortRef, Behind),
    /// A block of a multicast table or of a port's GUIDs.
    Block(SetId),
    /// SMInfo of another manager.
    SmInfo(election::Ask),
}

/// What a manager is in the middle of.
#[derive(Debug, Default)]
pub enum Stage {
    /// Nothing to do until a timer is due or something happens.
    #[default]
    Idle,
    /// Walking the fabric.
    Discovering(Box<Discovery>),
    /// A heavy sweep asks other managers for their SMInfo. The election has their answers.
    Electing,
    /// A heavy sweep reads the tables that are not known.
    Reading {
        /// What was found.
        inventory: Arc<Inventory>,
        /// Tables as far as read.
        installed: Installed,
        /// Blocks to read.
        total: u64,
        /// Those of them that are yet to be asked for, the next one last.
        todo: Vec<(SwitchIdx, usize)>,
        /// Lane tables that are yet to be asked for, the next one last.
        lanes: Vec<LaneTable>,
        /// How often what is unknown has been asked for, this time included.
        round: u32,
    },
    /// A job plans the whole fabric, or a repair.
    Planning {
        /// The ticket of the job.
        job: JobId,
        /// What was found.
        inventory: Arc<Inventory>,
        /// Tables as read.
        installed: Arc<Installed>,
    },
    /// Waiting until LIDs are stored.
    Persisting {
        /// What was found.
        inventory: Arc<Inventory>,
        /// Tables as read.
        installed: Arc<Installed>,
        /// What will be applied.
        outcome: Arc<Outcome>,
    },
    /// Sending Sets.
    Applying(Box<Apply>, Arc<Inventory>),
    /// A light sweep, or the check after a plan: see `second_look`. It is also entered without any request, to go on to
    /// [`Stage::Idle`] by way of the outer machine.
    LightSweep {
        /// A difference was found.
        changed: bool,
    },
    /// Looking at the ports of switches that said that something changed.
    Probing(Box<Probe>),
    /// Reading or writing multicast tables.
    Copying(Copying),
    /// Reading or writing alias GUIDs; `None`: reading them back, see [`readback`](crate::readback).
    Naming(Option<Box<Apply<Blocks>>>),
    /// Watching the master.
    Standby,
    /// As master, waiting for a better manager to take the subnet.
    HandingOver,
    /// Told by the master to stay out, until it says otherwise.
    Disabled,
    /// Told to stop.
    Stopped,
}

/// What is done about multicast tables.
#[derive(Debug, Default)]
pub struct Copying {
    /// Blocks that are read or written. `None`: they are read back, see [`readback`](crate::readback).
    pub blocks: Option<Box<Apply<Blocks>>>,
    /// The plan that is applied when that is done.
    pub then: Option<(Box<Apply>, Arc<Inventory>)>,
}

impl Copying {
    /// Blocks are read or written.
    pub fn of(blocks: Apply<Blocks>) -> Self {
        Self {
            blocks: Some(Box::new(blocks)),
            then: None,
        }
    }
}

impl Stage {
    /// Takes an answer about a table, while tables are read.
    pub fn table_read(&mut self, token: Token, answer: Option<&Mad>) {
        let (
            Self::Reading {
                inventory, installed, ..
            },
            Some(mad),
        ) = (self, answer)
        else {
            return;
        };
        match token {
            Token::Table { switch, block } => {
                if let Ok(table) = LinearForwardingTable::parse(mad.smp_data()) {
                    installed.learn(switch, block, table.ports);
                }
            }
            Token::Lanes(table) => {
                let held = Arc::make_mut(&mut installed.lanes);
                lane_smp::learn(held, &inventory.fabric, table, mad.smp_data());
            }
            _ => {}
        }
    }

    /// Its name for people.
    pub const fn name(&self) -> StageName {
        match self {
            Self::Idle | Self::Standby | Self::Disabled | Self::Stopped => StageName::Idle,
            Self::Discovering(_) | Self::Electing | Self::HandingOver => StageName::Discovering,
            Self::Reading { .. } => StageName::ReadingTables,
            Self::Planning { .. } => StageName::Planning,
            Self::Persisting { .. } => StageName::Persisting,
            Self::Applying(..) | Self::Copying(_) | Self::Naming(_) => StageName::Applying,
            Self::Probing(_) => StageName::Probing,
            Self::LightSweep { .. } => StageName::LightSweep,
        }
    }
}
