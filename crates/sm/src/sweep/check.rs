//! The check after a sweep's plan is in force: finds changes during the plan of which no trap reached the manager.
//!
//! A trap is lost until its switch knows the manager and the tables lead to it. Where the plan clears PortStateChange,
//! it clears what came after the sweep as well. So one second after the plan this is asked:
//!
//! - every switch: whether a port changed (SwitchInfo);
//! - ports that were DOWN when their switch learnt of the manager, and all ports of a switch that knew the manager and
//!   showed PortStateChange (PortInfo);
//! - behind every link of such a switch, and of a switch that is new: NodeInfo, as only that shows a moved cable;
//! - such a switch itself: its LID. If it was off meanwhile, the plan has set its LinearFDBTop again, and it does not
//!   know where to send traps.
//!
//! That is a tenth of the requests of a bring-up. Repairs need no such check, as they begin where traps arrive. If a
//! link changes before the check has ended, a sweep takes the place of the repair, as the known cables may be old ones.
//!
//! If the plan took so little time that hardly a cable can have been moved, a repair should not wait for a second:
//! NodeInfo behind links is asked at once, and the rest a second after the plan.
//!
//! It has the stage of a light sweep.

use std::time::Duration;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_sim::Time;
use selvedge_types::PortNum;

use crate::config::CABLE_MOVE_MIN;

/// How long after the plan: who has just come up has other things to ask, and what is told late has been told by then.
const AFTER: Duration = Duration::from_secs(1);
/// Checks in a row that were interrupted, or led to another sweep; then it is left to the light sweep at its interval,
/// lest a switch that shows PortStateChange for ever keeps everybody busy.
const IN_ROW_MAX: u32 = 6;

/// A check that is owed, or goes on.
#[derive(Debug, Default)]
pub struct Check {
    /// When to check: a plan came into force, and no look has followed.
    due: Option<Time>,
    /// When the sweep before began.
    since: Time,
    /// Cables may have been moved until its plan was in force, and nobody has looked behind the links since.
    may_be_moved: bool,
    /// How far it is.
    state: State,
    /// Switches to ask for their LID.
    switches: Vec<NodeIdx>,
    /// Ports of links to look behind.
    links: Vec<PortRef>,
    /// How many of them have been asked.
    asked: usize,
    /// Checks in a row that did not end well.
    in_row: u32,
}

/// How far the check is. It stays so when something else interrupts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The check has not begun.
    #[default]
    Ahead,
    /// Links are to be looked behind at once, and then the rest is ahead.
    LinksDue,
    /// Links are looked behind at once, and nothing else.
    Links,
    /// All that belongs to the check is asked.
    Whole,
    /// It is part of an ordinary light sweep.
    InLightSweep,
}

impl Check {
    /// A heavy sweep begins: it sees whatever there is to see.
    pub fn forget(&mut self, now: Time) {
        *self = Self {
            since: now,
            in_row: self.in_row,
            ..Self::default()
        };
    }

    /// A plan of a sweep, or a step towards balance, is in force: `seen` was found, `is` now.
    pub fn owe(&mut self, now: Time, (seen, is): (&Fabric, &Fabric), is_step: bool) {
        // A step goes by what was seen long ago, and traps have told of everything since.
        if is_step && self.due.is_some() {
            return;
        }
        let sm_lid = |fabric: &Fabric, node: NodeIdx| {
            let port = PortNum::MANAGEMENT;
            fabric.port(PortRef { node, port }).map(|port| port.settings.sm_lid)
        };
        let is_new = |node: NodeIdx| {
            let says_changed = seen.node(node).switch_settings.port_state_change;
            seen.node(node).is_switch() && (says_changed || sm_lid(seen, node) != sm_lid(is, node))
        };
        let links = is.links().filter(|link| is.link_is_up(link.a));
        let ends = links.filter_map(|link| [link.a, link.b].into_iter().find(|end| is_new(end.node)));
        self.links = ends.collect();
        self.switches = is.switches().iter().copied().filter(|&node| is_new(node)).collect();
        self.due = (self.in_row < IN_ROW_MAX).then(|| now + AFTER);
        let took_long = now.since(self.since) >= CABLE_MOVE_MIN;
        self.may_be_moved = !is_step && (took_long || !self.links.is_empty());
        self.state = match self.may_be_moved && !took_long && self.due.is_some() {
            true => State::LinksDue,
            false => State::Ahead,
        };
    }

    /// Returns when it is due.
    pub const fn due(&self) -> Option<Time> {
        match self.state {
            State::LinksDue => Some(Time::ZERO),
            State::Ahead | State::Links | State::Whole | State::InLightSweep => self.due,
        }
    }

    /// Looks behind links, where that is to be done at once; returns false if it is not.
    pub fn begin_links(&mut self) -> bool {
        let begins = self.state == State::LinksDue;
        if begins {
            self.open(State::Links);
        }
        begins
    }

    /// Begins, as it is due; returns false if links are to be looked behind first.
    pub fn begin(&mut self, now: Time) -> bool {
        let begins = self.state != State::LinksDue;
        if begins {
            self.open(State::Whole);
            self.due = (self.in_row < IN_ROW_MAX).then_some(now);
        }
        begins
    }

    const fn open(&mut self, state: State) {
        self.in_row += 1;
        (self.asked, self.state) = (0, state);
    }

    /// An ordinary light sweep begins: what nobody has looked behind is looked behind in it.
    pub const fn join(&mut self) {
        (self.asked, self.state, self.in_row) = (0, State::InLightSweep, 0);
    }

    /// Everything that was asked is answered, and nothing has changed.
    pub fn end(&mut self) {
        *self = match self.state {
            State::Links => Self {
                due: self.due,
                switches: std::mem::take(&mut self.switches),
                since: self.since,
                in_row: self.in_row.saturating_sub(1),
                ..Self::default()
            },
            State::Ahead | State::LinksDue | State::Whole | State::InLightSweep => Self::default(),
        };
    }

    /// Returns true while links are looked behind at once, and nothing else.
    pub const fn is_of_links(&self) -> bool {
        matches!(self.state, State::Links)
    }

    /// Returns true if it is no part of a light sweep: nothing is read back in it.
    pub const fn is_alone(&self) -> bool {
        matches!(self.state, State::Links | State::Whole)
    }

    /// Returns the switches that may have been off while the plan was on its way: they are asked for their LID.
    pub fn switches(&self) -> &[NodeIdx] {
        &self.switches
    }

    /// Takes the next link to look behind, while that goes on.
    pub fn next_link(&mut self) -> Option<PortRef> {
        let at = self.links.get(self.asked).copied().filter(|_| self.is_open())?;
        self.asked += 1;
        Some(at)
    }

    /// Returns true if cables may have been moved, and not all links have been looked behind: what is known may be half
    /// of the old cables. While `is_asking`, answers of what was asked last are still to come.
    pub const fn is_owed(&self, is_asking: bool) -> bool {
        let has_asked = self.is_open() && self.asked >= self.links.len();
        self.due.is_some() && self.may_be_moved && (is_asking || !has_asked)
    }

    const fn is_open(&self) -> bool {
        matches!(self.state, State::Links | State::Whole | State::InLightSweep)
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Lid;

    use super::*;
    use crate::made::{SECOND, inventory, place, row};

    #[test]
    fn a_check_is_owed_until_everybody_has_been_asked() {
        let at = PortRef {
            node: NodeIdx(0),
            port: PortNum::MANAGEMENT,
        };
        let check = |due: bool, may_be_moved: bool, state: State, asked: usize, want: bool| {
            let check = Check {
                due: due.then_some(Time::ZERO),
                may_be_moved,
                state,
                asked,
                links: vec![at, at],
                ..Check::default()
            };
            assert_eq!(check.is_owed(false), want, "{due} {state:?} {asked}");
            assert_eq!(check.is_owed(true), due && may_be_moved);
        };
        check(true, true, State::Ahead, 0, true);
        check(true, true, State::LinksDue, 0, true);
        check(true, true, State::Whole, 1, true);
        for state in [State::Links, State::Whole, State::InLightSweep] {
            check(true, true, state, 2, false);
        }
        // It was left to the light sweep, or links have been looked behind.
        check(false, true, State::Ahead, 0, false);
        check(true, false, State::Ahead, 0, false);
    }

    #[test]
    fn after_links_the_rest_is_owed() {
        // What has ended, and when the next check is due after that.
        let check = |state: State, want: Option<Time>| {
            let mut check = Check {
                due: Some(Time(9)),
                may_be_moved: true,
                state,
                in_row: 1,
                ..Check::default()
            };
            check.end();
            assert_eq!((check.due(), check.is_owed(false), check.in_row), (want, false, 0));
        };
        check(State::Links, Some(Time(9)));
        check(State::Whole, None);
        check(State::InLightSweep, None);
    }

    #[test]
    fn links_are_looked_behind_at_once_if_the_plan_took_little_time() {
        // How long the sweep and its plan took, and what is done first.
        let check = |took: Duration, want: State| {
            let mut found = row();
            found[SECOND].switch.as_mut().unwrap().port_state_change = true;
            let (seen, is) = (inventory(found).fabric, inventory(row()).fabric);
            let mut check = Check::default();
            check.forget(Time(5));
            let now = Time(5) + took;
            check.owe(now, (&seen, &is), false);
            assert_eq!(check.begin(now), want == State::Whole);
            assert_eq!(check.begin_links(), want == State::Links);
            assert_eq!(check.state, want);
            assert!(check.is_alone() && check.is_owed(false));
            assert_eq!(std::iter::from_fn(|| check.next_link()).count(), 2);
            assert!(!check.is_owed(false));
        };
        check(Duration::ZERO, State::Links);
        check(CABLE_MOVE_MIN, State::Whole);
    }

    #[test]
    fn who_may_have_been_off_unseen_is_asked() {
        // Whether the second switch showed PortStateChange to the sweep, or knew of no manager then.
        let check = |says_changed: bool, is_new: bool, want: bool| {
            let is = inventory(row());
            let mut found = row();
            found[SECOND].switch.as_mut().unwrap().port_state_change = says_changed;
            if is_new {
                found[SECOND].ports[0].info.as_mut().unwrap().sm_lid = Lid(9);
            }
            let mut check = Check::default();
            check.owe(Time::ZERO, (&inventory(found).fabric, &is.fabric), false);
            let second = place(&is, SECOND, 0).node;
            let asked: Vec<NodeIdx> = Some(second).filter(|_| want).into_iter().collect();
            assert_eq!(check.switches(), asked, "{says_changed} {is_new}");
        };
        check(false, false, false);
        check(true, false, true);
        check(false, true, true);
    }
}
