//! What kind of adapter an HCA is.

use selvedge_types::Guid;

use crate::costs::Costs;
use crate::path::PathCheck;

/// Largest numbers of objects. Each is checked when an object is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open contexts. Default 1,024.
    pub contexts: u32,
    /// Protection domains. Default 32,768.
    pub pds: u32,
    /// Memory regions; at most 2^24 - 1, because a key has 24 bits for the place. Default 1,048,576.
    pub mrs: u32,
    /// Completion queues and channels. Default 65,536 each.
    pub cqs: u32,
    /// Entries of a completion queue. Default 4,194,303.
    pub cqe: u32,
    /// Shared receive queues. Default 32,768.
    pub srqs: u32,
    /// Address handles. Default 1,048,576.
    pub ahs: u32,
    /// Queue pairs; at most 262,000, because a number has 18 bits for the place. Default 131,072.
    pub qps: u32,
    /// Work requests of a queue. Default 32,768.
    pub wrs: u32,
    /// READs and atomics outstanding in each direction. Default 16.
    pub rd_atomic: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            contexts: 1_024,
            pds: 32_768,
            mrs: 1_048_576,
            cqs: 65_536,
            cqe: 4_194_303,
            srqs: 32_768,
            ahs: 1_048_576,
            qps: 131_072,
            wrs: 32_768,
            rd_atomic: 16,
        }
    }
}

/// Settings of an HCA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaConfig {
    /// Node GUID. Port GUIDs are the next numbers.
    pub guid: Guid,
    /// Number of ports, 1–254. Default 1.
    pub ports: u8,
    /// Limits.
    pub limits: Limits,
    /// Costs.
    pub costs: Costs,
    /// Contexts of queue pairs that the HCA holds; 0 (default): all of them, so that none is ever loaded.
    pub context_cache: u32,
    /// Largest number of request packets that a reliable connection sends before it waits. Default 64.
    pub window_packets: u32,
    /// An acknowledgement is requested every this many packets, and with the last packet of a message. Default 16.
    pub ack_every: u32,
    /// True if reliable connections tell their receives to the other end, and heed what they are told (end-to-end
    /// credits). Default false: a sender learns from RNR NAKs that receives are missing.
    pub end_to_end_credits: bool,
    /// True (default) if an ARMED connection migrates at once when the port of its primary path leaves ACTIVE.
    /// Otherwise it migrates when its retries are used up.
    pub migrate_on_port_down: bool,
    /// True if a connection that becomes ARMED raises an event. Default false, as neither IBA nor verbs have it.
    pub armed_events: bool,
    /// How the path of an arriving packet is compared.
    pub path_check: PathCheck,
    /// True if the driver wants [`crate::Notice`]s, and fetches them. Default false.
    pub notices: bool,
}

impl HcaConfig {
    /// Returns the settings of an adapter with this many ports.
    #[must_use]
    pub fn new(guid: Guid, ports: u8) -> Self {
        Self {
            guid,
            ports,
            limits: Limits::default(),
            costs: Costs::default(),
            context_cache: 0,
            window_packets: 64,
            ack_every: 16,
            end_to_end_credits: false,
            migrate_on_port_down: true,
            armed_events: false,
            path_check: PathCheck::default(),
            notices: false,
        }
    }
}
