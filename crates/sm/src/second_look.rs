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
//! It uses `Stage::LightSweep`, like a light sweep.

use std::time::Duration;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_mad::AgentId;
use selvedge_planner::{Inventory, is_behind};
use selvedge_sim::Time;
use selvedge_types::PortNum;
use selvedge_wire::{Attribute, Mad, NodeInfo, PortInfo};

use crate::core::{Sm, ok};
use crate::smp;
use crate::stage::{Stage, Token};
use crate::timer::Timer;

/// How long after the plan: who has just come up has other things to ask, and what is told late has been told by then.
const AFTER: Duration = Duration::from_secs(1);
/// Within less links are looked behind at once, and nobody takes a cable for moved.
pub const MOVED_AFTER: Duration = Duration::from_millis(100);
/// Looks in a row that were interrupted, or led to another sweep; then it is left to the light sweep at its interval,
/// lest a switch that shows PortStateChange for ever keeps everybody busy.
const IN_ROW_MAX: u32 = 6;

/// A look that is owed.
#[derive(Debug, Default)]
pub struct SecondLook {
    /// When to look: a plan came into force, and nobody has looked since.
    due: Option<Time>,
    /// When the sweep before began.
    since: Time,
    /// Cables may have been moved until its plan was in force, and nobody has looked behind the links since.
    may_be_moved: bool,
    /// Links are to be looked behind at once.
    is_first_due: bool,
    /// That is going on.
    is_first: bool,
    /// It is going on.
    is_open: bool,
    /// It is, and not as part of a light sweep.
    is_alone: bool,
    /// Switches to ask for their LID.
    switches: Vec<NodeIdx>,
    /// Ports of links to look behind.
    links: Vec<PortRef>,
    /// How many of them have been asked.
    asked: usize,
    /// Looks in a row that did not end well.
    in_row: u32,
}

impl SecondLook {
    /// A sweep begins: it sees whatever there is to see.
    pub fn forget(&mut self, now: Time) {
        (self.due, self.is_open, self.is_alone, self.since) = (None, false, false, now);
        (self.is_first_due, self.is_first) = (false, false);
        self.links.clear();
        self.switches.clear();
    }

    /// When it is due.
    pub const fn due(&self) -> Option<Time> {
        match self.is_first_due {
            true => Some(Time::ZERO),
            false => self.due,
        }
    }

    /// True while links are looked behind at once, and nothing else.
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// True if it is owed, and not everything has been asked: what is known may be half of the old cables.
    pub const fn is_outstanding(&self) -> bool {
        self.due.is_some() && self.may_be_moved && !(self.is_open && self.asked >= self.links.len())
    }

    /// True if it is not part of a light sweep that is going on: nothing is read back in it.
    pub const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// A light sweep is through, and nothing had changed.
    pub fn end(&mut self) {
        *self = match self.is_first {
            true => Self {
                due: self.due,
                switches: std::mem::take(&mut self.switches),
                since: self.since,
                in_row: self.in_row.saturating_sub(1),
                ..Self::default()
            },
            false => Self::default(),
        };
    }
}

impl Sm {
    /// A sweep's plan is in force: `seen` was found, `now` is.
    pub(crate) fn owe_second_look(&mut self, seen: &Fabric, now: &Fabric) {
        let sm_lid = |fabric: &Fabric, node: NodeIdx| {
            let port = PortNum::MANAGEMENT;
            fabric.port(PortRef { node, port }).map(|port| port.settings.sm_lid)
        };
        let is_new = |node: NodeIdx| {
            let says_changed = seen.node(node).switch_settings.port_state_change;
            seen.node(node).is_switch() && (says_changed || sm_lid(seen, node) != sm_lid(now, node))
        };
        let links = now.links().filter(|link| now.link_is_up(link.a));
        let ends = links.filter_map(|link| [link.a, link.b].into_iter().find(|end| is_new(end.node)));
        // A step towards balance goes by what was seen long ago, and traps have told of everything since.
        let is_step = self.is_balancing();
        let look = &mut self.second_look;
        if is_step && look.due.is_some() {
            return;
        }
        look.links = ends.collect();
        look.switches = now.switches().iter().copied().filter(|&node| is_new(node)).collect();
        look.due = (look.in_row < IN_ROW_MAX).then(|| self.now + AFTER);
        let took_long = self.now.since(look.since) >= MOVED_AFTER;
        look.may_be_moved = !is_step && (took_long || !look.links.is_empty());
        look.is_first_due = look.may_be_moved && !took_long && look.due.is_some();
    }

    /// When the look is due, to whoever is idle: while packets go by entries that nobody knows it waits for their end.
    pub(crate) fn second_look_due(&self) -> Option<Time> {
        let fog = self.drain.fog(self.now);
        let due = self.second_look.due()?;
        match fog.is_zero() {
            true => self.knows_the_fabric().then_some(due),
            false => Some(due.max(self.now + fog)),
        }
    }

    /// Begins the look, if it is time and it can be made now.
    pub(crate) fn look_again_if_due(&mut self) {
        if !self.is_due(Timer::SecondLook) || self.second_look.is_first_due || !self.may_look_again() {
            return;
        }
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        self.open_second_look();
        let look = &mut self.second_look;
        look.due = (look.in_row < IN_ROW_MAX).then_some(self.now);
        self.ask_own_port(&inventory);
        self.ask_switches(&inventory);
        self.ask_unwatched(&inventory);
        self.ask_who_may_have_been_off(&inventory);
    }

    /// Looks behind links, where that is to be done at once. It waits for a wake-up: who manages until the subnet is
    /// up, and no longer, is not to be kept by what nobody would mend.
    pub(crate) fn look_behind_links_at_once(&mut self) {
        if self.second_look.is_first_due && self.may_look_again() {
            self.open_second_look();
            self.second_look.is_first_due = false;
            self.second_look.is_first = true;
        }
    }

    fn may_look_again(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.knows_the_fabric()
    }

    fn open_second_look(&mut self) {
        self.put_off_light_sweep();
        let look = &mut self.second_look;
        look.in_row += 1;
        (look.asked, look.is_open, look.is_alone, look.is_first) = (0, true, true, false);
        self.stage = Stage::LightSweep { changed: false };
    }

    /// An ordinary light sweep begins: what nobody has looked behind is looked behind in it.
    pub(crate) fn join_second_look(&mut self) {
        let look = &mut self.second_look;
        (look.asked, look.is_open, look.is_alone, look.in_row) = (0, true, false, 0);
        (look.is_first_due, look.is_first) = (false, false);
    }

    /// True if nobody owes a look at what happened while the plan was on its way.
    pub(crate) fn has_looked_again(&self) -> bool {
        let look = &self.second_look;
        let is_open = matches!(self.stage, Stage::LightSweep { .. }) && self.exchange.open() > 0;
        !(look.is_outstanding() || is_open && look.due.is_some() && look.may_be_moved)
    }

    /// Asks switches that may have been off while the plan was on its way for their LID.
    pub(crate) fn ask_who_may_have_been_off(&mut self, inventory: &Inventory) {
        for &node in &self.second_look.switches {
            let port = PortNum::MANAGEMENT;
            let get = smp::get(PortInfo::ID, 0, &inventory.agents[node].route, self.config.policy.m_key);
            self.exchange
                .submit(AgentId(node.0), (Token::Held(PortRef { node, port }), get));
        }
    }

    /// Keeps questions open about who is behind which link.
    pub(crate) fn ask_behind_links(&mut self) {
        let Some(inventory) = self.inventory.clone().filter(|_| self.second_look.is_open) else {
            return;
        };
        while self.exchange.open() < self.config.ready() {
            let Some(&at) = self.second_look.links.get(self.second_look.asked) else {
                return;
            };
            self.second_look.asked += 1;
            let agent = inventory.agents.get(at.node);
            if let Some(route) = agent.and_then(|agent| agent.route.then(at.port)) {
                let get = smp::get(NodeInfo::ID, 0, &route, self.config.policy.m_key);
                self.exchange.submit(AgentId::UNKNOWN, (Token::AtLink(at), get));
            }
        }
    }

    /// True if somebody else is behind a link than there was. Who says nothing may be busy, and if he is gone the
    /// switch says so.
    pub(crate) fn is_other_behind(&self, at: PortRef, answer: Option<&Mad>) -> bool {
        let info = ok(answer).and_then(|mad| NodeInfo::parse(mad.smp_data()).ok());
        let fabric = self.inventory.as_ref().map(|inventory| &inventory.fabric);
        let (Some(info), Some(fabric)) = (info, fabric) else {
            return false;
        };
        fabric.peer(at).is_some_and(|far| !is_behind(fabric, far, &info))
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Lid;

    use super::*;
    use crate::made::{SECOND, inventory, master, place, row};

    #[test]
    fn a_look_is_owed_until_everybody_has_been_asked() {
        let at = PortRef {
            node: NodeIdx(0),
            port: PortNum::MANAGEMENT,
        };
        let check = |due: bool, may_be_moved: bool, is_open: bool, asked: usize, want: bool| {
            let look = SecondLook {
                due: due.then_some(Time::ZERO),
                may_be_moved,
                is_open,
                asked,
                links: vec![at, at],
                ..SecondLook::default()
            };
            assert_eq!(look.is_outstanding(), want, "{due} {is_open} {asked}");
        };
        check(true, true, false, 0, true);
        check(true, true, true, 1, true);
        check(true, true, true, 2, false);
        // It was left to the light sweep, or links have been looked behind.
        check(false, true, false, 0, false);
        check(true, false, false, 0, false);
    }

    #[test]
    fn after_the_first_look_the_rest_is_owed() {
        // Whether links were looked behind first, and when the next look is due once that is through.
        let check = |is_first: bool, want: Option<Time>| {
            let mut look = SecondLook {
                due: Some(Time(9)),
                may_be_moved: true,
                is_open: true,
                is_first,
                in_row: 1,
                ..SecondLook::default()
            };
            look.end();
            assert_eq!((look.due(), look.is_outstanding(), look.in_row), (want, false, 0));
        };
        check(true, Some(Time(9)));
        check(false, None);
    }

    #[test]
    fn who_may_have_been_off_unseen_is_asked() {
        // Whether the second switch showed PortStateChange to the sweep, or knew of no manager then.
        let check = |says_changed: bool, is_new: bool, want: bool| {
            let now = inventory(row());
            let mut found = row();
            found[SECOND].switch.as_mut().unwrap().port_state_change = says_changed;
            if is_new {
                found[SECOND].ports[0].info.as_mut().unwrap().sm_lid = Lid(9);
            }
            let mut sm = master();
            sm.owe_second_look(&inventory(found).fabric, &now.fabric);
            let second = place(&now, SECOND, 0).node;
            let asked: Vec<NodeIdx> = Some(second).filter(|_| want).into_iter().collect();
            assert_eq!(sm.second_look.switches, asked, "{says_changed} {is_new}");
        };
        check(false, false, false);
        check(true, false, true);
        check(false, true, true);
    }
}
