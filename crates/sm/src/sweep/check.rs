//! The check after a sweep's plan is in force: finds changes during the plan about which no trap reached the manager.
//!
//! Traps are lost until their switch knows the manager and the tables lead to it. A plan that clears PortStateChange
//! also clears changes that came after the sweep. So one second after the plan the check reads:
//!
//! - SwitchInfo of every switch: whether a port changed;
//! - PortInfo of ports that were DOWN when their switch got the manager's LID, and of all ports of a switch that had
//!   the LID and showed PortStateChange;
//! - NodeInfo behind every link of such a switch, and of a new switch: only this shows a moved cable;
//! - the LID of such a switch itself. If the switch was off during the plan, the plan may have set its LinearFDBTop
//!   again, but the switch does not know where to send traps.
//!
//! That is a tenth of the requests of a bring-up. Repairs need no such check, because traps arrive from the switches of
//! a repair. If a link changes before the check has ended, a sweep takes the place of the repair, because known cables
//! may have been moved.
//!
//! If the plan took so little time that a moved cable is unlikely, a repair should not wait for a second: NodeInfo
//! behind links is requested at once, and the rest a second after the plan.
//!
//! The check uses the stage of a light sweep.

use std::time::Duration;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_sim::Time;
use selvedge_types::PortNum;

use crate::config::CABLE_MOVE_MIN;

/// Time from a plan in force to the check. A host that has just come up is busy at first, and late traps have arrived
/// by then.
const AFTER: Duration = Duration::from_secs(1);
/// Largest number of checks in a row that are interrupted, or lead to another sweep. After that the light sweep at its
/// interval does the check. Otherwise a switch with PortStateChange set for ever would cause one sweep after another.
const IN_ROW_MAX: u32 = 6;

/// The check after a plan: whether it is due, or in progress.
#[derive(Debug, Default)]
pub struct Check {
    /// When the check is due: a plan came into force, and no check has followed yet.
    due: Option<Time>,
    /// When the previous sweep began.
    since: Time,
    /// True if cables may have been moved before the plan of the previous sweep was in force, and NodeInfo behind the
    /// links has not been read since.
    may_be_moved: bool,
    /// The progress of the check.
    state: State,
    /// Switches to ask for their LID.
    switches: Vec<NodeIdx>,
    /// Ports of links: the nodes behind them are to be asked.
    links: Vec<PortRef>,
    /// How many of these links have been asked.
    asked: usize,
    /// Number of checks in a row that were interrupted or led to another sweep.
    in_row: u32,
}

/// The progress of the check. Other work may interrupt the check; its progress stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The check has not begun.
    #[default]
    Ahead,
    /// Nodes behind links must be asked at once; the rest of the check follows later.
    LinksDue,
    /// Only nodes behind links are asked now.
    Links,
    /// All requests of the check have been sent.
    Whole,
    /// The check is part of an ordinary light sweep.
    InLightSweep,
}

impl Check {
    /// Drops the check, because a heavy sweep begins that includes it.
    pub fn forget(&mut self, now: Time) {
        *self = Self {
            since: now,
            in_row: self.in_row,
            ..Self::default()
        };
    }

    /// Called when a sweep's plan or a rebalancing step is in force: `seen` is the fabric before it, `is` after it.
    pub fn owe(&mut self, now: Time, (seen, is): (&Fabric, &Fabric), is_step: bool) {
        // A step relies on an older inventory, and traps have reported all changes since.
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

    /// Returns when the check is due.
    pub const fn due(&self) -> Option<Time> {
        match self.state {
            State::LinksDue => Some(Time::ZERO),
            State::Ahead | State::Links | State::Whole | State::InLightSweep => self.due,
        }
    }

    /// Sends the requests to nodes behind links, if that is due at once; otherwise returns false.
    pub fn begin_links(&mut self) -> bool {
        let begins = self.state == State::LinksDue;
        if begins {
            self.open(State::Links);
        }
        begins
    }

    /// Begins the check; returns false if nodes behind links must be asked first.
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

    /// Called when an ordinary light sweep begins: it includes nodes behind links that have not been asked.
    pub const fn join(&mut self) {
        (self.asked, self.state, self.in_row) = (0, State::InLightSweep, 0);
    }

    /// Ends the check: every request of it is answered, and nothing has changed.
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

    /// Returns true while only nodes behind links are being asked.
    pub const fn is_of_links(&self) -> bool {
        matches!(self.state, State::Links)
    }

    /// Returns true if the check is not part of a light sweep: then no table is read back.
    pub const fn is_alone(&self) -> bool {
        matches!(self.state, State::Links | State::Whole)
    }

    /// Returns the switches that may have been off while the plan was applied: they are asked for their LID.
    pub fn switches(&self) -> &[NodeIdx] {
        &self.switches
    }

    /// Returns the next link with a node to ask, as long as there are some.
    pub fn next_link(&mut self) -> Option<PortRef> {
        let at = self.links.get(self.asked).copied().filter(|_| self.is_open())?;
        self.asked += 1;
        Some(at)
    }

    /// Returns true if known cables may be out of date: cables may have been moved, and not all nodes behind links have
    /// been asked. `is_asking`: some answers have not arrived yet.
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
        // The light sweep has taken the check over, or nodes behind links have been asked.
        check(false, true, State::Ahead, 0, false);
        check(true, false, State::Ahead, 0, false);
    }

    #[test]
    fn after_links_the_rest_is_owed() {
        // The state that has ended, and when the next check is due after it.
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
        // The time that the sweep and its plan took, and what is done first.
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
