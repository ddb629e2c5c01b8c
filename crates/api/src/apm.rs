//! Alternate paths for automatic path migration.

use serde::{Deserialize, Serialize};

use crate::Body;

/// Alternate paths over all pairs of hosts, or over a sample of them. A pair counts once. What no alternate path of
/// a pair can avoid (the only connected port of a channel adapter, and the only switch to which it is connected) counts in
/// `faults` only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternates {
    /// The fabric as named in the request.
    pub fabric: String,
    /// The engine that makes the tables.
    pub engine: String,
    /// Largest LMC of a host port.
    pub lmc: u8,
    /// The policy that chooses alternate paths.
    pub policy: String,
    /// Hosts with a connected port.
    pub hosts: u64,
    /// Pairs of these hosts that the request covers.
    pub pairs_there_are: u64,
    /// Pairs that were examined; fewer than there are if a sample was taken.
    pub pairs: u64,
    /// Pairs with an alternate path.
    pub with_alternate: u64,
    /// Pairs with an alternate path that shares nothing avoidable with the primary.
    pub disjoint: u64,
    /// Pairs by the number of avoidable links that both paths use.
    pub shared_links: Vec<AlternateShare>,
    /// Pairs by the number of avoidable switches that both paths use.
    pub shared_switches: Vec<AlternateShare>,
    /// Single faults that break both paths, those of most pairs first.
    pub faults: Vec<AlternateFault>,
    /// Pairs with an alternate path that shares most, worst first.
    pub worst: Vec<AlternatePath>,
    /// Reasons why pairs have no alternate path, most pairs first.
    pub refused: Vec<AlternateRefusal>,
    /// True if every examined pair has an alternate path that shares nothing avoidable.
    pub ok: bool,
}

impl Body for Alternates {
    const SCHEMA: &'static str = "selvedge.alternates";
}

/// Pairs that share this number of links or switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlternateShare {
    /// Number of shared links or switches.
    pub shared: u64,
    /// Pairs.
    pub pairs: u64,
}

/// A single fault that breaks primary and alternate path of pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlternateFault {
    /// `link`, `switch` or `port`: a port of a channel adapter or its cable.
    pub kind: String,
    /// The link by its two ends, the switch, or the port.
    pub name: String,
    /// Pairs that lose both paths although an alternate path could avoid it.
    pub pairs: u64,
    /// Pairs that lose both paths whatever the alternate path.
    pub unavoidable: u64,
}

/// A reason why pairs have no alternate path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlternateRefusal {
    /// Code of the reason.
    pub code: String,
    /// The reason, for the first such pair.
    pub example: String,
    /// Pairs.
    pub pairs: u64,
}

/// Alternate paths of one host, or of one pair of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlternatePaths {
    /// The fabric as named in the request.
    pub fabric: String,
    /// The engine that makes the tables.
    pub engine: String,
    /// Largest LMC of a host port.
    pub lmc: u8,
    /// One row per pair and policy.
    pub paths: Vec<AlternatePath>,
    /// True if every row has an alternate path that shares nothing avoidable; of a pair with several policies, if one
    /// has.
    pub ok: bool,
}

impl Body for AlternatePaths {
    const SCHEMA: &'static str = "selvedge.alternate_paths";
}

/// The alternate path of a pair of hosts by a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlternatePath {
    /// Source host.
    pub source: String,
    /// Destination host.
    pub target: String,
    /// The policy.
    pub policy: String,
    /// The primary path; absent if there is none.
    pub primary: Option<AlternateLeg>,
    /// The alternate path; absent if the policy gives none.
    pub alternate: Option<AlternateLeg>,
    /// The reason why there is no alternate path.
    pub refused: Option<String>,
    /// True if a channel adapter migrates by itself; false if software must do it, because the other path begins or
    /// ends at another adapter.
    pub in_hardware: bool,
    /// True if the plan has this service level for the alternate destination LID.
    pub level_planned: bool,
    /// Avoidable links that both paths use, ports of channel adapters included.
    pub shared_links: u64,
    /// Avoidable switches that both paths use.
    pub shared_switches: u64,
    /// Single faults that break both paths, as `kind name`, the avoidable ones first.
    pub fatal: Vec<String>,
    /// Number of the first of these that an alternate path could avoid.
    pub avoidable: u64,
}

/// One path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlternateLeg {
    /// Source port.
    pub source_port: String,
    /// Destination port.
    pub target_port: String,
    /// Source LID.
    pub slid: u16,
    /// Destination LID.
    pub dlid: u16,
    /// Source path bits.
    pub path_bits: u8,
    /// Service level.
    pub sl: u8,
    /// Links from source to destination, those of the hosts included.
    pub hops: u32,
    /// Pairs of host port and LID on the busiest link, there or back.
    pub busiest: u64,
}
