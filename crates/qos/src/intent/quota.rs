//! Weights of the low-priority table: how many packets of the MTU each class sends in a round.

use selvedge_types::Mtu;

/// Units of 64 bytes in a packet of this MTU, without headers.
pub(super) const fn units(mtu: Mtu) -> u32 {
    mtu.bytes() as u32 / 64
}

/// Returns how many packets of this MTU the largest weight lets through.
pub(super) const fn packets_of_entry(mtu: Mtu) -> u32 {
    255 / units(mtu)
}

/// The room in a low-priority table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Entries.
    pub entries: u32,
    /// Lanes of each class.
    pub layers: u32,
    /// Most packets that the weight of one entry allows in a turn.
    pub of_entry: u32,
}

impl Room {
    /// True if there is room for classes with these packets per lane and round.
    pub(super) fn holds(&self, packets: &[u32]) -> bool {
        let entries: u32 = packets.iter().map(|packets| packets.div_ceil(self.of_entry)).sum();
        entries * self.layers <= self.entries
    }

    /// Returns the most packets per round, over one lane of each class.
    const fn most(&self) -> u32 {
        self.entries / self.layers * self.of_entry
    }

    /// Returns the packets per lane and round that give each class its share in percent; `None`: what is left, at least
    /// one. `None` if no weights do.
    pub(super) fn exact(&self, shares: &[Option<u8>]) -> Option<Vec<u32>> {
        let least = |round: u32| -> Vec<u32> {
            let of = |share: &Option<u8>| share.map_or(1, |share| (u32::from(share) * round).div_ceil(100));
            shares.iter().map(of).collect()
        };
        (shares.len() as u32..=self.most()).find_map(|round| {
            let mut packets = least(round);
            let mut left = round.checked_sub(packets.iter().sum())?;
            // What is left goes to classes without a share in turn, or else to the first class.
            let mut open: Vec<usize> = (0..shares.len()).filter(|&at| shares[at].is_none()).collect();
            if open.is_empty() {
                open.extend((!shares.is_empty()).then_some(0));
            }
            for &at in open.iter().cycle() {
                if left == 0 {
                    break;
                }
                packets[at] += 1;
                left -= 1;
            }
            self.holds(&packets).then_some(packets)
        })
    }

    /// Returns the packets per lane and round that come nearest to these shares: the largest loss of a class is as
    /// small as can be. There must be an entry for each lane.
    pub(super) fn nearest(&self, shares: &[Option<u8>]) -> Vec<u32> {
        let ones = vec![1; shares.len()];
        let loss = |packets: &[u32]| {
            let round: u32 = packets.iter().sum();
            let of = |(share, packets): (&Option<u8>, &u32)| {
                share.map_or(0, |share| u32::from(share).saturating_sub(100 * packets / round))
            };
            shares.iter().zip(packets).map(of).max().unwrap_or(0)
        };
        let candidates = (shares.len() as u32..=self.most()).map(|round| {
            // Down first, then up where the remainder is largest.
            let part = |share: &Option<u8>| share.map_or(100, |share| u32::from(share) * round);
            let mut packets: Vec<u32> = shares.iter().map(|share| (part(share) / 100).max(1)).collect();
            let mut order: Vec<usize> = (0..shares.len()).collect();
            order.sort_by_key(|&at| std::cmp::Reverse(part(&shares[at]) % 100));
            for at in order {
                if packets.iter().sum::<u32>() < round {
                    packets[at] += 1;
                }
            }
            packets
        });
        let fitting = candidates.filter(|packets| self.holds(packets));
        // Of several as near, the shortest round.
        let best = fitting.min_by_key(|packets| (loss(packets), packets.iter().sum::<u32>()));
        best.filter(|best| loss(best) <= loss(&ones)).unwrap_or(ones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_that_keeps_all_shares() {
        let check = |shares: &[Option<u8>], entries, layers, want: Option<&[u32]>| {
            let room = Room {
                entries,
                layers,
                of_entry: 3,
            };
            assert_eq!(room.exact(shares).as_deref(), want, "{shares:?} {entries}");
        };
        check(&[Some(70), Some(30)], 8, 1, Some(&[7, 3]));
        check(&[Some(70), Some(30)], 4, 1, Some(&[7, 3]));
        check(&[Some(70), Some(30)], 3, 1, None);
        check(&[Some(70), Some(30)], 8, 2, Some(&[7, 3]));
        check(&[Some(70), Some(30)], 7, 2, None);
        check(&[Some(50), None], 8, 1, Some(&[1, 1]));
        check(&[Some(60), None, None], 8, 1, Some(&[3, 1, 1]));
        check(&[Some(20), None], 8, 1, Some(&[1, 1]));
        check(&[Some(34), Some(33), Some(33)], 8, 1, None);
        check(&[Some(33), Some(33), Some(33)], 8, 1, Some(&[1, 1, 1]));
        check(&[None], 1, 1, Some(&[1]));
        check(&[Some(100)], 1, 1, Some(&[1]));
        check(&[], 8, 1, Some(&[]));
    }

    #[test]
    fn the_nearest_weights() {
        let check = |shares: &[Option<u8>], entries, want: &[u32]| {
            let room = Room {
                entries,
                layers: 1,
                of_entry: 3,
            };
            assert_eq!(room.nearest(shares), want, "{shares:?} {entries}");
            assert!(room.holds(want));
        };
        check(&[Some(70), Some(30)], 3, &[5, 2]);
        check(&[Some(34), Some(33), Some(33)], 8, &[1, 1, 1]);
        check(&[Some(98), None], 2, &[3, 1]);
    }
}
