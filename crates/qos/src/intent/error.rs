//! Why an intent is invalid or refused.

use super::Offer;

/// The reason why an intent gives no tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IntentError {
    /// SLV-QOS-0030: there is no class.
    #[error("SLV-QOS-0030: the QoS intent has no class; add one, or leave QoS out")]
    NoClass,
    /// SLV-QOS-0031: two classes have one name, or a class has none.
    #[error("SLV-QOS-0031: the QoS intent has two classes called '{name}'; give each class a name of its own")]
    SameName {
        /// The name.
        name: String,
    },
    /// SLV-QOS-0032: the default class is not one of the classes.
    #[error("SLV-QOS-0032: the QoS intent's default class '{name}' is none of its classes{meant}")]
    UnknownDefault {
        /// The name.
        name: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-QOS-0033: a share or cap is no percentage.
    #[error("SLV-QOS-0033: class {class}: {what} {found} %; want 1 to 100")]
    NoPercentage {
        /// The class.
        class: String,
        /// `share` or `cap`.
        what: &'static str,
        /// The value.
        found: u8,
    },
    /// SLV-QOS-0034: no ULP has this name.
    #[error(
        "SLV-QOS-0034: no ULP is called '{name}'{meant}; known: ipoib, iser, rds, sdp; match SRP by its port group"
    )]
    UnknownUlp {
        /// The name.
        name: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-QOS-0035: the number of routing layers or of lanes is none that links can have.
    #[error("SLV-QOS-0035: {layers} routing layers on links with {lanes} data lanes; want 1 to 15 of each")]
    NoLanes {
        /// Routing layers.
        layers: u8,
        /// Data lanes.
        lanes: u8,
    },
    /// SLV-QOS-0036: a line of classes cannot be read.
    #[error("SLV-QOS-0036: QoS classes, line {line}: '{found}'; want {want}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The text, at most 60 characters.
        found: String,
        /// What is expected.
        want: &'static str,
    },
    /// SLV-QOS-0037: a class has an unknown word.
    #[error("SLV-QOS-0037: class {class} has no word '{word}'{meant}")]
    UnknownWord {
        /// The class.
        class: String,
        /// The word, at most 40 characters.
        word: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-QOS-0038: a class matches a group that has no line.
    #[error("SLV-QOS-0038: class {class}: no group is called '{name}'{meant}")]
    UnknownGroup {
        /// The class.
        class: String,
        /// The name.
        name: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// The hardware cannot keep the promises.
    #[error("{0}")]
    Refused(Box<Refused>),
}

/// A refusal with its reason, and what can be had instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub why: Why,
    /// An intent that compiles.
    pub offer: Offer,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; possible: {}", self.why, self.offer)
    }
}

impl From<Refused> for IntentError {
    fn from(refused: Refused) -> Self {
        Self::Refused(Box::new(refused))
    }
}

/// Why the hardware cannot keep the promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// SLV-QOS-0040: shares are more than a link.
    #[error(
        "SLV-QOS-0040: the shares of all classes are {sum} %; they must leave {left} % for classes without a share"
    )]
    TooMuch {
        /// Sum of shares in percent.
        sum: u32,
        /// What must be left, in percent: 1 for each class without a share.
        left: u32,
    },
    /// SLV-QOS-0041: there are too few service levels.
    #[error(
        "SLV-QOS-0041: {classes} classes x {layers} routing layers need {need} SLs; there are 16",
        need = classes * layers
    )]
    TooFewSls {
        /// Classes.
        classes: usize,
        /// Routing layers.
        layers: usize,
    },
    /// SLV-QOS-0042: links have too few lanes.
    #[error(
        "SLV-QOS-0042: {classes} classes x {layers} routing layers need {need} data lanes; links have {lanes}",
        need = classes * layers
    )]
    TooFewLanes {
        /// Classes.
        classes: usize,
        /// Routing layers.
        layers: usize,
        /// Data lanes of a link.
        lanes: u8,
    },
    /// SLV-QOS-0043: an arbitration table is too short.
    #[error("SLV-QOS-0043: {need} entries are needed in the {table}-priority arbitration table; it has {has}")]
    TooFewEntries {
        /// `high` or `low`.
        table: &'static str,
        /// Entries needed.
        need: usize,
        /// Entries that the table has.
        has: u8,
    },
    /// SLV-QOS-0044: weights cannot express the shares.
    #[error(
        "SLV-QOS-0044: no weights in {has} low-priority entries give every class its share: a weight is at most \
         {packets} packets of {mtu} bytes"
    )]
    TooFine {
        /// Entries that the table has.
        has: u8,
        /// Packets of the MTU in the largest weight.
        packets: u32,
        /// MTU in bytes.
        mtu: u16,
    },
    /// SLV-QOS-0045: arbitration cannot keep a cap.
    #[error("SLV-QOS-0045: class {class}: arbitration cannot keep a cap of {cap} %: {why}")]
    NoCap {
        /// The class.
        class: String,
        /// The cap in percent.
        cap: u8,
        /// The reason.
        why: &'static str,
    },
    /// SLV-QOS-0046: the share of a low-latency class is more than it can get.
    #[error(
        "SLV-QOS-0046: class {class}: a low-latency class is promised {share} % of a link, but one packet of normal \
         classes follows each of its packets, so it gets at least {least} %"
    )]
    LatencyShare {
        /// The class.
        class: String,
        /// The share in percent.
        share: u8,
        /// The share that it gets, in percent.
        least: u8,
    },
}
