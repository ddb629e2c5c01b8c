//! Field tables of records, and what is derived from them: size, printing, matching by component mask.

use core::fmt;

use super::field::{Field, Matching, SA_DATA_LEN, SaData, Show};
use super::records;
use crate::attribute::Hex;
use crate::{AttributeId, Gid, Mad};

/// Name, size and fields of a record.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// Id of the attribute.
    pub id: AttributeId,
    /// Name of the record in the standard.
    pub name: &'static str,
    /// Length in bytes, without the padding between records.
    pub len: usize,
    /// Fields of the record, in order.
    pub fields: &'static [Field],
}

impl Layout {
    /// Returns the layout of an attribute of subnet administration.
    #[must_use]
    pub fn of(id: AttributeId) -> Option<&'static Self> {
        records::ALL.into_iter().find(|layout| layout.id == id)
    }

    /// Returns the distance from a record to the next, in units of 8 bytes (AttributeOffset). Source: IBA vol 1
    /// §15.2.1.
    #[must_use]
    pub const fn offset(&self) -> u16 {
        self.len.div_ceil(8) as u16
    }

    /// Returns the distance between two records, in bytes.
    #[must_use]
    pub const fn stride(&self) -> usize {
        self.len.div_ceil(8) * 8
    }

    /// Returns all component bits, including those that the standard assigns to reserved fields.
    #[must_use]
    pub fn components(&self) -> u64 {
        let highest = self.fields.iter().map(|f| f.mask()).max().unwrap_or(0);
        // Component bits between two fields belong to reserved fields.
        if highest == 0 { 0 } else { highest | (highest - 1) }
    }

    /// Returns a mask of the bits that are not reserved.
    fn meaning(&self) -> SaData {
        let mut mask = [0; SA_DATA_LEN];
        self.fields.iter().for_each(|field| field.cover(&mut mask));
        mask
    }
}

/// A compiled query: the fields that its component mask names, compared in one pass.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    mask: SaData,
    want: SaData,
    /// Number of bytes up to the last one that is compared.
    used: usize,
}

impl Filter {
    /// Returns a filter for rows of `layout` that equal `data` in every component of `mask`. Fields with special rules
    /// are ignored.
    #[must_use]
    pub fn new(layout: &Layout, mask: u64, data: &SaData) -> Self {
        let mut filter = Self {
            mask: [0; SA_DATA_LEN],
            want: [0; SA_DATA_LEN],
            used: 0,
        };
        let asked = |field: &&Field| field.mask() & mask != 0 && field.matching == Matching::Equal;
        for field in layout.fields.iter().filter(asked) {
            field.cover(&mut filter.mask);
            filter.used = filter.used.max(field.bytes().1);
        }
        let wanted = filter.want.iter_mut().zip(data).zip(&filter.mask);
        wanted.for_each(|((want, byte), mask)| *want = byte & mask);
        filter
    }

    /// Also requires that every bit set in this field of `data` is set in the row. The row may have more bits set.
    #[must_use]
    pub fn and_bits(mut self, field: Field, data: &SaData) -> Self {
        let mut covered = [0; SA_DATA_LEN];
        field.cover(&mut covered);
        for (at, byte) in data.iter().enumerate() {
            let bits = byte & covered[at];
            self.mask[at] |= bits;
            self.want[at] |= bits;
        }
        self.used = self.used.max(field.bytes().1);
        self
    }

    /// True if `row` matches.
    #[must_use]
    pub fn accepts(&self, row: &SaData) -> bool {
        let bytes = row.iter().zip(&self.mask).zip(&self.want);
        bytes.take(self.used).all(|((byte, mask), want)| byte & mask == *want)
    }
}

/// A record of any kind, for printing and decoding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record {
    layout: &'static Layout,
    data: SaData,
}

impl Record {
    /// Returns a record from any bytes; reserved bits are read as 0.
    #[must_use]
    pub fn new(layout: &'static Layout, data: &SaData) -> Self {
        let meaning = layout.meaning();
        Self {
            layout,
            data: core::array::from_fn(|i| data[i] & meaning[i]),
        }
    }

    /// Returns the first record in a datagram. `None` if no record begins there: other attributes, acknowledgements and
    /// later segments of RMPP.
    #[must_use]
    pub fn of(mad: &Mad) -> Option<Self> {
        let begins = mad.rmpp().is_none_or(|rmpp| rmpp.begins_data());
        let layout = Layout::of(mad.attribute()).filter(|_| begins)?;
        Some(Self::new(layout, mad.sa_data()))
    }

    /// Returns the field table of the record.
    #[must_use]
    pub const fn layout(&self) -> &'static Layout {
        self.layout
    }

    /// Returns the bytes of the record; bytes after its end are 0.
    #[must_use]
    pub const fn data(&self) -> &SaData {
        &self.data
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Record {
    /// Prints name and fields; fields that are 0 are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.layout.name)?;
        for field in self.layout.fields {
            let bytes = field.slice(&self.data);
            let is_zero = if field.bits > 64 {
                bytes.iter().all(|&byte| byte == 0)
            } else {
                field.get(&self.data) == 0
            };
            if is_zero {
                continue;
            }
            write!(f, " {}=", field.name)?;
            match field.show {
                Show::Number => write!(f, "{}", field.get(&self.data))?,
                Show::Hex => {
                    let digits = usize::from(field.bits.div_ceil(4));
                    write!(f, "{:#0width$x}", field.get(&self.data), width = digits + 2)?;
                }
                Show::Gid => Gid(field.wide(&self.data)).fmt(f)?,
                Show::Text => {
                    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                    write!(f, "{:?}", String::from_utf8_lossy(&bytes[..end]))?;
                }
                Show::Bytes => {
                    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                    Hex(&bytes[..end]).fmt(f)?;
                }
                Show::Secret => f.write_str("set")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_table_is_sound() {
        let mut ids = BTreeSet::new();
        for layout in records::ALL {
            let name = layout.name;
            assert!(ids.insert(layout.id.code()), "{name}: its id is another's too");
            assert!(layout.len <= SA_DATA_LEN, "{name}");
            let (mut names, mut components, mut end) = (BTreeSet::new(), BTreeSet::new(), 0);
            for field in layout.fields {
                assert!(names.insert(field.name), "{name}.{} twice", field.name);
                assert!(field.at >= end, "{name}.{} overlaps", field.name);
                end = field.at + field.bits;
                let is_wide = field.bits > 64;
                assert!(
                    !is_wide || field.at % 8 == 0 && field.bits % 8 == 0,
                    "{name}.{}",
                    field.name
                );
                assert!(is_wide || field.at % 8 + field.bits <= 64, "{name}.{}", field.name);
                if field.mask() != 0 {
                    assert!(components.insert(field.component), "{name}.{}'s component", field.name);
                }
            }
            assert!(
                usize::from(end) <= 8 * layout.len,
                "{name} is longer than {}",
                layout.len
            );
        }
    }

    #[test]
    fn a_filter_compares_what_the_mask_names() {
        let check = |mask: u64, lid: u64, name: &[u8], want: bool| {
            let (mut query, mut row) = ([0; SA_DATA_LEN], [0; SA_DATA_LEN]);
            records::node::LID.set(&mut query, 7);
            records::node::DESCRIPTION.put(&mut query, b"leaf");
            records::node::LID.set(&mut row, lid);
            records::node::DESCRIPTION.put(&mut row, name);
            let filter = Filter::new(&records::NODE, mask, &query);
            assert_eq!(filter.accepts(&row), want, "{mask:#x} {lid}");
        };
        let (lid, name) = (records::node::LID.mask(), records::node::DESCRIPTION.mask());
        check(0, 9, b"spine", true);
        check(lid, 7, b"spine", true);
        check(lid, 9, b"leaf", false);
        check(lid | name, 7, b"leaf", true);
        check(lid | name, 7, b"leaf 2", false);
        check(name, 9, b"leaf", true);
    }

    #[test]
    fn components_include_reserved_ones_between() {
        assert_eq!(records::NODE.components(), 0x7FFF);
        assert_eq!(records::PATH.components(), (1 << 22) - 1);
        assert_eq!(records::LINK.components(), 0xF);
    }
}
