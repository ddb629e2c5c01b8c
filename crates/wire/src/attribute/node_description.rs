//! NodeDescription: the name that an administrator gave a node.

use core::fmt;

use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// The name that an administrator gave a node.
///
/// Source: IBA vol 1 §14.2.5.2: 64 bytes of UTF-8, padded with NULs.
/// ```text
///  0 text, 64 bytes
/// ```
/// All bytes are kept, so that invalid UTF-8 can be forwarded unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// The 64 bytes.
    pub raw: [u8; 64],
}

impl NodeDescription {
    /// Returns `text`, truncated after the last whole character that fits into 64 bytes.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(64);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut raw = [0; 64];
        raw[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self { raw }
    }

    /// Returns the bytes before the first NUL.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let end = self.raw.iter().position(|&b| b == 0).unwrap_or(64);
        &self.raw[..end]
    }

    /// Returns the text before the first NUL. Invalid UTF-8 becomes U+FFFD; memory is allocated only in that case.
    #[must_use]
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

impl Attribute for NodeDescription {
    const ID: AttributeId = AttributeId::NODE_DESCRIPTION;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self { raw: *data })
    }

    fn emit(&self) -> SmpData {
        self.raw
    }
}

impl fmt::Display for NodeDescription {
    /// Escapes control characters and quotes: the text comes from the fabric and must not send commands to a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeDescription {:?}", self.text())
    }
}
