//! The lanes on which packets to a LID may be, by the service levels and lane maps before and after a change.

use selvedge_plan::{ServiceLevels, SlToVl};
use selvedge_types::{Lid, Sl, Vl};

/// Lanes in use, and the lanes that packets to each LID get.
#[derive(Debug)]
pub struct Lanes<'a> {
    levels: [&'a ServiceLevels; 2],
    /// By service level: the lanes that a hop may use, as indices among the lanes in use.
    by_level: Vec<Vec<u32>>,
    /// Number of lanes in use.
    pub used: usize,
}

impl<'a> Lanes<'a> {
    /// Returns the lanes of both pairs of levels and map. `None` if lanes depend on ports, which the planner does not
    /// support.
    pub fn new(levels: [&'a ServiceLevels; 2], maps: [&SlToVl; 2]) -> Option<Self> {
        if maps.iter().any(|map| !map.exceptions.is_empty()) {
            return None;
        }
        let mut used: Vec<Vl> = Vec::new();
        let mut by_level = Vec::new();
        for level in 0..Sl::COUNT {
            let mut lanes: Vec<u32> = Vec::new();
            // A level that is dropped has no lane.
            for vl in maps
                .iter()
                .map(|map| map.default[level])
                .filter(|vl| *vl != Vl::MANAGEMENT)
            {
                let known = used.iter().position(|other| *other == vl);
                let place = known.unwrap_or_else(|| {
                    used.push(vl);
                    used.len() - 1
                }) as u32;
                if !lanes.contains(&place) {
                    lanes.push(place);
                }
            }
            by_level.push(lanes);
        }
        Some(Self {
            levels,
            by_level,
            used: used.len().max(1),
        })
    }

    /// Returns sets of lanes. A packet to the LID stays within one of them.
    pub fn to(&self, lid: Lid) -> impl Iterator<Item = &[u32]> {
        let [before, after] = self.levels.map(|levels| usize::from(levels.to(lid).get()));
        let second = (after != before).then_some(after);
        [Some(before), second]
            .into_iter()
            .flatten()
            .map(|level| &self.by_level[level][..])
    }
}
