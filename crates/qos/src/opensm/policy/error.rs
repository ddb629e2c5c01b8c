//! What is wrong with a policy file.

/// The reason why a policy file is refused, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// SLV-QOS-0010: the text is not what the syntax has at this place.
    #[error("SLV-QOS-0010: QoS policy, line {line}: found {found}; want {want}{meant}")]
    Syntax {
        /// Line, counted from 1.
        line: usize,
        /// The text found.
        found: String,
        /// The texts allowed.
        want: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-QOS-0011: a value is out of range.
    #[error("SLV-QOS-0011: QoS policy, line {line}: found {found}; want {want}")]
    Value {
        /// Line, counted from 1.
        line: usize,
        /// The value.
        found: String,
        /// The values allowed.
        want: &'static str,
    },
    /// SLV-QOS-0012: something is given twice, of which only one could be used.
    #[error("SLV-QOS-0012: QoS policy, line {line}: {what} is given a second time; remove one")]
    Twice {
        /// Line of the second one, counted from 1.
        line: usize,
        /// What is given twice.
        what: String,
    },
    /// SLV-QOS-0013: a section lacks an entry.
    #[error("SLV-QOS-0013: QoS policy, line {line}: this {section} has no {what}; add one")]
    Missing {
        /// The section's first line, counted from 1.
        line: usize,
        /// The section.
        section: &'static str,
        /// The entry.
        what: &'static str,
    },
    /// SLV-QOS-0014: no level applies to queries that match no rule.
    #[error(
        "SLV-QOS-0014: the QoS policy has no level for queries that match no rule; add a qos-level with the name \
         DEFAULT, or 'default : SL' to qos-ulps"
    )]
    NoDefault,
    /// SLV-QOS-0015: a rule names a level that is not there.
    #[error("SLV-QOS-0015: QoS policy, line {line}: no qos-level is called '{name}'{meant}")]
    UnknownLevel {
        /// Line of the rule, counted from 1.
        line: usize,
        /// The name.
        name: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-QOS-0016: a rule or scope names a port group that is not there.
    #[error("SLV-QOS-0016: QoS policy, line {line}: no port-group is called '{name}'{meant}")]
    UnknownGroup {
        /// Line of the rule, counted from 1.
        line: usize,
        /// The name.
        name: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
}
