//! Quality of service as values: what the operator wants, and what is planned of it.
//!
//! `selvedge-qos` reads these values from files and computes tables from them. They stand here, so that a
//! [`Policy`](crate::Policy) and a [`Plan`](crate::Plan) can hold them.

mod intent;
mod planned;
mod policy_file;
mod ranges;
mod resolved;
mod settings;

pub use intent::{Class, ClassPlan, Compiled, Hardware, Intent, Latency, Match, Ulp};
pub use planned::{PathRules, PlannedQos, PortLanes, Promise};
pub use policy_file::{
    ArbScope, GroupName, Level, LevelName, LevelRef, MatchRule, PolicyFile, PortGroup, PortName, RowScope,
};
pub use ranges::Ranges;
pub use resolved::{Asked, End, Resolved};
pub use settings::{Options, Settings, Target};

use std::sync::Arc;

/// What the operator wants of quality of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QosPolicy {
    /// OpenSM's settings and policy file.
    OpenSm(Box<OpenSmQos>),
    /// Classes of traffic with promises.
    Classes(Arc<Intent>),
}

/// OpenSM's quality of service (`qos TRUE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSmQos {
    /// Most data lanes that links are set up for, 1–15 (`max_op_vls`). Default 15, as in OpenSM.
    pub lanes: u8,
    /// The `qos_*` settings.
    pub settings: Settings,
    /// The policy file (`qos_policy_file`); `None`: there is none, and paths get the service level of their partition.
    pub policy: Option<Arc<PolicyFile>>,
}

impl Default for OpenSmQos {
    fn default() -> Self {
        Self {
            lanes: 15,
            settings: Settings::default(),
            policy: None,
        }
    }
}
