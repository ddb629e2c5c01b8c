//! Destinations on several lanes: the tables stay, a blocked packet holds up fewer others.

use selvedge_plan::{Lids, ServiceLevels};
use selvedge_types::{Lid, Sl};

use super::FatTree;
use super::targets::Target;
use crate::error::EngineError;

impl FatTree {
    /// Service levels that put destinations on `lanes` (1–15) data lanes: those that share a link go by different ones,
    /// evenly, on every level of the tree (the idea of vFtree).
    ///
    /// Destinations of one link have the digits of their number in common that say which positions they take; so the
    /// sum of all digits decides.
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

    /// Sum of a number's digits; each level of the tree has as many values for its digit as it has positions. With
    /// parallel links, the rest at each level counts once more, divided by their number: the remainder chooses among
    /// these links, and the destinations of one link have it in common too.
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

    /// Parallel links upwards, by level.
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
