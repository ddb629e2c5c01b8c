//! Directed routes by which no agent has answered several requests in a row, each with all repeats. The stage sends no
//! more requests by them.
//!
//! A switch has up to 768 blocks and 1,296 lane rows. Waiting for the last time-out of each of these requests would
//! take minutes in which no other change is found. A request that is left out counts as not answered. Each stage begins
//! with an empty list. Silence is recorded for a route, not for a node: a host may have two ports, one of which is cut
//! off.

use std::collections::BTreeMap;

use selvedge_wire::DirectedRoute;

/// Number of unanswered requests in a row after which a route counts as silent. If every twelfth MAD is lost and each
/// request is repeated once, one route in ten thousand is wrongly taken to be silent.
const IN_ROW: u32 = 3;

/// Directed routes by which no agent has answered for some time.
#[derive(Clone, Debug, Default)]
pub struct Silent {
    in_row: BTreeMap<DirectedRoute, u32>,
}

impl Silent {
    /// Called when a stage begins.
    pub fn forget(&mut self) {
        self.in_row.clear();
    }

    /// True if no more requests should be sent by this directed route.
    pub fn is_silent(&self, route: &DirectedRoute) -> bool {
        self.in_row.get(route).is_some_and(|times| *times >= IN_ROW)
    }

    /// Handles the end of a request. Returns true if its directed route counts as silent from now on.
    pub fn ended(&mut self, route: &DirectedRoute, is_answered: bool) -> bool {
        if is_answered {
            if !self.in_row.is_empty() {
                self.in_row.remove(route);
            }
            return false;
        }
        let times = self.in_row.entry(*route).or_default();
        *times += 1;
        *times == IN_ROW
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::PortNum;

    use super::*;

    fn way(hops: u8) -> DirectedRoute {
        let port = PortNum::new(1).unwrap();
        (0..hops).fold(DirectedRoute::LOCAL, |way, _| way.then(port).unwrap())
    }

    /// Checks which routes are silent after these requests. Each request is given by the number of its route and by
    /// whether it was answered.
    fn check(ended: &[(u8, bool)], want: &[u8]) {
        let mut silent = Silent::default();
        let mut told = Vec::new();
        for &(hops, is_answered) in ended {
            if silent.ended(&way(hops), is_answered) {
                told.push(hops);
            }
        }
        let found: Vec<u8> = (0..4).filter(|&hops| silent.is_silent(&way(hops))).collect();
        assert_eq!((&*found, &*told), (want, want), "{ended:?}");
        silent.forget();
        assert!(!silent.is_silent(&way(1)));
    }

    #[test]
    fn a_way_is_silent_after_three_in_a_row() {
        check(&[(1, false), (1, false)], &[]);
        check(&[(1, false), (2, true), (1, false), (1, false)], &[1]);
        check(&[(1, false), (1, false), (1, true), (1, false)], &[]);
        check(&[(1, false), (2, false), (3, false)], &[]);
        check(&[(1, false), (1, false), (1, false), (1, false)], &[1]);
    }
}
