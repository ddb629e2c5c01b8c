//! Decides which ports are asked first: those that most likely explain the trap.
//!
//! If a link goes down, the switches at both its ends send a trap, one a little later than the other. Both traps
//! together name the link, or a few parallel links. So the first Gets wait for the second trap, about as long as an
//! answer takes, and other Gets wait for the answers to the first. An agent handles one SMP after another, and useless
//! Gets delay the useful answer and the Sets that follow.

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_sim::Time;

use super::answers::Answers;
use super::{Effect, Probe};

/// How long the first Gets wait for the trap from the link's other end.
const SECOND_TRAP_WITHIN: Duration = Duration::from_micros(100);
/// How long the probe asks only the likely ports.
const LIKELY_ALONE: Duration = Duration::from_micros(400);

/// Which ports the probe may ask now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pace {
    /// All ports.
    #[default]
    All,
    /// No port until this time.
    Nobody(Time),
    /// Only the likely ports, until this time or until they have answered.
    Likely(Option<Time>),
}

/// The order in which ports are asked, and the times from which more ports may be asked.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Which ports may be asked now.
    pace: Pace,
    /// Ports of links with suspects at both ends.
    likely: BTreeSet<PortRef>,
    /// Ports to ask, most likely ones first; computed again if `is_stale`.
    todo: Vec<PortRef>,
    is_stale: bool,
    /// When switches become doubted, if they have not answered by then.
    doubts_at: Option<Time>,
}

impl Order {
    /// Called when an answer may change which ports are asked next.
    pub(super) const fn renew(&mut self) {
        self.is_stale = true;
    }
}

impl Probe {
    /// Begins a probe that a trap caused: it waits for a second trap, unless that has already arrived.
    pub(super) fn begin_with_trap(&mut self) {
        self.order.pace = match self.order.likely.is_empty() {
            true => Pace::Nobody(self.start.began + SECOND_TRAP_WITHIN),
            false => Pace::Likely(None),
        };
    }

    /// Adds links between suspects. Once there are some, the Gets no longer wait.
    pub(super) fn note_likely(&mut self, new: &BTreeSet<NodeIdx>) {
        let links = new.iter().flat_map(|&node| self.links_to_switches(node));
        let both = links.filter(|(_, far)| self.suspects.nodes.contains(&far.node));
        let likely: Vec<PortRef> = both.flat_map(|(at, far)| [at, far]).collect();
        self.order.likely.extend(likely);
        if matches!(self.order.pace, Pace::Nobody(_)) && !self.order.likely.is_empty() {
            self.order.pace = Pace::Likely(None);
        }
    }

    /// Returns true before the first Get.
    pub fn waits(&self, now: Time) -> bool {
        matches!(self.order.pace, Pace::Nobody(until) if now < until)
    }

    /// Returns the time from which more ports may be asked.
    pub const fn due(&self) -> Option<Time> {
        match self.order.pace {
            Pace::All => self.order.doubts_at,
            Pace::Nobody(until) => Some(until),
            Pace::Likely(until) => until,
        }
    }

    /// Asks as many ports as `room` allows, but at most `agent_window` of one agent at once.
    pub(super) fn ask(&mut self, now: Time, room: usize, agent_window: usize, effects: &mut Vec<Effect>) {
        self.keep_pace(now);
        for _ in 0..room {
            let Some(at) = self.next_port(agent_window, now) else {
                break;
            };
            let route = self.way_to(at.node);
            effects.push(Effect::Ask {
                at,
                route,
                is_detour: route != self.start.inventory.agents[at.node].route,
            });
        }
        if self.is_over() {
            effects.push(Effect::Over);
        }
    }

    /// Allows more ports to be asked, if it is time.
    fn keep_pace(&mut self, now: Time) {
        self.order.doubts_at = None;
        let before = self.order.pace;
        self.order.pace = match before {
            Pace::Likely(None) => Pace::Likely(Some(now + LIKELY_ALONE)),
            Pace::Nobody(until) | Pace::Likely(Some(until)) if until <= now => Pace::All,
            Pace::Likely(_) if self.order.likely.iter().all(|&at| self.answers.is_known(at)) => Pace::All,
            pace => pace,
        };
        self.order.is_stale |= self.order.pace != before;
    }

    /// Returns the next port to ask; no agent is asked more than `agent_window` at once.
    fn next_port(&mut self, agent_window: usize, now: Time) -> Option<PortRef> {
        if matches!(self.order.pace, Pace::Nobody(_)) {
            return None;
        }
        loop {
            if std::mem::take(&mut self.order.is_stale) {
                self.order.todo = self.questions();
            }
            let mut rooms = Rooms::new(&self.answers, agent_window);
            let has_room = |at: &PortRef| rooms.has_room(at.node);
            if let Some(place) = self.order.todo.iter().position(has_room) {
                let at = self.order.todo.remove(place);
                self.answers.ask(at, now);
                return Some(at);
            }
            if self.order.pace != Pace::All || !self.doubt_the_silent(now) {
                return None;
            }
        }
    }

    /// Doubts switches that have not answered for too long. Returns true if one of them was not doubted before.
    fn doubt_the_silent(&mut self, now: Time) -> bool {
        let Some((silent, due)) = self.silent() else {
            return false;
        };
        if due > now {
            self.order.doubts_at = Some(due);
            return false;
        }
        silent.into_iter().filter(|&node| self.doubt(node)).count() > 0
    }

    /// Returns true if only switches that are gone have not answered, so that the probe need not wait.
    fn is_over(&self) -> bool {
        if self.order.is_stale || self.awaits_more_than_ports() {
            return false;
        }
        // Nearly always the first switch is not even doubted.
        let left = || {
            self.order
                .todo
                .iter()
                .copied()
                .chain(self.answers.open())
                .map(|at| at.node)
        };
        left().all(|node| self.is_doubted(node)) && {
            let left: BTreeSet<NodeIdx> = left().collect();
            left.into_iter().all(|node| self.is_cut_off(node))
        }
    }

    /// Returns the ports to ask, most likely ones first.
    fn questions(&self) -> Vec<PortRef> {
        let is_new = |at: &PortRef| !self.answers.is_known(*at) && !self.answers.is_open(*at);
        if self.order.pace != Pace::All {
            return self.order.likely.iter().copied().filter(is_new).collect();
        }
        let fabric = &self.start.inventory.fabric;
        // By port, each with all its ranks: the lowest is the one that counts.
        let mut ranked: Vec<(PortRef, u8)> = Vec::new();
        for node in self.doubted() {
            ranked.extend(self.facing(node).into_iter().map(|at| (at, 0)));
        }
        for &node in &self.suspects.nodes {
            if !self.start.is_check && self.explained.contains(&node) {
                continue;
            }
            // Its agent may be silent because the lost link is on the route to it.
            let hops = self
                .start
                .inventory
                .hops(&self.start.inventory.agents[node].route)
                .into_iter();
            ranked.extend(
                hops.filter(|at| fabric.switch_index(at.node).is_some())
                    .map(|at| (at, 1)),
            );
            for (port, seen) in fabric.node(node).external_ports() {
                let rank = match seen.peer {
                    Some(peer) if self.suspects.nodes.contains(&peer.node) && seen.is_up() => 0,
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

/// Decides which agents may get another Get. Gets are ordered by agent, so the last result is kept: the next Get is
/// usually to the same agent.
struct Rooms<'a> {
    answers: &'a Answers,
    agent_window: usize,
    last: Option<(NodeIdx, bool)>,
}

impl<'a> Rooms<'a> {
    const fn new(answers: &'a Answers, agent_window: usize) -> Self {
        Self {
            answers,
            agent_window,
            last: None,
        }
    }

    fn has_room(&mut self, node: NodeIdx) -> bool {
        if let Some((_, has_room)) = self.last.filter(|(last, _)| *last == node) {
            return has_room;
        }
        let has_room = self.answers.open_at(node, self.agent_window) < self.agent_window;
        self.last = Some((node, has_room));
        has_room
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{In, Start};
    use super::*;
    use crate::event::SweepReason;
    use crate::fault::Suspects;
    use crate::made::{FIRST, SECOND, info, inventory, place, row};
    use selvedge_planner::Inventory;

    const fn at(us: u64) -> Time {
        Time::from_micros(us)
    }

    /// Returns a probe of the fabric of [`row`] (host, two switches, host) that begins with a trap of the switch at
    /// position `by`.
    fn begun(by: usize, reason: SweepReason) -> (Arc<Inventory>, Probe) {
        let inventory = Arc::new(inventory(row()));
        let start = Start {
            inventory: Arc::clone(&inventory),
            held: BTreeSet::new(),
            reason,
            began: at(1_000),
            is_check: false,
        };
        let probe = Probe::new(start, &suspects(&inventory, by));
        (inventory, probe)
    }

    fn suspects(inventory: &Inventory, switch: usize) -> Suspects {
        Suspects {
            nodes: BTreeSet::from([place(inventory, switch, 1).node]),
            ..Suspects::default()
        }
    }

    fn suspect(probe: &mut Probe, switch: usize) {
        let more = suspects(&probe.start.inventory, switch);
        probe.handle(at(0), In::Suspected(more), &mut Vec::new());
    }

    /// Returns the ports that the probe asks at this time: the position of each node, and the port number.
    fn asked(probe: &mut Probe, now: Time) -> Vec<(usize, u8)> {
        let mut effects = Vec::new();
        let room = In::Room {
            ports: 100,
            agent_window: 4,
        };
        probe.handle(now, room, &mut effects);
        let asked = effects.iter().map(|effect| {
            let Effect::Ask { at, .. } = effect else {
                panic!("{effect:?}");
            };
            let is_at = |switch: &usize| place(&probe.start.inventory, *switch, 1).node == at.node;
            let switch = [FIRST, SECOND].into_iter().find(is_at).unwrap();
            (switch, at.port.get())
        });
        let mut asked: Vec<_> = asked.collect();
        asked.sort_unstable();
        asked
    }

    #[test]
    fn a_second_trap_is_waited_for_and_no_longer() {
        let (_, mut probe) = begun(FIRST, SweepReason::Trap(128));
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
            let (inventory, mut probe) = begun(SECOND, SweepReason::Trap(128));
            assert_eq!(asked(&mut probe, at(1_000)), []);
            suspect(&mut probe, FIRST);
            assert_eq!(asked(&mut probe, at(1_010)), [(FIRST, 2), (SECOND, 1)]);
            assert_eq!(probe.due(), Some(at(1_410)), "also if nobody answers");
            for &(switch, port) in answers {
                let as_before = info(selvedge_types::PortState::Active);
                let answer = In::Port(place(&inventory, switch, port), Some(&as_before));
                probe.handle(at(us), answer, &mut Vec::new());
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
        let (_, mut probe) = begun(FIRST, SweepReason::LightSweep);
        assert_eq!(asked(&mut probe, at(0)), [(FIRST, 1), (FIRST, 2)]);
        suspect(&mut probe, SECOND);
        assert_eq!(asked(&mut probe, at(0)), [(SECOND, 1), (SECOND, 2)]);
    }
}
