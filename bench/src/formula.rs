//! The least number of MADs that bring a fresh fabric up, in closed form.
//!
//! It counts nodes, ports, links and table blocks and shares no code with the manager. Each term is explained in
//! `docs/reference/benchmark-methods.md`.

use std::fmt;

use selvedge_fabric::Fabric;

/// LIDs per LinearForwardingTable block. Source: IBA vol 1 §14.2.5.10.
const BLOCK_LIDS: u64 = 64;

/// The inputs of the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Switches.
    pub switches: u64,
    /// Nodes that are no switches.
    pub hosts: u64,
    /// External ports of switches, cabled or not.
    pub switch_ports: u64,
    /// External ports of switches with a link.
    pub switch_ends: u64,
    /// Ports of hosts with a link.
    pub host_ends: u64,
    /// End ports with a P_Key table that must be written. Agents start with the default partition.
    pub lacking_pkeys: u64,
}

impl Counts {
    /// Counts a fabric with links that are all trained.
    #[must_use]
    pub fn of(fabric: &Fabric) -> Self {
        let mut counts = Self {
            switches: 0,
            hosts: 0,
            switch_ports: 0,
            switch_ends: 0,
            host_ends: 0,
            lacking_pkeys: 0,
        };
        for node in fabric.nodes().iter() {
            let ends = node.external_ports().filter(|(_, port)| port.peer.is_some()).count() as u64;
            if node.is_switch() {
                counts.switches += 1;
                counts.switch_ports += u64::from(node.port_count());
                counts.switch_ends += ends;
            } else {
                counts.hosts += 1;
                counts.host_ends += ends;
            }
        }
        counts
    }
}

/// The least number of MADs, term by term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minimum {
    /// NodeInfo Gets: our own node, behind our own port, behind every switch port with a link.
    pub node_info: u64,
    /// NodeDescription Gets: every node.
    pub node_description: u64,
    /// SwitchInfo Gets: every switch.
    pub switch_info_get: u64,
    /// SwitchInfo Sets: every switch (LinearFDBTop).
    pub switch_info_set: u64,
    /// PortInfo Gets: every port of a switch, port 0 too, and every host port with a link.
    pub port_info_get: u64,
    /// PortInfo Sets that configure, and arm where there is a link: every port with a link, port 0 of every switch.
    pub port_info_configure: u64,
    /// PortInfo Sets to ACTIVE: every port with a link.
    pub port_info_activate: u64,
    /// P_KeyTable Gets: every end port.
    pub pkey_get: u64,
    /// P_KeyTable Sets: end ports that lack a key.
    pub pkey_set: u64,
    /// LinearForwardingTable Sets: blocks 0 to that of the highest LID, every switch.
    pub lft_set: u64,
    /// Number of MADs that would be saved if each cable between switches were queried from one end only.
    pub one_sided_saving: u64,
}

impl Minimum {
    /// The formula.
    #[must_use]
    pub const fn of(c: &Counts) -> Self {
        let end_ports = c.switches + c.host_ends;
        let blocks = (end_ports + 1).div_ceil(BLOCK_LIDS);
        let links = (c.switch_ends + c.host_ends) / 2;
        let node_info = 2 + c.switch_ends;
        Self {
            node_info,
            node_description: c.switches + c.hosts,
            switch_info_get: c.switches,
            switch_info_set: c.switches,
            port_info_get: c.switches + c.switch_ports + c.host_ends,
            port_info_configure: c.switches + c.switch_ends + c.host_ends,
            port_info_activate: c.switch_ends + c.host_ends,
            pkey_get: end_ports,
            pkey_set: c.lacking_pkeys,
            lft_set: c.switches * blocks,
            one_sided_saving: node_info.saturating_sub(1 + links),
        }
    }

    /// All Gets.
    #[must_use]
    pub const fn gets(&self) -> u64 {
        self.node_info + self.node_description + self.switch_info_get + self.port_info_get + self.pkey_get
    }

    /// All Sets.
    #[must_use]
    pub const fn sets(&self) -> u64 {
        self.switch_info_set + self.port_info_configure + self.port_info_activate + self.pkey_set + self.lft_set
    }

    /// All MADs.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.gets() + self.sets()
    }
}

impl fmt::Display for Minimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = [
            ("NodeInfo Get", self.node_info),
            ("NodeDescription Get", self.node_description),
            ("SwitchInfo Get", self.switch_info_get),
            ("SwitchInfo Set", self.switch_info_set),
            ("PortInfo Get", self.port_info_get),
            ("PortInfo Set, configure and arm", self.port_info_configure),
            ("PortInfo Set, activate", self.port_info_activate),
            ("P_KeyTable Get", self.pkey_get),
            ("P_KeyTable Set", self.pkey_set),
            ("LinearForwardingTable Set", self.lft_set),
            ("sum", self.total()),
        ];
        for (name, count) in terms {
            writeln!(f, "{name:<32}{count:>9}")?;
        }
        let saving = self.one_sided_saving;
        writeln!(f, "{:<32}{:>9}", "sum, each cable asked once", self.total() - saving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    /// A k-ary n-tree's counts by algebra, not by counting.
    const fn karytree(k: u64, n: u32) -> Counts {
        let (hosts, switches) = (k.pow(n), n as u64 * k.pow(n - 1));
        let between = (n as u64 - 1) * k.pow(n);
        Counts {
            switches,
            hosts,
            switch_ports: switches * 2 * k,
            switch_ends: 2 * between + hosts,
            host_ends: hosts,
            lacking_pkeys: 0,
        }
    }

    #[test]
    fn counts_agree_with_algebra() {
        let check = |k: u64, n: u32| {
            let case = Case::new(&format!("karytree:k={k},n={n}")).unwrap();
            assert_eq!(Counts::of(&case.fabric), karytree(k, n), "k={k} n={n}");
        };
        check(2, 2);
        check(3, 3);
        check(12, 3);
    }

    #[test]
    fn terms_of_a_fabric_counted_by_hand() {
        // Two hosts at one switch of four ports.
        let minimum = Minimum::of(&Counts {
            switches: 1,
            hosts: 2,
            switch_ports: 4,
            switch_ends: 2,
            host_ends: 2,
            lacking_pkeys: 1,
        });
        let want = Minimum {
            node_info: 4,
            node_description: 3,
            switch_info_get: 1,
            switch_info_set: 1,
            port_info_get: 7,
            port_info_configure: 5,
            port_info_activate: 4,
            pkey_get: 3,
            pkey_set: 1,
            lft_set: 1,
            one_sided_saving: 1,
        };
        assert_eq!(minimum, want);
        assert_eq!((minimum.gets(), minimum.sets(), minimum.total()), (18, 12, 30));
    }

    #[test]
    fn blocks_end_with_the_highest_lid() {
        let check = |end_ports: u64, want: u64| {
            let counts = Counts {
                switches: 1,
                host_ends: end_ports - 1,
                ..karytree(2, 1)
            };
            assert_eq!(Minimum::of(&counts).lft_set, want, "{end_ports}");
        };
        // LID 0 belongs to no port, so 63 end ports fill the first block.
        check(63, 1);
        check(64, 2);
        check(127, 2);
        check(128, 3);
    }

    #[test]
    fn the_large_tree_needs_a_quarter_of_a_million() {
        let minimum = Minimum::of(&karytree(18, 3));
        assert_eq!(minimum.lft_set, 104_004);
        assert_eq!(minimum.node_info, 29_162);
        assert_eq!(minimum.port_info_configure + minimum.port_info_activate, 70_956);
        assert_eq!(minimum.total(), 261_470);
    }
}
