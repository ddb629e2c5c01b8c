//! The sampler's knowledge of one node: its agent, the totals of its ports, and the ports that must still be read.

use core::time::Duration;
use std::collections::BTreeMap;

use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::ClassPortInfo;

use super::silence::Silence;
use crate::account::Account;
use crate::clock::{Slot, Wall};
use crate::group::{Group, Row};
use crate::{Metric, PortSet};

/// The abilities of a node's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abilities {
    /// Not asked yet, or asked without an answer.
    Unknown,
    /// The request is under way.
    Asked,
    /// The abilities that the agent states.
    Known {
        /// CapabilityMask.
        mask: u16,
        /// CapabilityMask2.
        mask2: u32,
    },
}

/// Totals of a port and group, with the time of their reading.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// The totals.
    pub account: Account,
    /// The last reading of this sampler.
    pub read_at: Option<Time>,
    /// When an earlier process handed out the last sample.
    pub resumed_at: Option<Wall>,
    /// When values of the other end were last taken over.
    pub derived_at: Option<Time>,
    /// The last sample that was read or derived.
    pub step: Option<Step>,
}

/// Longest time between the readings of both ends of a link that count as one moment. What passes the link meanwhile
/// may be counted twice at the end that is derived, until its next own reading.
const SKEW_MAX: Duration = Duration::from_millis(20);

/// A sample that was read or derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Class and slot of the step.
    pub slot: (u8, Slot),
    /// When the values were known; `None`: before a restart.
    pub known_at: Option<Time>,
    /// True if the port itself was read, so that its totals have everything it counted until then.
    pub is_read: bool,
}

/// Whether an agent answers for all ports at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SumSupport {
    /// As stated in the agent's ClassPortInfo.
    AsSaid,
    /// A request for the sum failed. It is not known yet whether the agent answers about single ports.
    Doubtful,
    /// Requests for the sum fail, but requests for single ports do not.
    Failed,
}

/// The sum of all ports of a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    /// The last sum; `None` before the first.
    pub last: Option<Row>,
    /// Slots since every port was read.
    pub slots: u32,
}

impl Step {
    /// True if the samples of both ends of a link are from the same step.
    pub(super) fn is_with(self, other: Self) -> bool {
        let skew = self
            .known_at
            .zip(other.known_at)
            .map(|(a, b)| a.since(b).max(b.since(a)));
        let before_restart = self.known_at.is_none() && other.known_at.is_none();
        self.slot == other.slot && (before_restart || skew.is_some_and(|skew| skew <= SKEW_MAX))
    }
}

/// The sampler's knowledge of one node.
#[derive(Debug)]
pub(super) struct Node {
    /// The node.
    pub guid: Guid,
    /// Abilities of the agent.
    pub abilities: Abilities,
    /// Groups that the agent refused, a bit each.
    refused: u32,
    /// Whether the agent answers for all ports at once.
    pub sum: SumSupport,
    /// Whether the agent answers.
    pub silence: Silence,
    /// Ports about which the agent does not answer, although it answers about others.
    pub silent_ports: BTreeMap<u8, Silence>,
    /// The last answer.
    pub answered_at: Option<Time>,
    /// Totals by port and group.
    pub held: BTreeMap<(u8, Group), Held>,
    /// The last growth of an error counter, by port.
    pub error_at: BTreeMap<u8, Time>,
    /// Ports for which the last request failed. The sum of all ports may already include their counts, so the sum
    /// proves nothing about them.
    pub unread: BTreeMap<Group, PortSet>,
    /// Sums of all ports.
    pub sums: BTreeMap<Group, Sum>,
    /// Ports without a sample in the current slot, by class and group.
    pub pending: BTreeMap<(u8, Group), PortSet>,
    /// Ports that get a sample when the other end of their link is read.
    pub derived: BTreeMap<(u8, Group), PortSet>,
    /// True if the last inventory has the node.
    pub is_present: bool,
}

impl Node {
    pub(super) const fn new(guid: Guid) -> Self {
        Self {
            guid,
            abilities: Abilities::Unknown,
            refused: 0,
            sum: SumSupport::AsSaid,
            silence: Silence::NONE,
            silent_ports: BTreeMap::new(),
            answered_at: None,
            held: BTreeMap::new(),
            error_at: BTreeMap::new(),
            unread: BTreeMap::new(),
            sums: BTreeMap::new(),
            pending: BTreeMap::new(),
            derived: BTreeMap::new(),
            is_present: true,
        }
    }

    /// Notes that the agent does not have a group; true if that is new.
    pub(super) const fn refuse(&mut self, group: Group) -> bool {
        let bit = 1 << group as u32;
        let is_new = self.refused & bit == 0;
        self.refused |= bit;
        is_new
    }

    /// Returns the group that is read instead of `wanted`; `None`: the agent has none. `class` are all groups of the
    /// class.
    pub(super) fn group(&self, wanted: Group, class: &[Group]) -> Option<Group> {
        let has = |group: Group| self.refused >> group as u32 & 1 == 0;
        let is_wide = match self.abilities {
            Abilities::Known { mask, .. } => {
                mask & (ClassPortInfo::EXTENDED_WIDTH | ClassPortInfo::EXTENDED_WIDTH_NO_IETF) != 0
            }
            Abilities::Unknown | Abilities::Asked => true,
        };
        if wanted != Group::Extended {
            return has(wanted).then_some(wanted);
        }
        match is_wide && has(Group::Extended) {
            true => Some(Group::Extended),
            false => (!class.contains(&Group::Base) && has(Group::Base)).then_some(Group::Base),
        }
    }

    /// True if the agent sums up all ports.
    pub(super) fn sums_up(&self) -> bool {
        let says_so =
            matches!(self.abilities, Abilities::Known { mask, .. } if mask & ClassPortInfo::ALL_PORT_SELECT != 0);
        says_so && self.sum != SumSupport::Failed
    }

    /// True if the sum of all ports shows whether the port has new errors.
    pub(super) fn is_in_sum(&self, port: u8, group: Group) -> bool {
        let is_unread = self.unread.get(&group).is_some_and(|ports| ports.contains(port));
        self.held.contains_key(&(port, group)) && !is_unread
    }

    /// Notes that the agent answered about a port.
    pub(super) fn answered_port(&mut self, port: u8, group: Group) {
        self.silent_ports.remove(&port);
        if let Some(ports) = self.unread.get_mut(&group) {
            ports.remove(port);
        }
        if self.sum == SumSupport::Doubtful {
            self.sum = SumSupport::Failed;
        }
    }

    /// Returns the counters of a group that the agent has.
    pub(super) fn known(&self, group: Group) -> u32 {
        let Abilities::Known { mask, mask2 } = self.abilities else {
            return group.mask();
        };
        match group {
            Group::Extended if mask & ClassPortInfo::EXTENDED_WIDTH == 0 => 0xF,
            Group::Extended if mask2 & ClassPortInfo::EXTENDED_ERRORS == 0 => 0xFF,
            Group::Base => group.mask_of(|metric| match metric {
                Metric::XmitWait => mask & ClassPortInfo::XMIT_WAIT != 0,
                Metric::Qp1Dropped => mask & ClassPortInfo::QP1_DROPPED != 0,
                _ => true,
            }),
            _ => group.mask(),
        }
    }

    /// Returns the counters of a group that are watched as sums over all ports; if a sum grows, the ports are read.
    /// These are the error counters, and PortXmitWait if PortCountersExtended does not have it.
    pub(super) fn watched(&self, group: Group) -> u32 {
        let has_wait = self.known(Group::Extended) >> Metric::XmitWait as u32 & 1 != 0;
        group.mask_of(|metric| metric.is_error() || metric == Metric::XmitWait && !has_wait)
    }

    /// True if a port of the node is read itself in the slot of a class.
    pub(super) fn reads(&self, class: u8) -> bool {
        !self.read_in(class).is_empty()
    }

    /// Returns the ports that are read themselves in the slot of a class, by group.
    pub(super) fn read_in(&self, class: u8) -> Vec<(Group, PortSet)> {
        let of_class = self.pending.iter().filter(|(at, _)| at.0 == class);
        let read = of_class.map(|(at, ports)| {
            let left = self.derived.get(at).copied().unwrap_or_default();
            (at.1, ports.iter().filter(|port| !left.contains(*port)).collect())
        });
        read.filter(|(_, ports): &(Group, PortSet)| !ports.is_empty()).collect()
    }

    /// True if a port gets its sample when the other end of its link is read.
    pub(super) fn waits_for_peer(&self, class: u8, group: Group, port: u8) -> bool {
        self.derived
            .get(&(class, group))
            .is_some_and(|ports| ports.contains(port))
    }

    /// Waits for samples of `to` instead of `from`.
    pub(super) fn rename(&mut self, class: u8, from: Group, to: Group) {
        for sets in [&mut self.pending, &mut self.derived] {
            if let Some(ports) = sets.remove(&(class, from)) {
                let all = sets.entry((class, to)).or_default();
                *all = all.union(ports);
            }
        }
    }

    /// Lets a port that waits for its peer in group `from` wait in `to`; false if it does not wait.
    pub(super) fn move_port(&mut self, class: u8, port: u8, from: Group, to: Group) -> bool {
        let is_waiting = self.waits_for_peer(class, from, port);
        if is_waiting {
            self.settle(class, from, port);
            for sets in [&mut self.pending, &mut self.derived] {
                sets.entry((class, to)).or_default().insert(port);
            }
        }
        is_waiting
    }

    /// Takes a port off the list of those without a sample; false if it was not on it.
    pub(super) fn settle(&mut self, class: u8, group: Group, port: u8) -> bool {
        take(&mut self.derived, class, group, port);
        take(&mut self.pending, class, group, port)
    }

    /// True if an error counter of the port grew within `span` before `now`.
    pub(super) fn had_error(&self, port: u8, now: Time, span: Duration) -> bool {
        self.error_at.get(&port).is_some_and(|at| now.since(*at) < span)
    }
}

/// Takes a port out of one of the sets; false if it was not in it.
fn take(sets: &mut BTreeMap<(u8, Group), PortSet>, class: u8, group: Group, port: u8) -> bool {
    let Some(ports) = sets.get_mut(&(class, group)) else {
        return false;
    };
    let was_in = ports.remove(port);
    if ports.is_empty() {
        sets.remove(&(class, group));
    }
    was_in
}
