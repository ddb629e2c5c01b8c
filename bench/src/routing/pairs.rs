//! Finds deadlocks if each pair of hosts has its own service level, as dfsssp and lash assign them. The judge can only
//! handle one level for each destination.

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_types::{Idx, Lid, PortNum, Sl};

/// A path: source LID, destination LID, service level, which is its lane too.
pub type Path = (Lid, Lid, Sl);

/// Data lanes at most. Source: IBA vol 1 §7.6.
const LANES: usize = 15;

/// A directed link out of a switch, with a lane.
type Channel = u32;

/// True if there is no credit loop. Paths that do not arrive are followed as far as they lead.
#[must_use]
pub fn is_deadlock_free(fabric: &Fabric, lids: &Lids, tables: &Tables, paths: &[Path]) -> bool {
    let mut turns: Vec<(Channel, Channel)> = Vec::new();
    for &path in paths {
        follow(fabric, lids, tables, path, &mut turns);
    }
    turns.sort_unstable();
    turns.dedup();
    let count = fabric.switches().len() * 256 * LANES;
    let mut entering = vec![0_u32; count];
    turns.iter().for_each(|&(_, to)| entering[to as usize] += 1);
    let mut free: Vec<Channel> = turns.iter().map(|&(from, _)| from).collect();
    free.dedup();
    free.retain(|&channel| entering[channel as usize] == 0);
    let mut left = turns.len();
    while let Some(channel) = free.pop() {
        let first = turns.partition_point(|&(from, _)| from < channel);
        for &(_, to) in turns[first..].iter().take_while(|&&(from, _)| from == channel) {
            left -= 1;
            entering[to as usize] -= 1;
            if entering[to as usize] == 0 {
                free.push(to);
            }
        }
    }
    left == 0
}

/// Adds the turns that a path makes.
fn follow(fabric: &Fabric, lids: &Lids, tables: &Tables, (source, destination, sl): Path, turns: &mut Vec<(u32, u32)>) {
    let entry = lids.owner(source).and_then(|at| fabric.peer(at));
    let mut switch = entry.and_then(|at| fabric.switch_index(at.node));
    let mut last = None;
    // A path longer than this is a loop, which the judge finds.
    for _ in 0..fabric.switches().len() {
        let Some(here) = switch else { return };
        let exit = tables.get(here, destination);
        if exit == NO_PATH || exit == 0 {
            return;
        }
        let node = fabric.switches()[here];
        let Some(peer) = PortNum::new(exit).and_then(|port| fabric.peer(PortRef { node, port })) else {
            return;
        };
        switch = fabric.switch_index(peer.node);
        if switch.is_none() {
            // Channels to hosts wait for no other channel.
            return;
        }
        let place = (here.to_usize() * 256 + usize::from(exit)) * LANES + usize::from(sl.get()) % LANES;
        // Fabrics have fewer than 2^16 switches: LIDs end before that.
        let channel = u32::try_from(place).unwrap_or(u32::MAX);
        if let Some(last) = last.replace(channel) {
            turns.push((last, channel));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::routing::own;
    use selvedge_routing::{Engine, Options};
    use selvedge_sim::{Par, Seed};

    #[test]
    fn circles() {
        let check = |spec: &str, engine: Engine, lane: fn(u16, u16) -> u8, want: bool| {
            let fabric = Case::new(spec).unwrap().fabric;
            let lids = own::number(&fabric);
            let routed = engine
                .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
                .unwrap();
            let is_host = |at: PortRef| !fabric.node(at.node).is_switch();
            let hosts: Vec<Lid> = lids
                .by_lid()
                .filter(|&(_, at)| is_host(at))
                .map(|(lid, _)| lid)
                .collect();
            let paths = hosts.iter().flat_map(|&from| hosts.iter().map(move |&to| (from, to)));
            let paths: Vec<Path> = paths
                .map(|(from, to)| (from, to, Sl::new(lane(from.0, to.0)).unwrap()))
                .collect();
            assert_eq!(
                is_deadlock_free(&fabric, &lids, &routed.tables, &paths),
                want,
                "{spec} {engine:?}"
            );
        };
        let one = |_, _| 0;
        check("ring:switches=6,hosts=1", Engine::MinHop, one, false);
        check("ring:switches=6,hosts=1", Engine::UpDn, one, true);
        // Each pair on a lane of one of two directions around a ring that is not closed on either.
        check(
            "ring:switches=6,hosts=1",
            Engine::MinHop,
            |from, to| u8::from(from > to),
            true,
        );
        check("karytree:k=3,n=2", Engine::MinHop, one, true);
    }
}
