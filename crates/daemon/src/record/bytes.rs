//! Little-endian numbers and datagrams as bytes.

use selvedge_types::{Lid, Sl};
use selvedge_wire::{Address, Datagram, MAD_LEN, Mad};

/// Bytes of the units in which zeros are left out of a datagram.
const WORD: usize = 8;

/// Appends a datagram; words that are zero cost one bit, which more than halves most SMPs.
pub(super) fn put_datagram(out: &mut Vec<u8>, datagram: &Datagram) {
    out.extend(datagram.address.lid.0.to_le_bytes());
    out.extend(datagram.address.qp.to_le_bytes());
    out.push(datagram.address.sl.get());
    let words = datagram.mad.as_bytes().chunks_exact(WORD);
    let mask = words
        .clone()
        .rev()
        .fold(0_u32, |mask, word| mask << 1 | u32::from(word.iter().any(|&b| b != 0)));
    out.extend(mask.to_le_bytes());
    words
        .filter(|word| word.iter().any(|&b| b != 0))
        .for_each(|word| out.extend(word));
}

/// Reads the bytes that the other functions of this module write.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(length)?;
        self.bytes = tail;
        Some(head)
    }

    pub(super) const fn left(&self) -> usize {
        self.bytes.len()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    pub(super) fn datagram(&mut self) -> Option<Datagram> {
        let address = Address {
            lid: Lid(self.u16()?),
            qp: self.u32()?,
            sl: Sl::new(self.u8()?)?,
        };
        let mask = self.u32()?;
        let mut bytes = [0; MAD_LEN];
        for (i, word) in bytes.chunks_exact_mut(WORD).enumerate() {
            if mask >> i & 1 != 0 {
                word.copy_from_slice(self.take(WORD)?);
            }
        }
        Some(Datagram {
            address,
            mad: Mad::from_bytes(bytes),
        })
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    // A text of 4 GiB would be a configuration that no memory holds.
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_back_smaller() {
        let mut mad = [0; MAD_LEN];
        (mad[0], mad[7], mad[64], mad[255]) = (1, 2, 3, 4);
        let datagram = Datagram {
            address: Address::DIRECTED,
            mad: Mad::from_bytes(mad),
        };
        let mut bytes = Vec::new();
        put_datagram(&mut bytes, &datagram);
        assert_eq!(bytes.len(), 7 + 4 + 3 * WORD);
        assert_eq!(Reader::new(&bytes).datagram(), Some(datagram));
        for length in 0..bytes.len() {
            assert_eq!(Reader::new(&bytes[..length]).datagram(), None, "cut to {length} bytes");
        }
    }
}
