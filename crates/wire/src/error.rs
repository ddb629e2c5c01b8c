//! Errors of decoding.

/// A datagram or attribute that cannot be decoded, with the expected and the actual value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// SLV-WIRE-0001: there are fewer bytes than the structure has.
    #[error("SLV-WIRE-0001: {what} needs {need} bytes, have {have}")]
    Truncated {
        /// The structure.
        what: &'static str,
        /// Required length in bytes.
        need: usize,
        /// Actual length in bytes.
        have: usize,
    },
    /// SLV-WIRE-0002: a field holds a value that the standard reserves or forbids.
    #[error("SLV-WIRE-0002: {field} is {found:#x}, want {want}")]
    Field {
        /// Structure and field, for example `PortInfo.LMC`.
        field: &'static str,
        /// Legal values, as text.
        want: &'static str,
        /// The value found.
        found: u64,
    },
    /// SLV-WIRE-0003: the attribute is not the expected one.
    #[error("SLV-WIRE-0003: attribute {found:#06x}, want {want:#06x}")]
    Attribute {
        /// The attribute expected.
        want: u16,
        /// The attribute found.
        found: u16,
    },
}
