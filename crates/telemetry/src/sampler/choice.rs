//! Decides which ports of a node are read in a slot, which are derived, and which are known to be down.

use core::time::Duration;

use selvedge_types::{Guid, NodeKind};

use crate::config::{Ends, SamplingClass};
use crate::inventory::{End, Inventory, NodeEntry, PortEntry};
use crate::{Assignment, Group, PortSet};

/// The data that the choice depends on.
pub(super) struct Ctx<'a> {
    pub inventory: &'a Inventory,
    pub assignment: &'a Assignment,
    pub class: &'a SamplingClass,
    /// True if the agent of a node does not answer.
    pub is_silent: &'a dyn Fn(Guid) -> bool,
    /// True if a port had an error within the span.
    pub had_error: &'a dyn Fn(End, Duration) -> bool,
}

/// The ports of a node and group in a slot. No port is in two sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Ports that are read.
    pub read: PortSet,
    /// Ports with values that follow from the other end of the link.
    pub derived: PortSet,
    /// Ports that are not read because the manager knows that their link is down.
    pub down: PortSet,
}

impl Choice {
    /// Returns the choice for a node and group.
    pub(super) fn of(ctx: &Ctx<'_>, node: Guid, entry: &NodeEntry, group: Group) -> Self {
        let assigned = ctx.assignment.ports(node, group);
        let mut choice = Self::default();
        for port in entry.ports.iter().filter(|port| assigned.contains(port.num)) {
            let end = End { node, port: port.num };
            let set = if !port.is_up() {
                &mut choice.down
            } else if ctx.is_left_to_peer(end, port, group) {
                &mut choice.derived
            } else {
                &mut choice.read
            };
            set.insert(port.num);
        }
        choice
    }
}

impl Ctx<'_> {
    /// True if the other end of the link is read instead of this one.
    fn is_left_to_peer(&self, end: End, port: &PortEntry, group: Group) -> bool {
        let Ends::One { both_after_error } = self.class.ends else {
            return false;
        };
        let Some(peer) = port.peer.filter(|_| matches!(group, Group::Base | Group::Extended)) else {
            return false;
        };
        let is_paired = self
            .inventory
            .port(peer)
            .is_some_and(|at| at.is_up() && at.peer == Some(end));
        let is_assigned = self.assignment.ports(peer.node, group).contains(peer.port);
        if !is_paired || !is_assigned {
            return false;
        }
        if (self.had_error)(end, both_after_error) || (self.had_error)(peer, both_after_error) {
            return false;
        }
        match ((self.is_silent)(end.node), (self.is_silent)(peer.node)) {
            (true, false) => true,
            (false, true) => false,
            (true, true) | (false, false) => self.prefers(peer, end),
        }
    }

    /// True if `one` is read rather than `other`: switches are preferred because they are always on; otherwise the
    /// lower end is read.
    fn prefers(&self, one: End, other: End) -> bool {
        let is_switch = |end: End| {
            let node = self.inventory.nodes.get(&end.node);
            node.is_some_and(|node| node.kind == NodeKind::Switch)
        };
        match (is_switch(one), is_switch(other)) {
            (true, false) => true,
            (false, true) => false,
            (true, true) | (false, false) => one < other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_types::{Lid, PortState};

    const SWITCH: Guid = Guid(0x10);
    const HOST: Guid = Guid(0x1);

    fn port(num: u8, state: PortState, peer: Option<(Guid, u8)>) -> PortEntry {
        PortEntry {
            num,
            lid: Lid(5),
            state,
            peer: peer.map(|(node, port)| End { node, port }),
            rate: None,
        }
    }

    /// Switch port 1 to the host, switch port 2 to switch port 3, switch port 4 down.
    fn inventory() -> Inventory {
        use PortState::{Active, Down};
        let node = |kind, ports| NodeEntry {
            kind,
            description: String::new(),
            ports,
        };
        let switch = vec![
            port(1, Active, Some((HOST, 1))),
            port(2, Active, Some((SWITCH, 3))),
            port(3, Active, Some((SWITCH, 2))),
            port(4, Down, None),
        ];
        let host = vec![port(1, Active, Some((SWITCH, 1)))];
        Inventory {
            nodes: [
                (SWITCH, node(NodeKind::Switch, switch)),
                (HOST, node(NodeKind::Ca, host)),
            ]
            .into(),
        }
    }

    /// The sets of the switch and of the host: read, derived, down.
    fn check(
        one_end: bool,
        silent: Option<Guid>,
        error: Option<End>,
        group: Group,
        switch: [&str; 3],
        host: [&str; 3],
    ) {
        let inventory = inventory();
        let mut class = SamplingClass::new("data", Duration::from_secs(1), &[group]);
        if one_end {
            class.ends = Ends::One {
                both_after_error: Duration::from_secs(60),
            };
        }
        let ctx = Ctx {
            inventory: &inventory,
            assignment: &Assignment::All,
            class: &class,
            is_silent: &|node| silent == Some(node),
            had_error: &|end, _| error == Some(end),
        };
        for (guid, want) in [(SWITCH, switch), (HOST, host)] {
            let Choice { read, derived, down } = Choice::of(&ctx, guid, &inventory.nodes[&guid], group);
            assert_eq!([read, derived, down].map(|set| set.to_string()), want, "{guid}");
        }
    }

    #[test]
    fn ends_of_links() {
        let host_port = End { node: HOST, port: 1 };
        let group = Group::Extended;
        check(false, None, None, group, ["1-3", "", "4"], ["1", "", ""]);
        check(true, None, None, group, ["1-2", "3", "4"], ["", "1", ""]);
        check(true, None, Some(host_port), group, ["1-2", "3", "4"], ["1", "", ""]);
        check(true, Some(SWITCH), None, group, ["2", "1,3", "4"], ["1", "", ""]);
        check(true, None, None, Group::RcvErrors, ["1-3", "", "4"], ["1", "", ""]);
    }
}
