//! What an engine of this family decides: the hops that are allowed from every switch towards every switch.

use selvedge_sim::Par;

/// Towards one switch, from another: how many hops are left, and whether the packet may only go down from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u16);

impl Entry {
    /// There is no way.
    pub const NONE: Self = Self(u16::MAX);
    /// Most hops an entry can hold; longer ways count as none. No fabric comes near: it would need 32,767 switches in
    /// one line.
    pub const HOPS_MAX: u16 = (u16::MAX >> 1) - 1;

    /// So many hops; up to `HOPS_MAX`.
    pub fn new(hops: u16, only_down: bool) -> Self {
        if hops > Self::HOPS_MAX {
            return Self::NONE;
        }
        Self(hops << 1 | u16::from(only_down))
    }

    /// Hops left; `None` if there is no way.
    pub fn hops(self) -> Option<u16> {
        (self != Self::NONE).then_some(self.0 >> 1)
    }
}

/// Entries from every switch towards every switch, and what "down" means.
///
/// A channel is a good next hop if one hop less is left behind it, and
/// - it leads down, and from there on the packet may only go down; or
/// - it leads up, and here the packet may still go up.
///
/// Where there are no levels (minhop) every channel counts as down, and every entry as "only down".
///
/// Memory: two bytes per pair of switches: 1.9 MB for 972 switches, 17 MB for 2,880, 200 MB for 10,000.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    switches: usize,
    entries: Vec<Entry>,
    position: Option<Vec<u32>>,
}

/// The entries a channel must lead to, for one switch and one target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHop {
    down: Entry,
    up: Entry,
}

impl Paths {
    /// Rows that `fill(target, scratch, row)` fills; a row starts with [`Entry::NONE`] everywhere. `position` is the
    /// place of each switch in the order from top to bottom.
    pub fn new<S: Default>(
        switches: usize,
        position: Option<Vec<u32>>,
        par: Par,
        fill: impl Fn(usize, &mut S, &mut [Entry]) + Sync + Send,
    ) -> Self {
        /// Rows of one job: enough to pay for its scratch memory, few enough to share out.
        const ROWS: usize = 16;
        let mut entries = vec![Entry::NONE; switches * switches];
        let mut jobs: Vec<&mut [Entry]> = entries.chunks_mut((switches * ROWS).max(1)).collect();
        par.for_each_mut(&mut jobs, |job, rows| {
            let mut scratch = S::default();
            for (i, row) in rows.chunks_mut(switches).enumerate() {
                fill(job * ROWS + i, &mut scratch, row);
            }
        });
        Self {
            switches,
            entries,
            position,
        }
    }

    /// Entries of every switch towards `target`.
    pub fn towards(&self, target: usize) -> &[Entry] {
        &self.entries[target * self.switches..][..self.switches]
    }

    /// What good next hops from a switch with this entry hold; `None` if there are none.
    pub fn next(&self, from: Entry) -> Option<NextHop> {
        let hops = from.hops()?.checked_sub(1)?;
        let down = Entry::new(hops, true);
        let up = if from.0 & 1 == 0 {
            Entry::new(hops, false)
        } else {
            Entry::NONE
        };
        Some(NextHop { down, up })
    }

    /// True if the channel `from → to` is a good next hop, given the entry of `to`.
    pub fn allows(&self, next: NextHop, from: usize, to: usize, entry: Entry) -> bool {
        let leads_up = self.position.as_ref().is_some_and(|p| p[to] < p[from]);
        if leads_up {
            next.up != Entry::NONE && entry.0 | 1 == next.up.0 | 1
        } else {
            entry == next.down
        }
    }

    /// Ordered pairs of different switches without a way, among those for which `count` holds.
    pub fn missing(&self, count: impl Fn(usize, usize) -> bool) -> usize {
        (0..self.switches)
            .map(|to| {
                let row = self.towards(to).iter().enumerate();
                row.filter(|&(from, &e)| e == Entry::NONE && from != to && count(from, to))
                    .count()
            })
            .sum()
    }
}
