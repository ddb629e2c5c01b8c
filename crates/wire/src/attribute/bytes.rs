//! Big-endian access at fixed offsets, and integers narrower than a byte.

use core::fmt;

/// Reads two bytes at offset `at`.
#[inline]
pub fn u16_at<const N: usize>(data: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

/// Reads three bytes at offset `at`.
#[inline]
pub fn u24_at<const N: usize>(data: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([0, data[at], data[at + 1], data[at + 2]])
}

/// Reads four bytes at offset `at`.
#[inline]
pub fn u32_at<const N: usize>(data: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes(array_at(data, at))
}

/// Reads eight bytes at offset `at`.
#[inline]
pub fn u64_at<const N: usize>(data: &[u8; N], at: usize) -> u64 {
    u64::from_be_bytes(array_at(data, at))
}

/// Reads `M` bytes at offset `at`.
#[inline]
pub fn array_at<const N: usize, const M: usize>(data: &[u8; N], at: usize) -> [u8; M] {
    core::array::from_fn(|i| data[at + i])
}

/// Writes `bytes` at offset `at`.
#[inline]
pub fn put<const N: usize, const M: usize>(data: &mut [u8; N], at: usize, bytes: [u8; M]) {
    data[at..at + M].copy_from_slice(&bytes);
}

/// Writes the low 24 bits of `value` at offset `at`.
#[inline]
pub fn put_u24<const N: usize>(data: &mut [u8; N], at: usize, value: u32) {
    let [_, high, middle, low] = value.to_be_bytes();
    put(data, at, [high, middle, low]);
}

/// An integer of `N` bits, 1–7: a field of an attribute that shares its byte with other fields.
///
/// A value that does not fit is rejected at its creation, so that no value is truncated when it is sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits<const N: u32>(u8);

impl<const N: u32> Bits<N> {
    /// Largest value.
    pub const MAX: Self = Self((1 << N) - 1);

    /// Accepts 0 to `2^N - 1`.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// Returns `value`, or the largest value if it does not fit.
    #[must_use]
    pub const fn saturating(value: u8) -> Self {
        if value <= Self::MAX.0 { Self(value) } else { Self::MAX }
    }

    /// Returns the low `N` bits of `byte`.
    #[must_use]
    pub const fn low(byte: u8) -> Self {
        Self(byte & Self::MAX.0)
    }

    /// Returns the value.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl<const N: u32> fmt::Display for Bits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<const N: u32> fmt::Debug for Bits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<const N: u32> From<Bits<N>> for u8 {
    fn from(bits: Bits<N>) -> Self {
        bits.0
    }
}

/// Bytes as lower-case hexadecimal digits without separators.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
