//! The route of a directed-route SMP.

use core::fmt;

use selvedge_types::PortNum;

/// The route of a directed-route SMP: the egress port of each hop. Source: IBA vol 1 §14.2.2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectedRoute {
    len: u8,
    ports: [u8; Self::MAX_HOPS],
}

impl DirectedRoute {
    /// Largest number of hops of a directed route (the path vector has 64 bytes; byte 0 is unused).
    pub const MAX_HOPS: usize = 63;
    /// The empty route: the sender's own node.
    pub const LOCAL: Self = Self {
        len: 0,
        ports: [0; Self::MAX_HOPS],
    };

    /// Returns the route along `ports`; `None` with more than 63 hops.
    #[must_use]
    pub fn new(ports: &[PortNum]) -> Option<Self> {
        ports.iter().try_fold(Self::LOCAL, |route, &port| route.then(port))
    }

    /// Returns this route with one more egress port; `None` after 63 hops.
    #[must_use]
    pub fn then(mut self, exit: PortNum) -> Option<Self> {
        *self.ports.get_mut(usize::from(self.len))? = exit.get();
        self.len += 1;
        Some(self)
    }

    /// Returns the egress ports, first hop first.
    #[must_use]
    pub fn ports(&self) -> &[u8] {
        &self.ports[..usize::from(self.len)]
    }

    /// Returns the number of hops.
    #[must_use]
    pub const fn hops(&self) -> u8 {
        self.len
    }
}

impl fmt::Display for DirectedRoute {
    /// Prints `0,1,4`, as infiniband-diags do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0")?;
        self.ports().iter().try_for_each(|port| write!(f, ",{port}"))
    }
}

impl fmt::Debug for DirectedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectedRoute({self})")
    }
}
