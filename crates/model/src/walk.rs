//! The time of discovery, simulated as a queue of requests with an order that depends on the responses.

use crate::line::{Kind, Line, Request, mean};
use crate::{Cost, Manager, Shape};

/// Discovery of all reachable nodes.
struct Walk<'a> {
    shape: &'a Shape,
    manager: Manager,
    /// By node: number of links on the path by which it was first entered; `u16::MAX`: not yet.
    way: Vec<u16>,
    /// By node: the port by which it was first entered.
    entered: Vec<u8>,
    /// Further ports by which discovery entered channel adapters.
    more: Vec<(u32, u8)>,
}

/// Returns the time of discovery, in ns, and the number of repeated requests.
pub(crate) fn discover(shape: &Shape, cost: &Cost) -> (u64, u64) {
    mean(cost, |draw| discover_once(shape, cost, draw))
}

fn discover_once(shape: &Shape, cost: &Cost, draw: u64) -> (u64, u64) {
    let nodes = shape.nodes() as usize;
    let mut walk = Walk {
        shape,
        manager: cost.manager,
        way: vec![u16::MAX; nodes],
        entered: vec![0; nodes],
        more: Vec::new(),
    };
    let mut line = Line::new(cost, shape.nodes(), draw);
    line.submit(Request {
        node: shape.seat.node,
        hops: 0,
        port: shape.seat.port,
        kind: Kind::Node,
    });
    while let Some(answered) = line.next() {
        walk.answered(answered, &mut line);
    }
    (line.now(), line.repeats)
}

impl Walk<'_> {
    fn answered(&mut self, answered: Request, line: &mut Line<'_>) {
        match answered.kind {
            Kind::Node => self.node(answered, line),
            // OpenSM reads ports when it knows the switch, and P_Keys when it knows the port.
            Kind::Switch if self.manager == Manager::OpenSm => self.ports(answered, line),
            Kind::Port => self.port(answered, line),
            Kind::Switch | Kind::Other => {}
        }
    }

    fn node(&mut self, at: Request, line: &mut Line<'_>) {
        let node = at.node as usize;
        let is_new = self.way[node] == u16::MAX;
        let ours = self.manager == Manager::Selvedge;
        let mut ask = |kind| line.submit(Request { kind, ..at });
        if is_new {
            (self.way[node], self.entered[node]) = (at.hops, at.port);
            ask(Kind::Other);
            if self.shape.is_switch(at.node) {
                ask(Kind::Switch);
                if ours {
                    ask(Kind::Other);
                    self.ports(at, line);
                }
                return;
            }
        }
        if self.shape.is_switch(at.node) {
            return;
        }
        let known = !is_new && (self.entered[node] == at.port || self.more.contains(&(at.node, at.port)));
        if known {
            return;
        }
        if !is_new {
            self.more.push((at.node, at.port));
        }
        ask(Kind::Port);
        if ours {
            ask(Kind::Other);
        }
    }

    /// Requests PortInfo of every port of a switch.
    fn ports(&self, at: Request, line: &mut Line<'_>) {
        for port in 0..=self.shape.port_count(at.node) {
            let kind = Kind::Port;
            line.submit(Request { port, kind, ..at });
        }
    }

    fn port(&self, at: Request, line: &mut Line<'_>) {
        let is_switch = self.shape.is_switch(at.node);
        let peer = (at.port > 0).then(|| self.shape.peer(at.node, at.port)).flatten();
        if self.manager == Manager::OpenSm && (peer.is_some() || at.port == 0) {
            line.submit(Request {
                kind: Kind::Other,
                ..at
            });
        }
        let own = at.node == self.shape.seat.node && at.port == self.shape.seat.port;
        let came_by = self.manager == Manager::OpenSm && is_switch && self.entered[at.node as usize] == at.port;
        if let Some(peer) = peer.filter(|_| (is_switch && !came_by) || (own && !is_switch)) {
            line.submit(Request {
                node: peer.node,
                port: peer.port,
                // A directed route has at most 63 links, so the sum cannot overflow before that.
                hops: self.way[at.node as usize].saturating_add(1),
                kind: Kind::Node,
            });
        }
    }
}
