//! Shares links among flows: every flow grows in proportion to what it offers, until a link on its way is full.

use selvedge_chassis::PortIdx;
use selvedge_types::Idx;

use super::flows::{Flow, Flows};

/// The whole of what a flow offers, as a level.
const WHOLE: u64 = 1 << 32;
/// Flows up to which links are filled one by one.
const FEW_FLOWS: usize = 200_000;

/// Sets what each flow sends, and where the flows that send less than they offer are held back. `capacity` is that of
/// each port's link.
///
/// All flows grow from nothing in proportion to what they offer. When a link is full, the flows on it stop growing, and
/// it is what holds them back; the others go on. Links that would be full within 1/1024 (with many flows 1/16) of the
/// fullest one stop with it, which bounds the number of rounds. No link gets more than its capacity.
pub(super) fn fill(flows: &mut Flows, capacity: &[u64]) {
    let tolerance = if flows.flows.len() > FEW_FLOWS { 16 } else { 1_024 };
    let (flows, steps) = flows.parts();
    let mut links = Links {
        fixed: vec![0; capacity.len()],
        growing: vec![0; capacity.len()],
        capacity,
    };
    for flow in flows.iter() {
        let offered = flow.offered.saturating_mul(flow.senders.into());
        for port in flow.way_in(steps) {
            let load = &mut links.growing[port.to_usize()];
            *load = load.saturating_add(offered);
        }
    }
    let mut over: Vec<usize> = (0..capacity.len()).filter(|&link| links.is_over(link)).collect();
    let mut is_full = vec![false; capacity.len()];
    while let Some(lowest) = over.iter().map(|&link| links.level(link)).min() {
        let together = lowest.saturating_add(lowest / tolerance);
        for &link in &over {
            is_full[link] = links.level(link) <= together;
        }
        for flow in flows.iter_mut().filter(|flow| flow.held_at.is_none()) {
            hold(flow, steps, &is_full, lowest, &mut links);
        }
        over.retain(|&link| !std::mem::take(&mut is_full[link]) && links.is_over(link));
    }
}

/// Stops a flow at `level` if its way leads over a full link. The last one on the way holds it back.
fn hold(flow: &mut Flow, steps: &[PortIdx], is_full: &[bool], level: u64, links: &mut Links<'_>) {
    let way = flow.way_in(steps);
    let Some(at) = way.iter().rposition(|port| is_full[port.to_usize()]) else {
        return;
    };
    // Ways have at most 65 ports, and a level is at most the whole.
    flow.held_at = u8::try_from(at).ok();
    flow.accepted = (u128::from(flow.offered) * u128::from(level) / u128::from(WHOLE)) as u64;
    let senders = u64::from(flow.senders);
    for port in way {
        let link = port.to_usize();
        links.growing[link] = links.growing[link].saturating_sub(flow.offered.saturating_mul(senders));
        links.fixed[link] = links.fixed[link].saturating_add(flow.accepted.saturating_mul(senders));
    }
}

/// Loads of links: of flows that have stopped growing, and of the others at their whole.
struct Links<'a> {
    fixed: Vec<u64>,
    growing: Vec<u64>,
    capacity: &'a [u64],
}

impl Links<'_> {
    fn is_over(&self, link: usize) -> bool {
        self.fixed[link].saturating_add(self.growing[link]) > self.capacity[link]
    }

    /// Returns the level at which a link is full.
    fn level(&self, link: usize) -> u64 {
        let left = self.capacity[link].saturating_sub(self.fixed[link]);
        let level = u128::from(left) * u128::from(WHOLE) / u128::from(self.growing[link].max(1));
        u64::try_from(level).unwrap_or(u64::MAX).min(WHOLE)
    }
}
