//! The time of Sets, simulated as a queue of requests in known order.

use crate::line::{Kind, Line, Request, mean};
use crate::{Cost, Shape};

/// Smallest number of rounds that are simulated one by one. A round is one table block of every switch. After this
/// number of rounds the recursion is periodic, and each remaining round takes the same time.
const ROUNDS_MIN: u64 = 10;
/// Smallest number of table blocks that are simulated one by one.
const BLOCKS_MIN: u64 = 4_000;
/// Number of Sets that our manager queues at once, as a multiple of the window.
const QUEUED_WINDOWS: usize = 4;

/// The attributes that a stage writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// PortInfo of port 0 of every switch.
    pub port_zero: bool,
    /// PortInfo of every host port.
    pub host_ports: bool,
    /// PortInfo of every switch port with a link.
    pub switch_ports: bool,
    /// True if SwitchInfo of every switch is written, then every block of its table.
    pub tables: bool,
}

/// Returns the time of a stage, in ns, and the number of repeated requests.
pub(crate) fn apply(shape: &Shape, cost: &Cost, work: Work) -> (u64, u64) {
    mean(cost, |draw| apply_once(shape, cost, work, draw))
}

fn apply_once(shape: &Shape, cost: &Cost, work: Work, draw: u64) -> (u64, u64) {
    let blocks = if work.tables { shape.lft_blocks() } else { 0 };
    let rounds = blocks.min(ROUNDS_MIN.max(BLOCKS_MIN.div_ceil(shape.switches().max(1))));
    let ports = (0..shape.nodes()).flat_map(|node| ports_of(shape, work, node));
    let switches = || (0..shape.nodes()).filter(|&node| shape.is_reached(node) && shape.is_switch(node));
    let infos = switches().filter(|_| work.tables).map(|node| set(shape, node, 0));
    let tables = (0..rounds).flat_map(|_| switches().map(|node| set(shape, node, 0)));
    let before = infos.clone().count() as u64 + ports.clone().count() as u64;
    let mut run = Run {
        line: Line::new(cost, shape.nodes(), draw),
        answers: 0,
        // Half of the rounds are over, and the last has not begun to empty the window.
        marks: [rounds / 2, rounds.saturating_sub(1)].map(|round| before + round * shape.switches()),
        marked: [0; 2],
    };
    run.all(ports.chain(infos).chain(tables));
    let period = match rounds.saturating_sub(1) - rounds / 2 {
        0 => 0.0,
        span => (run.marked[1].saturating_sub(run.marked[0])) as f64 / span as f64,
    };
    // Times are far below 2^53 ns, a hundred days.
    let rest = (period * (blocks - rounds) as f64) as u64;
    (run.line.now() + rest, run.line.repeats)
}

/// Returns the time of Sets that are sent to the agents in turn. Each agent is given by its number of Sets and by its
/// distance in links.
pub(crate) fn rounds(cost: &Cost, agents: &[(u64, u16)]) -> (u64, u64) {
    mean(cost, |draw| rounds_once(cost, agents, draw))
}

fn rounds_once(cost: &Cost, agents: &[(u64, u16)], draw: u64) -> (u64, u64) {
    let most = agents.iter().map(|(sets, _)| *sets).max().unwrap_or(0);
    let requests = (0..most).flat_map(|round| {
        let numbered = agents.iter().zip(0..);
        numbered
            .filter(move |((sets, _), _)| round < *sets)
            .map(|((_, hops), node)| Request {
                node,
                hops: *hops,
                port: 0,
                kind: Kind::Other,
            })
    });
    let mut run = Run {
        line: Line::new(cost, u32::try_from(agents.len()).unwrap_or(u32::MAX), draw),
        answers: 0,
        marks: [u64::MAX; 2],
        marked: [0; 2],
    };
    run.all(requests);
    (run.line.now(), run.line.repeats)
}

struct Run<'a> {
    line: Line<'a>,
    answers: u64,
    /// Numbers of responses at which the time is recorded.
    marks: [u64; 2],
    marked: [u64; 2],
}

impl Run<'_> {
    fn all(&mut self, mut requests: impl Iterator<Item = Request>) {
        let room = QUEUED_WINDOWS * self.line.window();
        loop {
            while self.line.open() < room {
                let Some(request) = requests.next() else { break };
                self.line.submit(request);
            }
            if self.line.next().is_none() {
                return;
            }
            self.answers += 1;
            for (mark, marked) in self.marks.iter().zip(&mut self.marked) {
                if *mark == self.answers {
                    *marked = self.line.now();
                }
            }
        }
    }
}

fn ports_of(shape: &Shape, work: Work, node: u32) -> impl Iterator<Item = Request> + Clone + '_ {
    let is_switch = shape.is_switch(node);
    let (zero, linked) = match is_switch {
        true => (work.port_zero, work.switch_ports),
        false => (false, work.host_ports),
    };
    let is_reached = shape.is_reached(node);
    let zero = (zero && is_reached).then_some(0);
    let count = if linked && is_reached {
        shape.port_count(node)
    } else {
        0
    };
    let others = (1..=count).filter(move |&port| shape.is_managed(node, port));
    zero.into_iter().chain(others).map(move |port| set(shape, node, port))
}

fn set(shape: &Shape, node: u32, port: u8) -> Request {
    Request {
        node,
        hops: shape.depth(node),
        port,
        kind: Kind::Other,
    }
}
