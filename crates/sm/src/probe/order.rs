//! Which ports are asked, and when: those first that most likely explain something.
//!
//! A link that goes down has two ends, and both switches say so, one a little later than the other. Whoever knows both
//! knows the port, or the few of parallel links. So the first questions wait for the second trap, for about as long as
//! an answer takes, and others wait for their answers: an agent handles one SMP after another, and what it is asked in
//! vain is in the way of the answer, and of the Sets that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_sim::Time;
use selvedge_types::PortNum;
use selvedge_wire::DirectedRoute;

use super::Probe;

/// For so long after a trap the one of the other end is waited for.
const SECOND_TRAP_WITHIN: Duration = Duration::from_micros(100);
/// For so long the likely ports are asked alone.
const LIKELY_ALONE: Duration = Duration::from_micros(400);

/// Who may be asked now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pace {
    /// Everybody.
    #[default]
    All,
    /// Nobody until then.
    Nobody(Time),
    /// Likely ports only: until then, or until they have answered.
    Likely(Option<Time>),
}

impl Probe {
    /// A trap was the reason: another one is waited for, unless it is there.
    pub fn begin_with_trap(&mut self) {
        self.pace = match self.likely.is_empty() {
            true => Pace::Nobody(self.began + SECOND_TRAP_WITHIN),
            false => Pace::Likely(None),
        };
    }

    /// Takes in links between suspects. With them nothing more is waited for.
    pub(super) fn note_likely(&mut self, new: &BTreeSet<NodeIdx>) {
        let links = new.iter().flat_map(|&node| self.links_to_switches(node));
        let both = links.filter(|(_, far)| self.suspects.contains(&far.node));
        let likely: Vec<PortRef> = both.flat_map(|(at, far)| [at, far]).collect();
        self.likely.extend(likely);
        if matches!(self.pace, Pace::Nobody(_)) && !self.likely.is_empty() {
            self.pace = Pace::Likely(None);
        }
    }

    /// True while nobody is asked yet.
    pub fn waits(&self, now: Time) -> bool {
        matches!(self.pace, Pace::Nobody(until) if now < until)
    }

    /// When more may be asked than now.
    pub const fn due(&self) -> Option<Time> {
        match self.pace {
            Pace::All => self.doubts_at,
            Pace::Nobody(until) => Some(until),
            Pace::Likely(until) => until,
        }
    }

    /// Goes over to asking more when it is time.
    pub fn keep_pace(&mut self, now: Time) {
        self.doubts_at = None;
        let before = self.pace;
        self.pace = match self.pace {
            Pace::Likely(None) => Pace::Likely(Some(now + LIKELY_ALONE)),
            Pace::Nobody(until) | Pace::Likely(Some(until)) if until <= now => Pace::All,
            Pace::Likely(_) if self.likely.iter().all(|at| self.known.contains(at)) => Pace::All,
            pace => pace,
        };
        self.is_stale |= self.pace != before;
    }

    /// The next port to ask, the way to its agent, and whether that is another than usual; no agent is asked more than
    /// `agent_window` at once.
    pub fn next_question(&mut self, agent_window: usize, now: Time) -> Option<(PortRef, DirectedRoute, bool)> {
        if matches!(self.pace, Pace::Nobody(_)) {
            return None;
        }
        loop {
            if std::mem::take(&mut self.is_stale) {
                self.todo = self.questions();
            }
            let mut rooms = Rooms::new(&self.open, agent_window);
            let has_room = |at: &PortRef| rooms.has_room(at.node);
            if let Some(place) = self.todo.iter().position(has_room) {
                let at = self.todo.remove(place);
                self.open.insert(at, now);
                let way = self.way_to(at.node);
                return Some((at, way, way != self.inventory.agents[at.node].route));
            }
            if self.pace != Pace::All || !self.doubt_the_silent(now) {
                return None;
            }
        }
    }

    /// Ports to ask, those first that most likely explain something.
    fn questions(&self) -> Vec<PortRef> {
        let is_new = |at: &PortRef| !self.known.contains(at) && !self.open.contains_key(at);
        if self.pace != Pace::All {
            return self.likely.iter().copied().filter(is_new).collect();
        }
        let fabric = &self.inventory.fabric;
        // By port, each with all its ranks: the lowest is the one that counts.
        let mut ranked: Vec<(PortRef, u8)> = Vec::new();
        for &node in &self.doubted {
            ranked.extend(self.facing(node).into_iter().map(|at| (at, 0)));
        }
        for &node in &self.suspects {
            if !self.is_check && self.explained.contains(&node) {
                continue;
            }
            // Its agent may be silent because the way to it is what was lost.
            let hops = self.inventory.hops(&self.inventory.agents[node].route).into_iter();
            ranked.extend(
                hops.filter(|at| fabric.switch_index(at.node).is_some())
                    .map(|at| (at, 1)),
            );
            for (port, seen) in fabric.node(node).external_ports() {
                let rank = match seen.peer {
                    Some(peer) if self.suspects.contains(&peer.node) && seen.is_up() => 0,
                    Some(peer) if seen.is_up() && fabric.switch_index(peer.node).is_some() => 2,
                    Some(_) if seen.is_up() => 3,
                    Some(_) => 4,
                    None => 5,
                };
                ranked.push((PortRef { node, port }, rank));
            }
        }
        ranked.sort_unstable();
        ranked.dedup_by_key(|(at, _)| *at);
        ranked.retain(|(at, _)| is_new(at));
        ranked.sort_by_key(|(_, rank)| *rank);
        ranked.into_iter().map(|(at, _)| at).collect()
    }
}

/// Which agents may be asked more. What is asked goes by agent, so the last answer mostly does for the next question.
struct Rooms<'a> {
    open: &'a BTreeMap<PortRef, Time>,
    agent_window: usize,
    last: Option<(NodeIdx, bool)>,
}

impl<'a> Rooms<'a> {
    const fn new(open: &'a BTreeMap<PortRef, Time>, agent_window: usize) -> Self {
        Self {
            open,
            agent_window,
            last: None,
        }
    }

    fn has_room(&mut self, node: NodeIdx) -> bool {
        if let Some((_, has_room)) = self.last.filter(|(last, _)| *last == node) {
            return has_room;
        }
        let first = PortRef {
            node,
            port: PortNum::MANAGEMENT,
        };
        let asked = self.open.range(first..).take_while(|(at, _)| at.node == node);
        let has_room = asked.take(self.agent_window).count() < self.agent_window;
        self.last = Some((node, has_room));
        has_room
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::SweepReason;
    use crate::made::{FIRST, SECOND, info, inventory, place, row};
    use selvedge_planner::Inventory;

    const fn at(us: u64) -> Time {
        Time::from_micros(us)
    }

    /// A look at the row that begins with the trap of a switch.
    fn begun(by: usize) -> (Arc<Inventory>, Probe) {
        let inventory = Arc::new(inventory(row()));
        let reason = SweepReason::Trap(128);
        let mut probe = Probe::new(Arc::clone(&inventory), BTreeSet::new(), reason, false);
        probe.began = at(1_000);
        suspect(&mut probe, by);
        probe.begin_with_trap();
        (inventory, probe)
    }

    fn suspect(probe: &mut Probe, switch: usize) {
        let node = place(&probe.inventory, switch, 1).node;
        probe.suspect(&BTreeSet::from([node]), &BTreeSet::new());
    }

    /// What is asked at a time, as positions and ports.
    fn asked(probe: &mut Probe, now: Time) -> Vec<(usize, u8)> {
        probe.keep_pace(now);
        let mut asked = Vec::new();
        while let Some((port, ..)) = probe.next_question(4, now) {
            let is_at = |switch: &usize| place(&probe.inventory, *switch, 1).node == port.node;
            let switch = [FIRST, SECOND].into_iter().find(is_at).unwrap();
            asked.push((switch, port.port.get()));
        }
        asked.sort_unstable();
        asked
    }

    #[test]
    fn a_second_trap_is_waited_for_and_no_longer() {
        let (_, mut probe) = begun(FIRST);
        for us in [1_000, 1_099] {
            assert_eq!(asked(&mut probe, at(us)), [], "{us}");
            assert!(probe.waits(at(us)) && !probe.is_over());
            assert_eq!(probe.due(), Some(at(1_100)));
        }
        assert_eq!(asked(&mut probe, at(1_100)), [(FIRST, 1), (FIRST, 2)]);
        assert!(!probe.waits(at(1_100)));
    }

    #[test]
    fn ports_between_two_suspects_are_asked_at_once_and_alone() {
        let check = |answers: &[(usize, u8)], us: u64, want: &[(usize, u8)]| {
            let (inventory, mut probe) = begun(SECOND);
            assert_eq!(asked(&mut probe, at(1_000)), []);
            suspect(&mut probe, FIRST);
            assert_eq!(asked(&mut probe, at(1_010)), [(FIRST, 2), (SECOND, 1)]);
            assert_eq!(probe.due(), Some(at(1_410)), "also if nobody answers");
            for &(switch, port) in answers {
                let as_before = info(selvedge_types::PortState::Active);
                probe.answered(place(&inventory, switch, port), Some(&as_before), at(us));
            }
            assert_eq!(asked(&mut probe, at(us)), want, "{answers:?} {us}");
        };
        check(&[], 1_409, &[]);
        check(&[(FIRST, 2)], 1_409, &[]);
        check(&[], 1_410, &[(FIRST, 1), (SECOND, 2)]);
        check(&[(FIRST, 2), (SECOND, 1)], 1_050, &[(FIRST, 1), (SECOND, 2)]);
    }

    #[test]
    fn a_look_without_a_trap_waits_for_nothing() {
        let (inventory, _) = begun(FIRST);
        let mut probe = Probe::new(inventory, BTreeSet::new(), SweepReason::LightSweep, false);
        suspect(&mut probe, FIRST);
        assert_eq!(asked(&mut probe, at(0)), [(FIRST, 1), (FIRST, 2)]);
        suspect(&mut probe, SECOND);
        assert_eq!(asked(&mut probe, at(0)), [(SECOND, 1), (SECOND, 2)]);
    }
}
