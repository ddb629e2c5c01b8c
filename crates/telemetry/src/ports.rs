//! Sets of ports of a node, and work items.

use core::fmt;
use std::collections::BTreeMap;

use selvedge_types::Guid;

use crate::Group;

/// A set of port numbers of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSet([u64; 4]);

impl PortSet {
    /// All port numbers.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// Adds a port.
    pub const fn insert(&mut self, port: u8) {
        self.0[(port >> 6) as usize] |= 1 << (port & 63);
    }

    /// Removes a port. Returns false if it was not in the set.
    pub const fn remove(&mut self, port: u8) -> bool {
        let was_in = self.contains(port);
        self.0[(port >> 6) as usize] &= !(1 << (port & 63));
        was_in
    }

    /// True if the port is in the set.
    #[must_use]
    pub const fn contains(self, port: u8) -> bool {
        self.0[(port >> 6) as usize] >> (port & 63) & 1 != 0
    }

    /// Returns the ports in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |port| self.contains(*port))
    }

    /// Returns the number of ports.
    #[must_use]
    pub const fn len(self) -> u32 {
        let Self([a, b, c, d]) = self;
        a.count_ones() + b.count_ones() + c.count_ones() + d.count_ones()
    }

    /// True if the set has no port.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the ports of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(core::array::from_fn(|i| self.0[i] | other.0[i]))
    }
}

impl FromIterator<u8> for PortSet {
    fn from_iter<T: IntoIterator<Item = u8>>(ports: T) -> Self {
        let mut set = Self::default();
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

impl fmt::Display for PortSet {
    /// Prints ports and ranges: `1-18,20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ports = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = ports.next() {
            let mut last = first;
            while let Some(next) = ports.next_if(|next| *next - 1 == last) {
                last = next;
            }
            match first == last {
                true => write!(f, "{separator}{first}")?,
                false => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Work of a sampler: some ports of a node, one counter group. Two samplers may share the ports of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkItem {
    /// The node.
    pub node: Guid,
    /// The ports.
    pub ports: PortSet,
    /// The counters.
    pub group: Group,
}

/// The work items of a sampler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Assignment {
    /// All ports of all nodes: one sampler reads the whole fabric.
    #[default]
    All,
    /// The ports of these nodes and groups.
    Items(BTreeMap<(Guid, Group), PortSet>),
}

impl Assignment {
    /// Returns the assignment of these items. Items of the same node and group are merged.
    #[must_use]
    pub fn of(items: &[WorkItem]) -> Self {
        let mut map: BTreeMap<(Guid, Group), PortSet> = BTreeMap::new();
        for item in items {
            let ports = map.entry((item.node, item.group)).or_default();
            *ports = ports.union(item.ports);
        }
        Self::Items(map)
    }

    /// Returns the assigned ports of a node and group.
    #[must_use]
    pub fn ports(&self, node: Guid, group: Group) -> PortSet {
        match self {
            Self::All => PortSet::ALL,
            Self::Items(items) => items.get(&(node, group)).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_print_as_ranges() {
        let check = |ports: &[u8], want: &str| {
            let set: PortSet = ports.iter().copied().collect();
            assert_eq!(set.to_string(), want);
            assert_eq!(set.len() as usize, ports.len());
            assert!(set.iter().eq(ports.iter().copied()));
        };
        check(&[], "");
        check(&[0], "0");
        check(&[1, 2, 3, 20, 254, 255], "1-3,20,254-255");
        assert!(PortSet::default().is_empty());
        assert_eq!(PortSet::ALL.to_string(), "0-255");
    }

    #[test]
    fn items_of_a_node_add_up() {
        let item = |ports: &[u8], group| WorkItem {
            node: Guid(1),
            ports: ports.iter().copied().collect(),
            group,
        };
        let work = Assignment::of(&[item(&[1, 2], Group::Base), item(&[5], Group::Base)]);
        assert_eq!(work.ports(Guid(1), Group::Base).to_string(), "1-2,5");
        assert!(work.ports(Guid(1), Group::Extended).is_empty());
        assert!(work.ports(Guid(2), Group::Base).is_empty());
        assert_eq!(Assignment::All.ports(Guid(2), Group::Base), PortSet::ALL);
    }
}
