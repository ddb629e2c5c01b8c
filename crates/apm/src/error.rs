//! Reasons why there is no alternate path.

/// The reason why a pair of hosts has no alternate path by a policy, or why a question is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApmError {
    /// SLV-APM-0001: no policy has this name.
    #[error("SLV-APM-0001: no policy for alternate paths is called '{name}'; known: {known}")]
    UnknownPolicy {
        /// The text given.
        name: String,
        /// All policies.
        known: &'static str,
    },
    /// SLV-APM-0002: no host has this name.
    #[error("SLV-APM-0002: no connected host is called '{name}'{meant}; name a host, its channel adapter or its GUID")]
    UnknownHost {
        /// The name given.
        name: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-APM-0003: source and destination are the same host.
    #[error("SLV-APM-0003: '{name}' is both source and destination; name two hosts")]
    SameHost {
        /// The host.
        name: String,
    },
    /// SLV-APM-0004: the alternate path is the primary path.
    #[error(
        "SLV-APM-0004: policy {policy} gives the primary path again (LID {slid} to {dlid}); choose another policy or \
         another offset"
    )]
    IsPrimary {
        /// The policy.
        policy: String,
        /// Source LID of both.
        slid: u16,
        /// Destination LID of both.
        dlid: u16,
    },
    /// SLV-APM-0005: an LMC offset is asked for, but the port has only one LID.
    #[error(
        "SLV-APM-0005: policy {policy} needs several LIDs per port, but {port} has LMC 0; set routing.lmc (--lmc) to 1 \
         or more"
    )]
    NoLmc {
        /// The policy.
        policy: String,
        /// The port.
        port: String,
    },
    /// SLV-APM-0006: the LMC is too small for the offset.
    #[error(
        "SLV-APM-0006: policy {policy} needs path bits {bits}, but {port} has LMC {lmc} and path bits up to {last}; \
         choose a smaller offset or a larger LMC"
    )]
    OffsetBeyond {
        /// The policy.
        policy: String,
        /// The port.
        port: String,
        /// LMC of the port.
        lmc: u8,
        /// Largest path bits.
        last: u16,
        /// The path bits that the policy gives.
        bits: u16,
    },
    /// SLV-APM-0007: the channel adapter has no other connected port.
    #[error("SLV-APM-0007: {hca} has no second port with a link; choose another policy, or connect a second port")]
    NoSecondPort {
        /// The channel adapter.
        hca: String,
    },
    /// SLV-APM-0008: the host has no other channel adapter.
    #[error("SLV-APM-0008: host {host} has no second channel adapter with a link; choose another policy")]
    NoSecondHca {
        /// The host.
        host: String,
    },
    /// SLV-APM-0009: the tables in force have no path between two ports.
    #[error(
        "SLV-APM-0009: the tables have no path from {source_port} to LID {dlid} of {target_port}, or none back; check \
         them with 'selvedge verify'"
    )]
    NoPath {
        /// The source port.
        source_port: String,
        /// The destination port.
        target_port: String,
        /// The destination LID.
        dlid: u16,
    },
    /// SLV-APM-0010: the pair has only the primary path.
    #[error(
        "SLV-APM-0010: {source_port} and {target_port} have only one path; set routing.lmc (--lmc) to 1 or more, or \
         connect a second port"
    )]
    OnlyOne {
        /// The source port.
        source_port: String,
        /// The destination port.
        target_port: String,
    },
}
