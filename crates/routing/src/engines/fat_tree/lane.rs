//! Puts destinations on several lanes. The tables stay the same, and a blocked packet holds up fewer others.

use selvedge_plan::{Lids, ServiceLevels};
use selvedge_types::{Lid, Sl};

use super::FatTree;
use super::targets::Target;
use crate::error::EngineError;

impl FatTree {
    /// Returns service levels that put destinations on `lanes` (1–15) data lanes. Destinations that share a link use
    /// different lanes, evenly, on every level of the tree (the idea of vFtree).
    ///
    /// The link that leads to a destination follows from some digits of the destination's number: destinations on one
    /// link agree in these digits and differ in the others. So the lane is the sum of all digits, modulo the number of
    /// lanes.
    pub fn service_levels(&self, lids: &Lids, lanes: u8) -> Result<ServiceLevels, EngineError> {
        if lanes <= 1 {
            return Ok(ServiceLevels::default());
        }
        let widths = self.widths();
        let mut levels = Vec::new();
        for lid in (0..=lids.top().0).map(Lid) {
            let digits = match self.target(lids, lid)? {
                Target::Nowhere => 0,
                Target::Leaf { number, .. } => self.digits(number, &widths),
                Target::Upper { upper } => upper,
            };
            let lane = u8::try_from(digits % u32::from(lanes)).unwrap_or(0);
            levels.push(Sl::new(lane).unwrap_or_default());
        }
        Ok(ServiceLevels::PerDestination(levels))
    }

    /// Returns the sum of the digits of a destination's number. Each level of the tree divides the number by its number
    /// of upper positions: the remainder is one digit, and the quotient goes to the next level. If a position has
    /// several parallel links, the quotient modulo their number chooses the link, so this remainder is the same for all
    /// destinations on a link. The quotient divided by the number of links differs between these destinations, so it is
    /// added too.
    fn digits(&self, number: u32, widths: &[u32]) -> u32 {
        let (mut rest, mut sum) = (number, 0);
        for (pair, &width) in self.rule.shape.power.windows(2).zip(widths) {
            let base = (pair[1] / pair[0].max(1)).max(1);
            sum += rest % base;
            rest /= base;
            if width > 1 {
                sum += rest / width;
            }
        }
        sum + rest
    }

    /// Returns the number of parallel links upwards, by level.
    fn widths(&self) -> Vec<u32> {
        let shape = &self.rule.shape;
        let mut widths = vec![1; shape.power.len()];
        for s in 0..self.rule.net.real {
            let links = shape.up.get(s).iter().map(|slot| shape.ports(slot).len()).max();
            let width = &mut widths[shape.level[s] as usize];
            *width = u32::try_from(links.unwrap_or(1)).unwrap_or(1).max(*width);
        }
        widths
    }
}
