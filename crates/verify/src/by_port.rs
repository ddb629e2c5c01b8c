//! One value for each port of a fabric, found by index.

use selvedge_fabric::{Fabric, PortRef};
use selvedge_types::Idx;

/// Values by port in one dense array.
#[derive(Debug)]
pub struct ByPort<T> {
    /// Index of each node's port 0, and the total count at the end.
    starts: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy> ByPort<T> {
    /// Returns a table with the same value for every port.
    pub fn filled(fabric: &Fabric, value: T) -> Self {
        let mut end = 0;
        let mut starts = vec![0];
        for node in fabric.nodes().iter() {
            end += u32::from(node.port_count()) + 1;
            starts.push(end);
        }
        Self {
            starts,
            values: vec![value; end as usize],
        }
    }

    fn position(&self, at: PortRef) -> Option<usize> {
        let node = at.node.to_usize();
        let (start, end) = (*self.starts.get(node)?, *self.starts.get(node + 1)?);
        let position = start as usize + at.port.index();
        (position < end as usize).then_some(position)
    }

    /// Returns the value of a port, or `None` if the port is outside the fabric.
    #[inline]
    pub fn get(&self, at: PortRef) -> Option<T> {
        self.position(at).map(|position| self.values[position])
    }

    /// Changes the value of a port. Does nothing if the port is outside the fabric.
    #[inline]
    pub fn set(&mut self, at: PortRef, value: T) {
        if let Some(position) = self.position(at) {
            self.values[position] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::NodeIdx;
    use selvedge_types::PortState;

    use super::*;
    use crate::support;

    #[test]
    fn every_port_has_its_own() {
        let mut net = support::Net::new(2, 3);
        net.link(0, 1);
        let fabric = net.finish(PortState::Active);
        let mut values = ByPort::filled(&fabric, 0);
        let at = |node, n| PortRef {
            node: NodeIdx(node),
            port: support::port(n),
        };
        let check = |values: &ByPort<u8>, node, n, want| assert_eq!(values.get(at(node, n)), want, "{node}[{n}]");
        values.set(at(0, 3), 1);
        values.set(at(1, 0), 2);
        values.set(at(0, 4), 3);
        values.set(at(2, 0), 4);
        check(&values, 0, 3, Some(1));
        check(&values, 0, 4, None);
        check(&values, 1, 0, Some(2));
        check(&values, 1, 1, Some(0));
        check(&values, 2, 0, None);
    }
}
