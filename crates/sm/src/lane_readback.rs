//! Reads lane tables back in light sweeps, as forwarding tables are: an agent may acknowledge a row and not hold it, or
//! lose what it held.
//!
//! Node by node, so that each is read once in [`Config::read_back_sweeps`](crate::Config) light sweeps; a light sweep
//! asks for so many tables at most, so that a switch with 1,296 rows is read in peace. A difference is told, and the
//! next sweep reads what else the node holds, and writes again.

use std::sync::Arc;

use selvedge_fabric::NodeIdx;
use selvedge_mad::AgentId;
use selvedge_plan::{HeldLanes, LaneTable, own_row, ports_in_use, tables_of};
use selvedge_types::{Guid, Idx, PortNum};
use selvedge_wire::Mad;

use crate::core::{Sm, ok};
use crate::event::Event;
use crate::io::Output;
use crate::stage::Token;
use crate::{lane_smp, smp};

/// No further node has its turn in a light sweep that has so many tables to read.
const TABLES_MAX: usize = 1_024;

/// Which lane tables are to be read back.
#[derive(Clone, Debug, Default)]
pub struct LaneReadBack {
    /// In this light sweep, the next at the end.
    todo: Vec<LaneTable>,
    /// Number of the node whose turn is next.
    next: usize,
}

/// True if of two accounts of a table the one says the same as the other, or nothing.
fn agrees(read: &HeldLanes, held: &HeldLanes, node: Guid, table: LaneTable) -> bool {
    match table {
        LaneTable::SlToVl { port, ingress } => {
            let read = read.row(node, port.port, ingress);
            read.is_none() || read == held.row(node, port.port, ingress)
        }
        LaneTable::Arbitration { port, block } => {
            let read = read.turns(node, port.port, block);
            read.is_none() || read == held.turns(node, port.port, block)
        }
    }
}

/// True if a table's content is known.
fn is_known(held: &HeldLanes, node: Guid, table: LaneTable) -> bool {
    match table {
        LaneTable::SlToVl { port, ingress } => held.row(node, port.port, ingress).is_some(),
        LaneTable::Arbitration { port, block } => held.turns(node, port.port, block).is_some(),
    }
}

impl Sm {
    /// A light sweep begins: whose turn it is.
    pub(crate) fn prepare_lanes(&mut self) {
        self.lane_read_back.todo.clear();
        let (Some(plan), Some(fabric), Some(inventory)) = (&self.view.plan, &self.view.fabric, &self.inventory) else {
            return;
        };
        let (sweeps, held) = (self.config.read_back_sweeps as usize, &self.view.installed.lanes);
        let is_of_it = Arc::ptr_eq(&inventory.fabric, fabric);
        if sweeps == 0 || plan.lane_tables.is_none() || held.is_empty() || !is_of_it {
            return;
        }
        let nodes = fabric.nodes().len();
        let turn = &mut self.lane_read_back;
        for _ in 0..nodes.div_ceil(sweeps) {
            if turn.todo.len() >= TABLES_MAX {
                break;
            }
            let node = NodeIdx::from_usize(turn.next % nodes);
            turn.next = turn.next % nodes + 1;
            let up = ports_in_use(fabric, plan, node);
            let guid = fabric.node(node).guid;
            let of_node = tables_of(fabric, node, &up).chain(own_row(fabric, node));
            let known = of_node.filter(|table| is_known(held, guid, *table));
            turn.todo.extend(known);
        }
    }

    /// Keeps so many questions open, behind those for forwarding tables.
    pub(crate) fn ask_lanes_back(&mut self) {
        let Some(inventory) = self.inventory.clone().filter(|_| self.read_back.is_open()) else {
            return;
        };
        while self.exchange.open() < self.config.ready() {
            let Some(table) = self.lane_read_back.todo.pop() else {
                return;
            };
            let at = table.port();
            let (attribute, modifier) = lane_smp::question(&inventory.fabric, table);
            let route = inventory.agents[at.node].route_to(at.port);
            if self.silent.is_silent(route) {
                continue;
            }
            let get = smp::get(attribute, modifier, route, self.config.policy.m_key);
            self.exchange.submit(AgentId(at.node.0), (Token::Lanes(table), get));
        }
    }

    /// A table as its agent holds it; true if it is not as it was written.
    pub(crate) fn lanes_were_read_back(
        &mut self,
        table: LaneTable,
        answer: Option<&Mad>,
        out: &mut Vec<Output>,
    ) -> bool {
        let (Some(mad), Some(inventory)) = (ok(answer), self.inventory.clone()) else {
            return false;
        };
        let fabric = &inventory.fabric;
        let guid = fabric.node(table.port().node).guid;
        let mut read = HeldLanes::default();
        lane_smp::learn(&mut read, fabric, table, mad.smp_data());
        let held = &self.view.installed.lanes;
        if agrees(&read, held, guid, table) {
            return false;
        }
        if table.port().port == PortNum::MANAGEMENT || !is_known(held, guid, table) {
            // Nobody has written it, so nobody lost it: what it is now is what hosts are told. Or it has been taken for
            // unknown since it was asked for, with what else the node held.
            let installed = Arc::make_mut(&mut self.view.installed);
            lane_smp::learn(Arc::make_mut(&mut installed.lanes), fabric, table, mad.smp_data());
            return false;
        }
        // A sweep is due: nothing more is asked.
        self.lane_read_back.todo.clear();
        out.push(Output::Event(Event::LanesDiffer {
            what: fabric.port_name(table.port()),
            table: match table {
                LaneTable::SlToVl { .. } => "SLtoVLMappingTable",
                LaneTable::Arbitration { .. } => "VLArbitrationTable",
            },
        }));
        self.forget_repairs();
        // Whoever was off while it was being written may have lost the others as well, whose turn would be an interval
        // of many light sweeps away: the sweep that is due reads all of them.
        let held = Arc::make_mut(&mut Arc::make_mut(&mut self.view.installed).lanes);
        held.forget_port(fabric.node(table.port().node), table.port().port);
        lane_smp::learn(held, fabric, table, mad.smp_data());
        true
    }
}
