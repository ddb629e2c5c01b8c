//! Sets of ports as words of bits: bit `n` stands for port `n + 1`.

/// Returns the first port after `last` in a set, cyclically.
#[inline]
pub(crate) const fn next_bit(bits: u64, last: u8) -> Option<u8> {
    if bits == 0 {
        return None;
    }
    // Bits from `last` on: port `last + 1` and above.
    let above = if last >= 64 { 0 } else { bits >> last << last };
    let bits = if above == 0 { bits } else { above };
    Some(bits.trailing_zeros() as u8 + 1)
}

/// Does the same as [`next_bit`] for a set of several words.
#[inline]
pub(crate) fn next_port(words: usize, word: impl Fn(usize) -> u64, last: u8) -> Option<u8> {
    if words == 1 {
        return next_bit(word(0), last);
    }
    let (first, shift) = (usize::from(last) / 64, last % 64);
    for step in 0..=words {
        let place = (first + step) % words;
        let mut bits = word(place);
        if step == 0 {
            bits = bits >> shift << shift;
        }
        if bits != 0 {
            return Some((place * 64) as u8 + bits.trailing_zeros() as u8 + 1);
        }
    }
    None
}

/// Returns word and bit of a port in a set.
#[inline]
pub(crate) const fn bit_of(port: u8) -> (usize, u64) {
    ((port as usize - 1) / 64, 1 << ((port - 1) % 64))
}

#[cfg(test)]
mod tests {
    use super::next_port;

    #[test]
    fn ports_take_turns() {
        let check = |a: &[u64], b: &[u64], last, want| {
            let found = next_port(a.len(), |word| a[word] & b[word], last);
            assert_eq!(found, want, "{a:x?} {last}");
        };
        check(&[0b1011], &[0b1111], 0, Some(1));
        check(&[0b1011], &[0b1111], 1, Some(2));
        check(&[0b1011], &[0b1111], 2, Some(4));
        check(&[0b1011], &[0b1111], 4, Some(1));
        check(&[0b1011], &[0b0100], 4, None);
        check(&[1 << 63], &[u64::MAX], 64, Some(64));
        check(&[1, 2], &[3, 3], 1, Some(66));
        check(&[1, 2], &[3, 3], 66, Some(1));
        check(&[2, 0], &[3, 3], 1, Some(2));
        check(&[1, 0], &[3, 3], 1, Some(1));
        check(&[0, 0], &[3, 3], 1, None);
    }
}
