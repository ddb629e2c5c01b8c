//! Directed routes by which no agent has answered several requests in a row, each with all repeats: the stage sends no
//! more requests by them.
//!
//! A switch has up to 768 blocks and 1,296 lane rows. Waiting for each of them until its last time-out would take
//! minutes in which no other change is noticed. A request that is left out counts as not answered. Each stage begins
//! with an empty list. Silence belongs to a route, not to a node: of two ports of a host one may be cut off.

use std::collections::BTreeMap;

use selvedge_wire::DirectedRoute;

use crate::core::Sm;
use crate::stage::{Stage, Token};

/// So many requests in a row: where every twelfth MAD is lost and each request repeated once, it is one case in ten
/// thousand that somebody is taken for silent who is not.
const IN_ROW: u32 = 3;

/// Ways by which nobody has answered of late.
#[derive(Clone, Debug, Default)]
pub struct Silent {
    in_row: BTreeMap<DirectedRoute, u32>,
}

impl Silent {
    /// A stage begins.
    pub fn forget(&mut self) {
        self.in_row.clear();
    }

    /// True if nothing more is to be asked by this way.
    pub fn is_silent(&self, route: &DirectedRoute) -> bool {
        self.in_row.get(route).is_some_and(|times| *times >= IN_ROW)
    }

    /// A request has ended; true if the way is silent from now on.
    fn ended(&mut self, route: &DirectedRoute, is_answered: bool) -> bool {
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

impl Sm {
    /// A request has ended: what waits behind it is given up if nobody answers by this way.
    pub(crate) fn note_silence(&mut self, route: &DirectedRoute, is_answered: bool) {
        if !self.silent.ended(route, is_answered) {
            return;
        }
        let is_one_of_many = |token: &Token| match token {
            Token::Set(_) | Token::Table { .. } | Token::Lanes(_) => true,
            Token::ReadBack(id) => id.kind.is_in_light_sweep(),
            _ => false,
        };
        let is_by_it = |(token, smp): &(Token, crate::smp::Smp)| is_one_of_many(token) && smp.route == *route;
        for (token, _) in self.exchange.take_waiting(is_by_it) {
            if let (Token::Set(id), Stage::Applying(..)) = (token, &self.stage) {
                self.leave_set_out(id);
            }
        }
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

    /// Requests by their way, and whether somebody answered: the ways that are silent in the end.
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
