//! A field of a record: its bits, its component bit, and how it is printed.

/// Length of the data of a subnet administration MAD, in bytes. Source: IBA vol 1 §15.2.1.
pub const SA_DATA_LEN: usize = 200;
/// Data of a subnet administration MAD at full length: one record, or several.
pub type SaData = [u8; SA_DATA_LEN];

/// How a field is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// A decimal number.
    Number,
    /// A hexadecimal number with all its digits.
    Hex,
    /// A GID.
    Gid,
    /// Text, up to its first NUL.
    Text,
    /// Bytes in hexadecimal, up to the last that is not 0.
    Bytes,
    /// A key: the text only shows whether there is one.
    Secret,
}

/// How a field of a query selects rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// The row has the same bits as the query.
    Equal,
    /// A field with a special meaning for its record (selector, limit, preference). A comparison by the component mask
    /// must not exclude rows because of it.
    Special,
    /// Not a component: reserved, or not part of queries.
    Never,
}

/// Named bits of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field in the standard.
    pub name: &'static str,
    /// Offset of the field's first bit from the beginning of the record; bit 0 is the highest of byte 0.
    pub at: u16,
    /// Number of bits: at most 64, or a multiple of 8 that starts at a byte boundary.
    pub bits: u16,
    /// Number of the field's bit in the component mask, if it has one.
    pub component: u8,
    /// How the field selects rows.
    pub matching: Matching,
    /// How the field is printed.
    pub show: Show,
}

impl Field {
    /// The value of `component` for a field that is not a component.
    const NONE: u8 = 255;

    /// Returns a field that is component number `component` and selects by equality.
    #[must_use]
    pub const fn new(name: &'static str, component: u8, at: u16, bits: u16, show: Show) -> Self {
        Self {
            name,
            at,
            bits,
            component,
            matching: Matching::Equal,
            show,
        }
    }

    /// Returns a field that is not a component.
    #[must_use]
    pub const fn plain(name: &'static str, at: u16, bits: u16, show: Show) -> Self {
        Self {
            matching: Matching::Never,
            ..Self::new(name, Self::NONE, at, bits, show)
        }
    }

    /// Returns the field with special selection rules.
    #[must_use]
    pub const fn special(self) -> Self {
        Self {
            matching: Matching::Special,
            ..self
        }
    }

    /// Returns this field of an attribute as a field of a record that contains the attribute: moved by `bits` bits, and
    /// by the number of components before it.
    #[must_use]
    pub const fn moved(self, bits: u16) -> Self {
        Self {
            at: self.at + bits,
            ..self
        }
    }

    /// Returns the field's bit in a component mask; 0 if the field is not a component.
    #[must_use]
    pub const fn mask(self) -> u64 {
        match self.component {
            0..=63 => 1 << self.component,
            _ => 0,
        }
    }

    /// Returns the index of the field's first byte, and the index after its last.
    #[must_use]
    pub const fn bytes(self) -> (usize, usize) {
        (self.at as usize / 8, (self.at + self.bits).div_ceil(8) as usize)
    }

    /// Returns the value of the field. For a field of more than 64 bits (a GID, a text), returns the first 64.
    #[must_use]
    #[inline]
    pub const fn get(self, data: &SaData) -> u64 {
        let (mut at, mut end) = self.bytes();
        if end > at + 8 {
            end = at + 8;
        }
        let spare = (end * 8 - at * 8) as u32 - (self.at % 8) as u32;
        let unused = if self.bits >= 64 { 0 } else { spare - self.bits as u32 };
        let mut value = 0_u64;
        while at < end {
            value = value << 8 | data[at] as u64;
            at += 1;
        }
        let value = value >> unused;
        if self.bits >= 64 {
            value
        } else {
            value & ((1 << self.bits) - 1)
        }
    }

    /// Changes the value of the field. Bits that do not fit are dropped. For a field of more than 64 bits, changes the
    /// first 64.
    #[inline]
    pub const fn set(self, data: &mut SaData, value: u64) {
        let (first, mut end) = self.bytes();
        if end > first + 8 {
            end = first + 8;
        }
        let spare = (end * 8 - first * 8) as u32 - (self.at % 8) as u32;
        let (unused, mask) = if self.bits >= 64 {
            (0, u64::MAX)
        } else {
            (spare - self.bits as u32, (1 << self.bits) - 1)
        };
        let (mut value, mut mask) = ((value & mask) << unused, mask << unused);
        while end > first {
            end -= 1;
            data[end] = data[end] & !(mask as u8) | value as u8;
            (value, mask) = (value >> 8, mask >> 8);
        }
    }

    /// Returns the bytes of the field. If the field shares bytes with others, returns those whole bytes.
    #[must_use]
    #[inline]
    pub fn slice(self, data: &SaData) -> &[u8] {
        let (first, end) = self.bytes();
        data.get(first..end).unwrap_or_default()
    }

    /// Returns the 16 bytes of a GID or key.
    #[must_use]
    #[inline]
    pub fn wide(self, data: &SaData) -> [u8; 16] {
        let (first, _) = self.bytes();
        core::array::from_fn(|i| data.get(first + i).copied().unwrap_or(0))
    }

    /// Writes bytes from the beginning of the field on; bytes that do not fit are dropped.
    #[inline]
    pub fn put(self, data: &mut SaData, bytes: &[u8]) {
        let (first, end) = self.bytes();
        for (slot, byte) in data.get_mut(first..end).unwrap_or_default().iter_mut().zip(bytes) {
            *slot = *byte;
        }
    }

    /// Sets the field's bits in `mask`.
    pub fn cover(self, mask: &mut SaData) {
        let (first, end) = self.bytes();
        if self.bits > 64 {
            mask[first..end].fill(0xFF);
        } else {
            self.set(mask, u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_odd_places() {
        let check = |at: u16, bits: u16, value: u64| {
            let field = Field::plain("test", at, bits, Show::Number);
            for background in [0x00, 0xFF] {
                let mut data = [background; SA_DATA_LEN];
                field.set(&mut data, value);
                assert_eq!(field.get(&data), value, "{bits} bits at {at}");
                let others = data.iter().map(|b| b.count_ones()).sum::<u32>() - value.count_ones();
                let want = if background == 0 {
                    0
                } else {
                    8 * SA_DATA_LEN as u32 - u32::from(bits)
                };
                assert_eq!(others, want, "bits around {bits} bits at {at}");
            }
        };
        check(0, 8, 0xA5);
        check(5, 3, 0x5);
        check(4, 20, 0xA_BCDE);
        check(7, 1, 1);
        check(8, 56, 0x00A5_A5A5_A5A5_A5A5);
        check(64, 64, 0x8123_4567_89AB_CDEF);
        check(1592, 8, 0xFE);
        check(1536, 64, 1);
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let field = Field::plain("test", 4, 4, Show::Number);
        let mut data = [0; SA_DATA_LEN];
        field.set(&mut data, 0x1F);
        assert_eq!(data[0], 0x0F);
    }
}
