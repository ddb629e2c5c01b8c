//! Topology files: ibsim's net files and the text of `ibnetdiscover`.
//!
//! One grammar reads both, because ibsim's own parser reads both: header lines (`Switch 36 "id" # "description" …`),
//! port lines (`[1] "peer"[2] # …`), assignments before a header (`switchguid=0x…`).
//! Source: `ibnetdiscover.c` of infiniband-diags, `sim_net.c` of ibsim 0.12.
//!
//! Where a node has no GUID line, an id like `S-0002c90000000001` gives the GUID. Otherwise GUIDs are counted as ibsim
//! does: switches from 0x200000, others from 0x100000 with one for the node and one per port. A port without a GUID in
//! the file gets its node's GUID plus its number, as in ibsim. If the file gives that GUID to a port, it gets another
//! one. Links without a rate are 4xSDR, as in ibsim. All links are trained and INIT; LIDs are those of the file.

mod emit;
mod line;
mod resolve;
mod scan;

use std::fmt;

use selvedge_fabric::{BuildError, Fabric};
use selvedge_types::Guid;

use crate::NodeNames;

pub(crate) use line::{leading_guid, leading_number, parse_rate};

/// What a topology file is.
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
    /// What `bytes` seem to be; `None` if there is no node in them.
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

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as its reader named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Why a topology file gives no fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// SLV-TOPOLOGY-0010: no line of the file is a node.
    #[error("SLV-TOPOLOGY-0010: {file}: no node in it; give an ibsim net file or the plain output of `ibnetdiscover`")]
    NoNodes {
        /// The file.
        file: String,
    },
    /// SLV-TOPOLOGY-0011: a line cannot be read.
    #[error("SLV-TOPOLOGY-0011: {place}: {what}; want {want}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is there.
        what: String,
        /// What would do.
        want: &'static str,
    },
    /// SLV-TOPOLOGY-0012: two nodes with one id or one GUID.
    #[error(
        "SLV-TOPOLOGY-0012: {place}: {name} is a different node in line {first_line}; rename one or correct its GUID"
    )]
    DuplicateNode {
        /// Where.
        place: Place,
        /// The id or GUID.
        name: String,
        /// Where it came first.
        first_line: usize,
    },
    /// SLV-TOPOLOGY-0013: two lines disagree about the cable at a port.
    #[error(
        "SLV-TOPOLOGY-0013: {place}: {port} is cabled to {peer} here and to {other} in line {other_line}; remove one"
    )]
    Contradiction {
        /// Where.
        place: Place,
        /// The port that cannot be at two cables.
        port: String,
        /// Its peer here.
        peer: String,
        /// Its peer there.
        other: String,
        /// Where that is.
        other_line: usize,
    },
    /// SLV-TOPOLOGY-0014: a cable leads to a node that the file does not have.
    #[error(
        "SLV-TOPOLOGY-0014: {place}: no node \"{peer}\" in the file; it seems cut off: add the node or remove the line"
    )]
    UnknownPeer {
        /// Where.
        place: Place,
        /// The node's id.
        peer: String,
    },
    /// SLV-TOPOLOGY-0015: a port that the node does not have.
    #[error(
        "SLV-TOPOLOGY-0015: {place}: \"{node}\" has ports 1-{count}, not {port}; correct the port or the node's count"
    )]
    NoSuchPort {
        /// Where.
        place: Place,
        /// The node's id.
        node: String,
        /// The port.
        port: u32,
        /// How many it has.
        count: u8,
    },
    /// SLV-TOPOLOGY-0016: the parts contradict each other in a way that no line shows.
    #[error("SLV-TOPOLOGY-0016: {file}: the nodes and cables do not fit together; correct the file")]
    Build {
        /// The file.
        file: String,
        /// What contradicts.
        source: BuildError,
    },
    /// SLV-TOPOLOGY-0017: more than any subnet has.
    #[error("SLV-TOPOLOGY-0017: {place}: more than {limit} {what}; a subnet has at most 49151 LIDs: cut the file")]
    TooBig {
        /// Where the limit is passed.
        place: Place,
        /// What there is too much of.
        what: &'static str,
        /// How many there may be.
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
        /// The text found there.
        rate: String,
    },
}

/// What is odd about a topology file and was read all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// SLV-TOPOLOGY-0020: only one end of a cable is in the file.
    #[error("SLV-TOPOLOGY-0020: {place}: the line of the other end, {peer}, is missing; taken as cabled")]
    MissingReverse {
        /// Where.
        place: Place,
        /// The other end.
        peer: String,
    },
    /// SLV-TOPOLOGY-0021: a port is looped back to itself.
    #[error("SLV-TOPOLOGY-0021: {place}: {port} is cabled to itself; taken as not cabled")]
    LoopedBack {
        /// Where.
        place: Place,
        /// The port.
        port: String,
    },
    /// SLV-TOPOLOGY-0022: a width or speed is unknown.
    #[error(
        "SLV-TOPOLOGY-0022: {place}: the rate {rate} is not known; the other end's is taken, else the speed stays \
         unknown"
    )]
    UnknownRate {
        /// Where.
        place: Place,
        /// What is there.
        rate: String,
    },
    /// SLV-TOPOLOGY-0023: lines that mean nothing to this reader.
    #[error("SLV-TOPOLOGY-0023: {place}: not understood and left out, with {more} more such lines: {text}")]
    IgnoredLines {
        /// The first of them.
        place: Place,
        /// Its text, shortened.
        text: String,
        /// How many more there are.
        more: usize,
    },
    /// SLV-TOPOLOGY-0024: both ends of a cable name a port's GUID, differently.
    #[error("SLV-TOPOLOGY-0024: {place}: the GUID of {port} is {there} here and {own} in its own line; that one taken")]
    GuidMismatch {
        /// Where.
        place: Place,
        /// The port.
        port: String,
        /// Its GUID according to its own line.
        own: Guid,
        /// Its GUID according to this line.
        there: Guid,
    },
    /// SLV-TOPOLOGY-0025: a node is in the file twice, the same each time.
    #[error("SLV-TOPOLOGY-0025: {place}: \"{node}\" is in line {first_line} too; taken as one node")]
    ListedTwice {
        /// Where.
        place: Place,
        /// The node's id.
        node: String,
        /// Where it came first.
        first_line: usize,
    },
    /// SLV-TOPOLOGY-0026: two ports with one GUID.
    #[error("SLV-TOPOLOGY-0026: {place}: {port} has the GUID {guid}, like {other}; only that one is found by it")]
    SharedPortGuid {
        /// Where.
        place: Place,
        /// The port.
        port: String,
        /// The GUID.
        guid: Guid,
        /// The port that had it first.
        other: String,
    },
    /// SLV-TOPOLOGY-0027: a LID that is none.
    #[error("SLV-TOPOLOGY-0027: {place}: {lid} is no unicast LID (1-49151) or not a multiple of 2^LMC; none taken")]
    BadLid {
        /// Where.
        place: Place,
        /// What is there.
        lid: String,
    },
}

/// A fabric from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The fabric.
    pub fabric: Fabric,
    /// What the file was.
    pub format: Format,
    /// What was odd about it.
    pub warnings: Vec<Warning>,
}

/// Reads a topology file; `file` is its name for messages. Bytes that are no UTF-8 become replacement characters.
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

/// Writes a topology file. In `Ibnetdiscover` form switches go by their names in `names`, as `--node-name-map` does.
///
/// The net file's ids are descriptions where these are unique and harmless to ibsim, else `S-<guid>`, `H-<guid>`.
#[must_use]
pub fn write(fabric: &Fabric, format: Format, names: &NodeNames) -> String {
    emit::emit(fabric, format, names)
}

/// A text from a file, short enough for a message.
pub(crate) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    let clean: String = text.trim().chars().take(CHARS_MAX).map(printable).collect();
    if text.trim().chars().count() > CHARS_MAX {
        format!("{clean}…")
    } else {
        clean
    }
}

/// Spaces in place of control characters, which would break a line or a terminal.
pub(crate) fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}
