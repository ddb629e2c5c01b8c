//! A number that differs if a byte differs, for comparing: FNV-1a, 64 bits, eight bytes at a time.

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
        let (words, rest) = bytes.as_chunks::<8>();
        let whole = words
            .iter()
            .fold(self, |digest, word| digest.number(u64::from_be_bytes(*word)));
        rest.iter().fold(whole, |digest, &byte| digest.number(byte.into()))
    }

    /// Takes a number in.
    pub fn number(self, number: u64) -> Self {
        // Turned, because a product's low bits depend on low bits alone.
        Self((self.0 ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29))
    }
}
