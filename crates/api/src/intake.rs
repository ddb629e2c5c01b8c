//! The manager's intake, which limits what each source may send.

use selvedge_types::Lid;
use serde::{Deserialize, Serialize};

/// Datagrams that exceeded a source's limit since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intake {
    /// Number of datagrams held back or dropped.
    pub held: u64,
    /// Sources that babble at present.
    pub babbling: Vec<Babbler>,
}

/// A source that keeps sending one kind of datagram beyond its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Babbler {
    /// LID of the source; 0xFFFF for directed route, 0 for several sources together.
    pub lid: Lid,
    /// Name of the port with this LID, if the plan has one.
    pub port: Option<String>,
    /// The kind of datagram.
    pub what: String,
    /// Start of the babble, in ms since the process started.
    pub since_ms: u64,
    /// Number of datagrams received since that time.
    pub came: u64,
}
