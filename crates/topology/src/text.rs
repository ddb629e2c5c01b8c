//! Topology files: ibsim's net files and the text of `ibnetdiscover`.
//!
//! One grammar reads both, as in ibsim's own parser: header lines (`Switch 36 "id" # "description" …`), port lines
//! (`[1] "peer"[2] # …`), assignments before a header (`switchguid=0x…`). Source: `ibnetdiscover.c` of
//! infiniband-diags, `sim_net.c` of ibsim 0.12.
//!
//! Where a node has no GUID line, an id like `S-0002c90000000001` gives the GUID. Otherwise GUIDs are assigned by
//! counting, as in ibsim: switches from 0x200000 on, other nodes from 0x100000 on, with one number for the node and one
//! for each port. A port without a GUID in the file gets its node's GUID plus its number, as in ibsim. If the file
//! gives that GUID to another port, the port gets a different one. Links without a rate are 4xSDR, as in ibsim. All
//! links are trained and INIT; LIDs are those of the file.

mod emit;
mod line;
mod resolve;
mod scan;

use std::fmt;

use selvedge_fabric::{BuildError, Fabric};
use selvedge_types::Guid;

use crate::NodeNames;

pub(crate) use line::{leading_guid, leading_number, parse_rate};

/// Format of a topology file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A net file of ibsim: node ids are names.
    IbsimNet,
    /// Output of `ibnetdiscover`: node ids are GUIDs.
    Ibnetdiscover,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IbsimNet => "ibsim net file",
            Self::Ibnetdiscover => "ibnetdiscover output",
        })
    }
}

impl Format {
    /// Returns the format that `bytes` seem to have; `None` if there is no node in them.
    #[must_use]
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        String::from_utf8_lossy(bytes)
            .lines()
            .filter_map(scan::header_id)
            .map(|id| match line::guid_of_id(&id) {
                Some(_) => Self::Ibnetdiscover,
                None => Self::IbsimNet,
            })
            .next()
    }
}

/// A line of a file, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as named by its reader.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Reason why a topology file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// SLV-TOPOLOGY-0010: no line of the file is a node.
    #[error("SLV-TOPOLOGY-0010: {file}: no node in it; give an ibsim net file or the plain output of `ibnetdiscover`")]
    NoNodes {
        /// Name of the file.
        file: String,
    },
    /// SLV-TOPOLOGY-0011: a line of a topology file cannot be read.
    #[error("SLV-TOPOLOGY-0011: {place}: {what}; want {want}")]
    Syntax {
        /// File and line.
        place: Place,
        /// The text found.
        what: String,
        /// The text expected.
        want: &'static str,
    },
    /// SLV-TOPOLOGY-0012: two nodes have the same id or GUID.
    #[error(
        "SLV-TOPOLOGY-0012: {place}: {name} is a different node in line {first_line}; rename one or correct its GUID"
    )]
    DuplicateNode {
        /// File and line.
        place: Place,
        /// The id or GUID.
        name: String,
        /// Line of the first node.
        first_line: usize,
    },
    /// SLV-TOPOLOGY-0013: two lines name different peers for one port.
    #[error(
        "SLV-TOPOLOGY-0013: {place}: {port} is cabled to {peer} here and to {other} in line {other_line}; remove one"
    )]
    Contradiction {
        /// File and line.
        place: Place,
        /// Name of the port.
        port: String,
        /// The port's peer in this line.
        peer: String,
        /// The port's peer in the other line.
        other: String,
        /// Number of the other line.
        other_line: usize,
    },
    /// SLV-TOPOLOGY-0014: a cable leads to a node that the file does not have.
    #[error(
        "SLV-TOPOLOGY-0014: {place}: no node \"{peer}\" in the file; it seems cut off: add the node or remove the line"
    )]
    UnknownPeer {
        /// File and line.
        place: Place,
        /// The node's id.
        peer: String,
    },
    /// SLV-TOPOLOGY-0015: the node has no such port.
    #[error(
        "SLV-TOPOLOGY-0015: {place}: \"{node}\" has ports 1-{count}, not {port}; correct the port or the node's count"
    )]
    NoSuchPort {
        /// File and line.
        place: Place,
        /// The node's id.
        node: String,
        /// The port.
        port: u32,
        /// Number of ports of the node.
        count: u8,
    },
    /// SLV-TOPOLOGY-0016: parts of the file contradict each other, but not in a single line.
    #[error("SLV-TOPOLOGY-0016: {file}: the nodes and cables do not fit together; correct the file")]
    Build {
        /// Name of the file.
        file: String,
        /// The contradiction.
        source: BuildError,
    },
    /// SLV-TOPOLOGY-0017: the file exceeds the size of any subnet.
    #[error("SLV-TOPOLOGY-0017: {place}: more than {limit} {what}; a subnet has at most 49151 LIDs: cut the file")]
    TooBig {
        /// Place at which the limit is exceeded.
        place: Place,
        /// The quantity that is too large.
        what: &'static str,
        /// The largest number allowed.
        limit: u64,
    },
    /// SLV-TOPOLOGY-0018: neither end of a link states a known width.
    #[error(
        "SLV-TOPOLOGY-0018: {place}: {rate} is no rate; want a width (1x, 2x, 4x, 8x, 12x) and a speed (SDR to XDR, or \
         ??? for an unknown one), as in 4xNDR, or no rate at all"
    )]
    UnknownRate {
        /// File and line.
        place: Place,
        /// The text of the rate.
        rate: String,
    },
}

/// A problem of a topology file that could be read nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// SLV-TOPOLOGY-0020: only one end of a cable is in the file.
    #[error("SLV-TOPOLOGY-0020: {place}: the line of the other end, {peer}, is missing; taken as cabled")]
    MissingReverse {
        /// File and line.
        place: Place,
        /// Name of the port at the other end.
        peer: String,
    },
    /// SLV-TOPOLOGY-0021: a port is looped back to itself.
    #[error("SLV-TOPOLOGY-0021: {place}: {port} is cabled to itself; taken as not cabled")]
    LoopedBack {
        /// File and line.
        place: Place,
        /// Name of the port.
        port: String,
    },
    /// SLV-TOPOLOGY-0022: a width or speed is unknown.
    #[error(
        "SLV-TOPOLOGY-0022: {place}: the rate {rate} is not known; if the other end states one, that is used, \
         otherwise the speed stays unknown"
    )]
    UnknownRate {
        /// File and line.
        place: Place,
        /// The text found.
        rate: String,
    },
    /// SLV-TOPOLOGY-0023: lines were ignored, because the reader does not know them.
    #[error("SLV-TOPOLOGY-0023: {place}: not understood and left out, with {more} more such lines: {text}")]
    IgnoredLines {
        /// File and line of the first ignored line.
        place: Place,
        /// Text of the first ignored line, shortened.
        text: String,
        /// Number of further lines.
        more: usize,
    },
    /// SLV-TOPOLOGY-0024: the lines of both ends of a cable name different GUIDs for a port.
    #[error(
        "SLV-TOPOLOGY-0024: {place}: the GUID of {port} is {there} here and {own} in its own line; the GUID in its own \
         line is used"
    )]
    GuidMismatch {
        /// File and line.
        place: Place,
        /// Name of the port.
        port: String,
        /// GUID of the port in its own line.
        own: Guid,
        /// GUID of the port in the line of the other end.
        there: Guid,
    },
    /// SLV-TOPOLOGY-0025: a node is in the file twice, with equal contents.
    #[error("SLV-TOPOLOGY-0025: {place}: \"{node}\" is in line {first_line} too; taken as one node")]
    ListedTwice {
        /// File and line.
        place: Place,
        /// The node's id.
        node: String,
        /// Line of the first entry.
        first_line: usize,
    },
    /// SLV-TOPOLOGY-0026: two ports have the same GUID.
    #[error("SLV-TOPOLOGY-0026: {place}: {port} has the GUID {guid}, as has {other}; it counts for {other}")]
    SharedPortGuid {
        /// File and line.
        place: Place,
        /// Name of the port.
        port: String,
        /// The GUID.
        guid: Guid,
        /// The other port with this GUID.
        other: String,
    },
    /// SLV-TOPOLOGY-0027: a LID is not valid.
    #[error("SLV-TOPOLOGY-0027: {place}: {lid} is no unicast LID (1-49151) or no multiple of 2^LMC; it is ignored")]
    BadLid {
        /// File and line.
        place: Place,
        /// The text found.
        lid: String,
    },
}

/// A fabric from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The fabric.
    pub fabric: Fabric,
    /// Format of the file.
    pub format: Format,
    /// Warnings about the file.
    pub warnings: Vec<Warning>,
}

/// Reads a topology file; `file` is its name for messages. Invalid UTF-8 becomes replacement characters.
pub fn read(file: &str, bytes: &[u8]) -> Result<Loaded, FileError> {
    let text = String::from_utf8_lossy(bytes);
    let format = Format::detect(bytes).ok_or_else(|| FileError::NoNodes { file: file.to_owned() })?;
    let scanned = scan::scan(file, &text)?;
    let (fabric, warnings) = resolve::resolve(file, scanned)?;
    Ok(Loaded {
        fabric,
        format,
        warnings,
    })
}

/// Writes a topology file. In `Ibnetdiscover` format switches have their names in `names`, as with `--node-name-map`.
///
/// The ids of a net file are descriptions if these are unique and acceptable to ibsim, else `S-<guid>`, `H-<guid>`.
#[must_use]
pub fn write(fabric: &Fabric, format: Format, names: &NodeNames) -> String {
    emit::emit(fabric, format, names)
}

/// Returns a text from a file, shortened for a message.
pub(crate) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    let clean: String = text.trim().chars().take(CHARS_MAX).map(printable).collect();
    if text.trim().chars().count() > CHARS_MAX {
        format!("{clean}…")
    } else {
        clean
    }
}

/// Replaces control characters, which would break a line or a terminal, by spaces.
pub(crate) fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}
