//! A number that differs if a byte differs, for comparing: FNV-1a, 64 bits.

/// A digest in the making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes bytes in.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }

    /// Takes a number in.
    pub fn number(self, number: u64) -> Self {
        self.bytes(&number.to_be_bytes())
    }
}
